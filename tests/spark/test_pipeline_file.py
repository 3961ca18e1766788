"""Pipeline files: what they say, and what is said about those that are wrong, line by line."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from standfast.errors import StandfastError
from standfast.spark.pipeline_file import Rows, read_pipeline
from standfast.spark.toml_text import BadPipeline

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "pipeline"
GOOD = (FIXTURES / "good.toml").read_text()


def _file(tmp_path: Path, text: str) -> Path:
    for folder in ("supply", "demand", "queries"):
        (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "big.sql").write_text("SELECT * FROM supply WHERE quantity > :big")
    path = tmp_path / "pipeline.toml"
    path.write_text(text)
    return path


def _mistakes(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    with pytest.raises(BadPipeline) as caught:
        read_pipeline(_file(tmp_path, text))
    return [(m.line, m.what, m.hint) for m in caught.value.mistakes]


def _mistake_after(tmp_path: Path, old: str, new: str) -> tuple[str, str, str]:
    """The one mistake after a piece of the good file was replaced: its line's text, and words."""
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    ((line, what, hint),) = _mistakes(tmp_path, text)
    return text.splitlines()[line - 1], what, hint


def test_a_good_file_is_read_whole(tmp_path):
    pipeline = read_pipeline(_file(tmp_path, GOOD))
    assert (pipeline.master, dict(pipeline.conf)) == (
        "local[2]",
        {"spark.sql.shuffle.partitions": "3", "spark.ui.enabled": "true"},
    )
    supply, demand = pipeline.inputs["supply"], pipeline.inputs["demand"]
    assert (supply.time, supply.id, supply.key) == ("at", "nr", ())
    assert (demand.time, demand.id, demand.key) == (None, None, ("part",))
    assert supply.rows.options == {
        "header": "true", "enforceSchema": "false", "sep": ";", "maxFilesPerTrigger": "1",
    }  # fmt: skip
    assert demand.rows == Rows(
        "json", str(tmp_path / "demand"), {}, {"part": "int64", "quantity": "float64"}, False
    )
    assert {name: t.strategy for name, t in pipeline.templates.items()} == {
        "alerts": "hotspot",
        "big": "auto",
    }
    assert pipeline.templates["big"].sql == "SELECT * FROM supply WHERE quantity > :big"
    assert (pipeline.output.form, pipeline.output.path) == ("rows", str(tmp_path / "out"))
    job = pipeline.job
    assert (job.name, job.checkpoint, job.trigger, job.shards, job.watermark) == (
        "alerting", str(tmp_path / "checkpoint"), "5 seconds", 4, "10 minutes",
    )  # fmt: skip
    assert pipeline.streams


def test_the_columns_of_queries_follow_from_the_templates(tmp_path):
    pipeline = read_pipeline(_file(tmp_path, GOOD))
    assert pipeline.queries.schema == {
        "template": "string", "op": "string", "id": "int64",
        "lo": "float64", "hi": "float64", "least": "float64", "most": "float64", "big": "float64",
    }  # fmt: skip


def test_a_file_of_nothing_but_static_rows_is_no_stream_and_needs_no_checkpoint(tmp_path):
    text = GOOD.replace('path = "supply"', 'path = "supply"\nstream = false')
    text = text.replace('path = "queries"', 'path = "queries"\nstream = false')
    text = text.replace('checkpoint = "checkpoint"\n', "")
    assert not read_pipeline(_file(tmp_path, text)).streams


def test_an_address_stays_as_it_is_and_a_pattern_need_not_exist(tmp_path):
    text = GOOD.replace('path = "queries"', 'path = "s3a://bucket/queries"')
    text = text.replace('path = "supply"', 'path = "supply/day=*"')
    pipeline = read_pipeline(_file(tmp_path, text))
    assert pipeline.queries.path == "s3a://bucket/queries"
    assert pipeline.inputs["supply"].rows.path == str(tmp_path / "supply/day=*")


