"""What Spark adds to the engine, by the size of the micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.data import band_case
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import Int64s
from benchmarks.spark_case import Embedded, Taken, band_work, jobs, rate, spark, typical
from standfast.workloads import bands_in_groups

N_QUERIES: dict[Size, int] = {"smoke": 1_000, "full": 100_000}
N_GROUPS: dict[Size, int] = {"smoke": 20, "full": 400}
N_STORED: dict[Size, int] = {"smoke": 1_000, "full": 100_000}
N_WARM, N_TIMED = 3, 7
RATE, CPU, SPLIT = "events per second", "CPU us per event", "milliseconds of a micro-batch"
OURS, ALONE = "Standfast on Spark", "Standfast embedded"
PARTS = ("spark", "transfer", "engine", "state")


class Case(NamedTuple):
    """What the micro-batches cost on Spark and embedded, and the last answer of both."""

    spark: list[Taken]
    alone: list[Taken]
    counts: dict[str, Int64s | None]


def prepare(n_rows: float, size: Size) -> Case:
    """Both take the same batches in turn."""
    spark()
    n = int(n_rows)
    bands = bands_in_groups(N_QUERIES[size], N_GROUPS[size], seed=420)
    work = band_work(band_case(bands, N_STORED[size], 2 * n, seed=421))
    engine, batches = Embedded(work), work.batches(n)
    taken: tuple[list[Taken], list[Taken]] = ([], [])
    with jobs(work) as (stream,):
        for number in range(N_WARM + N_TIMED):
            batch = next(batches)
            done = stream.take(batch), engine.take(batch)
            if number >= N_WARM:
                for some, each in zip(taken, done, strict=True):
                    some.append(each)
        last = stream.take(work.checked, n_files=1, reads=True)
    return Case(*taken, {OURS: last.counts, ALONE: engine.take(work.checked).counts})


def cost(name: str, where: str) -> Callable[[Case], Iterator[Reading]]:
    """Events per second, and CPU time per event."""

    def measure(case: Case) -> Iterator[Reading]:
        taken: list[Taken] = getattr(case, where)
        yield Reading(rate(taken), case.counts[name], RATE)
        cpu = np.mean([done.cpu_seconds / done.n_rows for done in taken])
        yield Reading(1e6 * float(cpu), panel=CPU)

    return measure


def part(name: str) -> Callable[[Case], Iterator[Reading]]:
    """Milliseconds of a batch in one of its parts."""

    def measure(case: Case) -> Iterator[Reading]:
        reports = [done.report for done in case.spark if done.report]
        yield Reading(typical([getattr(r, f"{name}_ms") for r in reports]), panel=SPLIT)

    return measure


def holds(table: Table) -> Verdict:
    rates = table.curve(OURS, RATE)
    x = 100_000 if 100_000 in rates else max(rates)
    ours, alone = (table.value(name, x, CPU) for name in (OURS, ALONE))
    parts = ", ".join(f"{name} {table.value(name, x, SPLIT):,.0f}" for name in PARTS)
    text = (
        f"batches of {x:,.0f} rows take {ours:.1f} us of CPU an event, {ours / alone:.1f} times "
        f"the {alone:.1f} us of the engine alone; of the time of a batch, in ms: {parts}. Events "
        "per second: " + ", ".join(f"{rates[n]:,.0f} at {n:,.0f} rows" for n in rates) + "."
    )
    return Verdict(bool(ours <= 2.5 * alone and alone >= 5), text)


FIGURE = Figure(
    name="spark_batch",
    source="project bar",
    claim="In micro-batches of 100,000 rows Spark takes at most 2.5 times the CPU time per event "
    "of the embedded engine, where that works at least 5 us on an event.",
    x_label="rows in a micro-batch",
    y_label="",
    sweep={"smoke": (500,), "full": (10_000, 100_000, 1_000_000)},
    prepare=prepare,
    series={
        OURS: cost(OURS, "spark"),
        ALONE: cost(ALONE, "alone"),
        **{name: part(name) for name in PARTS},
    },
    holds=holds,
    log_x=True,
    log_y=True,
    notes="100,000 band joins in 400 groups over 100,000 stored rows, the number of affected "
    "queries of each event as output. CPU time is that of Java, the Python workers and the hosts "
    "of the shards together. Transfer, engine and state are the times of the slower shard, Spark "
    "is the rest of the batch.",
)
