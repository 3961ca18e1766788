"""Band joins on Spark over the number of rows in state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.data import band_case
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.spark_case import Embedded, Work, band_work, in_turns, jobs, rate, spark
from standfast.workloads import bands_in_groups

N_GROUPS = 70
N_STORED: dict[Size, tuple[int, ...]] = {
    "smoke": (500, 2_000),
    "full": (10_000, 100_000, 1_000_000),
}
BATCH: dict[Size, int] = {"smoke": 500, "full": 100_000}
N_WARM, N_TIMED = 3, 9
RATE, STATE, KEPT = "events per second", "milliseconds of state", "megabytes of state"
OURS, ALONE = "Standfast on Spark", "Standfast embedded"


class Case(NamedTuple):
    works: dict[float, Work]
    n_rows: int


def prepare(n_queries: float, size: Size) -> Case:
    spark()
    bands, n = bands_in_groups(int(n_queries), N_GROUPS, seed=440), BATCH[size]
    return Case({s: band_work(band_case(bands, s, 2 * n, seed=441)) for s in N_STORED[size]}, n)


def ours(case: Case) -> Iterator[Reading]:
    works = case.works
    with jobs(*works.values()) as streams:
        batches = [work.batches(case.n_rows) for work in works.values()]
        taken = in_turns(streams, batches, N_WARM, N_TIMED)
        for (x, work), stream, some in zip(works.items(), streams, taken, strict=True):
            last = stream.take(work.checked, n_files=1, reads=True)
            yield Reading(rate(some), last.counts, RATE, x)
            reports = [done.report for done in some if done.report]
            # Snapshots come every few batches, so the mean tells what state costs.
            yield Reading(sum(r.state_ms for r in reports) / len(reports), None, STATE, x)
            yield Reading(reports[-1].levels["state_bytes"] / 1e6, None, KEPT, x)


def alone(case: Case) -> Iterator[Reading]:
    for x, work in case.works.items():
        engine = Embedded(work)
        taken = engine.steady(work, case.n_rows, N_WARM, N_TIMED)
        yield Reading(rate(taken), engine.take(work.checked).counts, RATE, x)


def holds(table: Table) -> Verdict:
    rates = table.curve(OURS, RATE)
    few, many = min(rates), max(rates)
    kept = rates[many] / rates[few]
    each = "; ".join(
        f"{rates[x]:,.0f} events/s over {x:,.0f} rows, {table.value(OURS, x, KEPT):,.0f} MB of "
        f"state at {table.value(OURS, x, STATE):,.0f} ms a batch"
        for x in rates
    )
    return Verdict(bool(kept >= 0.5), f"{each}; the largest has {kept:.0%} of the rate.")


FIGURE = Figure(
    name="spark_state",
    source="project",
    claim="With 100 times the stored rows, at least half of the events per second.",
    x_label="stored rows that events join with",
    y_label="",
    sweep={"smoke": (500,), "full": (100_000,)},
    prepare=prepare,
    series={OURS: ours, ALONE: alone},
    holds=holds,
    log_x=True,
    log_y=True,
    notes="100,000 band joins in 70 groups, micro-batches of 100,000 events, which are not "
    "stored, because what they join with does not grow. The three jobs run side by side and take "
    "turns; the median batch gives the rate, the mean over batches with and without a snapshot the "
    "time of state.",
)
