"""The kernels of `operators.block_folds`: folding rows and blocks, and windows of four synopses.

The rows of base intervals are the leaves of their tree (`interval_kernels`). Forward folds stand at
twice the place of a row, backward ones right behind. Places are unsigned where many windows are
read: no index is asked whether it counts from the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import in_place, kernel
from standfast.arrays import Int64s
from standfast.indexes.lane_kernels import Bools, Geometry
from standfast.operators.aggregates import LEAST_FLOAT, LEAST_INT, MOST_FLOAT, SUM_FLOAT, Fields
from standfast.operators.interval_kernels import base_extreme, base_sum, fold_window
from standfast.operators.sum_kernels import total_at
from standfast.operators.synopsis_kernels import LOWEST, added, copy, merge

HIGHEST = 2**63 - 1


class Blocks(NamedTuple):
    """The blocks of each lane, by lane, numbered from the one that its oldest row was in."""

    bases: Int64s  # how many blocks were before the first
    counts: Int64s  # 0 where there are no folds
    offsets: Int64s  # of the tops: `counts` of them on each level


@kernel
def fold_rows(
    kind: int, leaves: Int64s, leaf_floats: Fields, ints: Int64s, floats: Fields, g: Geometry,
    firsts: Int64s, shift: int,
) -> None:  # fmt: skip
    """Forward and backward folds of the rows from `firsts` on, lane by lane."""
    for lane in range(g.starts.size):
        start, mask, head, tail = g.starts[lane], g.masks[lane], g.heads[lane], g.tails[lane]
        since, leaf = max(firsts[lane], head), 2 * start + mask + 1
        if mask >> shift == 0 or since >= tail:
            continue
        for block in range(since >> shift, (tail - 1 >> shift) + 1):
            begin, end = max(head, block << shift), min(tail, (block + 1) << shift)
            at, row = 2 * (start + (begin & mask)), leaf + (begin & mask)
            is_done = end & ((1 << shift) - 1) == 0
            if kind == SUM_FLOAT:
                _fold_sums(leaves, leaf_floats, ints, floats, at, row, end - begin, is_done)
                continue
            for k in range(end - begin):
                if k == 0:
                    _clear(ints, at)
                else:
                    copy(ints, at + 2 * k, ints, at + 2 * k - 2)
                merge(kind, ints, floats, at + 2 * k, leaves, leaf_floats, row + k)
            for back in range(end - begin if is_done else 0):
                k = end - begin - 1 - back
                copy(ints, at + 2 * k + 1, leaves, row + k)
                if back > 0:
                    merge(kind, ints, floats, at + 2 * k + 1, ints, floats, at + 2 * k + 3)


@in_place
def _fold_sums(
    leaves: Int64s, leaf_floats: Fields, ints: Int64s, floats: Fields, at: int, row: int,
    n_rows: int, is_done: bool,
) -> None:  # fmt: skip
    """Both folds of one block of sums; the running ones stay in registers."""
    n, total, rest = 0, 0.0, 0.0
    for k in range(n_rows):
        total, low = added(total, leaf_floats[row + k, 1])
        n, rest = n + leaves[row + k, 0], rest + low
        ints[at + 2 * k, 0], floats[at + 2 * k, 1], floats[at + 2 * k, 2] = n, total, rest
    if not is_done:
        return
    n, total, rest = 0, 0.0, 0.0
    for back in range(n_rows):
        k = n_rows - 1 - back
        total, low = added(leaf_floats[row + k, 1], total)
        n, rest = n + leaves[row + k, 0], rest + low
        one = at + 2 * k + 1
        ints[one, 0], floats[one, 1], floats[one, 2] = n, total, rest


@in_place
def _clear(ints: Int64s, at: int) -> None:
    for f in range(ints.shape[1]):
        ints[at, f] = 0


@kernel
def fold_tops(
    kind: int, tree: Int64s, tree_floats: Fields, ints: Int64s, floats: Fields, g: Geometry,
    blocks: Blocks, shift: int,
) -> None:  # fmt: skip
    """From each middle of a group of blocks outwards, on every level.

    A whole block is one base interval.
    """
    for lane in range(g.starts.size):
        width, n = g.masks[lane] + 1 >> shift, blocks.counts[lane]
        nodes, base = 2 * g.starts[lane] + width, blocks.bases[lane]
        half, top = 1, blocks.offsets[lane]
        while half < n:
            for middle in range(half, n, 2 * half):
                if kind == SUM_FLOAT:
                    back = (nodes, base + middle - 1, width - 1, -1)
                    _run_sums(tree, tree_floats, ints, floats, top + middle - 1, half, back)
                    on = (nodes, base + middle, width - 1, 1)
                    far = min(half, n - middle)
                    _run_sums(tree, tree_floats, ints, floats, top + middle, far, on)
                    continue
                _clear(ints, top + middle - 1)
                for b in range(1, half):
                    at = top + middle - 1 - b
                    copy(ints, at, tree, nodes + (base + middle - b & width - 1))
                    merge(kind, ints, floats, at, ints, floats, at + 1)
                _clear(ints, top + middle)
                for b in range(1, min(half, n - middle)):
                    at, of = top + middle + b, nodes + (base + middle + b - 1 & width - 1)
                    copy(ints, at, ints, at - 1)
                    merge(kind, ints, floats, at, tree, tree_floats, of)
            half, top = 2 * half, top + n


@in_place
def _run_sums(
    tree: Int64s, tree_floats: Fields, ints: Int64s, floats: Fields, at: int, n_blocks: int,
    nodes: tuple[int, int, int, int],
) -> None:  # fmt: skip
    """Sums of none, one, two ... blocks, from one on to either side, each before it is added."""
    first, block, mask, step = nodes
    n, total, rest = 0, 0.0, 0.0
    for b in range(n_blocks):
        to, of = at + b * step, first + (block + b * step & mask)
        ints[to, 0], floats[to, 1], floats[to, 2] = n, total, rest
        total, low = added(total, tree_floats[of, 1])
        n, rest = n + tree[of, 0], rest + (tree_floats[of, 2] + low)


@kernel
def sums_by_age(
    leaves: Int64s, leaf_floats: Fields, rows: Int64s, row_floats: Fields, tops: Int64s,
    top_floats: Fields, g: Geometry, blocks: Blocks, levels: Int64s, shift: int, slots: Int64s,
    lows: Int64s, highs: Int64s, is_mean: bool, values: Fields, known: Bools,
) -> None:  # fmt: skip
    """Sums of the rows of age `lows[slots[i]] .. highs[slots[i]]` in the only lane."""
    fields = (leaves, leaf_floats, rows, row_floats, tops, top_floats)
    head, newest = g.heads[0], g.tails[0] - 1
    ring = (g.starts[0], g.masks[0], blocks.bases[0], blocks.counts[0], blocks.offsets[0])
    for i in range(slots.size):
        slot = np.uint64(slots[i])
        first, last = max(head, newest - highs[slot]), newest - lows[slot]
        n, answer = _sum_between(*fields, *ring, levels, shift, first, last)
        values[i] = answer / max(n, 1) if is_mean else answer
        known[i] = n > 0


@kernel
def read_sums(
    leaves: Int64s, leaf_floats: Fields, rows: Int64s, row_floats: Fields, tops: Int64s,
    top_floats: Fields, g: Geometry, blocks: Blocks, levels: Int64s, shift: int, lanes: Int64s,
    firsts: Int64s, lasts: Int64s, is_mean: bool, values: Fields, known: Bools,
) -> None:  # fmt: skip
    """Sums of floats, straight to answers."""
    fields = (leaves, leaf_floats, rows, row_floats, tops, top_floats)
    for i in range(lanes.size):
        lane = lanes[i]
        ring = (
            g.starts[lane], g.masks[lane],
            blocks.bases[lane], blocks.counts[lane], blocks.offsets[lane],
        )  # fmt: skip
        n, answer = _sum_between(*fields, *ring, levels, shift, firsts[i], lasts[i])
        values[i] = answer / max(n, 1) if is_mean else answer
        known[i] = n > 0


@in_place
def _sum_between(
    leaves: Int64s, leaf_floats: Fields, rows: Int64s, row_floats: Fields, tops: Int64s,
    top_floats: Fields, start: int, mask: int, base: int, n_blocks: int, offset: int,
    levels: Int64s, shift: int, first: int, last: int,
) -> tuple[int, float]:  # fmt: skip
    """How many values a window has, and their sum."""
    left, right = (first >> shift) - base, (last >> shift) - base
    if n_blocks == 0 or left >= right:
        n, total, rest = base_sum(leaves, leaf_floats, 2 * start, mask + 1, first, last + 1)
        return n, total + rest
    top = offset + levels[np.uint64(left ^ right)] * n_blocks
    n, total, rest = total_at(rows, row_floats, 2 * (start + (first & mask)) + 1)
    n, total, rest = _with(n, total, rest, tops, top_floats, top + left)
    n, total, rest = _with(n, total, rest, tops, top_floats, top + right)
    n, total, rest = _with(n, total, rest, rows, row_floats, 2 * (start + (last & mask)))
    return n, total + rest


@in_place
def _with(
    n: int, total: float, rest: float, ints: Int64s, floats: Fields, at: int
) -> tuple[int, float, float]:
    """A sum and another one of later rows."""
    n_more, more, rest_more = total_at(ints, floats, at)
    total, low = added(total, more)
    return n + n_more, total, rest + (rest_more + low)


@kernel
def read_any(
    kind: int, leaves: Int64s, leaf_floats: Fields, rows: Int64s, row_floats: Fields,
    tops: Int64s, top_floats: Fields, g: Geometry, blocks: Blocks, levels: Int64s, shift: int,
    lanes: Int64s, firsts: Int64s, lasts: Int64s, found: Int64s, found_floats: Fields,
) -> None:  # fmt: skip
    """The synopses of windows, merged from four or from base intervals."""
    for i in range(lanes.size):
        lane, first, last = lanes[i], firsts[i], lasts[i]
        start, mask, n_blocks = g.starts[lane], g.masks[lane], blocks.counts[lane]
        left, right = (first >> shift) - blocks.bases[lane], (last >> shift) - blocks.bases[lane]
        if n_blocks == 0 or left >= right:
            ring = (start, mask, g.tails[lane])
            fold_window(
                kind, leaves, leaf_floats, ring, (first, last), False, found, found_floats, i
            )
            continue
        top = blocks.offsets[lane] + levels[left ^ right] * n_blocks
        copy(found, i, rows, 2 * (start + (first & mask)) + 1)
        merge(kind, found, found_floats, i, tops, top_floats, top + left)
        merge(kind, found, found_floats, i, tops, top_floats, top + right)
        merge(kind, found, found_floats, i, rows, row_floats, 2 * (start + (last & mask)))


@kernel
def read_extremes(
    leaves: Int64s, leaf_floats: Fields, rows: Int64s, tops: Int64s, g: Geometry,
    blocks: Blocks, levels: Int64s, shift: int, lanes: Int64s, firsts: Int64s, lasts: Int64s,
    kind: int, values: Int64s, known: Bools,
) -> None:  # fmt: skip
    """Least or greatest values, straight to answers.

    What is compared are whole numbers in which the best of any kind is the greatest.
    """
    flip = HIGHEST if kind in (LEAST_FLOAT, MOST_FLOAT) else 0
    turn = -1 if kind in (LEAST_INT, LEAST_FLOAT) else 0
    for i in range(lanes.size):
        lane, first, last = lanes[i], firsts[i], lasts[i]
        start, mask, n_blocks = g.starts[lane], g.masks[lane], blocks.counts[lane]
        left, right = (first >> shift) - blocks.bases[lane], (last >> shift) - blocks.bases[lane]
        if n_blocks == 0 or left >= right:
            n, at = base_extreme(kind, leaves, leaf_floats, 2 * start, mask + 1, first, last + 1)
            values[i], known[i] = leaves[at, 1], n > 0
            continue
        top = blocks.offsets[lane] + levels[left ^ right] * n_blocks
        n, best = _ranked(rows, 2 * (start + (first & mask)) + 1, flip, turn)
        n_more, more = _ranked(tops, top + left, flip, turn)
        n, best = n + n_more, max(best, more)
        n_more, more = _ranked(tops, top + right, flip, turn)
        n, best = n + n_more, max(best, more)
        n_more, more = _ranked(rows, 2 * (start + (last & mask)), flip, turn)
        best = max(best, more) ^ turn
        values[i] = best ^ ((best >> 63) & flip)
        known[i] = n + n_more > 0


@in_place
def _ranked(ints: Int64s, at: int, flip: int, turn: int) -> tuple[int, int]:
    """How many values, and the best one as a number that is the greater the better it is."""
    n, raw = ints[np.uint64(at), 0], ints[np.uint64(at), 1]
    return n, (raw ^ ((raw >> 63) & flip)) ^ turn if n > 0 else LOWEST
