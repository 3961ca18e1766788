"""Queries dealt to several engines that hold the same rows: each tells of its own."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class Share(NamedTuple):
    """The queries of one engine among `of` of them, by a hash of their ids."""

    number: int
    of: int

    def has(self, ids: Int64s) -> npt.NDArray[np.bool_]:
        """Which of these queries are in the share."""
        codes = (ids.astype(np.uint64) * _SPREAD) >> np.uint64(32)
        mine: npt.NDArray[np.bool_] = codes % np.uint64(self.of) == np.uint64(self.number)
        return mine


ALL = Share(0, 1)
