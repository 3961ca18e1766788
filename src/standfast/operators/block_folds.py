"""Block folds: what blocks of rows begin and end with, so that four synopses make up any window.

    blocks     | 0 . . . . | 1 . . . . | 2 . . . . | 3 . . . . | 4 . . .
    window            [----------------------------------------------]
                      backward   tops of 0     tops of 4     forward

    forward    of a row: the rows from the beginning of its block up to it
    backward   of a row: the rows from it to the end of its block
    tops       of a block on level k, in groups of 2^(k + 1) blocks: the blocks between it and the
               middle of its group, itself left out

Two blocks lie on either side of the middle of exactly one group, on the level of the highest bit
in which their numbers differ; so a window that begins and ends in two blocks is four synopses,
whatever its width, and nothing is subtracted. A window inside one block is left to its base
intervals.

Made from the rows of base intervals when somebody asks for many windows at a time, and from then on
brought up to date from the first row that changed whenever that is worth it again.

Invariant  forward and backward are of the rows up to what was put by, backward of finished blocks
           only; blocks are numbered from the one that the oldest row was in when tops were made.
Cost       two merges a row that is new and log b a block, b blocks in all; a lookup O(1), or
           O(log B) within a block of B rows; two synopses a place, log b a block.
Paper      ours; instead of the cover of [shared-windows] section 3.1.1, where many look at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change, PutBy
from standfast.indexes.lane_kernels import Geometry
from standfast.indexes.lanes import Lanes
from standfast.operators import block_kernels as kernels
from standfast.operators.aggregates import LEAST_INT, MOST_FLOAT, SUM_FLOAT, Fields
from standfast.operators.base import Found
from standfast.operators.block_kernels import Blocks
from standfast.operators.lowering import lower
from standfast.operators.synopses import Synopses

SHIFT = 6  # blocks of 64 rows
# Merges that a lookup saves against the walk through base intervals, about.
SAVED = 32
# What bringing folds up to date takes however little changed, in merges.
FIXED = 16_000
# Fewer lookups at a time are not worth asking whether folds pay.
FEW = 1_024


class BlockFolds:
    """Folds of blocks over the base intervals of lanes."""

    def __init__(self, intervals: Synopses, lanes: Lanes, *, shift: int = SHIFT) -> None:
        self._intervals, self._lanes = intervals, lanes
        self._shift = shift
        self.aggregate = intervals.aggregate
        self._rows = Synopses(self.aggregate)  # forward at twice a place, backward behind it
        self._tops = Synopses(self.aggregate)
        self._levels = np.zeros(1, np.int64)  # of a number: its highest bit
        self._stale = PutBy()
        self.take_in(lanes.all_changed())
        self._blocks = self._numbered()

    def take_in(self, change: Change) -> None:
        """Rows of the lanes changed as told; what is made of them is left for later."""
        self._stale.add(change, self._lanes.n_lanes)

    def pays(self, n_lookups: int) -> bool:
        """Whether so many lookups save more than it takes to be up to date."""
        if not self._stale:
            return True
        g, firsts = self._lanes.geometry, self._stale.firsts(self._lanes.n_lanes)
        n_stale = int(np.maximum(g.tails - np.maximum(firsts, g.heads), 0).sum())
        return is_worth(n_lookups, n_stale, len(self._lanes) >> self._shift)

    def read(self, which: tuple[Int64s, Int64s, Int64s]) -> Found:
        """The answers of windows that are given by lanes, first and last positions."""
        self._bring_up_to_date()
        n, aggregate = which[0].size, self.aggregate
        if aggregate.kind == SUM_FLOAT:
            return self._sums(kernels.read_sums, which)
        parts = self._fields()
        if LEAST_INT <= aggregate.kind <= MOST_FLOAT:
            raw, known = np.empty(n, np.int64), np.empty(n, np.bool_)
            leaves, leaf_floats, rows, _, tops, _ = parts
            fields = (leaves, leaf_floats, rows, tops)
            kernels.read_extremes(*fields, *self._where(), *which, aggregate.kind, raw, known)
            return Found(raw.view(np.float64) if aggregate.is_float else raw, known)
        found = np.zeros((n, aggregate.width), np.int64)
        kernels.read_any(
            aggregate.kind, *parts, *self._where(), *which, found, found.view(np.float64)
        )
        return lower(aggregate, found, self._lanes, which)

    def sums_by_age(self, which: tuple[Int64s, Int64s, Int64s]) -> Found:
        """Sums of floats in the only lane: slots, and by slot the least and greatest age."""
        self._bring_up_to_date()
        return self._sums(kernels.sums_by_age, which)

    def _sums(self, kernel: Callable[..., None], which: tuple[Int64s, Int64s, Int64s]) -> Found:
        values, known = np.empty(which[0].size), np.empty(which[0].size, np.bool_)
        is_mean = self.aggregate.name == "AVG"
        kernel(*self._fields(), *self._where(), *which, is_mean, values, known)
        return Found(values, known)

    def _fields(self) -> tuple[Int64s, Fields, Int64s, Fields, Int64s, Fields]:
        """Base intervals, folds of rows and tops, each as int64 and as float64."""
        made, rows, tops = self._intervals, self._rows, self._tops
        return made.ints, made.floats, rows.ints, rows.floats, tops.ints, tops.floats

    def _where(self) -> tuple[Geometry, Blocks, Int64s, int]:
        return self._lanes.geometry, self._blocks, self._levels, self._shift

    def _bring_up_to_date(self) -> None:
        if not self._stale:
            return
        kind, g = self.aggregate.kind, self._lanes.geometry
        self._rows.resize(2 * self._lanes.size)
        rows = (self._rows.ints, self._rows.floats)
        firsts = self._stale.firsts(self._lanes.n_lanes)
        intervals = (self._intervals.ints, self._intervals.floats)
        kernels.fold_rows(kind, *intervals, *rows, g, firsts, self._shift)
        self._blocks = self._numbered()
        tops = (self._tops.ints, self._tops.floats)
        kernels.fold_tops(kind, *intervals, *tops, g, self._blocks, self._shift)
        self._stale.take()

    def _numbered(self) -> Blocks:
        """The blocks of every lane by number, with room for their tops."""
        g = self._lanes.geometry
        bases = g.heads >> self._shift
        # Where a ring is a block or less, its windows are left to base intervals.
        has = (g.masks >> self._shift > 0) & (g.tails > g.heads)
        counts = np.where(has, (g.tails - 1 >> self._shift) - bases + 1, 0)
        most = int(counts.max(initial=1))
        self._levels = np.frexp(np.arange(1 << (most - 1).bit_length()))[1].astype(np.int64) - 1
        sizes = counts * (self._levels[np.maximum(counts - 1, 0)] + 1)
        self._tops.resize(int(sizes.sum()))
        return Blocks(bases, counts, np.cumsum(sizes) - sizes)

    def check(self) -> None:
        """Windows up to the newest row and from the oldest one on read as their intervals do."""
        g = self._lanes.geometry
        for lane in range(self._lanes.n_lanes):
            head, tail = int(g.heads[lane]), int(g.tails[lane])
            each = np.arange(head, tail)
            firsts = np.concatenate([each, np.full(each.size, head)])
            lasts = np.concatenate([np.full(each.size, tail - 1), each])
            which = (np.full(firsts.size, lane), firsts, lasts)
            one = self.read(which)
            found = self._intervals.windows(self._lanes, which, unfinished=False)
            other = lower(self.aggregate, found, self._lanes, which)
            assert np.array_equal(one.known, other.known), "folds lost the values of a window"
            same = np.isclose(one.values, other.values, rtol=1e-9, atol=0.0)
            assert np.all(same | ~one.known), "folds read a window unlike its intervals"

    def memory_bytes(self) -> int:
        return self._rows.memory_bytes() + self._tops.memory_bytes() + int(self._levels.nbytes)


def is_worth(n_lookups: int, n_stale: int, n_blocks: int) -> bool:
    """Whether so many lookups save more than folding so many rows and blocks takes."""
    merges = FIXED + 2 * n_stale + n_blocks * n_blocks.bit_length()
    return merges <= SAVED * n_lookups
