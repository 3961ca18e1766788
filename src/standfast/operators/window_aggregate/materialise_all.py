"""All answers materialised: every batch computes every answer anew, a lookup only reads it.

    slot     0     1     2           values[lane, slot], of the moment of the last change
    lane 0   3.5   1.0   -

Invariant  the answers are those of the rows and the time that they were computed for.
Cost       update O(sum of W) a batch over all n windows and lanes, lookup O(1); 9 bytes an answer.
Paper      materialise all, [shared-windows] section 6.1; once a batch instead of once a row, and
           from the rows, so that nothing drifts.
"""

from __future__ import annotations

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change
from standfast.indexes.lanes import Lanes
from standfast.model.numbers import floats_of
from standfast.model.query import WindowAggregate
from standfast.operators.aggregates import Aggregate
from standfast.operators.base import ROUNDED, AggregateStrategy, Found, Spec, spread_out
from standfast.operators.lowering import lower
from standfast.operators.plain import plain_answers
from standfast.operators.synopses import Synopses


class MaterialiseAll(AggregateStrategy):
    """Keep every answer; compute all of them when rows or queries change."""

    spec = Spec(
        question=WindowAggregate, paper="materialise all [shared-windows] 6.1",
        time="O(sum of W) update, O(1) lookup", space="O(N_max + n)",
        promise=ROUNDED,
    )  # fmt: skip

    def __init__(self, aggregate: Aggregate, lanes: Lanes) -> None:
        super().__init__(aggregate, lanes)
        self._rows = Synopses(aggregate)
        self._found = Found(np.empty(0), np.empty(0, np.bool_))
        self._now: int | None = None  # the time that the answers are of; None for no answers

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        super().add(slots, lows, highs)
        self._now = None

    def take_in(self, change: Change) -> None:
        g = self.lanes.geometry
        if self.aggregate.belongs_to != "holistic":
            self._rows.resize(self.lanes.size)
            for lane, first in zip(*self.lanes.held(change), strict=True):
                places = g.starts[lane] + (np.arange(first, g.tails[lane]) & g.masks[lane])
                self._rows.lift(places, places, self.lanes.values, self.lanes.valid)
        self._materialise()

    def answers(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        if self._now != self.lanes.now:
            self._materialise()
        return self._found.take(lanes * self.living.size + slots)

    def _materialise(self) -> None:
        slots, n = np.flatnonzero(self.living), self.living.size
        lanes = np.repeat(np.arange(self.lanes.n_lanes), slots.size)
        slots = np.tile(slots, self.lanes.n_lanes)
        found = self.lookup_now(slots, lanes)
        self._found = spread_out(found, lanes * n + slots, n * self.lanes.n_lanes)
        self._now = self.lanes.now

    def lookup_now(self, slots: Int64s, lanes: Int64s) -> Found:
        """The answers, computed from the rows."""
        firsts, lasts = self.lanes.positions(lanes, self.lows[0, slots], self.highs[0, slots])
        return super().answers(slots, lanes, firsts, lasts)

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        windows = (lanes, firsts, lasts)
        if self.aggregate.belongs_to == "holistic":
            shares = floats_of(self.lows[-1, slots])
            return Found(*plain_answers(self.aggregate, self.lanes, windows, shares))
        found = self._rows.rows_folded(self.lanes, windows)
        return lower(self.aggregate, found, self.lanes, windows)

    def check(self) -> None:
        slots = np.flatnonzero(self.living)
        for lane in range(self.lanes.n_lanes if self._now == self.lanes.now else 0):
            found = self.lookup_now(slots, slots * 0 + lane)
            at = lane * self.living.size + slots
            assert np.array_equal(found.known, self._found.known[at]), "an answer is missing"
            kept = self._found.values[at]
            assert np.array_equal(found.values, kept, equal_nan=True), "an answer is not of now"

    def memory_bytes(self) -> int:
        kept = self._found.values.nbytes + self._found.known.nbytes
        return int(kept + self._rows.memory_bytes())
