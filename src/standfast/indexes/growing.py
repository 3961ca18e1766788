"""Room for answers whose size is not known before they are found."""

from __future__ import annotations

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int32s


@kernel
def longer(array: Int32s, size: int) -> Int32s:
    """A copy with room for `size` more, and for half as much again as there was."""
    copy = np.empty(array.size + array.size // 2 + size, array.dtype)
    copy[: array.size] = array
    return copy
