"""The bar of pushes: telling what a batch changed costs what changed, not all windows there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.clock import seconds
from benchmarks.figure import Figure, Reading, Size, Table, Verdict, WrongAnswer
from benchmarks.peers import Int64s
from benchmarks.window_aggregate_case import one_core
from standfast import Engine
from standfast.engine.group import Group

REACH: dict[Size, int] = {"smoke": 400, "full": 100_000}  # rows
N_ROWS, N_PUSHES, N_TURNS = 50, 8, 6  # rows in a push, pushes in a turn, turns
WITHIN = 1_000  # one query in so many is within its bound
MEAN = 50
# RANGE: rows come together once in a while, the clock is told far more often.
TICK_US, GAP_US, GAPS = 1_000_000, 60_000_000, 20
PUSH, LOOKUP, READ = "seconds a push", "seconds to look all up", "windows read by a push"
ALL, SUMS, HIGHS, RANGE = "ROWS", "ROWS, QUALIFY SUM", "ROWS, QUALIFY MAX", "RANGE"
OVER = "OVER (ORDER BY ts {} BETWEEN :left PRECEDING AND {}) AS answer FROM s"
QUALIFY = " QUALIFY answer >= :least"
TEMPLATES = {
    ALL: "SELECT SUM(v) " + OVER.format("ROWS", "CURRENT ROW"),
    SUMS: "SELECT SUM(v) " + OVER.format("ROWS", "CURRENT ROW") + QUALIFY,
    HIGHS: "SELECT MAX(v) " + OVER.format("ROWS", "CURRENT ROW") + QUALIFY,
    RANGE: "SELECT SUM(v) " + OVER.format("RANGE", ":right PRECEDING") + " WHERE v >= 0",
}
LEAST_GAIN, MOST_READ = 10.0, 0.1


class Case:
    """A template with its windows over a full stream, twice: one is pushed to, one looked up."""

    def __init__(self, name: str, n: int, reach: int) -> None:
        self.name, self.reach = name, reach
        self.rng = np.random.default_rng(353)
        self.engines = {PUSH: Engine(clock=lambda: 2**50), LOOKUP: Engine(clock=lambda: 2**50)}
        self.groups: dict[str, Group] = {}
        params, filling = self._params(n), self._filling()
        for role, engine in self.engines.items():
            engine.stream("s", {"ts": "timestamp", "v": "int64"}, time="ts")
            self.groups[role] = engine.register(TEMPLATES[name], name="q")
            self.groups[role].add(params)
            engine.store("s", filling)
        self.engines[PUSH].report()
        self.coming: dict[str, Iterator[dict[str, Int64s]]] = {
            r: self._rows() for r in self.engines
        }
        self.n_read: list[int] = []

    def _params(self, n: int) -> dict[str, Int64s]:
        if self.name == RANGE:
            ends = np.sort(self.rng.integers(0, (GAPS - 1) * GAP_US, (2, n)), axis=0)
            return {"right": ends[0], "left": ends[1]}
        widths = self.rng.integers(self.reach // 100, self.reach, n)
        if self.name == ALL:
            return {"left": widths}
        is_within = np.arange(n) % WITHIN == 0
        if self.name == HIGHS:
            return {"left": widths, "least": np.where(is_within, 0, 3 * MEAN)}
        shares = np.where(is_within, 0.5, self.rng.uniform(1.2, 3.0, n))
        return {"left": widths, "least": (MEAN * shares * widths).astype(np.int64)}

    def _filling(self) -> dict[str, Int64s]:
        """Rows until every window is full."""
        if self.name == RANGE:
            times = np.repeat(np.arange(GAPS) * GAP_US, N_ROWS)
            return {"ts": times, "v": self.rng.integers(0, 2 * MEAN, times.size)}
        n = 2 * self.reach
        return {"ts": np.arange(n), "v": self.rng.integers(0, 2 * MEAN, n)}

    def _rows(self) -> Iterator[dict[str, Int64s]]:
        """Batches without end, the same for both."""
        rng, now = np.random.default_rng(359), (GAPS - 1) * GAP_US
        first = 2 * self.reach
        while True:
            if self.name != RANGE:
                values = rng.integers(0, 2 * MEAN, N_ROWS)
                yield {"ts": np.arange(first, first + N_ROWS), "v": values}
                first += N_ROWS
                continue
            now += TICK_US
            # A row below 0 does not count, but it tells the time.
            is_due = now % GAP_US == 0
            values = rng.integers(0, 2 * MEAN, N_ROWS) if is_due else np.array([-1])
            yield {"ts": np.full(values.size, now), "v": values}

    def push(self) -> None:
        for _ in range(N_PUSHES):
            self.engines[PUSH].push("s", next(self.coming[PUSH]))
            self.n_read.append(int(self.groups[PUSH].metrics()["reread"]))

    def look(self) -> None:
        self.engines[LOOKUP].store("s", next(self.coming[LOOKUP]))
        self.groups[LOOKUP].lookup()

    def check(self) -> None:
        """What was told is what a lookup says."""
        self.engines[PUSH].report()
        found = self.groups[PUSH].lookup()
        told = self.groups[PUSH].reader.reported.rows()
        values = found["answer"].fill_null(0).to_numpy()
        if not np.array_equal(values, told.raw) or told.slots.size != found.num_rows:
            raise WrongAnswer(f"{self.name}: {told.slots.size} told, {found.num_rows} found")


def series(name: str) -> Callable[[tuple[int, int]], Iterator[Reading]]:
    def measure(sizes: tuple[int, int]) -> Iterator[Reading]:
        case = Case(name, *sizes)
        case.push()
        case.look()
        took = {PUSH: 0.0, LOOKUP: 0.0}
        with one_core():
            for _ in range(N_TURNS):
                took[PUSH] += seconds(case.push)[0] / N_PUSHES
                took[LOOKUP] += seconds(case.look)[0]
        case.check()
        for role, each in took.items():
            yield Reading(each / N_TURNS, panel=role)
        yield Reading(float(np.mean(case.n_read)), panel=READ)

    return measure


def prepare(n: float, size: Size) -> tuple[int, int]:
    return int(n), REACH[size]


def holds(table: Table) -> Verdict:
    good, parts = True, []
    for name in TEMPLATES:
        n = max(table.curve(name, PUSH))
        push, look, read = (table.value(name, n, panel) for panel in (PUSH, LOOKUP, READ))
        if name != ALL:
            good &= look >= LEAST_GAIN * push and read <= MOST_READ * n
        parts.append(
            f"{name}: {1e3 * push:,.2f} ms a push that reads {read:,.0f} of {n:,.0f} windows, "
            f"{look / push:,.1f} times as fast as looking all up"
        )
    return Verdict(good, "; ".join(parts) + ". What was told is what a lookup says.")


FIGURE = Figure(
    name="bar_window_push",
    source="project bar",
    claim="With 1,000,000 standing windows, one in a thousand within the bound of its QUALIFY, a "
    "push that tells what changed takes at most a tenth of what looking all of them up takes, and "
    "reads at most a tenth of them; so it is for windows in time of which few are crossed.",
    x_label="standing windows",
    y_label="",
    sweep={"smoke": (2_000,), "full": (1_000, 10_000, 100_000, 1_000_000)},
    prepare=prepare,
    series={name: series(name) for name in TEMPLATES},
    holds=holds,
    log_x=True,
    log_y=True,
    notes="Windows by ROWS reach back 1,000 to 100,000 rows; 50 rows a push, whole numbers of a "
    "mean of 50. Bounds on sums are 1.2 to 3 times what is to be expected, or half of it for one "
    "query in a thousand; bounds on the greatest value are beyond all values, or 0. Windows in "
    "time have both ends anywhere in 19 minutes; 50 rows come once a minute, and a push a second "
    "tells the time. Six turns of eight pushes and one lookup of all, and their means, since a "
    "push now and then does what others need not; on one core. ROWS without a bound reads every "
    "window, since each holds other rows after any row.",
)
