"""What the router knows of a side: it follows the queries and the rows, and holds on to nobody."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals
from standfast.operators.equality import BoxTable
from standfast.operators.select_join.routed import Routed
from standfast.operators.traits import SideStats


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
