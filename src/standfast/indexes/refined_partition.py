"""Refined stabbing partition: a rebuild costs by the number of groups, not of intervals.

    points        p1         p2                p3
                  |          |                 |
    settled   [---|-]   [----|-----------]     |        every settled group is a split-join tree;
               [--|--]    [--|--]         [----|---]    its lows lie in (p before, own p]
    newcomers            .        [--] [-]     .        hold no settled point: in the gaps

An arrival joins the settled group of the leftmost point that it holds, so lows stay apart; one
that holds none lies between two points and becomes a newcomer, grouped among its like. A
departure takes one node out of one tree: which tree follows from its low, no labels are kept.
Each update changes one group. When there are more than (1 + epsilon) groups per living witness
(see `stabbing_partition`), the partition is rebuilt: all trees are joined, in order, into one,
the newcomers are inserted, and the groups of the greedy scan are split off from the left.

Invariant  (*) lows of settled group i lie in (points[i - 1], points[i]], and all its intervals
           hold points[i]; hence lows of one group all lie left of those of the next.
           Newcomers hold no settled point. n_groups <= (1 + epsilon) tau.
Cost       an update O(log n); a rebuild O((tau + newcomers) log n) after at least
           epsilon tau0 / (1 + epsilon) updates, so O((1 + 1 / epsilon) log n) amortised;
           `visits` counts nodes. Publishing the orders after a rebuild is O(n log n).
Paper      [hotspot] appendix A.2 with the improvement of footnote 6 (leftmost point). Its
           reconstruction walks the groups one by one and splits and joins as it goes; joining
           all first costs the same and leaves no cases (decision 004).
"""

from __future__ import annotations

import math

import numpy as np

from standfast._numba import kernel
from standfast.arrays import Int32s, Int64s
from standfast.group_spans import Groups
from standfast.indexes.split_join_tree import (
    HIGH,
    LAST_SLOT,
    LOW,
    SIZE,
    Nodes,
    build,
    check_tree,
    delete,
    greedy_point,
    insert,
    join,
    least_high,
    split,
)
from standfast.indexes.stabbing_groups import (
    Flags,
    GroupOrders,
    Intervals,
    check_groups,
    n_bytes,
    stretched,
)
from standfast.indexes.stabbing_partition import StabbingPartition, pays_for_rebuild


