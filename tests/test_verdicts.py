"""A figure's verdict judges what its claim says: values that contradict it do not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks.churn_case import MEDIAN
from benchmarks.figure import Row, Table, exponent, load, spread
from benchmarks.figures import bar_routing, bar_routing_churn, figures, hotspot_fig12
from benchmarks.routing_case import (
    CHOOSING,
    ERROR,
    MEAN,
    OPTIMUM,
    ORACLE,
    ROUTED,
    SHARE,
    WAYS,
    Costs,
    least_splits,
)
from benchmarks.routing_verdict import standing

RESULTS = Path(command.__file__).parent / "results"
BY_NAME = {figure.name: figure for figure in figures()}
Change = Callable[[Row], float]


def changed(table: Table, series: str, change: Change) -> Table:
    """The table with other values of one series."""
    rows = (
        r._replace(value=change(r)) if r.series == series and not r.panel else r for r in table.rows
    )
    return replace(table, rows=tuple(rows))


@pytest.mark.parametrize(
    ("name", "series", "change"),
    [
        ("hotspot_fig7ii", "groups, counted", lambda r: 1e6),  # gains nothing
        ("hotspot_fig7ii", "groups, counted", lambda r: r.value * (0.5 if r.x == 30 else 1)),
        ("hotspot_fig7ii", "select_first", lambda r: 1e5 / np.sqrt(r.x)),  # depends on groups
        ("hotspot_fig7ii", "vanilla", lambda r: 1e5 / np.sqrt(r.x)),
        ("hotspot_fig8i", "select_first", lambda r: r.x**-0.7),
        ("hotspot_fig8i", "select_first", lambda r: r.x**-1.5),
        ("hotspot_fig8i", "groups, located", lambda r: 7e6 if r.x == 0.01 else 1e7),
        ("hotspot_fig8ii", "join_first", lambda r: r.x**-0.7),
        ("hotspot_fig8ii", "join_first", lambda r: r.x**-1.5),
        ("hotspot_fig9", "groups", lambda r: r.value / 100),  # select_first always wins
        ("hotspot_fig9", "groups", lambda r: 100 * r.value + 1e4),  # groups always win
        ("hotspot_fig9", "select_first", lambda r: r.value * (1 + r.x)),  # uses clusters
    ],
)
def test_what_contradicts_a_claim_does_not_hold(name: str, series: str, change: Change) -> None:
    figure, table = BY_NAME[name], load(RESULTS / f"{name}.csv")
    assert figure.verdict(table).holds
    assert not figure.verdict(changed(table, series, change)).holds


def test_powers_and_spreads() -> None:
    assert exponent({1: 5.0, 10: 0.5, 100: 0.05}) == pytest.approx(-1)
    assert spread({1: 5.0, 10: 2.0}) == 2.5


def routed_table(routed: float, oracle: float, mean: float | None = None) -> Table:
    """A point where groups answer 100 events a second, and one where the router does."""
    rows = []
    for x in (0.0, 1.0):
        rows += [Row("", way, x, 100.0 if way == "groups" else 50.0) for way in WAYS]
        rows += [Row(SHARE, way, x, 90.0 if way == "hotspot" else 0.5) for way in WAYS]
        rows += [Row("", ROUTED, x, routed), Row("", ORACLE, x, oracle if x else 100.0)]
        rows += [Row(OPTIMUM, ROUTED, x, 50.0), Row(CHOOSING, ROUTED, x, 1.0)]
        if mean is not None:
            rows += [Row(MEAN, way, x, 80.0 if way == "groups" else 40.0) for way in WAYS]
            rows += [Row(MEAN, ROUTED, x, mean), Row(ERROR, ROUTED, x, 0.5 + x)]
    return Table("a test", "smoke", "a machine", tuple(rows))


@pytest.mark.parametrize("holds", [bar_routing.holds, hotspot_fig12.holds])
def test_the_routers_verdict_says_where_the_oracle_is_one_way_and_what_means_say(
    holds: Callable[[Table], object],
) -> None:
    text = str(holds(routed_table(98.0, 104.0)))
    assert "one static way at 1 of 2 points" in text
    assert "mean" not in text, "older values lack it"
    text = str(holds(routed_table(98.0, 104.0, mean=60.0)))
    assert "by the mean of all runs the router has 0.75 to 0.75 times" in text
    assert "the error of these ratios is 1.5 % at most" in text
    assert standing(routed_table(98.0, 104.0)).of_best == {0.0: 0.98, 1.0: 0.98}


def test_the_oracle_splits_buckets_so_that_calls_and_events_cost_least() -> None:
    """The fastest way of every bucket alone pays five calls for next to nothing."""
    calls = np.array([1.0, 1.0, 1.0, 1.0, 1.0])
    buckets = np.array([[9.0, 9, 9, 9], [1, 9, 9, 9], [9, 1, 9, 9], [9, 9, 8.9, 9], [9, 9, 9, 8.9]])
    splits = [split.tolist() for split in least_splits(Costs(calls, buckets))]
    least = min(
        sum(calls[list(set(split))]) + sum(buckets[way, b] for b, way in enumerate(split))
        for split in splits
    )
    assert least == pytest.approx(2 + 1 + 1 + 9 + 9), "two ways, the others do not pay for a call"
    assert len({tuple(split) for split in splits}) > 2
    close = Costs(np.zeros(2), np.array([[10.0, 10.0], [9.0, 12.0]]))
    assert [s.tolist() for s in least_splits(close)] == [[1, 0], [0, 0]], (
        "without and with a margin"
    )


def churned(routed: float, choosing: float) -> Table:
    rows = [Row(panel, way, 10.0, 100.0) for panel in ("", MEDIAN) for way in ("groups", "hotspot")]
    rows += [Row(panel, ROUTED, 10.0, routed) for panel in ("", MEDIAN)]
    rows.append(Row(CHOOSING, ROUTED, 10.0, choosing))
    return Table("a test", "full", "a machine", tuple(rows))


def test_the_router_has_to_be_close_and_cheap_while_queries_come_and_go() -> None:
    holds = bar_routing_churn.holds
    assert holds(churned(96.0, 1.0)).holds
    assert not holds(churned(94.0, 1.0)).holds
    assert not holds(churned(96.0, 3.1)).holds
