"""[hotspot] Fig. 7(ii): select-join throughput over the number of stabbing groups."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.peers import numpy_select
from benchmarks.select_case import SelectCase, located, peer, spans, table_one
from standfast.workloads import bands_in_groups

RATE = 0.0025  # 250 of the 100,000 queries
CROSSING = 2_000  # where the paper's curves meet
# Fewer events at once for more groups, so that the answer as spans fits into memory.
SPANS_AT_ONCE = 4_000_000


def prepare(n_groups: float, size: Size) -> SelectCase:
    n_queries = 100_000 if size == "full" else 4_000
    ranges = bands_in_groups(n_queries, int(n_groups), seed=202)
    case = table_one(ranges, size, seed=203, rate=RATE)
    n = max(case.n_checked, SPANS_AT_ONCE // int(n_groups))
    return replace(case, keys=case.keys[:n], values=case.values[:n])


def holds(table: Table) -> Verdict:
    groups, others = table.curve("groups"), table.curve("select_first")
    fewer = [x for x in groups if x < CROSSING]
    lead = {x: groups[x] / others[x] for x in groups}
    lost = [x for x in groups if lead[x] < 1]
    spread = max(others.values()) / min(others.values())
    where = f"select_first is faster from {min(lost):,.0f} groups on" if lost else "nowhere slower"
    text = (
        f"groups are {lead[min(groups)]:,.0f} times select_first at {min(groups):,.0f} groups and "
        f"{lead[max(fewer)]:,.1f} times at {max(fewer):,.0f}; {where}. From fewest to most groups, "
        f"groups fall by {groups[min(groups)] / groups[max(groups)]:,.0f} times; select_first "
        f"stays within {spread:.1f} times."
    )
    return Verdict(min(lead[x] for x in fewer) > 1, text)


FIGURE = Figure(
    name="hotspot_fig7ii",
    source="[hotspot] Fig. 7(ii)",
    claim="At 100,000 queries of which an event selects about 250, SJ-SSI (groups) gains from "
    "fewer groups and is faster than SJ-SelectFirst up to about 2,000 of them; SJ-SelectFirst and "
    "SJ-Vanilla do not depend on it.",
    x_label="stabbing groups",
    y_label="events per second",
    sweep={"smoke": (10, 200), "full": (10, 30, 100, 300, 1_000, 3_000, 10_000)},
    prepare=prepare,
    series={
        "groups": spans("groups"),
        "groups, located": located("groups"),
        "hotspot": spans("hotspot"),
        **{way: spans(way) for way in ("join_first", "select_first", "vanilla")},
        "numpy, per event": peer(numpy_select.PerEvent),
        "numpy, per key": peer(numpy_select.PerKey),
    },
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset({"numpy, per event", "numpy, per key"}),
    notes="The ranges on C become shorter, and so do their deviations, as in the paper.",
)