BUSY = '''
[templates.busy]
sql = """
SELECT part, SUM(quantity) OVER (PARTITION BY part ORDER BY at
RANGE BETWEEN :within PRECEDING AND CURRENT ROW) AS total FROM supply QUALIFY total > :big
"""
'''


@pytest.mark.parametrize("time", ['time = "at"\n', ""])
@pytest.mark.parametrize("id", ['id = "nr"\n', ""])
def test_a_window_is_over_the_time_of_its_input_or_over_the_only_timestamp(tmp_path, time, id):
    text = GOOD.replace('time = "at"\n', time).replace('id = "nr"\n', id) + BUSY
    pipeline = read_pipeline(_file(tmp_path, text))
    assert list(pipeline.templates) == ["alerts", "big", "busy"]
    assert pipeline.queries.schema["within"] == "int64"


def test_a_window_over_rows_that_have_no_time_is_a_mistake(tmp_path):
    text = GOOD.replace('at = "timestamp", ', 'at = "timestamp", till = "timestamp", ')
    needed = "template 'busy': a window needs a stream with a time column: supply"
    ((_, what, hint),) = _mistakes(tmp_path, text.replace('time = "at"\n', "") + BUSY)
    assert what == needed
    assert hint.startswith("name the column in the section of its input: time = ...")
    # Without a watermark a timestamp is a column like any other: the job would refuse the window.
    text = re.sub('(?m)^watermark = .*\n|^time = "at"\n', "", GOOD) + BUSY
    assert [what for _, what, _ in _mistakes(tmp_path, text)] == [needed]


def test_ticks_come_with_their_columns_and_kafka_with_options(tmp_path):
    text = """\
[inputs.ticks]
format = "rate"
[inputs.orders]
format = "kafka"
schema = { value = "int64" }
options = { kafka.bootstrap.servers = "one:9092", subscribe = "orders" }
[templates.echo]
sql = "SELECT * FROM ticks t JOIN orders o ON t.value = o.value WHERE t.value > :low"
[queries]
format = "json"
path = "queries"
[output]
path = "out"
[job]
checkpoint = "c"
trigger = "available now"
"""
    pipeline = read_pipeline(_file(tmp_path, text))
    assert pipeline.inputs["ticks"].rows.schema == {"timestamp": "timestamp", "value": "int64"}
    assert pipeline.inputs["orders"].rows.options == {
        "kafka.bootstrap.servers": "one:9092", "subscribe": "orders",
    }  # fmt: skip
    assert (pipeline.output.form, pipeline.job.name) == ("pairs", "pipeline")
    assert pipeline.job.trigger == "available now"


def _cases() -> list[dict[str, str]]:
    text = (FIXTURES / "wrong.txt").read_text()
    blocks = [block for block in text.split("\n\n") if not block.startswith("#")]
    cases = [dict(line.split(":", 1) for line in b.strip().splitlines()) for b in blocks]
    return [{key: value.strip(" ").replace("\\n", "\n") for key, value in c.items()} for c in cases]


@pytest.mark.parametrize("case", _cases(), ids=lambda case: case["becomes"].strip()[:40])
def test_a_mistake_is_told_with_its_line_and_a_hint(tmp_path, case):
    said = _mistake_after(tmp_path, case["piece"], case["becomes"])
    for found, wanted in zip(said, (case["at"], case["says"], case["hint"]), strict=True):
        is_begun = wanted.endswith("...") and found.startswith(wanted.removesuffix("..."))
        assert is_begun or found == wanted


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines(tmp_path):
    text = GOOD.replace("local[2]", "").replace('id = "nr"', "id = 1").replace("shards", "shreds")
    file = _file(tmp_path, text)
    with pytest.raises(BadPipeline) as caught:
        read_pipeline(file)
    assert str(caught.value) == (
        f"{file}:2: [session] master is empty\n  hint: write something, or leave it out\n"
        f"{file}:11: [inputs.supply] id takes text, got 1\n  hint: give text\n"
        f"{file}:46: [job] has the unknown key 'shreds'\n  hint: did you mean 'shards'?"
    )


