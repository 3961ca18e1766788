"""Wake clocks: nobody sleeps past the time when its number can have reached its bound."""

from __future__ import annotations

import numpy as np
import pytest

from standfast.indexes.lanes import Lanes
from standfast.indexes.wake_clock import WakeClock, extremes, most_moved


@pytest.mark.parametrize("seed", range(5))
def test_slots_wake_when_their_slack_is_used_up_and_not_much_sooner(seed):
    rng = np.random.default_rng(seed)
    clock, gone, left = WakeClock(), 0.0, dict[int, float]()
    n_woken = next_slot = 0
    for _ in range(60):
        n = int(rng.integers(0, 20))
        slots, slacks = np.arange(next_slot, next_slot + n), 2.0 ** rng.uniform(-20, 12, n)
        next_slot += n
        clock.sleep(slots, slacks)
        left |= dict(zip(slots.tolist(), (gone + slacks).tolist(), strict=True))
        step = float(rng.exponential(20.0))
        clock.advance(step)
        gone += step
        woken = clock.woken().tolist()
        n_woken += len(woken)
        for slot in woken:
            assert left.pop(slot) <= gone * (1 + 1e-9)
        assert all(wake > gone * (1 - 1e-9) for wake in left.values())
        assert len(clock) == len(left)
        clock.check()
    assert n_woken > 100
    assert left
    assert sorted(clock.wake_all().tolist()) == sorted(left)
    assert len(clock) == clock.memory_bytes() == 0


def test_a_slack_that_vanishes_beside_the_clock_wakes_at_the_next_look():
    clock = WakeClock()
    clock.sleep(np.array([0]), np.array([2.0**100]))
    clock.advance(2.0**90)
    clock.sleep(np.array([1]), np.array([1e-3]))
    clock.check()
    assert clock.woken().tolist() == [1]


def test_the_clock_starts_anew_when_nobody_sleeps():
    clock = WakeClock()
    clock.sleep(np.array([0]), np.array([1.0]))
    clock.advance(2.0**200)
    assert clock.woken().tolist() == [0]
    clock.sleep(np.array([0]), np.array([1.0]))
    clock.advance(0.5)
    assert clock.woken().size == 0


def test_an_endless_slack_sleeps_until_all_are_woken():
    clock = WakeClock()
    clock.sleep(np.array([3]), np.array([np.inf]))
    clock.advance(1e300)
    assert clock.woken().size == 0
    assert clock.wake_all().tolist() == [3]


@pytest.mark.parametrize("unit", ["rows", "range"])
@pytest.mark.parametrize("seed", range(3))
def test_no_sum_over_a_window_moves_by_more_than_is_said(unit, seed):
    """All windows at once, before rows came and after: late rows, ties and gaps included."""
    rng = np.random.default_rng(seed)
    lanes, now = Lanes(unit, is_float=True), 1000
    sums, is_tight = None, False
    ages = np.arange(0, 60)
    lows, highs = (each.ravel() for each in np.meshgrid(ages, ages))
    lows, highs = lows[lows <= highs], highs[lows <= highs]
    for step in range(30):
        n = int(rng.integers(1, 8))
        times = now + np.cumsum(rng.choice([0, 0, 1, 7], n))
        times -= np.where(rng.random(n) < 0.2, rng.integers(0, 30, n), 0)
        tail, then = int(lanes.geometry.tails[0]), lanes.now
        values = rng.integers(-8, 20, n) / 4
        change = lanes.append(times, times, values, np.ones(n, np.bool_))
        now = lanes.now
        firsts, lasts = lanes.positions(np.zeros(lows.size, np.int64), lows, highs)
        new = np.array([_sum(lanes, *window) for window in zip(firsts, lasts, strict=True)])
        since = int(change.firsts[0])
        if sums is not None and since > 0:
            by_rows = unit == "rows"
            span = int(lanes.geometry.tails[0]) - tail if by_rows else now - then
            middle = (2**62 if since < tail else -1) if by_rows else then
            most = most_moved(
                lanes.geometry, 0, lanes.times, lanes.values, False, by_rows, span, since, middle
            )
            moved = np.abs(new - sums).max()
            assert moved <= most, (step, moved, most)
            is_tight |= moved > most / 3
        sums = new
    assert is_tight


def _sum(lanes: Lanes, first: int, last: int) -> float:
    places = lanes.geometry.starts[0] + (np.arange(first, last + 1) & lanes.geometry.masks[0])
    return float(lanes.values[places].sum())


def test_extremes_are_of_rows_with_a_value():
    lanes = Lanes("rows", is_float=False, is_keyed=True)
    codes, valid = np.array([1, 1, 1, 2]), np.array([True, True, False, False])
    lanes.append(codes, np.arange(4), np.array([5, -3, 0, 0]), valid)
    leasts, mosts = np.full(2, 99), np.full(2, -99)
    wanted = lanes.lanes_of(np.array([1, 2]))
    extremes(lanes.geometry, wanted, lanes.values, lanes.valid, leasts, mosts)
    assert (leasts.tolist(), mosts.tolist()) == ([-3, 99], [5, -99])
