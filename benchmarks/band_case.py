"""What the band join figures share: a case of Table I, our ways and the peers as series over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.clock import throughput
from benchmarks.figure import Reading
from benchmarks.peers import BandPeer, Int64s
from standfast.arrays import Hits, SpanList, pooled
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import BandStrategy
from standfast.operators.catalog import BAND_JOINS

Series = Callable[["BandCase"], Iterator[Reading]]


@dataclass(frozen=True, slots=True)
class BandCase:
    """Bands `[low, high]` on stored row minus event; the first `n_checked` events are compared."""

    lows: Int64s
    highs: Int64s
    stored: Int64s
    events: Int64s
    n_checked: int

    @property
    def n_queries(self) -> int:
        return self.lows.size

    def answer(self, ids_of: Callable[[int], Int64s]) -> Int64s:
        """Event times number of queries plus query, ascending, of the events that are compared."""
        n = self.n_queries
        return np.concatenate([e * n + np.sort(ids_of(e)) for e in range(self.n_checked)])

    def rows(self) -> SortedRuns:
        rows = SortedRuns()
        rows.insert(self.stored, np.arange(self.stored.size))
        return rows

    def strategy(self, way: str) -> BandStrategy:
        """The strategy with all queries in it."""
        strategy = BAND_JOINS[way](is_float=False)
        strategy.add(np.arange(self.n_queries), self.lows[None, :], self.highs[None, :])
        return strategy


class InOrder(NamedTuple):
    """Hits of a batch that was sorted for processing; `order` leads back to the events."""

    order: Int64s
    hits: Hits


def in_order(strategy: BandStrategy, rows: SortedRuns, events: Int64s) -> InOrder:
    """Sort the events and process them: what a push costs a strategy."""
    order = np.argsort(events)
    return InOrder(order, strategy.process(events[order], rows, minuend=False))


def checked(case: BandCase, output: InOrder) -> Int64s:
    """The comparable answer, read from the spans."""
    spans, places = output.hits.spans(), np.argsort(output.order)
    return case.answer(lambda e: _ids_in_spans(spans, places[e]))


def affected(way: str) -> Series:
    """Events per second until it is known who is affected, in the way's own form of an answer."""

    def measure(case: BandCase) -> Iterator[Reading]:
        strategy, rows = case.strategy(way), case.rows()
        timed = throughput(partial(in_order, strategy, rows), case.events, case.n_checked)
        yield Reading(timed.rate, checked(case, timed.output))

    return measure


def one_by_one(way: str) -> Series:
    """The same with a call for each event: what batching is worth."""

    def measure(case: BandCase) -> Iterator[Reading]:
        strategy, rows = case.strategy(way), case.rows()

        def process(events: Int64s) -> list[InOrder]:
            return [in_order(strategy, rows, events[i : i + 1]) for i in range(events.size)]

        timed = throughput(process, case.events, case.n_checked)
        found = [output.hits.spans() for output in timed.output[: case.n_checked]]
        yield Reading(timed.rate, case.answer(lambda e: _ids_in_spans(found[e], 0)))

    return measure


def pairs(way: str) -> Series:
    """Events per second until every (event, query) pair is written out."""

    def measure(case: BandCase) -> Iterator[Reading]:
        strategy, rows = case.strategy(way), case.rows()
        ids = np.arange(case.n_queries)

        def process(events: Int64s) -> tuple[Int64s, Int64s, Int64s]:
            order, hits = in_order(strategy, rows, events)
            offsets = np.zeros(events.size + 1, np.int64)
            np.cumsum(hits.counts(), out=offsets[1:])
            out = pooled(int(offsets[-1]), np.int64)
            hits.fill(offsets[:-1], ids, out)
            return order, offsets, out

        timed = throughput(process, case.events, case.n_checked)
        order, offsets, out = timed.output
        places = np.argsort(order)
        yield Reading(
            timed.rate,
            case.answer(lambda e: out[offsets[places[e]] : offsets[places[e] + 1]]),
        )

    return measure


def peer(kind: type[BandPeer], most_pairs: float = np.inf) -> Series:
    """Events per second of a peer; left out where bands times rows exceed `most_pairs`."""

    def measure(case: BandCase) -> Iterator[Reading]:
        if case.n_queries * case.stored.size > most_pairs:
            return
        made = kind(case.lows, case.highs, case.stored)
        timed = throughput(made.affected, case.events, case.n_checked)
        yield Reading(timed.rate, case.answer(lambda e: made.ids(timed.output, e)))

    return measure


def _ids_in_spans(spans: SpanList, event: Any) -> Int64s:
    """The living slots that the spans of one event name, each once."""
    found = []
    for i in np.flatnonzero(spans.events == event):
        slots = spans.order[spans.starts[i] : spans.stops[i]]
        counted = spans.ranks[spans.starts[i] : spans.stops[i]] >= spans.floors[i]
        found.append(slots[counted & (slots >= 0)])
    return np.concatenate(found).astype(np.int64) if found else np.empty(0, np.int64)
