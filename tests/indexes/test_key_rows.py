"""Numbers of keys and the rows behind them: room, late rows, rows that go."""

from __future__ import annotations

import math
import tracemalloc
from random import Random

import numpy as np
import pytest

from standfast._numba import kernel
from standfast.indexes import key_rows
from standfast.indexes.key_numbers import KeyNumbers
from standfast.indexes.key_rows import KeyRows, Rows, count_within, sum_within

MOST = np.iinfo(np.int64).max


@kernel
def counted(rows: Rows, k: int, start: int, low: int, high: int) -> bool:
    return count_within(rows.times, rows.firsts[k], rows.ends[k], start, low, high)


@kernel
def summed(rows: Rows, k: int, start: int, low: float, high: float, whole: bool) -> bool:
    return sum_within(rows, k, start, low, high, whole)


class Watched(np.ndarray):
    """An array that counts how many of its entries are written one by one."""

    n_written = 0

    def __setitem__(self, at, value):
        self.n_written += 1
        super().__setitem__(at, value)


def written_for(monkeypatch, kind, n_rows: int, n_late: int, n_later: int) -> list[int]:
    """How many times, values and totals are written when rows come late by so many of their key."""
    rows, rng = KeyRows(kind), np.random.default_rng(n_rows)
    for times in (np.arange(n_rows), np.full(1, n_rows)):
        rows.insert(times * 0, times, rng.integers(-9, 9, times.size).astype(kind))
    for name, kernel_ in vars(key_rows).copy().items():
        if hasattr(kernel_, "py_func"):
            monkeypatch.setattr(key_rows, name, kernel_.py_func)
    watched = {n: getattr(rows.rows, n).view(Watched) for n in ("times", "values", "before")}
    rows.rows = rows.rows._replace(**watched)
    late = np.full(n_late, n_rows - n_later)
    assert rows.insert(late * 0, late, np.full(n_late, 3, kind)).anew.tolist() == [0]
    monkeypatch.undo()
    rows.check()
    return [column.n_written for column in watched.values()]


def test_codes_keep_their_numbers_until_they_are_freed():
    numbers, rng = KeyNumbers(), Random(1)
    known: dict[int, int] = {}
    for _ in range(40):
        codes = [rng.choice([rng.randrange(60), -rng.randrange(9), MOST]) for _ in range(9)]
        for code, number in zip(codes, numbers.numbers(np.array(codes)).tolist(), strict=True):
            assert known.setdefault(code, number) == number
        numbers.check()
        gone = rng.sample(sorted(known), min(len(known), rng.choice([0, 0, 5])))
        numbers.free(np.array([known.pop(code) for code in gone], np.int64))
        numbers.check()
        assert len(numbers) == len(known) == len(set(known.values()))
        assert sorted(numbers.living().tolist()) == sorted(known.values())
        held = np.array(sorted(known.values()), np.int64)
        assert dict(zip(numbers.codes(held).tolist(), held.tolist(), strict=True)) == known
    assert numbers.memory_bytes() > 0


def test_a_free_number_cannot_be_freed():
    with pytest.raises(AssertionError, match="belongs to no code"):
        KeyNumbers().free(np.array([0]))


@pytest.mark.parametrize("kind", [None, np.int64, np.float64])
def test_rows_of_a_key_stand_in_order_whenever_they_come(kind):
    rng, rows = Random(2), KeyRows(kind)
    said: dict[int, list[tuple[int, float]]] = {}
    for step in range(60):
        batch = sorted(
            (rng.randrange(max(0, step - 9), step + 2), rng.randrange(6), rng.randint(-9, 9) / 4)
            for _ in range(rng.randrange(12))
        )
        times, keys, values = (np.array(c, np.int64) for c in zip(*batch, strict=True)) if batch \
            else (np.empty(0, np.int64),) * 3  # fmt: skip
        values = values.astype(kind or np.int64)
        rows.insert(keys, times, values)
        for time, k, value in zip(times.tolist(), keys.tolist(), values.tolist(), strict=True):
            said.setdefault(k, []).append((time, value))
        if step % 7 == 6:
            rows.expire(step - 12)
            said = {k: [r for r in some if r[0] >= step - 12] for k, some in said.items()}
        rows.check()
        assert rows.n_rows == sum(map(len, said.values()))
        for k, some in said.items():
            span = slice(rows.rows.firsts[k], rows.rows.ends[k])
            assert rows.rows.times[span].tolist() == sorted(time for time, _ in some)
            if kind is not None:
                assert sorted(rows.rows.values[span]) == sorted(value for _, value in some)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_late_rows_of_a_batch_move_the_rows_behind_the_first_of_them_once(monkeypatch, kind):
    # Each of them moved all rows behind it, and took all totals of its key again.
    for n_rows in (100, 1600):
        for n_late, n_later in ((1, 1), (1, 9), (30, 9)):
            written = written_for(monkeypatch, kind, n_rows, n_late, n_later)
            assert written == 3 * [n_late + n_later]


