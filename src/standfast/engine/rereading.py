"""Which windows a report reads again: those whose answer can be another than the one told.

    template                               read again
    ROWS                                   all windows of the lanes that rows came to
    RANGE                                  windows that a row crossed an edge of
    QUALIFY SUM, COUNT, without a key      those within their bound, and those far from it once
                                           all rows since could have brought them there
    QUALIFY MIN, MAX, FIRST, LAST,         those within their bound, and those whose bound holds a
            PERCENTILE_DISC                number between the least and the greatest value

Everything is read of queries that are new, and after lanes were numbered anew. A window that is not
named here holds the same rows as at the last report, or has no answer before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from standfast.arrays import Int64s
from standfast.engine.registry import Registry
from standfast.engine.relations import Relation
from standfast.engine.reported import Reported
from standfast.engine.sharing import ALL, Share
from standfast.indexes.bound_order import BoundOrder
from standfast.indexes.edge_crossings import EdgeCrossings
from standfast.indexes.lane_changes import Change, PutBy
from standfast.indexes.lane_kernels import FARTHEST, Bools, Values, positions
from standfast.indexes.lanes import NEVER, Lanes
from standfast.indexes.wake_clock import WakeClock, extremes, most_moved
from standfast.model.numbers import FAR, LEAST, float_keys, floats_of
from standfast.model.query import WindowAggregate
from standfast.operators.base import Found

Way = Literal["all", "edges", "clock", "values"]
Pairs = tuple[Int64s, Int64s]  # slots and lanes

WAYS: dict[Way, str] = {
    "all": "all windows of lanes that rows came to",
    "edges": "windows that a row came into or left",
    "clock": "answers within their bound, and windows that may have come near to theirs",
    "values": "answers within their bound, and windows whose bound some value meets",
}
_NEAR_VALUES = ("MIN", "MAX", "FIRST", "LAST", "PERCENTILE_DISC")
# A window is read in the time that so many rows are looked through in.
ROWS_A_WINDOW = 32
# Windows that are read at a time.
AT_ONCE = 1 << 20
# The share of a slack that floats may be off by: the sum itself, the bound and their difference.
ROUNDING = 2.0**-50
_NOBODY = np.empty(0, np.int64)


class Windows(NamedTuple):
    """The window of each slot in each lane, by the positions of its rows."""

    slots: Int64s
    lanes: Int64s
    firsts: Int64s
    lasts: Int64s

    def take(self, which: Bools) -> Windows:
        return Windows(self.slots[which], self.lanes[which], self.firsts[which], self.lasts[which])


def way_of(question: WindowAggregate) -> Way:
    """How a report finds the windows to read again."""
    if question.bound is not None:
        if question.function in ("SUM", "COUNT") and question.key is None:
            return "clock"
        if question.function in _NEAR_VALUES:
            return "values"
    return "all" if question.unit == "rows" else "edges"


class Rereading:
    """What was so at the last report, and what has come since.

    Invariant  slots below `n_slots` that live are known; each of them with a bound on a sum is
               told of as within it, or awake, or asleep, and never two of these.
    """

    def __init__(self, question: WindowAggregate, lanes: Lanes) -> None:
        self.way = way_of(question)
        self.question = question
        self.lanes = lanes
        self._share = ALL
        self._changed = PutBy()  # from where on each lane changed since the last report
        self.forget()

    def forget(self) -> None:
        """Nothing is known of what was read: the next report reads everything."""
        self.n_slots = 0
        self._edges, self._bounds, self._clock = EdgeCrossings(), BoundOrder(), WakeClock()
        self._awake = _NOBODY
        self._mark()

    def _mark(self) -> None:
        """What is now is what the next step is measured from."""
        self._changed.take()
        self._generation, self._then = self.lanes.generation, self.lanes.now
        self._heads = self.lanes.geometry.heads.copy()
        self._tails = self.lanes.geometry.tails.copy()

    def note(self, change: Change) -> None:
        """Rows of lanes changed."""
        self._changed.add(change, self.lanes.n_lanes)

    def begin(self, share: Share) -> bool:
        """A report of this share begins; whether everything will be read."""
        if share != self._share or self._generation != self.lanes.generation:
            self.forget()
        self._share = share
        return self.n_slots == 0

    def pairs(self, told: Reported, registry: Registry) -> Iterator[Pairs]:
        """Slots and lanes to look at again, by slot and code; `told` are the answers told."""
        if self.n_slots:
            if self.way == "clock":
                yield self._by_clock(told, registry)
            else:
                yield from self._by_lane(told, registry)
        new = self._watched(registry, self.n_slots)
        yield from self._product(new, np.arange(self.lanes.n_lanes))

    def moved(self, windows: Windows, registry: Registry) -> Bools:
        """Which windows may hold other rows than at the last report."""
        if self.question.unit == "rows" or self.way == "clock" or not self.n_slots:
            return np.ones(windows.slots.size, np.bool_)
        lanes, n = windows.lanes, windows.slots.size
        lows, highs = registry.lows[0, windows.slots], registry.highs[0, windows.slots]
        firsts, lasts, g = np.empty(n, np.int64), np.empty(n, np.int64), self.lanes.geometry
        positions(g, self.lanes.times, self._then, False, lanes, lows, highs, firsts, lasts)
        lasts = np.where(lows <= highs, lasts, firsts - 1)
        since, shrank = self._since(), self._shrank()
        changed = (firsts != windows.firsts) | (lasts != windows.lasts)
        changed |= windows.lasts >= since[lanes]
        changed |= shrank[lanes] & (firsts == g.heads[lanes])
        changed |= (since <= g.heads)[lanes]
        return np.asarray(changed | (windows.slots >= self.n_slots), np.bool_)

    def read(self, slots: Int64s, found: Found, inside: Bools, registry: Registry) -> None:
        """What was read, and which of it is within its bound: the others go to sleep."""
        if self.way != "clock":
            return
        out = slots[~inside]
        values = np.where(found.known, found.values, 0)[~inside]
        lows, highs = registry.lows[-1, out], registry.highs[-1, out]
        if self.question.result == "float64":
            lows, highs = floats_of(lows), floats_of(highs)
        wide = values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            slacks = np.where(values < lows, lows - wide, wide - highs)
            bounds = np.where(values < lows, lows, highs).astype(np.float64)
            slacks -= ROUNDING * (np.abs(wide) + np.abs(bounds))
            sleeps = np.isfinite(wide) & (slacks > 0)
        # A sum that int64 cannot hold is not known, nor is how far it is from anywhere.
        if found.over is not None:
            sleeps &= ~found.over[~inside]
        sleeps &= self._pays(out.size) and not self._is_large()
        self._clock.sleep(out[sleeps], slacks[sleeps])
        self._awake = np.concatenate([self._awake, out[~sleeps]])

    def end(self, registry: Registry) -> None:
        """All was read: the queries of now are known."""
        new = self._watched(registry, self.n_slots)
        if self.way == "edges":
            self._edges.add(new, registry.lows[0, new], registry.highs[0, new])
        elif self.way == "values":
            self._bounds.add(new, registry.lows[-1, new], registry.highs[-1, new])
        self.n_slots = registry.n_slots
        self._mark()

    def catch_up(self) -> None:
        """Let the clock go on by what has come; before rows go that it must have seen."""
        if self.way != "clock" or not self.n_slots:
            return
        if len(self._clock):
            step = self._step()
            if np.isfinite(step):
                self._clock.advance(step)
            else:
                self._awake = np.concatenate([self._awake, self._clock.wake_all()])
        self._mark()

    def rows_went(self) -> None:
        """Rows that no window reaches have gone since the clock caught up."""
        if self.way == "clock":
            self._heads = self.lanes.geometry.heads.copy()

    def memory_bytes(self) -> int:
        return sum(one.memory_bytes() for one in (self._edges, self._bounds, self._clock))

    def check(self) -> None:
        for one in (self._edges, self._bounds, self._clock, self._changed):
            one.check()

    def _since(self) -> Int64s:
        return self._changed.firsts(self.lanes.n_lanes)

    def _shrank(self) -> Bools:
        """Lanes from whose heads rows went since the last report."""
        heads = self.lanes.geometry.heads
        before = np.zeros(heads.size, np.int64)
        before[: self._heads.size] = self._heads
        return np.asarray(heads > before, np.bool_)

    def _watched(self, registry: Registry, first: int) -> Int64s:
        """Living slots of the share from one on, whose bound something meets."""
        slots = registry.living(first)
        if self._share != ALL:
            slots = slots[self._share.has(registry.ids[slots])]
        if self.question.bound is not None:
            # A bound that nothing meets: no strategy knows the query.
            slots = slots[registry.lows[-1, slots] <= registry.highs[-1, slots]]
        return slots

    def _product(self, slots: Int64s, lanes: Int64s) -> Iterator[Pairs]:
        lanes = lanes[np.argsort(self.lanes.codes[lanes], kind="stable")]
        step = max(1, AT_ONCE // max(1, lanes.size))
        for first in range(0, slots.size if lanes.size else 0, step):
            some = slots[first : first + step]
            yield np.repeat(some, lanes.size), np.tile(lanes, some.size)

    def _by_lane(self, told: Reported, registry: Registry) -> Iterator[Pairs]:
        """Windows of lanes that rows came to, or that time went on in."""
        g, since = self.lanes.geometry, self._since()
        is_moved = since < FARTHEST
        if self.question.unit == "range" and self.lanes.now != self._then:
            is_moved |= (g.tails > g.heads) | self._shrank()
        # Lanes that have other places or more rows than are worth looking through.
        known = np.arange(g.heads.size) < self._heads.size
        whole = is_moved & ((since <= g.heads) & known)
        whole |= is_moved & (g.tails - g.heads > ROWS_A_WINDOW * len(registry))
        if self.way == "all":
            whole = is_moved
        if whole.any():
            old = self._watched(registry, 0)
            yield from self._product(old[old < self.n_slots], np.flatnonzero(whole))
        lanes = np.flatnonzero(is_moved & ~whole)
        if not lanes.size:
            return
        if self.way == "edges":
            found = self._edges.crossed(self.lanes, lanes, self._then, since, self._shrank())
        else:
            found = self._near(lanes, told.rows(), registry)
        yield from self._in_order(*found, registry)

    def _near(self, lanes: Int64s, told: Relation, registry: Registry) -> Pairs:
        """Windows of lanes whose bound a value of the lane meets, and those told of."""
        is_float = self.lanes.dtype == np.float64
        first, last = (-np.inf, np.inf) if is_float else (LEAST, FAR)
        leasts: Values = np.full(lanes.size, last, self.lanes.dtype)
        mosts: Values = np.full(lanes.size, first, self.lanes.dtype)
        extremes(
            self.lanes.geometry, lanes, self.lanes.values, self.lanes.valid, leasts, mosts
        )  # fmt: skip
        if is_float:
            leasts, mosts = float_keys(leasts), float_keys(mosts)
        slots, which = self._bounds.reached(leasts, mosts)
        reached = registry.lows[-1, slots] <= mosts[which]
        reached &= registry.highs[-1, slots] >= leasts[which]
        of = self.lanes.lanes_of(told.codes) if self.lanes.is_keyed else told.slots * 0
        here = np.isin(of, lanes)
        return (
            np.concatenate([slots[reached], told.slots[here]]),
            np.concatenate([lanes[which[reached]], of[here]]),
        )

    def _in_order(self, slots: Int64s, lanes: Int64s, registry: Registry) -> Iterator[Pairs]:
        """Pairs of living slots by slot and code, each once."""
        living = registry.are_living(slots)
        slots, lanes = slots[living], lanes[living]
        n = self.lanes.n_lanes
        by_code = np.argsort(self.lanes.codes[:n], kind="stable")
        ranks = np.empty(n, np.int64)
        ranks[by_code] = np.arange(n)
        places = distinct(slots * n + ranks[lanes], n * self.n_slots)
        for first in range(0, places.size, AT_ONCE):
            some = places[first : first + AT_ONCE]
            yield some // n, by_code[some % n]

    def _by_clock(self, told: Reported, registry: Registry) -> Pairs:
        """Slots that are awake: told of as within their bound, or woken."""
        self.catch_up()
        slots = np.concatenate([told.rows().slots, self._awake, self._clock.woken()])
        self._awake = _NOBODY
        slots = distinct(slots[registry.are_living(slots)], self.n_slots)
        return slots, np.zeros(slots.size, np.int64)

    def _step(self) -> float:
        """By how much a sum can have changed since the last look; infinite if that is not known."""
        g, (since,) = self.lanes.geometry, self._since().tolist()
        head, tail, before = int(g.heads[0]), int(g.tails[0]), int(self._tails[0])
        if since <= head or head != self._heads[0] or self._is_large() or not self._pays(0):
            return np.inf
        by_rows = self.question.unit == "rows"
        span, then = self.lanes.now - self._then, self._then
        if by_rows:
            span, then = tail - before, FAR if since < before else NEVER
        return most_moved(
            g, 0, self.lanes.times, self.lanes.values, self.question.function == "COUNT",
            by_rows, span, since, then,
        )  # fmt: skip

    def _is_large(self) -> bool:
        """Whether a window may hold a float that sums of are not finite, or hardly."""
        return bool(self.lanes.large[0] >= self.lanes.geometry.heads[0])

    def _pays(self, n_more: int) -> bool:
        """Whether looking through the rows is cheaper than reading those who sleep."""
        return len(self.lanes) <= ROWS_A_WINDOW * (len(self._clock) + n_more)


def distinct(numbers: Int64s, room: int) -> Int64s:
    """Numbers below `room`, ascending and each once."""
    if 16 * numbers.size < room:
        ordered = np.sort(numbers)
        is_new = np.ones(ordered.size, np.bool_)
        is_new[1:] = ordered[1:] != ordered[:-1]
        return ordered[is_new]
    has = np.zeros(room, np.bool_)
    has[numbers] = True
    return np.flatnonzero(has)
