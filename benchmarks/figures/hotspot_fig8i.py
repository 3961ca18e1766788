"""[hotspot] Fig. 8(i): select-join throughput over the event selection rate."""

from __future__ import annotations

from benchmarks.figure import LINEAR, Figure, Size, Table, Verdict, exponent, spread
from benchmarks.peers import numpy_select
from benchmarks.select_case import SelectCase, counted, located, pairs, peer, spans, table_one
from standfast.workloads import bands_in_groups

N_GROUPS = 30
LOCATED, COUNTED, PAIRS = "groups, located", "groups, counted", "groups, pairs"


def prepare(rate: float, size: Size) -> SelectCase:
    n_queries = 100_000 if size == "full" else 4_000
    return table_one(bands_in_groups(n_queries, N_GROUPS, seed=204), size, seed=205, rate=rate)


def holds(table: Table) -> Verdict:
    groups, others = table.curve("groups"), table.curve("select_first")
    low, high = min(groups), max(groups)
    kept = {
        name: table.value(name, high) / table.value(name, low)
        for name in (LOCATED, COUNTED, "groups", PAIRS)
    }
    fall, power = others[low] / others[high], -exponent(others)
    constant = 1 / spread(table.curve(LOCATED))
    text = (
        f"from {low:.1%} to {high:.0%} of the queries selected, {high / low:,.0f} times as many, "
        f"select_first falls by {fall:,.0f} times, with the power {power:.2f}; without output, "
        f"until the answer is located, groups keep {kept[LOCATED]:.0%} of their events per second, "
        f"{constant:.0%} at the worst point. What grows with the answer "
        f"keeps less: {kept[COUNTED]:.0%} until it is counted, {kept['groups']:.0%} as spans, "
        f"{kept[PAIRS]:.0%} as pairs. As spans, groups are {groups[high] / others[high]:,.0f} "
        f"times select_first at the highest rate, {groups[low] / others[low]:,.1f} times at the "
        "lowest."
    )
    return Verdict(constant > 0.8 and LINEAR[0] < power < LINEAR[1], text)


FIGURE = Figure(
    name="hotspot_fig8i",
    source="[hotspot] Fig. 8(i)",
    claim="The throughput of SJ-SelectFirst falls linearly with the share of queries that select "
    "the event; SJ-SSI (groups), until its answer is located, does not depend on it.",
    x_label="event selection rate",
    y_label="events per second",
    sweep={"smoke": (0.01, 0.3), "full": (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)},
    prepare=prepare,
    series={
        "groups": spans("groups"),
        LOCATED: located("groups"),
        COUNTED: counted("groups"),
        PAIRS: pairs("groups"),
        "hotspot": spans("hotspot"),
        "join_first": spans("join_first"),
        "select_first": spans("select_first"),
        "numpy, per event": peer(numpy_select.PerEvent),
        "numpy, per key": peer(numpy_select.PerKey),
    },
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset({"numpy, per event", "numpy, per key"}),
    notes="100,000 queries in 30 groups, 1,000 joining rows; longer ranges on A hold more events. "
    "The paper leaves the cost of output out of its measure. Located is ours without it: what is "
    "read after that is almost only what is hit (decision 008), 300 times as much at the right end "
    "as at the left. The claim holds when the least throughput of groups until then is 80 % of "
    "the greatest, and select_first falls with a power of the rate between 0.8 and 1.25.",
)
