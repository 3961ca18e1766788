"""The kernels of `operators.synopses`: what each built-in aggregate does with its fields.

    COUNT, COUNT_ALL   n
    SUM                n | high, low: a whole number of 128 bits     (int64)
                       n | sum, rest: together the sum               (float64)
    POWERS             n | sum, rest of the values | sum, rest of their squares
    LEAST, MOST        n | value
    FIRST, LAST        1 if there is a row | 1 if it has a value | the value

`sum` is the sum as float64 rounds it, `rest` the sum of what each rounding left out.
"""

from __future__ import annotations

from standfast._numba import in_place, kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import LARGE, Bools
from standfast.operators.aggregates import (
    COUNT,
    COUNT_ALL,
    FIRST,
    LAST,
    LEAST_FLOAT,
    LEAST_INT,
    MOST_FLOAT,
    POWERS_FLOAT,
    POWERS_INT,
    SUM_FLOAT,
    SUM_INT,
    Fields,
)

LOWEST = -(2**63)
SPLITTER = 134217729.0  # 2^27 + 1
TINY = 2.0**-480  # smaller floats have no exact squares


@kernel
def lift(
    kind: int, ints: Int64s, floats: Fields, places: Int64s, rows: Int64s,
    raw: Int64s, values: Fields, valid: Bools,
) -> None:  # fmt: skip
    for i in range(places.size):
        lift_one(kind, ints, floats, places[i], raw[rows[i]], values[rows[i]], valid[rows[i]])


@in_place
def lift_one(
    kind: int, ints: Int64s, floats: Fields, at: int, raw: int, value: float, ok: bool
) -> None:
    """The synopsis of one row; large floats count as 0, their windows are not read here."""
    ints[at, 0] = ok
    if LEAST_INT <= kind <= MOST_FLOAT:
        ints[at, 1] = raw
        return
    if kind == COUNT:
        return
    if kind == COUNT_ALL:
        ints[at, 0] = 1
    elif kind == SUM_FLOAT:
        floats[at, 1] = value if ok and abs(value) < LARGE else 0.0
        floats[at, 2] = 0.0
    elif kind == SUM_INT:
        ints[at, 1] = raw >> 63 if ok else 0
        ints[at, 2] = raw if ok else 0
    elif kind in (POWERS_FLOAT, POWERS_INT):
        one, other = 0.0, 0.0
        if kind == POWERS_INT and ok:
            # A whole number is the sum of two floats that hold 32 bits each.
            one, other = float(raw >> 32) * 4294967296.0, float(raw & 0xFFFFFFFF)
        elif ok and abs(value) < LARGE:
            one = value
        floats[at, 1] = one + other
        floats[at, 2] = other - (floats[at, 1] - one)
        total, rest = multiplied(one, one)
        if 0.0 < abs(one) < TINY:
            total, rest = TINY * TINY, 0.0  # only zeros have no squares
        if other != 0.0:
            for times, factor in ((2.0, one), (1.0, other)):
                product, left_out = multiplied(times * factor, other)
                total, again = added(total, product)
                rest += left_out + again
        floats[at, 3], floats[at, 4] = total, rest
    elif kind in (FIRST, LAST):
        ints[at, 0], ints[at, 1], ints[at, 2] = 1, ok, raw


@in_place
def added(one: float, other: float) -> tuple[float, float]:
    """The rounded sum, and exactly what rounding left out."""
    total = one + other
    back = total - one
    return total, (one - (total - back)) + (other - back)


@in_place
def multiplied(one: float, other: float) -> tuple[float, float]:
    """The rounded product, and exactly what rounding left out."""
    product = one * other
    wide = SPLITTER * one
    high = wide - (wide - one)
    low = one - high
    wide = SPLITTER * other
    top = wide - (wide - other)
    end = other - top
    return product, ((high * top - product) + high * end + low * top) + low * end


