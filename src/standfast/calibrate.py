"""Fitting the router's constants on this machine: measure every way, then least squares.

    workload (queries, rows, groups)  ->  batches of like events  ->  every way, the best of runs
    time of a run = call + sum over terms of us x units           ->  one regression a way

Errors are relative: a batch of 50 us counts as much as one of 50 ms. Constants that come out below
zero are left out and the rest is fitted again, because no work takes less than no time. Each
constant has the 95 % confidence interval of the regression, as Table II of [hotspot].
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from standfast import workloads
from standfast.arrays import Hits, Int64s
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.band_join.routed import Routed as RoutedBands
from standfast.operators.base import (
    Arrivals,
    BandStrategy,
    SelectStrategy,
    Strategy,
    WindowStrategy,
)
from standfast.operators.costs import TERMS, TRAITS, Constants, Floats, Model, WayCosts
from standfast.operators.router import Routing
from standfast.operators.select_join.routed import Routed as RoutedSelects
from standfast.operators.window_join.routed import Routed as RoutedWindows
from standfast.workloads import join_keys, whole

# Half the width of a 95 % interval, in standard errors, for as many runs as there are.
WIDTH = 1.96
BUDGET, MOST_RUNS = 0.03, 7  # seconds and runs of a measurement
CACHES = 4_000_000  # numbers that do not fit into them
TOO_LONG = 0.5  # seconds of a batch, by the batch before, that is left out
ALPHA = 0.001  # what makes a hotspot, so that there are scattered queries to measure
SCALE = 1000  # steps to a unit of the domain
SPAN, LONGEST = 1_000_000, 500_000  # of the times of rows, of windows
N_EVENTS, MIDDLE, FEW = 8_192, 96, 8


class Batch(NamedTuple):
    """Events to measure: what they are like, and how a way answers them."""

    stats: dict[str, float]
    traits: Floats
    process: Callable[[Any], Hits]


class Workload(NamedTuple):
    """A router with all queries in it, and batches of events for its ways."""

    routing: Routing[Any]
    batches: list[Batch]


class Shape(NamedTuple):
    """How large a workload is and how its queries cluster."""

    n_queries: int
    n_rows: int
    hot_fraction: float
    n_hotspots: int
    rate: float = 0.1  # of the queries, selected by an event
    n_keys: int = 1000


class Observation(NamedTuple):
    """One way on one batch: units of each term, and seconds until affected queries are known."""

    units: Floats
    process: float
    spans: float


class Fit(NamedTuple):
    """The constants of a way with half the width of their intervals; the error is relative."""

    costs: WayCosts
    widths: dict[str, float]
    n_runs: int
    error: float


# What is measured: from few queries to many, from all in hotspots to none.
SHAPES: dict[str, tuple[Shape, ...]] = {
    "quick": (Shape(500, 500, 0.9, 10, n_keys=20), Shape(2_000, 1_000, 0.5, 30, n_keys=20)),
    "full": (
        Shape(1_000, 20_000, 0.9, 10),
        Shape(10_000, 20_000, 0.5, 30),
        Shape(30_000, 100_000, 0.9, 30),
        Shape(100_000, 100_000, 0.8, 30),
        Shape(100_000, 50_000, 1.0, 60, rate=0.02, n_keys=100),
        Shape(300_000, 300_000, 0.9, 30, n_keys=10_000),
    ),
}


def queries_of(shape: Shape, seed: int) -> tuple[Int64s, Int64s]:
    """Lows and highs: normal ranges on A, those on C in hotspots or not, and windows."""
    a = workloads.selections(shape.n_queries, shape.rate, seed).whole(SCALE)
    c = workloads.hotspot_bands(
        shape.n_queries, shape.hot_fraction, shape.n_hotspots, seed + 1
    ).whole(SCALE)
    windows = np.random.default_rng(seed).integers(0, LONGEST, shape.n_queries)
    lows = np.stack([a.lows, c.lows, np.zeros_like(windows)])
    return lows, np.stack([a.highs, c.highs, windows])


def rows_of(shape: Shape, seed: int) -> SortedRuns:
    """Stored rows of Table I: the join key is normal, the other value uniform, as is the time."""
    rows = SortedRuns(coded=True, n_extras=1)
    keys = join_keys(workloads.table_one_rows(shape.n_rows, seed), shape.n_keys)
    values = whole(workloads.table_one_events(shape.n_rows, seed + 1), SCALE)
    times = np.random.default_rng(seed).integers(0, SPAN, (1, shape.n_rows))
    rows.insert(values, np.arange(shape.n_rows), keys, times)
    return rows


def arrivals_of(n_events: int, n_keys: int, seed: int) -> Arrivals:
    """Events of Table I: both attributes are uniform; they come after all rows."""
    codes = join_keys(workloads.table_one_events(n_events, seed), n_keys)
    values = whole(workloads.table_one_events(n_events, seed + 1), SCALE)
    order = np.argsort(codes, kind="stable")
    return Arrivals(codes[order], values[order], np.full(n_events, SPAN))


def chosen(events: Arrivals, places: Int64s) -> Arrivals:
    """Some of the events, in their order."""
    return Arrivals(*(column[places] if column.size else column for column in events))


def alike(traits: Floats, n_cuts: int) -> list[Int64s]:
    """Events in parts of like m' and n': cut by one, then each part by the other."""
    names = TRAITS["select_join"]
    rows, stabbed = traits[names.index("rows")], traits[names.index("stabbed")]
    parts = np.array_split(np.argsort(rows, kind="stable"), n_cuts)
    cut = [np.array_split(p[np.argsort(stabbed[p], kind="stable")], n_cuts) for p in parts]
    return [np.sort(places) for part in cut for places in part if places.size]


def equality_workload(shape: Shape, seed: int, *, windows: bool) -> Workload:
    """Select-joins or window joins, with batches of like events, a few of them small."""
    rows, (lows, highs) = rows_of(shape, seed + 2), queries_of(shape, seed)
    events = arrivals_of(N_EVENTS, shape.n_keys, seed + 4)
    routed: RoutedSelects | RoutedWindows = RoutedWindows(is_float=False, alpha=ALPHA)
    if not windows:
        routed, lows, highs = RoutedSelects(alpha=ALPHA), lows[:2], highs[:2]
        events = events._replace(times=np.empty(0, np.int64))
    routed.add(np.arange(shape.n_queries), lows, highs)
    features = routed.inner.features
    for way in ("groups", "hotspot"):
        routed.inner.routing.build(way)
    parts = alike(features(events, rows, 0)[1], 3)
    for size in (MIDDLE, FEW):
        parts += [part[:: max(1, part.size // size)] for part in parts[:9:2]]
    batches = []
    for places in parts:
        part = chosen(events, places)
        for built in routed.inner.routing.built.values():
            built.process(part, rows, side=0)  # so that they have counted skylines for these events
        routed.inner.forget_times()

        def process(way: SelectStrategy | WindowStrategy, part: Arrivals = part) -> Hits:
            return way.process(part, rows, side=0)

        batches.append(Batch(*features(part, rows, 0), process))
    return Workload(routed.inner.routing, batches)


def band_workload(shape: Shape, seed: int) -> Workload:
    """Band joins; all events are alike, so batches differ in size only."""
    routed, rows = RoutedBands(is_float=False, alpha=ALPHA), SortedRuns()
    bands = workloads.hotspot_bands(
        shape.n_queries, shape.hot_fraction, shape.n_hotspots, seed
    ).whole(SCALE)
    routed.add(np.arange(shape.n_queries), bands.lows[None], bands.highs[None])
    rows.insert(whole(workloads.table_one_rows(shape.n_rows, seed + 1), SCALE),
                np.arange(shape.n_rows))  # fmt: skip
    values = np.sort(whole(workloads.table_one_events(N_EVENTS, seed + 2), SCALE))
    routed.routing.build("hotspot")
    batches = []
    for n_events in (1, FEW, MIDDLE, N_EVENTS):
        part = values[:: max(1, N_EVENTS // n_events)]

        def process(way: BandStrategy, part: Int64s = part) -> Hits:
            return way.process(part, rows, minuend=False)

        batches.append(Batch(*routed.features(part, rows), process))
    return Workload(routed.routing, batches)


WORKLOADS: dict[str, Callable[[Shape, int], Workload]] = {
    "band_join": band_workload,
    "select_join": partial(equality_workload, windows=False),
    "window_join": partial(equality_workload, windows=True),
}


def observe(
    question: str, shapes: tuple[Shape, ...], on_step: Callable[[str], None]
) -> dict[str, tuple[list[Observation], list[float]]]:
    """For each way its observations, and the microseconds that a query took to build."""
    terms = TERMS[question]
    found: dict[str, tuple[list[Observation], list[float]]] = {way: ([], []) for way in terms}
    for seed, shape in enumerate(shapes):
        routing, batches = WORKLOADS[question](shape, 10 * seed)
        for way in terms:
            begin = time.perf_counter()
            strategy = routing.made(way)
            batches[0].process(strategy).spans()
            first = time.perf_counter() - begin
            again, each = np.inf, 0.0
            for batch in batches:
                if each * batch.traits.shape[1] < TOO_LONG:
                    seen = Observation(
                        units_of(routing.model, way, batch), *clocked(strategy, batch)
                    )
                    found[way][0].append(seen)
                    each = seen.process / batch.traits.shape[1]
                    again = min(again, seen.process + seen.spans)
            found[way][1].append(1e6 * max(first - again, 0.0) / shape.n_queries)
            on_step(f"{question} {way}")
    return found


def units_of(model: Model, way: str, batch: Batch) -> Floats:
    """The units of each term of the way that the batch has; it is one call."""
    totals = batch.traits.sum(axis=1)
    totals[0] = 1.0
    return np.array(
        [
            batch.stats[term.stat] * totals[model.traits.index(term.trait)]
            for term in TERMS[model.question][way]
        ]
    )


def clocked(strategy: Strategy, batch: Batch) -> tuple[float, float]:
    """Seconds of `process` and of `spans`, of the best of several runs.

    Between two batches others work, the other ways not least, so the caches are emptied each time.
    """
    best, used, others = (np.inf, np.inf), 0.0, np.zeros(CACHES, np.int64)
    for _ in range(MOST_RUNS):
        others += 1
        begin = time.perf_counter()
        hits = batch.process(strategy)
        middle = time.perf_counter()
        hits.spans()
        end = time.perf_counter()
        best = min(best, (middle - begin, end - middle), key=sum)
        used += end - begin
        if used > BUDGET:
            break
    return best


def fit(way_terms: list[str], observed: list[Observation], builds: list[float]) -> Fit:
    """Least squares of relative errors; constants below zero are left out one by one."""
    units = np.array([o.units for o in observed])
    spans = np.array([o.spans for o in observed])
    took = 1e6 * (np.array([o.process for o in observed]) + spans)
    rows, ones = units / took[:, None], np.ones(took.size)
    kept = np.flatnonzero(np.any(rows > 0, axis=0))
    while True:
        # Columns of one length: the units of the terms differ by many orders of magnitude.
        scale = np.sqrt((rows[:, kept] ** 2).sum(axis=0))
        us = np.linalg.lstsq(rows[:, kept] / scale, ones, rcond=None)[0] / scale
        if (us >= 0).all() or kept.size == 1:
            break
        kept = np.delete(kept, np.argmin(us * scale))
    us = np.maximum(us, 0.0)
    rest = ones - rows[:, kept] @ us
    freedom = max(1, took.size - kept.size)
    covariance = np.linalg.pinv((rows[:, kept] / scale).T @ (rows[:, kept] / scale))
    errors = np.sqrt(np.diag(covariance) * (rest @ rest) / freedom) / scale
    values = dict.fromkeys(way_terms, 0.0) | {
        way_terms[k]: float(value) for k, value in zip(kept, us, strict=True)
    }
    widths = {way_terms[k]: float(WIDTH * error) for k, error in zip(kept, errors, strict=True)}
    values["call"] = max(values["call"], 1.0)
    share = float(1e6 * spans.sum() / took.sum())
    costs = WayCosts(float(np.median(builds)), share, values)
    return Fit(costs, widths, took.size, float(np.sqrt(np.median(rest**2))))


def n_steps(shapes: tuple[Shape, ...]) -> int:
    """How often `calibrated` reports a step."""
    return sum(len(ways) for ways in TERMS.values()) * len(shapes)


def calibrated(
    shapes: tuple[Shape, ...], on_step: Callable[[str], None]
) -> dict[str, dict[str, Fit]]:
    """A fit of every way of every question."""
    fits: dict[str, dict[str, Fit]] = {}
    for question, ways in TERMS.items():
        # The first of all compiles, which the building of ways must not be charged with.
        observe(question, SHAPES["quick"][:1], lambda text: None)
        found = observe(question, shapes, on_step)
        fits[question] = {way: fit([term.name for term in ways[way]], *found[way]) for way in found}
    return fits


def constants_of(fits: dict[str, dict[str, Fit]], source: str) -> Constants:
    """The fitted constants alone."""
    return Constants(
        source, {q: {way: fit.costs for way, fit in ways.items()} for q, ways in fits.items()}
    )


def machine() -> str:
    """What the constants were fitted on."""
    return f"{platform.machine()}, python {platform.python_version()}, numpy {np.__version__}"
