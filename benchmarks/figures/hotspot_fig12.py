"""[hotspot] Fig. 12, 13, 14: routing select-joins, over the number of queries and rows."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.routing_case import NOTES, SERIES, RoutingCase, routed_case
from benchmarks.routing_verdict import routing_verdict


def prepare(thousands: float, size: Size) -> RoutingCase:
    return routed_case(thousands, thousands, size, seed=120)


def holds(table: Table) -> Verdict:
    return routing_verdict(table, lambda share: share("hotspot") > 50 and share("vanilla") < 1)


FIGURE = Figure(
    name="hotspot_fig12",
    source="[hotspot] Fig. 12, 13, 14",
    claim="At all sizes the router reaches at least 90 % of the oracle and is at most 5 % below "
    "the best static way, the hotspot way included, which in the paper it beats; most events go "
    "the hotspot way, and SJ-Vanilla is not chosen.",
    x_label="thousand queries, and as many thousand rows",
    y_label="events per second",
    sweep={"smoke": (2,), "full": (100, 200, 300, 400, 500)},
    prepare=prepare,
    series=SERIES,
    holds=holds,
    log_y=True,
    notes=NOTES,
)
