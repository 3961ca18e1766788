"""Arithmetic on the number line inside kernels: the difference of two keys, decided by cases.

The NumPy side of the line, with its picture, is `standfast.model.numbers`. A difference never
overflows and never gives NaN:

    int64     s - b                  saturates at +-FAR
    float64   s - b                  rounded as IEEE 754 does, so +-inf where that says so
    float64   inf - inf              +FAR, -inf - -inf  -FAR: beyond every bound, hence no match,
                                     and still ascending in s, so binary search stays right
"""

from __future__ import annotations

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int64s

FAR = int(np.iinfo(np.int64).max)
LEAST = int(np.iinfo(np.int64).min)
INF_KEY = int(np.float64(np.inf).view(np.int64))


@inlined
def float_of(key: int) -> float:
    """The float64 behind a key."""
    if key < 0:
        return -float(np.int64(-key).view(np.float64))
    return float(np.int64(key).view(np.float64))


@inlined
def key_of(value: float) -> int:
    """The key of a float64 that is not NaN."""
    bits = int(np.float64(value).view(np.int64))
    if bits < 0:
        return LEAST - bits
    return bits


@inlined
def difference(stored: int, event: int, is_float: bool) -> int:
    """Key of `stored - event`: ascending in `stored`; descending in `event` while it is finite."""
    if is_float:
        if stored == event and (stored == INF_KEY or stored == -INF_KEY):
            return FAR if stored > 0 else -FAR
        return key_of(float_of(stored) - float_of(event))
    if event < 0 and stored > FAR + event:
        return FAR
    if event > 0 and stored < -FAR + event:
        return -FAR
    if event == LEAST:
        # -LEAST is no int64; what is left after the test above is stored < 0, so this fits.
        return stored + FAR + 1 if stored < 0 else FAR
    return max(stored - event, -FAR)


@inlined
def saturated_sum(one: int, other: int) -> int:
    """`one + other`, or the end of int64 that it would pass."""
    if one > 0 and other > FAR - one:
        return FAR
    if one < 0 and other < LEAST - one:
        return LEAST
    return one + other


@kernel
def differences(stored: Int64s, events: Int64s, is_float: bool, out: Int64s) -> None:
    """`out[i]` becomes the key of `stored[i] - events[i]`."""
    for i in range(out.size):
        out[i] = difference(stored[i], events[i], is_float)
