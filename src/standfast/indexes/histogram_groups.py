"""Break points worth having: one-dimensional k-means on the two slopes of each stabbing group.

      count of one group           every range of a group holds its point, so the count rises
            ____                   up to the point and falls after it: two monotone *slopes*
         __|    |_                 whose steps, read from outside to the point, have the heights
      __|         |____            1, 2, 3, ... A histogram of a slope is a clustering of its
    _|        ^        |_          heights, because neighbours in height are neighbours in place.

The buckets are shared out over all slopes at once: with many buckets, the best ones hold the same
amount of (weight * rise^2)^(1/3) each, whatever slope they belong to. That gives every slope its
number of buckets and the clusters to begin with; a few rounds of k-means follow. This stands for
the paper's mapping of the groups to places far apart, without its iterations over all of them.

Invariant  a slope is `offsets[s]:offsets[s + 1]` of the steps; heights ascend within a slope.
Cost       O(n log n) to sort the ends of each group, then O(n) a round.
Paper      [hotspot] appendix B, HIST-SSI; what differs is in decision 010.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.indexes.histogram_steps import Floats
from standfast.indexes.stabbing_partition import canonical

ROUNDS = 5  # of k-means; more change the error by less than a percent (decision 010)


class Slopes(NamedTuple):
    """The steps of all slopes, from outside to the point; places count the steps of the whole.

    A rising slope has an even number, and the falling one of the same group the next. A step
    reaches from `firsts` to `stops`; where it is entered from outside is its `edges`.
    """

    offsets: Int64s
    heights: Floats
    firsts: Int64s
    stops: Int64s

    @property
    def edges(self) -> Int64s:
        return np.where(self.is_rising, self.firsts, self.stops)

    @property
    def slope_of(self) -> Int64s:
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))

    @property
    def is_rising(self) -> npt.NDArray[np.bool_]:
        rising: npt.NDArray[np.bool_] = self.slope_of % 2 == 0
        return rising


def slopes(lows: Int64s, highs: Int64s, starts: Int64s) -> Slopes:
    """The slopes of the smallest stabbing partition; `starts` are those of the exact count."""
    group_of, points = canonical(lows, highs)
    at_point = np.searchsorted(starts, points, side="right") - 1
    n = lows.size
    slope_of = np.concatenate([2 * group_of.astype(np.int64), 2 * group_of.astype(np.int64) + 1])
    edges = np.concatenate([np.searchsorted(starts, lows), np.searchsorted(starts, highs, "right")])
    inwards = edges * np.repeat([1, -1], n)
    order = np.lexsort((inwards, slope_of))
    slope_of, edges = slope_of[order], edges[order]
    first_of = np.searchsorted(slope_of, np.arange(2 * points.size))
    heights = np.arange(1, 2 * n + 1) - first_of[slope_of]
    is_last = np.append((slope_of[1:] != slope_of[:-1]) | (edges[1:] != edges[:-1]), True)
    slope_of, edges, heights = slope_of[is_last], edges[is_last], heights[is_last]
    offsets = np.searchsorted(slope_of, np.arange(2 * points.size + 1))
    inner = np.append(edges[1:], 0)
    inner[offsets[1:] - 1] = np.repeat(at_point, 2)
    rises = slope_of % 2 == 0
    return Slopes(
        offsets, heights.astype(np.float64),
        np.where(rises, edges, inner), np.where(rises, inner, edges),
    )  # fmt: skip


def weights_of(steps: Slopes, weights: Floats) -> Floats:
    """What each step of each slope weighs, from the weights of the steps of the whole."""
    total = np.append(0.0, np.cumsum(weights))
    between: Floats = total[steps.stops] - total[steps.firsts]
    return np.maximum(between, 0.0)


def shares(steps: Slopes, weights: Floats) -> Floats:
    """How much of a bucket each step is worth, up to a factor."""
    rises = np.diff(steps.heights, prepend=0.0)
    rises[steps.offsets[:-1]] = steps.heights[steps.offsets[:-1]]
    share: Floats = np.cbrt(weights * rises * rises)
    return share


def clusters(
    steps: Slopes, weights: Floats, share: Floats, n_clusters: Int64s
) -> tuple[Int64s, Int64s]:
    """Clusters of the steps of each slope: their slope and their first step, ascending.

    `n_clusters` says how many a slope gets; it has fewer when it has fewer steps.
    """
    n_clusters = np.minimum(n_clusters, np.diff(steps.offsets))
    first_cluster = np.append(0, np.cumsum(n_clusters))
    cuts = np.empty(first_cluster[-1], np.int64)
    _begin(steps.offsets, share, first_cluster, cuts)
    for _ in range(ROUNDS):
        _improve(steps.offsets, steps.heights, weights, first_cluster, cuts)
    return np.repeat(np.arange(n_clusters.size), n_clusters), cuts


def proposals(lows: Int64s, highs: Int64s, starts: Int64s, weights: Floats, n: int) -> Int64s:
    """About `n` places where a histogram of these ranges may well have a break."""
    steps = slopes(lows, highs, starts)
    own = weights_of(steps, weights)
    share = shares(steps, own)
    wanted = np.add.reduceat(share, steps.offsets[:-1])
    total = float(wanted.sum())
    if total <= 0.0:
        return np.empty(0, np.int64)
    slope_of, cuts = clusters(steps, own, share, np.rint(n * wanted / total).astype(np.int64))
    edges = steps.edges
    inner = np.where(steps.is_rising, steps.stops, steps.firsts)
    points = inner[steps.offsets[np.unique(slope_of) + 1] - 1]
    return np.unique(np.concatenate([edges[cuts], points]))


@kernel
def _begin(offsets: Int64s, share: Floats, first_cluster: Int64s, cuts: Int64s) -> None:
    """Cut each slope into clusters of the same share."""
    for slope in range(offsets.size - 1):
        begin, end = offsets[slope], offsets[slope + 1]
        first, n = first_cluster[slope], first_cluster[slope + 1] - first_cluster[slope]
        total = 0.0
        for i in range(begin, end):
            total += share[i]
        used, cluster = 0.0, 0
        for i in range(begin, end):
            # The last steps are one cluster each when no more of them are left than clusters.
            if cluster < n and (used * n >= total * cluster or end - i == n - cluster):
                cuts[first + cluster] = i
                cluster += 1
            used += share[i]


@kernel
def _improve(
    offsets: Int64s, heights: Floats, weights: Floats, first_cluster: Int64s, cuts: Int64s
) -> None:
    """A round of k-means: each step goes to the nearer of two neighbouring centres."""
    for slope in range(offsets.size - 1):
        first, last = first_cluster[slope], first_cluster[slope + 1]
        before = 0.0
        for cluster in range(first, last):
            begin = cuts[cluster]
            end = cuts[cluster + 1] if cluster + 1 < last else offsets[slope + 1]
            total, weighted = 0.0, 0.0
            for i in range(begin, end):
                total += weights[i]
                weighted += weights[i] * heights[i]
            centre = weighted / total if total > 0 else heights[min(begin, end - 1)]
            if cluster > first:
                middle, cut = (before + centre) / 2, begin
                while cut > cuts[cluster - 1] + 1 and heights[cut - 1] > middle:
                    cut -= 1
                while cut < end - 1 and heights[cut] <= middle:
                    cut += 1
                cuts[cluster] = cut
            before = centre
