"""The questions: one frozen dataclass each, made by `model.sql` from a template's SQL.

A question says which inputs it reads, which ranges its standing queries carry, and what a result
row looks like. Values that differ between standing queries are holes; the rest is literal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["int64", "float64", "timestamp", "string"]
HoleKind = Literal["int64", "float64", "timestamp", "string", "duration"]


@dataclass(frozen=True, slots=True)
class Hole:
    """A named parameter of a template, `:name`, typed by the column it meets."""

    name: str
    kind: HoleKind


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: a hole or a literal; `strict` for < and >; `negated` for the ABS form."""

    value: Hole | int | float | str
    strict: bool = False
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Every low must hold and every high must hold; no low or no high means unlimited."""

    column: str
    kind: Kind
    lows: tuple[Bound, ...] = ()
    highs: tuple[Bound, ...] = ()

    @property
    def holes(self) -> tuple[Hole, ...]:
        return tuple(b.value for b in self.lows + self.highs if isinstance(b.value, Hole))


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result: `column` of the side numbered `side`, shown as `name`."""

    side: int
    column: str
    name: str


@dataclass(frozen=True, slots=True)
class Filter:
    """`SELECT ... FROM input WHERE` a conjunction of ranges.

    `ranges` carry holes (one entry per attribute); `fixed` are the literal ones, applied to rows.
    """

    input: str
    ranges: tuple[Range, ...]
    fixed: tuple[Range, ...]
    select: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One input of a join: its name, its alias in the template, its join column.

    `ranges` are conditions with holes on columns of this side (one entry per column), `fixed` the
    literal ones.
    """

    input: str
    alias: str
    column: str
    ranges: tuple[Range, ...] = ()
    fixed: tuple[Range, ...] = ()

    @property
    def selected(self) -> Range | None:
        """The range that the structures order rows by: the first one that is not of text."""
        return next((r for r in self.ranges if r.kind != "string"), None)

    @property
    def further(self) -> tuple[Range, ...]:
        """The ranges beside the selected one, which pairs of event and query are tested on."""
        return tuple(r for r in self.ranges if r is not self.selected)


@dataclass(frozen=True, slots=True)
class BandJoin:
    """`sides[1 - subtrahend].column - sides[subtrahend].column` lies in a range.

    `sides` are in FROM order. `band.column` is the text of the difference, `band.kind` the kind of
    both join columns; the holes of a timestamp band are durations. All `ranges` of the sides are
    further conditions here.
    """

    sides: tuple[Side, Side]
    subtrahend: Literal[0, 1]
    band: Range
    select: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class SelectJoin:
    """`sides[0].column = sides[1].column`, both of one kind, with ranges on either side."""

    sides: tuple[Side, Side]
    key: Kind
    select: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """A select-join of rows whose times lie close to each other.

    `times` are the time columns of the sides, both of the kind `window.kind`; `window` has no lows
    and limits the absolute difference. The holes of a timestamp window are durations.
    """

    sides: tuple[Side, Side]
    key: Kind
    times: tuple[str, str]
    window: Range
    select: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """`function(column) OVER` a sliding window of each query's own, one answer for each key.

    `window` is the closed range of *age* that its rows have: of microseconds behind the latest time
    (unit "range") or of rows behind the last row of the key (unit "rows"; the last row itself has
    age 0). `column` is None for COUNT(*), `phi` the share that a quantile asks for, `bound` what
    QUALIFY asks of the answer. `result` is the kind of the answers, `order` the time column.
    """

    input: str
    function: str
    column: str | None
    key: str | None
    order: str
    unit: Literal["rows", "range"]
    window: Range
    phi: Range | None
    bound: Range | None
    fixed: tuple[Range, ...]
    result: Kind
    key_name: str | None
    value_name: str


@dataclass(frozen=True, slots=True)
class KeyThreshold:
    """The keys whose `function(column)` over a suffix window in time lies within a bound.

    `window` is the closed range of age from 0 on, in microseconds, `bound` the range of the answer,
    `result` the kind of what is compared with it.
    """

    input: str
    function: Literal["COUNT", "SUM", "MIN", "MAX"]
    column: str | None
    key: str
    order: str
    window: Range
    bound: Range
    fixed: tuple[Range, ...]
    result: Kind
    key_name: str


Join = BandJoin | SelectJoin | WindowJoin
Windowed = WindowAggregate | KeyThreshold
Question = Filter | BandJoin | SelectJoin | WindowJoin | WindowAggregate | KeyThreshold
