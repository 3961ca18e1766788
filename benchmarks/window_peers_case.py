"""What the figures of windows beside other libraries share: one stream, three ways to ask.

    batch     rows come in batches, and all windows are asked after each
    columns   rows come in batches, and all windows are asked after every row of one
    rows      rows come one by one, and all windows are asked after each

All who take part are compared by the answers after one and the same row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np

from benchmarks.clock import budget, seconds
from benchmarks.figure import Reading, Table
from benchmarks.peers import Int64s
from benchmarks.peers.external_windows import (
    STRUCTURES,
    VARIABLE,
    ExternalWindows,
    Pushes,
    program,
)
from benchmarks.window_aggregate_case import Fed, Floats, Windows

Ask = Literal["batch", "columns", "rows"]
PANELS: dict[Ask, str] = {
    "batch": "answers per second, after each batch",
    "columns": "answers per second, after every row of a batch",
    "rows": "answers per second, rows one by one",
}
ONCE, COLUMNS, EACH = PANELS.values()
N_COMPARED = 100
FEWEST_RUNS, MOST_RUNS = 2, 9


class Stream:
    """Windows, and rows up to the end of the batch after which answers are compared.

    `n_pushes` is what a program is given at a time: rows times windows.
    """

    def __init__(
        self, windows: Windows, n_batch: int, n_pushes: int, aggregate: str = "SUM"
    ) -> None:
        self.windows = windows
        self.n_batch = n_batch
        self.aggregate = aggregate
        self.n_timed = -(-n_pushes // (len(windows) * n_batch)) * n_batch

    def ready(self, way: str) -> Fed:
        """A way that waits for the batch."""
        fed = Fed(way, self.aggregate, self.windows, self.n_batch)
        fed.fill()
        return fed

    def rows(self, n: int) -> Floats:
        """The last n rows up to the end of the batch."""
        return self.windows.values(self.windows.n_fill + self.n_batch - n, n)

    def answer(self, found: Floats) -> Int64s:
        return found[:N_COMPARED].astype(np.int64)

    def n_answers(self, ask: Ask) -> int:
        """Answers that a batch asks for."""
        return len(self.windows) * (1 if ask == "batch" else self.n_batch)


def best(work: Callable[[], float]) -> float:
    """The fewest of the seconds that runs give, a few at least, and more while there is time."""
    least, used = np.inf, 0.0
    for run in range(MOST_RUNS):
        if run >= FEWEST_RUNS and used > budget():
            break
        whole, took = seconds(work)
        least, used = min(least, took), used + whole
    return float(least)


def ours(stream: Stream, way: str, ask: Ask) -> tuple[float, Int64s]:
    """Answers a second of one of our ways, and the first that it gave."""
    slots, n, first = np.arange(len(stream.windows)), stream.n_batch, list[Int64s]()
    fed = stream.ready(way)

    def batch() -> Floats:
        fed.update(n)
        return np.asarray(fed.lookup(slots).values)

    def columns() -> Floats:
        fed.update(n)
        return np.asarray(fed.columns(n).values[n - 1 :: n])

    def rows() -> Floats:
        for _ in range(n):
            fed.update(1)
            found = fed.lookup(slots)
        return np.asarray(found.values)

    works = {"batch": batch, "columns": columns, "rows": rows}

    def run() -> float:
        took, found = seconds(works[ask])
        first.append(stream.answer(found))
        return took

    return stream.n_answers(ask) / best(run), first[0]


def theirs(stream: Stream, structure: str, ask: Ask) -> tuple[float, Int64s] | None:
    """The same of a structure of the program, if there is one."""
    path = program()
    if path is None:
        return None
    made = ExternalWindows(path, STRUCTURES[structure], stream.aggregate.lower())
    n_batch, windows = 1 if ask == "rows" else stream.n_batch, stream.windows
    how = Pushes("last" if ask == "batch" else "each", n_batch, stream.n_timed)
    values, first = stream.rows(2 * (windows.reach + 1) + stream.n_timed), list[Int64s]()

    def run() -> float:
        took, found = made.answers(windows.lows, windows.highs, values, how)
        first.append(stream.answer(found))
        return took

    n_answers = stream.n_answers(ask) * stream.n_timed // stream.n_batch
    return n_answers / best(run), first[0]


def series(
    measure: Callable[[Stream, str, Ask], tuple[float, Int64s] | None],
    name: str,
    most: dict[Ask, int],
) -> Callable[[Stream], Iterator[Reading]]:
    """A panel for each way to ask, with as many windows as are not too many for it."""

    def readings(stream: Stream) -> Iterator[Reading]:
        for ask, n in most.items():
            measured = measure(stream, name, ask) if len(stream.windows) <= n else None
            if measured is not None:
                yield Reading(*measured, PANELS[ask])

    return readings


def short(rate: float) -> str:
    """A rate in words."""
    return f"{rate / 1e6:,.3g} million" if rate >= 1e6 else f"{rate / 1e3:,.3g} thousand"


def who_ran(table: Table) -> str:
    """Which structures of the program took part, and if none did, why."""
    ran = [name for name in STRUCTURES for panel in table.panels() if table.curve(name, panel)]
    if not ran:
        return f"No C++ structure took part: {VARIABLE} named no program"
    return f"C++ structures that took part: {', '.join(dict.fromkeys(ran))}"
