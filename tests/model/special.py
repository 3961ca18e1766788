"""The numbers where comparing goes wrong first: extremes, neighbours of powers of two, zeros."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np

GREATEST = 2**63 - 1
TINIEST = 5e-324
LARGEST = float(np.finfo(np.float64).max)

INTEGERS = sorted(
    {sign * (2**power + step) for sign in (-1, 1) for power in (0, 1, 52, 53, 54, 62)
     for step in (-2, -1, 0, 1, 2)}
    | {0, 10, -10, GREATEST, GREATEST - 1, GREATEST - 2, -GREATEST, 1 - GREATEST, -GREATEST - 1}
)  # fmt: skip
_SOME = [0.0, 0.5, 1.0, 1.5, 10.0, 10.5, TINIEST, 2.2250738585072014e-308, 1e-300, 0.1]
_POWERS = [2.0**power for power in (52, 53, 54, 62, 63, 64, 65)]
_NEAR = [math.nextafter(x, side) for x in (1.0, *_POWERS) for side in (0.0, math.inf)]
_FLOATS = [*_SOME, *_POWERS, *_NEAR, LARGEST, 1e300, math.inf]
FLOATS = [sign * x for x in _FLOATS for sign in (1.0, -1.0)]


@cache
def exactly(value: float | int) -> Fraction | float:
    """A value to compare without rounding; infinities stay floats, which Fractions understand."""
    return value if isinstance(value, float) and math.isinf(value) else Fraction(value)


def satisfies(value: float | int, operator: str, bound: float | int) -> bool:
    """`value operator bound`, decided exactly."""
    left, right = exactly(value), exactly(bound)
    if operator == "=":
        return left == right
    if operator in ("<", "<="):
        return left < right or (operator == "<=" and left == right)
    return left > right or (operator == ">=" and left == right)
