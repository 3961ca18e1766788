"""Sweep: how many rectangles of a tree each of many events of one code hits, in one pass.

    own axis         low ends    [1  [2     [3   [4            of members that the code's rows hit,
                     high ends         1]  2]       4]  3]     all groups in one order
    events of a code    v0    v1      v2      v3               begun by then, less ended by then

Which members are hit is the same for all events of a code (`Limits`), and where an end stands is
the same for all codes. So the ends are passed once for each code, however many events it has and
however many groups there are. For a code of few events reading lists costs less: `worth` tells.

Cost       O(n) a code and O(1) an event, after merging events and ends once in O(n + events); the
           ends of both orders take 40 bytes a member, made when somebody counts so.
Source     a sweep over intervals with their order shared by all codes (decision 008).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, in_place, kernel
from standfast.arrays import Bools, Int32s, Int64s
from standfast.indexes.rectangle_layout import Rectangles
from standfast.indexes.rectangle_visits import Callers, Limits

# Ends that are passed for all codes before the next ones, so that they stay in a core's cache.
AT_ONCE = 1 << 13


class OwnEnds(NamedTuple):
    """One end of all own ranges, ascending, and of whom it is."""

    keys: Int64s
    groups: Int32s  # as many as there are groups where the member is gone
    lows: Int32s  # its rank in the low order of its group
    highs: Int32s


class OwnAxis:
    """The own ranges of a tree by place in its low order; on demand their ends in order.

    The order is kept once it is whole, because answers may be read on several threads.
    """

    def __init__(self, lows: Int64s, highs: Int64s) -> None:
        self.lows, self.highs = lows, highs
        self._ends: tuple[OwnEnds, OwnEnds] | None = None

    def ends(self, tree: Rectangles) -> tuple[OwnEnds, OwnEnds]:
        """The low ends and the high ends of all members, those that are gone included."""
        if self._ends is None:
            sizes = np.diff(tree.offsets)
            groups = np.repeat(np.arange(sizes.size, dtype=np.int32), sizes)
            ranks = (np.arange(groups.size) - tree.offsets[groups]).astype(np.int32)
            orders = [np.argsort(keys).astype(np.int32) for keys in (self.lows, self.highs)]
            low, high = (
                OwnEnds(keys[order], groups[order], ranks[order], tree.low_to_high[order])
                for keys, order in zip((self.lows, self.highs), orders, strict=True)
            )
            self._ends = low, high
        return self._ends

    def check(self, tree: Rectangles) -> None:
        """Assert that the ends, where somebody asked for them, ascend and are those of members."""
        for end, keys in zip(self._ends or (), (self.lows, self.highs), strict=False):
            places = tree.offsets[end.groups] + end.lows
            assert np.array_equal(np.sort(places), np.arange(keys.size)), "an end is not there"
            assert np.array_equal(end.keys, keys[places]), "an end is another member's"
            assert np.all(end.keys[1:] >= end.keys[:-1]), "ends must ascend"
            assert np.array_equal(end.highs, tree.low_to_high[places]), "a wrong high rank"

    def memory_bytes(self) -> int:
        ends = [array for end in self._ends or () for array in end]
        return sum(array.nbytes for array in (self.lows, self.highs, *ends))


def worth(
    tree: Rectangles, callers: Callers, n_codes: int, *, an_end: float, a_caller: float
) -> Bools:
    """Of which codes there are so many callers that passing all ends costs less than lists.

    Reading the lists of a group costs about the square root of its size and, since large ones are
    in no cache, a hundredth of it (decision 008); passing an end and sorting a caller cost so many
    of these units.
    """
    sizes = np.bincount(callers.codes, minlength=n_codes)
    lists = np.sqrt(np.diff(tree.offsets)).sum() + tree.offsets[-1] / 100
    found: Bools = (sizes > 0) & (sizes * (lists - a_caller) >= 2 * an_end * tree.offsets[-1])
    return found


def swept(ends: tuple[OwnEnds, OwnEnds], callers: Callers, limits: Limits) -> Int64s:
    """How many members each caller hits."""
    n_codes, n_callers = limits.lows.shape[1], callers.values.size
    by_code = np.argsort(callers.codes, kind="stable")
    starts = np.searchsorted(callers.codes[by_code], np.arange(n_codes + 1))
    # A member that is gone is in a group of its own, which nobody hits.
    lows = np.zeros((n_codes, limits.lows.shape[0] + 1), np.int32)
    highs = np.full(lows.shape, np.iinfo(np.int32).max, np.int32)
    lows[:, :-1], highs[:, :-1] = limits.lows.T, limits.highs.T
    n_ends = ends[0].keys.size
    found = np.zeros(n_callers, np.int64)
    for end, sign in zip(ends, (1, -1), strict=True):
        passed = np.empty(n_callers, np.int64)
        _pass(end.keys, callers.values, sign > 0, passed)
        places = passed[by_code]

        def sweep(
            first: int, last: int, end: OwnEnds = end, places: Int64s = places, sign: int = sign
        ) -> None:
            _sweep(end, lows, highs, starts, places, sign, AT_ONCE, first, last, found)

        in_parts(sweep, n_codes, cost=n_codes * n_ends + n_callers)
    totals = np.empty(n_callers, np.int64)
    totals[by_code] = found
    return totals


@kernel
def _pass(keys: Int64s, values: Int64s, with_equal: bool, passed: Int64s) -> None:
    """How many of the keys lie below each value, or at it `with_equal`; both ascend."""
    at, n = 0, keys.size
    for i in range(values.size):
        value = values[i]
        if with_equal:
            while at < n and keys[at] <= value:
                at += 1
        else:
            while at < n and keys[at] < value:
                at += 1
        passed[i] = at


@kernel
def _sweep(
    ends: OwnEnds, lows: Int32s, highs: Int32s, starts: Int64s, places: Int64s, sign: int,
    at_once: int, first: int, last: int, totals: Int64s,
) -> None:  # fmt: skip
    """Raise the totals of callers of codes `first` to `last` by the ends before their places."""
    n_ends, following, n_hits = ends.keys.size, starts.copy(), np.zeros(last, np.int64)
    for begin in range(0, n_ends, at_once):
        stop = min(begin + at_once, n_ends)
        for code in range(first, last):
            if following[code] == starts[code + 1]:
                continue  # all of its callers are counted, or it has none
            at, caller, n_hit = begin, following[code], n_hits[code]
            while caller < starts[code + 1] and places[caller] <= stop:
                n_hit += _hit(ends, lows[code], highs[code], at, places[caller])
                at = places[caller]
                totals[caller] += sign * n_hit
                caller += 1
            following[code] = caller
            n_hits[code] = n_hit + _hit(ends, lows[code], highs[code], at, stop)


@in_place
def _hit(ends: OwnEnds, lows: Int32s, highs: Int32s, begin: int, stop: int) -> int:
    """How many of the ends `begin` to `stop` are those of members that are hit."""
    n_hit = np.int32(0)
    # Places without a sign and a narrow sum: half the time, as 16 ends are compared at once.
    for i in range(np.uint64(begin), np.uint64(stop)):
        group = ends.groups[i]
        is_hit = (ends.lows[i] < lows[group]) | (ends.highs[i] >= highs[group])
        n_hit += np.int32(is_hit)
    return int(n_hit)
