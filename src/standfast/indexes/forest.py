"""Forest: static trees of falling sizes, so that what is only ever built can also change.

    waiting          trees, largest first
    [+ + - +]  ->    [######## ##x###### ######]  [######]  [x##]        x = removed, still in place

Changes wait until somebody asks. Then the waiting entries become one new tree, which swallows
every tree that is not much larger than it; a removed entry is buried where it lies, and a tree
that is half buried is built anew. A slot may come back while it still lies buried in a tree.

Invariant  every slot lives in one tree or waits; of each tree at least half is live; each tree
           holds more than `ratio` times the live entries of the next one when that was built.
Cost       an entry is built again O(ratio log n) times; O(log n) trees; a remove is one binary
           search in each tree.
Source     the logarithmic method of Bentley and Saxe (1980), with a ratio and with burying.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np

from standfast.arrays import Bools, Int32s, Int64s


class StaticTree(Protocol):
    """What a forest asks of its trees; entries are numbered by ascending slot."""

    @property
    def slots(self) -> Int32s:
        """Every slot that the tree was built of, ascending."""

    @property
    def n_live(self) -> int:
        """How many entries are not buried."""

    def are_live(self, entries: Int64s) -> Bools:
        """Which of these entries are not buried."""

    def bury(self, entries: Int64s) -> None:
        """Take these live entries out of every later answer."""

    def live(self) -> tuple[Int64s, Int64s, Int64s]:
        """Slots, lows and highs of the live entries."""

    def check(self) -> None: ...

    def memory_bytes(self) -> int: ...


Tree = TypeVar("Tree", bound=StaticTree)
Build = Callable[[Int64s, Int64s, Int64s], Tree]


class Forest(Generic[Tree]):
    """Trees made by `build(slots, lows, highs)` that together take adds and removes.

    Trees of up to `small` entries are always merged, others when the newcomer has at least one
    `ratio`-th of their size. The last axis of `lows` and `highs` runs over the entries.
    """

    def __init__(self, build: Build[Tree], *, ratio: float, small: int) -> None:
        self._build = build
        self._ratio = ratio
        self._small = small
        self._trees: list[Tree] = []
        self._waiting: list[tuple[Int64s, Int64s, Int64s]] = []
        self._leaving: list[Int64s] = []
        self.n_live = 0

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Let entries wait for the next `settled`."""
        if slots.size:
            if any(_among(slots, leaving).any() for leaving in self._leaving):
                self.settled()  # a slot that left comes back: it must not cancel its leaving
            self._waiting.append((slots.copy(), lows.copy(), highs.copy()))
            self.n_live += slots.size

    def remove(self, slots: Int64s) -> None:
        """Let removes wait for the next `settled`; each slot was added and not yet removed.

        Where nobody asks, no more of them wait than entries live, in few sorted parts.
        """
        if slots.size:
            leaving = np.sort(slots)
            while self._leaving and self._leaving[-1].size <= leaving.size:
                leaving = np.sort(np.concatenate([self._leaving.pop(), leaving]))
            self._leaving.append(leaving)
            self.n_live -= slots.size
            if sum(part.size for part in self._leaving) > max(self.n_live, self._small):
                self.settled()

    def settled(self) -> list[Tree]:
        """The trees, with everything that waited worked in."""
        if self._leaving:
            leaving = np.sort(np.concatenate(self._leaving))
            self._leaving.clear()
            self._bury(leaving)
        if self._waiting:
            self._plant()
        return self._trees

    def _bury(self, leaving: Int64s) -> None:
        """Take the slots out of the queue and of the trees; rebuild what is mostly buried."""
        for i, (slots, lows, highs) in enumerate(self._waiting):
            gone = _among(slots, leaving)
            if gone.any():
                leaving = leaving[~_among(leaving, np.sort(slots[gone]))]
                self._waiting[i] = slots[~gone], lows[..., ~gone], highs[..., ~gone]
        for tree in self._trees:
            if not leaving.size:
                break
            places = np.flatnonzero(_among(leaving, tree.slots))
            entries = np.searchsorted(tree.slots, leaving[places].astype(np.int32))
            lives = tree.are_live(entries)  # one that came back lies buried here, lives elsewhere
            if lives.any():
                tree.bury(entries[lives])
                leaving = np.delete(leaving, places[lives])
        assert leaving.size == 0, f"slots were removed that nobody holds: {leaving[:5]}"
        sunken = [tree for tree in self._trees if 2 * tree.n_live < tree.slots.size]
        self._waiting += [tree.live() for tree in sunken if tree.n_live]
        self._trees = [tree for tree in self._trees if tree not in sunken]

    def _plant(self) -> None:
        """Make one tree of what waits and of every tree that is not much larger."""
        total = sum(slots.size for slots, _, _ in self._waiting)
        while self._trees and self._trees[-1].n_live <= max(self._ratio * total, self._small):
            swallowed = self._trees.pop()
            total += swallowed.n_live
            self._waiting.append(swallowed.live())
        slots, lows, highs = (
            np.concatenate([part[k] for part in self._waiting], axis=-1) for k in range(3)
        )
        self._waiting.clear()
        if slots.size:
            self._trees.append(self._build(slots, lows, highs))

    def check(self) -> None:
        """Assert the invariant."""
        waiting = sum(slots.size for slots, _, _ in self._waiting)
        leaving = sum(slots.size for slots in self._leaving)
        held = sum(tree.n_live for tree in self._trees)
        assert self.n_live == held + waiting - leaving, "the live count is off"
        living = [tree.live()[0] for tree in self._trees] + [part[0] for part in self._waiting]
        if living:
            slots = np.concatenate(living)
            assert np.unique(slots).size == slots.size, "a slot lives twice"
        for tree in self._trees:
            assert 2 * tree.n_live >= tree.slots.size > 0, "a tree is more than half buried"
            assert np.all(np.diff(tree.slots) > 0), "slots must ascend"
            assert np.count_nonzero(tree.live()[0] >= 0) == tree.n_live, "burials are miscounted"
            tree.check()

    def memory_bytes(self) -> int:
        """Bytes of all trees and of what waits."""
        waiting = sum(array.nbytes for part in self._waiting for array in part)
        leaving = sum(slots.nbytes for slots in self._leaving)
        return waiting + leaving + sum(tree.memory_bytes() for tree in self._trees)


def _among(values: Int64s, ascending: Int64s | Int32s) -> Bools:
    """Which values occur in a sorted array."""
    if not ascending.size:
        return np.zeros(values.size, np.bool_)
    needles = values.astype(ascending.dtype)  # else NumPy casts the long array
    at = np.minimum(np.searchsorted(ascending, needles), ascending.size - 1)
    found: Bools = ascending[at] == needles
    return found
