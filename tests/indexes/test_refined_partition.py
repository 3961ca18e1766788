"""Refined partition: what is special about it; the laws of all partitions are tested with them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.refined_partition import RefinedPartition
from standfast.indexes.stabbing_partition import canonical

INTERVALS = st.tuples(st.integers(0, 60), st.integers(0, 25)).map(lambda x: (x[0], sum(x)))


def loaded(intervals, epsilon=1.0):
    partition = RefinedPartition(epsilon)
    lows, highs = np.array(intervals, np.int64).T
    partition.add(np.arange(len(intervals)), lows.copy(), highs.copy())
    return partition


def group_slots(partition):
    groups = partition.groups()
    return [
        sorted(groups.low_slots[groups.offsets[g] : groups.offsets[g + 1]].tolist())
        for g in range(groups.n_groups)
    ]


@given(st.lists(INTERVALS, min_size=2, max_size=25), st.lists(INTERVALS, max_size=25), st.data())
@settings(max_examples=80, deadline=None)
def test_a_rebuild_gives_exactly_the_greedy_groups_and_points(early, late, data):
    partition, live = loaded(early, epsilon=0.05), dict(enumerate(early))
    for number, (low, high) in enumerate(late):
        before = partition.reconstructions
        if live and data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(live)))
            partition.remove(np.array([gone]))
            del live[gone]
        else:
            slot = len(early) + number
            partition.add(np.array([slot]), np.array([low]), np.array([high]))
            live[slot] = (low, high)
        if partition.reconstructions > before and live:
            slots = np.array(sorted(live))
            lows, highs = np.array([live[slot] for slot in slots.tolist()]).T
            group_of, points = canonical(lows.copy(), highs.copy())
            assert partition.groups().points.tolist() == points.tolist()
            expected = [slots[group_of == g].tolist() for g in range(points.size)]
            assert group_slots(partition) == expected
        partition.check()


def test_a_group_that_lies_across_the_border_is_cut_in_a_rebuild():
    """Once [0, 3] is gone, [4, 7] must leave its old group for the one before it.

    The printed pseudo-code cuts only when the next set is a newcomer and would need three groups.
    """
    partition = loaded([(0, 5), (0, 3), (4, 7), (6, 20), (15, 30)], epsilon=0.1)
    assert group_slots(partition) == [[0, 1], [2, 3], [4]]
    partition.remove(np.array([1]))
    assert group_slots(partition) == [[0, 2], [3, 4]]
    partition.check()


def test_the_last_group_of_a_rebuild_is_not_lost():
    """The printed pseudo-code stops before it puts out the set that is still open."""
    partition = loaded([(0, 1), (5, 6), (5, 9)], epsilon=0.1)
    partition.remove(partition._witnesses.copy())
    assert partition.reconstructions == 2
    assert [len(slots) for slots in group_slots(partition)] == [1]


def test_an_arrival_joins_the_group_of_the_leftmost_point_it_holds():
    """[8, 40] holds the points 10, 20 and 30; in any other group its low would be out of place."""
    partition = loaded([(9, 10), (19, 20), (29, 30)] * 10)
    partition.add(np.array([30]), np.array([8]), np.array([40]))
    assert 30 in group_slots(partition)[0]
    partition.check()


def test_each_update_changes_one_group():
    random = np.random.default_rng(2)
    lows = random.integers(0, 1000, 200)
    partition = loaded([(low, low + 60) for low in lows.tolist()], epsilon=5.0)
    for step in range(60):
        before = {tuple(slots) for slots in group_slots(partition)}
        if step % 2:
            partition.remove(np.array([step]))
        else:
            low = int(random.integers(0, 1000))
            partition.add(np.array([200 + step]), np.array([low]), np.array([low + 30]))
        after = {tuple(slots) for slots in group_slots(partition)}
        assert len(before - after) <= 1
        assert len(after - before) <= 1
    assert partition.reconstructions == 1


def rebuild_visits(n, n_clusters):
    """Nodes visited by removing all witnesses, which rebuilds, from n intervals in clusters."""
    slots = np.arange(n)
    lows = slots % n_clusters * 1000 - slots // n_clusters % 400
    partition = RefinedPartition(epsilon=1.0)
    partition.add(slots, lows, lows + 400 + slots % 7 + (slots >= n_clusters))
    assert partition.n_groups == n_clusters
    before = partition.visits
    partition.remove(partition._witnesses.copy())
    assert partition.reconstructions == 2
    return partition.visits - before


def test_a_rebuild_costs_by_groups_times_log_n_and_not_by_intervals():
    small, many_intervals = rebuild_visits(1_000, 25), rebuild_visits(32_000, 25)
    many_groups = rebuild_visits(32_000, 200)
    assert many_intervals < 4 * small, "32 times the intervals, 1.5 times the logarithm"
    assert many_intervals < 32_000 / 4, "most intervals are not even looked at"
    assert many_groups > 4 * many_intervals, "8 times the groups"
    for visits, n_clusters in ((many_intervals, 25), (many_groups, 200)):
        assert visits < 12 * n_clusters * math.log2(32_000)


def test_the_tracker_runs_on_a_refined_partition_too():
    random = np.random.default_rng(8)
    tracker = HotspotTracker(0.1, scattered=RefinedPartition())
    for step in range(30):
        lows = random.integers(0, 5, 20) ** 3 * 40 + random.integers(0, 30, 20)
        tracker.add(np.arange(20 * step, 20 * step + 20), lows, lows + 20)
        tracker.remove(np.arange(20 * step, 20 * step + 20, 3))
        tracker.check()
    assert tracker.n_hot > 0
    assert tracker.n_scattered > 0


@pytest.mark.parametrize("epsilon", [0.0, -1.0])
def test_epsilon_must_be_positive(epsilon):
    with pytest.raises(AssertionError, match="epsilon must be positive"):
        RefinedPartition(epsilon)
