"""Hits of a stabbing set index: two prefix lengths per event and group, however many were hit.

    low order   [###########----------]      the first `low_counts` of a group's low order
    high order  [------------#########]      and the last `high_counts` of its high order

Invariant  every interval of a group holds its point, so an event left of it hits a prefix by lows,
           one right of it a suffix by highs; what stands in both counts once.
Cost       two numbers per event and group; counting and writing follow the hits.
Paper      [hotspot] section 3.1.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from standfast._numba import in_parts, kernel
from standfast.arrays import Int32s, Int64s, SpanList


class Groups(NamedTuple):
    """Stabbing groups side by side: group g owns positions `offsets[g]:offsets[g + 1]`.

    Every interval of group g holds `points[g]`. Within a group `lows` ascend with their slots in
    `low_slots`, `highs` ascend with theirs in `high_slots`, and `high_ranks[i]` is where the owner
    of `highs[i]` stands in the group's low order (counted from the group's start).
    """

    points: Int64s
    offsets: Int64s
    lows: Int64s
    low_slots: Int32s
    highs: Int64s
    high_slots: Int32s
    high_ranks: Int32s

    @property
    def n_groups(self) -> int:
        return self.points.size


class LowRanks:
    """For each place in the low order of some groups, where its owner stands in the high order.

    Only counting needs them: made when first asked for, then shared by all answers of the groups.
    """

    def __init__(self) -> None:
        self._made: Int32s | None = None

    def of(self, groups: Groups) -> Int32s:
        """The ranks of these groups, which must be the same in every call."""
        if self._made is None:
            self._made = _low_ranks(groups)
        return self._made


@dataclass(frozen=True, slots=True)
class GroupSpans:
    """Two prefix lengths per event and group: the whole answer of a stabbing set index.

    Event e hit, in group g, the first `low_counts[g, e]` intervals of the low order and the last
    `high_counts[g, e]` of the high order; an interval can stand in both, but counts once.
    """

    groups: Groups
    low_counts: Int32s
    high_counts: Int32s
    ranks: LowRanks = field(default_factory=LowRanks)

    @property
    def n_events(self) -> int:
        return int(self.low_counts.shape[1])

    def counts(self) -> Int64s:
        counts, g = np.empty(self.n_events, np.int64), self.groups
        low_ranks = self.ranks.of(g)

        def count(first: int, last: int) -> None:
            _count_groups(
                g.offsets, low_ranks, g.high_ranks, self.low_counts, self.high_counts,
                first, counts[first:last],
            )  # fmt: skip

        in_parts(count, self.n_events, cost=20 * self.low_counts.size)
        return counts

    def fill(self, starts: Int64s, ids: Int64s, out: Int64s) -> None:
        g, low_ids, high_ids = self.groups, np.empty(0, np.int64), np.empty(0, np.int64)
        if out.size > g.low_slots.size:  # so much to write that the orders are named first
            low_ids, high_ids = ids[g.low_slots], ids[g.high_slots]

        def fill(first: int, last: int) -> None:
            _fill_groups(
                g, ids, low_ids, high_ids,
                self.low_counts, self.high_counts, first, starts[first:last], out,
            )  # fmt: skip

        in_parts(fill, self.n_events, cost=out.size)

    def spans(self) -> SpanList:
        g, n = self.groups, self.groups.low_slots.size
        low_group, low_event = np.nonzero(self.low_counts)
        high_group, high_event = np.nonzero(self.high_counts)
        low_start, high_stop = g.offsets[low_group], g.offsets[high_group + 1] + n
        return SpanList(
            np.concatenate([low_event, high_event]),
            np.concatenate([low_start, high_stop - self.high_counts[high_group, high_event]]),
            np.concatenate([low_start + self.low_counts[low_group, low_event], high_stop]),
            np.concatenate(
                [np.zeros(low_event.size, np.int64), self.low_counts[high_group, high_event]]
            ),
            ((g.low_slots, None), (g.high_slots, g.high_ranks)),
        )

    def take(self, events: Int64s) -> GroupSpans:
        return GroupSpans(
            self.groups, self.low_counts[:, events], self.high_counts[:, events], self.ranks
        )


def _low_ranks(groups: Groups) -> Int32s:
    """For each place in the low order, where its owner stands in the group's high order."""
    within = np.arange(groups.high_slots.size, dtype=np.int64)
    base = np.repeat(groups.offsets[:-1], np.diff(groups.offsets))
    ranks = np.empty(within.size, np.int32)
    ranks[base + groups.high_ranks] = (within - base).astype(np.int32)
    return ranks


@kernel
def _count_groups(
    offsets: Int64s, low_ranks: Int32s, high_ranks: Int32s,
    low_counts: Int32s, high_counts: Int32s, first: int, counts: Int64s,
) -> None:  # fmt: skip
    """Both prefixes minus their overlap, or everybody minus those between the neighbours.

    Whichever is shorter is looked through, so neither many nor few hits cost a whole group.
    """
    for e in range(first, first + counts.size):
        total = 0
        for g in range(offsets.size - 1):
            begin, end = offsets[g], offsets[g + 1]
            size = end - begin
            low, high = low_counts[g, e], high_counts[g, e]
            both, missed = 0, 0
            if min(low, high) < size - max(low, high):
                if low <= high:
                    for i in range(begin, begin + low):
                        both += low_ranks[i] >= size - high
                else:
                    for i in range(end - high, end):
                        both += high_ranks[i] < low
                total += low + high - both
                continue
            if low >= high:
                for i in range(begin + low, end):
                    missed += low_ranks[i] < size - high
            else:
                for i in range(begin, end - high):
                    missed += high_ranks[i] >= low
            total += size - missed
        counts[e - first] = total


@kernel
def _fill_groups(
    groups: Groups, ids: Int64s, low_ids: Int64s, high_ids: Int64s,
    low_counts: Int32s, high_counts: Int32s, first: int, starts: Int64s, out: Int64s,
) -> None:  # fmt: skip
    """Write the hits; `low_ids` and `high_ids` name the orders, or are empty and `ids` names."""
    named = low_ids.size > 0
    for e in range(first, first + starts.size):
        at = starts[e - first]
        for g in range(groups.points.size):
            begin, end = groups.offsets[g], groups.offsets[g + 1]
            low = low_counts[g, e]
            if named:
                out[at : at + low] = low_ids[begin : begin + low]
            else:
                for i in range(low):
                    out[at + i] = ids[groups.low_slots[begin + i]]
            at += low
            if low < end - begin:
                for i in range(end - high_counts[g, e], end):
                    if groups.high_ranks[i] >= low:
                        out[at] = high_ids[i] if named else ids[groups.high_slots[i]]
                        at += 1
