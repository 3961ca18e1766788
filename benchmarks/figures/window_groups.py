"""Window join throughput over the number of stabbing groups, after [hotspot] Fig. 7(ii)."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.window_case import MET, SERIES, WindowCase, window_case
from standfast.workloads import bands_in_groups

FEW = 300  # groups up to which the claim is made


def prepare(n_groups: float, size: Size) -> WindowCase:
    n_queries = 100_000 if size == "full" else 2_000
    return window_case(bands_in_groups(n_queries, int(n_groups), seed=226), size, seed=227)


def holds(table: Table) -> Verdict:
    groups, joins = table.curve("groups"), table.curve("join_first")
    others, met = table.curve("select_first"), table.curve("groups", MET)
    fewest, most = min(groups), max(groups)
    lost = [x for x in groups if groups[x] < max(others[x], joins[x])]
    where = f"another way is faster from {min(lost):,.0f} groups on" if lost else "nowhere slower"
    text = (
        f"with {fewest:,.0f} groups an event meets {met[fewest]:,.0f} skyline points, with "
        f"{most:,.0f} {met[most]:,.0f} of {table.value('join_first', most, MET):,.0f} rows; groups "
        f"fall by {groups[fewest] / groups[most]:,.1f} times. They are "
        f"{groups[fewest] / joins[fewest]:,.0f} times join_first and "
        f"{groups[fewest] / others[fewest]:,.1f} times select_first with the fewest groups, "
        f"{groups[most] / joins[most]:,.1f} and {groups[most] / others[most]:,.2f} times with the "
        f"most; {where}."
    )
    clustered = [x for x in groups if x <= FEW]
    ahead = all(groups[x] > max(others[x], joins[x]) for x in clustered)
    return Verdict(ahead and groups[fewest] >= 10 * joins[fewest], text)


FIGURE = Figure(
    name="window_groups",
    source="in the spirit of [hotspot] Fig. 7(ii)",
    claim="More groups mean more skyline points and slower WJ-SSI (groups); with up to 300 groups "
    "of 100,000 queries it is faster than WJ-JoinFirst (join_first), at first at least 10 times, "
    "and than WJ-SelectFirst (select_first).",
    x_label="stabbing groups",
    y_label="events per second",
    sweep={"smoke": (10, 200), "full": (10, 30, 100, 300, 1_000, 5_000)},
    prepare=prepare,
    series=SERIES,
    holds=holds,
    log_x=True,
    log_y=True,
    notes="Event selection rate 0.1, 1,000 rows per key. The ranges on C become shorter with more "
    "groups, so that fewer rows lie in each and fewer queries are affected.",
)
