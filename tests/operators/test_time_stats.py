"""What the router knows of rows in time: it follows the stream, and counts the rows of skylines."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

import numpy as np
import pytest

from standfast.arrays import Int64s
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.numbers import float_keys
from standfast.operators.base import Arrivals
from standfast.operators.costs import Constants, WayCosts, defaults
from standfast.operators.group_stats import LARGEST, least_hot
from standfast.operators.time_stats import SkylineSize, TimeStats, sampled
from standfast.operators.traits import SideStats
from standfast.operators.window_join.groups import MOST_EVENTS, GroupsOfSide
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
    assert stats.stats(0.5, 10, 2, 1)["near"] == 0


def test_times_that_are_float_are_measured_as_such() -> None:
    """An infinite time is infinitely far from a finite one."""
    stored = SortedRuns(coded=True, n_extras=1)
    times = float_keys(np.array([0.5, 1.0, 2.0, np.inf]))
    stored.insert(np.arange(4), np.arange(4), np.zeros(4, np.int64), times[None])
    largest = int(float_keys(np.array([1.0]))[0])
    event = Arrivals(*np.zeros((2, 1), np.int64), float_keys(np.array([1.5])))
    stats = TimeStats(is_float=True)
    stats.look(event, stored, largest)
    assert stats.near == 0.75


def test_a_sample_is_even_over_all_parts() -> None:
    """Each run gave a row at least, however short, and the shortest have the newest rows."""
    parts = [
        np.arange(10_000),
        np.arange(10_000, 11_000),
        *(np.array([n]) for n in (11_000, 11_001)),
    ]
    sample = sampled(parts, 32)
    assert np.unique(np.diff(sample)).tolist() == [11_002 // 32]
    assert sampled([np.arange(3), np.arange(3, 5)], 32).tolist() == [*range(5)]


@dataclass
class Counts:
    """What groups have counted."""

    n_points: int
    n_stabbing: int


def test_skylines_are_counted_where_a_way_has_them_and_else_guessed() -> None:
    size = SkylineSize()
    few, many = (size.known_or_guessed(rows, 2) for rows in (20, 2000))
    assert 0 < few < many < 50, "it grows with the logarithm of the rows"
    counts = Counts(12, 4)
    size.learn(counts)
    assert size.known_or_guessed(2000, 2) == 3
    size.learn(counts)
    assert size.known == 3, "nothing was counted since"
    counts.n_points, counts.n_stabbing = 34, 6
    size.learn(counts)
    assert size.known == 4, "the two new ones have 11 each"
    size.learn(Counts(0, 0))
    assert size.known == 4, "a way that was made anew has not counted yet"
    size.learn(None)
    assert size.known_or_guessed(2000, 2) == many


def test_counts_of_a_way_that_was_dropped_are_not_kept() -> None:
    size, counts = SkylineSize(), Counts(1, 1)
    size.learn(counts)
    gone = weakref.ref(counts)
    del counts
    gc.collect()
    assert gone() is None


def boxes(n: int) -> tuple[Int64s, Int64s]:
    """Queries that hold every row and event, of one group."""
    return np.zeros((3, n), np.int64), np.full((3, n), 10**6)


def skyline_of(way: str, times: Int64s, events: Arrivals) -> float:
    """What the router knows after a way answered these events; rows of code 0 by ascending key.

    Five queries of one group, whose point is at most that of the first row's key or at least the
    last one's: the rows count that are newer than all between them and the point.
    """
    routed, n = Routed(is_float=False), times.size
    routed.add(np.arange(5), *boxes(5))
    stored = SortedRuns(coded=True, n_extras=1)
    stored.insert(np.arange(n), np.arange(n), np.zeros(n, np.int64), times[None])
    routing = routed.inner.routing
    routing.build(way)
    if way != "groups":
        routing.drop("groups")
    routing.built[way].process(events, stored, side=0)
    stats, _ = routed.inner.features(event_at(10**5), stored, 0)
    name, other = ("skyline", "hot_skyline") if way == "groups" else ("hot_skyline", "skyline")
    size = routed.inner.times[0]
    assert (size.hot_skyline if way == "groups" else size.skyline).known is None, other
    return stats[name]


@pytest.mark.parametrize("way", ["groups", "hotspot"])
def test_the_router_knows_the_skylines_of_the_way_that_has_them(way: str) -> None:
    n = 40
    ascending, descending = np.arange(n), np.arange(n)[::-1]
    assert {skyline_of(way, t, event_at(n)) for t in (ascending, descending)} == {1.0, float(n)}


def test_every_turn_counts_and_events_without_rows_do_not() -> None:
    """The last turn of a batch was taken for all of it, events of codes without rows with it."""
    n = 2 * MOST_EVENTS + 1
    codes = np.zeros(n, np.int64)
    codes[MOST_EVENTS + 1 :] = 7  # nobody has it
    events = Arrivals(codes, np.zeros(n, np.int64), np.full(n, 50))
    sizes = {skyline_of("groups", t, events) for t in (np.arange(40), np.arange(40)[::-1])}
    assert sizes == {1.0, 40.0}


def test_groups_that_were_there_then_are_counted() -> None:
    """Rows that were counted around groups of then were divided by those of now."""
    part = GroupsOfSide(0, is_float=False)
    lows, highs = boxes(4)
    highs[1] = lows[1] = 1000 * np.arange(4)
    part.add(np.arange(4), lows, highs)
    stored = rows_at(range(40))
    part.process(event_at(40), stored)
    part.remove(np.arange(4))
    size = SkylineSize()
    size.learn(part)
    assert part.n_stabbing == 4
    assert size.known == part.n_points / 4


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
    routing = routed.inner.routing
    routing.build("select_first")
    routing.drop("groups")
    place, costs = routing.model.ways.index("groups"), list[float]()
    for n_rows in (40, 4000):
        stats, traits = routed.inner.features(event_at(40), rows_at(range(n_rows)), 0)
        costs.append(float(routing.model.weights(stats)[place] @ traits[:, 0]) / stats["skyline"])
    assert costs == pytest.approx([1.0, 1.0]), "one group is met"
    assert routed.inner.times[0].skyline.known is None
    routed.process(event_at(40), stored, side=0)


def decided(us: dict[str, float]) -> float:
    """The least size that is hot by these constants where a scattered query costs half a us."""
    side = SideStats(0)
    side.add(*(ends[:2] for ends in boxes(1000)))
    side.traits(np.zeros(4, np.int64), np.arange(4), np.full(4, 10))
    nothing = {"stabbed": 0.0, "stabbed_search": 0.0}
    assert side.decide(nothing | us, nothing, {"stabbed": 0.5, "stabbed_search": 0.0})
    return side.groups.least


def test_hot_queries_that_cost_as_much_as_scattered_ones_are_not_worth_a_group() -> None:
    """What a hot query costs by itself was left out, so that small groups were thought to pay."""
    call = {"hot x call": 40.0}  # 10 for each of four events
    assert decided(call) == pytest.approx(20, rel=0.06)
    assert decided(call | {"stabbed": 0.4}) == pytest.approx(100, rel=0.06)
    assert decided(call | {"stabbed": 0.5}) >= LARGEST


def test_a_group_costs_what_its_stairs_cost_when_one_of_its_queries_is_met() -> None:
    """The chance was that of an average group, far less than that of the large ones."""
    assert decided({"hot_met": 50.0}) == pytest.approx(100, rel=0.06)
    # A group of s has 0.1 s members that are met: 50 from ten on, 0.05 s for its members alone.
    assert least_hot(0.0, 0.0, 0.05, 50.0, 0.1) == pytest.approx(1000, rel=0.06)
    assert least_hot(0.0, 0.0, 0.05, 0.4, 0.1) == 1, "each is met as seldom as it costs"


def test_a_window_that_was_the_largest_counts_until_it_leaves() -> None:
    # One wide query that came and went made joining first look dear for good.
    routed, stored = Routed(is_float=False), SortedRuns(coded=True, n_extras=1)
    stored.insert(np.arange(100), np.arange(100), np.zeros(100, np.int64), np.arange(100)[None])
    lows, highs = boxes(4)
    highs[2] = [9, 9, 10**6, 49]
    routed.add(np.arange(4), lows, highs)

    def near() -> float:
        routed.inner.forget_times()
        stats, _ = routed.inner.features(event_at(100), stored, 0)
        return stats["near"]

    wide = near()
    routed.remove(np.array([0]))
    assert near() == wide == 1.0
    routed.remove(np.array([2]))
    half = near()
    assert 0.4 < half < 0.6
    routed.remove(np.array([3]))
    assert near() < 0.2
    routed.add(np.array([4]), lows[:, :1], highs[:, 3:])
    assert near() == half
    routed.remove(np.array([1, 4]))
    routed.add(np.array([5]), lows[:, :1], highs[:, 3:])
    assert near() == half
