"""What the select-join figures share: a case of Table I, our ways and the peers as series over it.

    R(A, B)   the events: A and B uniform             query i selects R.A in its range on A and
    S(B, C)   the rows: B normal, C uniform           S.C in its range on C, where R.B = S.B

In the paper's table B has 10,000 values and an event then joins with 10 rows on average; for the
1,000 of its experiments ours has as many values as that takes. The table also places the ranges on
C between 0 and 10,000 while C goes to 1,000,000; ours lie where the rows are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.clock import throughput
from benchmarks.data import N_CHECKED, SCALE
from benchmarks.figure import Reading, Size
from benchmarks.peers import Int64s, SelectPeer, postgres_select
from standfast import workloads
from standfast.arrays import Hits, SpanList, pooled
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.base import Arrivals, SelectStrategy
from standfast.operators.catalog import SELECT_JOINS
from standfast.workloads import Ranges, join_keys, whole

Series = Callable[["SelectCase"], Iterator[Reading]]

RATE = 0.1  # the share of all queries that an event selects
JOINING: dict[Size, int] = {"smoke": 100, "full": 1_000}  # rows that an event joins with
N_ROWS: dict[Size, int] = {"smoke": 2_000, "full": 100_000}
N_EVENTS: dict[Size, int] = {"smoke": 400, "full": 20_000}
NO_TIMES = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class SelectCase:
    """Queries `lows[:, i]` to `highs[:, i]` on A and C, rows and events by join key.

    The first `n_checked` events are compared.
    """

    lows: Int64s
    highs: Int64s
    row_keys: Int64s
    row_values: Int64s
    keys: Int64s
    values: Int64s
    n_checked: int

    @property
    def n_queries(self) -> int:
        return self.lows.shape[1]

    @property
    def places(self) -> Int64s:
        """The events, as the clock takes prefixes of them."""
        return np.arange(self.keys.size)

    def answer(self, ids_of: Callable[[int], Int64s]) -> Int64s:
        """Event times number of queries plus query, ascending, of the events that are compared."""
        n = self.n_queries
        return np.concatenate([e * n + np.sort(ids_of(e)) for e in range(self.n_checked)])

    def rows(self) -> SortedRuns:
        rows = SortedRuns(coded=True)
        rows.insert(self.row_values, np.arange(self.row_values.size), self.row_keys)
        return rows

    def strategy(self, way: str) -> SelectStrategy:
        """The strategy with all queries in it."""
        strategy = SELECT_JOINS[way]()
        strategy.add(np.arange(self.n_queries), self.lows, self.highs)
        return strategy

    def process(self, strategy: SelectStrategy, rows: SortedRuns, events: Int64s) -> InOrder:
        """Sort the events by key and process them: what a push costs a strategy."""
        order = events[np.argsort(self.keys[events], kind="stable")]
        arrivals = Arrivals(self.keys[order], self.values[order], NO_TIMES)
        return InOrder(order, strategy.process(arrivals, rows, side=0))

    def found(self, order: Int64s, spans: SpanList) -> Int64s:
        """The comparable answer, read from the spans of events in this order."""
        lists = dict(_ids_by_event(order, spans, self.n_checked))
        return self.answer(lambda e: lists[e])


class InOrder(NamedTuple):
    """Hits of events that were sorted for processing; `order` names the events."""

    order: Int64s
    hits: Hits


def table_one(
    ranges: Ranges, size: Size, seed: int, *, rate: float = RATE, n_joining: float | None = None
) -> SelectCase:
    """These ranges on C, each with one on A, over rows and events of Table I.

    What an event costs depends on where it lies, and a slow way is measured on the first N_CHECKED
    events only; so one of them lies in each of as many equal parts of either domain.
    """
    n_rows, n_events = N_ROWS[size], N_EVENTS[size]
    n_keys = round(n_rows / (n_joining or JOINING[size]))
    c, a = ranges.whole(SCALE), workloads.selections(len(ranges), rate, seed).whole(SCALE)
    rng, keys = np.random.default_rng(seed), workloads.table_one_events(n_events, seed + 3)
    values = workloads.table_one_events(n_events, seed + 4)
    for events in (keys, values):
        parts = rng.permutation(N_CHECKED) + rng.uniform(0, 1, N_CHECKED)
        events[:N_CHECKED] = parts * workloads.DOMAIN / N_CHECKED
    return SelectCase(
        np.stack([a.lows, c.lows]),
        np.stack([a.highs, c.highs]),
        join_keys(workloads.table_one_rows(n_rows, seed + 1), n_keys),
        whole(workloads.table_one_events(n_rows, seed + 2), SCALE),
        join_keys(keys, n_keys),
        whole(values, SCALE),
        N_CHECKED,
    )


def spans(way: str, most_queries: float = np.inf) -> Series:
    """Events per second until the affected queries are slices of a published order."""

    def measure(case: SelectCase) -> Iterator[Reading]:
        if case.n_queries > most_queries:
            return
        strategy, rows = case.strategy(way), case.rows()

        def process(events: Int64s) -> tuple[Int64s, SpanList]:
            order, hits = case.process(strategy, rows, events)
            return order, hits.spans()

        timed = throughput(process, case.places, case.n_checked)
        yield Reading(timed.rate, case.found(*timed.output))

    return measure


def located(way: str) -> Series:
    """Events per second until the strategy has its answer, in its own most compact form."""
    return _until(way, lambda hits: None)


def counted(way: str) -> Series:
    """Events per second until every event's affected queries are counted, and none is named."""
    return _until(way, lambda hits: hits.counts())


