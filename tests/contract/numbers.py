"""Numbers that break programs, as event values and as bounds, for each kind of column.

    int64       ends of the line, one off the ends, both sides of 2^53, 0
    float64     NaN, infinities, both zeros, denormals, the largest, 2^53 and its neighbours
    timestamp   the first and the last microsecond that is taken, and what lies around 2^53

A bound on an int64 or timestamp column may come as a float and the other way round; comparing is
exact. The difference of two int64 needs 65 bits, so a finite bound on it stays within 2^63 - 2.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any, Literal

Kind = Literal["int64", "float64", "timestamp"]
Number = int | float
Value = int | float | None

KINDS: tuple[Kind, ...] = ("int64", "float64", "timestamp")
FAR, LEAST = 2**63 - 1, -(2**63)
LAST_US = FAR // 1000
TINY, SMALL, LARGE = 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308

INTEGERS: tuple[int, ...] = (
    LEAST, LEAST + 1, -(2**62), -(2**53) - 1, -(2**53), -3, -1, 0, 1, 3,
    2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 2**62, FAR - 1, FAR,
)  # fmt: skip
FLOATS: tuple[float, ...] = (
    -math.inf, -LARGE, -(2.0**63), -(2.0**53), -3.0, -1.5, -SMALL, -TINY, -0.0, 0.0, TINY, SMALL,
    math.nextafter(SMALL, 0.0), 0.1, 0.3, 1.0, 1.5, math.nextafter(1.5, 2.0), 3.0,
    2.0**53 - 1, 2.0**53, 2.0**53 + 2, 2.0**63, 2.0**64, LARGE, math.inf,
)  # fmt: skip
TIMES: tuple[int, ...] = (
    0, 1, 3, 10**15, 2**53 - 1, 2**53, 2**53 + 1, LAST_US - 1, LAST_US,
)  # fmt: skip

# What a row may carry: null and, in float64, NaN too.
EVENTS: dict[Kind, tuple[Value, ...]] = {
    "int64": (*INTEGERS, None),
    "float64": (*FLOATS, math.nan, None),
    "timestamp": (*TIMES, None),
}
# Bounds as integers and as floats. A timestamp takes no float.
BOUNDS: dict[Kind, tuple[tuple[Number, ...], ...]] = {
    "int64": (INTEGERS, FLOATS),
    "float64": (INTEGERS, FLOATS),
    "timestamp": ((*INTEGERS, *TIMES),),
}
_BAND_INTEGERS = (*(i for i in INTEGERS if abs(i) < FAR), 1 - FAR)
_BAND_FLOATS = tuple(f for f in FLOATS if not 2.0**63 <= abs(f) < 2.0**64)
# Bounds on differences; those of timestamps are microseconds.
BAND_BOUNDS: dict[Kind, tuple[tuple[Number, ...], ...]] = {
    "int64": (_BAND_INTEGERS, _BAND_FLOATS),
    "float64": (INTEGERS, FLOATS),
    "timestamp": (_BAND_INTEGERS, _BAND_FLOATS),
}
FEW_TIMES = 10**15


def draw_value(rng: Random, kind: Kind) -> Value:
    """The value of a row: mostly one of a few, so that ties and answers are common."""
    if rng.random() < 0.15:
        return rng.choice(EVENTS[kind])
    small = rng.randint(-2, 9)
    if kind == "timestamp":
        return FEW_TIMES + small
    return small / 2 if kind == "float64" else small


def draw_key(rng: Random, kind: str) -> Any:
    """A join key: so few different ones that rows meet; sometimes null, NaN or another special."""
    if kind == "string":
        return rng.choice(("p", "p", "p", "q", "q", "", "P", None))
    if rng.random() < 0.1:
        return rng.choice(EVENTS[kind])
    few = rng.choice((0, 0, 0, 1, 1, 3))
    if kind == "timestamp":
        return FEW_TIMES + few
    if kind == "float64":
        return -0.0 if rng.random() < 0.1 else few / 2
    return few


def draw_bounds(rng: Random, kind: Kind, n: int, *, is_band: bool) -> list[Number]:
    """A column of bounds: one type, mostly near the values of `draw_value`."""
    pools = (BAND_BOUNDS if is_band else BOUNDS)[kind]
    special = rng.choice(pools)
    as_float = isinstance(special[0], float)
    found: list[Number] = []
    for _ in range(n):
        if rng.random() < 0.15:
            found.append(rng.choice(special))
            continue
        near = rng.randint(-6, 9) if is_band else rng.randint(-3, 10)
        if kind == "timestamp" and not is_band:
            near += FEW_TIMES
        found.append(near / 2 if as_float else near)
    return found
