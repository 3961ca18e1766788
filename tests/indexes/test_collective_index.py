"""The collective index: levels, what they promise, and the storeys over them."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from standfast.indexes.collective_index import LATEST, NEVER, CollectiveIndex
from standfast.indexes.key_rows import KeyRows
from standfast.indexes.keys import LEAST
from standfast.indexes.level_times import FAN, NO_LEVEL, LevelTimes, keys_between, put
from standfast.operators.key_threshold.totals import IndexedTotals

MOST = np.iinfo(np.int64).max


def found(levels: LevelTimes, late: int, early: int, time: int) -> list[int]:
    room = levels.levels.times.shape[1]
    out = np.empty(room, np.int64)
    n = keys_between(levels.levels, late, early, time, np.empty(room, np.int64), out)
    return out[:n].tolist()


@pytest.mark.parametrize("n_keys", [1, FAN, 9 * FAN, 70 * FAN])
def test_keys_are_found_by_their_times_on_two_levels(n_keys):
    rng, levels = Random(n_keys), LevelTimes()
    times = np.full((2, n_keys), LEAST)
    for step in range(200):
        levels.make_room(2, min(n_keys, 1 + step * FAN))
        level, key = rng.randrange(2), rng.randrange(min(n_keys, 1 + step * FAN))
        times[level, key] = rng.choice([LEAST, rng.randrange(9)])
        put(levels.levels, level, key, int(times[level, key]))
        if step % 20:
            continue
        levels.check()
        for time in range(-1, 10):
            late = np.flatnonzero(times[0] >= time).tolist()
            assert found(levels, 0, NO_LEVEL, time) == late
            both = (times[0] >= time) & (times[1] < time)
            assert found(levels, 0, 1, time) == np.flatnonzero(both).tolist()


def test_a_wrong_storey_is_noticed():
    levels = LevelTimes()
    levels.make_room(1, 100)
    put(levels.levels, 0, 17, 5)
    levels.check()
    levels.levels.tops[0, 2] = 6
    with pytest.raises(AssertionError, match="a top is wrong"):
        levels.check()


@pytest.mark.parametrize("per_size", [1, 2, 3, 8])
def test_levels_lie_side_by_side_and_hold_as_many_distances_as_they_should(per_size):
    index = CollectiveIndex(KeyRows(None), counts=True, per_size=per_size)
    following = 1
    for level in range(12 * per_size):
        nearest, farthest = index.reach(level)
        assert nearest == following
        assert farthest - nearest + 1 == 2 ** (level // per_size)
        following = farthest + 1


# The paper: 3/4 for one level of each size, 1/2 for two, then about 2 / p.
@pytest.mark.parametrize(
    ("per_size", "epsilon"), [(1, 3 / 4), (2, 1 / 2), (4, 1 / 3), (8, 1 / 5), (16, 1 / 9)]
)
def test_the_levels_asked_are_within_the_relaxed_bound(per_size, epsilon):
    index = CollectiveIndex(KeyRows(None), counts=True, per_size=per_size)
    bounds = np.arange(1, 5000)
    late, early, surely_late, surely_early = index.levels_for(bounds, bounds)
    for v, below, above, more, less in zip(
        bounds.tolist(), late.tolist(), early.tolist(), surely_late.tolist(),
        surely_early.tolist(), strict=True,
    ):  # fmt: skip
        nearest, farthest = index.reach(below)
        assert farthest <= v
        assert nearest >= v * (1 - epsilon)
        nearest, farthest = index.reach(above)
        assert nearest > v
        assert farthest <= (v + 1) / (1 - epsilon)
        assert more == LATEST or index.reach(more)[0] >= v
        assert index.reach(less)[1] <= v + 1
    assert np.all((late == LATEST) <= (bounds < 1))


@pytest.mark.parametrize("per_size", [1, 2, 3, 16, 32])
def test_the_levels_asked_are_within_the_relaxed_bound_up_to_the_end_of_int64(per_size):
    """Levels ended at 2^55: a sum of 2^55 was named for a threshold of 2^62."""
    index = CollectiveIndex(KeyRows(np.int64), counts=False, per_size=per_size)
    bounds = np.array([2**power + more for power in range(40, 63) for more in (-1, 0, 1)])
    bounds = np.append(bounds, [MOST - 1, MOST])
    late, early, _, _ = index.levels_for(bounds, bounds)
    share = Fraction(1, 4) if per_size == 1 else 1 - Fraction(2, per_size + 2)
    for v, below, above in zip(bounds.tolist(), late.tolist(), early.tolist(), strict=True):
        assert int(index._farthest[below]) <= v
        assert int(index._nearest[below]) > v * share
        # The keys on a level have less than 2^62; a sum of int64 is never beyond its end.
        most = int(index._farthest[above]) if above != NO_LEVEL else MOST + 1
        assert most <= (v + 1) / share


def test_a_relaxed_answer_of_a_large_threshold_is_relaxed_by_its_share_only():
    totals = IndexedTotals(counts=False, is_float=False)
    values = np.array([2**55 + 1, 2**61, 2**61 + 2**60], np.int64)
    totals.insert(np.arange(3), np.ones(3, np.int64), values, 0)
    totals.serve(np.array([2**61, 2**62, 0]), np.array([MOST, MOST, 2**56]))
    for place, wanted in enumerate([[1, 2], [], [0]]):
        found, _ = totals.ask(np.array([place]), np.array([1]), exact=False)
        assert sorted(found.keys.tolist()) == wanted
    totals.check()


def test_bounds_without_an_end_ask_for_no_level():
    index = CollectiveIndex(KeyRows(None), counts=True)
    served = index.levels_for(np.array([-5, 0, 1, MOST]), np.array([MOST, MOST, 0, MOST]))
    assert served.late.tolist()[:2] == [LATEST, LATEST]
    assert served.surely_late.tolist() == [LATEST, LATEST, LATEST, NEVER]
    assert served.early.tolist() == [NO_LEVEL, NO_LEVEL, 0, NO_LEVEL]
    assert served.surely_early.tolist() == [NO_LEVEL, NO_LEVEL, 0, NO_LEVEL]


@pytest.mark.parametrize("kind", ["count", "whole", "float"])
def test_levels_are_right_after_rows_of_any_kind(kind):
    rng = Random(4)
    rows = KeyRows({"count": None, "whole": np.int64, "float": np.float64}[kind])
    index = CollectiveIndex(rows, counts=kind == "count", per_size=2)
    bounds = np.array([1, 2, 5, 9, 30, 200]) * (0.25 if kind == "float" else 1)
    index.serve(bounds, bounds)
    for step in range(60):
        n = rng.randrange(6)
        keys = np.array([rng.randrange(3) for _ in range(n)], np.int64)
        times = np.array(sorted(rng.randrange(step, step + 3) for _ in range(n)), np.int64)
        values = np.array([rng.choice([0, 1, 3, 40, -1]) for _ in range(n)], np.int64)
        if kind == "float":
            values = values * 0.1
        touched, anew = rows.insert(keys, times, values)
        assert sorted(touched.tolist()) == sorted(set(keys.tolist()))
        index.refresh(touched, anew=anew)
        if step % 9 == 8:
            index.refresh(keys[:0], anew=rows.expire(step - 8))
        if step == 30:
            more = bounds * (1 if kind == "count" else 1000)
            index.serve(more, more)
        rows.check()
        index.check()
    assert index.memory_bytes() > 0


def test_keys_with_values_below_0_or_too_large_are_odd():
    rows = KeyRows(np.int64)
    index = CollectiveIndex(rows, counts=False)
    index.serve(np.array([5]), np.array([9]))
    for key, value in ((0, 3), (1, -3), (2, MOST), (3, 0)):
        _, anew = rows.insert(np.array([key]), np.array([key]), np.array([value]))
        index.refresh(np.array([key]), anew=anew)
    assert index.odd().tolist() == [1, 2]
    index.refresh(np.empty(0, np.int64), anew=rows.expire(3))
    assert index.odd().tolist() == []
    index.check()


def test_the_unit_of_floats_follows_the_thresholds():
    rows = KeyRows(np.float64)
    index = CollectiveIndex(rows, counts=False, per_size=4)
    for scale in (1.0, 1e-300, 1e300, 5e-324):
        bounds = np.array([scale, 7 * scale, math.inf])
        late, _, more, _ = index.levels_for(bounds, bounds)
        index.serve(bounds, bounds)
        _, anew = rows.insert(np.zeros(3, np.int64), np.arange(3), np.array([scale, 0.0, scale]))
        index.refresh(np.array([0]), anew=anew)
        index.check()
    assert late.size == more.size == 3
