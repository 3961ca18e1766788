"""Histograms of stabbed ranges with few buckets: the optimal one, and one nearly as good.

    exact count    ||||||||||||||||||||     steps by the thousand
    proposals      |  |    | | ||   |       a dozen a bucket, from the slopes of stabbing groups
    chosen         |       |    |           the best `n_buckets` of them, by dynamic programming

A bucket's best value is the weighted mean of the counts in it, with weights phi / max(f, 1)^2, and
its error the weighted variance: three sums over the bucket. `optimal` tries every break point of
the exact count: the last bucket begins at j, and what lies before j has one bucket less. The error
of a bucket only grows when it is widened, so the search for j ends where the last bucket alone is
as wrong as the best solution found; nothing is lost by that. (Divide and conquer over j would need
the quadrangle inequality, which holds for sorted counts and not for counts that rise and fall.)

`hist_ssi` lets the same program choose among proposals. The paper adds up one histogram per group
instead: the errors of the groups then add up too, and what a bucket of one group is good for
depends on where those of the other groups lie (decision 010). `near_optimal` does without groups:
as good from as many proposals, in a third of the time, and what the router uses.

Cost       optimal: O(m^2 k) for m break points and k buckets; hist_ssi: O(n log n), then the
           same program with m about 16 k, whatever n is.
Paper      [hotspot] appendix B: HIST-OPT and HIST-SSI.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.indexes.histogram_groups import proposals
from standfast.indexes.histogram_steps import (
    Density,
    Floats,
    Step,
    counted,
    density_or_uniform,
    masses,
)

PER_BUCKET = 8  # proposals of the groups per bucket, and half as many of each other kind
SMALLEST = float(np.finfo(np.float64).tiny)


class Sums(NamedTuple):
    """What a bucket's value and error are made from, for the pieces of buckets."""

    weights: Floats
    weighted: Floats  # weight * count
    squares: Floats  # weight * count^2


def optimal(
    lows: Int64s, highs: Int64s, n_buckets: int, density: Density | None = None, *,
    stop_early: bool = True,
) -> Step:  # fmt: skip
    """The histogram of at most `n_buckets` steps with the least error.

    Without `stop_early` it is the plain quadratic program, for comparison.
    """
    exact, weights = _weighed(lows, highs, density)
    return _best(exact, weights, np.arange(weights.size), n_buckets, stop_early=stop_early)


def hist_ssi(lows: Int64s, highs: Int64s, n_buckets: int, density: Density | None = None) -> Step:
    """A nearly optimal histogram of at most `n_buckets` steps, from stabbing groups."""
    exact, weights = _weighed(lows, highs, density)
    if weights.size == 0:
        return exact
    from_groups = proposals(lows, highs, exact.starts, weights, PER_BUCKET * n_buckets)
    others = _other_proposals(exact, weights, PER_BUCKET // 2 * n_buckets)
    places = np.unique(np.concatenate([from_groups[from_groups < weights.size], others]))
    return _best(exact, weights, places, n_buckets, stop_early=True)


def near_optimal(
    lows: Int64s, highs: Int64s, n_buckets: int, density: Density | None = None, *,
    per_bucket: int = PER_BUCKET,
) -> Step:  # fmt: skip
    """A nearly optimal histogram of at most `n_buckets` steps, from the count alone.

    It is chosen from twice `per_bucket` proposals a bucket.
    """
    exact, weights = _weighed(lows, highs, density)
    if weights.size == 0:
        return exact
    places = np.unique(_other_proposals(exact, weights, per_bucket * n_buckets))
    return _best(exact, weights, places, n_buckets, stop_early=True)


def _other_proposals(exact: Step, weights: Floats, n: int) -> Int64s:
    """About 2n break points that need no groups, the first one among them.

    Half lie evenly among all, where the count jumps by much at a few places; half by the share of
    buckets that the count deserves, as if it were one slope.
    """
    counts = exact.values[: weights.size]
    even = np.linspace(0, counts.size, n, endpoint=False).astype(np.int64)
    used = np.cumsum(np.cbrt(weights * np.diff(counts, prepend=0.0) ** 2))
    by_share = np.flatnonzero(np.diff(np.floor(n * used / max(used[-1], SMALLEST)), prepend=-1.0))
    return np.concatenate([even, by_share])


def _weighed(lows: Int64s, highs: Int64s, density: Density | None) -> tuple[Step, Floats]:
    """The exact count, and what an error weighs in each of its steps but a last one of zeros."""
    exact = counted(lows, highs)
    mass = masses(exact.starts, density_or_uniform(density, lows, highs))
    weights = mass / np.maximum(exact.values, 1.0) ** 2
    return exact, weights[: exact.n_buckets]


def _best(
    exact: Step, weights: Floats, places: Int64s, n_buckets: int, *, stop_early: bool
) -> Step:
    """The best histogram whose buckets begin at some of these steps; the first one always does."""
    assert n_buckets > 0, f"a histogram of {n_buckets} buckets"
    if places.size == 0:
        return exact
    counts = exact.values[: weights.size]
    if places.size > n_buckets:
        terms = (weights, weights * counts, weights * counts * counts)
        sums = Sums(*(np.add.reduceat(term, places) for term in terms))
        places = places[_choose(sums, n_buckets, stop_early)]
    total = np.add.reduceat(weights, places)
    plain = np.add.reduceat(counts, places) / np.diff(places, append=counts.size)
    weighted = np.add.reduceat(weights * counts, places)
    # Where no event is expected nothing weighs anything, and the plain mean has to do.
    values = np.where(total > 0, weighted / np.where(total > 0, total, 1.0), plain)
    starts, end = exact.starts[places], exact.starts[counts.size :]
    return Step(np.append(starts, end), np.append(values, np.zeros(end.size)))


@kernel
def _choose(sums: Sums, n_buckets: int, stop_early: bool) -> Int64s:
    """The pieces at which the buckets of the least error begin; there are more pieces."""
    n = sums.weights.size
    before, errors = np.full(n + 1, np.inf), np.full(n + 1, np.inf)
    begins = np.zeros((n_buckets + 1, n + 1), np.int32)
    before[0] = 0.0
    for k in range(1, n_buckets + 1):
        for end in range(k if k < n_buckets else n, n + 1):
            weight, weighted, squares = 0.0, 0.0, 0.0
            least, at = np.inf, end - 1
            for begin in range(end - 1, k - 2, -1):
                weight += sums.weights[begin]
                weighted += sums.weighted[begin]
                squares += sums.squares[begin]
                bucket = 0.0
                if weight > 0:
                    bucket = max(squares - weighted * weighted / weight, 0.0)
                if stop_early and bucket >= least:
                    break
                if bucket + before[begin] < least:
                    least, at = bucket + before[begin], begin
            errors[end], begins[k, end] = least, at
        before, errors = errors, before
        errors[:] = np.inf
    chosen, end = np.empty(n_buckets, np.int64), n
    for k in range(n_buckets, 0, -1):
        end = begins[k, end]
        chosen[k - 1] = end
    return chosen
