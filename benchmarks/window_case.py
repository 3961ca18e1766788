"""What the window join figures share: a select-join case of Table I with times and windows.

    rows      ....................|         times spread over the span, uniform
    events                        |.        right behind it; or in its middle half, out of order
    windows                 [-----|         a tenth to all of the longest one
              [-------------------|

The paper measures no window joins; these cases take the queries, rows and events of its
select-joins, so that the figures can be laid side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields

import numpy as np

from benchmarks.figure import Reading, Size
from benchmarks.peers import Int64s
from benchmarks.select_case import RATE, InOrder, SelectCase, spans, table_one
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals, WindowStrategy
from standfast.operators.catalog import WINDOW_JOINS
from standfast.operators.window_join.groups import ByGroups
from standfast.workloads import Ranges, whole

SPAN = 1_000_000_000  # of the rows' times
SHORTEST = 0.1  # window, as a share of the longest
MET = "rows that an event meets"
MOST_QUERIES = 100_000  # the rivals of the groups are measured as far as the paper goes


@dataclass(frozen=True, slots=True)
class WindowCase(SelectCase):
    """A select case whose rows and events have times; attribute 2 of the queries is the window."""

    row_times: Int64s
    times: Int64s

    def rows(self) -> SortedRuns:
        rows = SortedRuns(coded=True, n_extras=1)
        ids = np.arange(self.row_values.size)
        rows.insert(self.row_values, ids, self.row_keys, self.row_times[None, :])
        return rows

    def strategy(self, way: str) -> WindowStrategy:
        """The strategy with all queries in it."""
        strategy = WINDOW_JOINS[way](is_float=False)
        strategy.add(np.arange(self.n_queries), self.lows, self.highs)
        return strategy

    def process(self, strategy: WindowStrategy, rows: SortedRuns, events: Int64s) -> InOrder:
        """Sort the events by key and process them: what a push costs a strategy."""
        order = events[np.argsort(self.keys[events], kind="stable")]
        arrivals = Arrivals(self.keys[order], self.values[order], self.times[order])
        return InOrder(order, strategy.process(arrivals, rows, side=0))


def window_case(
    ranges: Ranges, size: Size, seed: int, *, rate: float = RATE, n_joining: float | None = None,
    longest: float = 1.0, amid: bool = False,
) -> WindowCase:  # fmt: skip
    """These ranges on C over rows and events of Table I; `longest` window as a share of the span.

    The events come after all rows, or with `amid` in the midst of them.
    """
    base = table_one(ranges, size, seed, rate=rate, n_joining=n_joining)
    rng = np.random.default_rng(seed + 5)
    windows = whole(longest * rng.uniform(SHORTEST, 1, base.n_queries), SPAN)
    first, last = (SPAN // 4, 3 * SPAN // 4) if amid else (SPAN, SPAN + SPAN // 10_000)
    given = {field.name: getattr(base, field.name) for field in fields(base)}
    given["lows"] = np.vstack([base.lows, np.zeros_like(windows)])
    given["highs"] = np.vstack([base.highs, windows])
    return WindowCase(
        **given,
        row_times=rng.integers(0, SPAN, base.row_keys.size),
        times=rng.integers(first, last, base.keys.size),
    )


def groups(case: WindowCase) -> Iterator[Reading]:
    """Throughput of the groups, and how many skyline points an event meets by their own books."""
    yield from spans("groups")(case)
    yield Reading(consulted(case)[0], panel=MET)


def join_first(case: WindowCase) -> Iterator[Reading]:
    """Throughput of joining first, and how many rows an event joins with."""
    yield from spans("join_first", MOST_QUERIES)(case)
    yield Reading(rows_in_reach(case), panel=MET)


SERIES: dict[str, Callable[[WindowCase], Iterator[Reading]]] = {
    "groups": groups,
    "hotspot": spans("hotspot", MOST_QUERIES),
    "join_first": join_first,
    "select_first": spans("select_first", MOST_QUERIES),
    "naive": spans("naive", 2_000),
}


def consulted(case: WindowCase) -> tuple[float, Int64s]:
    """Skyline points an event, as the groups count them, and the stabbing points they lie around.

    Of the events that are compared only, so that it can be held against the definition.
    """
    strategy = ByGroups(is_float=False)
    strategy.add(np.arange(case.n_queries), case.lows, case.highs)
    case.process(strategy, case.rows(), case.places[: case.n_checked])
    told = strategy.describe()["skyline points an event"]
    assert isinstance(told, float), "the groups count skyline points"
    return told, np.sort(strategy.sides.of(0).partition.group_points())


def rows_in_reach(case: WindowCase) -> float:
    """Rows of an event's key within the longest window."""
    longest = case.highs[2].max()
    return float(np.mean([np.sum(gaps <= longest) for _, gaps in _joining(case)]))


def skyline_points(case: WindowCase, points: Int64s) -> float:
    """Rows of an event's key that no row between them and the next point on a side outdoes."""
    return float(np.mean([_skyline_size(*found, points) for found in _joining(case)]))


def _joining(case: WindowCase) -> Iterator[tuple[Int64s, Int64s]]:
    """For each event that is compared, the rows of its key: their C, and the time between."""
    for key, time in zip(case.keys[: case.n_checked], case.times, strict=False):
        joining = case.row_keys == key
        yield case.row_values[joining], np.abs(case.row_times[joining] - time)


def _skyline_size(keys: Int64s, gaps: Int64s, points: Int64s) -> int:
    order = np.lexsort((gaps, keys))
    order = order[np.diff(keys[order], prepend=-1) != 0]  # the nearest of equal ones
    cells, gaps = np.searchsorted(points, keys[order], side="right"), gaps[order]
    on_skyline = np.zeros(order.size, np.bool_)
    for cell in np.unique(cells):
        inside = np.flatnonzero(cells == cell)
        if cell > 0:
            on_skyline[inside[_records(gaps[inside])]] = True
        if cell < points.size:
            on_skyline[inside[::-1][_records(gaps[inside][::-1])]] = True
    return int(np.count_nonzero(on_skyline))


def _records(gaps: Int64s) -> Int64s:
    """The places that are below all before them."""
    least = np.minimum.accumulate(gaps)
    return np.flatnonzero(np.concatenate([[True], gaps[1:] < least[:-1]]))
