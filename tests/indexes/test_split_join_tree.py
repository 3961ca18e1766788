"""Split-join trees against sorted lists: every operation, every node checked."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.indexes.split_join_tree import (
    LAST_SLOT,
    Nodes,
    build,
    check_tree,
    delete,
    greedy_point,
    insert,
    join,
    least_high,
    priorities,
    split,
)

LEAST, MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
COORDINATES = st.integers(-20, 20) | st.sampled_from([LEAST, MOST])
INTERVALS = st.lists(st.tuples(COORDINATES, COORDINATES).map(sorted), min_size=1, max_size=25)


def leaves(intervals):
    lows, highs = np.array(intervals, np.int64).reshape(-1, 2).T
    return Nodes.none().with_leaves(np.arange(len(intervals)), lows, highs)


def in_order(intervals):
    return sorted(range(len(intervals)), key=lambda slot: (intervals[slot][0], slot))


def grown(nodes, slots):
    root = -1
    for slot in slots:
        root = insert(nodes, root, slot)
    return root


@given(INTERVALS, st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_insert_and_delete_keep_a_sorted_set(intervals, random):
    nodes, root, inside = leaves(intervals), -1, []
    for _ in range(3 * len(intervals)):
        slot = random.randrange(len(intervals))
        if slot in inside:
            inside.remove(slot)
            root = delete(nodes, root, slot)
            nodes = nodes.with_leaves(
                np.array([slot]), nodes.bounds[slot : slot + 1, 0], nodes.bounds[slot : slot + 1, 1]
            )
        else:
            inside.append(slot)
            root = insert(nodes, root, slot)
        assert check_tree(nodes, root) == [s for s in in_order(intervals) if s in inside]


@given(INTERVALS, COORDINATES, st.integers(-1, 30))
@settings(max_examples=50, deadline=None)
def test_split_cuts_at_the_key_and_join_glues_again(intervals, low, slot):
    nodes = leaves(intervals)
    root = grown(nodes, range(len(intervals)))
    first, second = split(nodes, root, low, slot)
    keys = [(intervals[s][0], s) for s in in_order(intervals)]
    assert check_tree(nodes, first) == [key[1] for key in keys if key <= (low, slot)]
    assert check_tree(nodes, second) == [key[1] for key in keys if key > (low, slot)]
    assert check_tree(nodes, join(nodes, first, second)) == in_order(intervals)


@given(INTERVALS)
@settings(max_examples=50, deadline=None)
def test_a_tree_built_from_sorted_is_the_tree_grown_one_by_one(intervals):
    one, other = leaves(intervals), leaves(intervals)
    root = build(one, np.array(in_order(intervals)))
    assert check_tree(one, root) == in_order(intervals)
    assert root == grown(other, range(len(intervals)))
    assert np.array_equal(one.links, other.links)
    assert np.array_equal(one.bounds, other.bounds)


@given(INTERVALS)
@settings(max_examples=80, deadline=None)
def test_the_first_greedy_group_is_found_by_one_walk(intervals):
    nodes = leaves(intervals)
    root = grown(nodes, range(len(intervals)))
    group, point = [], MOST
    for slot in in_order(intervals):
        if intervals[slot][0] > point:
            break
        group.append(slot)
        point = min(point, intervals[slot][1])
    assert greedy_point(nodes, root) == point
    first, _ = split(nodes, root, point, LAST_SLOT)
    assert check_tree(nodes, first) == group
    assert intervals[least_high(nodes, first)][1] == point


def test_an_empty_tree_is_minus_one():
    nodes = leaves([(1, 2)])
    assert split(nodes, -1, 0, 0) == (-1, -1)
    assert join(nodes, -1, -1) == -1
    assert build(nodes, np.empty(0, np.int64)) == -1
    assert delete(nodes, insert(nodes, -1, 0), 0) == -1


def test_deleting_who_is_not_there_is_a_broken_promise():
    nodes = leaves([(1, 2), (3, 4), (5, 6)])
    root = grown(nodes, [0, 2])
    with pytest.raises(AssertionError, match="removed twice or never added"):
        delete(nodes, root, 1)


def test_slots_in_sequence_make_shallow_trees():
    """20,000 equal intervals in ascending slots: a walk visits a few times log2 n nodes."""
    n = 20_000
    nodes = leaves([(0, 1)] * n)
    root = build(nodes, np.arange(n))
    assert np.unique(priorities(np.arange(n))).size > 0.999 * n
    nodes.visits[0] = 0
    for slot in range(0, n, 1000):
        first, second = split(nodes, root, 0, slot)
        root = join(nodes, first, second)
    assert nodes.visits[0] / 20 < 6 * math.log2(n)
