"""Band joins by a stabbing set index whose partition is rebuilt without looking at every band."""

from __future__ import annotations

from standfast.indexes.refined_partition import RefinedPartition
from standfast.model.query import BandJoin
from standfast.operators.band_join.groups import ByGroups
from standfast.operators.base import Spec


class ByRefinedGroups(ByGroups):
    """`groups` on trees: for histories of changes that make the partition rebuild often."""

    spec = Spec(
        question=BandJoin,
        paper="BJ-SSI [hotspot] 3.1.2 with appendix A.2",
        time="O(tau log m) an event as spans; a rebuild O(tau log n)",
        space="O(n)",
    )

    def __init__(self, *, is_float: bool, epsilon: float = 1.0) -> None:
        super().__init__(is_float=is_float, epsilon=epsilon)
        self.partition = RefinedPartition(epsilon)
