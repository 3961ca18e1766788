"""What a way of answering is: a few methods and one `Spec` that says what it needs and promises.

The engine gives every strategy the same three things: slots with their key ranges (`add`), slots
to forget (`remove`), and batches of events (`process`). Ranges are closed and never empty, keys
are int64 (see `model.numbers`); a slot is a small number that is never used twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast.arrays import Hits, Int64s, with_room
from standfast.indexes.lane_changes import Change
from standfast.indexes.lane_kernels import Values
from standfast.indexes.lanes import Lanes
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import Question
from standfast.operators.aggregates import Aggregate
from standfast.operators.plain import plain_answers

EXACT: Literal["exact"] = "exact"
# What is made of sums of float64: docs/windows.md has the bounds.
ROUNDED: Literal["exact, float sums but for rounding"] = "exact, float sums but for rounding"


@dataclass(frozen=True, slots=True)
class Spec:
    """What a strategy is for: printed as the catalogue page, checked at registration."""

    question: type[Question]
    paper: str
    time: str
    space: str
    promise: Literal["exact", "exact, float sums but for rounding"] = EXACT
    max_attributes: int = 16
    needs: str = ""  # the class of aggregates that it takes; every aggregate if empty


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


class Found(NamedTuple):
    """Answers of windows: `values[i]` where `known[i]`, else none (SQL: NULL).

    Sums that int64 cannot hold are not known either: `over` marks them, where there are sums of it.
    """

    values: Values
    known: npt.NDArray[np.bool_]
    over: npt.NDArray[np.bool_] | None = None

    @property
    def n_overflowed(self) -> int:
        return 0 if self.over is None else int(np.count_nonzero(self.over))

    def take(self, places: Int64s) -> Found:
        """The answers at some places."""
        over = None if self.over is None else self.over[places]
        return Found(self.values[places], self.known[places], over)


def spread_out(found: Found, places: Int64s, size: int) -> Found:
    """Answers put to their places among `size`; there is none anywhere else."""
    values, (known, over) = np.zeros(size, found.values.dtype), np.zeros((2, size), np.bool_)
    values[places], known[places] = found.values, found.known
    if found.over is None:
        return Found(values, known)
    over[places] = found.over
    return Found(values, known, over)


class AggregateStrategy(Strategy):
    """Answers `window_aggregate`: the aggregate of each query's window, in each lane, when asked.

    Attribute 0 of the boxes is the closed range of age (in microseconds or rows) of a window's
    rows, from 0 on; attribute 1, for quantiles only, the float key of the share as low and high.
    The rows are in `lanes`, which whoever owns it appends to; `take_in` is told of every change
    before the next lookup. Timed without an engine:

        lanes = Lanes("rows", is_float=True)
        way = RunningIntervals(aggregate_of("SUM", is_float=True), lanes)
        way.add(slots, lows, highs)              # lows and highs of shape (1, n)
        way.append(codes, times, values, valid)  # to the lanes, then to the way
        way.lookup(slots, np.zeros_like(slots))  # the windows of lane 0
    """

    def __init__(self, aggregate: Aggregate, lanes: Lanes) -> None:
        self.aggregate = aggregate
        self.lanes = lanes
        self.lows, self.highs = np.empty((2, 2 if aggregate.takes_share else 1, 0), np.int64)
        self.living = np.zeros(0, np.bool_)

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        size = int(slots.max()) + 1 if slots.size else 0
        self.lows, self.highs = with_room(self.lows, size), with_room(self.highs, size)
        grown = with_room(self.living, size)
        grown[self.living.size :] = False
        self.living = grown
        self.lows[:, slots], self.highs[:, slots] = lows, highs
        self.living[slots] = True

    def remove(self, slots: Int64s) -> None:
        self.living[slots] = False

    def append(
        self, codes: Int64s, times: Int64s, values: Values, valid: npt.NDArray[np.bool_]
    ) -> None:
        """Put rows into the lanes and take them in: for a way that has its lanes to itself."""
        self.take_in(self.lanes.append(codes, times, values, valid))
        if self.lanes.look():
            self.take_in(self.lanes.all_changed())

    def advance(self, now_us: int) -> None:
        """The latest time is at least this one: for a way that has its lanes to itself."""
        self.lanes.advance(now_us)

    def lookup(self, slots: Int64s, lanes: Int64s) -> Found:
        """The current answer of query `slots[i]` in lane `lanes[i]`."""
        firsts, lasts = self.lanes.positions(lanes, self.lows[0, slots], self.highs[0, slots])
        return self.answers(slots, lanes, firsts, lasts)

    def answers(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        """As `read`, for windows that may hold floats too large for running sums.

        Those windows are added up row by row, exactly: what a few such rows cost.
        """
        if not self.aggregate.minds_large or not slots.size or self.lanes.large.max() < 0:
            return self.read(slots, lanes, firsts, lasts)
        plain = (firsts <= lasts) & (firsts <= self.lanes.large[lanes])
        found = self.read(slots, lanes, firsts, lasts)
        windows = (lanes[plain], firsts[plain], lasts[plain])
        exact = plain_answers(self.aggregate, self.lanes, windows, np.zeros(windows[0].size))
        found.values[plain], found.known[plain] = exact[:2]
        return found

    @abstractmethod
    def take_in(self, change: Change) -> None:
        """Rows of the lanes changed as told; the lanes hold them already."""

    @abstractmethod
    def read(self, slots: Int64s, lanes: Int64s, firsts: Int64s, lasts: Int64s) -> Found:
        """The aggregate over positions `firsts[i] .. lasts[i]` of `lanes[i]`: the window of a slot.

        The positions are what `Lanes.positions` says of the window at this moment.
        """


class Crossings(NamedTuple):
    """Keys that came into (+1) or left (-1) the answers of queries."""

    slots: Int64s
    codes: Int64s
    changes: npt.NDArray[np.int8]


class ThresholdStrategy(Strategy):
    """Answers `key_threshold`: which keys have an aggregate within each query's bound.

    Attribute 0 of the boxes is the age of rows, always 0 .. w in microseconds: a window holds the
    rows with `now - w <= time <= now`. Attribute 1 is the closed range of the aggregate as keys of
    `model.numbers`: float keys for SUM, MIN and MAX of float64, else the int64 numbers themselves.
    An unlimited end is the least or the greatest key of the line. A key is in the answer when its
    window holds at least one row and the aggregate lies in the bound; a key without rows in the
    window is not, whatever the bound. A SUM of int64 is compared exactly, also beyond int64.

    The rows that any window reaches are in `lanes` (unit "range", keyed, each key's rows in order
    of time), appended by the reader before `append` is called: a way may verify candidates there,
    and need not keep rows of its own. `Lanes.lanes_of` leads from codes to lanes, and all lanes
    may be renumbered when `Lanes.generation` changed.
    """

    def __init__(
        self, function: Literal["COUNT", "SUM", "MIN", "MAX"], lanes: Lanes, *, is_float: bool
    ) -> None:
        """`is_float` tells whether values are float64; COUNT gets zeros."""
        self.function = function
        self.lanes = lanes
        self.is_float = is_float

    @abstractmethod
    def append(self, codes: Int64s, times: Int64s, values: Values) -> None:
        """Rows that came, ascending by time within the batch; some may be late.

        `codes` are the keys as int64 (codes of strings, keys of numbers: any int64). Rows without
        a value are left out, except for COUNT(*). They are in the lanes already, unless no window
        reaches them.
        """

    @abstractmethod
    def advance(self, now_us: int) -> None:
        """The latest time; called after every `append`, never going back."""

    @abstractmethod
    def lookup(self, slots: Int64s, *, exact: bool = True) -> tuple[Int64s, Int64s]:
        """Offsets and codes: query `slots[i]` holds for `codes[offsets[i]:offsets[i + 1]]` now.

        The codes of a query come in any order, each once. Without `exact` there may be more of
        them, within a bound that is stated (decision 015), where that saves a look at rows.
        """

    @abstractmethod
    def changed(self, slots: Int64s | None = None) -> Crossings:
        """What differs from the answers at the last call, for these living queries together.

        Others are not asked, and what they held is forgotten; so it stays where no slots are
        named, while all are asked that came since. A query that came since, or was not asked,
        counts from an empty answer; what a query that left held is not reported. Each (slot, code)
        comes at most once.
        """

    @abstractmethod
    def held(self) -> Int64s:
        """The codes that queries held at the last call of `changed`, each once, in any order."""
