"""The router where queries come and go: each way and the router take every batch with its changes.

    batch        1           2           3          one query in a hundred leaves, as many come,
    queries   +1 % -1 %   +1 % -1 %   +1 % -1 %     then a batch of events is answered: the
    events     1,000       1,000       1,000        changes belong to the time of the batch

The router begins with nothing but its first structure and builds what it finds worth it. All take a
batch one after the other, in an order that is drawn anew. A structure that works changes in now and
then has batches that take long, so the mean of all batches counts, after some that nobody counts; a
way that takes three times as long as the best one in these is not taken any further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from benchmarks.clock import seconds
from benchmarks.data import N_CHECKED, SCALE
from benchmarks.figure import Reading, Size
from benchmarks.peers import Int64s
from benchmarks.routing_case import CHOOSING, HOT_FRACTION, N_HOTSPOTS, N_KEYS, RATE, ROUTED
from benchmarks.select_case import SelectCase
from standfast import workloads
from standfast.arrays import SpanList
from standfast.operators.base import Arrivals, SelectStrategy
from standfast.operators.catalog import SELECT_JOINS
from standfast.operators.select_join.routed import Routed
from standfast.workloads import DOMAIN, join_keys, whole

WAYS = ("hotspot", "groups", "select_first", "join_first")
MEDIAN = "events per second, median batch"
CHANGING = 0.01  # the share of the queries that leave before each batch, and as many come
BEHIND = 3
N_EVENTS: dict[Size, int] = {"smoke": 100, "full": 1_000}
WARMING: dict[Size, int] = {"smoke": 20, "full": 100}
N_BATCHES: dict[Size, int] = {"smoke": 30, "full": 300}
N_ROWS: dict[Size, int] = {"smoke": 2_000, "full": 100_000}


class Course(NamedTuple):
    """Seconds of the counted batches by runner, the last answers, and the router's choosing."""

    seconds: dict[str, list[float]]
    found: dict[str, SpanList]
    choosing: float  # share of the router's time


@dataclass
class ChurnCase:
    """Queries in the order in which they come; so many of them are there at a time."""

    case: SelectCase
    n_queries: int
    size: Size

    def order(self, batch: int) -> Int64s:
        """The events of a batch by join key; the last batch has the events that are compared."""
        n, last = N_EVENTS[self.size], WARMING[self.size] + N_BATCHES[self.size] - 1
        first = n * (last - batch)
        places = np.arange(first, first + n)
        return places[np.argsort(self.case.keys[places], kind="stable")]

    @cached_property
    def course(self) -> Course:
        rows, n_changing = self.case.rows(), max(1, round(CHANGING * self.n_queries))
        runners: dict[str, SelectStrategy] = {way: SELECT_JOINS[way]() for way in WAYS}
        routed = runners[ROUTED] = Routed()
        for runner in runners.values():
            self._add(runner, 0, self.n_queries)
        took, found = {name: list[float]() for name in runners}, dict[str, SpanList]()
        n_warming, draw, chosen_at = WARMING[self.size], np.random.default_rng(0), 0.0
        for batch in range(n_warming + N_BATCHES[self.size]):
            if batch == n_warming:
                far = BEHIND * min(np.median(took[way]) for way in WAYS)
                behind = {way for way in WAYS if np.median(took[way]) > far}
                runners = {name: r for name, r in runners.items() if name not in behind}
                took = {name: [] for name in took}
                chosen_at = routed.inner.routing.choosing
            order, gone = self.order(batch), n_changing * batch

            def work(runner: SelectStrategy, order: Int64s = order, gone: int = gone) -> SpanList:
                self._add(runner, self.n_queries + gone, n_changing)
                runner.remove(np.arange(gone, gone + n_changing))
                events = Arrivals(
                    self.case.keys[order], self.case.values[order], np.empty(0, np.int64)
                )
                return runner.process(events, rows, side=0).spans()

            for name in draw.permutation(list(runners)).tolist():
                once, found[name] = seconds(work, runners[name])
                took[name].append(once)
        choosing = routed.inner.routing.choosing - chosen_at
        return Course(took, found, choosing / sum(took[ROUTED]))

    def _add(self, runner: SelectStrategy, first: int, n: int) -> None:
        part = slice(first, first + n)
        runner.add(np.arange(first, first + n), self.case.lows[:, part], self.case.highs[:, part])


def runner(name: str) -> Callable[[ChurnCase], Iterator[Reading]]:
    """Events per second with the changes between them; nothing of a way that is far behind."""

    def measure(case: ChurnCase) -> Iterator[Reading]:
        course, n = case.course, N_EVENTS[case.size]
        if course.seconds[name]:
            last = case.order(WARMING[case.size] + N_BATCHES[case.size] - 1)
            found = case.case.found(last, course.found[name])
            yield Reading(n / float(np.mean(course.seconds[name])), found)
            yield Reading(n / float(np.median(course.seconds[name])), panel=MEDIAN)
        if name == ROUTED:
            yield Reading(100 * course.choosing, panel=CHOOSING)

    return measure


def churn_case(queries_k: float, size: Size, seed: int) -> ChurnCase:
    """So many thousand queries at a time, as those of Fig. 12."""
    n, n_batches = round(1000 * queries_k), WARMING[size] + N_BATCHES[size]
    total, n_events = n + n_batches * max(1, round(CHANGING * n)), n_batches * N_EVENTS[size]
    rng, n_rows = np.random.default_rng(seed), N_ROWS[size]
    mixed = rng.permutation(total)
    c = workloads.hotspot_bands(total, HOT_FRACTION, N_HOTSPOTS, seed + 1).whole(SCALE)
    a = workloads.selections(total, RATE, seed + 2).whole(SCALE)
    case = SelectCase(
        np.stack([a.lows, c.lows[mixed]]), np.stack([a.highs, c.highs[mixed]]),
        join_keys(workloads.table_one_rows(n_rows, seed + 3), N_KEYS[size]),
        whole(workloads.table_one_events(n_rows, seed + 4), SCALE),
        join_keys(rng.uniform(0, DOMAIN, n_events), N_KEYS[size]),
        whole(rng.uniform(0, DOMAIN, n_events), SCALE), N_CHECKED,
    )  # fmt: skip
    return ChurnCase(case, n, size)
