"""What a join does with a batch of rows: keys for the strategy, further tests, result rows.

    rows -> literal conditions -> keys (join key, selected column, time, further columns)
         -> strategy: who is affected -> further conditions, pair by pair -> hits

Literal conditions cost nothing later: rows that fail them are neither events nor in the order that
the strategy searches. A further condition with holes is tested on the pairs that the strategy
found, because no order covers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from standfast.arrays import Hits, Int64s, Matches
from standfast.engine.cutting import text_bytes, text_cuts
from standfast.engine.pairs import Asked, Events, Joining, whole_line
from standfast.engine.reading import Processed, keys_of
from standfast.engine.registry import Registry
from standfast.engine.store import OrderBy, Rows, Store
from standfast.engine.strings import Strings
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.key_ranges import row_mask
from standfast.model.numbers import Keys
from standfast.model.query import BandJoin, Join, Output, Range, WindowJoin
from standfast.model.template import hole_ranges
from standfast.operators.base import Arrivals, BandStrategy, SelectStrategy, WindowStrategy
from standfast.operators.catalog import BAND_JOINS, SELECT_JOINS, WINDOW_JOINS

# Candidate pairs tested at once, at 8 bytes and more each.
PAIRS_AT_ONCE = 1 << 24
# So many times more of them there can be at worst, because how many there are is known afterwards.
AT_WORST = 16
# A window this wide (in microseconds) holds any two times.
UNLIMITED = 1 << 61


class JoinReader:
    """Answers a join template: what all kinds of join share."""

    strategy: BandStrategy | SelectStrategy | WindowStrategy

    def __init__(self, question: Join, strings: Strings, stores: Mapping[str, Store]) -> None:
        self.question = question
        self.strings = strings
        self.inputs = tuple(side.input for side in question.sides)
        self.stores = tuple(stores[name] for name in self.inputs)
        self.orders = (_order_by(question, 0), _order_by(question, 1))
        # Of the windows of living queries, or of the last ones when all went; if known.
        self.widest: int | None = None
        self._at_once = [1, 1]  # events of each side whose candidates are tested together
        for store, by in zip(self.stores, self.orders, strict=True):
            store.keep_more()
            store.order(by)

    def use(self, way: str) -> None:
        """Start over with an empty strategy of this way."""
        if isinstance(self.question, BandJoin):
            self.strategy = BAND_JOINS[way](is_float=self._is_float)
            return
        if isinstance(self.question, WindowJoin):
            self.strategy = WINDOW_JOINS[way](is_float=self._is_float)
        else:
            self.strategy = SELECT_JOINS[way]()
        one, other = (side.selected for side in self.question.sides)
        self.strategy.measure_by(
            (
                one is not None and one.kind == "float64",
                other is not None and other.kind == "float64",
            )
        )

    def boxes(self, slots: Int64s, registry: Registry) -> tuple[Int64s, Int64s]:
        """The ranges that the strategy indexes: its own attributes, whole lines where none is."""
        if isinstance(self.question, BandJoin):
            rows = [0]
        else:
            rows = [self._row(i, side.selected) for i, side in enumerate(self.question.sides)]
            rows += [0] if isinstance(self.question, WindowJoin) else []
        lows, highs = np.empty((2, len(rows), slots.size), np.int64)
        for a, row in enumerate(rows):
            lows[a], highs[a] = whole_line(slots.size)
            if row >= 0:
                lows[a], highs[a] = registry.lows[row, slots], registry.highs[row, slots]
        return lows, highs

    def process(self, batch: pa.Table, side: int, registry: Registry) -> list[Processed]:
        """Hits of rows that arrive on `side` against the rows stored for the other side."""
        rows, events = self._events(batch, side)
        other = self.stores[1 - side]
        stored = other.order(self.orders[1 - side])
        asked = self._asked(side)
        minuend = isinstance(self.question, BandJoin) and side != self.question.subtrahend
        hits: Hits
        if asked.here.size or asked.there.size:
            hits = self._tested(events, stored, side, registry, asked, minuend)
        else:
            hits = self._hits(events, stored, side, minuend)
        joining = Joining(
            events, asked, registry.lows, registry.highs, stored.published(),
            self._is_float, minuend,
        )  # fmt: skip
        results = JoinResults(self.question.select, side, batch, rows, joining, other.published())
        return [Processed(rows, hits, results)]

    def horizon(self, side: int, registry: Registry, ahead: int | None) -> int | None:
        """The time before which no row of this side is needed, or None if all are.

        Rows of the other side will come with times from `ahead` on; None if with any.
        """
        question = self.question
        if not isinstance(question, WindowJoin) or ahead is None:
            return None
        named = (store.input.time for store in self.stores)
        if tuple(named) != question.times or question.window.kind != "timestamp":
            return None
        widest = self._widest_of(registry)
        return ahead - widest if widest is not None and widest < UNLIMITED else None

    def enter(self, registry: Registry, highs: Int64s) -> None:
        """Queries are about to come: a wider window must not see rows that should be gone."""
        if not isinstance(self.question, WindowJoin) or not highs.size:
            return
        widest = self._widest_of(registry)
        if widest is not None and int(highs[0].max()) <= widest:
            return
        for store in self.stores:
            store.keep_more()
        self.widest = None

    def leave(self, registry: Registry, slots: Int64s) -> None:
        """Queries went: the widest window may have been among them.

        When all are gone the last one's window stays, so that an empty template keeps no more.
        """
        if len(registry):
            self.widest = None
        elif isinstance(self.question, WindowJoin) and self.widest is None and slots.size:
            self.widest = int(registry.highs[0, slots].max())

    def conditions(self) -> str:
        """How the conditions of the template are met, for `explain()`."""
        parts = []
        for i, side in enumerate(self.question.sides):
            further = _further(self.question, i)
            ways = [(wanted, "before the index") for wanted in side.fixed]
            ways += [
                (wanted, "pair by pair (post-filter)" if wanted in further else "by the index")
                for wanted in side.ranges
            ]
            parts += [f"{side.alias}.{wanted.column} {how}" for wanted, how in ways]
        return ", ".join(parts)

    def _widest_of(self, registry: Registry) -> int | None:
        """The widest window of the living queries; None before the first one."""
        if self.widest is None and len(registry):
            self.widest = int(registry.highs[0, registry.living()].max())
        return self.widest

    def _hits(self, events: Events, stored: SortedRuns, side: int, minuend: bool) -> Hits:
        if isinstance(self.strategy, BandStrategy):
            return self.strategy.process(events.values, stored, minuend=minuend)
        arrivals = Arrivals(events.codes, events.values, events.times)
        return self.strategy.process(arrivals, stored, side=1 if side else 0)

    def _tested(
        self, events: Events, stored: SortedRuns, side: int, registry: Registry, asked: Asked,
        minuend: bool,
    ) -> Matches:  # fmt: skip
        """The strategy's candidates that pass the further conditions, some events at a time.

        As many as had few enough candidates last; if they have more, fewer. Even if every query is
        a candidate of every event, there are at most `AT_WORST` times too many.
        """
        counts, slots = [np.zeros(1, np.int64)], [np.empty(0, np.int32)]
        names = np.arange(registry.n_slots)
        least = max(1, PAIRS_AT_ONCE // max(1, len(registry)))  # whoever is a candidate
        first, size = 0, min(max(self._at_once[side], least), AT_WORST * least)
        while first < events.values.size:
            turn = Events(*(array[..., first : first + size] for array in events))
            hits, n_events = self._hits(turn, stored, side, minuend), turn.values.size
            found = hits.counts()
            n_pairs = max(1, int(found.sum()))
            size = min(max(n_events * PAIRS_AT_ONCE // n_pairs, least), AT_WORST * least)
            if n_pairs > PAIRS_AT_ONCE and size < n_events:
                continue
            joining = Joining(
                turn, asked, registry.lows, registry.highs, stored.runs, self._is_float, minuend
            )
            event, slot = _pairs(hits, found, names)
            kept = joining.passing(event, slot)
            counts.append(np.bincount(event[kept], minlength=n_events))
            slots.append(slot[kept].astype(np.int32))
            first += n_events
        self._at_once[side] = size
        return Matches(np.cumsum(np.concatenate(counts)), np.concatenate(slots))

    def _events(self, batch: pa.Table, side: int) -> tuple[Int64s, Events]:
        """The rows that can match, in the order that strategies want, and their keys."""
        question, mine = self.question, self.question.sides[side]
        usable = row_mask(mine.fixed, batch)
        kinds = self.stores[side].input.columns
        by = self.orders[side]
        keys: dict[str, Keys] = {}
        for name in by.columns:
            keys[name], valid = keys_of(batch[name], kinds[name], self.strings)
            usable = usable & valid
        rows = np.flatnonzero(usable)
        first = by.code or by.key
        rows = rows[np.argsort(keys[first][rows], kind="stable")] if first else rows
        nothing = np.empty(0, np.int64)
        times = keys[by.extras[0]][rows] if isinstance(question, WindowJoin) else nothing
        further = [keys[r.column][rows] for r in _further(question, side)]
        return rows, Events(
            keys[by.code][rows] if by.code else nothing,
            keys[by.key][rows] if by.key else np.zeros(rows.size, np.int64),
            times,
            np.array(further, np.int64).reshape(len(further), rows.size),
        )

    def _asked(self, side: int) -> Asked:
        question, other = self.question, 1 - side
        is_band = isinstance(question, BandJoin)
        selected = None if is_band else question.sides[other].selected
        return Asked(
            band=0 if is_band else -1,
            window=0 if isinstance(question, WindowJoin) else -1,
            selected=self._row(other, selected),
            here=np.array([self._row(side, r) for r in _further(question, side)], np.int64),
            there=np.array([self._row(other, r) for r in _further(question, other)], np.int64),
        )

    def _row(self, side: int, wanted: Range | None) -> int:
        """Where the registry keeps a range of this side; -1 for none."""
        if wanted is None:
            return -1
        sides = self.question.sides
        before = len(hole_ranges(self.question)) - sum(len(s.ranges) for s in sides[side:])
        return before + sides[side].ranges.index(wanted)

    @property
    def _is_float(self) -> bool:
        """Whether what is subtracted is float64."""
        if isinstance(self.question, BandJoin):
            return self.question.band.kind == "float64"
        return isinstance(self.question, WindowJoin) and self.question.window.kind == "float64"


@dataclass(frozen=True, slots=True)
class JoinResults:
    """Result rows of a join: every stored row that joins an arrived row for an affected query."""

    select: tuple[Output, ...]
    side: int
    batch: pa.Table
    kept: Int64s
    joining: Joining
    stored: Rows

    def rows(
        self, events: Int64s, slots: Int64s, most: int
    ) -> Iterator[tuple[Int64s, list[pa.ChunkedArray]]]:
        batch = self.batch.select(_selected(self.select, self.side))
        stored = self.stored.only(_selected(self.select, 1 - self.side))
        for pair, ids in self.joining.rows(events, slots, most):
            kept = self.kept[events[pair]]
            sizes = text_bytes(batch, kept) + stored.text_bytes(ids)
            for first, last in text_cuts(sizes):
                arrived = batch.take(pa.array(kept[first:last]))
                found = stored.take(ids[first:last])
                columns = [
                    (arrived if output.side == self.side else found)[output.column]
                    for output in self.select
                ]
                yield pair[first:last], columns


def _selected(select: tuple[Output, ...], side: int) -> list[str]:
    """The columns of a side that are selected, each once."""
    return list(dict.fromkeys(output.column for output in select if output.side == side))


def _further(question: Join, side: int) -> tuple[Range, ...]:
    """The conditions with holes that no order covers: all of them where a band orders the rows."""
    mine = question.sides[side]
    return mine.ranges if isinstance(question, BandJoin) else mine.further


def _order_by(question: Join, side: int) -> OrderBy:
    """The order of the rows of one side that the strategies search."""
    mine = question.sides[side]
    further = tuple(r.column for r in _further(question, side))
    if isinstance(question, BandJoin):
        return OrderBy(mine.column, None, further, mine.fixed)
    key = mine.selected.column if mine.selected else None
    times = (question.times[side],) if isinstance(question, WindowJoin) else ()
    return OrderBy(key, mine.column, times + further, mine.fixed)


def _pairs(hits: Hits, counts: Int64s, names: Int64s) -> tuple[Int64s, Int64s]:
    """Every pair of event and slot, written out; `names` are the slots themselves."""
    slots = np.empty(int(counts.sum()), np.int64)
    hits.fill(np.cumsum(counts) - counts, names, slots)
    return np.repeat(np.arange(counts.size), counts), slots