@in_place
def merge(
    kind: int, ints: Int64s, floats: Fields, at: int, more: Int64s, more_floats: Fields, of: int
) -> None:
    """Merge the synopsis `of` of later rows into the one `at` this place."""
    n, n_more = ints[at, 0], more[of, 0]
    if LEAST_INT <= kind <= MOST_FLOAT:
        is_less = more[of, 1] < ints[at, 1]
        if kind in (LEAST_FLOAT, MOST_FLOAT):
            is_less = more_floats[of, 1] < floats[at, 1]
        wants_less = kind in (LEAST_INT, LEAST_FLOAT)
        # Nobody could foretell which it is, so nothing branches here.
        takes = (n == 0) | ((n_more > 0) & (is_less == wants_less))
        ints[at, 1] = more[of, 1] if takes else ints[at, 1]
    elif kind in (SUM_FLOAT, POWERS_INT, POWERS_FLOAT):
        total, rest = added(floats[at, 1], more_floats[of, 1])
        floats[at, 1] = total
        floats[at, 2] += more_floats[of, 2] + rest
        if kind != SUM_FLOAT:
            total, rest = added(floats[at, 3], more_floats[of, 3])
            floats[at, 3] = total
            floats[at, 4] += more_floats[of, 4] + rest
    elif kind == SUM_INT:
        low = ints[at, 2] + more[of, 2]
        carry = (low ^ LOWEST) < (ints[at, 2] ^ LOWEST)
        ints[at, 1] += more[of, 1] + carry
        ints[at, 2] = low
    elif kind in (FIRST, LAST):
        if n_more > 0 and (kind == LAST or n == 0):
            ints[at, 1], ints[at, 2] = more[of, 1], more[of, 2]
        ints[at, 0] = max(n, n_more)
        return
    ints[at, 0] = n + n_more


@in_place
def copy(ints: Int64s, at: int, more: Int64s, of: int) -> None:
    for f in range(ints.shape[1]):
        ints[at, f] = more[of, f]


@kernel
def combine(
    kind: int, ints: Int64s, floats: Fields, out: Int64s, left: Int64s, right: Int64s
) -> None:
    for i in range(out.size):
        copy(ints, out[i], ints, left[i])
        merge(kind, ints, floats, out[i], ints, floats, right[i])


@kernel
def scan(
    kind: int, ints: Int64s, floats: Fields, places: Int64s, starts: Bools, backward: bool
) -> None:
    """Merge along the places; backwards what comes before is of later rows."""
    for i in range(1, places.size):
        if starts[i]:
            continue
        if kind != FIRST and kind != LAST:
            merge(kind, ints, floats, places[i], ints, floats, places[i - 1])
        elif (kind == LAST) == backward:
            copy(ints, places[i], ints, places[i - 1])


@kernel
def fold(
    kind: int, ints: Int64s, floats: Fields, offsets: Int64s, places: Int64s,
    found: Int64s, found_floats: Fields,
) -> None:  # fmt: skip
    for i in range(offsets.size - 1):
        for k in range(offsets[i], offsets[i + 1]):
            merge(kind, found, found_floats, i, ints, floats, places[k])


@in_place
def take_away(
    kind: int, ints: Int64s, floats: Fields, at: int, less: Int64s, less_floats: Fields, of: int
) -> None:
    """Take the synopsis `of` of some rows away from the one `at` this place, which holds them."""
    ints[at, 0] -= less[of, 0]
    if kind in (SUM_FLOAT, POWERS_INT, POWERS_FLOAT):
        total, rest = added(floats[at, 1], -less_floats[of, 1])
        floats[at, 1] = total
        floats[at, 2] += rest - less_floats[of, 2]
        if kind != SUM_FLOAT:
            total, rest = added(floats[at, 3], -less_floats[of, 3])
            floats[at, 3] = total
            floats[at, 4] += rest - less_floats[of, 4]
    elif kind == SUM_INT:
        low = ints[at, 2] - less[of, 2]
        borrow = (ints[at, 2] ^ LOWEST) < (less[of, 2] ^ LOWEST)
        ints[at, 1] -= less[of, 1] + borrow
        ints[at, 2] = low