@pytest.mark.parametrize(("key", "section"), [("out", "output"), ("checkpoint", "job")])
def test_a_folder_that_one_may_not_write_into_is_a_mistake(tmp_path, monkeypatch, key, section):
    """Spark found out after a whole micro-batch, or a trace ended the job."""
    closed = tmp_path / "closed"
    closed.mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != closed)
    line, what, hint = _mistake_after(tmp_path, f'= "{key}"', f'= "closed/{key}/deep"')
    assert line.endswith(f'"closed/{key}/deep"')
    assert what.startswith(f"[{section}] ")
    assert what.endswith(f" cannot be written to: you may not write into {closed}")
    assert hint == "name another folder, or have its owner let you in"


@pytest.mark.parametrize(
    ("piece", "title"),
    [('"supply"', "[inputs.supply] path"), ('"out"', "[output] path"),
     ('"checkpoint"', "[job] checkpoint")],
)  # fmt: skip
def test_a_path_in_a_folder_that_one_may_not_enter_is_a_mistake(
    tmp_path, monkeypatch, piece, title
):
    """A trace ended the command; of inputs it was said that nothing is there."""
    look, shut = os.stat, str(tmp_path / "shut")

    def stat(path, **how):
        if str(path).startswith(f"{shut}/"):
            raise PermissionError(13, "Permission denied")
        return look(path, **how)

    monkeypatch.setattr(os, "stat", stat)
    _, what, hint = _mistake_after(tmp_path, f"= {piece}", '= "shut/deep"')
    assert what == f"{title} cannot be looked at: you may not enter its folder: {shut}/deep"
    assert hint == "name another folder, or have its owner let you in"


def test_an_input_that_one_may_not_read_is_a_mistake(tmp_path, monkeypatch):
    """Spark found out when it was there."""
    shut = tmp_path / "supply"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != shut)
    ((_, what, hint),) = _mistakes(tmp_path, GOOD)
    assert what == f"[inputs.supply] cannot be read: you may not read {shut}"
    assert hint == "name another folder, or have its owner let you in"


def test_a_path_with_a_name_that_is_too_long_is_a_mistake(tmp_path):
    """A trace ended the command."""
    _, what, _ = _mistake_after(tmp_path, '= "out"', f'= "{"x" * 5000}"')
    assert what.startswith("[output] path leads nowhere (File name too long): '/")
    assert len(what) < 200


@pytest.mark.parametrize(
    ("pattern", "out", "is_read"),
    [("*", "out", True), ("{supply,out}", "out", True), ("[!a-n]ut", "out", True),
     ("[^o]ut", "out", False), ("*/new", "out/new/deep", True), ("*/new", "out", False),
     ("{supply,part}", "out", False), (r"\\*", "out", False), ("?", "out", False)],
)  # fmt: skip
def test_a_folder_that_a_pattern_of_an_input_names_is_not_written_to(
    tmp_path, pattern, out, is_read
):
    """The next start ended, as Spark met folders of two kinds there."""
    text = GOOD.replace('path = "supply"', f'path = "{pattern}"').replace('"out"', f'"{out}"')
    text = text.replace('"checkpoint"', f'"{tmp_path}.checkpoint"')
    if not is_read:
        read_pipeline(_file(tmp_path, text))
        return
    ((_, what, _),) = _mistakes(tmp_path, text)
    assert what == "[output] path lies in the folder that [inputs.supply] is read from"


def test_no_time_at_all_is_a_length_of_time(tmp_path):
    """`attach` took a watermark of nothing, and the file did not."""
    text = GOOD.replace('"10 minutes"', '"0 seconds"').replace('"5 seconds"', '"0 seconds"')
    job = read_pipeline(_file(tmp_path, text)).job
    assert (job.trigger, job.watermark) == ("0 seconds", "0 seconds")


