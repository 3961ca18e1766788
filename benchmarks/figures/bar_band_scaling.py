"""The band join's scaling bar: a thousand times more queries in as many groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.band_case import BandCase, checked, in_order, peer
from benchmarks.clock import seconds
from benchmarks.data import band_case
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers.numpy_searchsorted import OneSearch
from standfast.workloads import Ranges, bands_in_groups, clustered_bands

N_GROUPS = 70
ROUNDS = 12
COUNTS: dict[Size, tuple[int, ...]] = {
    "smoke": (1_000, 4_000),
    "full": (1_000, 10_000, 100_000, 1_000_000),
}
MADE: dict[str, Callable[..., Ranges]] = {
    "events per second, bands of Table I": bands_in_groups,
    "events per second, clustered bands": clustered_bands,
}
Cases = list[tuple[str, BandCase]]


def prepare(n_rows: float, size: Size) -> Cases:
    n_events = 20_000 if size == "full" else 1_000
    return [
        (panel, band_case(make(n, N_GROUPS, seed=106), int(n_rows), n_events, seed=107))
        for panel, make in MADE.items()
        for n in COUNTS[size]
    ]


def spans(cases: Cases) -> Iterator[Reading]:
    """Best of several rounds; a round takes every size once, so that noise hits all alike."""
    ready = [(case.strategy("groups"), case.rows(), case.events) for _, case in cases]
    outputs = [in_order(*each) for each in ready]
    least = np.full(len(cases), np.inf)
    for _ in range(ROUNDS):
        for i, each in enumerate(ready):
            took, outputs[i] = seconds(in_order, *each)
            least[i] = min(least[i], took)
    for (panel, case), took, output in zip(cases, least, outputs, strict=True):
        yield Reading(case.events.size / took, checked(case, output), panel, case.n_queries)


def searches(cases: Cases) -> Iterator[Reading]:
    """NumPy's better way, for the answers and for comparison."""
    for panel, case in cases:
        yield from (r._replace(panel=panel, x=case.n_queries) for r in peer(OneSearch)(case))


def holds(table: Table) -> Verdict:
    parts, least = [], np.inf
    for panel in table.panels():
        rates = table.curve("groups", panel)
        few, many = min(rates), max(rates)
        kept = rates[many] / rates[few]
        least = min(least, kept)
        parts.append(
            f"{panel.removeprefix('events per second, ')}, {N_GROUPS} groups: {rates[few]:,.0f} "
            f"events/s with {few:,.0f} queries, {rates[many]:,.0f} with {many:,.0f}, {kept:.0%}"
        )
    return Verdict(bool(least >= 0.75), "; ".join(parts) + ".")


FIGURE = Figure(
    name="bar_band_scaling",
    source="project bar",
    claim="Throughput of spans with 1,000,000 band joins is at least 75 % of that with 1,000 at an "
    "equal number of groups.",
    x_label="standing queries",
    y_label="",
    sweep={"smoke": (2_000,), "full": (100_000,)},
    prepare=prepare,
    series={"groups": spans, "numpy, one search": searches},
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset({"numpy, one search"}),
    notes="Once with bands of Table I, whose lengths are chosen for the number of groups, and once "
    "with bands drawn around as many points; the worse one decides.",
)
