"""Rows as they arrive: times without a zone are UTC, and the file that was modified last wins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession, functions

from standfast.model.stream import Input
from standfast.spark import Source, attach, attached
from standfast.spark import shard as shard_module
from standfast.spark.arriving import FILE, arriving, by_file, in_utc
from standfast.spark.packing import ARRIVED, Place, pack_changes, pack_rows
from standfast.spark.progress import Snapshot
from standfast.spark.shard import Shard
from standfast.spark.spec import Spec
from standfast.spark.wire import Chunk

JOIN = "SELECT ev.p, tab.q FROM ev JOIN tab ON ev.k = tab.k WHERE tab.q > :least"
TABLE = Input.table("tab", {"k": "int64", "q": "float64"}, key="k")
EVENTS = Input.stream("ev", {"k": "int64", "p": "float64"})


def read(*rows: tuple[int, float, int, str, int]) -> pa.RecordBatch:
    """Rows of the table as Spark reads them: key, value, and the place of the file."""
    k, q, modified, path, start = zip(*rows, strict=True)
    times = pa.array(modified, pa.timestamp("us", "UTC"))
    arrived = pa.array([0] * len(rows), pa.timestamp("us", "UTC"))
    columns = [pa.array(k), pa.array(q), times, pa.array(path), pa.array(start), arrived]
    return pa.record_batch(columns, names=["k", "q", *FILE, ARRIVED])


def chunks(spec: Spec, task: int, *batches: pa.RecordBatch) -> Iterator[Chunk]:
    """What a task makes of rows of the table."""
    place = Place(0, task)
    for some in arriving(lambda found: pack_rows(spec.brief, [0], 0, found, place), batches):
        for row in some.to_pylist():
            yield Chunk(*(row[name] for name in Chunk._fields))


def test_rows_are_cut_where_another_file_begins() -> None:
    batch = read((1, 1.0, 5, "a", 0), (2, 2.0, 5, "a", 0), (1, 3.0, 5, "a", 9), (1, 4.0, 5, "b", 9))
    found = [piece["q"].to_pylist() for piece in by_file([batch])]
    assert found == [[1.0, 2.0], [3.0], [4.0]]
    plain = batch.drop_columns(list(FILE))
    assert list(by_file([plain])) == [plain]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((1, 10.0, 7, "a", 0), (1, 99.0, 6, "b", 0)),  # the first was modified later
        ((1, 10.0, 7, "b", 0), (1, 99.0, 7, "a", 0)),  # the first has the later name
        ((1, 10.0, 7, "a", 9), (1, 99.0, 7, "a", 0)),  # the first stands further behind
    ],
)
def test_the_row_of_the_last_file_replaces_the_others_whichever_task_reads_it(
    first, second
) -> None:
    """Chunks were taken task by task, and Spark gives the largest file to the first."""
    spec = Spec({"tab": TABLE, "ev": EVENTS}, {"j": JOIN}, {}, "rows", 1)
    shard = Shard(spec)
    shard.apply([*chunks(spec, 1, read(second)), *chunks(spec, 0, read(first))], lambda *_: None)
    assert stored(shard) == [10.0]
    shard = Shard(spec)
    shard.apply(list(chunks(spec, 0, read(first, second))), lambda *_: None)
    assert stored(shard) == [10.0]


def changed(task: int, *rows: tuple[str, int, int, str]) -> list[Chunk]:
    """What a task makes of changes: operation, id, when the file was modified and its name."""
    ops, ids, modified, path = zip(*rows, strict=True)
    n, times = len(rows), pa.array(modified, pa.timestamp("us", "UTC"))
    arrived = pa.array([0] * n, pa.timestamp("us", "UTC"))
    columns = [["j"] * n, ops, ids, [0.0] * n, times, path, [0] * n, arrived]
    names = ["template", "op", "id", "least", *FILE, ARRIVED]
    batch = pa.record_batch([pa.array(column) for column in columns], names=names)
    place = Place(0, task)
    found = arriving(lambda batches: pack_changes([0], batches, place), [batch])
    return [Chunk(*(row[n] for n in Chunk._fields)) for some in found for row in some.to_pylist()]


@pytest.mark.parametrize("newer", [(7, "a"), (6, "c")])
def test_changes_of_the_last_file_come_last_whichever_task_reads_it(newer) -> None:
    """Of files that came together Spark gives the largest to the first task."""
    shard = Shard(Spec({"tab": TABLE, "ev": EVENTS}, {"j": JOIN}, {}, "rows", 1))
    adds = changed(1, ("add", 1, 6, "b"), ("add", 2, 6, "b"))
    removes = changed(0, ("remove", 1, *newer))
    done = shard.apply([*removes, *adds], lambda *_: None)
    assert (done.tally["added"], done.tally["removed"], done.tally["refused"]) == (2, 1, 0)
    assert done.tally["queries"] == 1
    again = Shard(Spec({"tab": TABLE, "ev": EVENTS}, {"j": JOIN}, {}, "rows", 1))
    again.replay(done.log)
    assert ids(shard) == ids(again) == [2]


def ids(shard: Shard) -> list[int]:
    """The ids of the queries that stand, as far as one row tells."""
    (engine,) = shard._engines
    engine.push("tab", {"k": [1], "q": [1.0]})
    found = engine.push("ev", {"k": [1], "p": [0.0]})["j"].rows()
    return sorted(found["query"].to_pylist())


def test_many_small_files_of_changes_are_applied_together(monkeypatch) -> None:
    calls = []
    apply = shard_module.changes.apply

    def counted(groups, rows):
        calls.append(rows.num_rows)
        return apply(groups, rows)

    monkeypatch.setattr(shard_module.changes, "apply", counted)
    monkeypatch.setattr(shard_module, "CHANGES_AT_ONCE", 60)
    chunks = changed(0, *(("add", i, i, f"{i}") for i in range(100)))
    assert len(chunks) == 100, "one of each file"
    shard = Shard(Spec({"tab": TABLE, "ev": EVENTS}, {"j": JOIN}, {}, "rows", 1))
    done = shard.apply(chunks, lambda *_: None)
    assert (done.tally["added"], calls) == (100, [60, 40])


def stored(shard: Shard) -> list[float]:
    """The values of the table."""
    group = shard._groups()["j"]
    group.add({"id": [1], "least": [0.0]})
    (engine,) = shard._engines
    found = engine.push("ev", {"k": [1], "p": [0.0]})["j"].rows()
    values: list[float] = found["q"].to_pylist()
    return values


def test_dates_and_times_without_a_zone_are_utc() -> None:
    noon = datetime(2026, 7, 1, 12)
    zone = pa.array([noon.replace(tzinfo=UTC), None], pa.timestamp("us", "America/New_York"))
    batch = pa.record_batch({
        "day": pa.array([date(2026, 7, 1), None]),
        "far": pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32()),
        "plain": pa.array([noon, None], pa.timestamp("us")),
        "zone": zone,
    })  # fmt: skip
    found = in_utc(batch)
    assert found["day"].to_pylist() == [datetime(2026, 7, 1, tzinfo=UTC), None]
    assert found["plain"].to_pylist() == [noon.replace(tzinfo=UTC), None]
    assert found["zone"] == zone
    assert found["far"].cast(pa.int64()).to_pylist() == [8640 * 10**15, -8640 * 10**15]


@pytest.fixture
def abroad(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose zone is not UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def test_the_zone_of_the_session_moves_no_time(abroad: SparkSession) -> None:
    """Spark read times without a zone in the zone of the session: five hours later."""
    noon, day = datetime(2026, 1, 1, 12), date(2026, 1, 1)
    frame = abroad.createDataFrame([(noon, day)], "at timestamp_ntz, day date")
    seconds = [1767268799, 1767268801]  # one before noon in UTC and one after
    queries = abroad.createDataFrame(
        [("t", i, day, second) for i, second in enumerate(seconds)],
        "template string, id bigint, day date, second bigint",
    ).withColumn("limit", functions.timestamp_seconds("second"))
    sql = "SELECT at, day FROM s WHERE at < :limit AND day = :day"
    (found,) = attach(abroad, {"s": frame}, {"t": sql}, queries, output="rows", shards=2).collect()
    assert found["query"] == 1
    told = [found[name].astimezone(UTC) for name in ("at", "day")]
    assert told == [noon.replace(tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]


def test_a_newer_file_replaces_what_an_older_one_says_in_the_same_micro_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The newer one is larger, so Spark reads it first; the older one won."""
    for name in ("tab", "ev"):
        (tmp_path / name).mkdir()
    older, newer = tmp_path / "tab" / "z.json", tmp_path / "tab" / "a.json"
    older.write_text('{"k": 1, "q": 10.0}\n')
    os.utime(older, (10**9, 10**9))
    newer.write_text('{"k": 1, "q": 99.0}\n' + '{"k": 2, "q": 1.0}\n' * 60)
    (tmp_path / "ev" / "a.json").write_text('{"k": 1, "p": 1.0}\n')
    tables = spark.readStream.schema("k bigint, q double").json(str(tmp_path / "tab"))
    events = spark.readStream.schema("k bigint, p double").json(str(tmp_path / "ev"))
    queries = spark.createDataFrame([("j", 1, 0.0)], "template string, id bigint, least double")
    answers = attach(
        spark, {"tab": Source(tables, key="k"), "ev": events}, {"j": JOIN}, queries, output="rows",
        shards=2,
    )  # fmt: skip
    query = (
        answers.writeStream.format("memory").queryName("newer").trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    )  # fmt: skip
    query.awaitTermination()
    assert [(row["q"], row["change"]) for row in spark.table("newer").collect()] == [(99.0, 1)]


