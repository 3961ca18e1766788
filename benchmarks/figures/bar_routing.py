"""The router's bars: close to the oracle, never far below the best static way, cheap to ask."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.figures import hotspot_fig12, hotspot_fig15, hotspot_fig18
from benchmarks.routing_case import CHOOSING, NOTES, ROUTED, SERIES, RoutingCase
from benchmarks.routing_verdict import standing

# The workloads of Fig. 12 by their size, of Fig. 15 and 18 by what they vary: a few of each.
CASES: dict[Size, tuple[tuple[str, float], ...]] = {
    "smoke": (("12", 2), ("15", 1_000)),
    "full": (("12", 100), ("12", 500), ("15", 3_000), ("15", 300), ("18", 3_000), ("18", 0)),
}
PREPARE = {"12": hotspot_fig12.prepare, "15": hotspot_fig15.prepare, "18": hotspot_fig18.prepare}


def prepare(number: float, size: Size) -> RoutingCase:
    figure, point = CASES[size][int(number)]
    case = PREPARE[figure](point, size)
    case.x = number
    return case


def holds(table: Table) -> Verdict:
    of_oracle, of_best, best, _ = found = standing(table)
    choosing = [table.value(ROUTED, x, CHOOSING) for x in best]
    text = (
        f"on {len(best)} workloads of Fig. 12, 15 and 18 the router reaches "
        f"{min(of_oracle.values()):.0%} of the oracle at least, {min(of_best.values()):.0%} of the "
        f"best static way at least, and choosing takes {max(choosing):.1f} % of the time at most; "
        f"{found.text(table)}."
    )
    good = min(of_oracle.values()) >= 0.9 and min(of_best.values()) >= 0.95 and max(choosing) < 3
    return Verdict(good, text)


FIGURE = Figure(
    name="bar_routing",
    source="project bar",
    claim="The router reaches at least 90 % of the oracle's events per second on the workloads "
    "of Fig. 12, 15 and 18, is never more than 5 % below the best static way, and choosing takes "
    "less than 3 % of the time.",
    x_label="workload: Fig. 12 (two sizes), 15 (two join rates), 18 (two selection rates)",
    y_label="events per second",
    sweep={size: tuple(range(len(cases))) for size, cases in CASES.items()},
    prepare=prepare,
    series=SERIES,
    holds=holds,
    log_y=True,
    notes=NOTES,
)
