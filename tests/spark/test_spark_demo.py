"""The demo on Spark: its files, what is expected of them, and a small one from end to end."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from standfast import demo, spark_demo
from standfast.cli import app
from standfast.demo_queries import CHECKED_ROWS, COLUMNS, TEMPLATES, WINDOWS
from standfast.engine.engine import Engine
from standfast.spark import changes
from standfast.spark.pipeline_file import read_pipeline
from standfast.spark.progress import SUMMED, Snapshot, Totals

N_TRADES = 78_638
N_QUERIES = 10_000
LONGEST_S = 600
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Seven micro-batches, of which the first, fourth and seventh change queries."""
    made = spark_demo.Recording(tmp_path_factory.mktemp("demo") / "out", N_QUERIES, 5, n_batches=7)
    assert list(made.write()) == list(range(7))
    return made


def _files(recording, name):
    return sorted((recording.folder / name).iterdir(), key=lambda path: path.stat().st_mtime)


def test_every_trade_is_in_one_file_and_the_last_of_a_file_come_again(recording):
    tables = [pq.read_table(path) for path in _files(recording, "trades")]
    seen = -1
    for number, table in enumerate(tables):
        ids = table["id"].to_pylist()
        assert ids == list(range(ids[0], ids[-1] + 1))
        assert ids[0] == seen + 1 - (spark_demo.REPEATED_ROWS if number else 0)
        seen = ids[-1]
    assert (len(tables), seen) == (7, N_TRADES - 1)
    assert recording.n_repeated == 2 * 6 * spark_demo.REPEATED_ROWS


def test_every_trade_is_one_of_spot_or_of_futures(recording):
    for paths in zip(*(_files(recording, name) for name in spark_demo.INPUTS), strict=True):
        trades, spot, futures = (pq.read_table(path)["id"].to_pylist() for path in paths)
        assert sorted(spot + futures) == trades
        assert len(spot) > 0
        assert len(futures) > 0


def test_files_are_as_old_as_their_order_says(recording):
    for name in (*spark_demo.INPUTS, "queries"):
        files = _files(recording, name)
        assert [path.name for path in files] == [f"{n:03}.parquet" for n in range(7)]
        seconds = {int(path.stat().st_mtime) for path in files}
        assert len(seconds) == 7  # some file systems tell no more than seconds


def test_queries_are_added_at_first_and_then_some_change_in_every_third_micro_batch(recording):
    tables = [pq.read_table(path) for path in _files(recording, "queries")]
    assert [table.num_rows for table in tables] == [N_QUERIES, 0, 0, 201, 0, 0, 201]
    assert len({table.schema for table in tables}) == 1
    assert set(tables[0]["op"].to_pylist()) == {"add"}
    assert tables[3]["op"].to_pylist().count("remove") == 100
    assert (recording.n_added, recording.n_removed) == (N_QUERIES + 200, 200)
    assert (recording.n_refused, recording.n_versions) == (2, 3)
    assert len(recording.asked) == N_QUERIES


def test_the_pipeline_file_is_in_order(recording):
    pipeline = read_pipeline(recording.pipeline)
    assert list(pipeline.inputs) == ["trades", "spot", "futures"]
    assert list(pipeline.templates) == list(TEMPLATES)
    assert (pipeline.output.form, pipeline.job.watermark) == ("counts", "2 seconds")
    assert pipeline.queries.schema.keys() == set(
        pq.read_table(_files(recording, "queries")[0]).column_names
    )
    shards = pipeline.job.shards
    assert pipeline.conf == {"spark.sql.shuffle.partitions": str(shards)}
    assert 1 <= shards <= spark_demo.MOST_SHARDS


@dataclass
class _Played:
    """What an engine says about the files, as the job would write it."""

    answers: pa.Table
    totals: Totals


