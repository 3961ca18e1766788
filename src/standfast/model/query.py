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
    """One input of a join: its name, its alias in the template, its join column."""

    input: str
    alias: str
    column: str


@dataclass(frozen=True, slots=True)
class BandJoin:
    """`sides[1 - subtrahend].column - sides[subtrahend].column` lies in a range.

    `sides` are in FROM order. `band.column` is the text of the difference, `band.kind` the kind of
    both join columns; the holes of a timestamp band are durations.
    """

    sides: tuple[Side, Side]
    subtrahend: Literal[0, 1]
    band: Range
    select: tuple[Output, ...]


Question = Filter | BandJoin
