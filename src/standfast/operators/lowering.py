"""From synopses to answers: the last step of every way that merges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from standfast.arrays import Int64s
from standfast.operators.aggregates import (
    COUNT_ALL,
    FIRST,
    LAST,
    POWERS_FLOAT,
    POWERS_INT,
    SUM_FLOAT,
    SUM_INT,
    Aggregate,
    Fields,
)
from standfast.operators.base import Found

EXACT_FLOAT = 1 << 53


def lower(aggregate: Aggregate, synopses: Int64s) -> Found:
    """The answers that synopses stand for; none where there is no value."""
    kind, n = aggregate.kind, synopses[:, 0]
    floats = synopses.view(np.float64)
    if kind <= COUNT_ALL:
        return Found(n.copy(), np.ones(n.size, np.bool_))
    if kind == SUM_FLOAT:
        total = floats[:, 1] + floats[:, 2]
        return Found(total / np.maximum(n, 1) if aggregate.name == "AVG" else total, n > 0)
    if kind == SUM_INT:
        return _whole(aggregate, synopses)
    if kind in (POWERS_INT, POWERS_FLOAT):
        return _spread(aggregate, n, floats)
    if kind in (FIRST, LAST):
        raw = np.ascontiguousarray(synopses[:, 2])
        return Found(raw.view(np.float64) if aggregate.is_float else raw, synopses[:, 1] > 0)
    if aggregate.user is not None:
        answers = np.full(n.size, np.nan)
        has = n > 0
        if has.any():
            answers[has] = aggregate.user.lower(floats[has, 1:])
        return Found(answers, has)
    raw = np.ascontiguousarray(synopses[:, 1])
    return Found(raw.view(np.float64) if aggregate.is_float else raw, n > 0)


def _whole(aggregate: Aggregate, synopses: Int64s) -> Found:
    """Sums and means of int64, exact: a sum that int64 cannot hold is no answer."""
    n, high, low = synopses.T
    fits = high == low >> 63
    if aggregate.name == "SUM":
        over = (n > 0) & ~fits
        return Found(low.copy(), (n > 0) & fits, over)
    mean = low / np.maximum(n, 1)
    rough = (n > 0) & ~(fits & (np.abs(low) <= EXACT_FLOAT))
    for i in np.flatnonzero(rough).tolist():
        # Python divides whole numbers of any size with one rounding.
        mean[i] = ((int(high[i]) << 64) + int(low[i]) % 2**64) / int(n[i])
    return Found(mean, n > 0)


def _spread(aggregate: Aggregate, n: Int64s, floats: Fields) -> Found:
    """Variances and deviations: the squares less the square of the sum over n, never below 0."""
    _, total, rest, squares, more = floats.T
    count = np.maximum(n, 1).astype(np.float64)
    product, left_out = _times(total, total)
    left_out = left_out + 2.0 * total * rest + rest * rest
    share = product / count
    back, lost = _times(share, count)
    # What is left of the division, over n, with what the product left out.
    remainder = ((product - back) - lost + left_out) / count
    difference, error = _plus(squares, -share)
    moment = np.maximum(difference + (error + more - remainder), 0.0)
    is_sample = aggregate.name in ("VARIANCE", "STDDEV")
    variance = moment / np.maximum(n - is_sample, 1)
    answers = np.sqrt(variance) if aggregate.name.startswith("STDDEV") else variance
    return Found(answers, n > int(is_sample))


def _plus(one: Fields, other: Fields) -> tuple[Fields, Fields]:
    """Rounded sums, and exactly what rounding left out."""
    total = one + other
    back = total - one
    return total, (one - (total - back)) + (other - back)


def _times(one: Fields, other: Fields) -> tuple[Fields, Fields]:
    """Rounded products, and exactly what rounding left out."""
    product = one * other
    high, low = _halves(one)
    top, end = _halves(other)
    return product, ((high * top - product) + high * end + low * top) + low * end


def _halves(value: Fields) -> tuple[Fields, Fields]:
    """Two floats of half the digits whose sum is the value."""
    wide: npt.NDArray[np.float64] = 134217729.0 * value
    high = wide - (wide - value)
    return high, value - high
