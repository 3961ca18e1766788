"""Where to split boxes: by the end that leaves the fewest boxes behind the children one enters.

    an end, evened        0 . . : . .:. . :: . . 1       32 sampled boxes, in 16 bins
    cost of a split       boxes below x their reach + boxes above x their reach

Every end of every box (the low and the high of each attribute) is measured on a scale that the
ends of all boxes fill evenly, so the reach of a set of boxes on an attribute is about the share of
values that it attracts. Only a sample of a node's boxes is looked at.

Cost       O(d) a box to even, O(1) a box and level to part, O(d) a node to choose.
Source     the surface-area heuristic of bounding volume hierarchies, on one attribute at a time;
           the greedy top-down split of packed R-trees (Garcia, Lopez and Leutenegger 1998).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s

Float32s = npt.NDArray[np.float32]
Float64s = npt.NDArray[np.float64]

# Chosen in decision 006: more of each builds slower and probes hardly faster.
N_KNOTS = 512
N_SAMPLES = 32
N_BINS = 16
NO_GAIN = 0.99
DEEP = 64  # a branch deeper than this is only halved
STACK = 128  # DEEP and the halvings of 2^31 boxes
SCATTER = 2_654_435_761  # odd, so its multiples fall all over any range


def evened(boxes: Int64s) -> Float32s:
    """Every end of every box on a scale from 0 to 1 that the ends of its attribute fill evenly.

    A low counts the ends below it, a high also those equal to it: a point that many boxes share is
    as wide as their share. The least low and the greatest high, which most often mean unlimited,
    are left out of the scale, so that the other ends do not look narrower than they are.
    """
    scaled = np.empty(boxes.shape, np.float32)
    sample = np.random.default_rng(0).integers(0, boxes.shape[0], N_KNOTS)
    for attribute in range(boxes.shape[1] // 2):
        both = boxes[:, 2 * attribute : 2 * attribute + 2]
        lows, highs = both[sample].T
        knots = np.concatenate([lows[lows > both[:, 0].min()], highs[highs < both[:, 1].max()]])
        _scale(both, np.sort(knots), scaled[:, 2 * attribute : 2 * attribute + 2])
    return scaled


@kernel
def _scale(ends: Int64s, knots: Int64s, scaled: Float32s) -> None:
    """Place each (low, high) among the sorted knots, with the fraction between its neighbours.

    A table of evenly spaced cells tells between which knots to search; any rising function would
    do for it, so rounding does no harm.
    """
    n = knots.size
    if n == 0:
        scaled[:, 0], scaled[:, 1] = 0.0, 1.0
        return
    origin, n_cells = float(knots[0]), 2 * n
    pitch = n_cells / (float(knots[-1]) - origin + 1.0)
    firsts = np.zeros(n_cells + 1, np.int64)
    for knot in knots:
        firsts[min(n_cells - 1, int((float(knot) - origin) * pitch)) + 1] += 1
    firsts = np.cumsum(firsts)
    for i in range(ends.shape[0]):
        for side in range(2):
            end = ends[i, side]
            cell = int(min(n_cells - 1.0, max(0.0, (float(end) - origin) * pitch)))
            below, after = firsts[cell], firsts[cell + 1]
            while below < after:
                middle = (below + after) // 2
                if knots[middle] < end or (side == 1 and knots[middle] == end):
                    below = middle + 1
                else:
                    after = middle
            fraction = 0.0
            if 0 < below < n and knots[below - 1] < end < knots[below]:
                left, right = float(knots[below - 1]), float(knots[below])
                if left < right:
                    fraction = (float(end) - left) / (right - left)
            scaled[i, side] = (below + fraction) / n


@kernel
def split(scaled: Float32s, entries: Int32s, leaf: int) -> tuple[Int32s, Int32s, Int32s]:
    """Children, attributes and places of `box_tree.Nodes`; sorts `entries` leaf by leaf."""
    n, n_ends = scaled.shape
    children, attributes = np.empty(2 * n, np.int32), np.empty(2 * n, np.int32)
    places, depths = np.empty((2 * n, 2), np.int32), np.empty(2 * n, np.int32)
    places[0, 0], places[0, 1], depths[0], used = 0, n, 0, 1
    sample, bins = np.empty((n_ends, N_SAMPLES), np.float32), np.empty((4, N_BINS), np.float64)
    aside, stack = np.empty(n, np.int32), np.empty(STACK, np.int32)
    stack[0], height = 0, 1
    while height:
        height -= 1
        node = stack[height]
        begin, end = int(places[node, 0]), int(places[node, 1])
        children[node], attributes[node] = -1, 0
        if end - begin <= leaf:
            continue
        taken = min(N_SAMPLES, end - begin)
        for k in range(taken):
            entry = entries[begin + (k if taken < N_SAMPLES else k * SCATTER % (end - begin))]
            for which in range(n_ends):
                sample[which, k] = scaled[entry, which]
        which, threshold = _choose(sample, taken, bins)
        middle = begin
        if which >= 0 and depths[node] < DEEP:
            middle += _partition(aside, entries[begin:end], scaled[:, which], threshold)
        if middle in (begin, end):  # nothing to tell them apart
            middle, which = (begin + end) // 2, 2 * (depths[node] % (n_ends // 2))
        children[node], attributes[node] = used, which // 2
        places[used, 0], places[used, 1] = begin, middle
        places[used + 1, 0], places[used + 1, 1] = middle, end
        for child in range(used, used + 2):
            depths[child] = depths[node] + 1
            stack[height] = child
            height += 1
        used += 2
    return children[:used].copy(), attributes[:used].copy(), places[:used].copy()


@kernel
def _partition(aside: Int32s, entries: Int32s, column: Float32s, threshold: float) -> int:
    """Bring the entries whose end is below the threshold to the front; how many they are."""
    front, back = 0, 0
    for k in range(entries.size):
        entry = entries[k]
        entries[front], aside[back] = entry, entry
        below = column[entry] < threshold
        front += below
        back += not below
    for k in range(back):
        entries[front + k] = aside[k]
    return front


@kernel
def _choose(sample: Float32s, n: int, bins: Float64s) -> tuple[int, float]:
    """Which end to split by and where, from `sample[end, :n]`; (-1, 0) if no end differs.

    The cost of a split is the expected number of boxes behind the children that a value enters,
    seen on the attribute of that end alone. Without a gain the widest end is cut at its mean.
    """
    best, which, threshold, width = NO_GAIN, -1, 0.0, 0.0
    for end in range(sample.shape[0]):
        least, most, total = sample[end, 0], sample[end, 0], 0.0
        for i in range(n):
            value = sample[end, i]
            least, most, total = min(least, value), max(most, value), total + value
        if not least < most:
            continue
        if best >= NO_GAIN and most - least > width:
            which, threshold, width = end, total / n, most - least
        scale = (N_BINS - 0.001) / (most - least)
        whole = _fill_bins(sample, n, end, least, scale, bins)
        count, low, high = 0.0, np.inf, -np.inf
        for k in range(N_BINS - 1):
            count += bins[0, k]
            low, high = min(low, bins[1, k]), max(high, bins[2, k])
            ratio = (count * (high - low) + bins[3, k + 1]) / whole
            if ratio < best and count < n:
                best, which, threshold = ratio, end, least + (k + 1) / scale
    return which, threshold


@kernel
def _fill_bins(
    sample: Float32s, n: int, end: int, least: float, scale: float, bins: Float64s
) -> float:
    """Per bin of an end: how many boxes, from where, to where, and the cost of it and all after.

    The cost of some boxes is their number times their reach; the result is that of all.
    """
    for k in range(N_BINS):
        bins[0, k], bins[1, k], bins[2, k] = 0.0, np.inf, -np.inf
    for i in range(n):
        k = int((sample[end, i] - least) * scale)
        bins[0, k] += 1
        bins[1, k] = min(bins[1, k], sample[end // 2 * 2, i])
        bins[2, k] = max(bins[2, k], sample[end // 2 * 2 + 1, i])
    count, low, high = 0.0, np.inf, -np.inf
    for k in range(N_BINS - 1, -1, -1):
        count += bins[0, k]
        low, high = min(low, bins[1, k]), max(high, bins[2, k])
        bins[3, k] = count * (high - low) if count else 0.0
    return float(bins[3, 0])
