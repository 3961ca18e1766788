"""Window join throughput over the number of standing queries, after [hotspot] Fig. 7(i)."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.window_case import MOST_QUERIES, SERIES, WindowCase, window_case
from standfast.workloads import bands_in_groups

N_GROUPS = 30
OTHERS = ("join_first", "select_first")


def prepare(n_queries: float, size: Size) -> WindowCase:
    return window_case(bands_in_groups(int(n_queries), N_GROUPS, seed=220), size, seed=221)


def holds(table: Table) -> Verdict:
    rates = {way: table.curve(way) for way in ("groups", *OTHERS)}
    shared = [x for x in rates["groups"] if x <= MOST_QUERIES]
    first, far, last = min(shared), max(shared), max(rates["groups"])
    lead = {way: {x: rates["groups"][x] / rates[way][x] for x in shared} for way in OTHERS}
    falls = ", ".join(f"{way} {rates[way][first] / rates[way][far]:,.0f}" for way in rates)
    lost = [x for x in shared if lead["select_first"][x] < 1]
    where = f"select_first is faster up to {max(lost):,.0f}" if lost else "nowhere slower"
    text = (
        f"at {far:,.0f} queries groups are {lead['join_first'][far]:,.0f} times join_first and "
        f"{lead['select_first'][far]:,.1f} times select_first; at {first:,.0f} they are "
        f"{lead['join_first'][first]:,.1f} and {lead['select_first'][first]:,.2f} times; {where}. "
        f"An event affects as many times more queries as there are: from {first:,.0f} to "
        f"{far:,.0f} the ways fall by these times: {falls}. At {last:,.0f} queries groups take "
        f"{rates['groups'][last]:,.0f} events/s, that is {rates['groups'][last] * last / 10:,.0f} "
        "queries that select the event told apart per second."
    )
    ahead = min(lead["join_first"].values()) > 1
    return Verdict(ahead and lead["join_first"][far] >= 10 and lead["select_first"][far] > 1, text)


FIGURE = Figure(
    name="window_queries",
    source="in the spirit of [hotspot] Fig. 7(i)",
    claim="Window joins in about 30 groups, 1,000 joining rows, event selection rate 0.1: WJ-SSI "
    "(groups) is faster than WJ-JoinFirst (join_first) with any number of queries, and with "
    "100,000 at least 10 times, and faster than WJ-SelectFirst (select_first) there.",
    x_label="standing queries",
    y_label="events per second",
    sweep={"smoke": (100, 2_000), "full": (100, 1_000, 10_000, 100_000, 1_000_000)},
    prepare=prepare,
    series=SERIES,
    holds=holds,
    log_x=True,
    log_y=True,
    notes="The select-joins of Fig. 7(i) with windows of 10 % to 100 % of the rows' time span and "
    "events that come after all rows. Measured until the affected queries are known as spans; all "
    "ways have written them out by then. The paper has no figures of window joins.",
)
