"""[shared-windows] Fig. 10: rows a second of the three basic structures over the reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.window_aggregate_case import (
    BASE,
    QUANTILES,
    RUNNING,
    Fed,
    Windows,
    one_core,
    steady,
    uniform,
)

N_WINDOWS = 1_000
N_BATCH = 10_000
WAYS = {
    "running_intervals, SUM": (RUNNING, "SUM"),
    "base_intervals, MAX": (BASE, "MAX"),
    "base_interval_quantiles, QUANTILE": (QUANTILES, "PERCENTILE_DISC"),
}
MILLION = 1e6
SLOWER = (1.1, 10)  # less than that is no slowing down, more is not a logarithm


def prepare(reach: float, size: Size) -> Windows:
    return uniform(N_WINDOWS if size == "full" else 50, int(reach), seed=311)


def series(name: str) -> Callable[[Windows], Iterator[Reading]]:
    way, aggregate = WAYS[name]

    def measure(windows: Windows) -> Iterator[Reading]:
        fed = Fed(way, aggregate, windows)
        fed.fill()
        with one_core():
            # Once and more through all levels: the widest are made once in so many rows.
            rate = steady(lambda: fed.update(N_BATCH), N_BATCH, 1 + windows.reach // N_BATCH)
        fed.answer()
        yield Reading(rate)

    return measure


def holds(table: Table) -> Verdict:
    running, base, sorted_ones = (table.curve(name) for name in WAYS)
    few, many = min(running), max(running)
    # How many times the rate falls from where it is best to the longest window.
    falls = [max(curve.values()) / curve[many] for curve in (running, base)]
    slower = sorted_ones[few] / sorted_ones[many]
    text = (
        f"from N_max = {few:,.0f} to {many:,.0f}, running intervals take "
        f"{min(running.values()) / MILLION:,.1f} to {max(running.values()) / MILLION:,.1f} million "
        f"rows a second ({falls[0]:.1f} times less than the best at the longest), base intervals "
        f"{min(base.values()) / MILLION:,.1f} to {max(base.values()) / MILLION:,.1f} million "
        f"({falls[1]:.1f} times less), sorted base intervals {sorted_ones[few] / MILLION:,.2f} "
        f"million at the shortest and {sorted_ones[many] / MILLION:,.2f} million at the longest "
        f"({slower:.1f} times less). Answers are held against their definition."
    )
    fast = min(*running.values(), *base.values()) >= MILLION
    return Verdict(fast and max(falls) <= 2 and SLOWER[0] <= slower <= SLOWER[1], text)


FIGURE = Figure(
    name="shared_windows_fig10",
    source="[shared-windows] Fig. 10",
    claim="Running intervals (SUM) and base intervals (MAX) take millions of rows a second, no "
    "fewer as the longest window N_max grows (half the best rate at least); sorted base intervals "
    "(QUANTILE) slow down with its logarithm.",
    x_label="N_max, rows",
    y_label="rows per second",
    sweep={"smoke": (100, 3_000), "full": (100, 1_000, 10_000, 100_000, 1_000_000)},
    prepare=prepare,
    series={name: series(name) for name in WAYS},
    holds=holds,
    log_x=True,
    log_y=True,
    rounds=3,
    notes="1,000 windows, suffix and historical, anywhere in the last N_max rows; rows in batches "
    "of 10,000, on one core. A ring has room for a batch, so up to N_max = 10,000 as many levels "
    "are kept.",
)
