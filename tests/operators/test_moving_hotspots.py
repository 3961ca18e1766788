"""Law: queries that are hot, scattered, hot again and then gone are answered like any others.

What is popular changes: new queries crowd around some places for a while and then around others,
while any query may leave. So groups fall below their share and rise above it again while some of
their queries stay. The truth is another way that keeps no groups.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
from tests.contract.capacities import tiny_capacities
from tests.operators.reading import slots_of

from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.band_join.hotspot import Hotspot as BandHotspot
from standfast.operators.band_join.per_query import PerQuery
from standfast.operators.band_join.routed import Routed as RoutedBands
from standfast.operators.base import Arrivals
from standfast.operators.select_join.hotspot import Hotspot as SelectHotspot
from standfast.operators.select_join.routed import Routed as RoutedSelects
from standfast.operators.select_join.select_first import SelectFirst
from standfast.operators.window_join.hotspot import Hotspot as WindowHotspot
from standfast.operators.window_join.routed import Routed as RoutedWindows
from standfast.operators.window_join.select_first import SelectFirst as WindowSelectFirst

WIDE, N_CODES = 10_000, 5
WAYS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "select hotspot": (SelectHotspot, SelectFirst),
    "select routed": (RoutedSelects, SelectFirst),
    "window hotspot": (partial(WindowHotspot, is_float=False), WindowSelectFirst),
    "window routed": (partial(RoutedWindows, is_float=False), WindowSelectFirst),
    "band hotspot": (partial(BandHotspot, is_float=False), PerQuery),
    "band routed": (partial(RoutedBands, is_float=False), PerQuery),
}


class Moving:
    """A way and its truth, told the same queries and asked about the same events."""

    def __init__(
        self, name: str, n_queries: int, n_clusters: int, n_rows: int, alpha: float
    ) -> None:
        make, truth = WAYS[name]
        self.rng, self.question = np.random.default_rng(0), name.split()[0]
        self.way = make(alpha=alpha)
        self.truth = truth() if self.question == "select" else truth(is_float=False)
        self.clusters = self.rng.integers(0, WIDE, (3, n_clusters))
        self.living, self.next, self.n_calls = np.empty(0, np.int64), 0, 0
        self.add(n_queries)
        self.stored = SortedRuns(
            coded=self.question != "band", n_extras=int(self.question == "window")
        )
        codes = self.rng.integers(0, N_CODES, n_rows)
        times = np.sort(self.rng.integers(0, 1_000, n_rows))
        self.stored.insert(
            self.rng.integers(0, WIDE, n_rows), np.arange(n_rows),
            *([codes] if self.question != "band" else []),
            *([times[None]] if self.question == "window" else []),
        )  # fmt: skip

    def add(self, n: int) -> None:
        """New queries around places that are popular, on both sides."""
        rng, n_clusters = self.rng, self.clusters.shape[1]
        popular = rng.integers(0, n_clusters, (3, n))
        if self.living.size:
            popular = 3 * popular + self.n_calls // 5 % 3
        middles = np.take_along_axis(self.clusters, popular % n_clusters, axis=1)
        lows, highs = middles - rng.integers(1, 30, (3, n)), middles + rng.integers(1, 30, (3, n))
        wide = rng.random(n) < 0.5  # on one side, so that events meet somebody
        highs[0, wide] += rng.integers(100, WIDE, np.count_nonzero(wide))
        lows[2], highs[2] = 0, rng.integers(100, 1_000, n)
        n_attributes = {"band": 1, "select": 2, "window": 3}[self.question]
        slots, self.next = np.arange(self.next, self.next + n), self.next + n
        self.living, self.n_calls = np.append(self.living, slots), self.n_calls + 1
        for way in (self.way, self.truth):
            way.add(slots, lows[:n_attributes], highs[:n_attributes])

    def remove(self, n: int) -> None:
        slots = self.rng.choice(self.living, n, replace=False)
        self.living = np.setdiff1d(self.living, slots)
        for way in (self.way, self.truth):
            way.remove(slots)

    def compare(self, n_events: int, side: Literal[0, 1]) -> int:
        """Ask both; how many answers there were."""
        values = self.rng.integers(0, WIDE, n_events)
        if self.question == "band":
            hits, right = (
                way.process(np.sort(values), self.stored, minuend=bool(side))
                for way in (self.way, self.truth)
            )
        else:
            codes = np.sort(self.rng.integers(0, N_CODES, n_events))
            times = np.full(n_events if self.question == "window" else 0, 1_000)
            events = Arrivals(codes, values, times)
            hits, right = (
                way.process(events, self.stored, side=side) for way in (self.way, self.truth)
            )
        expected = slots_of(right)
        assert slots_of(hits) == expected
        return sum(map(len, expected))


def keep_hotspots(routed: Any) -> None:
    """Leave the router no other way for the next batch."""
    routing = routed.routing if isinstance(routed, RoutedBands) else routed.inner.routing
    if "hotspot" not in routing.built:
        routing.build("hotspot")
    for other in routing.built.keys() - {"hotspot"}:
        routing.drop(other)


def play(
    name: str, n_queries: int, n_clusters: int, n_rows: int, n_steps: int, churn: int, alpha: float
) -> None:
    moving, n_answers = Moving(name, n_queries, n_clusters, n_rows, alpha), 0
    for step in range(n_steps):
        if "routed" in name:
            keep_hotspots(moving.way)
        moving.add(churn)
        moving.remove(churn)
        n_answers += moving.compare(5, 1 if step % 4 == 3 else 0)
        if step % 20 == 19:
            moving.way.check()
    assert n_answers > n_queries


@pytest.mark.parametrize("name", [name for name in WAYS if "hotspot" in name])
def test_a_few_queries_of_tiny_structures_move(name: str) -> None:
    with tiny_capacities():
        play(name, 100, 9, 300, 60, 4, 0.1)


@pytest.mark.large
@pytest.mark.parametrize("name", WAYS)
def test_thousands_of_queries_move(name: str) -> None:
    play(name, 2_000, 300, 1_000, 60, 50, 0.005)
