"""Maxima and minima of keys: the rows that matter, and the tree over the starts of windows.

The minimum is the maximum of `~value`, which turns the order of int64 around.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.growing import longer
from standfast.indexes.key_maxima import KeyMaxima, Peaks, first_from
from standfast.indexes.maxima_tree import MaximaTree, Tree, keys_with_maximum
from standfast.model.numbers import float_keys
from standfast.operators.key_threshold.searching import Asked, Found, places_after

NOTHING = np.empty(0, np.int64)


class Extremes:
    """MAX and MIN by looking at every key."""

    def __init__(self, *, least: bool, is_float: bool) -> None:
        self.least = least
        self.is_float = is_float
        self.maxima = KeyMaxima()
        self.lows = NOTHING
        self.highs = NOTHING

    def insert(self, numbers: Int64s, times: Int64s, values: npt.NDArray[Any], oldest: int) -> None:
        self.maxima.insert(numbers, times, self._keys(values))

    def expire(self, oldest: int) -> None:
        self.maxima.expire(oldest)

    def n_rows(self) -> int:
        return self.maxima.n_rows

    def is_due(self, n_new: int) -> bool:
        return n_new > 2 * self.maxima.n_rows

    def without_rows(self, numbers: Int64s) -> Int64s:
        return self.maxima.without_rows(numbers)

    def forget(self, numbers: Int64s) -> None:
        """Nothing else is known of keys without rows."""

    def serve(self, lows: Int64s, highs: Int64s) -> None:
        self.lows, self.highs = (~highs, ~lows) if self.least else (lows, highs)

    def ask(self, places: Int64s, starts: Int64s, *, exact: bool = True) -> tuple[Found, Int64s]:
        asked = Asked(starts, self.lows[places], self.highs[places])
        return _every_key(self.maxima.peaks, asked), np.arange(places.size)

    def memory_bytes(self) -> int:
        return self.maxima.memory_bytes()

    def check(self) -> None:
        self.maxima.check()

    def _keys(self, values: npt.NDArray[Any]) -> Int64s:
        keys = float_keys(values) if self.is_float else np.asarray(values, np.int64)
        return ~keys if self.least else keys


class IndexedExtremes(Extremes):
    """MAX and MIN by a tree over the starts of windows."""

    def __init__(self, *, least: bool, is_float: bool) -> None:
        super().__init__(least=least, is_float=is_float)
        self.tree = MaximaTree(self.maxima)
        self._room = 0  # as many keys as were found the last time

    def insert(self, numbers: Int64s, times: Int64s, values: npt.NDArray[Any], oldest: int) -> None:
        self.tree.insert(numbers, times, self._keys(values), oldest)

    def expire(self, oldest: int) -> None:
        self.tree.settle(oldest)

    def ask(self, places: Int64s, starts: Int64s, *, exact: bool = True) -> tuple[Found, Int64s]:
        # Windows that begin near each other one after the other: they read the same lists.
        order = np.argsort(starts)
        places = places[order]
        asked = Asked(starts[order], self.lows[places], self.highs[places])
        found = _search(self.tree.tree, self.maxima.peaks, asked, self._room)
        self._room = found.keys.size
        return found, places_after(order)

    def memory_bytes(self) -> int:
        return self.maxima.memory_bytes() + self.tree.memory_bytes()

    def check(self) -> None:
        self.tree.check()


@kernel
def _every_key(peaks: Peaks, asked: Asked) -> Found:
    """Look for the maximum of every key for every query."""
    n_keys = peaks.begins.size
    offsets = np.zeros(asked.starts.size + 1, np.int64)
    keys, n = np.empty(n_keys, np.int32), 0
    for q in range(asked.starts.size):
        if keys.size - n < n_keys:
            keys = longer(keys, n_keys)
        for k in range(n_keys):
            at = first_from(peaks, k, asked.starts[q])
            keys[n] = k
            n += at < peaks.ends[k] and asked.lows[q] <= peaks.values[at] <= asked.highs[q]
        offsets[q + 1] = n
    return Found(offsets, keys[:n].copy())


@kernel
def _search(tree: Tree, peaks: Peaks, asked: Asked, room: int) -> Found:
    n_keys = peaks.begins.size
    offsets = np.zeros(asked.starts.size + 1, np.int64)
    keys, q = np.empty(room + n_keys + 1, np.int32), 0
    while q < asked.starts.size:
        if keys.size - offsets[q] <= n_keys:
            keys = longer(keys, n_keys + 1)
        q = _search_some(tree, peaks, asked, q, offsets, keys)
    return Found(offsets, keys[: offsets[q]])


@kernel
def _search_some(
    tree: Tree, peaks: Peaks, asked: Asked, q: int, offsets: Int64s, keys: Int32s
) -> int:
    """Answer queries from q on while there is room for all keys; the first that is left.

    Making room stands apart: a kernel that makes arrays in its loop counts references there.
    """
    while q < asked.starts.size and keys.size - offsets[q] > peaks.begins.size:
        offsets[q + 1] = keys_with_maximum(
            tree, peaks, asked.starts[q], asked.lows[q], asked.highs[q], keys, offsets[q]
        )
        q += 1
    return q
