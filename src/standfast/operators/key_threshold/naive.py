"""The specification of key thresholds: every key for every query, by running intervals."""

from __future__ import annotations

from standfast.model.query import KeyThreshold
from standfast.operators.base import Spec
from standfast.operators.key_threshold.extremes import Extremes
from standfast.operators.key_threshold.keyed import Holder, KeyedStrategy
from standfast.operators.key_threshold.totals import Totals


class Naive(KeyedStrategy):
    """Look up the aggregate of every key, and compare it with the bound of every query."""

    spec = Spec(
        question=KeyThreshold,
        paper="R-INT for each key [shared-windows] 4",
        time="O(1) update, O(keys log N_max) lookup",
        space="O(N_max)",
    )

    def _make_holder(self) -> Holder:
        if self.function in ("MIN", "MAX"):
            return Extremes(least=self.function == "MIN", is_float=self.is_float)
        return Totals(counts=self.function == "COUNT", is_float=self.is_float)
