"""Hotspot tracking: the three properties I1, I2, I3, after every update and over long histories."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.indexes.hotspot_tracker import HotspotTracker

LEAST, MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
COORDINATES = st.integers(-15, 15) | st.sampled_from([LEAST, 0, MOST])
INTERVALS = st.tuples(COORDINATES, COORDINATES).map(sorted)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(INTERVALS, min_size=1, max_size=8)),
    st.tuples(st.just("remove"), st.lists(st.integers(0, 1000), min_size=1, max_size=8)),
    st.tuples(st.just("look"), st.none()),
)


def smallest_size(intervals):
    size, point = 0, None
    for low, high in sorted(intervals, key=lambda interval: interval[1]):
        if point is None or low > point:
            size, point = size + 1, high
    return size


class Follower:
    """Does what a caller does: keeps the scattered set from the moves alone."""

    def __init__(self, alpha, epsilon=1.0):
        self.tracker = HotspotTracker(alpha, epsilon)
        self.live, self.scattered, self.next = {}, set(), 0

    def add(self, intervals):
        slots = np.arange(self.next, self.next + len(intervals))
        self.next += len(intervals)
        lows, highs = np.array(intervals, np.int64).reshape(-1, 2).T
        self.live.update(zip(slots.tolist(), map(tuple, intervals), strict=True))
        self._apply(self.tracker.add(slots, lows.copy(), highs.copy()))

    def remove(self, slots):
        for slot in slots:
            del self.live[slot]
        self._apply(self.tracker.remove(np.array(slots, np.int64)))

    def _apply(self, moves):
        entered, left = set(moves.entered.tolist()), set(moves.left.tolist())
        assert len(entered) == moves.entered.size, "nobody enters twice"
        assert len(left) == moves.left.size, "nobody leaves twice"
        assert not entered & self.scattered, "who enters was not inside"
        assert left <= self.scattered, "who leaves was inside"
        self.scattered = (self.scattered | entered) - left

    def verify(self, epsilon=1.0):
        tracker = self.tracker
        tracker.check()
        assert tracker.scattered_slots().tolist() == sorted(self.scattered)
        assert tracker.n_scattered == len(self.scattered)
        assert tracker.n_intervals == len(self.live)
        hot = tracker.hot_groups()
        assert sorted(hot.low_slots.tolist()) == sorted(set(self.live) - self.scattered)
        sizes = np.diff(hot.offsets)
        assert (sizes >= tracker.alpha / 2 * len(self.live)).all(), "I1"
        bound = (1 + epsilon) * smallest_size(self.live.values()) + 2 / tracker.alpha
        assert tracker.n_groups <= bound, "I2"
        assert tracker.moves_total <= 5 * tracker.updates_total, "I3"
        for g in range(hot.n_groups):
            for slot in hot.low_slots[hot.offsets[g] : hot.offsets[g + 1]].tolist():
                assert self.live[slot][0] <= hot.points[g] <= self.live[slot][1]


@given(
    st.lists(STEPS, max_size=25),
    st.sampled_from([0.05, 0.2, 0.4, 1.0]),
    st.sampled_from([0.1, 1.0]),
)
@settings(max_examples=80, deadline=None)
def test_the_three_properties_hold_after_every_call(steps, alpha, epsilon):
    follower = Follower(alpha, epsilon)
    for action, argument in steps:
        if action == "add":
            follower.add(argument)
        elif action == "remove" and follower.live:
            slots = sorted(follower.live)
            follower.remove(sorted({slots[c % len(slots)] for c in argument}))
        elif action == "look":
            follower.tracker.hot_groups()
        follower.verify(epsilon)


def test_the_papers_first_figure_has_two_hotspots():
    """Groups of four, four and two: the first two are 0.4-hotspots, the last is scattered."""
    follower = Follower(alpha=0.4)
    lows = [1, 2, 3, 4, 11, 12, 13, 14, 21, 22]
    highs = [6, 9, 7, 8, 16, 19, 17, 18, 26, 29]
    follower.add(list(zip(lows, highs, strict=True)))
    follower.verify()
    assert follower.tracker.n_hot == 2
    assert follower.scattered == {8, 9}


def test_a_hot_group_stays_hot_until_it_has_lost_half_its_share():
    follower = Follower(alpha=0.5)
    follower.add([(0, 10)] * 10)
    follower.verify()
    assert follower.tracker.n_hot == 1
    follower.add([(100 * i, 100 * i) for i in range(1, 31)])  # 10 of 40 is just enough
    follower.verify()
    assert follower.tracker.n_hot == 1
    follower.add([(5000, 5000)])
    follower.verify()
    assert follower.tracker.n_hot == 0
    assert len(follower.scattered) == 41


def test_departures_of_others_make_a_hotspot():
    follower = Follower(alpha=0.5)
    follower.add([(0, 10)] * 4 + [(100 * i, 100 * i) for i in range(1, 8)])
    assert follower.tracker.n_hot == 0
    follower.remove([4, 5, 6])
    follower.verify()
    assert follower.tracker.n_hot == 1
    assert follower.scattered == {7, 8, 9, 10}


def test_an_arrival_joins_the_hot_window_and_never_enters_the_scattered():
    follower = Follower(alpha=0.3)
    follower.add([(0, 10), (2, 12), (4, 14), (50, 60)])
    before = set(follower.scattered)
    follower.add([(9, 20)])
    assert follower.scattered == before
    follower.verify()


def test_a_window_grows_back_when_the_interval_that_cut_it_leaves():
    follower = Follower(alpha=0.3)
    follower.add([(0, 100)] * 10)
    follower.add([(0, 5)])
    follower.remove([10])
    follower.tracker.hot_groups()
    follower.add([(90, 95)])
    follower.verify()
    assert follower.scattered == set()


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("batch", [1, 17])
def test_growing_one_cluster_after_another_moves_few(alpha, batch):
    """Each new cluster becomes the largest and pushes the earlier ones below the border."""
    follower = Follower(alpha)
    for cluster in range(8):
        for _ in range(20 * (cluster + 1) // batch + 1):
            follower.add([(1000 * cluster, 1000 * cluster + 10)] * batch)
        follower.verify()
    assert follower.tracker.moves_total > 0


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_storms_of_departures_move_few(alpha):
    random, follower = np.random.default_rng(3), Follower(alpha)
    for wave in range(12):
        centre = 500 * (wave % 4)
        lows = centre - random.integers(0, 50, 60)
        follower.add([(int(low), int(low) + int(random.integers(50, 90))) for low in lows])
        near = [slot for slot, (low, _) in follower.live.items() if abs(low - centre) < 600]
        follower.remove(random.choice(near, len(near) * 2 // 3, replace=False).tolist())
        follower.verify()
        for slot in random.choice(sorted(follower.live), 10, replace=False).tolist():
            follower.remove([slot])
        follower.verify()


@pytest.mark.parametrize("alpha", [0.1, 0.25])
def test_flapping_around_the_border_moves_few(alpha):
    """Filler comes and goes so that a cluster's share swings between both borders."""
    follower = Follower(alpha)
    follower.add([(0, 10)] * 20)
    for _ in range(12):
        size = len(follower.live)
        first = follower.next
        fill = int(20 / (alpha / 2)) + 2 - size
        follower.add([(100 + 7 * i, 100 + 7 * i) for i in range(fill)])
        assert follower.tracker.n_hot == 0
        follower.verify()
        follower.remove(list(range(first, first + fill)))
        assert follower.tracker.n_hot == 1
        follower.verify()
    assert follower.tracker.moves_total >= 24 * 20


def test_everything_removed_leaves_nothing():
    follower = Follower(alpha=0.2)
    follower.add([(i % 3, i % 3 + 20 * (i % 2)) for i in range(40)])
    while follower.live:
        follower.remove(sorted(follower.live)[:7])
        follower.verify()
    assert follower.tracker.n_hot == follower.tracker.n_scattered == 0
    follower.add([(LEAST, MOST)])
    follower.verify()


def test_hot_groups_that_were_handed_out_never_change():
    follower = Follower(alpha=0.2)
    follower.add([(i % 3, i % 3 + 5) for i in range(30)])
    before = follower.tracker.hot_groups()
    copies = [array.copy() for array in before]
    follower.add([(1, 3)] * 5)
    follower.remove([0, 3, 6])
    follower.tracker.hot_groups()
    for array, copy in zip(before, copies, strict=True):
        assert np.array_equal(array, copy)


def test_removing_a_hot_slot_twice_is_a_broken_promise():
    follower = Follower(alpha=0.2)
    follower.add([(0, 5)] * 10)
    with pytest.raises(AssertionError, match="removed twice"):
        follower.tracker.remove(np.array([3, 3]))
