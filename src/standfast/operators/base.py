"""What a way of answering is: a few methods and one `Spec` that says what it needs and promises.

The engine gives every strategy the same three things: slots with their key ranges (`add`), slots
to forget (`remove`), and batches of events (`process`). Ranges are closed and never empty, keys
are int64 (see `model.numbers`); a slot is a small number that is never used twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from standfast.arrays import Hits, Int64s
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import Question

EXACT: Literal["exact"] = "exact"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a strategy is for: printed as the catalogue page, checked at registration."""

    question: type[Question]
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


class Arrivals(NamedTuple):
    """Rows that arrive on one side of an equality join, ascending by code.

    `codes` are the join keys, `values` the keys of the side's selected column (0 if it has none),
    `times` the keys of the time column in window joins, else empty.
    """

    codes: Int64s
    values: Int64s
    times: Int64s


class SelectStrategy(Strategy):
    """Answers `select_join`: which queries select the event and some stored row of its code.

    Attribute 0 of the boxes is the selected column of side 0, attribute 1 that of side 1.
    """

    def measure_by(self, is_float: tuple[bool, bool]) -> None:
        """Told before any query comes which selected columns are float64; estimates may use it."""

    @abstractmethod
    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        """Hits of events that arrive on `side`; `stored` are the rows of the other side.

        The stored rows are coded by join key, in order of their side's selected column.
        """


class WindowStrategy(Strategy):
    """Answers `window_join`: which queries select the event and a stored row near to it in time.

    Attributes 0 and 1 as in `SelectStrategy`; attribute 2 is the range, from 0 on, that the
    absolute difference of the times must lie in.
    """

    def __init__(self, *, is_float: bool) -> None:
        """`is_float` tells whether the times are float64."""
        self.is_float = is_float

    def measure_by(self, is_float: tuple[bool, bool]) -> None:
        """As in `SelectStrategy`."""

    @abstractmethod
    def process(self, events: Arrivals, stored: SortedRuns, *, side: Literal[0, 1]) -> Hits:
        """As in `SelectStrategy`; `extras[0]` of the stored rows is the key of their time."""
