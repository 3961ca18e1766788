"""Sweep: how many rectangles of a tree each of many events of one code hits, in one pass.

    own axis         low ends    [1  [2     [3   [4            of members that the code's rows hit,
                     high ends         1]  2]       4]  3]     all groups in one order
    events of a code    v0    v1      v2      v3               begun by then, less ended by then

Which members are hit is the same for all events of a code (`Limits`), and where an end stands is
the same for all codes. So the ends are passed once for each code, however many events it has and
however many groups there are. For a code of few events, or events that few own ranges hold, reading
lists costs less: `worth` tells.

Invariant  the ends of an order ascend, one of each member with its two ranks in its group; those
           of who is gone are in a group that nobody hits.
Cost       O(n) a code and O(log) an event, to sort it by code, after merging events and ends once
           in O(n + events); the ends of both orders take 40 bytes a member, made when somebody
           counts so, and 8 more for a roll on which somebody is gone.
Source     a sweep over intervals with their order shared by all codes (decision 008).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import in_parts, in_place, kernel
from standfast.arrays import Bools, Int32s, Int64s
from standfast.indexes.rectangle_layout import Rectangles
from standfast.indexes.rectangle_visits import Callers, Limits

Floats = npt.NDArray[np.float64]

# Ends that are passed for all codes before the next ones, so that they stay in a core's cache.
AT_ONCE = 1 << 13
# What turning the limits of a group and code costs, where passing an end costs 1 (decision 008).
A_LIMIT = 15.0
# What a caller costs that reads lists: a look at a group; its turns and its lists, each times the
# root of how many members hold the caller, as far as that grows; lists also times a root of the
# size of the tree, which leaves the cache; a member that is looked at one by one.
A_GROUP, A_TURN, A_LIST, A_MEMBER, MOST_LISTS = 0.6, 0.85, 0.8, 1.5, 32.0
SAMPLE = 64  # own ranges that tell how many hold a caller


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

    def share_held(self, values: Int64s) -> float:
        """About which share of the own ranges holds one of these ascending values."""
        some = slice(None, None, 1 + self.lows.size // SAMPLE)
        n_below = np.searchsorted(values, self.lows[some])
        n_held = np.searchsorted(values, self.highs[some], side="right") - n_below
        return float(n_held.mean()) / values.size

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
    tree: Rectangles, axis: OwnAxis, callers: Callers, limits: Limits, *, an_end: float,
    a_caller: float,
) -> Bools:  # fmt: skip
    """Of which codes there are so many callers that passing all ends costs less than lists.

    Lists are longer the more own ranges hold a caller, and only those of groups that the code hits
    are read. First the codes are left out for which it would not do to hit all groups.
    """
    sizes = np.bincount(callers.codes, minlength=limits.lows.shape[1])
    if not callers.values.size:
        return sizes > 0
    n, group_sizes, held = tree.offsets[-1], np.diff(tree.offsets), axis.share_held(callers.values)
    n_lists, a_list = np.minimum(np.sqrt(held * group_sizes), MOST_LISTS), A_LIST * n**0.2
    passing = an_end * (2 * n + A_LIMIT * group_sizes.size)
    most = A_GROUP * n_lists.size + (A_TURN + a_list) * n_lists.sum() + A_MEMBER * held * n
    found: Bools = (sizes > 0) & (sizes * (most - a_caller) >= passing)
    codes = np.flatnonzero(found)
    if codes.size:
        lists = np.zeros(codes.size)
        _read(group_sizes, limits, codes, n_lists, a_list, A_MEMBER * held, lists)
        found[codes] = sizes[codes] * (lists - a_caller) >= passing
    return found


@kernel
def _read(
    group_sizes: Int64s, limits: Limits, codes: Int64s, n_lists: Floats, a_list: float,
    a_member: float, costs: Floats,
) -> None:  # fmt: skip
    """Raise the costs of the codes by what one of its callers reads."""
    for g in range(group_sizes.size):
        size, anyway, if_hit = group_sizes[g], A_GROUP + A_TURN * n_lists[g], a_list * n_lists[g]
        for i in range(codes.size):
            low, high = limits.lows[g, codes[i]], limits.highs[g, codes[i]]
            is_hit = (low > 0) | (high < size)
            costs[i] += anyway + is_hit * (if_hit + a_member * min(size - low, high))


def swept(ends: tuple[OwnEnds, OwnEnds], callers: Callers, limits: Limits, codes: Int64s) -> Int64s:
    """How many members each caller hits; all callers are of these ascending codes."""
    n_codes, n_callers = codes.size, callers.values.size
    by_code = np.argsort(callers.codes, kind="stable")
    starts = np.append(np.searchsorted(callers.codes[by_code], codes), n_callers)
    # A member that is gone is in a group of its own, which nobody hits.
    n_ends, n_groups = ends[0].keys.size, limits.lows.shape[0]
    turned = Limits(*np.empty((2, n_codes, n_groups + 1), np.int32))
    turned.lows[:, n_groups], turned.highs[:, n_groups] = 0, np.iinfo(np.int32).max
    in_parts(
        lambda first, last: _turn(limits, codes, first, last, turned),
        n_codes, cost=2 * turned.lows.size,
    )  # fmt: skip
    at_once = max(AT_ONCE, 16 * n_groups)  # so that the limits of a code are not read too often
    found = np.zeros(n_callers, np.int64)
    for end, sign in zip(ends, (1, -1), strict=True):
        passed = np.empty(n_callers, np.int64)
        _pass(end.keys, callers.values, sign > 0, passed)
        places = passed[by_code]

        def sweep(
            first: int, last: int, end: OwnEnds = end, places: Int64s = places, sign: int = sign
        ) -> None:
            _sweep(end, turned, starts, places, sign, at_once, first, last, found)

        in_parts(sweep, n_codes, cost=n_codes * n_ends + n_callers)
    totals = np.empty(n_callers, np.int64)
    totals[by_code] = found
    return totals


@kernel
def _turn(limits: Limits, codes: Int64s, first: int, last: int, turned: Limits) -> None:
    """Write the limits of codes `first` to `last` by code, of a few groups at a time."""
    n_groups = limits.lows.shape[0]
    for begin in range(0, n_groups, 16):
        stop = min(begin + 16, n_groups)
        for i in range(first, last):
            for g in range(begin, stop):
                turned.lows[i, g] = limits.lows[g, codes[i]]
                turned.highs[i, g] = limits.highs[g, codes[i]]


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
    ends: OwnEnds, limits: Limits, starts: Int64s, places: Int64s, sign: int,
    at_once: int, first: int, last: int, totals: Int64s,
) -> None:  # fmt: skip
    """Raise the totals of callers of codes `first` to `last` by the ends before their places."""
    n_ends, following, n_hits = ends.keys.size, starts.copy(), np.zeros(last, np.int64)
    for begin in range(0, n_ends, at_once):
        stop = min(begin + at_once, n_ends)
        for code in range(first, last):
            if following[code] == starts[code + 1]:
                continue  # all of its callers are counted, or it has none
            lows, highs = limits.lows[code], limits.highs[code]
            at, caller, n_hit = begin, following[code], n_hits[code]
            while caller < starts[code + 1] and places[caller] <= stop:
                n_hit += _hit(ends, lows, highs, at, places[caller])
                at = places[caller]
                totals[caller] += sign * n_hit
                caller += 1
            following[code] = caller
            n_hits[code] = n_hit + _hit(ends, lows, highs, at, stop)


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
