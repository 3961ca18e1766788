"""Orders of stabbing groups: merged changes give what a rebuild gives, published arrays stay."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.indexes.stabbing_groups import GroupOrders, Intervals, build, check_groups

POINTS = np.array([10, 20, 30, 40])


def intervals_of(n):
    """n intervals in turn around four points, of all widths, with many equal bounds."""
    slots = np.arange(n)
    points = POINTS[slots % 4]
    return Intervals(points - slots % 7, points + slots % 5, np.full(n, -1, np.int32))


def nonempty(intervals):
    numbers, sizes = np.unique(intervals.group_of[intervals.live()], return_counts=True)
    return numbers, POINTS[numbers], sizes


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sets(st.integers(0, 30), min_size=1, max_size=12)), max_size=12
    )
)
def test_merging_changes_gives_the_orders_of_a_rebuild(steps):
    intervals, orders = intervals_of(31), GroupOrders()
    for arrive, chosen in steps:
        inside = {s for s in chosen if intervals.group_of[s] >= 0}
        slots = np.array(sorted(chosen - inside if arrive else inside), np.int64)
        if arrive:
            intervals.group_of[slots] = slots % 4
            orders.add(slots)
        else:
            groups = intervals.group_of[slots]
            intervals.group_of[slots] = -1
            orders.remove(slots, groups)
        if len(chosen) % 2:
            continue  # let changes pile up
        merged = orders.refresh(intervals, *nonempty(intervals))
        check_groups(merged, intervals)
        rebuilt = build(intervals, *nonempty(intervals))
        for name in ("points", "offsets", "lows", "highs"):
            assert np.array_equal(getattr(merged, name), getattr(rebuilt, name)), name
    merged = orders.refresh(intervals, *nonempty(intervals))
    check_groups(merged, intervals)


def test_orders_that_were_handed_out_never_change():
    intervals, orders = intervals_of(20), GroupOrders()
    slots = np.arange(20)
    intervals.group_of[:] = slots % 4
    orders.add(slots)
    before = orders.refresh(intervals, *nonempty(intervals))
    copies = [array.copy() for array in before]
    intervals.group_of[3:9] = -1
    orders.remove(slots[3:9], (slots[3:9] % 4).astype(np.int32))
    after = orders.refresh(intervals, *nonempty(intervals))
    assert after.low_slots.size == 14
    for array, copy in zip(before, copies, strict=True):
        assert np.array_equal(array, copy)


def test_nothing_new_means_the_same_arrays():
    intervals, orders = intervals_of(8), GroupOrders()
    intervals.group_of[:] = np.arange(8) % 4
    orders.add(np.arange(8))
    first = orders.refresh(intervals, *nonempty(intervals))
    assert orders.is_fresh()
    assert orders.refresh(intervals, *nonempty(intervals)) is first


def test_a_group_that_gains_places_before_it_keeps_its_order():
    intervals, orders = intervals_of(12), GroupOrders()
    late = np.array([3, 7, 11])
    intervals.group_of[late] = 3
    orders.add(late)
    alone = orders.refresh(intervals, *nonempty(intervals))
    early = np.array([0, 1, 4, 5])
    intervals.group_of[early] = early % 4
    orders.add(early)
    both = orders.refresh(intervals, *nonempty(intervals))
    assert both.points.tolist() == [10, 20, 40]
    assert np.array_equal(both.low_slots[4:], alone.low_slots)
    assert np.array_equal(both.high_ranks[4:], alone.high_ranks)


def test_check_names_a_wrong_rank():
    intervals = intervals_of(8)
    intervals.group_of[:] = np.arange(8) % 4
    groups = build(intervals, *nonempty(intervals))
    with pytest.raises(AssertionError, match="high_ranks lead to the same slot"):
        check_groups(groups._replace(high_ranks=groups.high_ranks[::-1] * 0), intervals)
