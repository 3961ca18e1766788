"""Runners of a figure are told apart by a percent though the machine's speed differs by a fifth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from benchmarks import race
from benchmarks.clock import BUDGETS
from benchmarks.race import lead, raced


class Machine:
    """A clock for runners of known cost, in a machine that is slow half of the time."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.n_runs = 0

    def runner(self, cost: float) -> Callable[[], float]:
        def run() -> float:
            self.n_runs += 1
            is_slow = (self.n_runs // 40) % 2
            return float(cost * (1 + 0.3 * is_slow) * np.exp(self.rng.normal(0, 0.15)))

        return run

    def seconds(self, run: Callable[[], float]) -> tuple[float, str]:
        return run(), "found"


@pytest.fixture(autouse=True)
def full_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race, "budget", lambda: BUDGETS["full"])


def test_a_ratio_is_known_to_a_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for seed in range(12):
        machine = Machine(seed)
        monkeypatch.setattr(race, "seconds", machine.seconds)
        costs = {"routed": 0.010, "best": 0.0097, "other": 0.0105, "far": 0.03}
        runners = {name: machine.runner(cost) for name, cost in costs.items()}
        ran = raced(runners, "routed", ("best", "other", "far"))
        assert len(ran["far"].turns) == 1, "twice as long: not taken any further"
        assert len(ran["best"].turns) == len(ran["routed"].turns)
        known = lead(ran["best"].turns, ran["routed"].turns)
        assert known.error < race.PRECISE
        found.append((known.log - np.log(0.97)) / known.error)
    assert np.abs(found).max() < 4, "errors"
    assert np.std(found) < 2


def test_a_race_goes_on_until_it_is_precise_or_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(0)
    monkeypatch.setattr(race, "seconds", machine.seconds)
    for cost, n_least, n_most in ((0.01, 61, 599), (0.5, 60, 60)):
        runners = {name: machine.runner(cost) for name in ("routed", "best")}
        called = list[str]()
        ran = raced(runners, "routed", ("best",), called.append)
        n = len(ran["routed"].turns)
        assert n_least <= n <= n_most
        assert called.count("best") == len(ran["best"].runs) == race.RUNS_A_TURN * n
        assert ran["best"].last == ["found"]


def test_a_ratio_far_off_hardly_counts() -> None:
    near = lead([1.0, 1.1, 0.9, 1.0, 1.05, 0.95], [1.0] * 6)
    off = lead([1.0, 1.1, 0.9, 1.0, 1.05, 95.0], [1.0] * 6)
    assert abs(off.log - near.log) < 0.06
    assert lead([1.0], [2.0, 3.0]).log == pytest.approx(np.log(0.5))


def test_the_best_of_those_compared_stays_however_far_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It left after one turn, whose error is not finite, where something else was twice as fast."""
    machine = Machine(0)
    monkeypatch.setattr(race, "seconds", machine.seconds)
    costs = {"routed": 0.01, "split": 0.01, "way": 0.05, "other": 0.09}
    runners = {name: machine.runner(cost) for name, cost in costs.items()}
    ran = raced(runners, "routed", ("way", "other"))
    assert len(ran["way"].turns) == len(ran["routed"].turns) > len(ran["other"].turns)
    assert lead(ran["way"].turns, ran["routed"].turns).error < race.PRECISE
