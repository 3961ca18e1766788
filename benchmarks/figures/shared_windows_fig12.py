"""[shared-windows] Fig. 12: inputs a second over the number of levels of each size."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.keyed_case import (
    Function,
    KeyedCase,
    Stream,
    alarms,
    case_of,
    price_levels,
    volumes,
)

TRADES = "trades by price level, COUNT"
PER_SIZE: dict[Size, tuple[int, ...]] = {"smoke": (1, 4, 16), "full": (1, 2, 4, 8, 16, 32)}
Cases = list[tuple[str, tuple[int, ...], KeyedCase]]


def prepare(_: float, size: Size) -> Cases:
    n_queries, step = (1_000, 200) if size == "full" else (100, 50)
    sources: list[tuple[str, Stream | None, Function]] = [
        (TRADES, price_levels(), "COUNT"),
        ("S&P 500 by symbol, SUM of volume", volumes() if size == "full" else None, "SUM"),
        ("NAB by stream, COUNT of alarms", alarms() if size == "full" else None, "COUNT"),
    ]
    cases = []
    for panel, stream, function in sources:
        if stream is not None:
            n_before = stream.times.size * 2 // 3
            case = case_of(
                stream, function, n_before, n_queries, step, least=0.03, most=0.05, seed=212
            )
            cases.append((f"{panel}, {stream.n_keys:,} keys", PER_SIZE[size], case))
    return cases


def inputs(way: str, *, swept: bool) -> Callable[[Cases], Iterator[Reading]]:
    """Rows and lookups a second, half of each; a way without levels is the same at all points."""

    def measure(cases: Cases) -> Iterator[Reading]:
        for panel, sizes, case in cases:
            flat = None if swept else case.timed(case.strategy(way))
            for p in sizes:
                made = flat or case.timed(case.strategy(way, per_size=p))
                update, lookup, answer = made
                yield Reading(2 / (update + lookup), answer, panel, p)

    return measure


def holds(table: Table) -> Verdict:
    parts, ratio = [], 0.0
    for panel in table.panels():
        curve, naive = table.curve("collective_index", panel), table.curve("naive", panel)
        best = max(curve, key=lambda p: curve[p])
        times = curve[best] / naive[best]
        parts.append(
            f"{panel}: {curve[best]:,.0f} inputs/s at p = {best:.0f}, {times:,.1f} times naive "
            f"({naive[best]:,.0f}/s)"
        )
        if panel.startswith(TRADES):
            ratio = times
    return Verdict(ratio >= 25, "; ".join(parts) + ". All answers are equal.")


FIGURE = Figure(
    name="shared_windows_fig12",
    source="shared-windows, Fig. 12",
    claim="With a well chosen p the collective index with exact answers takes about 25 times the "
    "inputs of the naive way, rows and lookups in equal parts, over thousands of keys at "
    "selectivity 0.03 to 0.05.",
    x_label="levels of each size, p",
    y_label="inputs (rows and lookups) per second",
    sweep={"smoke": (0,), "full": (0,)},
    prepare=prepare,
    series={
        "collective_index": inputs("collective_index", swept=True),
        "naive": inputs("naive", swept=False),
    },
    holds=holds,
    log_x=True,
    log_y=True,
    rounds=3,
    dashed=frozenset({"naive"}),
    notes="Real streams in place of TAQ: trades keyed by market, symbol and price, windows of half "
    "a minute to five minutes; S&P 500 and NAB when the folder STANDFAST_DATA has them, with few "
    "keys, where there is less to gain. Batches of 200 rows and 200 lookups take turns. The naive "
    "way looks every key up by running intervals.",
)
