"""libspatialindex: an R-tree of the queries' rectangles, loaded in bulk, searched by batches.

`SelectFirst` asks for the rectangles that a line at the event's value crosses and searches the rows
of its key for each. `JoinFirst` asks for the rectangles that hold one of the points (event's value,
row's value), which finds most of them many times over. Its coordinates are float64, so values
beyond 2^53 would not be kept apart.

Plans tried at 100,000 queries and 1,000 joining rows on two busy cores, in events per second:
`SelectFirst` 60 (82 for the line alone); `JoinFirst` 0.7; a third dimension for the stabbing group,
searched with the nearest row on either side of its point, 40.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from rtree import index

from benchmarks.peers import Int64s
from benchmarks.peers.numpy_select import Rows, holding

CAPACITY = 100


class SelectFirst:
    """One search per event, then a binary search for each rectangle found."""

    batch = 1

    def __init__(self, lows: Int64s, highs: Int64s, row_keys: Int64s, row_values: Int64s) -> None:
        self.lows, self.highs = lows, highs
        self.rows = Rows(row_keys, row_values)
        self.beyond = float(max(highs[1].max(), row_values.max())) + 1
        self.below = float(min(lows[1].min(), row_values.min())) - 1
        properties = index.Property(leaf_capacity=CAPACITY, index_capacity=CAPACITY)
        self.tree = index.Index(_rectangles(lows, highs), properties=properties)

    def affected(self, keys: Int64s, values: Int64s) -> list[Int64s]:
        return [self._one(self.rows.of(k), v) for k, v in zip(keys, values, strict=True)]

    def ids(self, output: list[Int64s], event: int) -> Int64s:
        return output[event]

    def _one(self, rows: Int64s, value: int) -> Int64s:
        if rows.size == 0:
            return rows
        crossed = self._search(np.array([[value, self.below]]), np.array([[value, self.beyond]]))
        return crossed[holding(rows, self.lows[1, crossed], self.highs[1, crossed])]

    def _search(self, least: npt.NDArray[np.float64], most: npt.NDArray[np.float64]) -> Int64s:
        found, _ = self.tree.intersection_v(least, most)
        return np.asarray(found, np.int64)


class JoinFirst(SelectFirst):
    """One search for all joining rows of an event, then each rectangle once."""

    def _one(self, rows: Int64s, value: int) -> Int64s:
        if rows.size == 0:
            return rows
        points = np.column_stack([np.full(rows.size, value, np.float64), rows])
        return np.unique(self._search(points, points))


def _rectangles(lows: Int64s, highs: Int64s) -> Iterator[tuple[int, list[float], None]]:
    corners = np.concatenate([lows, highs]).T.astype(np.float64)
    for i, corner in enumerate(corners.tolist()):
        yield i, corner, None
