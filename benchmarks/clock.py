"""The clock: best of a few runs, with as many events as fit a short time.

On a shared machine a run can only be slowed down by its neighbours, never sped up, so the best of
several is the steadiest figure; every series, ours and the peers', is taken the same way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

MOST_RUNS = 99  # as many as fit the time, for ways that take milliseconds
BUDGETS = {"smoke": 0.03, "full": 0.6}
_budget = BUDGETS["full"]


def use_budget(size: str) -> None:
    """How long a series may take from now on, in seconds: little in a smoke run."""
    global _budget
    _budget = BUDGETS[size]


def budget() -> float:
    """How long a series may take, in seconds."""
    return _budget


class Timed(NamedTuple):
    """Seconds of the best run, how many events it took, and what the last run returned."""

    seconds: float
    n_events: int
    output: Any

    @property
    def rate(self) -> float:
        return self.n_events / self.seconds


def seconds(work: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """How long one call takes, and what it returns."""
    start = time.perf_counter()
    output = work(*given)
    return time.perf_counter() - start, output


def throughput(
    process: Callable[[npt.NDArray[np.int64]], Any], events: npt.NDArray[np.int64], least: int
) -> Timed:
    """Events per second of `process`, on the largest prefix of `events` that fits the budget.

    Slow ways are measured on `least` events, fast ones on all of them, so that each has its best
    batch size and no series takes more than a few times the budget. The first call is not counted:
    it may compile.
    """
    n = least
    process(events[:n])
    took = _best_of(process, events[:n], 0.0, 1).seconds
    while n < events.size and took < _budget / 8:
        n = min(events.size, n * 4)
        took = _best_of(process, events[:n], 0.0, 2).seconds
    return _best_of(process, events[:n], _budget, MOST_RUNS)


def _best_of(
    process: Callable[..., Any], events: npt.NDArray[np.int64], budget: float, most_runs: int
) -> Timed:
    """At least one run, at most `most_runs`, until the budget is used.

    Each result is dropped before the next run, so that large ones can have the same memory again.
    """
    least, used, output = np.inf, 0.0, None
    for run in range(most_runs):
        if run and budget and used > budget:
            break
        output = None
        took, output = seconds(process, events)
        least, used = min(least, took), used + took
    return Timed(float(least), events.size, output)
