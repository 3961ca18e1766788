"""One window, answered after every row: ours beside C++ structures that are made for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers.external_windows import STRUCTURES
from benchmarks.window_aggregate_case import BASE, RUNNING, Windows
from benchmarks.window_peers_case import Ask, Stream, ours, short, theirs, who_ran

N_BATCH: dict[Size, int] = {"smoke": 100, "full": 10_000}
N_PUSHES: dict[Size, int] = {"smoke": 1_000, "full": 1 << 20}
AGGREGATES = ("SUM", "MAX")
WAYS = {"SUM": (RUNNING, BASE), "MAX": (BASE,)}
CALLS: dict[str, Ask] = {"a call a batch": "columns", "a call a row": "rows"}
SINGLE = tuple(STRUCTURES)[:3]
PANEL = "answers per second, {}"


def prepare(width: float, size: Size) -> dict[str, Stream]:
    windows = Windows(np.zeros(1, np.int64), np.array([int(width) - 1]), seed=361)
    return {name: Stream(windows, N_BATCH[size], N_PUSHES[size], name) for name in AGGREGATES}


def our_series(way: str, ask: Ask) -> Callable[[dict[str, Stream]], Iterator[Reading]]:
    def measure(streams: dict[str, Stream]) -> Iterator[Reading]:
        for name, stream in streams.items():
            if way in WAYS[name]:
                yield Reading(*ours(stream, way, ask), PANEL.format(name))

    return measure


def their_series(structure: str) -> Callable[[dict[str, Stream]], Iterator[Reading]]:
    def measure(streams: dict[str, Stream]) -> Iterator[Reading]:
        for name, stream in streams.items():
            measured = theirs(stream, structure, "columns")
            if measured is not None:
                yield Reading(*measured, PANEL.format(name))

    return measure


def holds(table: Table) -> Verdict:
    parts, ahead = [], True
    for name in AGGREGATES:
        panel = PANEL.format(name)
        for series in table.series(panel):
            rates = table.curve(series, panel).values()
            parts.append(f"{name} by {series} {short(min(rates))} to {short(max(rates))}")
        for x in table.curve(f"{BASE}, a call a row", panel):
            rates_at = {s: table.curve(s, panel)[x] for s in table.series(panel)}
            fast = [rates_at.pop(s) for s in SINGLE[:2] if s in rates_at]
            mine = [rate for s, rate in rates_at.items() if s not in SINGLE]
            ahead &= bool(fast) and min(fast) > max(mine)
    return Verdict(ahead, f"answers a second: {'; '.join(parts)}. {who_ran(table)}. All are equal.")


FIGURE = Figure(
    name="bar_window_single",
    source="project bar",
    claim="For a single window that is asked after every row, the C++ structures made for one are "
    "what to use: two-stacks lite and DABA lite give more answers than running and base "
    "intervals at every width, for SUM and for MAX.",
    x_label="rows in the window",
    y_label="",
    sweep={"smoke": (16, 300), "full": (16, 256, 4_096, 65_536, 1 << 20)},
    prepare=prepare,
    series={
        **{f"{w}, {how}": our_series(w, ask) for w in WAYS["SUM"] for how, ask in CALLS.items()},
        **{name: their_series(name) for name in SINGLE},
    },
    holds=holds,
    log_x=True,
    log_y=True,
    rounds=2,
    notes="Every row of a full window evicts the oldest, and an answer is made. Ours take 10,000 "
    "rows in one call and give the answers after each of them in another, or are called twice "
    "for every row. The C++ structures (FiBA of arity 4), in a program that is not part of this "
    "project, take their rows one after the other from memory, with no call in between.",
)
