"""The router's bars where queries come and go: cheap to ask, close to the best static way."""

from __future__ import annotations

from benchmarks.churn_case import MEDIAN, WAYS, ChurnCase, churn_case, runner
from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.routing_case import CHOOSING, HOT_FRACTION, N_HOTSPOTS, ROUTED


def prepare(thousands: float, size: Size) -> ChurnCase:
    return churn_case(thousands, size, seed=260)


def holds(table: Table) -> Verdict:
    rates = {name: table.curve(name) for name in (*WAYS, ROUTED)}
    medians = {name: table.curve(name, MEDIAN) for name in rates}
    text, worst, most = list[str](), 1.0, 0.0
    for x, rate in sorted(rates[ROUTED].items()):
        best = max((way for way in WAYS if x in rates[way]), key=lambda w: rates[w][x])
        part, choosing = rate / rates[best][x], table.value(ROUTED, x, CHOOSING)
        worst, most = min(worst, part), max(most, choosing)
        text.append(
            f"at {x:g} thousand queries the router has {part:.2f} times the best static way "
            f"({best}), {medians[ROUTED][x] / medians[best][x]:.2f} times by the median batch, and "
            f"choosing takes {choosing:.1f} % of the time"
        )
    return Verdict(worst >= 0.95 and most < 3, "; ".join(text) + ".")


FIGURE = Figure(
    name="bar_routing_churn",
    source="project bar",
    claim="Where one query in a hundred leaves before each batch of 1,000 events and as many come, "
    "choosing takes less than 3 % of the time and the router is never more than 5 % below the "
    "best static way, at 10,000 and 100,000 queries.",
    x_label="thousand queries",
    y_label="events per second, with the changes of the queries",
    sweep={"smoke": (1,), "full": (10, 100)},
    prepare=prepare,
    series={name: runner(name) for name in (*WAYS, ROUTED)},
    holds=holds,
    log_x=True,
    log_y=True,
    notes=f"{HOT_FRACTION:.0%} of the ranges on S.C in {N_HOTSPOTS} hotspots, ranges on R.A and "
    "events as in Fig. 12, 100,000 rows. The router begins with groups alone and builds what it "
    "finds worth it; 100 batches are not counted, then the mean of 300 is taken, because "
    "structures work changes in now and then. A way three times slower than the best is left out.",
)
