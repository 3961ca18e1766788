"""The band join's bars: how many times the events per second of NumPy's searches."""

from __future__ import annotations

from benchmarks.band_case import BandCase, affected, pairs, peer
from benchmarks.data import band_case
from benchmarks.engine_case import pushed, pushed_pairs
from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.peers.duckdb_asof import DuckdbAsof
from benchmarks.peers.numpy_searchsorted import OneSearch, TwoSearches
from benchmarks.peers.polars_joins import PolarsAsof
from standfast.workloads import bands_in_groups

N_GROUPS = 70
YARDSTICK = "numpy, two searches"
PEERS = (YARDSTICK, "numpy, one search", "duckdb asof", "polars join_asof")


def prepare(n_queries: float, size: Size) -> BandCase:
    n_rows, n_events = (100_000, 20_000) if size == "full" else (2_000, 1_000)
    bands = bands_in_groups(int(n_queries), N_GROUPS, seed=104)
    return band_case(bands, n_rows, n_events, seed=105)


def holds(table: Table) -> Verdict:
    (x,) = table.curve(YARDSTICK)
    spans, written = table.value("spans", x), table.value("pairs", x)
    unit = table.value(YARDSTICK, x)
    fastest = max(PEERS, key=lambda name: table.value(name, x))
    best = table.value(fastest, x)
    text = (
        f"at {x:,.0f} queries, spans {spans:,.0f} events/s, {spans / unit:,.0f} times NumPy's two "
        f"searches per event ({unit:,.0f}/s); pairs {written:,.0f} events/s, "
        f"{written / unit:,.0f} times. Against the fastest peer, {fastest} ({best:,.0f}/s): "
        f"{spans / best:,.0f} and {written / best:,.1f} times. Through the engine, with doors, "
        f"stores and Arrow: {table.value('engine.push', x):,.0f} events/s, and "
        f"{table.value('engine.push and pairs', x):,.0f} as pairs. All results are equal."
    )
    return Verdict(spans >= 5000 * unit and written >= 50 * unit, text)


FIGURE = Figure(
    name="bar_band_join",
    source="project bar",
    claim="100,000 band joins in about 70 groups over 100,000 rows: spans at least 5,000 times, "
    "pairs at least 50 times the events per second of NumPy searchsorted per event.",
    x_label="standing queries",
    y_label="events per second",
    sweep={"smoke": (5_000,), "full": (100_000,)},
    prepare=prepare,
    series={
        "spans": affected("groups"),
        "pairs": pairs("groups"),
        "engine.push": pushed(),
        "engine.push and pairs": pushed_pairs(),
        YARDSTICK: peer(TwoSearches),
        "numpy, one search": peer(OneSearch),
        "duckdb asof": peer(DuckdbAsof),
        "polars join_asof": peer(PolarsAsof),
    },
    holds=holds,
    log_y=True,
    rounds=3,
)
