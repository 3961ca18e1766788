"""What a threshold template does with its keys: who is in the answers, and who came or went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.engine.registry import Registry
from standfast.engine.relations import Columns, Relation, in_order, places_of
from standfast.engine.sharing import Share
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.engine.windows import REPORTED, WindowReader, renumbered
from standfast.indexes.lane_kernels import Bools, Values
from standfast.model.query import KeyThreshold
from standfast.operators.base import Crossings, ThresholdStrategy
from standfast.operators.catalog import KEY_THRESHOLDS


class ThresholdReader(WindowReader):
    """Answers `key_threshold`."""

    strategy: ThresholdStrategy
    question: KeyThreshold

    def __init__(
        self, question: KeyThreshold, strings: Strings, stores: Mapping[str, Store]
    ) -> None:
        super().__init__(question, strings, stores)
        self._pending = Relation.empty()  # crossings of ways that were replaced; raw is the change

    def use(self, way: str) -> None:
        before = getattr(self, "strategy", None)
        if before is not None:
            self._put_by(before.changed())
        is_float = self.lanes.dtype == np.float64
        self.strategy = KEY_THRESHOLDS[way](self.question.function, self.lanes, is_float=is_float)
        kept = self.lanes.kept()
        order = np.argsort(kept.times, kind="stable")
        self.strategy.append(kept.codes[order], kept.times[order], kept.values[order])
        self.strategy.advance(self.lanes.now)
        self._is_new = before is not None

    def boxes(self, slots: Int64s, registry: Registry) -> tuple[Int64s, Int64s]:
        """Windows and bounds."""
        return registry.lows.take(slots, axis=1), registry.highs.take(slots, axis=1)

    def advance(self, latest_us: int) -> None:
        super().advance(latest_us)
        self.strategy.advance(self.lanes.now)

    def changes(self, share: Share, registry: Registry) -> tuple[Relation, Relation]:
        """The keys that left and those that came; nobody looks for those of other shares."""
        slots = registry.living()
        self._put_by(self.strategy.changed(slots[share.has(registry.ids[slots])]))
        rows, self._pending = self._pending, Relation.empty()
        rows = rows.take(registry.are_living(rows.slots) & share.has(registry.ids[rows.slots]))
        return rows.take(rows.raw == -1), rows.take(rows.raw == 1)

    def take_back(self, went: Relation, came: Relation) -> None:
        self._pending = in_order([went, came])

    def columns(self) -> Columns:
        return Columns(self.key_kind(), None, self.strings)

    def answers(self, slots: Int64s, registry: Registry, *, exact: bool = True) -> Relation:
        """The keys of slots, which come in ascending order, by slot and code."""
        slots = np.sort(slots)
        offsets, codes = self.strategy.lookup(slots, exact=exact)
        pairs = np.repeat(slots, np.diff(offsets))
        codes = codes[np.lexsort((codes, pairs))]
        return Relation(pairs, codes, np.zeros(codes.size, np.int64), np.ones(codes.size, np.bool_))

    def _put_by(self, crossings: Crossings) -> None:
        """Add crossings to those not reported yet; one that was undone is none."""
        known, before = np.ones(crossings.slots.size, np.bool_), self._pending
        new = Relation(crossings.slots, crossings.codes, crossings.changes.astype(np.int64), known)
        new = new.take(np.lexsort((new.codes, new.slots)))
        at = places_of(new, before)
        met = at >= 0
        before.raw[at[met]] += new.raw[met]
        together = [np.concatenate(c) for c in zip(before, new.take(~met), strict=True)]
        rows = Relation(*together)
        rows = rows.take(rows.raw != 0)
        self._pending = rows.take(np.lexsort((rows.codes, rows.slots)))

    def _told_codes(self) -> Iterator[Int64s]:
        yield self.strategy.held()
        yield np.unique(self._pending.codes)

    def _append(self, codes: Int64s, times: Int64s, values: Values, valid: Bools) -> None:
        order = np.flatnonzero(valid)
        order = order[np.argsort(times[order], kind="stable")]
        codes, times, values = codes[order], times[order], values[order]
        self.lanes.append(codes, times, values, valid[order])
        self.strategy.append(codes, times, values)
        self.strategy.advance(self.lanes.now)

    def _all_moved(self) -> None:
        """Strategies see it by the lanes' generation."""

    def renumber(self, living: Int64s) -> None:
        self._put_by(self.strategy.changed())
        self._pending = renumbered(self._pending, living)

    def settled(self) -> None:
        """Queries are indexed by a strategy that replaced another: what they hold is known."""
        if self._is_new:
            self._is_new = False
            self.strategy.changed()

    def unreported(self, registry: Registry) -> pa.Table:
        """The crossings that were not reported yet."""
        self._put_by(self.strategy.changed())
        rows = self._pending.take(np.isin(self._pending.slots, registry.living()))
        ids = registry.ids[rows.slots] if rows.slots.size else rows.slots
        return pa.table([ids, rows.codes, rows.raw, rows.known], names=REPORTED)

    def resume(self, table: pa.Table, registry: Registry) -> None:
        self.strategy.changed()
        ids, codes, raw, known = (column.to_numpy() for column in table.columns)
        rows = self._named(Relation(registry.slots_of(ids), codes, raw.copy(), known))
        self._pending = rows.take(np.lexsort((rows.codes, rows.slots)))
