"""Law: a slot that left may come back, with other bounds, while a structure still has traces of it.

Capacities are tiny, so that trees and runs that bury what left survive next to those that it comes
back to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from standfast.indexes.box_index import BoxIndex
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.interval_index import IntervalIndex
from standfast.indexes.rectangle_index import RectangleIndex
from standfast.indexes.refined_partition import RefinedPartition
from standfast.indexes.sorted_runs import SortedRuns
from standfast.indexes.stabbing_partition import StabbingPartition
from standfast.operators.window_join import groups
from standfast.operators.window_join.groups import GroupsOfSide

N_SLOTS, N_STEPS = 60, 80


class Forests:
    """An index of trees: what lives in it."""

    def __init__(self, index: Any, n_attributes: int) -> None:
        self.index, self.n_attributes = index, n_attributes

    def add(self, slots: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> None:
        chosen = slice(self.n_attributes) if self.n_attributes > 1 else 0
        self.index.add(slots, lows[chosen], highs[chosen])

    def remove(self, slots: np.ndarray) -> None:
        self.index.remove(slots)

    def held(self) -> set[tuple[int, ...]]:
        parts = [tree.live() for tree in self.index._forest.settled()]
        bounds = [np.vstack([slots, lows, highs]).T for slots, lows, highs in parts]
        rows = [tuple(row) for part in bounds for row in part.tolist()]
        assert len(set(rows)) == len(rows), "somebody lives twice"
        return {(row[0], row[1], row[1 + self.n_attributes]) for row in rows}

    def check(self) -> None:
        self.index.check()


class Grouped:
    """A partition, whose orders tell who is in it."""

    def __init__(self, partition: StabbingPartition | RefinedPartition) -> None:
        self.partition = partition

    def add(self, slots: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> None:
        self.partition.add(slots, lows[0], highs[0])

    def remove(self, slots: np.ndarray) -> None:
        self.partition.remove(slots)

    def held(self) -> set[tuple[int, ...]]:
        found = self.partition.groups()
        lows = dict(zip(found.low_slots.tolist(), found.lows.tolist(), strict=True))
        highs = zip(found.high_slots.tolist(), found.highs.tolist(), strict=True)
        return {(slot, lows[slot], high) for slot, high in highs}

    def check(self) -> None:
        self.partition.check()


class Tracked:
    """A tracker, and the scattered ones by what its moves say."""

    def __init__(self) -> None:
        self.tracker, self.scattered = HotspotTracker(0.2), set[int]()
        self.bounds: dict[int, tuple[int, int]] = {}

    def add(self, slots: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> None:
        ends = zip(lows[0].tolist(), highs[0].tolist(), strict=True)
        self.bounds.update(zip(slots.tolist(), ends, strict=True))
        self._follow(*self.tracker.add(slots, lows[0], highs[0]))

    def remove(self, slots: np.ndarray) -> None:
        self._follow(*self.tracker.remove(slots))

    def held(self) -> set[tuple[int, ...]]:
        hot = self.tracker.hot_groups()
        assert self.scattered == set(self.tracker.scattered_slots().tolist())
        found = {(slot, *self.bounds[slot]) for slot in self.scattered}
        highs = dict(zip(hot.high_slots.tolist(), hot.highs.tolist(), strict=True))
        pairs = zip(hot.low_slots.tolist(), hot.lows.tolist(), strict=True)
        return found | {(slot, low, highs[slot]) for slot, low in pairs}

    def check(self) -> None:
        self.tracker.check()

    def _follow(self, entered: np.ndarray, left: np.ndarray) -> None:
        assert self.scattered >= set(left.tolist()), "somebody left who was not there"
        self.scattered -= set(left.tolist())
        assert not self.scattered & set(entered.tolist()), "somebody entered twice"
        self.scattered |= set(entered.tolist())


class Runs:
    """Sorted runs: low to slot; the same pair may come back."""

    def __init__(self) -> None:
        self.runs, self.bounds = SortedRuns(2), dict[int, tuple[int, int]]()

    def add(self, slots: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> None:
        ends = zip(lows[0].tolist(), highs[0].tolist(), strict=True)
        self.bounds.update(zip(slots.tolist(), ends, strict=True))
        self.runs.insert(lows[0], slots)

    def remove(self, slots: np.ndarray) -> None:
        self.runs.delete(np.array([self.bounds[slot][0] for slot in slots.tolist()]), slots)

    def held(self) -> set[tuple[int, ...]]:
        alive = [(run.ids[run.alive], run.keys[run.alive]) for run in self.runs.runs]
        pairs = [p for ids, keys in alive for p in zip(ids.tolist(), keys.tolist(), strict=True)]
        return {(slot, low, self.bounds[slot][1]) for slot, low in pairs}

    def check(self) -> None:
        self.runs.check()


MAKERS = {
    "interval index": lambda: Forests(IntervalIndex(bucket=2, ratio=1.5, small=3), 1),
    "box index": lambda: Forests(BoxIndex(leaf=1, long=2, ratio=1.5, small=3, chunk=2), 3),
    "rectangle index": lambda: Forests(
        RectangleIndex(block=2, fanout_bits=1, long=1, ratio=1.5, small=3), 2
    ),
    "skylines": lambda: Forests(GroupsOfSide(0, is_float=False), 3),
    "stabbing partition": lambda: Grouped(StabbingPartition(0.5)),
    "refined partition": lambda: Grouped(RefinedPartition(0.5)),
    "hotspot tracker": Tracked,
    "sorted runs": Runs,
}


@pytest.mark.parametrize("moves", [False, True], ids=["same bounds", "other bounds"])
@pytest.mark.parametrize("name", MAKERS)
def test_a_slot_comes_back_as_often_as_it_likes(
    name: str, *, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "RATIO", 1.5)
    monkeypatch.setattr(groups, "SMALL", 3)
    rng = np.random.default_rng(7)
    part, ends = MAKERS[name](), np.empty((N_SLOTS, 3, 2), np.int64)
    living, n_returns, was_there = np.zeros(N_SLOTS, bool), 0, np.zeros(N_SLOTS, bool)
    for step in range(N_STEPS):
        wanted = rng.random(N_SLOTS) < (0.7 if step % 10 == 0 else 0.08)
        going, coming = np.flatnonzero(wanted & living), np.flatnonzero(wanted & ~living)
        if going.size:
            part.remove(going)
        fresh = coming if moves else coming[~was_there[coming]]
        ends[fresh] = np.sort(rng.integers(-20, 20, (fresh.size, 3, 2)), axis=2)
        ends[fresh, 2] = [0, 5]
        if coming.size:
            part.add(coming, ends[coming, :, 0].T, ends[coming, :, 1].T)
        n_returns += np.count_nonzero(was_there[coming])
        living[going], living[coming], was_there[coming] = False, True, True
        if step % 3:
            here = np.flatnonzero(living)
            assert part.held() == {(slot, *ends[slot, 0].tolist()) for slot in here.tolist()}
            part.check()
    assert n_returns > 200
