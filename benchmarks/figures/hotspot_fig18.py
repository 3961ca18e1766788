"""[hotspot] Fig. 18, 19, 20: routing select-joins, over how many queries select an event."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.routing_case import NOTES, SERIES, RoutingCase, routed_case
from benchmarks.routing_verdict import routing_verdict

N_THOUSAND: dict[Size, float] = {"smoke": 2, "full": 500}


def prepare(distance: float, size: Size) -> RoutingCase:
    """Events whose selected value lies up to 1,000 further than `distance` from the middle."""
    n = N_THOUSAND[size]
    case = routed_case(n, n, size, seed=180, value_distance=distance)
    case.x = round(case.selected(), 2)
    return case


def holds(table: Table) -> Verdict:
    rates = table.curve("select_first")
    return routing_verdict(table, lambda _: rates[max(rates)] < rates[min(rates)])


FIGURE = Figure(
    name="hotspot_fig18",
    source="[hotspot] Fig. 18, 19, 20",
    claim="With more queries that select an event selecting first falls; the router reaches at "
    "least 90 % of the oracle and is at most 5 % below the best static way, which in the paper it "
    "beats. There selecting first is best where few queries select an event; here hotspots are.",
    x_label="% of the queries that select an event",
    y_label="events per second",
    sweep={"smoke": (4_000, 0), "full": (4_000, 3_000, 2_000, 1_000, 0)},
    prepare=prepare,
    series=SERIES,
    holds=holds,
    log_y=True,
    notes=NOTES,
)
