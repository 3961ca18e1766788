"""What the routing figures share: select-joins of [hotspot] 5.4, every way, the router, the oracle.

    events of like m' and n'   ->  64 buckets          every way is timed on every bucket and on
    oracle                     ->  best of many plans  an empty batch; plans are run as a whole, so
    router                     ->  its own choice      that both pay one call for each way in use

The oracle's plans are each way alone, the fastest way of every bucket, for every number of ways the
split of the buckets over so many of them that adds up to the least, with and without a margin for
leaving the best one, and the router's own split. The splits are timed, the best few of them race.

All of them race, turn by turn (`benchmarks/race.py`), and rates are those of the router times how
much longer it takes than the other in the turns of both. A runner timed many times in a row has the
caches to itself and cannot be compared with one that was timed later, and one that always follows
the same other finds what that one has left there. Measured is the time until the affected queries
are known as slices, as in the paper without writing them out. The oracle pays nothing for choosing,
and is the fastest of all that raced.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from benchmarks.clock import budget
from benchmarks.data import N_CHECKED, SCALE
from benchmarks.figure import Reading, Size
from benchmarks.peers import Int64s
from benchmarks.race import lead, raced
from benchmarks.select_case import SelectCase
from standfast import workloads
from standfast.arrays import SpanList
from standfast.calibrate import alike, chosen
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals, SelectStrategy
from standfast.operators.costs import Floats
from standfast.operators.select_join.routed import Routed
from standfast.operators.split import Part, joined
from standfast.workloads import DOMAIN, join_keys, whole

WAYS = ("hotspot", "groups", "select_first", "join_first", "vanilla")
SHARE, OPTIMUM, CHOOSING = "share of events, %", "optimum decisions, %", "choosing, % of the time"
ORACLE, ROUTED = "oracle", "routed"
MOST_RUNS, WARMING = 9, 12
N_CUTS = 8  # of m', and of n' in each
# Parts of its cost that a bucket leaves the best way for, in plans of the oracle; plans that race.
MARGINS, FINALISTS = (1.0, 0.7), 2
MEAN = "events per second, mean of all runs"
ERROR = "error of the router against the best way, %"

Series = Callable[["RoutingCase"], Iterator[Reading]]


class Race(NamedTuple):
    """Seconds of a batch by runner, in turns and in the mean of all runs, and what it found; of the
    router: the error of its time over that of the best way, the share of the time that choosing
    takes, where its events went, and the share that went the fastest way of its bucket."""

    typical: dict[str, float]
    mean: dict[str, float]
    found: dict[str, SpanList]
    error: float
    choosing: float
    shares: dict[str, float]
    right: float


class Costs(NamedTuple):
    """Seconds of a call of each way, and of the events of each bucket by each way beyond that."""

    calls: Floats
    buckets: Floats


@dataclass
class RoutingCase:
    """A select case with its router, which has met such events before."""

    case: SelectCase
    n_events: int
    x: float | None = None  # what the figure puts the point at, if not where the sweep says

    def joined(self) -> float:
        """How many rows an event joins with, on average."""
        keys = np.sort(self.case.row_keys)
        counts = [np.searchsorted(keys, self.events.codes, side) for side in ("right", "left")]
        return float(np.mean(counts[0] - counts[1]))

    def selected(self) -> float:
        """The share of the queries that select an event, on average, in percent."""
        lows, highs = np.sort(self.case.lows[0]), np.sort(self.case.highs[0])
        below = np.searchsorted(lows, self.events.values, "right")
        beyond = np.searchsorted(highs, self.events.values, "left")
        return 100 * float(np.mean(below - beyond)) / lows.size

    @cached_property
    def rows(self) -> SortedRuns:
        return self.case.rows()

    @cached_property
    def order(self) -> Int64s:
        """The measured events, by join key."""
        return np.argsort(self.case.keys[: self.n_events], kind="stable")

    @cached_property
    def events(self) -> Arrivals:
        return self._arrivals(self.order)

    @cached_property
    def routed(self) -> Routed:
        """The router with every way built, after batches of other events of the same kind."""
        routed = Routed()
        routed.add(np.arange(self.case.n_queries), self.case.lows, self.case.highs)
        for _ in range(2):  # the first batch tells what events are like, the second what is hot
            routed.process(self.events, self.rows, side=0)
        for way in WAYS:
            routed.inner.routing.build(way)
        others = np.arange(self.n_events, self.case.keys.size)
        for places in np.array_split(others, WARMING):
            order = places[np.argsort(self.case.keys[places], kind="stable")]
            routed.process(self._arrivals(order), self.rows, side=0).spans()
        return routed

    @cached_property
    def ways(self) -> dict[str, SelectStrategy]:
        """Every way with all queries in it: the router's own where it has built it."""
        routing = self.routed.inner.routing
        return {way: routing.built.get(way) or routing.made(way) for way in WAYS}

    def choice(self) -> Int64s:
        """The way that the router has sent each event of the last batch, by number in WAYS."""
        ways = self.routed.inner.routing.model.ways
        return np.array([WAYS.index(way) for way in ways])[self.routed.inner.routing.last]

    @cached_property
    def buckets(self) -> list[Int64s]:
        """Places of events that are alike."""
        _, traits = self.routed.inner.features(self.events, self.rows, 0)
        return alike(traits, N_CUTS)

    @cached_property
    def costs(self) -> Costs:
        """What a call and what the events of each bucket take by each way."""
        none = chosen(self.events, np.empty(0, np.int64))
        calls = np.array([self.clocked(way, none)[0] for way in WAYS])
        whole = np.empty((len(WAYS), len(self.buckets)))
        for b, places in enumerate(self.buckets):
            part, least = chosen(self.events, places), np.inf
            for w, way in enumerate(WAYS):
                whole[w, b], _ = self.clocked(way, part, hopeless=3 * least)
                least = min(least, whole[w, b])
        return Costs(calls, np.maximum(whole - calls[:, None], 0.0))

    @cached_property
    def optimum(self) -> Int64s:
        """The fastest way of each event's bucket, by number in WAYS."""
        return self._dealt(np.argmin(self.costs.buckets, axis=0))

    @cached_property
    def finalists(self) -> list[Int64s]:
        """The best of the oracle's splits, the way of each event, by number in WAYS."""
        self.by_router()
        splits = [self.choice(), self.optimum, *map(self._dealt, least_splits(self.costs))]
        distinct = {split.tobytes(): split for split in splits if np.unique(split).size > 1}
        took = {key: clocked(self._by_split(split))[0] for key, split in distinct.items()}
        return [distinct[key] for key in sorted(took, key=took.__getitem__)[:FINALISTS]]

    def _dealt(self, ways: Int64s) -> Int64s:
        """The way of each event, given that of each bucket."""
        choice = np.empty(self.n_events, np.int64)
        for places, way in zip(self.buckets, ways.tolist(), strict=True):
            choice[places] = way
        return choice

    def clocked(
        self, way: str, events: Arrivals, hopeless: float = np.inf
    ) -> tuple[float, SpanList]:
        """Seconds of one way until the slices are known."""
        return clocked(lambda: self.ways[way].process(events, self.rows, side=0).spans(), hopeless)

    def _by_split(self, choice: Int64s) -> Callable[[], SpanList]:
        """All events by a choice that is known already."""
        shares = [(w, np.flatnonzero(choice == w)) for w in np.unique(choice).tolist()]

        def run() -> SpanList:
            parts = []
            for w, places in shares:
                part = chosen(self.events, places)
                parts.append(Part(places, self.ways[WAYS[w]].process(part, self.rows, side=0)))
            return joined(self.n_events, parts).spans()

        return run

    def by_router(self) -> SpanList:
        return self.routed.process(self.events, self.rows, side=0).spans()

    @cached_property
    def race(self) -> Race:
        """Every way, the router and the oracle on all events, in turn."""
        runners: dict[str, Callable[[], SpanList]] = {way: self._static(way) for way in WAYS}
        splits = {f"split {i}": self._by_split(s) for i, s in enumerate(self.finalists)}
        runners |= {ROUTED: self.by_router} | splits
        routing, went = self.routed.inner.routing, list[Int64s]()
        chosen_at = routing.choosing

        def follow(name: str) -> None:
            if name == ROUTED:
                went.append(self.choice())

        ran = raced(runners, ROUTED, WAYS, follow)
        ours = ran[ROUTED].turns
        leads = {name: lead(each.turns, ours) for name, each in ran.items()}
        median = float(np.median(ours))
        typical = {name: median * float(np.exp(known.log)) for name, known in leads.items()}
        mean = {name: float(np.mean(each.runs)) for name, each in ran.items()}
        found = {name: each.last[0] for name, each in ran.items()}
        fastest = min(typical, key=typical.__getitem__)
        for known in (typical, mean):
            known[ORACLE] = known[fastest]
        found[ORACLE] = found[fastest]
        error = leads[min(WAYS, key=typical.__getitem__)].error
        shares = {way: float(np.mean(np.equal(went, w))) for w, way in enumerate(WAYS)}
        right = float(np.mean(np.equal(went, self.optimum)))
        choosing = (routing.choosing - chosen_at) / sum(ran[ROUTED].runs)
        return Race(typical, mean, found, error, choosing, shares, right)

    def _static(self, way: str) -> Callable[[], SpanList]:
        return lambda: self.ways[way].process(self.events, self.rows, side=0).spans()

    def speed(self, name: str) -> Reading:
        """Events per second of one runner, and what it answered."""
        found = self.case.found(self.order, self.race.found[name])
        return Reading(self.n_events / self.race.typical[name], found, x=self.x)

    def mean_speed(self, name: str) -> Reading:
        """The same by the mean time of all its runs."""
        return Reading(self.n_events / self.race.mean[name], panel=MEAN, x=self.x)

    def _arrivals(self, order: Int64s) -> Arrivals:
        return Arrivals(self.case.keys[order], self.case.values[order], np.empty(0, np.int64))


