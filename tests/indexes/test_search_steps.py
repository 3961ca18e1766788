"""What a search for keys reads: it grows with the answer, not with the number of keys."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from standfast.indexes import collective_index, level_times, maxima_tree
from standfast.indexes.collective_index import CollectiveIndex
from standfast.indexes.key_maxima import KeyMaxima
from standfast.indexes.key_rows import KeyRows
from standfast.indexes.level_times import FAN, NO_LEVEL, LevelTimes, keys_between, put
from standfast.indexes.maxima_tree import MaximaTree, keys_with_maximum
from standfast.indexes.young_lists import SIZE, YOUNG

MOST = np.iinfo(np.int64).max


def plain(function: Any) -> Callable[..., Any]:
    """A kernel as plain Python, whose helpers can be watched."""
    return getattr(function, "py_func", function)


def entries_of_levels(monkeypatch: pytest.MonkeyPatch, n_keys: int, n_answer: int) -> int:
    """How many entries a search on levels reads that finds so many keys anywhere."""
    levels, read = LevelTimes(), 0
    levels.make_room(1, n_keys)
    for k in np.random.default_rng(n_keys).permutation(n_keys)[:n_answer].tolist():
        put(levels.levels, 0, k, 5)
    below = level_times._below

    def watched(tops, floors, early, time, blocks, n, out):
        nonlocal read
        read += FAN * n
        return below(tops, floors, early, time, blocks, n, out)

    monkeypatch.setattr(level_times, "_below", watched)
    out = np.empty(levels.levels.times.shape[1], np.int64)
    n = plain(keys_between)(levels.levels, 0, NO_LEVEL, 5, out.copy(), out)
    monkeypatch.undo()
    assert n == n_answer
    return read


def test_a_time_between_top_and_floor_of_its_block_is_written_without_a_look_at_the_others(
    monkeypatch: pytest.MonkeyPatch,
):
    levels, looks = LevelTimes(), []
    levels.make_room(1, 9 * FAN)
    for k, time in enumerate([1, 5, 9, *[5] * (FAN - 3)]):
        put(levels.levels, 0, k, time)
    summarise = plain(level_times._summarise)

    def watched(levels, level, storey, block):
        looks.append((storey, block))
        return summarise(levels, level, storey, block)

    monkeypatch.setattr(level_times, "_summarise", watched)
    for key, time in ((1, 6), (1, 9), (3, 1), (2, 9)):
        plain(put)(levels.levels, 0, key, time)
        levels.check()
    assert looks == []
    plain(put)(levels.levels, 0, 0, 4)  # the floor goes up: to that of key 3
    assert looks == [(0, 0)]
    monkeypatch.undo()
    levels.check()


def test_levels_of_a_sum_are_looked_for_from_where_the_last_one_was_found(
    monkeypatch: pytest.MonkeyPatch,
):
    """Each level began at the last row of its key again."""
    rows = KeyRows(np.int64)
    index, lasts = CollectiveIndex(rows, counts=False, per_size=2), []
    bounds = np.array([1, 2, 5, 9, 30, 200])
    index.serve(bounds, bounds)
    last_with = plain(collective_index._last_with)

    def watched(before, first, last, most):
        at = last_with(before, first, last, most)
        lasts.append((int(last), int(at)))
        return at

    for name in ("put", "_units"):
        monkeypatch.setattr(collective_index, name, plain(getattr(collective_index, name)))
    monkeypatch.setattr(level_times, "_summarise", plain(level_times._summarise))
    monkeypatch.setattr(collective_index, "_last_with", watched)
    monkeypatch.setattr(collective_index, "_refresh", plain(collective_index._refresh))
    zeros, ones = np.zeros(300, np.int64), np.ones(300, np.int64)
    touched, _ = rows.insert(zeros, np.arange(300), ones)
    index.refresh(touched, anew=touched)
    monkeypatch.undo()
    index.check()
    assert len(lasts) > 5
    assert lasts[0][0] == 299
    assert all(last == at for (_, at), (last, _) in pairwise(lasts))


def entries_of_maxima(monkeypatch: pytest.MonkeyPatch, n_keys: int, n_answer: int) -> int:
    """How many lists a search for maxima opens, and how many entries it reads in them at most."""
    rng, tree, read = np.random.default_rng(7), MaximaTree(KeyMaxima()), 0
    for step in range(12):
        numbers = np.sort(rng.permutation(n_keys)[: n_keys // 2])
        times = step * 1000 + np.sort(rng.integers(0, 1000, numbers.size))
        tree.insert(rng.permutation(numbers), times, rng.permutation(n_keys)[: numbers.size], 0)
    best = np.sort(_maxima(tree, 4000))[-n_answer]
    within = maxima_tree.keys_within

    def watched(heads, values, keys, i, low, high, out, n):
        nonlocal read
        found = within(heads, values, keys, i, low, high, out, n)
        read += 1 + found - n + int(heads[i, YOUNG]) + int(heads[i, SIZE]).bit_length()
        return found

    monkeypatch.setattr(maxima_tree, "keys_within", watched)
    out = np.empty(n_keys + 1, np.int32)
    peaks = tree.maxima.peaks
    n = plain(keys_with_maximum)(tree.tree, peaks, 4000, int(best), MOST, out, 0)
    monkeypatch.undo()
    assert n_answer <= n <= 2 * n_answer
    return read


def _maxima(tree: MaximaTree, start: int) -> np.ndarray:
    peaks, found = tree.maxima.peaks, []
    for first, end in zip(peaks.firsts, peaks.ends, strict=True):
        inside = peaks.values[first:end][peaks.times[first:end] >= start]
        found += [int(inside[0])] if inside.size else []
    return np.array(found)


@pytest.mark.parametrize(
    "entries_read",
    [entries_of_levels, pytest.param(entries_of_maxima, marks=pytest.mark.large)],
)
def test_what_a_search_reads_grows_with_the_answer_and_not_with_the_keys(monkeypatch, entries_read):
    few_keys = entries_read(monkeypatch, 500, 25)
    many_keys = entries_read(monkeypatch, 16 * 500, 25)
    assert many_keys <= 3 * few_keys
    assert many_keys <= 16 * 500 / 4
    large_answer = entries_read(monkeypatch, 16 * 500, 16 * 25)
    assert 1.5 * many_keys <= large_answer <= 16 * many_keys


def test_keys_of_a_leaf_that_never_reached_the_range_are_not_looked_at(monkeypatch):
    tree, looked_at = MaximaTree(KeyMaxima(), leaf=64), 0
    tree.insert(np.arange(40), np.arange(40), np.arange(40), 0)
    first_from = maxima_tree.first_from

    def watched(peaks, k, start):
        nonlocal looked_at
        looked_at += 1
        return first_from(peaks, k, start)

    monkeypatch.setattr(maxima_tree, "first_from", watched)
    out = np.empty(41, np.int32)
    n = plain(keys_with_maximum)(tree.tree, tree.maxima.peaks, 10, 37, MOST, out, 0)
    assert sorted(out[:n].tolist()) == [37, 38, 39]
    assert looked_at == 3
