"""An augmented tree: every inner node has the aggregate of the rows below it, now.

              0 .. 3                  4 .. 6
          0 .. 1   2 .. 3         4 .. 5   6 .. 6      nodes on the right edge are not full yet
          0    1   2    3         4    5   6

As base intervals, but nodes that are not full are kept up to date too: every row that comes
renews its whole path, and a window that ends at the last row needs one node a level at most.

Invariant  the node at every place is the merge of its halves, as far as there are rows.
Cost       update O(log N_max + b) for a batch of b rows, lookup O(log N_max).
Paper      PSoup, [shared-windows] section 3.1.3; positions lead to nodes without a search, and a
           batch renews a path once.
"""

from __future__ import annotations

from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change
from standfast.indexes.lanes import Lanes
from standfast.model.query import WindowAggregate
from standfast.operators.aggregates import Aggregate
from standfast.operators.base import AggregateStrategy, Found, Spec
from standfast.operators.lowering import lower
from standfast.operators.synopses import Synopses
from standfast.operators.window_aggregate.checking import check_same


class AugmentedTree(AggregateStrategy):
    """Keep every node of the tree up to date, those that are not full too."""

    spec = Spec(
        question=WindowAggregate, paper="PSoup [shared-windows] 3.1.3",
        time="O(log N_max) update, O(log N_max) lookup", space="O(N_max)", needs="mergeable",
    )  # fmt: skip

    def __init__(self, aggregate: Aggregate, lanes: Lanes) -> None:
        super().__init__(aggregate, lanes)
        self._intervals = Synopses(aggregate)

    def take_in(self, change: Change) -> None:
        self._intervals.resize(2 * self.lanes.size)
        self._intervals.grow(self.lanes, self.lanes.held(change), unfinished=True)

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        windows = (lanes, firsts, lasts)
        return lower(self.aggregate, self._intervals.windows(self.lanes, windows, unfinished=True))

    def check(self) -> None:
        fresh = AugmentedTree(self.aggregate, self.lanes)
        fresh.take_in(self.lanes.all_changed())
        check_same(self, fresh)

    def memory_bytes(self) -> int:
        return self._intervals.memory_bytes()
