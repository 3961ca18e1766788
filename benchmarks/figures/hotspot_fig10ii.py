"""[hotspot] Fig. 10(ii): band join throughput over the number of stabbing groups."""

from __future__ import annotations

from benchmarks.band_case import BandCase, affected, peer
from benchmarks.data import band_case
from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.peers.numpy_searchsorted import OneSearch, TwoSearches
from benchmarks.peers.polars_joins import PolarsAsof
from standfast.workloads import clustered_bands

SLOWER = ("merge", "per_tuple")
# The answer as spans is two numbers per event and group: fewer events at once for more groups.
SPANS_AT_ONCE = 4_000_000


def prepare(n_groups: float, size: Size) -> BandCase:
    n_queries, n_rows, n_events = (100_000, 100_000, 20_000) if size == "full" else (4_000,) * 3
    n_events = min(n_events, SPANS_AT_ONCE // int(n_groups))
    bands = clustered_bands(n_queries, int(n_groups), seed=102)
    return band_case(bands, n_rows, n_events, seed=103)


def holds(table: Table) -> Verdict:
    groups, most = table.curve("groups"), max(table.curve("groups"))
    lead = min(groups[most] / table.value(way, most) for way in SLOWER)
    fall = groups[min(groups)] / groups[most]
    text = (
        f"at {most:,.0f} groups, groups are {lead:,.1f} times faster than the better of merge and "
        f"per_tuple; {most / min(groups):,.0f} times more groups cost {fall:,.0f} times."
    )
    return Verdict(lead > 1, text)


FIGURE = Figure(
    name="hotspot_fig10ii",
    source="[hotspot] Fig. 10(ii)",
    claim="At 100,000 queries the throughput of BJ-SSI (groups) falls linearly with the number of "
    "groups, but still beats BJ-MJ (merge) and BJ-DOuter (per_tuple), which do not depend on it, "
    "at 5,000 groups.",
    x_label="stabbing groups",
    y_label="events per second",
    sweep={"smoke": (10, 100), "full": (10, 50, 100, 500, 1_000, 5_000)},
    prepare=prepare,
    series={
        "groups": affected("groups"),
        **{way: affected(way) for way in SLOWER},
        "per_query": affected("per_query"),
        "numpy, two searches": peer(TwoSearches),
        "numpy, one search": peer(OneSearch),
        "polars join_asof": peer(PolarsAsof),
    },
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset({"numpy, two searches", "numpy, one search", "polars join_asof"}),
    notes="Bands are drawn around a given number of points, so the number of groups is exact; the "
    "paper shortens the bands instead, which both do.",
)
