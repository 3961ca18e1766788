"""Rows and changes that Spark could not read are dead letters with their text, counted once."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from rich.console import Console
from tests.spark.playing import Outcome, chunks_of

from standfast.model.stream import Input
from standfast.spark import Source, attached
from standfast.spark.arriving import TEXT
from standfast.spark.host import build
from standfast.spark.progress import Totals
from standfast.spark.run import JobFailed, decoded, run
from standfast.spark.shard import Shard
from standfast.spark.spec import Spec

LOST = "cannot be read"
INPUTS = {
    "s": Input.stream(
        "s", {"id": "int64", "k": "int64", "v": "float64", "ts": "timestamp"}, time="ts",
        lateness_us=100, id="id",
    ),
    "d": Input.stream("d", {"k": "int64", "v": "float64"}),
}  # fmt: skip
TEMPLATES = {
    "filter": "SELECT * FROM s WHERE v >= :lo",
    "joined": "SELECT s.v, d.v AS other FROM s JOIN d ON s.k = d.k WHERE s.v >= :lo AND d.v >= :lo",
    "sums": "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN 50 PRECEDING AND "
    "CURRENT ROW) AS answer FROM s QUALIFY answer >= :lo",
}


def with_bad(table: pa.Table, bad: dict[int, str]) -> pa.Table:
    """The same rows, some of which come with a text: nothing else of them counts."""
    texts = [bad.get(i) for i in range(table.num_rows)]
    return table.append_column(TEXT, pa.array(texts, pa.string()))


def history(*, is_whole: bool) -> list[tuple[pa.Table | None, dict[str, pa.Table]]]:
    """Some micro-batches; with `is_whole` bad rows stand among the good ones.

    The bad ones have ids that good ones have, and times that would make all others late.
    """
    rng, found = np.random.default_rng(3), list[tuple[pa.Table | None, dict[str, pa.Table]]]()
    for batch in range(4):
        n = 30
        times = 1000 + 20 * batch + rng.integers(0, 20, n)
        s = {
            "id": 100 * batch + np.arange(n), "k": rng.integers(0, 4, n),
            "v": rng.normal(size=n).round(2), "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }  # fmt: skip
        rows = {"s": pa.table(s), "d": pa.table({"k": s["k"][:8], "v": s["v"][:8]})}
        adds = {"template": [*TEMPLATES], "id": [batch] * 3, "lo": rng.normal(size=3).round(2)}
        changes = pa.table(adds)
        if is_whole:
            first = rows["s"].slice(0, 5)
            late = pa.array(np.full(5, 10**6), pa.timestamp("us", "UTC"))
            first = first.set_column(3, "ts", late)
            rows["s"] = with_bad(
                pa.concat_tables([first, rows["s"]]), {i: f"s {batch} {i}" for i in range(5)}
            )
            rows["d"] = with_bad(pa.concat_tables([rows["d"], rows["d"]]), {
                i: f"d {batch} {i}" for i in range(8, 16)
            })  # fmt: skip
            unknown = pa.table({"template": ["filter", None], "id": [batch, None], "lo": [None, 1]})
            unknown = unknown.cast(changes.schema)
            changes = with_bad(pa.concat_tables([unknown, changes]), {0: "filter,?", 1: "?"})
        found.append((changes, rows))
    return found


def played(n_shards: int, *, is_whole: bool) -> Outcome:
    """What shards say that are built anew before each micro-batch."""
    spec, outcome = Spec(INPUTS, TEMPLATES, {}, "rows", n_shards), Outcome()
    states = [[Shard(spec, i).to_bytes()] for i in range(n_shards)]
    for batch, (changes, rows) in enumerate(history(is_whole=is_whole)):
        parts = chunks_of(spec, batch, changes, rows)
        assert all(parts), "every shard takes part"
        for i, chunks in enumerate(parts):
            shard = build(spec, i, states[i])
            states[i].append(outcome.apply(spec, shard, chunks).log)
    return outcome


def without_numbers(answers: Counter[tuple[Any, ...]]) -> Counter[str]:
    """Answers without the events of `d`, which have no id and are numbered as they come."""
    names = Spec(INPUTS, TEMPLATES, {}, "rows", 1).output.schema.names
    found: Counter[str] = Counter()
    for row, n in answers.items():
        told = dict(zip(names, row, strict=True))
        found[str(told | ({"event": None} if told["input"] == "d" else {}))] += n
    return found


@pytest.mark.parametrize("n_shards", [1, 2, 3, 4])
def test_rows_that_cannot_be_read_change_nothing_and_are_rejected_once(n_shards: int) -> None:
    """They were rows with nulls: used, they moved time, and the good ones were duplicates."""
    good, whole = (played(n_shards, is_whole=flag) for flag in (False, True))
    assert sum(good.answers.values()) > 100
    assert without_numbers(whole.answers) == without_numbers(good.answers)
    assert good.letters == Counter()
    n_bad = 4 * (5 + 8)
    assert whole.tally["received"] == good.tally["received"] + n_bad
    assert (whole.tally["rejected"], whole.tally["refused"]) == (n_bad, 8)
    for what in ("used", "late", "duplicate", "added", "registry", "queries"):
        assert whole.tally[what] == good.tally[what], what
    assert {n for letter, n in whole.letters.items() if letter[0] in INPUTS} == {1}
    texts = sorted(letter[4] for letter in whole.letters.elements())
    assert len([text for text in texts if "?" not in text]) == n_bad
    assert ("s", "301", LOST, None, "s 3 1") in whole.letters
    assert whole.letters["filter", "2", LOST, None, "filter,?"] == 1
    assert whole.letters[None, None, LOST, None, "?"] == 4


def test_a_text_that_is_none_is_shown_all_the_same() -> None:
    damaged = pa.array([b"\xff broken", None], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, damaged.buffers())
    rows = pa.table({"k": [1, 2], "v": [1.0, 2.0]}).append_column(TEXT, texts)
    spec, outcome = Spec(INPUTS, TEMPLATES, {}, "rows", 1), Outcome()
    (chunks,) = chunks_of(spec, 0, None, {"d": rows}, tasks=1)
    outcome.apply(spec, Shard(spec), chunks)
    assert list(outcome.letters) == [("d", "0", LOST, None, "\ufffd broken")]
    assert (outcome.tally["received"], outcome.tally["used"], outcome.tally["rejected"]) == (
        2,
        1,
        1,
    )


PIPELINE = """
[inputs.stock]
format = "json"
path = "stock"
stream = {stream}
key = "item"
schema = {{ item = "int64", quantity = "int64" }}

