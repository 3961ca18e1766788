"""Window aggregates beside pandas, Polars, DuckDB and NumPy: the same windows, the same sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.clock import budget, seconds
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import Int64s
from benchmarks.peers.rolling import (
    DuckdbWindows,
    Floats,
    NumpySlices,
    PandasRolling,
    PolarsRolling,
    RollingPeer,
)
from benchmarks.window_aggregate_case import BASE, ROUTED, RUNNING, Fed, Windows, uniform
from standfast import Engine

REACH: dict[Size, int] = {"smoke": 1_000, "full": 100_000}
N_BATCH: dict[Size, int] = {"smoke": 100, "full": 1_000}
ONCE, EACH = "answers per second, asked after a batch", "answers per second, asked after every row"
MOST_EACH = 1_000  # windows asked after every row
N_COMPARED = 100
ENGINE = "engine.store and lookup"
PEERS = {"pandas rolling": 1_000, "polars rolling": 1_000, "duckdb windows": 100}
SLICES = "numpy, slices"
TEMPLATE = """
    SELECT SUM(value) OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND :right PRECEDING)
    FROM readings
"""


class Stream:
    """Windows, and rows up to the end of the batch after which answers are compared."""

    def __init__(self, n: float, size: Size) -> None:
        self.windows: Windows = uniform(int(n), REACH[size], seed=351)
        self.n_batch = N_BATCH[size]

    def ready(self, way: str) -> Fed:
        """A way that waits for the batch."""
        fed = Fed(way, "SUM", self.windows)
        fed.fill()
        return fed

    def rows(self) -> Floats:
        """The batch and what its windows reach before it."""
        windows = self.windows
        return windows.values(windows.n_fill - windows.reach, self.n_batch + windows.reach)

    def answer(self, sums: Floats) -> Int64s:
        return sums[:N_COMPARED].astype(np.int64)


def ours(way: str) -> Callable[[Stream], Iterator[Reading]]:
    """A batch of rows and a lookup of all; then row by row."""

    def measure(stream: Stream) -> Iterator[Reading]:
        slots, n = np.arange(len(stream.windows)), stream.n_batch

        def once(fed: Fed) -> Floats:
            fed.update(n)
            return np.asarray(fed.lookup(slots).values, np.float64)

        def each(fed: Fed) -> Floats:
            for _ in range(n):
                fed.update(1)
                found = fed.lookup(slots)
            return np.asarray(found.values, np.float64)

        once(stream.ready(way))  # may compile
        for panel, work, times in ((ONCE, once, 1), (EACH, each, n)):
            if panel == EACH and slots.size > MOST_EACH:
                continue
            fed = stream.ready(way)
            took, sums = seconds(work, fed)
            answer, used = stream.answer(sums), took
            while used < budget():
                again, _ = seconds(work, fed)
                took, used = min(took, again), used + again
            yield Reading(times * slots.size / took, answer, panel)

    return measure


def engine(stream: Stream) -> Iterator[Reading]:
    """The same through doors and Arrow tables, by the way that the engine chooses."""
    made, windows = Engine(), stream.windows
    made.stream("readings", {"ts": "timestamp", "value": "float64"}, time="ts")
    group = made.register(TEMPLATE, name="sums")
    n_before = windows.n_fill
    group.add({"left": windows.highs, "right": windows.lows, "id": np.arange(len(windows))})
    given = {"ts": np.arange(n_before), "value": windows.values(0, n_before)}
    made.store("readings", given)
    at, n, took, used, answer = n_before, stream.n_batch, np.inf, 0.0, None
    group.lookup()
    while answer is None or used < budget():
        given = {"ts": np.arange(at, at + n), "value": windows.values(at, n)}

        def once(batch: dict[str, Int64s | Floats] = given) -> Floats:
            made.store("readings", batch)
            return np.asarray(group.lookup().column(1).to_numpy())

        again, sums = seconds(once)
        took, used, at = min(took, again), used + again, at + n
        answer = stream.answer(sums) if answer is None else answer
    yield Reading(len(windows) / took, answer, ONCE)


def peer(kind: type[RollingPeer], most: int) -> Callable[[Stream], Iterator[Reading]]:
    def measure(stream: Stream) -> Iterator[Reading]:
        windows, rows = stream.windows, stream.rows()
        if len(windows) > most:
            return
        made = kind(windows.lows, windows.highs)
        for panel, n in ((ONCE, 1), (EACH, stream.n_batch)):
            if panel == EACH and (kind is NumpySlices or len(windows) > MOST_EACH):
                continue
            took, sums = seconds(made.sums, rows, n)
            if took < budget():
                took = min(took, seconds(made.sums, rows, n)[0])
            yield Reading(n * len(windows) / took, stream.answer(sums[-1]), panel)

    return measure


def holds(table: Table) -> Verdict:
    mine, parts, good = table.curve(RUNNING, ONCE), [], True
    for name in (SLICES, *PEERS):
        once = table.curve(name, ONCE)
        x = max(once)
        lead = mine[x] / once[x]
        good &= lead > 1
        part = f"with {x:,.0f} windows {lead:,.0f} times {name} ({once[x]:,.0f} answers a second)"
        each = table.curve(name, EACH)
        if each:
            x = max(each)
            lead = table.value(RUNNING, x, EACH) / each[x]
            part += f", and {lead:,.2f} times when asked after every row"
        parts.append(part)
    many = max(mine)
    text = (
        f"running intervals, a batch of rows and then all answers: {'; '.join(parts)}. With "
        f"{many:,.0f} windows, {mine[many] / 1e6:,.1f} million answers a second, the batch "
        f"included; through the engine, as Arrow, {table.value(ENGINE, many, ONCE) / 1e6:,.1f} "
        f"million. All answers are equal."
    )
    return Verdict(good, text)


FIGURE = Figure(
    name="bar_window_peers",
    source="project bar",
    claim="When answers are asked for after a batch of rows, running intervals give more of them "
    "than rolling sums of pandas and Polars, window functions of DuckDB and sums of NumPy slices, "
    "by more the more windows there are.",
    x_label="standing windows",
    y_label="",
    sweep={"smoke": (1, 50), "full": (1, 10, 100, 1_000, 10_000, 1_000_000)},
    prepare=Stream,
    series={
        RUNNING: ours(RUNNING),
        BASE: ours(BASE),
        ROUTED: ours(ROUTED),
        ENGINE: engine,
        "pandas rolling": peer(PandasRolling, PEERS["pandas rolling"]),
        "polars rolling": peer(PolarsRolling, PEERS["polars rolling"]),
        "duckdb windows": peer(DuckdbWindows, PEERS["duckdb windows"]),
        SLICES: peer(NumpySlices, 10_000),
    },
    holds=holds,
    log_x=True,
    log_y=True,
    notes="Sums over windows anywhere in the last 100,000 rows, batches of 1,000 rows. Peers are "
    "given the rows that their windows need, before the clock starts; each is measured with as "
    "many windows as it does in seconds. Asked after every row, ours are one call for the row "
    "and one for the lookup, 1,000 times, where peers go through all rows of the batch at once: "
    "a column that is there already is what rolling sums are made for.",
)
