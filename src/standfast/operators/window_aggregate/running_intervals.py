"""Running totals: a window is the difference of two.

    position   0    1    2    3 |  4    5    6      the ring has 4 places: totals start anew
    value      3    1    4    1 |  5    9    2
    total      3    4    8    9 |  5   14   16
                    `-------- window 2 .. 5 --------'   9 + 14 - 4

Totals start anew each time round the ring of a lane. No window is longer than the ring, so it
crosses at most one such start, and what was added up before the last start but one leaves no
trace: the error of a window depends on the rows of at most two rings (decision 014).

Invariant  the total of a position is that of the rows since the last multiple of the capacity.
Cost       update O(1), lookup O(1); of time windows O(log n) more to find the positions. Windows
           that stand after far larger values than their own are read row by row.
Paper      [shared-windows] section 3.2, figure 6; the starts are ours.
"""

from __future__ import annotations

from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change
from standfast.indexes.lanes import Lanes
from standfast.model.query import WindowAggregate
from standfast.operators.aggregates import SUM_FLOAT, Aggregate
from standfast.operators.base import ROUNDED, AggregateStrategy, Found, Spec
from standfast.operators.lowering import lower
from standfast.operators.sum_kernels import running_by_age
from standfast.operators.synopses import Synopses, reads_ages
from standfast.operators.window_aggregate.checking import check_same


class RunningIntervals(AggregateStrategy):
    """Keep the total of every position; a window is the difference of two."""

    spec = Spec(
        question=WindowAggregate, paper="R-INT [shared-windows] 3.2",
        time="O(1) update, O(1) lookup", space="O(N_max)", needs="subtractable",
        promise=ROUNDED,
    )  # fmt: skip

    def __init__(self, aggregate: Aggregate, lanes: Lanes) -> None:
        super().__init__(aggregate, lanes)
        self._totals = Synopses(aggregate)

    def take_in(self, change: Change) -> None:
        self._totals.resize(self.lanes.size)
        self._totals.run_on(self.lanes, self.lanes.held(change))

    def lookup(self, slots: Int64s, lanes: Int64s) -> Found:
        if not reads_ages(self.aggregate, self.lanes):
            return super().lookup(slots, lanes)
        self._totals.resize(self.lanes.size)
        which = (slots, self.lows[0], self.highs[0])
        return self._totals.sums_by_age(running_by_age, self.lanes, which)

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        windows = (lanes, firsts, lasts)
        if self.aggregate.kind == SUM_FLOAT:
            self._totals.resize(self.lanes.size)
            return self._totals.sums_by_position(self.lanes, windows)
        found = self._totals.differences(self.lanes, windows)
        limits = self._totals.limits(self.lanes, windows)
        return lower(self.aggregate, found, self.lanes, windows, limits)

    def check(self) -> None:
        fresh = RunningIntervals(self.aggregate, self.lanes)
        fresh.take_in(self.lanes.all_changed())
        check_same(self, fresh)

    def memory_bytes(self) -> int:
        return self._totals.memory_bytes()
