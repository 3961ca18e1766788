"""The filter's bars: a million ranges, about ten of them hit by an event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.clock import throughput
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import Int64s
from benchmarks.peers.superintervals_batch import SuperintervalsBatch, SuperintervalsValues
from standfast.arrays import pooled
from standfast.operators.base import FilterStrategy
from standfast.operators.catalog import FILTERS
from standfast.workloads import filters, table_one_events, whole

SCALE = 100_000  # whole numbers that fit the 32 bits of superintervals
N_HITS = 10
N_CHECKED = 500
WAY = "interval_tree"
SMALL = "events per second, 1,000 a batch"
CHANGES = "adds and removes per second"
CHANGES_A_CALL = (1_000, 10_000, 100_000)
Series = Callable[["FilterCase"], Iterator[Reading]]
SECONDS = {"smoke": 0.1, "full": 2.0}


@dataclass(frozen=True, slots=True)
class FilterCase:
    """Ranges in whole numbers, and others that will replace them."""

    size: Size
    lows: Int64s
    highs: Int64s
    more_lows: Int64s
    more_highs: Int64s
    events: Int64s

    def strategy(self) -> FilterStrategy:
        strategy = FILTERS[WAY](1)
        strategy.add(np.arange(self.lows.size), self.lows[None, :], self.highs[None, :])
        return strategy

    def answer(self, ids_of: Callable[[int], Int64s]) -> Int64s:
        n = self.lows.size
        return np.concatenate([e * n + np.sort(ids_of(e)) for e in range(N_CHECKED)])


def prepare(n: float, size: Size) -> FilterCase:
    now, later = (filters(int(n), N_HITS, seed).whole(SCALE) for seed in (130, 131))
    events = whole(table_one_events(100_000 if size == "full" else 4_000, seed=132), SCALE)
    return FilterCase(size, now.lows, now.highs, later.lows, later.highs, events)


def ids(case: FilterCase, strategy: FilterStrategy) -> Reading:
    """Events per second until the ids of all matches are written out."""
    names = np.arange(case.lows.size + 1)

    def process(events: Int64s) -> tuple[Int64s, Int64s]:
        hits = strategy.process(events[None, :])
        offsets = np.zeros(events.size + 1, np.int64)
        np.cumsum(hits.counts(), out=offsets[1:])
        out = pooled(int(offsets[-1]), np.int64)
        hits.fill(offsets[:-1], names, out)
        return offsets, out

    timed = throughput(process, case.events, case.events.size)
    offsets, out = timed.output

    def known(event: int) -> Int64s:
        found = out[offsets[event] : offsets[event + 1]]
        return found[found < case.lows.size]

    return Reading(timed.rate, case.answer(known))


def ours(case: FilterCase) -> Iterator[Reading]:
    yield ids(case, case.strategy())


def ours_covered(case: FilterCase) -> Iterator[Reading]:
    """One more query, which holds every event there can be."""
    strategy, limits = case.strategy(), np.iinfo(np.int64)
    strategy.add(
        np.array([case.lows.size]), np.array([[limits.min]]), np.array([[limits.max]])
    )  # fmt: skip
    yield ids(case, strategy)


def superintervals(kind: type[SuperintervalsBatch]) -> Series:
    def measure(case: FilterCase) -> Iterator[Reading]:
        peer = kind(case.lows, case.highs)
        timed = throughput(peer.affected, case.events, case.events.size)
        yield Reading(timed.rate, case.answer(lambda e: peer.ids(timed.output, e)))

    return measure


def in_thousands(series: Series) -> Series:
    """The same on a thousand events at a time."""

    def measure(case: FilterCase) -> Iterator[Reading]:
        few = replace(case, events=case.events[:1_000])
        yield from (reading._replace(panel=SMALL) for reading in series(few))

    return measure


def superintervals_sorted(case: FilterCase) -> Iterator[Reading]:
    """The same with events that come in order, which is kind to its cache."""
    peer, order = SuperintervalsBatch(case.lows, case.highs), np.argsort(case.events)
    places = np.argsort(order)
    timed = throughput(peer.affected, case.events[order], case.events.size)
    yield Reading(timed.rate, case.answer(lambda e: peer.ids(timed.output, int(places[e]))))


def changes(n_a_call: int) -> Series:
    """Half adds, half removes, and a probe after each call that finds the index up to date."""

    def measure(case: FilterCase) -> Iterator[Reading]:
        strategy, n, half = case.strategy(), case.lows.size, n_a_call // 2
        held = strategy.process(case.events[None, :])
        used, n_done = 0.0, 0
        for start in range(0, n - half + 1, half):
            coming = np.arange(start, start + half)
            begin = time.perf_counter()
            strategy.add(n + coming, case.more_lows[None, coming], case.more_highs[None, coming])
            strategy.remove(coming)
            held = strategy.process(case.events[None, :1])
            used += time.perf_counter() - begin
            n_done += 2 * half
            if used > SECONDS[case.size]:
                break
        assert held.n_events == 1, "the probe was not answered"
        _check_changed(case, strategy, n_done // 2)
        yield Reading(n_done / used, panel=CHANGES)

    return measure


def _check_changed(case: FilterCase, strategy: FilterStrategy, n_replaced: int) -> None:
    """After the changes a few events must still hit what a scan of all ranges finds."""
    lows = np.concatenate([case.lows[n_replaced:], case.more_lows[:n_replaced]])
    highs = np.concatenate([case.highs[n_replaced:], case.more_highs[:n_replaced]])
    hits = strategy.process(case.events[None, :50])
    found = np.array([((lows <= e) & (e <= highs)).sum() for e in case.events[:50]])
    assert np.array_equal(hits.counts(), found), "changes made the answers wrong"


def holds(table: Table) -> Verdict:
    (x,) = table.curve("ours")
    mine, covered = table.value("ours", x), table.value("ours and a query that holds all", x)
    peers = [name for name in table.series("") if name.startswith("superintervals")]
    other = max(table.value(name, x) for name in peers)
    small = table.value("ours, 1,000 events", x, SMALL)
    small_other = table.value("superintervals values, 1,000 events", x, SMALL)
    rates = {name: table.value(name, x, CHANGES) for name in table.series(CHANGES)}
    text = (
        f"with {x:,.0f} ranges {mine:,.0f} events/s with all ids, {mine / other:.2f} times "
        f"superintervals' fastest batch search (100,000 events a batch; "
        f"{small / small_other:.2f} times with 1,000); {covered / mine:.0%} of that with a query "
        "that holds everything; adds and removes per second: "
        + ", ".join(f"{rate:,.0f} in {name}" for name, rate in rates.items())
        + ". All results are equal."
    )
    return Verdict(mine >= other and min(rates.values()) >= 200_000 and covered > 0.8 * mine, text)


FIGURE = Figure(
    name="bar_filter",
    source="project bar",
    claim="1,000,000 one-dimensional ranges, about 10 hits an event: the ids of all matches at "
    "least as fast as superintervals' batch search, 200,000 adds or removes per second between "
    "batches, and one query that covers everything costs the others nothing (judged as less than "
    "20 %, of which about 10 % is writing one id more for every event).",
    x_label="standing queries",
    y_label="events per second, all ids",
    sweep={"smoke": (50_000,), "full": (1_000_000,)},
    prepare=prepare,
    series={
        "ours": ours,
        "ours and a query that holds all": ours_covered,
        "superintervals": superintervals(SuperintervalsBatch),
        "superintervals, values": superintervals(SuperintervalsValues),
        "superintervals, sorted events": superintervals_sorted,
        "ours, 1,000 events": in_thousands(ours),
        "superintervals values, 1,000 events": in_thousands(superintervals(SuperintervalsValues)),
        **{f"calls of {n:,}": changes(n) for n in CHANGES_A_CALL},
    },
    holds=holds,
    rounds=2,
    notes="superintervals is a static index: it takes no removes, and an add means building it "
    "again. After each call of changes ours answers an event, so nothing is put off. A query that "
    "holds everything is one more id for each event.",
)
