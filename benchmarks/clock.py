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

MOST_RUNS = 9
BUDGETS = {"smoke": 0.03, "full": 0.6}
_budget = BUDGETS["full"]


def use_budget(size: str) -> None:
    """How long a series may take from now on, in seconds: little in a smoke run."""
    global _budget
    _budget = BUDGETS[size]


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
    while True:
        took, output = seconds(process, events[:n])
        if n >= events.size or took > _budget / 8:
            break
        n = min(events.size, n * 4)
    runs, used = 1, took
    while runs < MOST_RUNS and used < _budget:
        again, output = seconds(process, events[:n])
        took, used, runs = min(took, again), used + again, runs + 1
    return Timed(took, n, output)
