"""[shared-windows] Fig. 10: rows a second of the three basic structures over the reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

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
CONSTANT = 2.0  # a constant may vary so many times: the longest windows are in no cache
SLOWER = 1.1  # costs that differ by less are the same
REPRODUCED, BETTER, WORSE = "reproduced", "better than claimed", "worse than claimed"


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


def judged(
    curve: dict[float, float], *, is_constant: bool, least: float = 0.0
) -> tuple[float, str]:
    """How many times more a row costs at the longest N_max than at the best, and what to say of it.

    Claimed is a constant, or else that costs grow as the logarithm of N_max does. Looked at is
    N_max from `least` on.
    """
    curve = {reach: rate for reach, rate in curve.items() if reach >= least}
    longest, best = max(curve), max(curve, key=curve.__getitem__)
    more = curve[best] / curve[longest]
    if more > (CONSTANT if is_constant else SLOWER * np.log2(longest) / np.log2(best)):
        return more, WORSE
    return more, REPRODUCED if is_constant or more >= SLOWER else BETTER


def holds(table: Table) -> Verdict:
    parts, words, whole = [], [], min(N_BATCH, max(table.curve(next(iter(WAYS)))))
    for name in WAYS:
        curve = table.curve(name)
        more, word = judged(curve, is_constant="QUANTILE" not in name, least=whole)
        words.append(word)
        parts.append(
            f"{name} {min(curve.values()) / MILLION:,.1f} to {max(curve.values()) / MILLION:,.1f} "
            f"million rows a second, a row at the longest costs {more:.2f} times what it costs at "
            f"best from {whole:,.0f} on ({word})"
        )
    shortest, longest = min(curve), max(curve)
    text = (
        f"from N_max = {shortest:,.0f} to {longest:,.0f}, {'; '.join(parts)}, where the logarithm "
        f"grows {np.log2(longest) / np.log2(whole):.1f} times. Answers are held against their "
        f"definition."
    )
    slowest = min(min(table.curve(name).values()) for name in WAYS)
    return Verdict(slowest >= MILLION and WORSE not in words, text)


FIGURE = Figure(
    name="shared_windows_fig10",
    source="[shared-windows] Fig. 10",
    claim="All three take millions of rows a second. As the longest window N_max grows beyond a "
    "batch, a row costs running intervals (SUM) and base intervals (MAX) the same, O(1), here at "
    "most twice the best; and sorted base intervals (QUANTILE) O(log N_max), here at most as many "
    "times more as the logarithm grows.",
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
    "of 10,000, on one core. Of a batch that is longer than N_max only the rows are written that a "
    "window can still reach, so that rows cost far less there; such N_max are shown and not "
    "judged. The paper's text gives the orders of magnitude and "
    "the bounds; its curves we do not have.",
)
