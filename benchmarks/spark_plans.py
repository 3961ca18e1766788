"""What a Spark user writes without Standfast: the queries as a table, joined with each batch.

A query is affected if some stored row lies in a range that depends on the event. To join with all
rows of the range is hopeless, and one is enough: the first row at or above the range's low end. It
is found by an equi-join. Each step from one stored row to the next stands in all bins that it
crosses; of the steps in a value's bin, the one that holds the value ends at that row.

    stored       .     .  .           .
    steps        |-----|--|-----------|
    bins      |     |     |     |     |

The plans run as batch jobs over tables that are cached before the clock starts, so they are spared
the costs of a stream. They count the queries of each event, as ours do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql.functions import broadcast, col, count, expr, lit, shiftright
from pyspark.sql.functions import sum as sum_of

from benchmarks.clock import budget
from benchmarks.figure import Reading
from benchmarks.peers import Int64s
from benchmarks.spark_case import Columns, Feed, Work, counts_by_event, spark

Plan = Callable[[DataFrame], DataFrame]  # from (event, ...) to (event, queries)
FEWEST, MORE = 16, 8  # events: as many as are checked, then so many times as many
BINS = 1 << 20  # of a join key, at most
# A plan may take this many times what other series may, a minute at full size: where it does much
# for a batch and little for an event, more events make it faster.
PATIENCE = 100
FIRST = Window.unboundedPreceding


class HasWorks(Protocol):
    """A case of a figure with works by their number of queries."""

    @property
    def works(self) -> dict[float, Work]: ...


class HasRules(Protocol):
    """A case with works of so few queries that each can be a streaming query."""

    @property
    def rules(self) -> dict[float, Work]: ...


class NestedLoops:
    """Events x queries x stored rows by comparing all; only for few queries."""

    def __init__(self, work: Work) -> None:
        self.queries = table(work.queries)
        self.stored = table({"v": work.stored["b"]})

    def __call__(self, events: DataFrame) -> DataFrame:
        pairs = events.crossJoin(broadcast(self.queries))
        inside = expr("v - b BETWEEN lo AND hi")
        return counted(pairs.join(broadcast(self.stored), inside, "left_semi"))


class BandBins:
    """Events x queries by nested loops; the row of each pair by its bin."""

    shift = 7

    def __init__(self, work: Work) -> None:
        stored = work.stored["b"]
        self.queries = table(work.queries)
        self.steps = table(steps(np.zeros_like(stored), stored, self.shift))

    def __call__(self, events: DataFrame) -> DataFrame:
        pairs = events.crossJoin(broadcast(self.queries)).select(
            "event", (col("b") + col("lo")).alias("low"), (col("b") + col("hi")).alias("high")
        )
        return counted(self.reaching(pairs))

    def reaching(self, ranges: DataFrame) -> DataFrame:
        """The ranges `low` to `high` that hold a stored row."""
        return first_rows(ranges.withColumn("bin", shiftright("low", self.shift)), self.steps)


class SelectBins:
    """The queries that select an event by nested loops; the row of each pair by its bin."""

    shift = 16

    def __init__(self, work: Work) -> None:
        self.queries = table(work.queries)
        self.steps = table(steps(work.stored["k"], work.stored["c"], self.shift))

    def __call__(self, events: DataFrame) -> DataFrame:
        pairs = events.join(broadcast(self.queries), expr("a BETWEEN a_lo AND a_hi"))
        return counted(self.reaching(pairs))

    def reaching(self, pairs: DataFrame) -> DataFrame:
        """The pairs of an event, or a key, and a query that have a stored row."""
        bins = col("k") * lit(BINS) + shiftright("c_lo", self.shift)
        renamed = pairs.withColumns({"low": col("c_lo"), "high": col("c_hi"), "bin": bins})
        return first_rows(renamed, self.steps)


class SelectPerKey(SelectBins):
    """The queries that have a row, once for each key of the batch; then the events of the key."""

    def __call__(self, events: DataFrame) -> DataFrame:
        pairs = events.select("k").distinct().crossJoin(broadcast(self.queries))
        found = self.reaching(pairs).select("k", "a_lo", "a_hi")
        return counted(events.join(found, "k").where("a BETWEEN a_lo AND a_hi"))


class SelectCounted(SelectPerKey):
    """The same queries of each key, only counted: a running sum over their ends and the events.

    Spark runs no such window over a stream, and nobody learns from it which queries are affected.
    """

    def __call__(self, events: DataFrame) -> DataFrame:
        pairs = events.select("k").distinct().crossJoin(broadcast(self.queries))
        found = self.reaching(pairs)
        turns = [  # at one value a query begins, then comes the event, then a query ends
            found.select("k", col("a_lo").alias("at"), lit(0).alias("turn"), lit(1).alias("more")),
            found.select("k", col("a_hi").alias("at"), lit(2).alias("turn"), lit(-1).alias("more")),
        ]
        ends = turns[0].union(turns[1]).withColumn("event", lit(None).cast("bigint"))
        come = events.select("k", col("a").alias("at"), lit(1), lit(0), "event")
        before = Window.partitionBy("k").orderBy("at", "turn").rowsBetween(FIRST, 0)
        counted = ends.union(come).withColumn("queries", sum_of("more").over(before))
        return counted.where("event IS NOT NULL").select("event", "queries")


def steps(keys: Int64s, values: Int64s, shift: int) -> Columns:
    """Steps from row to row of each key, in all bins of `1 << shift` values that they cross.

    The first step of a key comes from far below.
    """
    order = np.lexsort((values, keys))
    key, end = keys[order], values[order]
    is_new_key = np.append(True, key[1:] != key[:-1])
    is_new = is_new_key | np.append(True, end[1:] != end[:-1])
    key, end, is_new_key = key[is_new], end[is_new], is_new_key[is_new]
    begin = np.where(is_new_key, values.min() - (1 << 24), np.append(0, end[:-1]))
    first = (begin + 1) >> shift
    n = (end >> shift) - first + 1
    step = np.repeat(np.arange(key.size), n)
    bins = first[step] + np.arange(step.size) - np.repeat(np.cumsum(n) - n, n)
    return {"bin": key[step] * BINS + bins, "begin": begin[step], "end": end[step]}


def first_rows(ranges: DataFrame, steps: DataFrame) -> DataFrame:
    """The ranges whose first row at or above `low` is not above `high`."""
    found = ranges.join(broadcast(steps), "bin")
    return found.where("begin < low AND low <= end AND end <= high")


def counted(pairs: DataFrame) -> DataFrame:
    return pairs.groupBy("event").agg(count(lit(1)).alias("queries"))


def table(columns: Columns) -> DataFrame:
    """Columns as a table in memory."""
    frame = spark().createDataFrame(pa.table(columns)).repartition(2).cache()
    frame.count()
    return frame


def batch_of(columns: Columns, n: int) -> DataFrame:
    """The first events, numbered."""
    some = {name: values[:n] for name, values in columns.items()}
    return table({"event": np.arange(n), **some})


def plain(
    plan: Callable[[Work], Plan], most_queries: float = np.inf, *, begins_with: float = FEWEST
) -> Any:
    """Events per second of a plan, with as many events at once as suit it best.

    Returns a series over the works of a case; those with more than `most_queries` are left out.
    """

    def measure(case: HasWorks) -> Iterator[Reading]:
        for x, work in case.works.items():
            if work.queries["id"].size <= most_queries:
                yield _measured(plan(work), work, begins_with)._replace(x=x)
                spark().catalog.clearCache()

    return measure


def _measured(plan: Plan, work: Work, begins_with: float) -> Reading:
    """The best rate over ever more events, up to a micro-batch of ours or for a minute."""
    n_events = next(iter(work.events.values())).size
    enough, n, best = PATIENCE * budget(), int(min(begins_with, n_events)), 0.0
    while True:
        events = batch_of(work.events, n)
        begin = time.perf_counter()
        found = plan(events).toArrow()
        took = time.perf_counter() - begin
        best = max(best, n / took)
        if took > enough / MORE or n == n_events:
            return Reading(best, counts_by_event(found, work.n_checked))
        n = min(n_events, MORE * n)


def rule_by_rule(case: HasRules) -> Iterator[Reading]:
    """Events per second of one streaming query for each rule, all over the same stream."""
    for x, work in case.rules.items():
        bins = BandBins(work)
        rules = list(zip(*(work.queries[name].tolist() for name in ("lo", "hi")), strict=True))
        few = batch_of(work.events, work.n_checked)
        found = [_rule(bins, few, *rule).select("event") for rule in rules]
        answer = counted(reduce(DataFrame.union, found)).toArrow()
        rate = _all_rules(bins, rules, work)
        yield Reading(rate, counts_by_event(answer, work.n_checked), x=x)
        spark().catalog.clearCache()


def _rule(bins: BandBins, events: DataFrame, low: int, high: int) -> DataFrame:
    """The events that affect one rule."""
    ends = {"low": col("b") + lit(low), "high": col("b") + lit(high)}
    return bins.reaching(events.withColumns(ends))


def _all_rules(bins: BandBins, rules: list[tuple[int, int]], work: Work) -> float:
    """Events per second until every rule has its batch, the better one of two batches."""
    with TemporaryDirectory(prefix="figure-") as folder, ExitStack() as running:
        feed = Feed(Path(folder), work.events)
        queries = []
        for i, rule in enumerate(rules):
            writer = _rule(bins, feed.frame(), *rule).writeStream.format("noop")
            query = writer.option("checkpointLocation", f"{folder}/checkpoint-{i}").start()
            running.callback(query.stop)
            queries.append(query)
        took = []
        for _ in range(3):
            come = feed.stage(work.events, 2)
            begin = time.perf_counter()
            come()
            for query in queries:
                query.processAllAvailable()
            took.append(time.perf_counter() - begin)
        return next(iter(work.events.values())).size / min(took[1:])
