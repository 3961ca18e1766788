"""The searches of key thresholds: for all queries at once, the keys that satisfy each.

A query is a start of its window and a range; what comes out is written one query after the other.
`every_*` looks at all keys, the others at those that an index names; both decide by the rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
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


def taken(found: Found, places: Int64s) -> Found:
    """What the queries at these places hold; places beyond the last hold nothing."""
    known, offsets = _laid_out(found, places)
    keys = np.empty(offsets[-1], np.int32)
    _copy(found.offsets, found.keys, known, offsets, keys)
    return Found(offsets, keys)


def codes_taken(found: Found, places: Int64s, codes: Int64s) -> tuple[Int64s, Int64s]:
    """As `taken`, with the code of each key, which is written in the same go."""
    known, offsets = _laid_out(found, places)
    out = np.empty(offsets[-1], np.int64)
    _copy_codes(found.offsets, found.keys, known, offsets, codes, out)
    return offsets, out


def _laid_out(found: Found, places: Int64s) -> tuple[Int64s, Int64s]:
    """The places, those that hold nothing all being one, and where their keys go."""
    counts = np.append(np.diff(found.offsets), np.zeros(1, np.int64))
    known = np.minimum(places, counts.size - 1)
    offsets = np.zeros(places.size + 1, np.int64)
    np.cumsum(counts[known], out=offsets[1:])
    return known, offsets


def places_after(order: Int64s) -> Int64s:
    """Where each query stands once they are put in this order."""
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    return places


@kernel
def _copy(old: Int64s, keys: Int32s, places: Int64s, new: Int64s, out: Int32s) -> None:
    for i in range(places.size):
        n = new[i + 1] - new[i]
        out[new[i] : new[i] + n] = keys[old[places[i]] : old[places[i]] + n]


@kernel
def _copy_codes(
    old: Int64s, keys: Int32s, places: Int64s, new: Int64s, codes: Int64s, out: Int64s
) -> None:
    for i in range(places.size):
        n = new[i + 1] - new[i]
        mine, its = out[new[i] : new[i] + n], keys[old[places[i]] : old[places[i]] + n]
        for j in range(n):
            mine[j] = codes[its[j]]


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
    rows: Rows, levels: Levels, served: Served, odd: Int64s, asked: Asked,
    counts: bool, whole: bool, exact: bool, room: int,
) -> Found:  # fmt: skip
    """Look at the keys that the levels name for each query, and at the odd ones.

    Without `exact` the named ones are not looked at: they satisfy a relaxed range. There is room
    for about so many keys at first.
    """
    n_keys, q = levels.times.shape[1], 0
    blocks, named = np.empty(n_keys, np.int64), np.empty(n_keys, np.int64)
    offsets = np.zeros(asked.starts.size + 1, np.int64)
    keys = np.empty(room + n_keys + odd.size, np.int32)
    while q < asked.starts.size:
        if keys.size - offsets[q] < n_keys + odd.size:
            keys = longer(keys, n_keys + odd.size)
        q = _some_named(
            rows, levels, served, odd, asked, counts, whole, exact,
            blocks, named, q, offsets, keys,
        )  # fmt: skip
    return Found(offsets, keys[: offsets[q]])


@kernel
def _some_named(
    rows: Rows, levels: Levels, served: Served, odd: Int64s, asked: Asked,
    counts: bool, whole: bool, exact: bool,
    blocks: Int64s, named: Int64s, q: int, offsets: Int64s, keys: Int32s,
) -> int:  # fmt: skip
    """Answer queries from q on while there is room for all keys; the first that is left.

    Making room stands apart: a kernel that makes arrays in its loop counts references there.
    """
    while q < asked.starts.size and keys.size - offsets[q] >= levels.times.shape[1] + odd.size:
        start, n = asked.starts[q], offsets[q]
        n_named = keys_between(levels, served.late[q], served.early[q], start, blocks, named)
        n_sure, n_left = n_named, 0
        if exact:
            n_sure, n_left = _sure(
                levels.times, served.surely_late[q], served.surely_early[q], start,
                named, n_named, keys[n:], blocks,
            )  # fmt: skip
        else:
            keys[n : n + n_named] = named[:n_named]
        n += n_sure
        low, high = asked.lows[q], asked.highs[q]
        if counts:
            n = _counted(
                rows.times, rows.firsts, rows.ends, blocks[:n_left], start, low, high, keys, n
            )
        else:
            n = _summed(rows, blocks[:n_left], start, low, high, whole, keys, n)
            n = _summed(rows, odd, start, low, high, whole, keys, n)
        q += 1
        offsets[q] = n
    return q


@kernel
def _counted(
    times: Int64s, firsts: Int64s, ends: Int64s, left: Int64s,
    start: int, low: Any, high: Any, keys: Int32s, n: int,
) -> int:  # fmt: skip
    """Write those keys that have `low` to `high` rows, at least one, at or after `start`."""
    for i in range(left.size):
        k = left[i]
        keys[n] = k
        n += count_within(times, firsts[k], ends[k], start, low, high)
    return n


@kernel
def _summed(
    rows: Rows, left: Int64s, start: int, low: Any, high: Any, whole: bool, keys: Int32s, n: int
) -> int:
    """Write those keys whose rows at or after `start` sum to `low` to `high`."""
    for i in range(left.size):
        keys[n] = left[i]
        n += sum_within(rows, left[i], start, low, high, whole)
    return n


@kernel
def _sure(
    times: Int64s, late: int, early: int, start: int,
    named: Int64s, n_named: int, sure: Int32s, left: Int64s,
) -> tuple[int, int]:  # fmt: skip
    """Which of the named keys are in the range by the levels alone, and which are left."""
    if late == NEVER or early == NEVER:
        left[:n_named] = named[:n_named]
        return 0, n_named
    n_sure, n_left = 0, 0
    for i in range(n_named):
        k = named[i]
        is_sure = (times[late, k] >= start) & ((early == NO_LEVEL) | (times[early, k] < start))
        sure[n_sure], left[n_left] = k, k
        n_sure, n_left = n_sure + is_sure, n_left + (not is_sure)
    return n_sure, n_left