class RefinedPartition:
    """A stabbing partition of at most (1 + epsilon) times the smallest possible size."""

    def __init__(self, epsilon: float = 1.0) -> None:
        assert epsilon > 0, f"epsilon must be positive, got {epsilon}"
        self.epsilon = epsilon
        self.reconstructions = 0
        self._nodes = Nodes.none()
        self._points = np.empty(0, np.int64)  # of settled groups; some may be empty now
        self._roots = np.empty(0, np.int64)
        self._n_settled_groups = 0
        self._n_settled = 0
        self._newcomers = StabbingPartition(math.inf)
        self._arrived: list[Int64s] = []  # newcomers since the last rebuild, some gone again
        self._is_newcomer: Flags = np.empty(0, np.uint8)
        self._is_witness: Flags = np.empty(0, np.uint8)
        self._witnesses = np.empty(0, np.int64)
        self._n_witnesses = 0
        self._group_of = np.empty(0, np.int32)  # of live slots >= 0; right if _labelled
        self._labelled = True
        self._orders = GroupOrders()

    @property
    def n_groups(self) -> int:
        return self._n_settled_groups + self._newcomers.n_groups

    @property
    def n_intervals(self) -> int:
        return self._n_settled + self._newcomers.n_intervals

    @property
    def visits(self) -> int:
        """How many tree nodes have been looked at so far."""
        return int(self._nodes.visits[0])

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in the closed intervals `lows[i]` to `highs[i]`, known as `slots[i]` from now on."""
        if slots.size == 0:
            return
        self._make_room(slots)
        assert (self._group_of[slots] < 0).all(), "a slot was added twice"
        self._group_of[slots] = 0
        self._nodes = self._nodes.with_leaves(slots, lows, highs)
        if self.n_intervals == 0 or pays_for_rebuild(slots, self._intervals()):
            self._rebuild_from_sorted()
            return
        n_revived, joined = _settle(self._nodes, self._points, self._roots, slots)
        self._n_settled_groups += n_revived
        self._group_of[slots] = joined
        new = joined < 0
        self._n_settled += slots.size - int(new.sum())
        if new.any():
            self._welcome(slots[new], lows[new], highs[new])
        self._orders.add(slots)
        self._reconstruct_if_due()

    def remove(self, slots: Int64s) -> None:
        """Forget these slots; each was added and not yet removed."""
        if slots.size == 0:
            return
        assert int(slots.max()) < self._group_of.size, "a slot was never added"
        groups = self._group_of[slots]
        assert (groups >= 0).all(), "a slot was removed twice or never added"
        self._orders.remove(slots, groups)
        is_new = self._is_newcomer[slots] > 0
        settled, newcomers = slots[~is_new], slots[is_new]
        n_emptied = _unsettle(self._nodes, self._points, self._roots, settled)
        self._newcomers.remove(newcomers)
        self._is_newcomer[newcomers] = 0
        self._group_of[slots] = -1
        self._n_settled -= settled.size
        self._n_settled_groups -= n_emptied
        self._n_witnesses -= int(self._is_witness[slots].sum())
        self._is_witness[slots] = 0
        self._reconstruct_if_due()

    def groups(self) -> Groups:
        """The groups by ascending point with both orders of each; published, never changed."""
        self._label()
        numbers, sizes = self.group_sizes()
        points = np.concatenate([self._points[self._roots >= 0], self._newcomers.group_points()])
        order = np.argsort(points)
        return self._orders.refresh(self._intervals(), numbers[order], points[order], sizes[order])

    def group_sizes(self) -> tuple[Int32s, Int64s]:
        """The number and the size of every group."""
        settled = np.flatnonzero(self._roots >= 0).astype(np.int32)
        newcomers, sizes = self._newcomers.group_sizes()
        return (
            np.concatenate([settled, newcomers + np.int32(self._points.size)]),
            np.concatenate([self._nodes.links[self._roots[settled], SIZE], sizes]),
        )

    def members(self, groups: Int32s) -> tuple[Int64s, Int32s]:
        """The slots of these groups, ascending, and which group each is in."""
        self._label()
        wanted = np.zeros(int(max(self._group_of.max(initial=0), groups.max(initial=0))) + 2, bool)
        wanted[groups] = True  # the last entry is for group -1
        slots = np.flatnonzero(wanted[self._group_of])
        return slots, self._group_of[slots]

    def check(self) -> None:
        """Assert the invariants."""
        points, before = self._points, None
        live = self._intervals().live()
        settled: list[int] = []
        for point, root in zip(points.tolist(), self._roots.tolist(), strict=True):
            slots = check_tree(self._nodes, root)
            lows, highs = self._nodes.bounds[slots, LOW], self._nodes.bounds[slots, HIGH]
            assert before is None or (lows > before).all(), "(*): lows lie right of the last point"
            assert (lows <= point).all(), "(*): lows reach their own point at most"
            assert (highs >= point).all(), "everybody holds the point of the group"
            assert before is None or before < point, "points ascend"
            settled += slots
            before = point
        newcomers = np.flatnonzero(self._is_newcomer)
        held = self._newcomers.members(self._newcomers.group_sizes()[0])[0]
        assert np.array_equal(held, newcomers), "newcomers are kept as such"
        assert np.array_equal(np.sort([*settled, *newcomers]), live), "every slot is in one place"
        assert self._n_settled == len(settled), "settled intervals are counted"
        assert self._n_settled_groups == np.count_nonzero(self._roots >= 0), "groups are counted"
        lows, highs = self._nodes.bounds[newcomers, LOW], self._nodes.bounds[newcomers, HIGH]
        assert np.array_equal(
            np.searchsorted(points, lows), np.searchsorted(points, highs, side="right")
        ), "newcomers hold no settled point"
        witnesses = self._witnesses[self._is_witness[self._witnesses] > 0]
        assert witnesses.size == self._n_witnesses, "witnesses are counted"
        ends = self._nodes.bounds[witnesses]
        assert (ends[:-1, HIGH] < ends[1:, LOW]).all(), "witnesses are disjoint"
        assert self.n_groups <= (1 + self.epsilon) * self._n_witnesses, "not too many groups"
        self._newcomers.check()
        self._orders.check()
        check_groups(self.groups(), self._intervals())

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        parts = self._orders.memory_bytes() + self._newcomers.memory_bytes()
        parts += n_bytes(self._nodes.links, self._nodes.bounds, *self._arrived)
        parts += n_bytes(self._points, self._roots, self._witnesses, self._group_of)
        return parts + n_bytes(self._is_newcomer, self._is_witness)

    def _intervals(self) -> Intervals:
        n = self._group_of.size
        return Intervals(self._nodes.bounds[:n, LOW], self._nodes.bounds[:n, HIGH], self._group_of)

    def _make_room(self, slots: Int64s) -> None:
        need = int(slots.max()) + 1
        self._group_of = stretched(self._group_of, need, -1)
        self._is_newcomer = stretched(self._is_newcomer, need, 0)
        self._is_witness = stretched(self._is_witness, need, 0)

    def _welcome(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Keep these as newcomers until the next rebuild."""
        rebuilt, others = self._newcomers.reconstructions, self._newcomers.n_intervals
        self._newcomers.add(slots, lows, highs)
        self._is_newcomer[slots] = 1
        self._arrived.append(slots)
        self._group_of[slots] = self._newcomers.group_of(slots) + self._points.size
        if others and self._newcomers.reconstructions != rebuilt:  # they have new numbers now
            self._labelled = False
            self._orders.forget()

    def _label(self) -> None:
        """Tell every live slot the number of its group."""
        if self._labelled:
            return
        live = self._intervals().live()
        is_new = self._is_newcomer[live] > 0
        settled, newcomers = live[~is_new], live[is_new]
        self._group_of[settled] = np.searchsorted(self._points, self._nodes.bounds[settled, LOW])
        self._group_of[newcomers] = self._newcomers.group_of(newcomers) + self._points.size
        self._labelled = True

    def _reconstruct_if_due(self) -> None:
        if self.n_groups > (1 + self.epsilon) * self._n_witnesses:
            newcomers = np.unique(np.concatenate([np.empty(0, np.int64), *self._arrived]))
            newcomers = newcomers[self._is_newcomer[newcomers] > 0]
            root = _glue(self._nodes, self._roots, newcomers)
            self._carve(root, newcomers, self.n_groups)

    def _rebuild_from_sorted(self) -> None:
        """Make one tree of everybody by sorting, for a batch that is most of them."""
        live = self._intervals().live()
        bounds = self._nodes.bounds[live]
        self._nodes = self._nodes.with_leaves(live, bounds[:, LOW], bounds[:, HIGH])
        root = build(self._nodes, live[np.argsort(bounds[:, LOW], kind="stable")])
        self._n_settled = live.size - self._newcomers.n_intervals
        self._carve(root, np.flatnonzero(self._is_newcomer), live.size)

    def _carve(self, root: int, newcomers: Int64s, most: int) -> None:
        """Split the one tree of everybody into the groups of the greedy scan, `most` at most."""
        self._n_settled += newcomers.size
        self._newcomers.remove(newcomers)
        self._is_newcomer[newcomers] = 0
        self._arrived = []
        found = np.empty((3, most), np.int64)
        n = _split_off(self._nodes, root, found[0], found[1], found[2])
        self._points, self._roots, witnesses = found[:, :n].copy()
        self._n_settled_groups = self._n_witnesses = self._points.size
        self._is_witness[self._witnesses] = 0
        self._witnesses = witnesses
        self._is_witness[witnesses] = 1
        self._labelled = False
        self._orders.forget()
        self.reconstructions += 1


