"""Aggregates of rows the plain way, with Python's own numbers: what every other way must equal."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from standfast.indexes.lane_kernels import Bools, Values
from standfast.indexes.lanes import Lanes
from standfast.operators.aggregates import COUNT_ALL, Aggregate


def plain_answers(
    aggregate: Aggregate, lanes: Lanes, windows: tuple[Any, Any, Any], shares: Any
) -> tuple[Values, Bools, Bools | None]:
    """The answers of windows: lanes with their first and last positions, row by row.

    Beside them which there are, and of sums of int64 which it cannot hold.
    """
    g, answers, holds = lanes.geometry, [], []
    for lane, first, last, share in zip(*windows, shares, strict=True):
        places = g.starts[lane] + (np.arange(first, last + 1) & g.masks[lane])
        values, valid = lanes.values[places], lanes.valid[places]
        answers.append(plain_answer(aggregate, values, valid, share))
        holds.append(valid.any())
    found, known = arrays_of(aggregate, answers)
    is_whole = aggregate.name == "SUM" and not aggregate.is_float
    return found, known, np.array(holds, np.bool_) & ~known if is_whole else None


def plain_answer(aggregate: Aggregate, values: Any, valid: Any, share: float) -> Any:
    """The aggregate of these rows, in order; None where SQL says NULL."""
    name, kept = aggregate.name, values[valid].tolist()
    if name == "COUNT":
        return len(values) if aggregate.kind == COUNT_ALL else len(kept)
    if name == "COUNT_DISTINCT":
        return len(set(kept))
    if name in ("FIRST", "LAST"):
        at = 0 if name == "FIRST" else -1
        return values[at].item() if len(values) and valid[at] else None
    if not kept:
        return None
    if name in ("MIN", "MAX"):
        return min(kept) if name == "MIN" else max(kept)
    if name == "PERCENTILE_DISC":
        return next(v for r, v in enumerate(sorted(kept), 1) if r / len(kept) >= share)
    if aggregate.user is not None:
        user, synopsis = aggregate.user, aggregate.user.lift(np.array(kept[:1], np.float64))
        for value in kept[1:]:
            synopsis = user.combine(synopsis, user.lift(np.array([value], np.float64)))
        return float(user.lower(synopsis)[0])
    if name in ("SUM", "AVG"):
        total = _total(kept)
        if name == "SUM":
            return None if isinstance(total, int) and not -(2**63) <= total < 2**63 else total
        if math.isinf(total) and all(map(math.isfinite, kept)):
            return _rounded(sum(map(Fraction, kept), Fraction()) / len(kept))
        return total / len(kept)
    return _spread(name, kept)


def _total(kept: list[Any]) -> Any:
    """The sum, rounded once; infinite where float64 ends."""
    if isinstance(kept[0], int):
        return sum(kept)
    infinite = [value for value in kept if not math.isfinite(value)]
    if infinite:  # finite ones do not matter, and could come to an infinity on the way
        return sum(infinite)
    try:
        return math.fsum(kept)
    except OverflowError:
        return _rounded(sum(map(Fraction, kept), Fraction()))


def _rounded(exact: Fraction) -> float:
    """The nearest float, infinite where float64 ends."""
    if abs(exact) < 2**1024 - 2**970:
        return float(exact)
    return math.inf if exact > 0 else -math.inf


def _root(exact: Fraction) -> float:
    """The square root, of what float64 cannot hold too."""
    # Scaled by an even power of two to some 150 digits, so the whole root has 75 of them.
    half = (150 - exact.numerator.bit_length() + exact.denominator.bit_length()) // 2
    scaled = exact * Fraction(2) ** (2 * half)
    root = math.isqrt(scaled.numerator // scaled.denominator)
    # What is cut off does no more than tell which way a tie is rounded.
    return _rounded((root + Fraction(root * root < scaled, 2)) / Fraction(2) ** half)


def _spread(name: str, kept: list[Any]) -> float | None:
    """The variance or the deviation, rounded once; infinite where float64 ends."""
    n, is_sample = len(kept), name in ("VARIANCE", "STDDEV")
    if n <= is_sample:
        return None
    if not all(map(math.isfinite, kept)):
        return math.nan
    exact = [Fraction(value) for value in kept]
    squares = sum((value * value for value in exact), Fraction())
    variance = (squares - sum(exact, Fraction()) ** 2 / n) / (n - is_sample)
    return _root(variance) if name.startswith("STDDEV") else _rounded(variance)


def arrays_of(aggregate: Aggregate, answers: list[Any]) -> tuple[Values, Bools]:
    """Answers and which there are."""
    known = np.array([answer is not None for answer in answers], np.bool_)
    is_whole = aggregate.name.startswith("COUNT") or (
        not aggregate.is_float
        and aggregate.name in ("SUM", "MIN", "MAX", "FIRST", "LAST", "PERCENTILE_DISC")
    )
    filled = [0 if answer is None else answer for answer in answers]
    return np.array(filled, np.int64 if is_whole else np.float64), known
