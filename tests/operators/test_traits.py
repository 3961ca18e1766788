"""What the router knows of a side: it follows the queries and the rows, and holds on to nobody."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from tests.operators.routing import Clock

from standfast.arrays import Int64s
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals
from standfast.operators.equality import BoxTable
from standfast.operators.select_join.routed import Routed
from standfast.operators.traits import ENOUGH, REPAID, SideStats
from standfast.operators.window_join.routed import Routed as RoutedWindows


def boxes(n: int) -> tuple[Int64s, Int64s]:
    """Ranges of two attributes that hold 0 to 99."""
    return np.zeros((2, n), np.int64), np.full((2, n), 99)


def rows(n: int) -> SortedRuns:
    stored = SortedRuns(coded=True)
    stored.insert(np.arange(n) % 100, np.arange(n), np.zeros(n, np.int64))
    return stored


def test_the_share_that_rows_meet_follows_the_queries() -> None:
    """It followed the rows alone: queries that came after them were thought to meet none."""
    own, other, stored = SideStats(0), SideStats(1), rows(50)
    own.meet(other.stabbed, stored)
    assert own.share == 0
    for side in (own, other):
        side.add(*boxes(200))
    own.meet(other.stabbed, stored)
    assert own.share == 1


def test_the_share_is_not_taken_again_for_a_few_more() -> None:
    own, other, stored = SideStats(0), SideStats(1), rows(50)
    for side in (own, other):
        side.add(*boxes(200))
    own.meet(other.stabbed, stored)
    own.share = 0.5
    for side in (own, other):
        side.add(*boxes(100))
    own.meet(other.stabbed, rows(70))
    assert own.share == 0.5


def test_a_tracker_that_nobody_else_needs_is_not_kept() -> None:
    side, queries, tracker = SideStats(0), BoxTable(2), HotspotTracker(0.5, 1.0)
    queries.add(np.arange(10), *boxes(10))
    tracker.add(np.arange(10), *(ends[1] for ends in boxes(10)))
    side.scatter(tracker, queries)
    gone = weakref.ref(tracker)
    del tracker
    gc.collect()
    assert gone() is None


def test_a_dropped_hotspot_way_is_gone() -> None:
    routed, stored = Routed(), rows(50)
    routed.add(np.arange(20), *boxes(20))
    routed.inner.routing.build("hotspot")
    events = Arrivals(np.zeros(3, np.int64), np.arange(3), np.empty(0, np.int64))
    assert routed.process(events, stored, side=0).counts().tolist() == [20] * 3
    tracker = weakref.ref(routed.inner.routing.built["hotspot"].side(0).tracker)
    routed.inner.routing.drop("hotspot")
    gc.collect()
    assert tracker() is None


def joined_rows(rng: np.random.Generator, *, has_times: bool = False) -> SortedRuns:
    """Sixty rows of three codes, all over the line."""
    stored = SortedRuns(coded=True, n_extras=int(has_times))
    extras = (rng.integers(0, 100, (1, 60)),) if has_times else ()
    stored.insert(rng.integers(0, 10**6, 60), np.arange(60), rng.integers(0, 3, 60), *extras)
    return stored


def some_events(rng: np.random.Generator, n: int = 70, *, has_times: bool = False) -> Arrivals:
    times = np.full(n, 100) if has_times else np.empty(0, np.int64)
    return Arrivals(np.sort(rng.integers(0, 3, n)), rng.integers(0, 1000, n), times)


def apart(n: int) -> tuple[Int64s, Int64s]:
    """Queries that any event selects; no two ranges on the other side have a point in common."""
    lows = np.array([np.zeros(n, np.int64), 1000 * np.arange(n)])
    return lows, lows + np.array([[1000], [5]])


def test_groups_are_known_though_no_way_keeps_them() -> None:
    """They stayed what they were when the last way that kept them was dropped."""
    rng, routed = np.random.default_rng(1), Routed()
    stored = joined_rows(rng)
    routed.add(np.arange(120), *apart(120))
    routed.process(some_events(rng), stored, side=0)
    side, routing = routed.inner.sides[0], routed.inner.routing
    assert side.groups.stats["groups"] == 120
    routing.build("select_first")
    routing.drop("groups")
    routed.remove(np.arange(5))
    routed.process(some_events(rng), stored, side=0)
    assert side.groups.stats["groups"] == 120, "a few changes are not worth counting anew"
    routed.remove(np.arange(5, 110))
    lows, highs = (np.repeat(ends[:, :1], 120, axis=1) for ends in apart(1))
    routed.add(np.arange(120, 240), lows, highs)
    routed.process(some_events(rng), stored, side=0)
    assert side.groups.stats["groups"] == 11
    assert side.groups.sizes.sum() == len(routing.queries) == 130


def test_each_side_has_its_own_size_from_which_on_groups_are_hot() -> None:
    """The sides had to agree: one that needed large groups left the other without any."""
    routed = Routed()
    routed.add(np.arange(200), *boxes(200))
    for side, least in zip(routed.inner.sides, (4.0, 150.0), strict=True):
        side.groups.least = least
    made = routed.inner.routing.made("hotspot")
    assert [made.side(side).tracker.alpha for side in (0, 1)] == [0.02, 0.75]


def test_small_groups_of_window_joins_are_scattered() -> None:
    """What a group costs a call was left out, and nothing else of it is known of window joins."""
    rng, routed = np.random.default_rng(1), RoutedWindows(is_float=False)
    stored = joined_rows(rng, has_times=True)
    lows, highs = apart(120)
    windows = np.full((1, 120), 50)
    routed.add(np.arange(120), np.vstack([lows, windows - 50]), np.vstack([highs, windows]))
    for _ in range(3):
        routed.process(some_events(rng, 7, has_times=True), stored, side=0)
    groups = routed.inner.sides[0].groups
    assert groups.least > 1
    assert (groups.stats["hot"], groups.stats["scattered"]) == (0, 120)


def test_the_only_way_is_made_anew_when_another_size_is_hot() -> None:
    routed = Routed()
    routed.add(np.arange(20), *boxes(20))
    routing = routed.inner.routing
    routing.build("hotspot")
    routing.drop("groups")
    before = routing.built["hotspot"]
    routing.give_up("hotspot")
    assert list(routing.built) == ["hotspot"]
    assert routing.built["hotspot"] is not before
    routing.build("groups")
    routing.give_up("hotspot")
    assert list(routing.built) == ["groups"]


def test_histograms_are_made_anew_only_as_often_as_the_time_of_events_repays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rebuild for every tenth of the queries that had changed took a third of all time."""
    side, queries, clock = SideStats(0), BoxTable(2), Clock()
    slots, cost, batch_s, worked, refined = np.arange(1000), 0.25, 0.04, 0.0, 0.0
    queries.add(slots, *boxes(1000))
    side.add(*boxes(1000))

    def rebuild(lows: Int64s, highs: Int64s, events: Int64s) -> bool:
        clock.now += cost
        side.stabbed._n_changes = 0
        return False

    monkeypatch.setattr(side.stabbed, "rebuild", rebuild)
    for batch in range(10_000):
        slots = np.arange(1000 + 10 * batch, 1010 + 10 * batch)
        queries.add(slots, *boxes(10))
        side.add(*boxes(10))
        queries.remove(slots - 1000)
        side.remove(*boxes(10))
        refined += side.refine(queries, np.zeros(ENOUGH, np.int64), worked, clock)
        worked += batch_s
    assert refined == pytest.approx(cost * side.n_refined)
    assert 1 < side.n_refined <= 1 + worked / (REPAID * cost), "the first one is for nothing"
    assert refined < 0.011 * worked


