"""[hotspot] Fig. 10(i): band join throughput over the number of standing queries."""

from __future__ import annotations

from benchmarks.band_case import BandCase, affected, one_by_one, peer
from benchmarks.data import band_case
from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.peers.duckdb_asof import DuckdbAsof
from benchmarks.peers.numpy_searchsorted import OneSearch, TwoSearches
from benchmarks.peers.polars_joins import PolarsAsof, PolarsJoinWhere
from standfast.workloads import table_one_bands

# These lengths give 9 groups at 50 queries and about 60 at 500,000, as in the paper.
LENGTH = (1000.0, 235.0)
SLOWER = ("merge", "per_tuple", "per_query")


def prepare(n_queries: float, size: Size) -> BandCase:
    n_rows, n_events = (100_000, 20_000) if size == "full" else (2_000, 1_000)
    bands = table_one_bands(int(n_queries), *LENGTH, seed=100)
    return band_case(bands, n_rows, n_events, seed=101)


def holds(table: Table) -> Verdict:
    groups = table.curve("groups")
    lead = {x: groups[x] / max(table.value(way, x) for way in SLOWER) for x in groups}
    many = [x for x in groups if x >= 100_000] or [max(groups)]
    kept = groups[max(groups)] / groups[min(groups)]
    text = (
        f"groups are {min(lead[x] for x in many):,.0f} times faster than the best of merge, "
        f"per_tuple and per_query from {min(many):,.0f} queries on ({lead[min(lead)]:,.1f} times "
        f"at {min(lead):,.0f} queries) and keep {kept:.0%} of their throughput from "
        f"{min(groups):,.0f} to {max(groups):,.0f} queries."
    )
    wins = min(lead.values()) > 1 and min(lead[x] for x in many) >= 100
    return Verdict(wins and kept >= 0.25, text)


FIGURE = Figure(
    name="hotspot_fig10i",
    source="[hotspot] Fig. 10(i)",
    claim="From 50 to 500,000 queries (10 to 60 groups), BJ-SSI (groups) is faster than BJ-MJ "
    "(merge), BJ-DOuter (per_tuple) and BJ-QOuter (per_query) by orders of magnitude, and drops "
    "to about a third while the queries grow by 10,000 times.",
    x_label="standing queries",
    y_label="events per second",
    sweep={
        "smoke": (50, 2_000),
        "full": (50, 500, 5_000, 50_000, 100_000, 500_000),
    },
    prepare=prepare,
    series={
        "groups": affected("groups"),
        "hotspot": affected("hotspot"),
        "groups, one event a call": one_by_one("groups"),
        **{way: affected(way) for way in SLOWER},
        "numpy, two searches": peer(TwoSearches),
        "numpy, one search": peer(OneSearch),
        "duckdb asof": peer(DuckdbAsof),
        "polars join_asof": peer(PolarsAsof),
        "polars join_where": peer(PolarsJoinWhere, most_pairs=5e7),
    },
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset(
        {"numpy, two searches", "numpy, one search", "duckdb asof", "polars join_asof",
         "polars join_where"}
    ),
    notes="100,000 stored rows of Table I. Measured until the affected queries are known, without "
    "writing them out, as in the paper; the paper takes one tuple at a time, our ways a batch.",
)  # fmt: skip
