"""Static frames beside a stream: all shards answer for them in the first micro-batch, and once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.playing import Outcome, chunks_of

from standfast.model.stream import Input
from standfast.spark import Source, attached
from standfast.spark.outputs import COUNTS, WIDEST
from standfast.spark.pipeline import METRICS
from standfast.spark.shard import Shard
from standfast.spark.spec import Spec

TEMPLATES = {
    "old": "SELECT * FROM still WHERE v BETWEEN :lo AND :hi",
    "new": "SELECT * FROM live WHERE v BETWEEN :lo AND :hi",
}
QUERIES = [("old", 1), ("new", 2), ("nwe", 3)]  # and a bad one
N_STILL = 10


def played(n_shards: int, live: list[pa.Table]) -> Iterator[tuple[Outcome, list[dict[str, int]]]]:
    """What each micro-batch of a stream without a time brings, with frames as first state.

    As the operator does it: a shard that is not asked does nothing, and the first state waits.
    """
    inputs = {name: Input.stream(name, {"v": "float64"}) for name in ("still", "live")}
    spec = Spec(inputs, TEMPLATES, {}, "pairs", n_shards, ("still",))
    shards = [Shard(spec, i) for i in range(n_shards)]
    changes = pa.table(
        {"template": [t for t, _ in QUERIES], "id": [i for _, i in QUERIES],
         "lo": [0.0] * len(QUERIES), "hi": [100.0] * len(QUERIES)}
    )  # fmt: skip
    still = pa.table({"v": [float(i) for i in range(N_STILL)]})
    waiting = chunks_of(spec, 0, changes, {"still": still})
    for batch, rows in enumerate(live):
        outcome, tallies = Outcome(), []
        for i, chunks in enumerate(chunks_of(spec, batch, None, {"live": rows})):
            if chunks:
                tallies.append(outcome.apply(spec, shards[i], waiting[i] + chunks).tally)
                waiting[i] = []
        yield outcome, tallies


@pytest.mark.parametrize("n_shards", [1, 2, 4])
@pytest.mark.parametrize("n_rows", [0, 1, 3])
def test_what_a_job_starts_with_is_told_with_the_first_rows_and_never_again(
    n_shards: int, n_rows: int
) -> None:
    """A shard told of it when it had its first row, which with few rows was never."""
    batches = list(played(n_shards, [pa.table({"v": [1.0] * n_rows})] * 3))
    for number, (outcome, tallies) in enumerate(batches):
        found = Counter(answer[0] for answer in outcome.answers.elements())
        assert found == Counter({"old": 0 if number else N_STILL, "new": n_rows})
        assert outcome.letters.total() == (number == 0)
        total = added_up(tallies)
        assert (total["added"], total["refused"]) == ((0, 0) if number else (2, 1))
        assert (total["queries"], total["registry"]) == (2, 1)
        assert total["received"] == n_rows + (0 if number else N_STILL)
        assert total["memory_bytes"] == added_up(batches[0][1])["memory_bytes"] > 0


def added_up(tallies: list[dict[str, int]]) -> dict[str, int]:
    """The tallies of shards as Spark observes them."""
    return {
        name: (max if name in WIDEST else sum)([tally[name] for tally in tallies])
        for name in COUNTS
    }


def test_first_state_is_told_once_on_spark_over_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Four shards, a row a micro-batch: two files, then a restart with two more."""
    queries = spark.createDataFrame(
        [(t, i, 0.0, 100.0) for t, i in QUERIES], "template string, id bigint, lo double, hi double"
    )
    still = spark.createDataFrame([(float(i),) for i in range(N_STILL)], "v double").coalesce(1)
    told: list[tuple[int, str]] = []
    counts: list[dict[str, Any]] = []

    def tell(frame: DataFrame, batch: int) -> None:
        told.extend((batch, row["template"] or row["letter"]["source"]) for row in frame.collect())

    (tmp_path / "in").mkdir()
    for start in range(2):
        for i in (2 * start, 2 * start + 1):
            (tmp_path / "in" / f"{i}.json").write_text(json.dumps({"id": i, "v": 1.0}))
        reader = spark.readStream.schema("id bigint, v double").option("maxFilesPerTrigger", 1)
        inputs = {"still": still, "live": Source(reader.json(str(tmp_path / "in")), id="id")}
        job = attached(spark, inputs, TEMPLATES, queries, shards=4)
        writer = job.everything.writeStream.foreachBatch(tell).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.awaitTermination()
        counts += [p["observedMetrics"][METRICS].asDict() for p in query.recentProgress]
    first = Counter({(0, "old"): N_STILL, (0, "nwe"): 1})
    assert Counter(told) == first + Counter((batch, "new") for batch in range(4))
    assert [c["added"] for c in counts] == [2, 0, 0, 0]
    assert [c["refused"] for c in counts] == [1, 0, 0, 0]
    assert [c["queries"] for c in counts] == [2] * 4
    assert all(c["state_bytes"] >= counts[0]["state_bytes"] > 0 for c in counts)
    assert all(c["memory_bytes"] >= counts[0]["memory_bytes"] > 0 for c in counts)


def test_one_shard_counts_the_changes_that_all_have() -> None:
    """A shard that began later than others counted them once more."""
    ((_, tallies),) = played(4, [pa.table({"v": [1.0]})])
    assert [tally["added"] for tally in tallies] == [2, 0, 0, 0]
    assert [tally["refused"] for tally in tallies] == [1, 0, 0, 0]
    assert [tally["queries"] for tally in tallies] == [2, 2, 2, 2]
