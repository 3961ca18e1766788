"""Base intervals: aggregates of aligned stretches of 1, 2, 4, 8 ... rows make up any window.

    level 2   |       0 .. 3      |       4 .. 7      |
    level 1   | 0 .. 1  | 2 .. 3  | 4 .. 5  | 6 .. 7  |
    level 0   | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
                  `-- window 1 .. 8:  1, 2 .. 3, 4 .. 7, 8

Who looks up many windows at a time is answered from folds of blocks instead
(`operators/block_folds.py`), once they are worth making.

A batch that is appended finishes some intervals of each level; each is made of two of the level
below. An interval is never used before it is finished, nor after a row of it went.

Invariant  the interval at every place is the merge of its two halves.
Cost       update O(1) amortised, lookup O(log W), of many at a time O(1); of time windows O(log n)
           more to find the positions; two synopses a place, and as many again with folds.
Paper      [shared-windows] section 3.1.1, figure 3; batches, keys and late rows are ours.
"""

from __future__ import annotations

from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change
from standfast.indexes.lanes import Lanes
from standfast.model.query import WindowAggregate
from standfast.operators.aggregates import Aggregate
from standfast.operators.base import ROUNDED, AggregateStrategy, Found, Spec
from standfast.operators.block_folds import FEW, SHIFT, BlockFolds
from standfast.operators.interval_kernels import sums_by_age
from standfast.operators.lowering import lower
from standfast.operators.synopses import Synopses, reads_ages
from standfast.operators.window_aggregate.checking import check_same


class BaseIntervals(AggregateStrategy):
    """Keep aggregates of aligned stretches of rows; a few of them make up a window."""

    spec = Spec(
        question=WindowAggregate, paper="B-INT [shared-windows] 3.1.1",
        time="O(1) amortised update, O(log W) lookup", space="O(N_max)", needs="mergeable",
        promise=ROUNDED,
    )  # fmt: skip

    unfinished = False  # whether intervals are kept that still wait for rows
    few, shift = FEW, SHIFT  # lookups at a time that folds are not asked for, and their blocks

    def __init__(self, aggregate: Aggregate, lanes: Lanes) -> None:
        super().__init__(aggregate, lanes)
        self._intervals = Synopses(aggregate)
        self._folds: BlockFolds | None = None  # once many windows were looked up at a time

    def take_in(self, change: Change) -> None:
        self._intervals.resize(2 * self.lanes.size)
        self._intervals.grow(self.lanes, self.lanes.held(change), unfinished=self.unfinished)
        if self._folds is not None:
            self._folds.take_in(change)

    def lookup(self, slots: Int64s, lanes: Int64s) -> Found:
        if self.unfinished or not reads_ages(self.aggregate, self.lanes):
            return super().lookup(slots, lanes)
        folds, which = self._paying(slots.size), (slots, self.lows[0], self.highs[0])
        if folds is not None:
            return folds.sums_by_age(which)
        self._intervals.resize(2 * self.lanes.size)
        return self._intervals.sums_by_age(sums_by_age, self.lanes, which)

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        windows = (lanes, firsts, lasts)
        folds = self._paying(slots.size)
        if folds is not None:
            return folds.read(windows)
        found = self._intervals.windows(self.lanes, windows, unfinished=self.unfinished)
        return lower(self.aggregate, found, self.lanes, windows)

    def _paying(self, n_lookups: int) -> BlockFolds | None:
        """Folds of blocks, if so many lookups at a time are worth them."""
        if n_lookups < self.few or self.unfinished or self.aggregate.user is not None:
            return None
        folds = self._folds or BlockFolds(self._intervals, self.lanes, shift=self.shift)
        if not folds.pays(n_lookups):
            return None
        self._folds = folds
        return folds

    def check(self) -> None:
        fresh = type(self)(self.aggregate, self.lanes)
        fresh.take_in(self.lanes.all_changed())
        check_same(self, fresh)
        if self._folds is not None:
            self._folds.check()

    def memory_bytes(self) -> int:
        folds = 0 if self._folds is None else self._folds.memory_bytes()
        return self._intervals.memory_bytes() + folds
