"""Band joins on Spark over the number of queries, against what a Spark user writes without us."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.data import band_case
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.spark_case import Embedded, Work, band_work, in_turns, jobs, rate, spark
from benchmarks.spark_plans import BandBins, NestedLoops, plain, rule_by_rule
from standfast.workloads import bands_in_groups

N_GROUPS = 70
COUNTS: dict[Size, tuple[int, ...]] = {
    "smoke": (100, 1_000),
    "full": (1_000, 10_000, 100_000, 1_000_000),
}
RULES: dict[Size, tuple[int, ...]] = {"smoke": (2,), "full": (10, 100)}
BATCH: dict[Size, int] = {"smoke": 500, "full": 100_000}
N_WARM, N_TIMED = 3, 7
OURS, ALONE = "Standfast on Spark", "Standfast embedded"
BINS, LOOPS, EACH = "Spark, bins", "Spark, nested loops", "Spark, a query per rule"


class Case(NamedTuple):
    """Works by their number of queries; with few, one streaming query per rule is possible."""

    works: dict[float, Work]
    rules: dict[float, Work]
    n_rows: int


def prepare(n_rows: float, size: Size) -> Case:
    spark()

    def works(counts: tuple[int, ...], n_batches: int) -> dict[float, Work]:
        return {
            n: band_work(
                band_case(
                    bands_in_groups(n, min(n, N_GROUPS), seed=404), int(n_rows),
                    n_batches * BATCH[size], seed=405,
                )
            )
            for n in counts
        }  # fmt: skip

    return Case(works(COUNTS[size], 2), works(RULES[size], 1), BATCH[size])


def ours(case: Case) -> Iterator[Reading]:
    works = case.rules | case.works
    with jobs(*works.values()) as streams:
        batches = [work.batches(case.n_rows) for work in works.values()]
        taken = in_turns(streams, batches, N_WARM, N_TIMED)
        for (n, work), stream, some in zip(works.items(), streams, taken, strict=True):
            last = stream.take(work.checked, n_files=1, reads=True)
            yield Reading(rate(some), last.counts, x=n)


def alone(case: Case) -> Iterator[Reading]:
    for n, work in (case.rules | case.works).items():
        engine = Embedded(work)
        taken = engine.steady(work, case.n_rows, N_WARM, N_TIMED)
        yield Reading(rate(taken), engine.take(work.checked).counts, x=n)


def holds(table: Table) -> Verdict:
    rates, plans = table.curve(OURS), {name: table.curve(name) for name in (BINS, LOOPS)}
    rules = table.curve(EACH)
    few, many = min(n for n in rates if n not in rules), max(rates)
    x = 100_000 if 100_000 in rates else many
    best = max(curve.get(x, 0) for curve in plans.values())
    lead, kept = rates[x] / best, rates[many] / rates[few]
    text = (
        f"at {x:,.0f} queries {rates[x]:,.0f} events/s, {lead:,.0f} times the best plain plan "
        f"({best:,.0f}/s) and {rates[x] / table.value(ALONE, x):.0%} of the engine alone; with "
        f"{many:,.0f} queries {rates[many]:,.0f} events/s, {kept:.0%} of the {rates[few]:,.0f} "
        f"with {few:,.0f}. One streaming query per rule: "
        + ", ".join(
            f"{rules[n]:,.0f} events/s with {n:,.0f} rules (ours {rates[n]:,.0f})" for n in rules
        )
        + "."
    )
    return Verdict(bool(lead >= 200 and kept >= 0.7), text)


FIGURE = Figure(
    name="spark_queries",
    source="project bar",
    claim="With 100,000 band joins on Spark at least 200 times the events per second of the best "
    "plain Spark plan, and with 1,000,000 at least 70 % of the rate with 1,000.",
    x_label="standing queries",
    y_label="events per second",
    sweep={"smoke": (1_000,), "full": (100_000,)},
    prepare=prepare,
    series={
        OURS: ours,
        ALONE: alone,
        BINS: plain(BandBins),
        LOOPS: plain(NestedLoops, most_queries=100_000),
        EACH: rule_by_rule,
    },
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset({BINS, LOOPS, EACH}),
    notes="Bands of Table I in 70 groups, 100,000 stored rows, micro-batches of 100,000 events; "
    "the output is the number of queries that each event affects. All sizes of ours run side by "
    "side and take turns; the median batch counts. The plain plans run as batch jobs on the number "
    "of events, 16 to a micro-batch, that makes them fastest within a minute; with 1,000,000 "
    "queries nested loops would need a quarter of an hour for 16, and are left out.",
)
