"""The band join's scaling bar: a thousand times more queries in as many groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.band_case import BandCase, Series, checked, in_order, peer
from benchmarks.clock import seconds
from benchmarks.data import band_case
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers.numpy_searchsorted import OneSearch
from standfast.workloads import clustered_bands

N_GROUPS = 70
ROUNDS = 12
COUNTS: dict[Size, tuple[int, ...]] = {
    "smoke": (1_000, 4_000),
    "full": (1_000, 10_000, 100_000, 1_000_000),
}


def prepare(n_rows: float, size: Size) -> list[BandCase]:
    n_events = 20_000 if size == "full" else 1_000
    return [
        band_case(clustered_bands(n, N_GROUPS, seed=106), int(n_rows), n_events, seed=107)
        for n in COUNTS[size]
    ]


def spans(cases: list[BandCase]) -> Iterator[Reading]:
    """Best of several rounds; a round takes every size once, so that noise hits all alike."""
    ready = [(case.strategy("groups"), case.rows()) for case in cases]
    least, outputs = np.full(len(cases), np.inf), [None] * len(cases)
    for _ in range(ROUNDS):
        for i, (strategy, rows) in enumerate(ready):
            took, outputs[i] = seconds(in_order, strategy, rows, cases[i].events)
            least[i] = min(least[i], took)
    for case, took, output in zip(cases, least, outputs, strict=True):
        yield Reading(case.events.size / took, checked(case, output), x=case.n_queries)


def for_each(series: Series) -> Series:
    """The readings of a series for every size."""

    def measure(cases: list[BandCase]) -> Iterator[Reading]:
        for case in cases:
            yield from (r._replace(x=case.n_queries) for r in series(case))

    return measure


def holds(table: Table) -> Verdict:
    rates = table.curve("groups")
    few, many = min(rates), max(rates)
    kept = rates[many] / rates[few]
    text = (
        f"{rates[few]:,.0f} events/s with {few:,.0f} queries, {rates[many]:,.0f} with {many:,.0f}: "
        f"{kept:.0%} at {N_GROUPS} groups."
    )
    return Verdict(kept >= 0.75, text)


FIGURE = Figure(
    name="bar_band_scaling",
    source="project bar",
    claim="Throughput of spans with 1,000,000 band joins is at least 75 % of that with 1,000 at an "
    "equal number of groups.",
    x_label="standing queries",
    y_label="events per second",
    sweep={"smoke": (2_000,), "full": (100_000,)},
    prepare=prepare,
    series={"groups": spans, "numpy, one search": for_each(peer(OneSearch))},
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset({"numpy, one search"}),
)
