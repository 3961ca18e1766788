"""Routed: the structure that repays what it costs, no sooner than somebody looks.

    rows     o o o o o o o      remembered only: from which position on each lane changed
    lookup              ^       the structure catches up, then answers
    lookup              ^^^^^   when as many were asked as there are answers, all are written down
                                and read from there until rows or queries change, or time goes on;
                                when nobody read them again, it is done later the next time

Subtractable aggregates have running totals, holistic ones sorted intervals. Mergeable ones have
base intervals (a row costs little, a lookup a logarithm) or landmark intervals (a row costs once a
class of widths, a lookup little): what each costs is estimated, corrected by what the one in use is
seen to cost, and the other is built once it would have saved twice what it takes to build it.

Invariant  the structure is as if it had taken in every row up to the changes put by.
Cost       that of the structure in use; a lookup of an answer written down O(1); a change that is
           put by O(lanes). Estimates are in nanoseconds, corrected as they are seen to be wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from math import log2

import numpy as np

from standfast.arrays import Int64s
from standfast.indexes.lane_changes import Change, PutBy
from standfast.indexes.lanes import Lanes
from standfast.model.query import WindowAggregate
from standfast.operators.aggregates import Aggregate
from standfast.operators.base import ROUNDED, AggregateStrategy, Found, Spec, spread_out
from standfast.operators.block_folds import FEW, SHIFT, is_worth
from standfast.operators.window_aggregate.base_interval_quantiles import BaseIntervalQuantiles
from standfast.operators.window_aggregate.base_intervals import BaseIntervals
from standfast.operators.window_aggregate.landmark_intervals import LandmarkIntervals, levels_of
from standfast.operators.window_aggregate.running_intervals import RunningIntervals

WAYS: dict[str, type[AggregateStrategy]] = {
    "running_intervals": RunningIntervals,
    "base_intervals": BaseIntervals,
    "landmark_intervals": LandmarkIntervals,
    "base_interval_quantiles": BaseIntervalQuantiles,
}
_CHOICE = {
    "subtractable": ("running_intervals",),
    "mergeable": ("base_intervals", "landmark_intervals"),
    "holistic": ("base_interval_quantiles",),
}
# Nanoseconds of a row, of a row and class of widths, of a lookup, of a lookup and level, of one of
# many that are read from folds, and what a class of widths takes whenever rows come or somebody
# looks (decision 014 has the figures).
ROW_NS, CLASS_NS, LOOKUP_NS, LEVEL_NS, FOLDED_NS, CALL_NS = 20.0, 60.0, 60.0, 8.0, 40.0, 50_000.0
# How often over a building must have been missed before it is done.
PATIENCE = 2.0
# One turn in so many is booked, for all of them: booking takes as long as a small batch. The first
# few are booked more often; where there is nothing to choose, none.
NOTE_EVERY, NOTE_FIRST, N_FIRST, NEVER = 64, 16, 256, -1
# Less than this is not worth asking what a building costs.
ENOUGH_NS = 1e6
# Answers that are worth writing down: more would be more than a cache holds.
MOST_ANSWERS = 1 << 22
# How often over all answers must have been asked for, at most, before they are written down.
MOST_PATIENT = 64


class Routed(AggregateStrategy):
    """Choose the structure by what rows and lookups cost; catch up when somebody looks."""

    spec = Spec(
        question=WindowAggregate, paper="ours, after [shared-windows] 8",
        time="that of the best structure for the mix of rows and lookups",
        space="that of the structure, and of the answers while they are read over and over",
        promise=ROUNDED,
    )  # fmt: skip

    def __init__(
        self, aggregate: Aggregate, lanes: Lanes, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        super().__init__(aggregate, lanes)
        self._clock = clock
        self.ways = _CHOICE[aggregate.belongs_to]
        self.way = self.ways[0]
        self._made = WAYS[self.way](aggregate, lanes)
        # Changes that the structure has not taken in: the first, and what came after it.
        self._first: Change | None = None
        self._put_by, self._has_more = PutBy(), False
        self._weight = NOTE_FIRST  # turns that a booked one stands for
        self._until = 1 if len(self.ways) > 1 else NEVER  # turns until the next that is booked
        self._n_turns = 0  # that booked ones stood for
        self._asked_from = 0  # how many lookups there were at the last change
        self._wanted = 0  # how many have to come after it until all answers may be written down
        self._written: Found | None = None
        self._written_at = 0
        self._is_reread = False  # what was written down
        self._patience = 1  # how often over answers are asked for before they are written down
        # Classes of widths and levels of a window, while queries stay as they are.
        self._shape: tuple[int, float] | None = None
        self.missed_ns = 0.0  # what the other structure would have saved so far
        # Measured over estimated cost, of rows and of lookups.
        self.corrections: dict[tuple[str, str], float] = {}
        self.n_switches = self.n_lookups = self.n_reread = 0

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        super().add(slots, lows, highs)
        self._catch_up()
        self._made.add(slots, lows, highs)
        self._forget()
        self._shape = None

    def remove(self, slots: Int64s) -> None:
        super().remove(slots)
        self._catch_up()
        self._made.remove(slots)
        self._forget()
        self._shape = None

    def take_in(self, change: Change) -> None:
        first = self._first
        if first is None:
            self._first = change
        elif self.lanes.is_keyed or not _holds(first.firsts, change.firsts):
            self._put_by.add(change, self.lanes.n_lanes)
            self._has_more = True
        if self._written is not None:
            self._forget()
        self._asked_from = self.n_lookups

    def _forget(self) -> None:
        """Answers written down are of another moment; that they were may have been for nothing."""
        if self._written is not None:
            self._patience = 1 if self._is_reread else min(2 * self._patience, MOST_PATIENT)
        self._written = None
        self._wanted = self._patience * self.living.size

    def _catch_up(self) -> Change | None:
        """Let the structure take in what was put by, if anything was."""
        change = self._first
        if change is None:
            return None
        if self._has_more:
            # Later changes know of more lanes, or of all of them moved.
            known = change.lanes < self.lanes.n_lanes
            self._put_by.add(Change(*(c[known] for c in change)), self.lanes.n_lanes)
            change = self._first = self._put_by.take()
            self._has_more = False
        self._made.take_in(change)
        self._first = None  # not before: an aggregate of the user's own may fail
        return change

    def lookup(self, slots: Int64s, lanes: Int64s) -> Found:
        if self._written is not None and self._written_at == self.lanes.now:
            return self._again(self._written, slots, lanes)
        self._until -= 1
        if not self._until:
            self._catch_up_noted()
            return self._noted(slots.size, partial(self._made.lookup, slots, lanes))
        # No more than this on the way to most answers: it is part of what a small batch takes.
        if self._first is not None:
            self._catch_up()
        found = self._made.lookup(slots, lanes)
        self.n_lookups += slots.size
        if self.n_lookups - self._asked_from >= self._wanted:
            self._consider()
        return found

    def answers(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        if self._written is not None and self._written_at == self.lanes.now:
            return self._again(self._written, slots, lanes)
        self._until -= 1
        if not self._until:
            self._catch_up_noted()  # which may switch to another structure
            return self._noted(slots.size, partial(self._made.answers, slots, lanes, firsts, lasts))
        self._catch_up()
        found = self._made.answers(slots, lanes, firsts, lasts)
        self.n_lookups += slots.size
        self._consider()
        return found

    def _catch_up_noted(self) -> None:
        """Catch up, and book what it took."""
        self._until = self._weight
        begin = self._clock()
        change = self._catch_up()
        if change is not None:
            held = self.lanes.held(change)
            n_rows = int((self.lanes.geometry.tails[held.lanes] - held.firsts).sum())
            self._note(n_rows, 0, begin)

    def _noted(self, n_lookups: int, ask: Callable[[], Found]) -> Found:
        """Answers read from the structure, booked."""
        begin = self._clock()
        found = ask()
        self._note(0, n_lookups, begin)
        self._n_turns += self._weight
        if self._n_turns >= N_FIRST:
            self._weight = self._until = NOTE_EVERY
        self.n_lookups += n_lookups
        self._consider()
        return found

    def _consider(self) -> None:
        """Write all answers down if as many were asked for since the last change."""
        n_answers = self.living.size * max(1, self.lanes.n_lanes)
        n_asked = self.n_lookups - self._asked_from
        if self._patience * n_answers <= n_asked and n_answers <= MOST_ANSWERS:
            self._write_down()

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        self._catch_up()
        return self._made.read(slots, lanes, firsts, lasts)

    def _again(self, written: Found, slots: Int64s, lanes: Int64s) -> Found:
        """Answers that were written down at this very moment."""
        self.n_lookups += slots.size
        self.n_reread += slots.size
        self._is_reread = True
        return written.take(lanes * self.living.size + slots)

    def _write_down(self) -> None:
        """Have every answer of this moment at hand."""
        self._forget()
        slots = np.flatnonzero(self.living)
        lanes = np.repeat(np.arange(self.lanes.n_lanes), slots.size)
        slots = np.tile(slots, self.lanes.n_lanes)
        firsts, lasts = self.lanes.positions(lanes, self.lows[0, slots], self.highs[0, slots])
        found = self._made.answers(slots, lanes, firsts, lasts)
        at, n = lanes * self.living.size + slots, self.living.size * self.lanes.n_lanes
        self._written, self._written_at = spread_out(found, at, n), self.lanes.now
        self._is_reread = False

    def _note(self, n_rows: int, n_lookups: int, begin: float) -> None:
        """Book what rows or lookups took, and what they would have taken elsewhere."""
        costs, what = self.estimates(n_rows, n_lookups), "rows" if n_rows else "lookups"
        if not costs[self.way]:
            return  # nothing came or was asked, or no query needs what came
        took = 1e9 * (self._clock() - begin)
        # Compiling and a busy machine make it longer for once, not for good.
        known = self.corrections.setdefault((self.way, what), 1.0)
        seen = min(max(took / costs[self.way], known / 2), known * 2)
        self.corrections[self.way, what] += (seen - known) / 2
        other = next(way for way in self.ways if way != self.way)
        saved = self._expected(self.way, costs, what) - self._expected(other, costs, what)
        self.missed_ns = max(0.0, self.missed_ns + self._weight * saved)
        if self.missed_ns > ENOUGH_NS:
            price = self._expected(other, self.estimates(len(self.lanes), 0), "rows")
            if self.missed_ns > PATIENCE * price + ENOUGH_NS:
                self.switch(other)

    def _expected(self, way: str, costs: dict[str, float], what: str) -> float:
        """What rows or lookups should cost a way: the estimate, corrected by what was seen.

        A way that was not in use yet is taken to be as wrong as the one that is.
        """
        known = self.corrections.get((self.way, what), 1.0)
        return self.corrections.get((way, what), known) * costs[way]

    def estimates(self, n_rows: int, n_lookups: int) -> dict[str, float]:
        """What rows, and lookups of one call, cost each structure, in nanoseconds."""
        if self._shape is None:
            slots = np.flatnonzero(self.living)
            sample = slots[:: max(1, slots.size // 1024)]
            levels = levels_of(self.lows[0, sample], self.highs[0, sample])
            self._shape = (np.unique(levels).size, float(levels.mean()) if levels.size else 0.0)
        n_classes, depth = self._shape
        if self.lanes.unit == "range":
            depth = min(depth, log2(1 + self.lanes.size))
        folds = self.aggregate.user is None and n_lookups >= FEW
        if folds:
            n_stale = len(self.lanes)
            folds = is_worth(n_lookups, n_stale, n_stale >> SHIFT)
        walk_ns = FOLDED_NS if folds else LOOKUP_NS + LEVEL_NS * depth
        return {
            "running_intervals": n_rows * ROW_NS + n_lookups * LOOKUP_NS,
            "base_intervals": n_rows * ROW_NS + n_lookups * walk_ns,
            "landmark_intervals": n_classes * (n_rows * CLASS_NS + CALL_NS) + n_lookups * LOOKUP_NS,
            "base_interval_quantiles": n_rows * ROW_NS * depth + n_lookups * LOOKUP_NS * depth**2,
        }

    def switch(self, way: str) -> None:
        """Build another structure in place of the one in use."""
        made = WAYS[way](self.aggregate, self.lanes)
        slots = np.flatnonzero(self.living)
        if slots.size:
            made.add(slots, self.lows[:, slots], self.highs[:, slots])
        made.take_in(self.lanes.all_changed())
        self._made, self.way = made, way
        self._first = None
        self._put_by.take()
        self._has_more = False
        self.missed_ns = 0.0
        self.n_switches += 1

    def check(self) -> None:
        self._put_by.check()
        # Rows that no window reaches make no lane, and change none.
        assert self._has_more or not self._put_by, "changes put by are not known of"
        self._catch_up()
        self._made.check()

    def memory_bytes(self) -> int:
        written = self._written
        kept = 0
        if written is not None:
            kept = sum(column.nbytes for column in written if column is not None)
        return int(self._made.memory_bytes() + kept)

    def describe(self) -> dict[str, object]:
        rows, lookups = max(1, self.lanes.n_taken), self.n_lookups
        told: dict[str, object] = {"structure": self.way, "rows": self.lanes.n_taken}
        told |= {"lookups": lookups, "read again": self.n_reread, "switches": self.n_switches}
        if len(self.ways) > 1:
            # Of lookups what they cost depends on how many there are at a time.
            turns = max(1, self._n_turns)
            costs = self.estimates(rows, 0), self.estimates(0, (lookups - self.n_reread) // turns)
            for way in self.ways:
                ns = self._expected(way, costs[0], "rows")
                ns += turns * self._expected(way, costs[1], "lookups")
                told[f"us by {way}"] = 1e-3 * ns
        return told | self._made.describe()


def _holds(known: Int64s, firsts: Int64s) -> bool:
    """Whether the only lane is known to have changed from there on."""
    return bool(known.size and firsts.size and known[0] <= firsts[0])