def test_an_input_that_no_template_reads_is_a_mistake(tmp_path):
    text = GOOD + '[inputs.spare]\nformat = "rate"\n'
    ((line, what, hint),) = _mistakes(tmp_path, text)
    assert text.splitlines()[line - 1] == "[inputs.spare]"
    assert (what, hint) == ("no template reads the input 'spare'", "leave it out")


def test_holes_of_one_name_and_two_kinds_are_a_mistake(tmp_path):
    text = GOOD.replace('part = "int64"\nquantity', 'part = "int64"\nmaker = "string"\nquantity')
    text += '[templates.made]\nsql = "SELECT * FROM demand WHERE maker = :big"\n'
    ((_, what, hint),) = _mistakes(tmp_path, text)
    assert what == "[queries] column 'big' is float64, unfit for the hole :big of template 'made'"
    assert hint == 'declare big = "string", or give the hole a new name'


def test_queries_in_csv_need_their_columns_in_order(tmp_path):
    text = GOOD.replace('format = "parquet"', 'format = "csv"')
    ((_, what, hint),) = _mistakes(tmp_path, text)
    assert what == "the section [queries.schema] is missing or empty"
    assert hint.startswith("name the columns in their order")


def test_an_empty_file_lacks_every_section_that_is_needed(tmp_path):
    said = [what for _, what, _ in _mistakes(tmp_path, "")]
    needed = ("inputs", "templates", "queries", "output")
    assert said == [f"the section [{name}] is missing or empty" for name in needed]


def test_a_misspelt_section_is_named_beside_the_one_that_is_missing(tmp_path):
    text = GOOD.replace("[output]", "[ouput]")
    said = [(what, hint) for _, what, hint in _mistakes(tmp_path, text)]
    assert said == [
        ("the section [output] is missing or empty", "say where the answers go: [output]"),
        ("the file has the unknown key 'ouput'", "did you mean 'output'?"),
    ]


def test_a_section_that_is_no_table_is_a_mistake_and_no_crash(tmp_path):
    for name in ("session", "inputs", "templates", "queries", "output", "job"):
        for value in ("1", '"x"', "[]", "[{a = 1}]", "1979-05-27", "true", "{ a = 1 }"):
            assert (1, f"{name} = {value}") in {
                (line, f"{name} = {value}")
                for line, *_ in _mistakes(tmp_path, f"{name} = {value}\n")
            }


def test_a_mark_before_the_text_is_none_of_it(tmp_path):
    """It was said that the first line is not TOML."""
    path = _file(tmp_path, GOOD)
    path.write_text("\ufeff" + GOOD)
    (tmp_path / "big.sql").write_text("\ufeffSELECT * FROM supply WHERE quantity > :big")
    assert list(read_pipeline(path).templates) == ["alerts", "big"]


def test_a_pipeline_file_in_a_folder_with_a_pattern_is_told(tmp_path):
    """Spark took the folder for others, and read what they have or nothing."""
    folder = tmp_path / "data[1]"
    folder.mkdir()
    text = GOOD.replace('"out"', f'"{tmp_path}/out"')
    where = f"is in a folder with a character of patterns: {folder}"
    assert [what for _, what, _ in _mistakes(folder, text)] == [
        f"[inputs.supply] path {where}", f"[inputs.demand] path {where}",
        f"[queries] path {where}", f"[job] checkpoint {where}",
    ]  # fmt: skip


def test_a_file_that_cannot_be_read_is_told(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    for name in ("nowhere.toml", "binary.toml", ".", "a\0b"):
        with pytest.raises(StandfastError, match="cannot be read"):
            read_pipeline(tmp_path / name)


def test_what_a_section_lacks_that_is_none_is_not_told(tmp_path):
    """Each of its keys was missing, too."""
    text = GOOD.replace("[templates.big]\nfile", "[templates]\nbig")
    assert [(what, hint) for _, what, hint in _mistakes(tmp_path, text)] == [
        ("[templates] big takes a table, got 'big.sql'", "begin a section [templates.big]")
    ]
