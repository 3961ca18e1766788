"""Window aggregates beside pandas, Polars, DuckDB, NumPy and C++: the same windows and sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.clock import budget, seconds
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import Int64s
from benchmarks.peers.external_windows import STRUCTURES
from benchmarks.peers.rolling import (
    DuckdbWindows,
    Floats,
    NumpySlices,
    PandasRolling,
    PolarsRolling,
    RollingPeer,
)
from benchmarks.window_aggregate_case import BASE, ROUTED, RUNNING, uniform
from benchmarks.window_peers_case import (
    COLUMNS,
    EACH,
    ONCE,
    Ask,
    Stream,
    ours,
    series,
    theirs,
    who_ran,
)
from standfast import Engine

REACH: dict[Size, int] = {"smoke": 1_000, "full": 100_000}
N_BATCH: dict[Size, int] = {"smoke": 100, "full": 1_000}
N_PUSHES: dict[Size, int] = {"smoke": 1_000, "full": 1 << 20}
MOST = 1_000_000
MOST_EACH = 1_000  # windows asked after every row
ENGINE = "engine.store and lookup"
PEERS = {"pandas rolling": 1_000, "polars rolling": 1_000, "duckdb windows": 100}
SLICES = "numpy, slices"
# How many windows of up to 100,000 rows the C++ structures fill in seconds.
FILLED = dict(zip(STRUCTURES, (1_000, 1_000, 100, MOST), strict=True))
TEMPLATE = """
    SELECT SUM(value) OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND :right PRECEDING)
    FROM readings
"""


def prepare(n: float, size: Size) -> Stream:
    return Stream(uniform(int(n), REACH[size], seed=351), N_BATCH[size], N_PUSHES[size])


def asks(most: int, most_each: int = MOST_EACH) -> dict[Ask, int]:
    """All ways to ask, with up to so many windows."""
    return {"batch": most, "columns": min(most, most_each), "rows": min(most, most_each)}


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
        windows, rows = stream.windows, stream.rows(stream.n_batch + stream.windows.reach)
        if len(windows) > most:
            return
        made = kind(windows.lows, windows.highs)
        for panel, n in ((ONCE, 1), (COLUMNS, stream.n_batch)):
            if panel == COLUMNS and (kind is NumpySlices or len(windows) > MOST_EACH):
                continue
            took, sums = seconds(made.sums, rows, n)
            if took < budget():
                took = min(took, seconds(made.sums, rows, n)[0])
            yield Reading(n * len(windows) / took, stream.answer(sums[-1]), panel)

    return measure


def times(ratio: float) -> str:
    return f"{ratio:,.2f}" if ratio < 10 else f"{ratio:,.0f}"


def holds(table: Table) -> Verdict:
    mine, parts, good = table.curve(RUNNING, ONCE), [], True
    for name in (SLICES, *PEERS, *STRUCTURES):
        once = table.curve(name, ONCE)
        if name in STRUCTURES and not once:
            continue
        x = max(once)
        lead = mine[x] / once[x]
        good &= lead > 1
        part = f"with {x:,.0f} windows {times(lead)} times {name} ({once[x]:,.0f} answers a second)"
        for panel, words in ((COLUMNS, "every row of a batch"), (EACH, "rows one by one")):
            each = table.curve(name, panel)
            if each:
                lead = table.value(RUNNING, max(each), panel) / each[max(each)]
                part += f", {times(lead)} times for {words} (with {max(each):,.0f})"
        parts.append(part)
    many = max(mine)
    text = (
        f"running intervals, a batch of rows and then all answers: {'; '.join(parts)}. With "
        f"{many:,.0f} windows, {mine[many] / 1e6:,.1f} million answers a second, the batch "
        f"included; through the engine, as Arrow, {table.value(ENGINE, many, ONCE) / 1e6:,.1f} "
        f"million. {who_ran(table)}. All answers are equal."
    )
    return Verdict(good, text)


FIGURE = Figure(
    name="bar_window_peers",
    source="project bar",
    claim="When answers are asked for after a batch of rows, running intervals give more of them "
    "than rolling sums of pandas and Polars, window functions of DuckDB and sums of NumPy slices, "
    "by more the more windows there are; and more than the C++ structures, with the most windows "
    "that those were given.",
    x_label="standing windows",
    y_label="",
    sweep={"smoke": (1, 50), "full": (1, 10, 100, 1_000, 10_000, 1_000_000)},
    prepare=prepare,
    series={
        RUNNING: series(ours, RUNNING, asks(MOST)),
        BASE: series(ours, BASE, asks(MOST)),
        ROUTED: series(ours, ROUTED, {"batch": MOST, "rows": MOST_EACH}),
        ENGINE: engine,
        "pandas rolling": peer(PandasRolling, PEERS["pandas rolling"]),
        "polars rolling": peer(PolarsRolling, PEERS["polars rolling"]),
        "duckdb windows": peer(DuckdbWindows, PEERS["duckdb windows"]),
        SLICES: peer(NumpySlices, 10_000),
        **{name: series(theirs, name, asks(most)) for name, most in FILLED.items()},
    },
    holds=holds,
    log_x=True,
    log_y=True,
    notes="Sums over windows anywhere in the last 100,000 rows, batches of 1,000 rows. Peers are "
    "given the rows that their windows need, before the clock starts; each is measured with as "
    "many windows as it does in seconds. After every row of a batch, ours are one call for the "
    "rows and one for all answers, and libraries go through the column once, which is what "
    "rolling sums are made for; rows one by one are a call for the row and one for the answers. "
    "The C++ structures are those of IBM's sliding-window-aggregators, in a program that is not "
    "part of this project (`benchmarks/peers/external_windows.py`): one for each window, or one "
    "FiBA for all, asked for the range of each.",
)
