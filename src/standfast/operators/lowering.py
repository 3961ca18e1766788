"""From synopses to answers: the last step of every way that merges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.lanes import Lanes
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
from standfast.operators.spread_kernels import read_around, read_shifted, spreads

Windows = tuple[Int64s, Int64s, Int64s]

MANY_ROWS = 4_096  # fewer are read as fast as a lane is looked at
UNLIMITED: Fields = np.empty(0)
EXACT_FLOAT = 1 << 53
NONE, TEN, WORD, FIFTY_FOUR = np.array([0, 10, 32, 54], np.uint64)
LOW_WORD, LEADING = np.array([(1 << 32) - 1, 1 << 54], np.uint64)


def lower(
    aggregate: Aggregate, synopses: Int64s, lanes: Lanes, which: Windows, limits: Fields = UNLIMITED
) -> Found:
    """The answers that synopses stand for; none where there is no value.

    `which` has the lanes, first and last positions of their windows, for the few that are read row
    by row; `limits` see `spread_kernels`.
    """
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
        return _spread(aggregate, synopses, lanes, which, limits)
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
    rough = np.flatnonzero((n > 0) & ~(fits & (np.abs(low) <= EXACT_FLOAT)))
    if rough.size:
        mean[rough] = quotients(high[rough], low[rough], n[rough])
    return Found(mean, n > 0)


def quotients(high: Int64s, low: Int64s, n: Int64s) -> Fields:
    """Sums of more than 2^53, of n values of int64 each, divided by n and rounded once.

    Long division by digits of 32 bits: the quotient is below 2^64, 2^22 at least, and has two
    digits more behind the point. Its leading 64 bits, the last of which also stands for all that
    follow, are rounded as the whole would be.
    """
    assert n.max() < 1 << 31, "windows hold fewer values than 2^31"
    is_less = high < 0
    # A negative number of two words, turned round: a carry when the lower one is 0.
    left = np.where(is_less, ~high + (low == 0), high).astype(np.uint64)
    bits, by = np.where(is_less, -low, low).view(np.uint64), n.astype(np.uint64)
    whole, behind = np.zeros((2, n.size), np.uint64)
    for part, digit in (
        (whole, bits >> WORD), (whole, bits & LOW_WORD), (behind, NONE), (behind, NONE)
    ):  # fmt: skip
        one, left = np.divmod(left << WORD | digit, by)
        part <<= WORD
        part |= one
    scale = np.ones(n.size)
    for _ in range(4):
        short = whole < LEADING
        whole = np.where(short, whole << TEN | behind >> FIFTY_FOUR, whole)
        behind = np.where(short, behind << TEN, behind)
        scale[short] /= 1024.0
    rounded: Fields = (whole | ((behind | left) != 0)).astype(np.float64) * scale
    return np.copysign(rounded, high)


def _spread(
    aggregate: Aggregate, synopses: Int64s, lanes: Lanes, which: Windows, limits: Fields
) -> Found:
    """Variances and deviations; those that powers leave in doubt are taken from the rows."""
    n = len(synopses)
    values, known, doubtful = np.empty(n), np.empty(n, np.bool_), np.empty(n, np.bool_)
    how = (aggregate.name in ("VARIANCE", "STDDEV"), aggregate.name.startswith("STDDEV"))
    floats = synopses.view(np.float64)
    if spreads(synopses, floats, limits, *how, values, known, doubtful):
        of, firsts, lasts = which
        raw, valid, g = lanes.values.view(np.int64), lanes.valid, lanes.geometry
        column, is_float = raw.view(np.float64), aggregate.is_float
        for lane, chosen in _crowded(lanes, which, np.flatnonzero(doubtful)):
            read_shifted(
                g, lane, firsts, lasts, is_float, raw, column, valid, *how, chosen, doubtful, values
            )
        read_around(g, of, firsts, lasts, is_float, raw, column, valid, *how, doubtful, values)
    return Found(values, known)


def _crowded(lanes: Lanes, which: Windows, doubtful: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Lanes whose doubtful windows have far more rows than the lane itself, and these windows."""
    of, firsts, lasts = (column[doubtful] for column in which)
    n_rows = np.bincount(of, lasts - firsts + 1, lanes.n_lanes)
    g = lanes.geometry
    crowded = n_rows > MANY_ROWS + 2 * (g.tails - g.heads)
    chosen = doubtful[crowded[of]]
    chosen = chosen[np.argsort(which[0][chosen], kind="stable")]
    known, starts = np.unique(which[0][chosen], return_index=True)
    return zip(known.tolist(), np.split(chosen, starts[1:]), strict=False)
