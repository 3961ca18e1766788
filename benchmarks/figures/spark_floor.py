"""How long a micro-batch of a few rows takes with very many queries, against an empty job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.data import band_case
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.spark_case import Stream, Taken, band_work, empty, in_turns, jobs, spark
from standfast.workloads import bands_in_groups

N_GROUPS = 70
N_STORED: dict[Size, int] = {"smoke": 1_000, "full": 100_000}
N_TIMED: dict[Size, int] = {"smoke": 2, "full": 40}
N_WARM: dict[Size, int] = {"smoke": 2, "full": 30}  # Java compiles and tidies for as long
N_FEW = 10
# How long an idle stream rests: while one job works, the other must not look for files.
RESTS = ("spark.sql.streaming.pollingDelay", "400ms")
OURS, EMPTY = "Standfast", "empty stateful job"
PANELS = {"milliseconds, median": 50, "milliseconds, 95 of 100 below": 95}
Case = dict[str, list[Taken]]


def prepare(n_queries: float, size: Size) -> Case:
    """Both jobs run in one session and take turns."""
    spark().conf.set(*RESTS)
    bands = bands_in_groups(int(n_queries), N_GROUPS, seed=450)
    work = band_work(band_case(bands, N_STORED[size], 1_000, seed=451))
    with (
        TemporaryDirectory(prefix="figure-") as folder,
        jobs(work) as (stream,),
        Stream(Path(folder), empty, work.events) as other,
    ):
        batches = [work.batches(N_FEW), work.batches(N_FEW)]
        taken = in_turns([stream, other], batches, N_WARM[size], N_TIMED[size], n_files=1)
    return dict(zip((OURS, EMPTY), taken, strict=True))


def latency(name: str) -> Callable[[Case], Iterator[Reading]]:
    def measure(case: Case) -> Iterator[Reading]:
        times = [1e3 * done.seconds for done in case[name]]
        for panel, share in PANELS.items():
            yield Reading(float(np.percentile(times, share)), panel=panel)

    return measure


def holds(table: Table) -> Verdict:
    median, high = PANELS
    ((x, ours),) = table.curve(OURS, median).items()
    other = table.value(EMPTY, x, median)
    text = (
        f"a micro-batch of {N_FEW} rows with {x:,.0f} queries takes {ours:,.0f} ms, "
        f"{ours / other:.2f} times the {other:,.0f} ms of an empty stateful job; 95 of 100 are "
        f"below {table.value(OURS, x, high):,.0f} and {table.value(EMPTY, x, high):,.0f} ms."
    )
    return Verdict(bool(ours <= 1.5 * other), text)


FIGURE = Figure(
    name="spark_floor",
    source="project bar",
    claim="The micro-batch of a few rows takes at most 1.5 times as long with 1,000,000 registered "
    "queries as that of an empty stateful job.",
    x_label="standing queries",
    y_label="",
    sweep={"smoke": (1_000,), "full": (1_000_000,)},
    prepare=prepare,
    series={OURS: latency(OURS), EMPTY: latency(EMPTY)},
    holds=holds,
    notes="Both jobs run in one session with the same number of partitions and take turns, 30 to "
    "warm up and 40 that count; the one whose turn it is not rests. The empty one is a "
    "transformWithStateInPandas that keeps and says nothing.",
)