@pytest.fixture(scope="module")
def played(recording):
    """The files through one engine: changes, then trades, spot, futures."""
    engine = Engine()
    for name in spark_demo.INPUTS:
        columns = {"id": "int64", **COLUMNS}
        engine.stream(name, columns, time="time", lateness_us=demo.LATENESS_US, id="id")
    groups = {name: engine.register(sql, name=name) for name, sql in TEMPLATES.items()}
    tables, counts = [], dict.fromkeys(SUMMED, 0)
    for number, queries in enumerate(_files(recording, "queries")):
        outcome = changes.apply(groups, pq.read_table(queries))
        counts["added"] += outcome.added
        counts["removed"] += outcome.removed
        counts["refused"] += len(outcome.refused)
        for name in spark_demo.INPUTS:
            rows = pq.read_table(_files(recording, name)[number])
            for template, answer in engine.push(name, rows).items():
                found, events = answer.counts()["queries"], rows["id"]
                if template in WINDOWS:  # by the micro-batch, and by no row of it
                    found, events = pa.array([pc.sum(found).as_py()]), pa.nulls(1, pa.int64())
                n = len(found)
                columns = [pa.repeat(number, n), pa.repeat(template, n), events, found]
                tables.append(
                    pa.table(columns, names=["batch", "template", "event", "queries"]).filter(
                        pa.array(found.to_numpy() > 0)
                    )
                )
    for name in spark_demo.INPUTS:
        for what, n in engine.counters(name).items():
            counts[what] += n
    levels = {"queries": sum(map(len, groups.values())), "registry": 3}
    last = Snapshot(6, 0, 0, 0, 0, 0, 0, 0, levels, {})
    totals = Totals(n_batches=7, last=last, batch_ms=2000.0, counts=counts)
    return _Played(pa.concat_tables(tables), totals)


LETTERS = ["duplicate", "duplicate", "no end"]


def _keep(recording, answers):
    """Write answers, and some letters, as the sink does."""
    schema = answers.drop_columns("batch").schema.append(
        pa.field("letter", pa.struct([("reason", pa.string())]))
    )
    letters = pa.Table.from_pylist([{"letter": {"reason": r}} for r in LETTERS], schema)
    for number in range(recording.n_batches):
        folder = recording.folder / "answers" / f"batch={number}"
        some = answers.filter(pc.equal(answers["batch"], number)).drop_columns("batch")
        _write(pa.Table.from_pylist(some.to_pylist(), schema), folder / "kind=answers")
        if number == 3:
            _write(letters, folder / "kind=letters")
        _done(folder / "_SUCCESS", 2 * number + 2)
    _done(recording.folder / "checkpoint" / "metadata", 1)


def _write(table, folder):
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, folder / "0.parquet")


def _done(path, second):
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, (1_700_000_000 + second,) * 2)


def test_brute_force_expects_what_an_engine_answers(recording, played):
    _keep(recording, played.answers)
    outcome = spark_demo.read(recording)
    found = Counter(template for template, _ in recording.expected)
    assert found == {name: 3 if name in WINDOWS else 3 * CHECKED_ROWS for name in TEMPLATES}
    for name in TEMPLATES:  # otherwise nothing would be compared
        assert any(n for (template, _), n in recording.expected.items() if template == name)
        mine = pc.equal(played.answers["template"], name)
        assert outcome.answers[name] == played.answers.filter(mine).num_rows
        total = pc.sum(played.answers.filter(mine)["queries"]).as_py()
        assert sum(batch[name] for batch in outcome.affected) == total > 0
    assert outcome.seconds == [1.0] + [2.0] * 6
    assert outcome.letters == {"duplicate": 2, "no end": 1}


def test_a_wrong_a_missing_and_a_doubled_answer_are_noticed(recording, played):
    (template, row), n = next(item for item in recording.expected.items() if item[1] > 0)
    answers = played.answers.to_pylist()
    place = next(i for i, a in enumerate(answers) if (a["template"], a["event"]) == (template, row))
    wrong = [*answers[:place], answers[place] | {"queries": n + 1}, *answers[place + 1 :]]
    missing = answers[:place] + answers[place + 1 :]
    for some, words in (
        (wrong, f"{template}: {n + 1} affected queries, brute force finds {n}"),
        (missing, f"{template}: 0 affected queries, brute force finds {n}"),
        ([*answers, answers[place]], f"{template}: row {row} is answered twice"),
    ):
        _keep(recording, pa.Table.from_pylist(some, played.answers.schema))
        with pytest.raises(AssertionError, match=words):
            spark_demo.read(recording)


