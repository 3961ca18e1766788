"""The window join's memory bar: a stream of ten windows and more through the whole engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import Int64s
from benchmarks.register_child import held_bytes
from standfast import Engine
from standfast.workloads import Ranges, bands_in_groups, selections, table_one_events, whole

WINDOW_US = 100_000_000  # the longest
LATENESS_US = 2_000_000
SETTLED = 2  # windows until the stores are full
BATCHES = 10  # pushes of either stream in a window
NAMES = ("orders", "offers")
STORED, HELD, INSIDE, PAIRS = (
    "most rows stored", "bytes of the process since the start", "most bytes of the strategy",
    "pairs so far",
)  # fmt: skip
TEMPLATE = """
    SELECT * FROM orders AS o JOIN offers AS f ON o.product = f.product
    WHERE o.price BETWEEN :ask_low AND :ask_high AND f.price BETWEEN :bid_low AND :bid_high
    AND ABS(o.ts - f.ts) <= :window
"""


@dataclass(frozen=True, slots=True)
class Feed:
    """One stream in order of arrival, which differs from the order of times by the lateness."""

    products: Int64s
    prices: Int64s
    times: Int64s

    def part(self, chosen: slice | npt.NDArray[np.bool_]) -> Feed:
        return Feed(self.products[chosen], self.prices[chosen], self.times[chosen])


@dataclass(frozen=True, slots=True)
class Market:
    """Orders and offers that come in turns, and the queries that wait for them."""

    feeds: tuple[Feed, Feed]
    ranges: tuple[Ranges, Ranges]
    windows: Int64s
    n_batch: int

    def batches(self) -> Iterator[tuple[int, slice]]:
        """The side and the rows of each push, offers first."""
        for start in range(0, self.feeds[0].times.size, self.n_batch):
            for side in (1, 0):
                yield side, slice(start, start + self.n_batch)

    def is_due(self, side: int, rows: slice) -> bool:
        """Whether a window ends with this push."""
        return side == 0 and rows.stop % (self.n_batch * BATCHES) == 0

    def passed(self, rows: slice) -> int:
        """Windows that went by until the end of these rows."""
        return rows.stop // (self.n_batch * BATCHES)


def prepare(n_windows: float, size: Size) -> Market:
    """Rates are steady; arrivals are later than their times by up to the lateness."""
    n_window, n_products, n_queries = (100_000, 100, 60) if size == "full" else (1_000, 10, 20)
    n = int(n_windows * n_window)
    feeds = []
    for side in (0, 1):
        rng = np.random.default_rng(230 + side)
        times = np.sort(rng.integers(0, int(n_windows * WINDOW_US), n))
        times = times[np.argsort(times + rng.integers(0, LATENESS_US, n), kind="stable")]
        prices = whole(table_one_events(n, seed=232 + side))
        feeds.append(Feed(rng.integers(0, n_products, n), prices, times))
    windows = np.random.default_rng(234).integers(WINDOW_US // 10, WINDOW_US, n_queries)
    windows[0] = WINDOW_US
    ranges = (selections(n_queries, 0.1, seed=235), bands_in_groups(n_queries, 10, seed=236))
    whole_ranges = (ranges[0].whole(), ranges[1].whole())
    return Market((feeds[0], feeds[1]), whole_ranges, windows, n_window // BATCHES)


def opened(market: Market) -> Engine:
    """An engine that waits for the first row."""
    engine = Engine()
    columns = {"product": "int64", "price": "int64", "ts": "timestamp"}
    for name in NAMES:
        engine.stream(name, columns, time="ts", lateness_us=LATENESS_US)
    asks, bids = market.ranges
    engine.register(TEMPLATE, name="deals").add(
        {
            "ask_low": asks.lows, "ask_high": asks.highs,
            "bid_low": bids.lows, "bid_high": bids.highs, "window": market.windows,
        }
    )  # fmt: skip
    return engine


def pushed(market: Market) -> Iterator[Reading]:
    """The stream through the engine; a short one before it, so that no compiled code is counted."""
    for _ in _flow(prepare(SETTLED + 1, "smoke")):
        pass
    yield from _flow(market)


def _flow(market: Market) -> Iterator[Reading]:
    """What the engine keeps, what it holds, what it found."""
    engine, n_pairs, before = opened(market), 0, held_bytes(trace=False)
    stored = inside = 0
    for side, rows in market.batches():
        some = market.feeds[side].part(rows)
        columns = {"product": some.products, "price": some.prices, "ts": some.times}
        n_pairs += engine.push(NAMES[side], columns)["deals"].pairs().num_rows
        told = engine.metrics()
        stored = max(stored, sum(told["inputs"][name]["stored"] for name in NAMES))
        inside = max(inside, told["groups"]["deals"]["memory_bytes"])
        if market.is_due(side, rows):
            x = market.passed(rows)
            yield Reading(stored, panel=STORED, x=x)
            yield Reading(held_bytes(trace=False) - before, panel=HELD, x=x)
            yield Reading(inside, panel=INSIDE, x=x)
            yield Reading(n_pairs, np.array([n_pairs]), panel=PAIRS, x=x)
            stored = inside = 0


def counted(market: Market) -> Iterator[Reading]:
    """NumPy, which forgets nothing: the pairs, and the rows that an arrival can still need."""
    n_pairs, n_come = 0, [0, 0]
    for side, rows in market.batches():
        others = market.feeds[1 - side].part(slice(0, n_come[1 - side]))
        n_pairs += _affected(market, side, market.feeds[side].part(rows), others)
        n_come[side] = rows.stop
        if not market.is_due(side, rows):
            continue
        x = market.passed(rows)
        seen = [feed.times[: rows.stop] for feed in market.feeds]
        oldest = [times.max() - LATENESS_US - WINDOW_US for times in seen[::-1]]
        needed = sum(np.sum(times >= old) for times, old in zip(seen, oldest, strict=True))
        yield Reading(float(needed), panel=STORED, x=x)
        yield Reading(n_pairs, np.array([n_pairs]), panel=PAIRS, x=x)


def come(market: Market) -> Iterator[Reading]:
    """All rows so far: what would be stored if nothing were let go."""
    for side, rows in market.batches():
        if market.is_due(side, rows):
            yield Reading(2 * rows.stop, panel=STORED, x=market.passed(rows))


def _affected(market: Market, side: int, events: Feed, others: Feed) -> int:
    """Pairs of an event and a query for which a row of the other side lies in the window."""
    step = np.int64(1) << 40  # between products, longer than any stream
    others = others.part(np.abs(others.times - events.times.mean()) <= 2 * WINDOW_US)
    places, n_pairs = others.products * step + others.times, 0
    order = np.argsort(places)
    places, prices = places[order], others.prices[order]
    own, other = market.ranges[side], market.ranges[1 - side]
    for query, window in enumerate(market.windows):
        selected = (own.lows[query] <= events.prices) & (events.prices <= own.highs[query])
        held = places[(other.lows[query] <= prices) & (prices <= other.highs[query])]
        at = events.products[selected] * step + events.times[selected]
        first = np.searchsorted(held, at - window)
        n_pairs += int(np.sum(np.searchsorted(held, at + window, side="right") > first))
    return n_pairs


def holds(table: Table) -> Verdict:
    last = max(table.curve("engine", STORED))
    middle = (SETTLED + last) / 2
    growth = {}
    for panel in (STORED, HELD, INSIDE):
        curve = table.curve("engine", panel)
        early = max(value for x, value in curve.items() if SETTLED <= x <= middle)
        growth[panel] = max(value for x, value in curve.items() if x > middle) / max(early, 1)
    needed = table.curve("needed", STORED)
    excess = max(table.value("engine", x, STORED) / needed[x] for x in needed if x >= SETTLED)
    found, right = table.value("engine", last, PAIRS), table.value("needed", last, PAIRS)
    n_come = table.value("come", last, STORED)
    text = (
        f"after {last:.0f} windows, at most {excess:.2f} times the rows are stored that an arrival "
        f"can still need ({needed[last]:,.0f} of {n_come:,.0f} that came); "
        f"most of the second half against most of the first: rows {growth[STORED]:.2f}, bytes of "
        f"the process {growth[HELD]:.2f}, bytes of the strategy {growth[INSIDE]:.2f}. "
        f"{found:,.0f} pairs were found, {'all' if found == right else f'not {right:,.0f}'}."
    )
    flat = growth[STORED] <= 1.1 and growth[HELD] <= 1.25 and growth[INSIDE] <= 1.25
    return Verdict(flat and excess <= 1.5 and found == right, text)


FIGURE = Figure(
    name="bar_window_memory",
    source="project bar",
    claim="Memory is flat over a stream more than ten times longer than the longest window: rows "
    "that no window can reach any more are let go, and no result is lost by it.",
    x_label="stream so far / longest window",
    y_label="",
    sweep={"smoke": (6,), "full": (11,)},
    prepare=prepare,
    series={"engine": pushed, "needed": counted, "come": come},
    holds=holds,
    notes="Through the engine, orders and offers in turns, 100,000 of each in a window, out of "
    "order by up to a fiftieth of a window. The pairs are counted again by NumPy over all rows "
    "that came. Bytes of the process are taken after the allocators gave back what is free.",
)
