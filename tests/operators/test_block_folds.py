"""Many lookups at a time: folds of blocks, and sums that go from ages to answers in one pass."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pytest
from tests.contract.test_window_laws import play
from tests.contract.window_worlds import FUNCTIONS, HOLISTIC, draw_world

from standfast.indexes.lanes import Lanes
from standfast.operators import block_folds
from standfast.operators.aggregates import aggregate_of
from standfast.operators.block_folds import BlockFolds
from standfast.operators.catalog import WINDOW_AGGREGATES
from standfast.operators.window_aggregate.base_intervals import BaseIntervals
from standfast.operators.window_aggregate.naive import Naive
from standfast.operators.window_aggregate.running_intervals import RunningIntervals

BUILT_IN = [f for f in FUNCTIONS if f not in (*HOLISTIC, "span", "latest", "COUNT(*)")]


class Folded(BaseIntervals):
    """Folds of tiny blocks, for any number of lookups."""

    few, shift = 1, 2

    def _paying(self, n_lookups):
        """Every other time it is as if there were lookups enough to make up for anything."""
        self.turn = not getattr(self, "turn", False)
        return super()._paying(n_lookups + 10_000 * self.turn)


def grown(made, name, *, is_float=True, unit="rows", keys=1, seed=1, n_rows=700, reach=150):
    """Ways over the same lanes, rows that come in batches, some late, and after each a look."""
    rng = np.random.default_rng(seed)
    lanes = Lanes(unit, is_float=is_float, is_keyed=keys > 1, reach=reach)
    ways = [way(aggregate_of(name, is_float=is_float), lanes) for way in made]
    ends = np.sort(rng.integers(0, reach + 1, (2, 60)), axis=0)
    ends[:, :4] = [[0, 0, reach, 5], [reach, 0, reach, 4]]  # the last one is empty
    for way in ways:
        way.add(np.arange(60), ends[:1], ends[1:])
    at = 0
    while at < n_rows:
        n = int(rng.integers(1, 60))
        times = np.maximum(np.arange(at, at + n) - rng.choice([0, 0, 0, 9], n), 0)
        values = rng.integers(-50, 50, n).astype(lanes.dtype)
        valid = rng.random(n) < rng.choice([0.05, 1.0, 1.0])
        change = lanes.append(rng.integers(0, keys, n), times, np.where(valid, values, 0), valid)
        for way in ways:
            way.take_in(change)
        if lanes.look():
            for way in ways:
                way.take_in(lanes.all_changed())
        at += n
        yield ways


def everything(way):
    slots, n_lanes = np.flatnonzero(way.living), way.lanes.n_lanes
    return way.lookup(np.repeat(slots, n_lanes), np.tile(np.arange(n_lanes), slots.size))


@pytest.mark.parametrize("function", BUILT_IN)
@pytest.mark.parametrize(
    ("unit", "keys"),
    [("rows", 1), ("range", 1), pytest.param("rows", 5, marks=pytest.mark.large)],
)
def test_windows_of_folds_are_what_their_rows_say(function, unit, keys):
    for is_float in (False, True):
        steps = grown([Naive, Folded], function, is_float=is_float, unit=unit, keys=keys)
        for step, (naive, folded) in enumerate(steps):
            if step % 3 == 0:
                continue  # changes that nobody looked after pile up
            wanted, found = everything(naive), everything(folded)
            assert np.array_equal(found.known, wanted.known)
            close = np.isclose(found.values, wanted.values, rtol=1e-9, atol=1e-12)
            assert np.all(close | ~wanted.known)
        folded.check()


@pytest.mark.parametrize("function", BUILT_IN)
def test_engines_with_folds_answer_what_brute_force_answers(function, monkeypatch):
    monkeypatch.setattr(BaseIntervals, "few", 1)
    monkeypatch.setattr(BaseIntervals, "shift", 1)
    monkeypatch.setattr(block_folds, "FIXED", 0)
    read, asked = BlockFolds.read, []

    def noted(self, which):
        asked.append(which)
        return read(self, which)

    monkeypatch.setattr(BlockFolds, "read", noted)
    rng = Random(f"folds {function}")
    play(draw_world(rng, function), rng, 10)
    assert asked, "no window was read from folds"


@pytest.mark.parametrize("name", ["SUM", "AVG"])
@pytest.mark.parametrize("way", [RunningIntervals, Folded])
def test_sums_by_age_are_what_their_rows_say(way, name):
    """Rings that turn, rows without a value, empty windows, windows older than all rows."""
    for seed in range(3):
        for naive, fast in grown([Naive, way], name, seed=seed, reach=[150, 40, 9][seed]):
            wanted, found = everything(naive), everything(fast)
            assert np.array_equal(found.known, wanted.known)
            assert np.array_equal(found.values[found.known], wanted.values[wanted.known])


@pytest.mark.parametrize("way", [RunningIntervals, BaseIntervals, Folded])
def test_before_any_row_came_no_window_is_known(way):
    lanes = Lanes("rows", is_float=True, reach=9)
    made = way(aggregate_of("SUM", is_float=True), lanes)
    made.add(np.arange(2), np.array([[0, 3]]), np.array([[9, 4]]))
    assert everything(made).known.tolist() == [False, False]


def test_sums_of_folds_keep_their_bound():
    """What stands before a window adds nothing to its error, and n roundings of rests little."""
    rng = np.random.default_rng(4)
    values = rng.normal(size=300) * 10.0 ** rng.integers(-8, 16, 300)
    lanes = Lanes("rows", is_float=True, reach=300)
    made = Folded(aggregate_of("SUM", is_float=True), lanes)
    slots = np.arange(299)
    made.add(slots, np.zeros((1, 299), np.int64), slots[None])
    made.append(slots, np.arange(300), values, np.ones(300, np.bool_))
    for left, value in enumerate(everything(made).values.tolist()):
        window = [Fraction(v) for v in values[299 - left :].tolist()]
        most = sum(map(abs, window))
        bound = Fraction(1, 2**53) * abs(sum(window)) + Fraction(len(window) ** 2, 2**106) * most
        assert abs(Fraction(value) - sum(window)) <= bound


def test_large_values_are_added_up_exactly_beside_folds():
    values = np.array([1.0] * 40 + [1e308, 1e308, -1e308] + [2.0] * 40)
    lanes = Lanes("rows", is_float=True, reach=90)
    made = Folded(aggregate_of("SUM", is_float=True), lanes)
    made.add(np.arange(83), np.zeros((1, 83), np.int64), np.arange(83)[None])
    made.append(np.arange(83), np.arange(83), values, np.ones(83, np.bool_))
    found = everything(made).values
    assert found[:40].tolist() == [2.0 * (i + 1) for i in range(40)]
    assert found[40:43].tolist() == [-1e308, 0.0 + 80.0, 1e308]
    assert found[82] == 1e308


@pytest.mark.large
def test_folds_are_made_when_enough_is_asked_at_a_time_and_stay_while_that_pays():
    rng = np.random.default_rng(8)
    lanes = Lanes("rows", is_float=True, reach=50_000)
    made = WINDOW_AGGREGATES["base_intervals"](aggregate_of("SUM", is_float=True), lanes)
    ends = np.sort(rng.integers(0, 50_000, (2, 20_000)), axis=0)
    made.add(np.arange(20_000), ends[:1], ends[1:])
    values, valid = rng.integers(0, 9, 60_000).astype(float), np.ones(60_000, np.bool_)
    made.append(values, np.arange(60_000), values, valid)
    bare, few, many = made.memory_bytes(), np.arange(2_000), np.arange(20_000)
    walked = made.lookup(few, few * 0)
    assert made.memory_bytes() == bare, "2,000 windows do not pay for folds of 50,000 rows"
    folded = made.lookup(many, many * 0)
    assert made.memory_bytes() > bare
    assert np.array_equal(folded.values[:2_000], walked.values)
    assert made._paying(2_000) is not None, "nothing changed, so they are there to be read"
    made.append(values[:25_000], np.arange(60_000, 85_000), values[:25_000], valid[:25_000])
    assert made._paying(2_000) is None
    assert made._paying(20_000) is not None