def _until(way: str, done: Callable[[Hits], object]) -> Series:
    def measure(case: SelectCase) -> Iterator[Reading]:
        strategy, rows = case.strategy(way), case.rows()

        def process(events: Int64s) -> InOrder:
            found = case.process(strategy, rows, events)
            done(found.hits)
            return found

        timed = throughput(process, case.places, case.n_checked)
        order, hits = timed.output
        yield Reading(timed.rate, case.found(order, hits.spans()))

    return measure


def one_by_one(way: str) -> Series:
    """The spans with a call for each event: what batching is worth."""

    def measure(case: SelectCase) -> Iterator[Reading]:
        strategy, rows = case.strategy(way), case.rows()

        def process(events: Int64s) -> list[tuple[Int64s, SpanList]]:
            each = (case.process(strategy, rows, events[i : i + 1]) for i in range(events.size))
            return [(order, hits.spans()) for order, hits in each]

        timed = throughput(process, case.places, case.n_checked)
        lists: dict[int, Int64s] = {}
        for order, found in timed.output[: case.n_checked]:
            lists |= _ids_by_event(order, found, case.n_checked)
        yield Reading(timed.rate, case.answer(lambda e: lists[e]))

    return measure


def pairs(way: str, most_queries: float = np.inf) -> Series:
    """Events per second until every (event, query) pair is written out."""

    def measure(case: SelectCase) -> Iterator[Reading]:
        if case.n_queries > most_queries:
            return
        strategy, rows = case.strategy(way), case.rows()
        ids = np.arange(case.n_queries)

        def process(events: Int64s) -> tuple[Int64s, Int64s, Int64s]:
            order, hits = case.process(strategy, rows, events)
            offsets = np.zeros(events.size + 1, np.int64)
            np.cumsum(hits.counts(), out=offsets[1:])
            out = pooled(int(offsets[-1]), np.int64)
            hits.fill(offsets[:-1], ids, out)
            return order, offsets, out

        timed = throughput(process, case.places, case.n_checked)
        order, offsets, out = timed.output
        at = np.argsort(order)
        yield Reading(timed.rate, case.answer(lambda e: out[offsets[at[e]] : offsets[at[e] + 1]]))

    return measure


def peer(kind: type[SelectPeer], most_queries: float = np.inf) -> Series:
    """Events per second of a peer; left out with more than `most_queries`."""

    def measure(case: SelectCase) -> Iterator[Reading]:
        if case.n_queries > most_queries or not _is_here(kind):
            return
        made = kind(case.lows, case.highs, case.row_keys, case.row_values)
        timed = throughput(
            lambda events: made.affected(case.keys[: events.size], case.values[: events.size]),
            case.places, min(max(case.n_checked, kind.batch), case.keys.size),
        )  # fmt: skip
        yield Reading(timed.rate, case.answer(lambda e: made.ids(timed.output, e)))

    return measure


def _is_here(kind: type[SelectPeer]) -> bool:
    if kind is not postgres_select.GistRanges or postgres_select.binaries():
        return True
    warnings.warn("PostgreSQL is left out: no initdb and postgres were found", stacklevel=2)
    return False


def _ids_by_event(events: Int64s, found: SpanList, n_checked: int) -> Iterator[tuple[int, Int64s]]:
    """The living slots that the spans name for each event that is compared, each slot once."""
    order, ranks = found.order, found.ranks
    for place in np.flatnonzero(events < n_checked):
        slots = [np.empty(0, np.int32)]
        for i in np.flatnonzero(found.events == place):
            part = slice(found.starts[i], found.stops[i])
            slots.append(order[part][(ranks[part] >= found.floors[i]) & (order[part] >= 0)])
        yield int(events[place]), np.concatenate(slots).astype(np.int64)
