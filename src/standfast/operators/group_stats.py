"""How standing queries cluster: what the cost of groups and hotspots is made of.

A stabbing group costs an event about as much however many queries it has (a search in it grows
with log2 of its size); as scattered queries its members would cost one by one. So from some size
on a group is worth being hot, and that size follows from the constants.
"""

from __future__ import annotations

from math import log2

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.stabbing_partition import canonical

# Groups are hot or scattered until the size that decides has drifted by this factor.
DRIFT = 2.0
# Sizes are of other queries once so large a share of them has changed since.
STALE = 0.1
LARGEST = 2**31


class GroupStats:
    """Sizes of the groups of one stabbing partition, and the size from which on they are hot.

    That size is decided by costs, unless `alpha` says which share of all queries it is.
    """

    def __init__(self, alpha: float | None = None) -> None:
        self.least = 1.0  # a group of this size is hot
        self._alpha = alpha
        self._known = False
        self._n_changes = 0  # queries that came or went since the sizes were learned
        self.sizes = np.empty(0, np.int64)
        self._hot: Int64s | None = None  # sizes, if they are known
        self._n_scattered = 0
        # What the cost terms call groups, sizes, hot, hot_sizes, scattered.
        self.stats: dict[str, float] = {}
        self._sum_up()

    def hot_share(self, n_queries: int) -> float:
        """The share of the queries that makes a group hot."""
        return min(1.0, self._alpha or self.least / max(1, n_queries))

    def forget(self, n_changes: int = 0) -> None:
        """So many queries came or went."""
        self._known = False
        self._n_changes += n_changes

    @property
    def is_known(self) -> bool:
        return self._known

    @property
    def is_stale(self) -> bool:
        """Whether the sizes are those of other queries."""
        return bool(self._n_changes > STALE * self.sizes.sum())

    def keep(self) -> None:
        """Stay with the sizes: nobody knows better, and they are not stale."""
        self.learn(self.sizes, n_changes=self._n_changes)

    def learn(
        self, sizes: Int64s, hot: Int64s | None = None, n_scattered: int = 0, *, n_changes: int = 0
    ) -> None:
        """Take the sizes of all groups, and of the hot ones where somebody keeps them apart.

        `n_changes` queries came or went since they were counted.
        """
        self.sizes, self._hot, self._n_scattered = sizes, hot, n_scattered
        self._known, self._n_changes = True, n_changes
        if self._alpha is not None:
            self.least = self._alpha * float(sizes.sum())
        self._sum_up()

    def decide(
        self, group_us: float, log_us: float, member_us: float,
        met_us: float = 0.0, rate: float = 1.0,
    ) -> bool:  # fmt: skip
        """Find the size from which on a group is hot; tells whether it has drifted.

        A hot group costs an event `group_us` and `log_us` times log2 of its size, and `met_us` if
        one of its members is selected, as each is at `rate`; a scattered query costs `member_us`
        more than a hot one.
        """
        least = least_hot(group_us, log_us, member_us, met_us, rate)
        is_near = self.least / DRIFT <= least <= self.least * DRIFT
        if self._alpha is not None or is_near:
            return False
        self.least = least
        self._sum_up()
        return True

    def _sum_up(self) -> None:
        hot, n_scattered = self._hot, float(self._n_scattered)
        if hot is None:
            is_hot = self.sizes >= self.least
            hot, n_scattered = self.sizes[is_hot], float(self.sizes[~is_hot].sum())
        self.stats = {
            "groups": float(self.sizes.size),
            "sizes": float(np.log2(1.0 + self.sizes).sum()),
            "hot": float(hot.size),
            "hot_sizes": float(np.log2(1.0 + hot).sum()),
            "scattered": n_scattered,
        }


def sizes_of(lows: Int64s, highs: Int64s) -> Int64s:
    """The sizes of the groups of these ranges: for those who have no way that keeps them."""
    return np.bincount(canonical(lows, highs)[0])


def least_hot(
    group_us: float, log_us: float, member_us: float, met_us: float = 0.0, rate: float = 1.0
) -> float:
    """The least size, up to a few percent, at which a group costs no more than its members."""
    size = 1.0
    while size < LARGEST:
        group = group_us + log_us * log2(1.0 + size) + met_us * min(1.0, rate * size)
        if group <= member_us * size:
            break
        size *= 1.05
    return size