@pytest.mark.large
def test_the_histograms_of_a_router_cost_a_small_part_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they take is booked as choosing, also where all events go one way."""
    routed, stored, clock = Routed(), rows(500), Clock()
    routing, rebuilds = routed.inner.routing, []
    monkeypatch.setattr(routing, "clock", clock)
    routing.model.builds[:] = 1e12  # so that all events go one way

    def rebuild(*args: object) -> bool:
        rebuilds.append(routing.n_batches)
        clock.now += 0.25
        routed.inner.sides[0].stabbed._n_changes = 0
        return False

    def processed(*args: object, **options: object) -> object:
        clock.now += 0.04
        return answer(*args, **options)

    monkeypatch.setattr(routed.inner.sides[0].stabbed, "rebuild", rebuild)
    routed.add(np.arange(100), *boxes(100))
    answer = routing.built["groups"].process
    monkeypatch.setattr(routing.built["groups"], "process", processed)
    events = Arrivals(np.zeros(ENOUGH, np.int64), np.arange(ENOUGH), np.empty(0, np.int64))
    n_batches = 3000
    for batch in range(n_batches):
        routed.add(np.arange(100 + 10 * batch, 110 + 10 * batch), *boxes(10))
        routed.remove(np.arange(10 * batch, 10 * batch + 10))
        routed.process(events, stored, side=0)
    assert list(routing.built) == ["groups"]
    assert 1 < len(rebuilds) <= 1 + 0.04 * n_batches / (REPAID * 0.25)
    assert routing.worked == pytest.approx(0.04 * n_batches)
    assert routing.choosing >= 0.25 * (len(rebuilds) - 1), "the first one may have been compiled"
    share = routing.describe()["choosing, % of the time"]
    assert isinstance(share, float)
    assert 0 < share < 1
    assert routing.choosing_us < 1000, "what a batch without a rebuild takes"
