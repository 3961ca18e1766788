"""The select-join's bars: how many times the events per second of its rivals and of the peers."""

from __future__ import annotations

from benchmarks.figure import Figure, Size, Table, Verdict
from benchmarks.peers import (
    duckdb_select,
    numpy_select,
    polars_select,
    postgres_select,
    rtree_select,
)
from benchmarks.select_case import SelectCase, located, pairs, peer, spans, table_one
from standfast.workloads import bands_in_groups

N_GROUPS = 30
WAYS = ("join_first", "select_first")
POSTGRES = "postgresql, gist"
PEERS = {
    "numpy, per event": peer(numpy_select.PerEvent),
    "numpy, per key": peer(numpy_select.PerKey),
    "duckdb, select first": peer(duckdb_select.SelectFirst),
    "duckdb, per key": peer(duckdb_select.PerKey),
    "polars, per event": peer(polars_select.PerEvent),
    "polars, per key": peer(polars_select.PerKey),
    "rtree, select first": peer(rtree_select.SelectFirst),
    "rtree, join first": peer(rtree_select.JoinFirst, most_queries=5_000),
    POSTGRES: peer(postgres_select.GistRanges),
}


def prepare(n_queries: float, size: Size) -> SelectCase:
    return table_one(bands_in_groups(int(n_queries), N_GROUPS, seed=210), size, seed=211)


def holds(table: Table) -> Verdict:
    ((x, compact),) = table.curve("located").items()
    measured = {name: rate for name in PEERS for rate in table.curve(name).values()}
    fastest = max(measured, key=lambda name: measured[name])
    rivals = {way: table.value(way, x) for way in WAYS} | {fastest: measured[fastest]}
    forms = []
    for form in ("located", "spans", "pairs"):
        rate = table.value(form, x)
        lead = ", ".join(f"{rate / rival:,.1f} times {name}" for name, rival in rivals.items())
        forms.append(f"{form} {rate:,.0f} events/s: {lead}")
    each = ", ".join(f"{name} {rate:,.0f}" for name, rate in measured.items())
    absent = "" if POSTGRES in measured else " PostgreSQL was not found here."
    text = (
        f"at {x:,.0f} queries, {'; '.join(forms)}. Peers, in events/s: {each}.{absent} "
        "All results are equal."
    )
    leads = [compact / rivals[way] >= 20 for way in WAYS]
    return Verdict(all(leads) and compact >= 100 * measured[fastest], text)


FIGURE = Figure(
    name="bar_select_join",
    source="project bar",
    claim="100,000 select-joins in about 30 groups, 1,000 joining rows, event selection rate 0.1: "
    "until the compact answer is there at least 20 times join_first, 20 times select_first and "
    "100 times the best peer.",
    x_label="standing queries",
    y_label="events per second",
    sweep={"smoke": (2_000,), "full": (100_000,)},
    prepare=prepare,
    series={
        "spans": spans("groups"),
        "located": located("groups"),
        "pairs": pairs("groups"),
        "hotspot": spans("hotspot"),
        **{way: spans(way) for way in WAYS},
        **PEERS,
    },
    holds=holds,
    log_y=True,
    rounds=2,
    notes="The compact answer is the place of each event in each group and the reach of the rows "
    "of each key: what the bar of band joins measures, too. An event affects about 10,000 "
    "queries here, so whoever writes them out, as all rivals and peers do, is bound by memory; "
    "the verdict has our spans and pairs beside it. Every peer has the best plans found for it, "
    "described in its file; plans that share work between the events of one key are given as "
    "many events at once as they like.",
)