@pytest.mark.parametrize("time", [3, 9])
def test_a_row_takes_no_memory_for_keys_that_it_is_not_of(time):
    # A late one did: two arrays by key were made for it.
    rows, n_keys = KeyRows(np.int64), 20_000
    numbers = np.tile(np.arange(n_keys), 2)
    rows.insert(numbers, np.repeat([0, 5], n_keys), numbers)
    few = np.zeros(1, np.int64)
    for more in (6, 4, 5, 7):  # compiled, and with room
        rows.insert(few, few + more, few)
    tracemalloc.start()
    rows.insert(few, few + time, few)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows.check()
    assert most < n_keys


def test_totals_are_right_when_late_rows_and_others_come_together():
    rng, rows, said = np.random.default_rng(5), KeyRows(np.float64), [(0, 0.1)] * 3
    rows.insert(np.zeros(3, np.int64), np.zeros(3, np.int64), np.full(3, 0.1))
    for step in range(1, 40):
        times = np.sort(rng.integers(max(0, step - 4), step + 3, 5))
        values = rng.choice([0.1, 1e16, -1e16, 7.0], 5)
        rows.insert(np.zeros(5, np.int64), times, values)
        said += zip(times.tolist(), values.tolist(), strict=True)
        for start in range(step + 3):
            exact = math.fsum(value for time, value in said if time >= start)
            holds = any(time >= start for time, _ in said)
            assert summed(rows.rows, 0, start, exact, exact, False) == holds
    rows.check()


def test_a_late_row_may_be_the_one_that_totals_cannot_hold():
    rows = KeyRows(np.int64)
    rows.insert(np.zeros(2, np.int64), np.array([1, 9]), np.array([5, 6]))
    rows.insert(np.zeros(2, np.int64), np.array([4, 5]), np.array([MOST, 1]))
    rows.check()
    assert summed(rows.rows, 0, 0, MOST, MOST, True)
    assert summed(rows.rows, 0, 5, 7, 7, True)
    rows.expire(5)
    rows.insert(np.zeros(1, np.int64), np.array([7]), np.array([2]))
    rows.check()
    assert summed(rows.rows, 0, 0, 9, 9, True)
    assert summed(rows.rows, 0, 6, 8, 8, True)


def test_counts_are_decided_without_a_search():
    rows = KeyRows(None)
    rows.insert(np.zeros(5, np.int64), np.array([1, 3, 3, 7, 9]), np.empty(0, np.int64))
    for start in range(11):
        n = sum(time >= start for time in (1, 3, 3, 7, 9))
        for low in range(-1, 7):
            for high in (low - 1, low, low + 2, MOST):
                assert counted(rows.rows, 0, start, low, high) == (n > 0 and low <= n <= high)


def test_sums_beyond_int64_are_compared_exactly():
    rows = KeyRows(np.int64)
    rows.insert(np.zeros(4, np.int64), np.arange(4), np.array([MOST, MOST, -MOST, 5]))
    rows.check()
    assert summed(rows.rows, 0, 0, MOST, MOST, True)
    assert summed(rows.rows, 0, 1, 5, 5, True)
    assert summed(rows.rows, 0, 2, 5 - MOST, 5 - MOST, True)
    rows.expire(3)
    assert summed(rows.rows, 0, 0, 5, 5, True)


def test_sums_of_floats_are_those_of_fsum_even_at_the_bound():
    rng, rows = Random(3), KeyRows(np.float64)
    values = [rng.choice([0.1, 0.2, 0.3, 1e16, -1e16, 1e-9]) for _ in range(60)]
    rows.insert(np.zeros(60, np.int64), np.arange(60), np.array(values))
    for start in range(60):
        exact = math.fsum(values[start:])
        above, below = math.nextafter(exact, math.inf), math.nextafter(exact, -math.inf)
        assert summed(rows.rows, 0, start, exact, exact, False)
        assert not summed(rows.rows, 0, start, above, math.inf, False)
        assert not summed(rows.rows, 0, start, -math.inf, below, False)


def test_a_sum_that_is_no_number_is_in_no_range():
    rows = KeyRows(np.float64)
    rows.insert(np.zeros(3, np.int64), np.arange(3), np.array([math.inf, -math.inf, 1.0]))
    assert not summed(rows.rows, 0, 0, -math.inf, math.inf, False)
    assert summed(rows.rows, 0, 1, -math.inf, -math.inf, False)
    assert summed(rows.rows, 0, 2, 1.0, 1.0, False)


def test_a_forgotten_key_counts_from_nothing():
    rows = KeyRows(np.int64)
    rows.insert(np.zeros(2, np.int64), np.arange(2), np.array([3, -4]))
    assert rows.without_rows(np.array([0, 9])).tolist() == []
    assert rows.expire(5).tolist() == [0]
    assert rows.without_rows(np.array([0])).tolist() == [0]
    rows.forget(np.array([0]))
    rows.insert(np.zeros(1, np.int64), np.array([7]), np.array([2]))
    rows.check()
    assert rows.rows.counted[0] == 1
    assert rows.memory_bytes() > 0
