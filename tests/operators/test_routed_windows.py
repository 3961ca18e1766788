"""The router of windows: when it goes over to another structure, and what it writes down."""

from __future__ import annotations

import numpy as np

from standfast import Engine
from standfast.indexes.lanes import Lanes
from standfast.operators.aggregates import aggregate_of
from standfast.operators.window_aggregate import routed
from standfast.operators.window_aggregate.routed import Routed

NOTHING = np.empty(0, np.int64)


class Told(Routed):
    """A router that expects landmarks to be cheap, on a clock where they turn out not to be."""

    landmarks_s = 1e-3
    now = 0.0

    def __init__(self, aggregate, lanes):
        super().__init__(aggregate, lanes, self.tick)

    def tick(self):
        self.now += self.landmarks_s if self.way == "landmark_intervals" else 1e-3
        return self.now

    def estimates(self, n_rows, n_lookups):
        return {"base_intervals": 1e6, "landmark_intervals": 1e5 if n_lookups else 1e6}


def test_the_router_goes_over_when_that_pays_and_comes_back_when_it_was_wrong():
    rng = np.random.default_rng(9)
    lanes = Lanes("rows", is_float=True, reach=500)
    way = Told(aggregate_of("MAX", is_float=True), lanes)
    slots, lefts = np.arange(20), np.arange(480, 500)
    way.add(slots, np.array([lefts * 0]), np.array([lefts]))
    values, seen = rng.normal(size=4_000), []
    for at in range(0, 4_000, 10):
        way.append(NOTHING, np.arange(at, at + 10), values[at : at + 10], np.ones(10, np.bool_))
        found = way.lookup(slots[:5], slots[:5] * 0).values.tolist()
        assert found == [values[max(0, at + 9 - left) : at + 10].max() for left in lefts[:5]]
        seen.append(way.way)
        way.landmarks_s = 1e-3 if at < 2_000 else 1e-1
    assert seen[100] == "landmark_intervals"
    assert seen[-1] == "base_intervals"
    assert way.n_switches == 2
    assert way.describe()["structure"] == "base_intervals"
    assert way.corrections["landmark_intervals", "lookups"] > 5


def test_the_books_expect_landmarks_to_pay_for_many_lookups_of_wide_windows():
    lanes = Lanes("rows", is_float=True, reach=1 << 20)
    way = Routed(aggregate_of("MAX", is_float=True), lanes)
    way.add(np.arange(2), np.zeros((1, 2), np.int64), np.full((1, 2), (1 << 20) - 1))
    rows, lookups = way.estimates(1_000, 0), way.estimates(0, 1_000)
    assert rows["base_intervals"] < rows["landmark_intervals"]
    assert lookups["base_intervals"] > lookups["landmark_intervals"]
    at_a_time = way.estimates(0, 100_000)
    assert at_a_time["base_intervals"] < at_a_time["landmark_intervals"], "read from folds"


def test_the_router_takes_rows_in_when_somebody_looks_and_reads_answers_again():
    lanes = Lanes("rows", is_float=False, reach=100)
    way = Routed(aggregate_of("SUM", is_float=False), lanes)
    slots = np.arange(3)
    way.add(slots, np.zeros((1, 3), np.int64), np.array([[0, 9, 100]]))
    for i in range(100):
        way.append(NOTHING, np.array([i]), np.array([i]), np.ones(1, np.bool_))
    for _ in range(3):
        found = way.lookup(slots, slots * 0)
        assert found.values.tolist() == [99, sum(range(90, 100)), sum(range(100))]
    assert (way.n_lookups, way.n_reread) == (9, 6)
    way.append(NOTHING, np.array([100]), np.array([1]), np.ones(1, np.bool_))
    assert way.lookup(slots, slots * 0).values[0] == 1
    assert routed.PATIENCE > 1


def test_answers_that_nobody_reads_again_are_written_down_later_the_next_time(monkeypatch):
    lanes = Lanes("rows", is_float=False, reach=10)
    way = Routed(aggregate_of("SUM", is_float=False), lanes)
    slots, written = np.arange(3), []
    way.add(slots, np.zeros((1, 3), np.int64), np.array([[0, 2, 9]]))
    write_down = Routed._write_down
    monkeypatch.setattr(Routed, "_write_down", lambda self: (written.append(i), write_down(self)))
    for i in range(40):  # every answer is asked for once between two rows
        way.append(NOTHING, np.array([i]), np.array([i]), np.ones(1, np.bool_))
        assert way.lookup(slots, slots * 0).values[0] == i
    assert written == [0], "for nothing, so not again"
    for _ in range(10):
        assert way.lookup(slots, slots * 0).values[0] == 39
    assert written == [0, 39]
    i = 40
    for _ in range(3):
        way.append(NOTHING, np.array([i]), np.array([i]), np.ones(1, np.bool_))
        for _ in range(2):
            assert way.lookup(slots, slots * 0).values[0] == i
        i += 1
    assert written == [0, 39, 40, 41, 42], "they were read again"


def test_rows_that_no_window_reaches_leave_a_router_that_checks():
    """`Engine.check` raised an error when rows came twice before the first query over keys."""
    engine = Engine(clock=lambda: 10**6)
    engine.stream("s", {"k": "int64", "v": "int64", "ts": "timestamp"}, time="ts")
    over = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW)"
    sums = engine.register(f"SELECT k, SUM(v) {over} AS n FROM s", name="sums")
    for i in range(3):
        engine.store("s", {"k": [1], "v": [1], "ts": [100 * i]})
        engine.check()
    sums.add({"w": [1000]})
    engine.store("s", {"k": [1], "v": [7], "ts": [500]})
    engine.check()
    assert engine.report()["sums"].rows()["n"].to_pylist() == [7]
