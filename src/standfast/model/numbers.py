"""One number line: every comparable value becomes an int64 *key*, every range a closed key range.

    float64   -inf ...  -1.0  ... -5e-324   0.0   5e-324 ...  1.0  ... +inf
    key       -INF_KEY               -1      0      1                  INF_KEY

    price >  2.5      ->  key >= key(2.5) + 1        open ends become closed ones, exactly,
    price <= 2.5      ->  key <= key(2.5)            because neighbouring floats are neighbours

A float64 and its key order alike, -0.0 and 0.0 share the key 0, and negating a number negates its
key. int64 and timestamps (microseconds UTC) are their own keys. A bound of another type than its
column is rounded inwards to the column's type, so comparing is exact: on a float64 column
`x >= 2^53 + 1` becomes `x >= 2^53 + 2`, the next float64; on an int64 column `x < 10.5` becomes
`x <= 10`. Everything behind this door works on int64 and closed ranges only.

Differences (band joins) of two int64 need 65 bits. Their keys saturate at +-FAR, which also stand
for unlimited bounds; finite bounds must lie within +-(FAR - 1) (decision 002).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FAR = int(np.iinfo(np.int64).max)
LEAST = int(np.iinfo(np.int64).min)
INF_KEY = int(np.float64(np.inf).view(np.int64))
TWO_63 = 2.0**63


class Line(NamedTuple):
    """The keys that a column, or a difference of two, can take: `least` to `most`."""

    is_float: bool
    least: int
    most: int


INTEGERS = Line(is_float=False, least=LEAST, most=FAR)
FLOATS = Line(is_float=True, least=-INF_KEY, most=INF_KEY)
INTEGER_DIFFERENCES = Line(is_float=False, least=-FAR, most=FAR)


def float_keys(values: npt.NDArray[np.float64]) -> Keys:
    """Keys of float64 values. NaN has no place on the line: mask it before or after."""
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    return np.where(bits < 0, LEAST - bits, bits)


def floats_of(keys: Keys) -> npt.NDArray[np.float64]:
    """The float64 behind each key: the inverse of `float_keys`, with one zero."""
    keys = np.ascontiguousarray(keys, np.int64)
    return np.where(keys < 0, LEAST - keys, keys).view(np.float64)


def at_least(bounds: npt.NDArray[Any], line: Line, *, strict: bool) -> tuple[Keys, Mask]:
    """Smallest key with `value >= bound` (`>` when strict), and where no value satisfies it."""
    if line.is_float:
        keys, compared = _float_neighbours(bounds)
        keys = np.where(compared > 0 if strict else compared >= 0, keys, keys + 1)
        return np.minimum(keys, line.most), keys > line.most
    if bounds.dtype.kind == "f":
        whole = np.floor(bounds) if strict else np.ceil(bounds)
        keys, beyond = _whole_keys(whole, line)
        strict_step = strict
    else:
        keys, beyond, strict_step = bounds.astype(np.int64), np.zeros(bounds.shape, np.int8), strict
    empty = beyond > 0
    if strict_step:
        step = beyond == 0
        empty |= step & (keys == line.most)
        keys = keys + (step & (keys < line.most))
    return keys, empty


def at_most(bounds: npt.NDArray[Any], line: Line, *, strict: bool) -> tuple[Keys, Mask]:
    """Largest key with `value <= bound` (`<` when strict), and where no value satisfies it."""
    if line.is_float:
        keys, compared = _float_neighbours(bounds)
        keys = np.where(compared < 0 if strict else compared <= 0, keys, keys - 1)
        return np.maximum(keys, line.least), keys < line.least
    if bounds.dtype.kind == "f":
        whole = np.ceil(bounds) if strict else np.floor(bounds)
        keys, beyond = _whole_keys(whole, line)
    else:
        keys, beyond = bounds.astype(np.int64), np.zeros(bounds.shape, np.int8)
    empty = beyond < 0
    if strict:
        step = beyond == 0
        empty |= step & (keys == line.least)
        keys = keys - (step & (keys > line.least))
    return keys, empty


def _float_neighbours(bounds: npt.NDArray[Any]) -> tuple[Keys, npt.NDArray[np.int8]]:
    """Key of the float64 nearest to each bound, and its sign against the exact bound (-1, 0, 1)."""
    if bounds.dtype.kind == "f":
        return float_keys(bounds.astype(np.float64)), np.zeros(bounds.shape, np.int8)
    exact = bounds.astype(np.int64)
    near = exact.astype(np.float64)
    too_far = near >= TWO_63  # rounds beyond int64: larger than every int64
    whole = np.where(too_far, 0.0, near).astype(np.int64)
    compared = np.where(too_far, 1, np.sign((whole > exact) * 1 - (whole < exact) * 1))
    return float_keys(near), compared.astype(np.int8)


def _whole_keys(whole: npt.NDArray[np.float64], line: Line) -> tuple[Keys, npt.NDArray[np.int8]]:
    """int64 of whole floats, clipped to the line, and on which side they were beyond it."""
    beyond = np.where(whole >= TWO_63, 1, np.where(whole < -TWO_63, -1, 0)).astype(np.int8)
    keys = np.where(beyond == 0, whole, 0.0).astype(np.int64)
    keys = np.where(beyond > 0, line.most, np.where(beyond < 0, line.least, keys))
    return keys, beyond
