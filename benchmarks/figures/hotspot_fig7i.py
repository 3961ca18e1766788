"""[hotspot] Fig. 7(i): select-join throughput over the number of standing queries."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import numpy_select
from benchmarks.select_case import (
    SelectCase,
    counted,
    located,
    one_by_one,
    pairs,
    peer,
    spans,
    table_one,
)
from standfast.indexes.stabbing_partition import canonical
from standfast.workloads import bands_in_groups

N_GROUPS = 30
PAPERS_MOST = 100_000  # the other ways are measured as far as the paper goes
COUNT = "stabbing groups"
ONE_BY_ONE = "groups, one event a call"
LOCATED, COUNTED, PAIRS = "groups, located", "groups, counted", "groups, pairs"
SLOWER = ("join_first", "select_first", "vanilla")


def prepare(n_queries: float, size: Size) -> SelectCase:
    return table_one(bands_in_groups(int(n_queries), N_GROUPS, seed=200), size, seed=201)


def groups(case: SelectCase) -> Iterator[Reading]:
    """Throughput of the groups, and how many groups there are."""
    yield from spans("groups")(case)
    yield Reading(canonical(case.lows[1], case.highs[1])[1].size, panel=COUNT)


def holds(table: Table) -> Verdict:
    groups, first = table.curve("groups"), min(table.curve("groups"))
    far = max(x for x in groups if x <= PAPERS_MOST)
    lead = {way: groups[far] / table.value(way, far) for way in SLOWER}
    kept = {
        name: table.value(name, far) / table.value(name, first)
        for name in (LOCATED, COUNTED, "groups", PAIRS, ONE_BY_ONE)
    }
    wins, stays = min(lead.values()) > 20, kept[LOCATED] > 0.8
    text = (
        f"at {far:,.0f} queries, groups are, as spans, {lead['join_first']:,.0f} times join_first, "
        f"{lead['select_first']:,.0f} times select_first and {lead['vanilla']:,.0f} times vanilla; "
        f"20 times all of them, {'yes' if wins else 'no'}. Falling by less than 20 % without "
        f"output, {'yes' if stays else 'no'}: from {first:,.0f} to {far:,.0f} queries "
        f"({table.value('groups', first, COUNT):.0f} and {table.value('groups', far, COUNT):.0f} "
        f"groups) they keep {kept[LOCATED]:.0%} of their events per second until the answer is "
        f"located. What grows with the answer keeps less: {kept[COUNTED]:.0%} until it is counted, "
        f"{kept['groups']:.0%} as spans, {kept[PAIRS]:.0%} as pairs; spans of one event a call "
        f"{kept[ONE_BY_ONE]:.0%}."
    )
    return Verdict(wins and stays, text)


FIGURE = Figure(
    name="hotspot_fig7i",
    source="[hotspot] Fig. 7(i)",
    claim="With about 30 groups, 1,000 joining rows and an event selection rate of 0.1, the "
    "throughput of SJ-SSI (groups) falls by less than 20 % from 100 to 100,000 queries, where "
    "SJ-JoinFirst reaches less than 5 % of it; groups are 20 times SJ-SelectFirst and SJ-Vanilla.",
    x_label="standing queries",
    y_label="events per second",
    sweep={"smoke": (100, 2_000), "full": (100, 1_000, 10_000, 100_000, 1_000_000)},
    prepare=prepare,
    series={
        "groups": groups,
        LOCATED: located("groups"),
        COUNTED: counted("groups"),
        PAIRS: pairs("groups", PAPERS_MOST),
        ONE_BY_ONE: one_by_one("groups"),
        "hotspot": spans("hotspot", PAPERS_MOST),
        **{way: spans(way, PAPERS_MOST) for way in SLOWER},
        "naive": spans("naive", 2_000),
        "numpy, per event": peer(numpy_select.PerEvent, PAPERS_MOST),
        "numpy, per key": peer(numpy_select.PerKey, PAPERS_MOST),
    },
    holds=holds,
    log_x=True,
    log_y=True,
    dashed=frozenset({"numpy, per event", "numpy, per key"}),
    notes="100,000 stored rows with 100 join keys, normally distributed, so that events join with "
    "1,000 rows on average, as in the paper (the 10,000 keys of its table would make it 10). "
    "The paper leaves the cost of output out of its measure. Located is ours without it: the place "
    "of each event in each group and the reach of each key's rows are known. The search inside the "
    "groups, which the paper has in its measure, comes with counting: it meets almost only what is "
    "hit (decision 008), and so grows with the answer. An event affects a thousand times as many "
    "queries at the right end as at the left. Spans name them in slices, and pairs one by one; the "
    "ways that enumerate have written them out.",
)
