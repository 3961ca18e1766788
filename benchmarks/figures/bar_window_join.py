"""The window join's bar: how many times the events per second of joining first, on how few rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.select_case import pairs, spans
from benchmarks.window_case import (
    MET,
    WindowCase,
    consulted,
    rows_in_reach,
    skyline_points,
    window_case,
)
from standfast.workloads import bands_in_groups

N_GROUPS = 30
RATE = "events per second"
AFTER, AMID = "after the rows", "amid the rows"
BY_DEFINITION = "by definition"
WAYS = ("join_first", "select_first")
Cases = dict[str, WindowCase]
Series = Callable[[Cases], Iterator[Reading]]


def prepare(n_queries: float, size: Size) -> Cases:
    ranges = bands_in_groups(int(n_queries), N_GROUPS, seed=228)
    return {
        panel: window_case(ranges, size, seed=229, amid=panel == AMID) for panel in (AFTER, AMID)
    }


def both(
    series: Callable[[WindowCase], Iterator[Reading]],
    met: Callable[[WindowCase], float] | None = None,
) -> Series:
    """A series of one case in either panel, and the rows that an event meets by it."""

    def measure(cases: Cases) -> Iterator[Reading]:
        for panel, case in cases.items():
            yield from (reading._replace(panel=f"{RATE}, {panel}") for reading in series(case))
            if met is not None:
                yield Reading(met(case), panel=f"{MET}, {panel}")

    return measure


def defined(cases: Cases) -> Iterator[Reading]:
    """The paper's set of skyline points, found by NumPy around the groups' stabbing points."""
    for panel, case in cases.items():
        yield Reading(skyline_points(case, consulted(case)[1]), panel=f"{MET}, {panel}")


def holds(table: Table) -> Verdict:
    ((x, _),) = table.curve("groups", f"{RATE}, {AFTER}").items()
    parts, fine = [], True
    for panel in (AFTER, AMID):
        rate, met = f"{RATE}, {panel}", f"{MET}, {panel}"
        found = table.value("groups", x, rate)
        lead = {way: found / table.value(way, x, rate) for way in WAYS}
        points, most, rows = (
            table.value(name, x, met) for name in ("groups", BY_DEFINITION, "join_first")
        )
        fine &= lead["join_first"] >= 10 and points <= most <= rows
        parts.append(
            f"events {panel}: {found:,.0f} a second, {lead['join_first']:,.0f} times join_first "
            f"and {lead['select_first']:,.1f} times select_first; an event meets {points:,.1f} "
            f"skyline points, by definition there are {most:,.1f}, of {rows:,.0f} joining rows"
        )
    text = "; ".join(parts)
    return Verdict(fine, f"at {x:,.0f} queries, {text}. All results are equal.")


FIGURE = Figure(
    name="bar_window_join",
    source="project bar",
    claim="100,000 window joins in about 30 groups, 1,000 joining rows, event selection rate 0.1: "
    "groups at least 10 times join_first, and they meet at most the skyline points.",
    x_label="standing queries",
    y_label="",
    sweep={"smoke": (2_000,), "full": (100_000,)},
    prepare=prepare,
    series={
        "groups": both(spans("groups"), lambda case: consulted(case)[0]),
        "groups, pairs": both(pairs("groups")),
        "hotspot": both(spans("hotspot")),
        "join_first": both(spans("join_first"), rows_in_reach),
        "select_first": both(spans("select_first")),
        "naive": both(spans("naive", 2_000)),
        BY_DEFINITION: defined,
    },
    holds=holds,
    log_y=True,
    rounds=2,
    notes="Windows of 10 % to 100 % of the rows' time span. Events that arrive out of order, amid "
    "the rows, need a skyline of their own each, since their nearest row may be newer; events "
    "after the rows share one per key. Skyline points are those of the paper's section 3.3.2, "
    "between neighbouring stabbing points; any group's own skyline is among them.",
)
