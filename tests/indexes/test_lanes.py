"""Lanes against lists of rows that are sorted anew each time."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from standfast.indexes.lanes import Lanes

NOTHING = np.empty(0, np.int64)


def play(lanes, rng, steps, *, by_rows):
    """Rows in any order; after each batch every lane holds what sorting says."""
    held: dict[int, list[tuple[int, bool, float]]] = {}
    now, moved = 0, 0
    for _ in range(steps):
        n = rng.choice([0, 1, 2, 9, 40])
        now += rng.choice([0, 1, 5])
        rows = [
            (rng.randrange(5), max(0, now - rng.choice([0, 0, 0, 2, 7])), rng.randrange(9), True)
            for _ in range(n)
        ]
        rows = [(c, t, 0 if v == 0 else v, v != 0) for c, t, v, _ in rows]
        columns = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
        before = snapshot(lanes)
        change = lanes.append(*columns, np.array([row[3] for row in rows], np.bool_))
        for code, time, value, ok in rows:
            held.setdefault(code, []).append((time, ok, value))
        for code in held:
            held[code].sort()
        expect(lanes, held, by_rows)
        moved += before_is_kept(lanes, before, change)
        lanes.look()
        lanes.check()
        expect(lanes, held, by_rows)
    return moved


def snapshot(lanes):
    g = lanes.geometry
    return {
        int(lanes.codes[lane]): {
            p: rows_at(lanes, lane, p, p) for p in range(int(g.heads[lane]), int(g.tails[lane]))
        }
        for lane in range(lanes.n_lanes)
    }


def rows_at(lanes, lane, first, last):
    g = lanes.geometry
    places = g.starts[lane] + (np.arange(first, last + 1) & g.masks[lane])
    columns = (lanes.times[places], lanes.valid[places], lanes.values[places])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def before_is_kept(lanes, before, change):
    """What a change does not name is where it was; returns how many rows that were."""
    firsts = dict(zip(change.lanes.tolist(), change.firsts.tolist(), strict=True))
    n = 0
    g = lanes.geometry
    for lane in range(lanes.n_lanes):
        for p, row in before.get(int(lanes.codes[lane]), {}).items():
            if g.heads[lane] <= p < firsts.get(lane, g.tails[lane]):
                assert rows_at(lanes, lane, p, p) == row
                n += 1
    return n


def expect(lanes, held, by_rows):
    now = lanes.now
    for code, rows in held.items():
        (lane,) = lanes.lanes_of(np.array([code])).tolist()
        for low, high in ((0, 0), (0, 3), (1, 6), (2, 12), (5, 4)):
            if by_rows:
                wanted = [row for i, row in enumerate(rows[::-1]) if low <= i <= high][::-1]
            else:
                wanted = [row for row in rows if low <= now - row[0] <= high]
            if lane < 0:
                assert not wanted
                continue
            firsts, lasts = lanes.positions(*(np.array([x]) for x in (lane, low, high)))
            assert rows_at(lanes, lane, int(firsts[0]), int(lasts[0])) == wanted


@pytest.mark.parametrize("unit", ["rows", "range"])
@pytest.mark.parametrize("seed", range(6))
def test_lanes_hold_the_rows_that_windows_reach_in_order(unit, seed):
    lanes = Lanes(unit, is_float=False, is_keyed=True, reach=12)
    assert play(lanes, Random(seed), 40, by_rows=unit == "rows") > 0


@pytest.mark.parametrize("is_float", [False, True])
def test_late_rows_are_merged_with_the_rows_behind_them_and_nothing_is_sorted(
    monkeypatch, is_float
):
    # All rows behind the first late one were sorted again with those that came.
    lanes = Lanes("range", is_float=is_float, is_keyed=True, reach=10**6)
    kind, rng = lanes.dtype, np.random.default_rng(3)
    codes, times = np.arange(4000) % 5, np.arange(4000) // 3
    lanes.append(codes, times, rng.integers(0, 9, 4000).astype(kind), np.ones(4000, np.bool_))
    late = np.sort(rng.integers(0, 1300, 300)), rng.integers(0, 9, 300), rng.random(300) < 0.8
    late_codes = np.repeat([1, 3, 9], 100)
    order = np.lexsort((np.where(late[2], late[1], 0), late[2], late[0], late_codes))
    batch = (late_codes[order], late[0][order], np.where(late[2], late[1], 0)[order].astype(kind))
    with monkeypatch.context() as patched:
        patched.delattr(np, "lexsort")
        change = lanes.append(*batch, late[2][order])
    lanes.check()
    assert change.lanes.size == 3
    assert len(lanes) == 4300


def test_capacity_follows_what_is_reached_and_goes_back():
    lanes = Lanes("rows", is_float=False, reach=1000)
    for i in range(0, 5000, 100):
        times = np.arange(i, i + 100)
        lanes.append(NOTHING, times, times, np.ones(100, np.bool_))
        lanes.look()
    assert len(lanes) <= 2000
    wide = lanes.size
    assert lanes.set_reach(10)
    lanes.check()
    assert lanes.size < wide / 16
    assert len(lanes) == 11
    assert lanes.kept().values.tolist() == list(range(4989, 5000))


def test_lanes_of_keys_that_nobody_reaches_go():
    lanes = Lanes("range", is_float=False, is_keyed=True, reach=5)
    for i in range(300):
        row = np.array([i])
        lanes.append(row, row, row, np.ones(1, np.bool_))
        lanes.look()
    assert lanes.n_lanes < 40
    assert lanes.kept().codes.tolist() == [294, 295, 296, 297, 298, 299]


@pytest.mark.parametrize("is_keyed", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_rows_that_nobody_reaches_after_their_batch_take_no_place(is_keyed, in_order):
    """Batches far longer than the windows: places follow the windows, and lanes do not move."""
    lanes = Lanes("rows", is_float=False, is_keyed=is_keyed, reach=9)
    generations = set()
    for i in range(0, 5000, 1000):
        times = np.arange(i, i + 1000)
        came = times if in_order else times[::-1].copy()
        lanes.append(np.zeros(1000, np.int64), came, came, np.ones(1000, np.bool_))
        lanes.check()
        lanes.look()
        generations.add(lanes.generation)
        assert lanes.kept().values.tolist() == times[-10:].tolist()
    assert lanes.size <= 64
    assert len(generations) == 1


def test_a_ring_has_room_for_the_rows_that_are_reached_and_few_more():
    """Rows that a batch pushes out of reach make room for it."""
    lanes = Lanes("rows", is_float=False, reach=99)
    for i in range(0, 4000, 20):
        times = np.arange(i, i + 20)
        lanes.append(NOTHING, times, times, np.ones(20, np.bool_))
    assert int(lanes.geometry.masks[0]) + 1 == 128
    assert lanes.kept().values.tolist() == list(range(3900, 4000))


@pytest.mark.parametrize("unit", ["rows", "range"])
@pytest.mark.parametrize("is_keyed", [False, True])
def test_without_windows_no_row_is_kept(unit, is_keyed):
    lanes = Lanes(unit, is_float=False, is_keyed=is_keyed, reach=-1)
    rows = np.arange(100)
    change = lanes.append(np.zeros(100, np.int64), rows, rows, np.ones(100, np.bool_))
    assert change.lanes.size == 0
    assert len(lanes) == 0
