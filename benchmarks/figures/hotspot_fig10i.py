"""[hotspot] Fig. 10(i): band join throughput over the number of standing queries."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.band_case import BandCase, affected, one_by_one, peer
from benchmarks.data import band_case
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers.duckdb_asof import DuckdbAsof
from benchmarks.peers.numpy_searchsorted import OneSearch, TwoSearches
from benchmarks.peers.polars_joins import PolarsAsof, PolarsJoinWhere
from standfast.indexes.stabbing_partition import canonical
from standfast.workloads import table_one_bands

# These lengths give 9 groups at 50 queries and about 60 at 500,000, as in the paper.
LENGTH = (1000.0, 235.0)
KEPT = 0.25  # "about a third"
COUNT = "stabbing groups"
ONE_BY_ONE = "groups, one event a call"
SLOWER = ("merge", "per_tuple", "per_query")


def prepare(n_queries: float, size: Size) -> BandCase:
    n_rows, n_events = (100_000, 20_000) if size == "full" else (2_000, 1_000)
    bands = table_one_bands(int(n_queries), *LENGTH, seed=100)
    return band_case(bands, n_rows, n_events, seed=101)


def groups(case: BandCase) -> Iterator[Reading]:
    """Throughput of the groups, and how many groups there are."""
    yield from affected("groups")(case)
    yield Reading(canonical(case.lows, case.highs)[1].size, panel=COUNT)


def holds(table: Table) -> Verdict:
    groups = table.curve("groups")
    lead = {x: groups[x] / max(table.value(way, x) for way in SLOWER) for x in groups}
    many = [x for x in groups if x >= 100_000] or [max(groups)]
    first, last = min(groups), max(groups)
    few, most = (table.value("groups", x, COUNT) for x in (first, last))
    kept = groups[last] / groups[first]
    single = table.value(ONE_BY_ONE, last) / table.value(ONE_BY_ONE, first)
    wins = min(lead.values()) > 1 and min(lead[x] for x in many) >= 100
    text = (
        f"orders of magnitude, {'yes' if wins else 'no'}: groups are "
        f"{min(lead[x] for x in many):,.0f} times faster than the best of merge, per_tuple and "
        f"per_query from {min(many):,.0f} queries on ({lead[first]:,.1f} times at {first:,.0f}). "
        f"Keeping a third, {'yes' if kept >= KEPT else 'no'}: from {first:,.0f} to {last:,.0f} "
        f"queries ({few:.0f} to {most:.0f} groups) batches keep {kept:.0%} of their events per "
        f"second, which is {kept * most / few:.0%} of the groups probed per second; one event a "
        f"call, as in the paper, keeps {single:.0%}."
    )
    return Verdict(wins and kept >= KEPT, text)


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
        "groups": groups,
        "hotspot": affected("hotspot"),
        ONE_BY_ONE: one_by_one("groups"),
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