def test_a_larger_file_that_removes_what_an_older_one_added_comes_after_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark reads it first: the remove was refused and the query stayed."""
    (tmp_path / "queries").mkdir()
    for name, op, n, modified in (("z", "add", 1, 10**9), ("a", "remove", 60, 2 * 10**9)):
        file = tmp_path / "queries" / f"{name}.json"
        lines = (f'{{"template": "f", "op": "{op}", "id": {i}, "least": 0.0}}' for i in range(n))
        file.write_text("\n".join(lines))
        os.utime(file, (modified, modified))
    schema = "template string, op string, id bigint, least double"
    queries = spark.readStream.schema(schema).json(str(tmp_path / "queries"))
    rows = spark.createDataFrame([(1, 5.0)], "k bigint, p double")
    job = attached(
        spark, {"ev": rows}, {"f": "SELECT * FROM ev WHERE p > :least"}, queries, shards=2
    )
    query = (
        job.letters.writeStream.format("memory").queryName("removed").trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    )  # fmt: skip
    query.awaitTermination()
    assert spark.table("removed").count() == 59, "only what was never there"
    (told,) = [Snapshot.of(report) for report in query.recentProgress]
    assert told is not None
    assert (told.counts["added"], told.counts["removed"], told.levels["queries"]) == (1, 1, 0)
