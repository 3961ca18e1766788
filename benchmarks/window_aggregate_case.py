"""What the figures of window aggregates share: windows over the last rows, a stream, every way.

    ages     ... 7  6  5  4  3  2  1  0       window i holds the rows of age lows[i] .. highs[i]
    rows     ... o  o [o  o  o  o] o  o       a suffix has low 0, any other is historical

Rows come in batches and lookups come in batches, one after the other: a lookup sees all rows before
it. Values are whole numbers, so that sums are equal whichever way they were added up. Ways whose
ratio decides take turns, to and fro, and each turn is held against that of the fastest way in the
same round: what neighbours on a shared machine slow down, they slow down for both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from benchmarks.clock import budget, seconds
from benchmarks.figure import WrongAnswer
from benchmarks.peers import Int64s
from standfast.indexes.lanes import Lanes
from standfast.model.numbers import float_keys
from standfast.operators.aggregates import aggregate_of
from standfast.operators.base import AggregateStrategy, Found
from standfast.operators.catalog import WINDOW_AGGREGATES

Floats = npt.NDArray[np.float64]

RUNNING, BASE, LANDMARK = "running_intervals", "base_intervals", "landmark_intervals"
QUANTILES, ROUTED = "base_interval_quantiles", "routed"
TURNS_A_SECOND = 400  # of the budget: 240 turns in a full run, twelve in a small one
# A runner so many times slower than the best so far runs no more after so many turns.
BEHIND = {1: 20.0, 3: 10.0}
N_CHECKED = 64
PERIOD = 1 << 16  # rows after which the stream repeats
SHARE = 0.5  # of quantiles: the median


class Windows:
    """Standing windows by the ages of their rows, and an endless seeded stream under them."""

    def __init__(self, lows: Int64s, highs: Int64s, seed: int) -> None:
        self.lows, self.highs = lows, highs
        self.seed = seed

    def __len__(self) -> int:
        return int(self.lows.size)

    @property
    def reach(self) -> int:
        return int(self.highs.max())

    @property
    def fill_batch(self) -> int:
        """Rows that come at a time before anything is measured."""
        return min(PERIOD, max(1_000, self.reach // 2))

    @property
    def n_fill(self) -> int:
        """Rows until every window is full and the oldest ones have begun to go."""
        return -(-(2 * self.reach + 2) // self.fill_batch) * self.fill_batch

    def values(self, first: int, n: int) -> Floats:
        """Rows `first .. first + n - 1` of the stream."""
        period = np.random.default_rng(self.seed).integers(-1_000, 1_000, PERIOD)
        return period[np.arange(first, first + n) % PERIOD].astype(np.float64)


class Fed:
    """One way with all windows in it, and how far it is in the stream.

    `spare` rows are kept beyond what the windows reach, for the answers after earlier rows.
    """

    def __init__(self, way: str, aggregate: str, windows: Windows, spare: int = 0) -> None:
        self.windows = windows
        self.aggregate = aggregate
        lanes = Lanes("rows", is_float=True, reach=windows.reach + spare)
        self.strategy: AggregateStrategy = WINDOW_AGGREGATES[way](
            aggregate_of(aggregate, is_float=True), lanes
        )
        boxes = [windows.lows], [windows.highs]
        if aggregate == "PERCENTILE_DISC":
            for rows in boxes:
                rows.append(float_keys(np.full(len(windows), SHARE)))
        self.strategy.add(np.arange(len(windows)), np.stack(boxes[0]), np.stack(boxes[1]))
        self.n_rows = 0
        self._stream = windows.values(0, 2 * PERIOD)  # twice round, so that any part is a slice
        self._valid = np.ones(PERIOD, np.bool_)
        self._lanes = np.zeros(0, np.int64)  # of lookups: all are of the only lane

    def fill(self) -> None:
        """Rows until the windows are as full as they get."""
        while self.n_rows < self.windows.n_fill:
            self.update(self.windows.fill_batch)

    def update(self, n: int) -> None:
        """The next rows of the stream, no more than it has before it repeats."""
        at = self.n_rows % PERIOD
        times = np.arange(self.n_rows, self.n_rows + n)
        self.strategy.append(times, times, self._stream[at : at + n], self._valid[:n])
        self.n_rows += n

    def lookup(self, slots: Int64s) -> Found:
        if self._lanes.size < slots.size:
            self._lanes = np.zeros(slots.size, np.int64)
        return self.strategy.lookup(slots, self._lanes[: slots.size])

    def columns(self, n: int) -> Found:
        """The answers of all windows after each of the last n rows, window after window.

        For ways that can tell of any positions, with n rows to spare.
        """
        ends = self.strategy.lanes.geometry.tails[0] - n + np.arange(n)
        firsts = (ends - self.windows.highs[:, None]).ravel()
        lasts = (ends - self.windows.lows[:, None]).ravel()
        slots = np.repeat(np.arange(len(self.windows)), n)
        return self.strategy.answers(slots, np.zeros(slots.size, np.int64), firsts, lasts)

    def answer(self) -> Int64s:
        """The answers of some of the windows, held against their definition."""
        slots = np.unique(np.linspace(0, len(self.windows) - 1, N_CHECKED).astype(np.int64))
        found, wanted = self.lookup(slots).values, [self._defined(slot) for slot in slots]
        if not np.array_equal(found, wanted):
            raise WrongAnswer(f"{type(self.strategy).__name__}: {found} and not {wanted}")
        return found.astype(np.int64)

    def _defined(self, slot: int) -> float:
        low, high = int(self.windows.lows[slot]), int(self.windows.highs[slot])
        rows = self.windows.values(self.n_rows - 1 - high, high - low + 1)
        if self.aggregate == "PERCENTILE_DISC":
            return float(np.sort(rows)[max(int(np.ceil(SHARE * rows.size)), 1) - 1])
        return float(rows.max() if self.aggregate == "MAX" else rows.sum())

    def memory_bytes(self) -> int:
        """Everything: the rows, the structure over them, and the windows themselves."""
        made = self.strategy
        parameters = made.lows.nbytes + made.highs.nbytes + made.living.nbytes
        return made.memory_bytes() + made.lanes.memory_bytes() + int(parameters)


def uniform(n: int, reach: int, seed: int) -> Windows:
    """Windows whose two ends lie anywhere up to this age."""
    ends = np.sort(np.random.default_rng(seed).integers(0, reach, (2, n)), axis=0)
    ends[:, 0] = 0, reach - 1
    return Windows(ends[0], ends[1], seed)


def steady(work: Callable[[], object], n: int, least: int = 1) -> float:
    """Units a second of calls that do n each: the best of a few stretches of `least` calls.

    A structure does most of its work now and then; a stretch is long enough to hold all of it.
    """
    work()
    best = used = 0.0
    for stretch in range(9):
        if stretch and used > budget():
            break
        took, calls = 0.0, 0
        while calls < least or took < budget() / 8:
            took, calls = took + seconds(work)[0], calls + 1
        best, used = max(best, calls * n / took), used + took
    return best


def race(runners: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each runner, in turns, to and fro; the first turn is not counted where more are.

    Those of the fastest are what a quarter of its turns were faster than, those of others as many
    times that as theirs took of its turn in the median round. A runner that is far behind after a
    few turns is left at that.
    """
    turns, left = {name: list[float]() for name in runners}, set(runners)
    n_turns = max(2, round(TURNS_A_SECOND * budget()))
    for turn in range(n_turns):
        if turn in BEHIND:
            least = {name: min(turns[name]) for name in left}
            far = BEHIND[turn] * min(least.values())
            left = {name for name in left if least[name] <= far}
        for name in list(runners)[:: -1 if turn % 2 else 1]:
            if name in left:
                turns[name].append(seconds(runners[name])[0])
    counted = {name: np.array(t[1:] or t) for name, t in turns.items()}
    own = {name: float(np.quantile(t, 0.25)) for name, t in counted.items()}
    lead = min(own, key=lambda name: own[name])
    return {
        name: own[lead] * float(np.median(t / counted[lead][: t.size]))
        for name, t in counted.items()
    }


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread on one core, where the system can; our kernels have one thread anyway."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