def least_splits(costs: Costs) -> Iterator[Int64s]:
    """The way of each bucket in the splits that cost least, for each number of ways and margin."""
    n_ways, n_buckets = costs.buckets.shape
    for n_used, margin in product(range(2, n_ways + 1), MARGINS):
        least, best = np.inf, None
        for used in combinations(range(n_ways), n_used):
            of_used = costs.buckets[list(used)]
            first = int(np.argmin(of_used.sum(axis=1)))
            compared = of_used / margin
            compared[first] *= margin
            split = np.array(used)[np.argmin(compared, axis=0)]
            paid = costs.calls[np.unique(split)].sum()
            total = paid + costs.buckets[split, np.arange(n_buckets)].sum()
            if total < least:
                least, best = total, split
        assert best is not None, "no ways"
        yield best


def clocked(work: Callable[[], SpanList], hopeless: float = np.inf) -> tuple[float, SpanList]:
    """Seconds of the best run, as many as fit the budget, and what the last one returned.

    One run is enough if it takes longer than what is `hopeless`.
    """
    least, used, found = np.inf, 0.0, None
    for run in range(MOST_RUNS):
        begin = time.perf_counter()
        found = work()
        took = time.perf_counter() - begin
        least, used = min(least, took), used + took
        if used > (budget() / 4 if run else budget()) or took > hopeless:
            break
    assert found is not None, "nothing was run"
    return float(least), found


