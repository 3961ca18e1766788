"""[hotspot] Fig. 15, 16, 17: routing select-joins, over how many rows an event joins with."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.routing_case import NOTES, SERIES, RoutingCase, routed_case
from benchmarks.routing_verdict import routing_verdict

N_THOUSAND: dict[Size, float] = {"smoke": 2, "full": 500}


def prepare(width: float, size: Size) -> RoutingCase:
    """Events whose join keys lie within `width` of the middle, where most rows are."""
    n = N_THOUSAND[size]
    case = routed_case(n, n, size, seed=150, key_width=width)
    case.x = round(case.joined(), 1)
    return case


def holds(table: Table) -> Verdict:
    rates = table.curve("join_first")
    return routing_verdict(table, lambda _: rates[max(rates)] < rates[min(rates)])


FIGURE = Figure(
    name="hotspot_fig15",
    source="[hotspot] Fig. 15, 16, 17",
    claim="With more rows for each event joining first falls; the router reaches at least 90 % of "
    "the oracle and is at most 5 % below the best static way, which in the paper it beats.",
    x_label="rows that an event joins with",
    y_label="events per second",
    sweep={"smoke": (5_000, 1_000), "full": (5_000, 3_000, 2_000, 1_000, 300)},
    prepare=prepare,
    series=SERIES,
    holds=holds,
    log_y=True,
    notes=NOTES,
)
