"""Window aggregates the plain way: every answer is computed from the rows. The specification."""

from __future__ import annotations

from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change
from standfast.model.numbers import floats_of
from standfast.model.query import WindowAggregate
from standfast.operators.base import AggregateStrategy, Found, Spec
from standfast.operators.plain import plain_answers


class Naive(AggregateStrategy):
    """Keep the rows; look at all rows of a window when it is asked for."""

    spec = Spec(
        question=WindowAggregate, paper="materialise none [shared-windows] 6.1",
        time="O(1) update, O(W) lookup", space="O(N_max)",
    )  # fmt: skip

    def take_in(self, change: Change) -> None:
        """The rows themselves are all there is."""

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        shares = floats_of(self.lows[-1, slots]) if self.aggregate.takes_share else slots * 0.0
        return Found(*plain_answers(self.aggregate, self.lanes, (lanes, firsts, lasts), shares))

    def check(self) -> None:
        self.lanes.check()

    def memory_bytes(self) -> int:
        return 0
