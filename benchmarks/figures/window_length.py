"""Window join throughput over the length of the windows."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.window_case import MET, SERIES, WindowCase, window_case
from standfast.workloads import bands_in_groups

N_GROUPS = 30


def prepare(longest: float, size: Size) -> WindowCase:
    n_queries = 100_000 if size == "full" else 2_000
    ranges = bands_in_groups(n_queries, N_GROUPS, seed=222)
    return window_case(ranges, size, seed=223, longest=longest)


def holds(table: Table) -> Verdict:
    groups, joins = table.curve("groups"), table.curve("join_first")
    short, long = min(groups), max(groups)
    lead = {x: groups[x] / joins[x] for x in groups}
    kept, fall = groups[long] / groups[short], joins[short] / joins[long]
    reached = table.curve("join_first", MET)
    text = (
        f"from windows of up to {short:.1%} to {long:.0%} of the rows' time span an event joins "
        f"with {reached[short]:,.0f} to {reached[long]:,.0f} rows and meets "
        f"{table.value('groups', short, MET):,.0f} skyline points; join_first falls by "
        f"{fall:,.0f} times, groups keep {kept:.0%} and select_first "
        f"{table.value('select_first', long) / table.value('select_first', short):.0%}. Groups "
        f"are {min(lead.values()):,.1f} to {max(lead.values()):,.0f} times join_first."
    )
    return Verdict(kept * fall > 2 and min(lead.values()) > 1 and lead[long] >= 10, text)


FIGURE = Figure(
    name="window_length",
    source="in the spirit of [hotspot] Fig. 8(ii)",
    claim="The throughput of WJ-JoinFirst (join_first) falls with the rows that the longest window "
    "reaches; WJ-SSI (groups) falls less, only because more queries are affected, and is faster "
    "with any window, with the longest at least 10 times.",
    x_label="longest window / time span of the rows",
    y_label="events per second",
    sweep={"smoke": (0.03, 1), "full": (0.003, 0.01, 0.03, 0.1, 0.3, 1)},
    prepare=prepare,
    series=SERIES,
    holds=holds,
    log_x=True,
    log_y=True,
    notes="100,000 queries in 30 groups, event selection rate 0.1, 1,000 stored rows per key; the "
    "windows of the queries are 10 % to 100 % of the longest one. Skylines are kept for any "
    "window, so that time that goes on does not make them stale.",
)
