"""The searches of key thresholds: for all queries at once, the keys that satisfy each.

A query is a start of its window and a range; what comes out is written one query after the other.
`every_*` looks at all keys, the others at those that an index names; both decide by the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.collective_index import NEVER, Served
from standfast.indexes.growing import longer
from standfast.indexes.key_rows import Rows, count_within, sum_within, window_start
from standfast.indexes.level_times import NO_LEVEL, Levels, keys_between


class Asked(NamedTuple):
    """Queries as searches see them: `starts[q]` is where the window of query q begins."""

    starts: Int64s
    lows: npt.NDArray[Any]  # int64, or float64 for sums of float64
    highs: npt.NDArray[Any]


class Found(NamedTuple):
    """Numbers of keys: query q found `keys[offsets[q]:offsets[q + 1]]`, each once, in any order."""

    offsets: Int64s
    keys: Int32s


@inlined
def _holds(rows: Rows, k: int, asked: Asked, q: int, counts: bool, whole: bool) -> bool:
    if counts:
        return count_within(rows, k, asked.starts[q], asked.lows[q], asked.highs[q])
    return sum_within(rows, k, asked.starts[q], asked.lows[q], asked.highs[q], whole)


@kernel
def every_key(rows: Rows, asked: Asked, counts: bool, whole: bool) -> Found:
    """Look at every key for every query."""
    n_keys = rows.begins.size
    offsets = np.zeros(asked.starts.size + 1, np.int64)
    keys, n = np.empty(n_keys, np.int32), 0
    for q in range(asked.starts.size):
        if keys.size - n < n_keys:
            keys = longer(keys, n_keys)
        low, high = asked.lows[q], asked.highs[q]
        for k in range(n_keys):
            keys[n] = k
            if counts:
                count = rows.ends[k] - window_start(rows, k, asked.starts[q])
                n += count > 0 and low <= count <= high
            else:
                n += sum_within(rows, k, asked.starts[q], low, high, whole)
        offsets[q + 1] = n
    return Found(offsets, keys[:n].copy())


@kernel
def named_keys(
    rows: Rows, levels: Levels, served: Served, odd: Int64s,
    asked: Asked, counts: bool, whole: bool, exact: bool,
) -> Found:  # fmt: skip
    """Look at the keys that the levels name for each query, and at the odd ones.

    Without `exact` the named ones are not looked at: they satisfy a relaxed range.
    """
    n_keys = levels.times.shape[1]
    blocks, named = np.empty(n_keys, np.int64), np.empty(n_keys, np.int64)
    offsets = np.zeros(asked.starts.size + 1, np.int64)
    keys, n = np.empty(n_keys, np.int32), 0
    for q in range(asked.starts.size):
        if keys.size - n < n_keys:
            keys = longer(keys, n_keys)
        start = asked.starts[q]
        n_named = keys_between(levels, served.late[q], served.early[q], start, blocks, named)
        for i in range(n_named):
            keys[n] = named[i]
            n += (
                not exact or _surely(levels, served, q, named[i], start)
                or _holds(rows, named[i], asked, q, counts, whole)
            )  # fmt: skip
        for i in range(odd.size):
            keys[n] = odd[i]
            n += _holds(rows, odd[i], asked, q, counts, whole)
        offsets[q + 1] = n
    return Found(offsets, keys[:n].copy())


@inlined
def _surely(levels: Levels, served: Served, q: int, k: int, start: int) -> bool:
    """Whether the levels alone say that a named key is in the range."""
    late, early = served.surely_late[q], served.surely_early[q]
    if late == NEVER or early == NEVER or levels.times[late, k] < start:
        return False
    return bool(early == NO_LEVEL or levels.times[early, k] < start)
