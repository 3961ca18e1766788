"""[hotspot] Fig. 8(ii): select-join throughput over the event join rate."""

from __future__ import annotations

from benchmarks.figure import LINEAR, Figure, Size, Table, Verdict, exponent
from benchmarks.peers import numpy_select
from benchmarks.select_case import SelectCase, located, peer, spans, table_one
from standfast.workloads import bands_in_groups

N_GROUPS = 30
IMMUNE = ("groups", "select_first", "vanilla")


def prepare(n_joining: float, size: Size) -> SelectCase:
    n_queries = 100_000 if size == "full" else 4_000
    ranges = bands_in_groups(n_queries, N_GROUPS, seed=206)
    return table_one(ranges, size, seed=207, n_joining=n_joining)


def holds(table: Table) -> Verdict:
    joins = table.curve("join_first")
    low, high = min(joins), max(joins)
    kept = {way: table.value(way, high) / table.value(way, low) for way in IMMUNE}
    fall, power = joins[low] / joins[high], -exponent(joins)
    text = (
        f"from {low:,.0f} to {high:,.0f} joining rows, {high / low:,.0f} times as many, join_first "
        f"falls by {fall:,.0f} times, with the power {power:.2f}; "
        + ", ".join(f"{way} keeps {share:.0%}" for way, share in kept.items())
        + f". At {high:,.0f} rows groups are {table.value('groups', high) / joins[high]:,.0f} "
        "times join_first."
    )
    return Verdict(kept["groups"] > 0.5 and LINEAR[0] < power < LINEAR[1], text)


FIGURE = Figure(
    name="hotspot_fig8ii",
    source="[hotspot] Fig. 8(ii)",
    claim="The throughput of SJ-JoinFirst falls linearly with the number of stored rows that join "
    "with the event; groups keep more than half of theirs. (In the paper no other way depends on "
    "it; here selecting first searches longer in more rows.)",
    x_label="joining rows per event",
    y_label="events per second",
    sweep={"smoke": (20, 200), "full": (10, 100, 1_000, 10_000)},
    prepare=prepare,
    series={
        "groups": spans("groups"),
        "groups, located": located("groups"),
        "hotspot": spans("hotspot"),
        **{way: spans(way) for way in ("join_first", "select_first", "vanilla")},
        "numpy, per event": peer(numpy_select.PerEvent),
    },
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset({"numpy, per event"}),
    notes="100,000 queries in 30 groups, event selection rate 0.1, 100,000 rows; fewer join keys "
    "make more rows join. More rows also affect more queries: few rows leave many ranges on C "
    "empty, which every way notices that writes the affected queries out. Linearly means with a "
    "power of the rows between 0.8 and 1.25.",
)
