"""The forest and the order of slots: few trees, few rebuilds, and answers that stay."""

from __future__ import annotations

import numpy as np

from standfast.indexes.forest import Forest
from standfast.indexes.interval_tree import IntervalTree
from standfast.indexes.slot_order import SlotOrder


def planted(*, ratio: float, small: int) -> tuple[Forest[IntervalTree], list[int]]:
    """A forest, and the sizes of the trees that it ever built."""
    built: list[int] = []

    def build(slots: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> IntervalTree:
        built.append(slots.size)
        return IntervalTree(slots, lows, highs, bucket=4)

    return Forest(build, ratio=ratio, small=small), built


def test_entries_are_rebuilt_seldom_and_trees_stay_few() -> None:
    forest, built = planted(ratio=2.0, small=8)
    for slot in range(0, 4_000, 10):
        slots = np.arange(slot, slot + 10)
        forest.add(slots, slots, slots + 5)
        assert len(forest.settled()) <= 9
    forest.check()
    assert sum(built) <= 4_000 * 16, "an entry is built again O(ratio log n) times"


def test_what_waits_becomes_one_tree_when_somebody_asks() -> None:
    forest, built = planted(ratio=1.0, small=0)
    for slot in range(100):
        forest.add(np.array([slot]), np.array([slot]), np.array([slot]))
    forest.remove(np.arange(0, 100, 2))
    assert built == []
    assert [tree.n_live for tree in forest.settled()] == [50]
    assert built == [50]


def test_a_large_tree_is_left_alone_by_small_changes() -> None:
    forest, built = planted(ratio=4.0, small=0)
    forest.add(np.arange(1000), np.arange(1000), np.arange(1000))
    large = forest.settled()[0]
    forest.add(np.array([1000]), np.array([1]), np.array([2]))
    forest.remove(np.arange(400))
    assert forest.settled()[0] is large
    assert built == [1000, 1]
    forest.remove(np.arange(400, 501))
    assert large not in forest.settled(), "more than half of it is buried"
    forest.check()
    assert forest.n_live == 500


def test_a_published_order_is_copied_before_something_is_buried() -> None:
    order = SlotOrder(np.array([7, 3, 9, 4], np.int32))
    spans = (np.array([1, 0]), np.array([1, 0], np.int32), np.array([4, 2], np.int32))
    hits = order.slices(*spans, 3)
    assert hits.counts().tolist() == [2, 3, 0]
    order.bury(np.array([2], np.int32))
    assert hits.slices.order.tolist() == [7, 3, 9, 4]
    assert order.slots.tolist() == [7, 3, -1, 4]
    later = order.slices(*spans, 3)
    assert later.counts().tolist() == [2, 2, 0]
    out = np.zeros(4, np.int64)
    later.fill(np.array([0, 2, 4]), np.arange(10), out)
    assert out.tolist() == [7, 3, 3, 4]


def test_a_slot_that_leaves_and_comes_back_before_anybody_asks_is_the_new_one() -> None:
    forest, _ = planted(ratio=2.0, small=8)
    slot = np.array([0])
    forest.add(slot, np.array([1]), np.array([2]))
    forest.settled()
    forest.remove(slot)
    forest.add(slot, np.array([5]), np.array([6]))
    (tree,) = forest.settled()
    assert [array.tolist() for array in tree.live()] == [[0], [5], [6]]
    forest.remove(slot)
    forest.add(slot, np.array([7]), np.array([8]))
    forest.remove(slot)
    assert forest.settled() == []
    forest.check()


def test_a_slot_that_comes_back_and_leaves_again_goes_where_it_lives() -> None:
    # It still lies buried in the large tree: that entry was buried again, and a ghost stayed.
    forest, built = planted(ratio=2.0, small=8)
    forest.add(np.arange(1000), np.arange(1000), np.arange(1000))
    (large,) = forest.settled()
    slots = np.array([5, 7])
    for bounds in (3, 4):
        forest.remove(slots)
        assert forest.settled()[0] is large
        forest.add(slots, slots + bounds, slots + bounds)
        assert forest.settled()[0] is large
        forest.check()
        small = forest.settled()[1]
        assert [array.tolist() for array in small.live()] == [
            [5, 7],
            *[[5 + bounds, 7 + bounds]] * 2,
        ]
    forest.remove(np.array([5]))
    assert [tree.n_live for tree in forest.settled()] == [998, 1]
    forest.remove(np.array([6, 7]))
    assert forest.settled() == [large]
    assert large.n_live == forest.n_live == 997
    forest.check()
    assert built == [1000, 2, 2]


def test_changes_do_not_pile_up_where_nobody_asks() -> None:
    """Every add looked through all removes since the last question, and all of them were kept."""
    forest, built = planted(ratio=2.0, small=8)
    forest.add(np.arange(100), np.arange(100), np.arange(100))
    sizes = []
    for turn in range(500):
        first = 100 + 10 * turn
        new = np.arange(first, first + 10)
        forest.add(new, new, new)
        forest.remove(new - 100)
        sizes.append(forest.memory_bytes())
    assert max(sizes[250:]) <= 1.1 * max(sizes[:250]), "as much as lives, however long"
    assert len(forest._leaving) <= 8, "and few parts to look through"
    assert sum(built) <= 3 * 5_000, "an entry is built a few times at most"
    forest.check()
    assert forest.n_live == 100
    assert np.sort(np.concatenate([t.live()[0] for t in forest.settled()])).tolist() == list(
        range(5_000, 5_100)
    )
