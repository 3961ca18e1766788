"""The bars of window aggregates on one core: rows and lookups a second, beside a NumPy pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.window_aggregate_case import (
    BASE,
    LANDMARK,
    RUNNING,
    Fed,
    Windows,
    one_core,
    steady,
    uniform,
)

REACH: dict[Size, int] = {"smoke": 1_000, "full": 100_000}
N_BATCH = 10_000
ROWS, LOOKUPS = "rows per second", "lookups per second"
PASS = "numpy, cumulative sum"
DIFFERENCES = "numpy, differences of totals"
# Millions a second, and the share of a NumPy pass.
BARS = {RUNNING: (5.0, 0.3), BASE: (2.0, 0.1)}


def prepare(n: float, size: Size) -> Windows:
    return uniform(int(n), REACH[size], seed=341)


def ours(way: str, aggregate: str = "SUM") -> Callable[[Windows], Iterator[Reading]]:
    def measure(windows: Windows) -> Iterator[Reading]:
        fed = Fed(way, aggregate, windows)
        fed.fill()
        slots = np.arange(len(windows))
        with one_core():
            calls = 1 + windows.reach // N_BATCH
            rows = steady(lambda: fed.update(N_BATCH), N_BATCH, calls)
            fed.answer()
            lookups = steady(partial(fed.lookup, slots), slots.size)
        yield Reading(rows, panel=ROWS)
        yield Reading(lookups, panel=LOOKUPS)

    return measure


def passes(windows: Windows) -> Iterator[Reading]:
    """One pass over the rows that the windows reach, into memory that is there already."""
    values = windows.values(0, windows.reach + 1)
    totals = np.empty(values.size)
    with one_core():
        rate = steady(lambda: np.cumsum(values, out=totals), values.size)
    for panel in (ROWS, LOOKUPS):
        yield Reading(rate, panel=panel)


def differences(windows: Windows) -> Iterator[Reading]:
    """NumPy for the lookups of running intervals: two totals fetched and subtracted."""
    values = windows.values(0, windows.reach + 1)
    totals = np.concatenate([[0.0], np.cumsum(values)])
    firsts, stops = values.size - 1 - windows.highs, values.size - windows.lows
    with one_core():
        rate = steady(lambda: totals[stops] - totals[firsts], len(windows))
    yield Reading(rate, panel=LOOKUPS)


def holds(table: Table) -> Verdict:
    (x,) = table.curve(PASS, ROWS)
    unit, good, parts = table.value(PASS, x, ROWS), True, []
    for way, (least, share) in BARS.items():
        rows, lookups = table.value(way, x, ROWS), table.value(way, x, LOOKUPS)
        slowest = min(rows, lookups)
        good &= slowest >= 1e6 * least and slowest >= share * unit
        parts.append(
            f"{way} {rows / 1e6:,.1f} million rows a second ({rows / unit:.3f} of the pass) and "
            f"{lookups / 1e6:,.1f} million lookups ({lookups / unit:.3f}), the bars being "
            f"{least:.0f} million and {share:g}"
        )
    fetched = table.value(DIFFERENCES, x, LOOKUPS)
    extremes = [table.value(f"{BASE}, MAX", x, panel) for panel in (ROWS, LOOKUPS)]
    text = (
        "; ".join(parts)
        + f". For MAX base intervals have {extremes[0] / 1e6:,.1f} million rows and "
        f"{extremes[1] / 1e6:,.1f} million lookups a second. The NumPy pass takes "
        f"{unit / 1e6:,.0f} million values a second; fetching and subtracting two totals a window "
        f"by NumPy, {fetched / 1e6:,.1f} million windows, of which running intervals reach "
        f"{table.value(RUNNING, x, LOOKUPS) / fetched:.2f}. Answers are held against their "
        f"definition."
    )
    return Verdict(good, text)


FIGURE = Figure(
    name="bar_window_aggregate",
    source="project bar",
    claim="On one core running intervals take at least 5 million rows and 5 million lookups a "
    "second and 0.3 of a NumPy cumulative-sum pass over the same data, base intervals 2 million "
    "and 0.1; rows and lookups alike are held to all of it.",
    x_label="standing windows",
    y_label="",
    sweep={"smoke": (500,), "full": (100_000,)},
    prepare=prepare,
    series={
        RUNNING: ours(RUNNING),
        BASE: ours(BASE),
        f"{BASE}, MAX": ours(BASE, "MAX"),
        f"{LANDMARK}, MAX": ours(LANDMARK, "MAX"),
        PASS: passes,
        DIFFERENCES: differences,
    },
    holds=holds,
    log_y=True,
    rounds=8,
    notes="SUM of float64 where nothing else is said: the number of values, the sum and what "
    "rounding left out, three fields a row where NumPy keeps one. 100,000 windows anywhere in the "
    "last 100,000 rows; rows in batches of 10,000, all windows looked up in one call. The process "
    "is kept on one core, and no kernel has more than one thread.",
)
