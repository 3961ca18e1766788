"""What a way of answering is: a few methods and one `Spec` that says what it needs and promises.

The engine gives every strategy the same three things: slots with their key ranges (`add`), slots
to forget (`remove`), and batches of events (`process`). Ranges are closed and never empty, keys
are int64 (see `model.numbers`); a slot is a small number that is never used twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from standfast.arrays import Hits, Int64s
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import BandJoin, Filter

EXACT: Literal["exact"] = "exact"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a strategy is for: printed as the catalogue page, checked at registration."""

    question: type[Filter] | type[BandJoin]
    paper: str
    time: str
    space: str
    promise: Literal["exact"] = EXACT
    max_attributes: int = 16


class Strategy(ABC):
    """What all ways share: queries come and go, invariants can be checked, cost can be shown."""

    spec: ClassVar[Spec]

    @abstractmethod
    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        """Take in queries: `lows[a, i]` to `highs[a, i]` is the range of slot i on attribute a."""

    @abstractmethod
    def remove(self, slots: Int64s) -> None:
        """Forget these slots; each was added and not yet removed."""

    @abstractmethod
    def check(self) -> None:
        """Assert the invariants; for tests, never on the hot path."""

    @abstractmethod
    def memory_bytes(self) -> int:
        """Bytes held beyond the queries' own parameters."""

    def describe(self) -> dict[str, object]:
        """What `explain()` shows of this strategy's inside."""
        return {}


class FilterStrategy(Strategy):
    """Answers `filter`: which boxes hold each event."""

    def __init__(self, n_attributes: int) -> None:
        self.n_attributes = n_attributes

    @abstractmethod
    def process(self, values: Int64s) -> Hits:
        """Hits of the events whose key on attribute a is `values[a, e]`, in any order."""


class BandStrategy(Strategy):
    """Answers `band_join`: which bands hold the difference of an event and some stored row."""

    def __init__(self, *, is_float: bool) -> None:
        self.is_float = is_float

    @abstractmethod
    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        """Hits of the events with ascending keys `values` against the rows of the other side.

        The difference is event minus stored row when the event is the `minuend`, else stored row
        minus event.
        """
