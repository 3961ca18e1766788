"""What the router knows of rows in time: it follows the stream, and counts the rows of skylines."""

from __future__ import annotations

import numpy as np
import pytest

from standfast.arrays import Int64s
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals
from standfast.operators.costs import Constants, WayCosts, defaults
from standfast.operators.group_stats import LARGEST
from standfast.operators.time_stats import TimeStats
from standfast.operators.traits import SideStats
from standfast.operators.window_join.routed import Routed


def rows_at(*runs: range) -> SortedRuns:
    """Rows of one code at these times, a run for each range."""
    stored, n = SortedRuns(coded=True, n_extras=1), 0
    for times in runs:
        size = len(times)
        ids = np.arange(n, n + size)
        stored.insert(ids, ids, np.zeros(size, np.int64), np.array([times]))
        n += size
    return stored


def event_at(time: int) -> Arrivals:
    return Arrivals(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([time]))


def test_the_rows_within_the_largest_window_are_those_of_all_runs() -> None:
    """The first run alone was asked, and new rows are in the others."""
    stored = rows_at(range(10_000, 20_000), range(30_000, 31_000))
    assert len(stored.runs) == 2
    stats = TimeStats(is_float=False)
    stats.look(event_at(31_000), stored, 2_000)
    assert stats.near == pytest.approx(1 / 11, abs=0.03)


def test_they_follow_the_stream_batch_by_batch() -> None:
    stored, stats = rows_at(range(1000)), TimeStats(is_float=False)
    stats.look(event_at(999), stored, 2000)
    assert stats.near == 1, "the first batch is believed"
    stats.look(event_at(10_000), stored, 2000)
    assert stats.near == pytest.approx(7 / 8)
    for _ in range(60):
        stats.look(event_at(10_000), stored, 2000)
    assert stats.near < 0.01


def test_without_rows_or_events_nothing_is_learned() -> None:
    stats = TimeStats(is_float=False)
    stats.look(event_at(0), SortedRuns(coded=True, n_extras=1), 5)
    stats.look(Arrivals(*(np.empty(0, np.int64) for _ in range(3))), rows_at(range(9)), 5)
    assert stats.near is None
    assert stats.stats(0.5, 10, 2)["near"] == 0


def test_skylines_are_counted_where_a_way_has_them_and_else_guessed() -> None:
    stats = TimeStats(is_float=False)
    stats.look(event_at(0), rows_at(range(9)), 100)
    few, many = (stats.stats(1.0, rows, 2)["skyline"] for rows in (20, 2000))
    assert 0 < few < many < 50, "it grows with the logarithm of the rows"
    stats.climb(3.0)
    assert stats.stats(1.0, 2000, 2)["skyline"] == 3
    stats.climb(11.0)
    assert stats.stats(1.0, 2000, 2)["skyline"] == 4
    stats.climb(None)
    assert stats.stats(1.0, 2000, 2)["skyline"] == 4


def boxes(n: int) -> tuple[Int64s, Int64s]:
    """Queries that hold every row and event, of one group."""
    return np.zeros((3, n), np.int64), np.full((3, n), 10**6)


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("way", ["groups", "hotspot"])
def test_the_router_knows_the_skylines_of_the_way_that_has_them(
    way: str, newest_first: bool
) -> None:
    """From the point of the group on, rows count that are newer than all before them."""
    routed, n = Routed(is_float=False), 40
    routed.add(np.arange(5), *boxes(5))
    stored = SortedRuns(coded=True, n_extras=1)
    times = np.arange(n)[:: -1 if newest_first else 1]
    stored.insert(np.arange(n), np.arange(n), np.zeros(n, np.int64), times[None])
    routed.inner.routing.build(way)
    if way != "groups":
        routed.inner.routing.drop("groups")
    strategy = routed.inner.routing.built[way]
    strategy.process(event_at(n), stored, side=0)
    stats, _ = routed.inner.features(event_at(n), stored, 0)
    part = strategy.sides.of(0) if way == "groups" else strategy.sides.of(0).hot
    assert stats["skyline"] == part.n_points / part.partition.n_groups
    assert 1 <= stats["skyline"] <= n


def with_terms(way: str, **terms: float) -> Constants:
    """The defaults of window joins, with the terms of one way as they are told and else 0."""
    known = defaults()
    ways = dict(known.ways["window_join"])
    nothing = dict.fromkeys(ways[way].terms, 0.0)
    ways[way] = WayCosts(ways[way].build, ways[way].spans, nothing | terms)
    return Constants("test", {**known.ways, "window_join": ways})


def test_longer_skylines_make_groups_dearer() -> None:
    """Their rows are read for every group that an event meets."""
    routed = Routed(is_float=False, constants=with_terms("groups", **{"skyline x met": 1.0}))
    routed.add(np.arange(5), *boxes(5))
    stored = rows_at(range(40))
    place = routed.inner.routing.model.ways.index("groups")
    costs = []
    for skyline in (2.0, 6.0):
        routed.inner.times[0].skyline = skyline
        stats, traits = routed.inner.features(event_at(40), stored, 0)
        costs.append(float(routed.inner.routing.model.weights(stats)[place] @ traits[:, 0]))
    assert costs == pytest.approx([2.0, 6.0]), "one group is met"


def test_hot_queries_that_cost_as_much_as_scattered_ones_are_not_worth_a_group() -> None:
    """What a hot query costs by itself was left out, so that small groups were thought to pay."""
    side = SideStats(0)
    side.add(*(ends[:2] for ends in boxes(100)))
    side.traits(np.zeros(4, np.int64), np.arange(4), np.full(4, 10))
    hot = {"hot x call": 40.0, "stabbed": 0.0, "stabbed_search": 0.0}
    alone = {"stabbed": 0.5, "stabbed_search": 0.0}
    assert side.decide(hot, hot, alone)
    worth = side.groups.least
    side.decide(hot | {"stabbed": 0.4}, hot, alone)
    assert worth < side.groups.least < LARGEST
    side.decide(hot | {"stabbed": 0.5}, hot, alone)
    assert side.groups.least >= LARGEST
