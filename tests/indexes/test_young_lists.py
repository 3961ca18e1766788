"""Young lists against plain lists of entries."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from standfast._numba import kernel
from standfast.arrays import Int32s
from standfast.indexes.young_lists import (
    GONE,
    IS_FULL,
    LIMIT,
    SIZE,
    YOUNG,
    Lists,
    change,
    check_lists,
    entries_of,
    fill,
    keys_within,
    made,
)

MOST = np.iinfo(np.int64).max


@kernel
def search(lists: Lists, i: int, low: int, high: int, out: Int32s) -> int:
    return keys_within(lists.heads, lists.values, lists.keys, i, low, high, out, 0)


def found(lists: Lists, i: int, low: int, high: int) -> list[int]:
    out = np.empty(500, np.int32)
    return sorted(out[: search(lists, i, low, high, out)].tolist())


def changed(lists: Lists, changes: list[tuple[int, int, int]]) -> None:
    change(lists, *(np.array([c[i] for c in changes], np.int64) for i in range(3)))


@pytest.mark.parametrize("n_values", [3, 1000], ids=["ties", "few ties"])
def test_lists_hold_what_was_added_and_not_removed(n_values):
    rng, n = Random(n_values), 4
    lists = made(np.zeros(n, np.int64), spare=20_000, n_sorted=n)
    right: list[dict[int, int]] = [{} for _ in range(n)]  # value by key
    for _ in range(60):
        changes = []
        for _ in range(rng.randrange(40)):
            i, k = rng.randrange(n), rng.randrange(150)
            if k in right[i]:
                changes.append((i, right[i].pop(k), ~k))
            else:
                right[i][k] = rng.choice([rng.randrange(n_values), MOST])
                changes.append((i, right[i][k], k))
        changed(lists, changes)
        check_lists(lists)
        for i in range(n):
            assert sorted(entries_of(lists, i)) == sorted((v, k) for k, v in right[i].items())
            low = rng.randrange(n_values)
            high = rng.choice([low, low + n_values // 3, MOST - 1, MOST])
            inside = sorted(k for k, v in right[i].items() if low <= v <= high)
            assert found(lists, i, low, high) == inside


def test_a_list_waits_with_no_more_than_a_few_changes_for_each_digit_of_its_size():
    lists = made(np.array([0]), spare=5000, n_sorted=1)
    most = 0
    for k in range(1000):
        changed(lists, [(0, (7 * k) % 1000, k)])
        head = lists.heads[0]
        assert head[YOUNG] + head[GONE] <= head[LIMIT]
        most = max(most, int(head[LIMIT]))
    assert lists.heads[0, SIZE] > 900
    assert most <= 4 * 11


def test_lists_are_filled_in_order_and_plain_ones_hold_a_key_once_at_its_largest():
    lists = made(np.array([2, 3]), spare=0, n_sorted=1)
    fill(lists, np.array([0, 1, 0, 1, 1]), np.array([1, 2, 3, 4, 5]), np.array([9, 7, 8, 7, 6]))
    check_lists(lists)
    assert entries_of(lists, 0) == [(1, 9), (3, 8)]
    assert entries_of(lists, 1) == [(4, 7), (5, 6)]
    changed(lists, [(1, 3, 7), (1, 8, 6), (1, 5, 5)])
    assert entries_of(lists, 1) == [(4, 7), (8, 6), (5, 5)]


def test_a_pool_without_room_is_full():
    lists = made(np.array([0]), spare=8, n_sorted=1)
    changed(lists, [(0, k, k) for k in range(100)])
    assert lists.state[IS_FULL]


def test_a_list_out_of_order_is_noticed():
    lists = made(np.array([3]), spare=0, n_sorted=1)
    fill(lists, np.zeros(3, np.int64), np.arange(3), np.arange(3))
    check_lists(lists)
    lists.values[0] = 9
    with pytest.raises(AssertionError, match="list 0 is out of order"):
        check_lists(lists)
