"""How standing queries cluster: what the cost of groups and hotspots is made of.

A stabbing group costs an event about as much however many queries it has (a search in it grows
with log2 of its size); as scattered queries its members would cost one by one. So from some size
on a group is worth being hot, and that size follows from the constants.
"""

from __future__ import annotations

import numpy as np

from standfast.arrays import Int64s

# Groups are hot or scattered until the size that decides has drifted by this factor.
DRIFT = 2.0
LARGEST = 2**31


class GroupStats:
    """Sizes of the groups of one stabbing partition, and the size from which on they are hot."""

    def __init__(self) -> None:
        self.least = 1.0  # a group of this size is hot
        self._known = False
        self._stats: dict[str, float] = {}
        self.sizes = np.empty(0, np.int64)

    def forget(self) -> None:
        """The queries have changed."""
        self._known = False

    @property
    def is_known(self) -> bool:
        return self._known

    def learn(self, sizes: Int64s) -> None:
        """Take the sizes of all groups."""
        self.sizes, self._known = sizes, True
        self._sum_up()

    def stats(self) -> dict[str, float]:
        """What the cost terms call groups, sizes, hot, hot_sizes, scattered."""
        return self._stats

    def decide(self, group_us: float, log_us: float, member_us: float) -> bool:
        """Find the size from which on a group is hot; tells whether it has drifted.

        A hot group costs an event `group_us` and `log_us` times log2 of its size; a scattered
        query costs `member_us`.
        """
        least = least_hot(group_us, log_us, member_us)
        if self.least / DRIFT <= least <= self.least * DRIFT:
            return False
        self.least = least
        self._sum_up()
        return True

    def _sum_up(self) -> None:
        is_hot, logs = self.sizes >= self.least, np.log2(1.0 + self.sizes)
        self._stats = {
            "groups": float(self.sizes.size),
            "sizes": float(logs.sum()),
            "hot": float(np.count_nonzero(is_hot)),
            "hot_sizes": float(logs[is_hot].sum()),
            "scattered": float(self.sizes[~is_hot].sum()),
        }


def least_hot(group_us: float, log_us: float, member_us: float) -> float:
    """The least size, up to a few percent, at which a group costs no more than its members."""
    size = 1.0
    while size < LARGEST and group_us + log_us * np.log2(1.0 + size) > member_us * size:
        size *= 1.05
    return float(size)
