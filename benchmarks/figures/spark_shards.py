"""Band joins on Spark in one, two and four shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.data import band_case
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.spark_case import Embedded, Work, band_work, in_turns, jobs, rate, spark
from standfast.workloads import bands_in_groups

N_QUERIES: dict[Size, int] = {"smoke": 1_000, "full": 100_000}
N_GROUPS: dict[Size, int] = {"smoke": 20, "full": 400}
BATCH: dict[Size, int] = {"smoke": 500, "full": 100_000}
SHARDS = (1, 2, 4)
N_WARM, N_TIMED = 3, 7
OURS, ALONE = "Standfast on Spark", "Standfast embedded"


class Case(NamedTuple):
    work: Work
    n_rows: int


def prepare(n_stored: float, size: Size) -> Case:
    spark()
    bands = bands_in_groups(N_QUERIES[size], N_GROUPS[size], seed=430)
    return Case(band_work(band_case(bands, int(n_stored), 2 * BATCH[size], seed=431)), BATCH[size])


def ours(case: Case) -> Iterator[Reading]:
    work = case.work
    with jobs(work, shards=SHARDS) as streams:
        batches = [work.batches(case.n_rows) for _ in SHARDS]
        taken = in_turns(streams, batches, N_WARM, N_TIMED)
        for n, stream, some in zip(SHARDS, streams, taken, strict=True):
            last = stream.take(work.checked, n_files=1, reads=True)
            yield Reading(rate(some), last.counts, x=n)


def alone(case: Case) -> Iterator[Reading]:
    engine = Embedded(case.work)
    taken = engine.steady(case.work, case.n_rows, N_WARM, N_TIMED)
    counts = engine.take(case.work.checked).counts
    yield from (Reading(rate(taken), counts, x=n) for n in SHARDS)


def holds(table: Table) -> Verdict:
    rates = table.curve(OURS)
    text = ", ".join(f"{rates[n]:,.0f} events/s in {n:.0f} shards" for n in rates)
    worst, best = min(rates.values()), max(rates.values())
    return Verdict(
        bool(worst >= best / 2), f"{text}; the engine alone {table.value(ALONE, 1):,.0f}."
    )


FIGURE = Figure(
    name="spark_shards",
    source="project",
    claim="On one machine the number of shards matters little: one to four of them differ by less "
    "than a factor of two.",
    x_label="shards",
    y_label="events per second",
    sweep={"smoke": (1_000,), "full": (100_000,)},
    prepare=prepare,
    series={OURS: ours, ALONE: alone},
    holds=holds,
    log_x=True,
    notes="100,000 band joins in 400 groups over 100,000 stored rows, micro-batches of 100,000 "
    "events. The rows of a band join are stored on every shard, and its events are dealt out. Few "
    "shards lose little on one machine, because the process of a shard takes as many threads as "
    "there are cores for it.",
)