[inputs.trades]
format = "{format}"
path = "trades"
stream = {stream}
id = "id"
schema = {{ id = "int64", at = "timestamp", item = "int64", price = "float64" }}
options = {{ {options} }}

[templates.cheap]
sql = "SELECT * FROM trades WHERE price < :limit"
[templates.scarce]
sql = "SELECT t.id FROM trades t JOIN stock s ON t.item = s.item WHERE s.quantity < :few"

[queries]
format = "csv"
path = "queries"
stream = {stream}
schema = {{ template = "string", op = "string", id = "int64", limit = "float64", few = "int64" }}

[output]
path = "answers"
[job]
checkpoint = "checkpoint"
trigger = "available now"
shards = 2
"""
STOCK = ['{"item": 1, "quantity": 1}', '{"item": 2, "quantity": "none"}', "{"]
TRADES = [
    "1,2024-05-06 09:00:00,1,5.0", "2,soon,1,5.0", "3,2024-05-06 09:00:00,2,cheap",
    "4,2024-05-06 09:00:00,1", "5,2024-05-06 09:00:00,1,5.0,?", "x,2024-05-06 09:00:00,1,5.0",
    "6,2024-05-06 09:00:00,2,", "2,2024-05-06 09:00:00,1,4.0",
]  # fmt: skip
CHANGES = ["cheap,add,1,6,", "cheap,add,2,low,", "scarce,,1,,3", "cheap,add,3", "scarce,add,4,,1.5"]
AS_JSON = [
    '{"id": 1, "at": "2024-05-06 09:00:00", "item": 1, "price": 5}', '{"id": 2, "at": "soon"}',
    '{"id": 3, "price": "cheap"}', "[1]", "{", '{"id": "x"}',
    '{"id": 6, "item": 2, "more": 1}', '{"id": 2, "item": 1, "price": 4.0}',
]  # fmt: skip


def job_in(folder: Path, *, stream: bool, format: str = "csv", options: str = "") -> Path:
    """A pipeline file and what it reads: eight trades, of which five cannot be read."""
    csv = {
        "trades": ["id,at,item,price", *TRADES], "queries": ["template,op,id,limit,few", *CHANGES],
    }  # fmt: skip
    lines = {"stock": STOCK, **csv} | ({"trades": AS_JSON} if format == "json" else {})
    for name, texts in lines.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text("\n".join(texts) + "\n")
    file = folder / "pipeline.toml"
    file.write_text(PIPELINE.format(format=format, stream=json.dumps(stream), options=options))
    return file


def ran(spark: SparkSession, file: Path) -> tuple[Totals, list[dict[str, Any]]]:
    """What was counted, and what was written."""
    totals = run(file, console=Console(file=io.StringIO()), spark=spark)
    return totals, ds.dataset(file.parent / "answers", partitioning="hive").to_table().to_pylist()


@pytest.mark.parametrize("format", ["csv", "json"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_pipeline_rejects_what_it_cannot_read(
    spark: SparkSession, tmp_path: Path, format: str, stream: bool
) -> None:
    """Their values were null, and the rows were used."""
    totals, rows = ran(spark, job_in(tmp_path / "job", stream=stream, format=format))
    counts = {name: totals.counts[name] for name in ("received", "used", "rejected", "duplicate")}
    assert counts == {"received": 11, "used": 4, "rejected": 7, "duplicate": 0}
    assert (totals.counts["added"], totals.counts["refused"]) == (2, 3)
    answers = [r for r in rows if r["kind"] == "answers"]
    assert sorted((r["template"], r["query"], r["event"]) for r in answers) == [
        ("cheap", 1, 1), ("cheap", 1, 2), ("scarce", 1, 1), ("scarce", 1, 2),
    ]  # fmt: skip
    letters = [r["letter"] for r in rows if r["kind"] == "letters"]
    assert {letter["reason"] for letter in letters} == {LOST}
    found = {
        source: sorted(letter["value"] for letter in letters if letter["source"] == source)
        for source in ("stock", "trades", "cheap", "scarce")
    }
    bad = TRADES[1:6] if format == "csv" else AS_JSON[1:6]
    assert found == {
        "stock": sorted(STOCK[1:]), "trades": sorted(bad), "cheap": [CHANGES[1], CHANGES[3]],
        "scarce": [CHANGES[4]],
    }  # fmt: skip
    events = {letter["value"]: letter["event"] for letter in letters}
    assert (events[bad[0]], events[bad[4]], events[CHANGES[1]]) == ("2", None, "2")


def test_a_job_that_asks_to_fail_fast_ends_at_a_row_that_cannot_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = job_in(tmp_path / "job", stream=False, options='mode = "FAILFAST"')
    with pytest.raises(JobFailed, match="The value 'soon'"):
        ran(spark, file)


def test_a_message_that_is_no_row_comes_as_its_text(spark: SparkSession) -> None:
    values = [b'{"a": 1, "b": "x", "c": 2}', b'{"a": "x"}', b"{", None, b"", b'[{"a": 1}]']
    messages = spark.createDataFrame([(value,) for value in values], "value binary")
    found = decoded(messages, {"a": "int64", "b": "string"}).collect()
    assert [tuple(row) for row in found] == [
        (1, "x", None), (None, None, '{"a": "x"}'), (None, None, "{"), (None, None, ""),
        (None, None, ""), (None, None, '[{"a": 1}]'),
    ]  # fmt: skip


def test_attached_frames_say_which_column_has_the_text_of_rows_that_cannot_be_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What could not be read was null, and the row was used."""
    (tmp_path / "rows.json").write_text('{"id": 1, "x": 2}\n{"id": 2, "x": "?"}\n{"id": 3\n')
    reader = spark.read.schema("id bigint, x double, `not.read` string")
    rows = reader.option("columnNameOfCorruptRecord", "not.read").json(str(tmp_path))
    changes = [("f", 1, 0.0, None), ("f", 2, None, "f,2,low")]
    queries = spark.createDataFrame(changes, "template string, id bigint, lo double, bad string")
    job = attached(
        spark, {"a": Source(rows, id="id", text="not.read")},
        {"f": "SELECT * FROM a WHERE x >= :lo"}, Source(queries, text="bad"), shards=1,
    )  # fmt: skip
    found = job.everything.collect()
    answers = [(row.query, row.event) for row in found if row.kind == "answers"]
    letters = [row.letter for row in found if row.kind == "letters"]
    assert answers == [(1, 1)]
    assert sorted((letter.source, letter.reason, letter.value) for letter in letters) == [
        ("a", LOST, '{"id": 2, "x": "?"}'), ("a", LOST, '{"id": 3'), ("f", LOST, "f,2,low"),
    ]  # fmt: skip