@kernel
def _settle(nodes: Nodes, points: Int64s, roots: Int64s, slots: Int64s) -> tuple[int, Int32s]:
    """Insert each slot where the leftmost point that it holds is; groups revived, groups joined."""
    n_revived, joined = 0, np.full(slots.size, -1, np.int32)
    for i in range(slots.size):
        slot = slots[i]
        group = np.searchsorted(points, nodes.bounds[slot, LOW])
        if group < points.size and points[group] <= nodes.bounds[slot, HIGH]:
            n_revived += roots[group] < 0
            roots[group] = insert(nodes, roots[group], slot)
            joined[i] = group
    return n_revived, joined


@kernel
def _unsettle(nodes: Nodes, points: Int64s, roots: Int64s, slots: Int64s) -> int:
    """Delete each slot from the tree where its low belongs; how many trees are empty now."""
    n_emptied = 0
    for slot in slots:
        group = np.searchsorted(points, nodes.bounds[slot, LOW])
        roots[group] = delete(nodes, roots[group], slot)
        n_emptied += roots[group] < 0
    return n_emptied


@kernel
def _glue(nodes: Nodes, roots: Int64s, newcomers: Int64s) -> int:
    """One tree of all settled groups, which are in order, and the newcomers."""
    root = -1
    for group in range(roots.size):
        root = join(nodes, root, roots[group])
    for slot in newcomers:
        root = insert(nodes, root, slot)
    return root


@kernel
def _split_off(nodes: Nodes, root: int, points: Int64s, roots: Int64s, witnesses: Int64s) -> int:
    """Split a tree into its greedy groups, elect a witness of each; how many there are."""
    n = 0
    while root >= 0:
        points[n] = greedy_point(nodes, root)
        group, root = split(nodes, root, points[n], LAST_SLOT)
        roots[n] = group
        n += 1
    for i in range(n - 1, -1, -1):
        # The root is anybody, the smallest high may be the next to go: prefer the root.
        witness = roots[i]
        if i + 1 < n and nodes.bounds[witness, HIGH] >= nodes.bounds[witnesses[i + 1], LOW]:
            witness = least_high(nodes, roots[i])
        witnesses[i] = witness
    return n
