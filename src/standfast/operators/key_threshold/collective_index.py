"""Key thresholds by an index over all keys: cost follows the answer, not the number of keys."""

from __future__ import annotations

from standfast.indexes.lanes import Lanes
from standfast.model.query import KeyThreshold
from standfast.operators.base import Spec
from standfast.operators.key_threshold.extremes import IndexedExtremes
from standfast.operators.key_threshold.keyed import Function, Holder, KeyedStrategy
from standfast.operators.key_threshold.totals import IndexedTotals


class ByCollectiveIndex(KeyedStrategy):
    """Levels of distances from the last row for COUNT and SUM, a tree of starts for MAX and MIN."""

    spec = Spec(
        question=KeyThreshold,
        paper="CI-COUNT, CI-SUM [shared-windows] 4; MAX and MIN are ours",
        time="COUNT, SUM: O(p log a log keys) update, O(K_o log keys) lookup; MAX, MIN: "
        "O(log^2 N_max) update, O(log^2 N_max + K_o) lookup",
        space="COUNT, SUM: O(N_max + p keys log N_max); MAX, MIN: O(N_max log N_max)",
    )

    def __init__(
        self, function: Function, lanes: Lanes, *, is_float: bool, per_size: int | None = None
    ) -> None:
        """`per_size` is how many levels there are of each size; None takes what is best known."""
        self._sizes = {} if per_size is None else {"per_size": per_size}
        super().__init__(function, lanes, is_float=is_float)

    def _make_holder(self) -> Holder:
        if self.function in ("MIN", "MAX"):
            return IndexedExtremes(least=self.function == "MIN", is_float=self.is_float)
        counts = self.function == "COUNT"
        return IndexedTotals(counts=counts, is_float=self.is_float, **self._sizes)