@pytest.mark.parametrize("template", WINDOWS)
def test_windows_that_too_many_or_too_few_queries_tell_of_are_noticed(recording, played, template):
    n = recording.expected[template, 3]
    answers = played.answers.to_pylist()
    place = next(i for i, a in enumerate(answers) if (a["template"], a["batch"]) == (template, 3))
    assert answers[place]["event"] is None
    # Two shards that tell of half of the queries each are as good as one.
    halves = [answers[place] | {"queries": k} for k in (n // 2, n - n // 2)]
    others = answers[:place] + answers[place + 1 :]
    _keep(recording, pa.Table.from_pylist([*others, *halves], played.answers.schema))
    spark_demo.read(recording)
    for some, found in (
        (others, 0),
        ([*others, *halves[1:]], n - n // 2),
        (answers + halves, 2 * n),
    ):
        _keep(recording, pa.Table.from_pylist(some, played.answers.schema))
        words = f"{template}: {found} affected queries, brute force finds {n}"
        with pytest.raises(AssertionError, match=words):
            spark_demo.read(recording)


def test_every_row_and_every_change_is_accounted_for(recording, played):
    spark_demo.check(recording, played.totals)
    for name in ("used", "duplicate", "added", "removed", "refused"):
        counts = played.totals.counts | {name: played.totals.counts[name] + 1}
        with pytest.raises(AssertionError, match="counted"):
            spark_demo.check(recording, replace(played.totals, counts=counts))


def test_the_summary_tells_what_came_in_and_what_became_of_it(recording, played):
    _keep(recording, played.answers)
    console = Console(file=io.StringIO(), width=120)
    console.print(spark_demo.summary(recording, played.totals, spark_demo.read(recording)))
    text = " ".join(console.file.getvalue().split())
    assert "78,638 trades in 7 micro-batches and 2.0 s: 39,319 trades per second" in text
    assert "157,336 rows received = 157,276 used + 0 late + 60 duplicate + 0 rejected" in text
    assert "registry version 3: 10,200 queries came, 200 went" in text
    assert "dead letters: 2 duplicate, 1 no end" in text
    assert "66 answers compared with brute force: all equal" in text


def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "trades").mkdir()
    (tmp_path / "trades" / "mine").touch()
    (tmp_path / "file").touch()
    for folder in (tmp_path, tmp_path / "file"):
        done = CliRunner().invoke(app, ["demo", "--out", str(folder)])
        assert done.exit_code == 2
        assert f"Error: {folder} is there, and not made by the demo" in done.output
        assert "--out" in done.output
    assert (tmp_path / "trades" / "mine").exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "trades"]


def test_a_folder_of_the_demo_is_made_anew_and_other_files_in_it_stay(tmp_path):
    folder, elsewhere = tmp_path / "deep" / "out", tmp_path / "elsewhere"
    spark_demo.clear(folder)
    for name in spark_demo.WRITTEN[:-2]:
        _done(folder / name / "old", 0)
    (folder / "demo.png").touch()
    (folder / "mine").touch()
    _done(elsewhere / "theirs", 0)
    (folder / "checkpoint" / "old").unlink()
    (folder / "checkpoint").rmdir()
    (folder / "checkpoint").symlink_to(elsewhere)
    spark_demo.clear(folder)
    assert sorted(p.name for p in folder.iterdir()) == [spark_demo.MARKER, "mine"]
    assert (elsewhere / "theirs").exists()


PROGRAM = """
import sys
from pathlib import Path
from rich.console import Console
from standfast.spark.run import run
from standfast.spark_demo import play

folder = Path(sys.argv[1])
play(folder, 5000, 4, Console(width=120), n_batches=4)
assert run(folder / "pipeline.toml", console=Console()).n_batches == 0
play(folder, 200, 3, Console(width=120), n_batches=3)
"""


@pytest.mark.sweep
def test_the_demo_runs_on_spark_and_can_be_run_again(tmp_path):
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "out")], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": paths}, cwd=tmp_path, timeout=LONGEST_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert "78,638 trades in 4 micro-batches and" in text
    assert "157,306 rows received = 157,276 used + 0 late + 30 duplicate + 0 rejected" in text
    assert "registry version 2: 5,050 queries came, 50 went" in text
    assert "44 answers compared with brute force: all equal" in text
    assert "78,638 trades in 3 micro-batches and" in text
    assert "registry version 1: 200 queries came, 0 went" in text
    assert "22 answers compared with brute force: all equal" in text
    assert text.count("Picture: ") == 2
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(PNG)
