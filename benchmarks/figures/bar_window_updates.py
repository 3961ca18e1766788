"""The bar of many windows: a row costs the same under a thousand of them and under a million."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import Int64s
from benchmarks.window_aggregate_case import (
    BASE,
    LANDMARK,
    ROUTED,
    RUNNING,
    Fed,
    Windows,
    one_core,
    race,
    steady,
)

WAYS = (RUNNING, BASE, LANDMARK)
FEW: dict[Size, int] = {"smoke": 50, "full": 1_000}
N_BATCH, N_CALLS = 10_000, 10  # rows in a call, calls in a turn
ROWS, LOOKUPS, BYTES = "rows per second", "lookups per second", "bytes per window, all told"
LEAST = 0.9


class Sizes:
    """The same windows, all of them and a few, over one stream."""

    def __init__(self, n: float, size: Size) -> None:
        self.all = distinct(int(n), seed=331)
        few = spread(self.all, FEW[size])
        self.few = Windows(self.all.lows[few], self.all.highs[few], self.all.seed)

    def measured(self, way: str) -> Iterator[Reading]:
        """Rows a second in turns with few windows and with all, then the lookups."""
        made = {len(windows): Fed(way, "SUM", windows) for windows in (self.few, self.all)}
        for fed in made.values():
            fed.fill()
            fed.update(N_BATCH)
        with one_core():
            took = race({str(n): partial(_some, fed) for n, fed in made.items()})
            for n, fed in made.items():
                slots = np.arange(n)
                fed.lookup(slots)
                yield Reading(N_BATCH * N_CALLS / took[str(n)], fed.answer(), ROWS, n)
                rate = steady(partial(fed.lookup, slots), n)
                yield Reading(rate, fed.answer(), LOOKUPS, n)
                yield Reading(fed.memory_bytes() / n, panel=BYTES, x=n)


def _some(fed: Fed) -> None:
    for _ in range(N_CALLS):
        fed.update(N_BATCH)


def distinct(n: int, seed: int) -> Windows:
    """Windows of n widths, 1 to n rows, each as far back as the widest reaches at most."""
    rng = np.random.default_rng(seed)
    widths = rng.permutation(n) + 1
    lows = rng.integers(0, n - widths + 1)
    return Windows(lows, lows + widths - 1, seed)


def spread(windows: Windows, n: int) -> Int64s:
    """So many of the windows, of narrow and wide ones alike: every class of widths has some."""
    widths = windows.highs - windows.lows
    at = np.unique(np.geomspace(1, widths.size, 8 * n).astype(np.int64) - 1)
    at = at[np.linspace(0, at.size - 1, n).astype(np.int64)]
    chosen: Int64s = np.sort(np.argsort(widths)[at])
    return chosen


def series(way: str) -> Callable[[Sizes], Iterator[Reading]]:
    return lambda sizes: sizes.measured(way)


def holds(table: Table) -> Verdict:
    parts, kept = [], {}
    for way in (*WAYS, ROUTED):
        rows, lookups = table.curve(way, ROWS), table.curve(way, LOOKUPS)
        few, many = min(rows), max(rows)
        kept[way] = rows[many] / rows[few]
        parts.append(
            f"{way} {rows[many] / 1e6:,.1f} million rows a second with {many:,.0f} windows, "
            f"{kept[way]:.0%} of that with {few:,.0f}, {lookups[many] / 1e6:,.1f} million lookups "
            f"a second, {table.value(way, many, BYTES):,.0f} bytes a window"
        )
    text = "; ".join(parts) + ". All answers are equal and held against their definition."
    return Verdict(min(kept[way] for way in WAYS) >= LEAST, text)


FIGURE = Figure(
    name="bar_window_updates",
    source="project bar",
    claim="1,000,000 windows, each of another width and at an offset of its own: running, base and "
    "landmark intervals take at least 90 % of the rows a second that they take with 1,000.",
    x_label="standing windows",
    y_label="",
    sweep={"smoke": (3_000,), "full": (1_000_000,)},
    prepare=Sizes,
    series={way: series(way) for way in (*WAYS, ROUTED)},
    holds=holds,
    log_x=True,
    log_y=True,
    notes="SUM over the last 1,000,000 rows; widths 1 to 1,000,000. The thousand are some of the "
    "million, of narrow and wide ones alike, the widest among them, so that as many rows are "
    "held and as many classes of widths served. Rows in batches of 10,000, in turns; all windows "
    "looked up in one call; on one core. Bytes are those of the rows, the structure and the "
    "parameters. The router puts rows by until somebody looks, so its rows a second are those of "
    "storing them.",
)
