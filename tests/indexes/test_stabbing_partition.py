"""Stabbing partitions: never more than (1 + epsilon) times the smallest, whatever happens."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.indexes.refined_partition import RefinedPartition
from standfast.indexes.stabbing_partition import StabbingPartition, canonical

KINDS = [StabbingPartition, RefinedPartition]
LEAST, MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
COORDINATES = st.integers(-30, 30) | st.sampled_from([LEAST, LEAST + 1, 0, MOST - 1, MOST])
INTERVALS = st.tuples(COORDINATES, COORDINATES).map(sorted)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(INTERVALS, min_size=1, max_size=6)),
    st.tuples(st.just("remove"), st.lists(st.integers(0, 1000), min_size=1, max_size=6)),
    st.tuples(st.just("look"), st.none()),
)


def smallest_size(intervals):
    """Greedy by right ends: the fewest points that stab all intervals."""
    size, point = 0, None
    for low, high in sorted(intervals, key=lambda interval: interval[1]):
        if point is None or low > point:
            size, point = size + 1, high
    return size


def add(partition, live, intervals):
    """Add intervals under slots that were never used; `live` holds what is there."""
    first = live.setdefault("next", 0)
    live["next"] = first + len(intervals)
    slots = np.arange(first, first + len(intervals))
    lows, highs = np.array(intervals, np.int64).reshape(-1, 2).T
    partition.add(slots, lows.copy(), highs.copy())
    live.update(zip(slots.tolist(), map(tuple, intervals), strict=True))


def remove(partition, live, choices):
    slots = sorted(slot for slot in live if slot != "next")
    chosen = sorted({slots[c % len(slots)] for c in choices}) if slots else []
    partition.remove(np.array(chosen, np.int64))
    for slot in chosen:
        del live[slot]


def held(live):
    return {slot: interval for slot, interval in live.items() if slot != "next"}


def verify(partition, live, epsilon):
    intervals = held(live)
    assert partition.n_intervals == len(intervals)
    assert partition.n_groups <= (1 + epsilon) * smallest_size(intervals.values())
    partition.check()
    groups = partition.groups()
    assert groups.n_groups == partition.n_groups
    assert sorted(groups.low_slots.tolist()) == sorted(intervals)
    for g in range(groups.n_groups):
        for slot in groups.low_slots[groups.offsets[g] : groups.offsets[g + 1]].tolist():
            low, high = intervals[slot]
            assert low <= groups.points[g] <= high


@given(st.lists(INTERVALS, max_size=20))
@settings(max_examples=100, deadline=None)
def test_the_canonical_partition_is_the_smallest_and_its_points_stab(intervals):
    lows, highs = np.array(intervals, np.int64).reshape(-1, 2).T
    group_of, points = canonical(lows.copy(), highs.copy())
    assert points.size == smallest_size(intervals)
    for (low, high), group in zip(intervals, group_of, strict=True):
        assert low <= points[group] <= high
    assert sorted(set(group_of.tolist())) == list(range(points.size))


def test_ten_intervals_in_three_groups_as_in_the_papers_first_figure():
    """Two groups of four and one of two: the first two are 0.4-hotspots."""
    lows = np.array([1, 2, 3, 4, 11, 12, 13, 14, 21, 22])
    highs = np.array([6, 9, 7, 8, 16, 19, 17, 18, 26, 29])
    group_of, points = canonical(lows, highs)
    assert group_of.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert points.tolist() == [6, 16, 26]


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(STEPS, max_size=25), st.sampled_from([0.01, 0.5, 1.0, 3.0]))
@settings(max_examples=60, deadline=None)
def test_the_size_stays_within_the_bound_after_every_update(kind, steps, epsilon):
    partition, live = kind(epsilon), {}
    for action, argument in steps:
        if action == "add":
            add(partition, live, argument)
        elif action == "remove":
            remove(partition, live, argument)
        else:
            partition.groups()
        verify(partition, live, epsilon)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.2, 1.0])
def test_changes_pile_up_unseen_and_still_come_out_right(kind, epsilon):
    random, partition, live = np.random.default_rng(5), kind(epsilon), {}
    for round_ in range(40):
        for _ in range(int(random.integers(1, 8))):
            if random.random() < 0.6:
                lows = random.integers(0, 300, int(random.integers(1, 6)))
                add(partition, live, [(int(x), int(x + random.integers(0, 40))) for x in lows])
            else:
                remove(partition, live, random.integers(0, 1000, 4).tolist())
        assert partition.n_groups <= (1 + epsilon) * smallest_size(held(live).values()), round_
    verify(partition, live, epsilon)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_removed_leaves_no_group(kind):
    partition, live = kind(), {}
    add(partition, live, [(i, i + 3) for i in range(20)])
    while held(live):
        remove(partition, live, [0, 7, 11])
        verify(partition, live, 1.0)
    assert partition.n_groups == 0
    assert partition.groups().low_slots.size == 0
    add(partition, live, [(LEAST, MOST)])
    verify(partition, live, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_that_leave_from_the_left_as_others_come_from_the_right(kind):
    partition, live = kind(0.5), {}
    for step in range(60):
        add(partition, live, [(step * 3, step * 3 + 10), (step * 3 + 1, step * 3 + 25)])
        if step > 10:
            remove(partition, live, [0])
            remove(partition, live, [0])
        verify(partition, live, 0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bridge_that_comes_and_goes_does_not_break_the_bound(kind):
    """Wide intervals shrink windows; when they leave, the old windows stay small but valid."""
    partition, live = kind(0.3), {}
    add(partition, live, [(10 * i, 10 * i + 6) for i in range(12)])
    for step in range(12):
        add(partition, live, [(10 * step + 5, 10 * step + 13), (10 * step + 2, 10 * step + 3)])
        verify(partition, live, 0.3)
        remove(partition, live, [step * 5 + 1])
        verify(partition, live, 0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_duplicates_and_single_points_share_groups(kind):
    partition, live = kind(), {}
    add(partition, live, [(5, 5)] * 30 + [(LEAST, LEAST)] * 3 + [(MOST, MOST)] * 3)
    assert partition.n_groups == 3
    add(partition, live, [(5, 5), (MOST, MOST)])
    assert partition.n_groups == 3
    verify(partition, live, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_that_were_handed_out_never_change(kind):
    partition, live = kind(), {}
    add(partition, live, [(i, i + 5) for i in range(30)])
    before = partition.groups()
    copies = [array.copy() for array in before]
    add(partition, live, [(3, 9), (100, 101)])
    remove(partition, live, [0, 5, 10])
    partition.groups()
    for array, copy in zip(before, copies, strict=True):
        assert np.array_equal(array, copy)


@pytest.mark.parametrize("kind", KINDS)
def test_a_slot_may_leave_and_come_back(kind):
    partition = kind()
    slots = np.arange(9)
    partition.add(slots, slots * 4, slots * 4 + 6)
    partition.groups()
    partition.remove(slots[2:5])
    partition.add(slots[2:5], slots[2:5] * 4, slots[2:5] * 4 + 6)
    partition.check()
    assert np.array_equal(np.sort(partition.groups().low_slots), slots)


@pytest.mark.parametrize("kind", KINDS)
def test_adding_or_removing_a_slot_twice_is_a_broken_promise(kind):
    partition = kind()
    partition.add(np.arange(8), np.arange(8), np.arange(8) + 2)
    with pytest.raises(AssertionError, match="added twice"):
        partition.add(np.array([3]), np.array([1]), np.array([2]))
    partition.remove(np.array([4]))
    with pytest.raises(AssertionError, match="removed twice or never added"):
        partition.remove(np.array([4]))
    with pytest.raises(AssertionError, match="never added"):
        partition.remove(np.array([4000]))


def test_an_arrival_that_covers_a_window_cuts_none():
    """[4, 30] would cut the first window but covers the second, so it joins the second."""
    partition = StabbingPartition()
    partition.add(np.arange(4), np.array([0, 1, 20, 21]), np.array([8, 9, 25, 26]))
    partition.add(np.array([4]), np.array([4]), np.array([30]))
    groups = partition.groups()
    assert np.diff(groups.offsets).tolist() == [2, 3]
    partition.add(np.array([5]), np.array([2]), np.array([3]))  # the first still reaches to 2
    assert partition.n_groups == 2


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_loss_of_witnesses_counts_towards_a_rebuild(kind):
    """100 groups of 20: 1,000 departures that spare the witnesses cause no rebuild."""
    lows = np.repeat(np.arange(100) * 100, 20)
    partition = kind(epsilon=0.1)
    partition.add(np.arange(2000), lows, lows + 10 + np.arange(2000) % 20)
    assert partition.reconstructions == 1
    witnesses = partition._witnesses.copy()
    assert np.unique(witnesses // 20).size == 100, "one in each group"
    others = np.setdiff1d(np.arange(2000), witnesses)[::2]
    for part in np.array_split(others, 50):
        partition.remove(part)
    assert partition.reconstructions == 1
    assert partition.n_groups == 100
    partition.remove(witnesses)
    assert partition.reconstructions == 2
    partition.check()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["low", "high", "age", "youth"])
def test_departures_in_order_do_not_find_the_witness_first(kind, order):
    """A single group drained in order: a few rebuilds, not one for each departure."""
    random, slots = np.random.default_rng(4), np.arange(400)
    lows, highs = random.integers(0, 1000, 400), random.integers(1000, 2000, 400)
    partition = kind()
    partition.add(slots, lows, highs)
    keys = {"low": lows, "high": highs, "age": slots, "youth": -slots}[order]
    for slot in np.argsort(keys):
        partition.remove(np.array([slot]))
    assert partition.n_groups == 0
    assert partition.reconstructions < 25


class AsInThePaper(StabbingPartition):
    """Counts as m every departure of an interval that was there at the last rebuild."""

    def __init__(self, epsilon, *, decides):
        super().__init__(epsilon)
        self.decides, self.there, self.tau0 = decides, set(), 0

    def remove(self, slots):
        self.there -= set(slots.tolist())
        super().remove(slots)
        if self.decides:
            self._reconstruct_if_due()

    def _is_due(self):
        fires = self._n_groups >= (1 + self.epsilon) * (self.tau0 - self.n_there + len(self.there))
        if self.decides:
            return fires
        assert fires or not super()._is_due(), "our trigger fired alone"
        return super()._is_due()

    def _reconstruct(self, slots):
        super()._reconstruct(slots)
        self.there, self.n_there, self.tau0 = set(slots.tolist()), slots.size, self._n_groups


def test_a_rebuild_is_due_only_when_the_papers_relaxed_trigger_fires_and_far_less_often():
    rebuilds = []
    for decides in (True, False):
        random = np.random.default_rng(6)
        partition = AsInThePaper(0.5, decides=decides)
        lows = random.integers(0, 40, 1600) * 100 + random.integers(0, 20, 1600)
        partition.add(np.arange(800), lows[:800], lows[:800] + 30)
        for slot in range(800):
            if random.random() < 0.5:
                partition.add(np.array([800 + slot]), lows[[800 + slot]], lows[[800 + slot]] + 30)
            else:
                partition.remove(np.array([slot]))
        partition.check()
        rebuilds.append(partition.reconstructions)
    paper, ours = rebuilds
    assert paper > 10 * ours


def test_numbers_of_ended_groups_are_used_again():
    partition = StabbingPartition(epsilon=3.0)
    partition.add(np.arange(100), np.zeros(100, np.int64), np.arange(100))
    for step in range(300):
        slot = np.array([100 + step])
        partition.add(slot, np.array([1000 + 5 * step]), np.array([1001 + 5 * step]))
        partition.remove(slot)
    assert partition.reconstructions == 1
    assert partition._sizes.size < 200
    assert partition._windows.groups.size < 200
    partition.check()


def test_arrivals_between_groups_are_many_or_few_with_equal_results():
    """One call with all, or a call for each: both within the bound, both valid."""
    random = np.random.default_rng(11)
    lows = random.permutation(120) * 50
    highs = lows + random.integers(0, 30, 120)
    at_once, one_by_one = StabbingPartition(), StabbingPartition()
    at_once.add(np.arange(120), lows, highs)
    for i in range(120):
        one_by_one.add(np.array([i]), lows[i : i + 1], highs[i : i + 1])
    assert at_once.n_groups == one_by_one.n_groups == 120
    one_by_one.check()


def test_arrivals_in_the_windows_of_ended_groups_count_as_new_groups():
    """Found by window joins: they were counted, but nobody looked whether they are too many."""
    partition = StabbingPartition()
    ends = np.arange(8) * 10
    partition.add(np.arange(8), ends, ends + 1)
    partition.remove(np.arange(1, 8))
    partition.check()
    for i in range(1, 8):
        partition.add(np.array([7 + i]), ends[i : i + 1], ends[i : i + 1] + 1)
        partition.check()
