"""[hotspot] Fig. 12, 13, 14: routing select-joins, over the number of queries and rows."""

from __future__ import annotations

from benchmarks.figure import Figure, Size
from benchmarks.routing_case import NOTES, SERIES, RoutingCase, routed_case, routing_verdict


def prepare(thousands: float, size: Size) -> RoutingCase:
    return routed_case(thousands, thousands, size, seed=120)


FIGURE = Figure(
    name="hotspot_fig12",
    source="[hotspot] Fig. 12, 13, 14",
    claim="The router beats every static way, the hotspot way included, at all sizes, and comes "
    "close to the oracle; most events go the hotspot way, SJ-Vanilla is never chosen; the router "
    "makes the optimum decision for a third of the events.",
    x_label="thousand queries, and as many thousand rows",
    y_label="events per second",
    sweep={"smoke": (2,), "full": (100, 200, 300, 400, 500)},
    prepare=prepare,
    series=SERIES,
    holds=routing_verdict,
    log_y=True,
    notes=NOTES,
)
