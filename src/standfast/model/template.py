"""A template: SQL with holes, read once into a typed question."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from standfast.errors import UnsupportedQuery
from standfast.model.query import (
    BandJoin,
    Filter,
    Hole,
    KeyThreshold,
    Question,
    Range,
    WindowAggregate,
    WindowJoin,
)
from standfast.model.sql import parse
from standfast.model.stream import Input


@dataclass(frozen=True, slots=True)
class Template:
    """What a group of standing queries asks; `holes` in order of first use."""

    name: str
    sql: str
    question: Question
    holes: tuple[Hole, ...]

    @staticmethod
    def parse(
        name: str, sql: str, inputs: Mapping[str, Input], aggregates: Collection[str] = ()
    ) -> Template:
        """Read a template; what cannot be answered is refused with the template's name.

        `aggregates` are the names of aggregates beyond the built-in ones.
        """
        try:
            question = parse(sql, inputs, aggregates)
        except UnsupportedQuery as error:
            raise UnsupportedQuery(f"template {name!r}: {error.message}", hint=error.hint) from None
        return Template(name, sql, question, holes_of(question))


def hole_ranges(question: Question) -> tuple[Range, ...]:
    """The ranges that standing queries fill in: one per attribute of their boxes.

    A filter has its ranges; a join has its band or window, then the ranges of its two sides; an
    aggregate has its window, then the share of a quantile, then the bound on the answer.
    """
    if isinstance(question, KeyThreshold):
        return (question.window, question.bound)
    if isinstance(question, WindowAggregate):
        return tuple(r for r in (question.window, question.phi, question.bound) if r is not None)
    if isinstance(question, Filter):
        return question.ranges
    local = question.sides[0].ranges + question.sides[1].ranges
    if isinstance(question, BandJoin):
        return (question.band, *local)
    return (question.window, *local) if isinstance(question, WindowJoin) else local


def difference_of(question: Question) -> Range | None:
    """The range that bounds a difference instead of a column."""
    if isinstance(question, WindowJoin | WindowAggregate | KeyThreshold):
        return question.window
    return question.band if isinstance(question, BandJoin) else None


def holes_of(question: Question) -> tuple[Hole, ...]:
    """Every hole once, in the order of first use."""
    holes = (hole for r in hole_ranges(question) for hole in r.holes)
    return tuple(dict.fromkeys(holes))
