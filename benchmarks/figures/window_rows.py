"""Window join throughput over the rows per key, after [hotspot] Fig. 8(ii)."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.window_case import MET, SERIES, WindowCase, window_case
from standfast.workloads import bands_in_groups

N_GROUPS = 30


def prepare(n_joining: float, size: Size) -> WindowCase:
    n_queries = 100_000 if size == "full" else 2_000
    ranges = bands_in_groups(n_queries, N_GROUPS, seed=224)
    return window_case(ranges, size, seed=225, n_joining=n_joining)


def holds(table: Table) -> Verdict:
    groups, joins = table.curve("groups"), table.curve("join_first")
    met, rows = table.curve("groups", MET), table.curve("join_first", MET)
    few, many = min(groups), max(groups)
    kept, fall = groups[many] / groups[few], joins[few] / joins[many]
    text = (
        f"from {few:,.0f} to {many:,.0f} rows per key, {rows[many] / rows[few]:,.0f} times as "
        f"many, skyline points grow by {met[many] / met[few]:,.1f} times, to {met[many]:,.0f}; "
        f"join_first falls by {fall:,.0f} times, groups keep {kept:.0%} and select_first "
        f"{table.value('select_first', many) / table.value('select_first', few):.0%}. At "
        f"{many:,.0f} rows groups are {groups[many] / joins[many]:,.0f} times join_first."
    )
    slow = met[many] / met[few] < 0.2 * rows[many] / rows[few]
    return Verdict(slow and kept * fall >= 10 and groups[many] >= 10 * joins[many], text)


FIGURE = Figure(
    name="window_rows",
    source="in the spirit of [hotspot] Fig. 8(ii)",
    claim="The throughput of WJ-JoinFirst (join_first) falls linearly with the rows per key within "
    "the window; skylines grow with the logarithm only, and WJ-SSI (groups) falls at least 10 "
    "times less from 10 to 10,000 rows, where it is at least 10 times as fast.",
    x_label="rows per key",
    y_label="events per second",
    sweep={"smoke": (20, 200), "full": (10, 100, 1_000, 10_000)},
    prepare=prepare,
    series=SERIES,
    holds=holds,
    log_x=True,
    log_y=True,
    notes="100,000 queries in 30 groups, event selection rate 0.1, 100,000 rows; fewer keys make "
    "more rows join. More rows also affect more queries, up to all that select the event.",
)
