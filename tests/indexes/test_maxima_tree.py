"""Maxima of keys, and the tree over the starts of windows, against looking at all rows."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from standfast._numba import kernel
from standfast.arrays import Int32s
from standfast.indexes.key_maxima import KeyMaxima, Peaks
from standfast.indexes.maxima_tree import MaximaTree, Tree, keys_with_maximum
from standfast.indexes.young_lists import BEGIN, SIZE, YOUNG

MOST, LEAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@kernel
def search(tree: Tree, peaks: Peaks, start: int, low: int, high: int, out: Int32s) -> int:
    return keys_with_maximum(tree, peaks, start, low, high, out, 0)


def found(tree: MaximaTree, start: int, low: int, high: int) -> list[int]:
    out = np.empty(tree.maxima.peaks.begins.size + 1, np.int32)
    n = search(tree.tree, tree.maxima.peaks, start, low, high, out)
    assert len(set(out[:n].tolist())) == n, "a key was found twice"
    return sorted(out[:n].tolist())


def drawn(rng: Random, now: int, *, crowded: bool) -> list[tuple[int, int, int]]:
    """Rows (time, key, value); many of one time when crowded, some of them late."""
    rows = []
    for _ in range(rng.randrange(20)):
        now += 0 if crowded else rng.randrange(3)
        time = max(now - (rng.randrange(12) if rng.random() < 0.2 else 0), 0)
        value = rng.choice([rng.randrange(12), rng.randrange(12), LEAST, MOST])
        rows.append((time, rng.randrange(9), value))
    return sorted(rows)


@pytest.mark.parametrize("seed", range(24))
def test_a_window_finds_the_keys_whose_maximum_is_in_the_range(seed):
    rng = Random(seed)
    tree = MaximaTree(KeyMaxima(), leaf=rng.choice([1, 2, 4]), few=rng.choice([1, 8, 60]))
    said: dict[int, list[tuple[int, int]]] = {}
    now, reach = 0, 40
    for step in range(25):
        rows = drawn(rng, now + (step % 2), crowded=seed % 3 == 0)
        now = max([now, *(time for time, *_ in rows)])
        times, keys, values = (np.array([r[i] for r in rows], np.int64) for i in range(3))
        tree.insert(keys, times, values, now - reach)
        tree.check()
        for time, key, value in rows:
            said.setdefault(key, []).append((time, value))
        if step % 10 == 9:
            tree.settle(now - reach)
            tree.check()
        for _ in range(12):
            start, low = now - rng.randrange(reach + 1), rng.choice([LEAST, rng.randrange(12)])
            high = rng.choice([MOST, max(low, 0) + rng.randrange(5), MOST - 1])
            inside = {k: [v for t, v in rows if t >= start] for k, rows in said.items()}
            right = [k for k, v in sorted(inside.items()) if v and low <= max(v) <= high]
            assert found(tree, start, low, high) == right


def test_only_rows_that_can_be_a_maximum_are_kept():
    rng, maxima = Random(5), KeyMaxima()
    values = [rng.randrange(1000) for _ in range(400)]
    maxima.insert(np.zeros(400, np.int64), np.arange(400), np.array(values))
    maxima.check()
    right = [i for i, v in enumerate(values) if all(v > later for later in values[i + 1 :])]
    span = slice(maxima.peaks.firsts[0], maxima.peaks.ends[0])
    assert maxima.peaks.times[span].tolist() == right
    assert maxima.n_rows == len(right)
    maxima.expire(400)
    assert maxima.without_rows(np.array([0, 7])).tolist() == [0]


def test_a_row_that_displaces_very_many_finds_room_for_its_moves():
    tree = MaximaTree(KeyMaxima(), leaf=1)
    for time in range(300):
        tree.insert(np.array([0]), np.array([time]), np.array([900 - time]), 0)
    tree.insert(np.array([0]), np.array([300]), np.array([1000]), 0)
    tree.check()
    assert tree.maxima.n_rows == 1
    assert found(tree, 5, 1000, 1000) == [0]


def test_rows_that_a_later_one_of_their_batch_beats_are_left_out():
    maxima = KeyMaxima()
    numbers, values = np.array([3, 1, 3, 1, 3]), np.array([5, 9, 7, 2, 7])
    assert maxima.unbeaten(numbers, values).tolist() == [1, 3, 4]
    assert maxima.unbeaten(numbers[:0], values[:0]).tolist() == []


def test_a_time_with_many_rows_is_a_leaf_of_its_own():
    tree = MaximaTree(KeyMaxima(), leaf=4)
    for time in range(6):
        tree.insert(np.arange(50), np.full(50, 10 * time), np.arange(50) + time, 0)
    tree.check()
    # Nobody is looked at one by one: all keys stand in order of their values.
    room = tree.tree.cuts.size
    assert tree.tree.lists.heads[2 * room :, YOUNG].sum() == 0
    assert found(tree, 30, 50, 52) == [45, 46, 47]
    assert tree.memory_bytes() > 0


def test_a_segment_in_the_wrong_place_is_noticed():
    tree = MaximaTree(KeyMaxima(), leaf=1)
    for time in range(8):
        tree.insert(np.array([time % 2]), np.array([time]), np.array([9 - time]), 0)
    tree.check()
    heads = tree.tree.lists.heads[: 2 * tree.tree.cuts.size]
    node = int(np.flatnonzero(heads[:, SIZE] + heads[:, YOUNG])[0])
    tree.tree.lists.values[heads[node, BEGIN]] += 1
    with pytest.raises(AssertionError, match="segments differ"):
        tree.check()
