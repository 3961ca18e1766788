"""Progress: what is read from Spark's reports, how it adds up, how it is shown."""

from __future__ import annotations

import io

import pytest
from pyspark.sql import Row
from rich.console import Console

from standfast.spark.progress import FATES, Snapshot, Totals, line, live, size, summary

METRICS = {
    "used": 90, "late": 4, "duplicate": 5, "rejected": 1, "answers": 30, "affected": 30,
    "added": 7, "removed": 2, "repeated": 1, "refused": 3, "rebuilds": 0, "queries": 1_000,
    "stored": 400, "state_bytes": 2_500_000, "memory_bytes": 12_000, "peak_bytes": 300_000,
    "engine_us": 40_000, "transfer_us": 6_000, "state_us": 14_000,
}  # fmt: skip


def _progress(batch: int, **metrics: int) -> dict[str, object]:
    """A report as Spark gives it."""
    observed = METRICS | {"registry": 10 + batch} | metrics
    observed.setdefault("received", sum(observed[name] for name in FATES))
    return {
        "batchId": batch,
        "batchDuration": 200,
        "inputRowsPerSecond": 55.5,
        "observedMetrics": {"standfast": Row(**observed)},
    }


def _idle(batch: int) -> dict[str, object]:
    """What Spark reports now and then while nothing comes in."""
    return {"batchId": batch, "batchDuration": 3, "observedMetrics": {}}


def _total(reports: list[dict[str, object]], totals: Totals | None = None) -> Totals:
    totals = totals or Totals()
    for snapshot in totals.news(reports):
        totals = totals.plus(snapshot)
    return totals


def _shown(thing: object) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(thing)
    return console.file.getvalue()


def test_a_report_becomes_a_snapshot():
    snapshot = Snapshot.of(_progress(3))
    assert snapshot is not None
    assert (snapshot.batch, snapshot.batch_ms, snapshot.input_rate) == (3, 200.0, 55.5)
    assert snapshot.processing_rate == 500.0
    assert (snapshot.transfer_ms, snapshot.engine_ms, snapshot.state_ms) == (6.0, 40.0, 14.0)
    assert snapshot.spark_ms == 140.0
    assert snapshot.counts["received"] == 100
    assert snapshot.levels == {
        "queries": 1_000, "registry": 13, "stored": 400, "state_bytes": 2_500_000,
        "memory_bytes": 12_000, "peak_bytes": 300_000,
    }  # fmt: skip


def test_spark_never_takes_less_than_no_time():
    snapshot = Snapshot.of(_progress(3, engine_us=900_000))
    assert snapshot is not None
    assert snapshot.spark_ms == 0.0


def test_a_report_without_a_batch_is_no_snapshot():
    assert Snapshot.of(_idle(4)) is None
    assert Snapshot.of({"batchId": 4}) is None


@pytest.mark.parametrize("rate", [None, float("nan"), float("inf"), "NaN"])
def test_a_rate_that_is_none_is_zero(rate):
    snapshot = Snapshot.of(_progress(1) | {"inputRowsPerSecond": rate, "batchDuration": 0})
    assert snapshot is not None
    assert (snapshot.input_rate, snapshot.processing_rate) == (0.0, 0.0)


def test_metrics_that_are_null_or_missing_are_zero():
    empty = {"batchId": 0, "observedMetrics": {"standfast": {"received": None}}}
    snapshot = Snapshot.of(empty)
    assert snapshot is not None
    assert set(snapshot.counts.values()) | set(snapshot.levels.values()) == {0}


def test_rows_that_are_not_accounted_for_are_noticed():
    with pytest.raises(AssertionError, match="101 received"):
        Snapshot.of(_progress(1, received=101))


def test_a_run_adds_up_each_batch_once():
    reports = [_progress(0), _idle(1), _progress(1, used=80), _idle(2), _progress(2, rejected=11)]
    totals = _total(reports, _total(reports[:3]))
    assert totals.news(reports) == []
    assert totals.n_batches == 3
    assert totals.counts["received"] == 100 + 90 + 110
    assert {name: totals.counts[name] for name in FATES} == {
        "used": 260, "late": 12, "duplicate": 15, "rejected": 13,
    }  # fmt: skip
    assert (totals.counts["answers"], totals.counts["added"]) == (90, 21)
    assert (totals.batch_ms, totals.engine_ms, totals.spark_ms) == (600.0, 120.0, 420.0)
    assert totals.last is not None
    assert totals.last.batch == 2


def test_a_line_tells_one_batch():
    snapshot = Snapshot.of(_progress(3))
    assert snapshot is not None
    assert line(snapshot) == (
        "batch 3: 100 rows in 200 ms (Spark 140, transfer 6, engine 40, state 14 ms), 500 rows/s "
        "while 56 come in, 1,000 queries (registry 13) affected 30 times, state 2.5 MB, "
        "memory 12.0 kB"
    )


def test_a_line_tells_no_rate_of_rows_where_spark_knows_none():
    """The first micro-batch had rows of which "0 come in"."""
    snapshot = Snapshot.of(_progress(0) | {"inputRowsPerSecond": 0.0})
    assert snapshot is not None
    assert "come in" not in line(snapshot)
    assert "come in" not in _shown(live(Totals().plus(snapshot)))


def test_the_screen_shows_rates_split_state_and_registry():
    shown = _shown(live(_total([_progress(0), _progress(1)])))
    for piece in (
        "500", "56 come in; 200 so far", "200 ms", "#1: Spark 140, transfer 6, engine 40, state 14",
        "30", "times; 1,000 queries in registry version 11", "2.5 MB",
        "400 rows stored", "12.0 kB", "in all shards; the largest process had 300.0 kB",
        "180 used + 8 late + 10 duplicate + 2 rejected",
        "14 added, 4 removed, 2 repeated, 6 refused",
    ):  # fmt: skip
        assert piece in shown, piece


def test_the_screen_ends_with_a_line_for_what_the_terminal_itself_says():
    """Of what was drawn before Ctrl-C the first line stayed, as often as it was drawn again."""
    for totals in (Totals(), _total([_progress(0)])):
        assert _shown(live(totals)).endswith("\n\n")


def test_the_screen_waits_for_the_first_batch():
    assert "waiting" in _shown(live(Totals()))


def test_the_summary_tells_the_whole_run():
    assert summary(_total([_progress(0), _progress(1)])) == [
        "2 micro-batches, 200 rows in 0.4 s: 500 rows/s, queries affected 60 times",
        "rows: 200 received = 180 used + 8 late + 10 duplicate + 2 rejected",
        "queries: 14 added, 4 removed, 2 repeated, 6 refused",
        "time: Spark 280, transfer 12, engine 80, state 28 ms; 1,000 queries at registry version "
        "11",
        "memory: state 2.5 MB, shards 12.0 kB, the largest process 300.0 kB",
    ]
    assert summary(Totals())[0].startswith("0 micro-batches, 0 rows in 0.0 s: 0 rows/s")


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (2_500_000, "2.5 MB"), (7 * 10**13, "70.0 TB")],
)
def test_sizes_are_written_as_people_do(n_bytes, text):
    assert size(n_bytes) == text
