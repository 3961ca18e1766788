"""Windows of the last rows, few and many: ours beside C++ structures for a single window."""

from __future__ import annotations

import numpy as np

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.peers.external_windows import STRUCTURES
from benchmarks.window_aggregate_case import BASE, RUNNING, Windows
from benchmarks.window_peers_case import (
    COLUMNS,
    EACH,
    ONCE,
    Ask,
    Stream,
    ours,
    series,
    short,
    theirs,
    who_ran,
)

WIDEST: dict[Size, int] = {"smoke": 100, "full": 1_000}
N_BATCH: dict[Size, int] = {"smoke": 100, "full": 1_000}
N_PUSHES: dict[Size, int] = {"smoke": 1_000, "full": 1 << 20}
EVERY: dict[Ask, int] = {"batch": 1_000, "columns": 1_000, "rows": 1_000}
WORDS = {ONCE: "After each batch", COLUMNS: "After every row of a batch", EACH: "Rows one by one"}


def prepare(n: float, size: Size) -> Stream:
    widths = np.linspace(0, WIDEST[size], int(n) + 1)[1:].astype(np.int64)
    windows = Windows(np.zeros(widths.size, np.int64), widths - 1, seed=371)
    return Stream(windows, N_BATCH[size], N_PUSHES[size])


def leads(table: Table, panel: str) -> dict[float, float]:
    """How many times the best of the C++ structures running intervals are, by windows."""
    others = [table.curve(name, panel) for name in STRUCTURES]
    most = {
        x: max((c[x] for c in others if x in c), default=0.0) for x in table.curve(RUNNING, panel)
    }
    return {x: table.value(RUNNING, x, panel) / rate for x, rate in most.items() if rate}


def holds(table: Table) -> Verdict:
    parts = []
    for panel, words in WORDS.items():
        rates = {name: table.curve(name, panel) for name in table.series(panel)}
        many, lead = max(rates[RUNNING]), leads(table, panel)
        shown = ", ".join(f"{name} {short(curve[many])}" for name, curve in rates.items())
        parts.append(f"{words}, with {many:,.0f} windows, answers a second: {shown}")
        if lead:
            times = ", ".join(f"{lead[x]:,.3g} with {x:,.0f}" for x in lead)
            parts[-1] += f"; running intervals of the best C++ structure: {times}"
    once, each = leads(table, ONCE), leads(table, EACH)
    text = f"{'. '.join(parts)}. {who_ran(table)}. All answers are equal."
    return Verdict(bool(once) and once[max(once)] > 1 and max(each.values()) < 1, text)


FIGURE = Figure(
    name="bar_window_suffixes",
    source="project bar",
    claim="Sums of the last 1 to 1,000 rows: 1,000 such windows asked after batches of 1,000 rows "
    "get more answers of running intervals than of the best C++ structure, one for each window or "
    "one for all; with rows one by one, a C++ structure gives more with any number of windows.",
    x_label="standing windows",
    y_label="",
    sweep={"smoke": (1, 20), "full": (1, 10, 100, 1_000)},
    prepare=prepare,
    series={
        RUNNING: series(ours, RUNNING, EVERY),
        BASE: series(ours, BASE, EVERY),
        **{name: series(theirs, name, EVERY) for name in STRUCTURES},
    },
    holds=holds,
    log_x=True,
    log_y=True,
    rounds=2,
    notes="A C++ structure for each window takes every row once for each of them, and can go "
    "window by window where rows come in batches; one FiBA for all takes it once and is asked for "
    "a range. Who takes part and how they are asked as in bar_window_peers, windows and batches "
    "as small as such structures like them.",
)
