"""Retried: a way whose aggregate is the user's own, and may fail at any of its steps.

    rows, queries   taken in; where the aggregate fails the structure is given up, and nobody told
    lookup          no structure: it is built anew from the lanes and the queries, then answers
                    fails again: whoever asks is told

So nothing that came is lost, and what fails is told to those who ask for its answers alone.

Invariant  the structure, if there is one, has taken in every row and query.
Cost       that of the way; after a failure that of building it, each time somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from standfast.arrays import Int64s
from standfast.errors import FailedAggregate
from standfast.indexes.lane_changes import Change
from standfast.indexes.lanes import Lanes
from standfast.operators.aggregates import Aggregate
from standfast.operators.base import AggregateStrategy, Found

T = TypeVar("T")

_HINT = "rows are kept and it is tried again when asked; other templates are not touched by it"


class Retried(AggregateStrategy):
    """Give up a structure that an aggregate failed in; build it anew when somebody looks."""

    def __init__(self, way: type[AggregateStrategy], aggregate: Aggregate, lanes: Lanes) -> None:
        super().__init__(aggregate, lanes)
        self._way = way
        self._made: AggregateStrategy | None = way(aggregate, lanes)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        super().add(slots, lows, highs)
        self._try(lambda made: made.add(slots, lows, highs))

    def remove(self, slots: Int64s) -> None:
        super().remove(slots)
        self._try(lambda made: made.remove(slots))

    def take_in(self, change: Change) -> None:
        self._try(lambda made: made.take_in(change))

    def lookup(self, slots: Int64s, lanes: Int64s) -> Found:
        return self._ask(lambda made: made.lookup(slots, lanes))

    def answers(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        return self._ask(lambda made: made.answers(slots, lanes, firsts, lasts))

    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        return self._ask(lambda made: made.read(slots, lanes, firsts, lasts))

    def _try(self, step: Callable[[AggregateStrategy], None]) -> None:
        """Let the structure take something in, or give it up."""
        if self._made is None:
            return
        try:
            self._with(self._made, step)
        except Exception:
            assert self._made is None, "a structure was kept that is half done"

    def _ask(self, question: Callable[[AggregateStrategy], Found]) -> Found:
        try:
            return self._with(self._made or self._anew(), question)
        except Exception as error:
            why = f"aggregate {self.aggregate.name!r} fails: {type(error).__name__}: {error}"
            raise FailedAggregate(why, hint=_HINT) from error

    def _with(self, made: AggregateStrategy, step: Callable[[AggregateStrategy], T]) -> T:
        """Take a step; the structure is kept if it was taken to its end."""
        self._made = None
        result = step(made)
        self._made = made
        return result

    def _anew(self) -> AggregateStrategy:
        made = self._way(self.aggregate, self.lanes)
        slots = np.flatnonzero(self.living)
        if slots.size:
            made.add(slots, self.lows[:, slots], self.highs[:, slots])
        made.take_in(self.lanes.all_changed())
        return made

    def check(self) -> None:
        if self._made is not None:
            self._made.check()

    def memory_bytes(self) -> int:
        return 0 if self._made is None else self._made.memory_bytes()

    def describe(self) -> dict[str, object]:
        return {"state": "failed"} if self._made is None else self._made.describe()