def static(way: str) -> Series:
    """Events per second when all go one way, and how many the router sends that way."""

    def measure(case: RoutingCase) -> Iterator[Reading]:
        yield case.speed(way)
        yield case.mean_speed(way)
        yield Reading(100 * case.race.shares[way], panel=SHARE, x=case.x)

    return measure


def routed(case: RoutingCase) -> Iterator[Reading]:
    """Events per second of the router, how often it was right, what choosing took; the error."""
    yield case.speed(ROUTED)
    yield case.mean_speed(ROUTED)
    yield Reading(100 * case.race.right, panel=OPTIMUM, x=case.x)
    yield Reading(100 * case.race.choosing, panel=CHOOSING, x=case.x)
    yield Reading(100 * case.race.error, panel=ERROR, x=case.x)


def oracle(case: RoutingCase) -> Iterator[Reading]:
    """Events per second of the fastest that raced."""
    yield case.speed(ORACLE)


SERIES: dict[str, Series] = {
    **{way: static(way) for way in WAYS},
    ROUTED: routed,
    ORACLE: oracle,
}


HOT_FRACTION, N_HOTSPOTS, RATE = 0.9, 30, 0.1
N_EVENTS: dict[Size, int] = {"smoke": 400, "full": 1_000}
N_KEYS: dict[Size, int] = {"smoke": 100, "full": 10_000}
NOTES = (
    f"{HOT_FRACTION:.0%} of the ranges on S.C in {N_HOTSPOTS} hotspots, the others scattered; "
    "ranges on R.A, join keys and values as in Table I; batches of 1,000 events. As in the paper "
    "all ways are built; the router has met twelve batches before. Measured until the affected "
    "queries are known as slices."
)


def routed_case(
    queries_k: float, rows_k: float, size: Size, seed: int, *,
    key_width: float = DOMAIN / 2, value_distance: float | None = None,
) -> RoutingCase:  # fmt: skip
    """So many thousand queries and rows; events by where their key and their value lie.

    Keys lie within `key_width` of the middle of the domain; values anywhere, or between
    `value_distance` and 1,000 more from the middle.
    """
    n, n_rows = round(1000 * queries_k), round(1000 * rows_k)
    n_events, rng = N_EVENTS[size], np.random.default_rng(seed)
    total = n_events * (WARMING + 1)
    keys = rng.uniform(DOMAIN / 2 - key_width, DOMAIN / 2 + key_width, total)
    values = rng.uniform(0, DOMAIN, total)
    if value_distance is not None:
        away = rng.uniform(value_distance, value_distance + DOMAIN / 10, total)
        values = DOMAIN / 2 + np.where(rng.random(total) < 0.5, -away, away)
    c = workloads.hotspot_bands(n, HOT_FRACTION, N_HOTSPOTS, seed + 1).whole(SCALE)
    a = workloads.selections(n, RATE, seed + 2).whole(SCALE)
    case = SelectCase(
        np.stack([a.lows, c.lows]), np.stack([a.highs, c.highs]),
        join_keys(workloads.table_one_rows(n_rows, seed + 3), N_KEYS[size]),
        whole(workloads.table_one_events(n_rows, seed + 4), SCALE),
        join_keys(keys, N_KEYS[size]), whole(values, SCALE), N_CHECKED,
    )  # fmt: skip
    return RoutingCase(case, n_events)
