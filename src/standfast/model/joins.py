"""From the conditions of a template over two inputs to its question.

    a.k = b.k                      and ranges on either side   ->  select_join
    a.k = b.k, ABS(a.t - b.t) < :w and ranges on either side   ->  window_join
    b.x - a.x BETWEEN :lo AND :hi  and ranges on either side   ->  band_join

A condition either relates the two inputs (an equality of columns, a bound on a difference) or is
about one column of one input. The first decide the question; the others become the ranges and the
fixed conditions of their side.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from sqlglot import exp

from standfast.model.literals import refuse
from standfast.model.predicates import (
    Column,
    Comparison,
    Condition,
    Difference,
    Equality,
    Gathered,
    Holes,
    Scope,
    local_ranges,
)
from standfast.model.query import (
    BandJoin,
    Bound,
    HoleKind,
    Join,
    Output,
    Range,
    SelectJoin,
    Side,
    WindowJoin,
)

JOIN_HINT = "write ON a.key = b.key, or ON b.pos - a.pos BETWEEN :lo AND :hi"
_WINDOW_HINT = "write ABS({}) < :w; a window that is not symmetric is not supported yet"


class _Bounded(NamedTuple):
    """A bound on a difference, with the condition that states it."""

    difference: Difference
    condition: Comparison


def read_join(
    tree: exp.Select,
    scope: Scope,
    conditions: list[Condition],
    holes: Holes,
    select: tuple[Output, ...],
) -> Join:
    """The join that the conditions ask for; `tree` is what messages show."""
    equalities = [c for c in conditions if isinstance(c, Equality)]
    compared = [c for c in conditions if isinstance(c, Comparison)]
    bounds = [_Bounded(c.subject, c) for c in compared if isinstance(c.subject, Difference)]
    if not equalities and not bounds:
        raise refuse("a join without a condition on both inputs", tree, hint=JOIN_HINT)
    if not equalities:
        first, band = _band(bounds, holes)
        subtrahend: Literal[0, 1] = 1 if first.subtrahend.side == 1 else 0
        sides = _sides(scope, compared, _columns(first.minuend, first.subtrahend), holes)
        return BandJoin(sides, subtrahend, band, select)
    key = _key(equalities, scope)
    columns = _columns(key.left, key.right)
    if not bounds:
        return SelectJoin(_sides(scope, compared, columns, holes), key.left.kind, select)
    first, window = _window(bounds, holes)
    times = _columns(first.minuend, first.subtrahend)
    sides = _sides(scope, compared, columns, holes)
    return WindowJoin(sides, key.left.kind, times, window, select)


def _columns(one: Column, other: Column) -> tuple[str, str]:
    """The names of two columns of different sides, in the order of FROM."""
    return (one.name, other.name) if one.side == 0 else (other.name, one.name)


def _sides(
    scope: Scope, compared: list[Comparison], columns: tuple[str, str], holes: Holes
) -> tuple[Side, Side]:
    """Both inputs with their join columns and the conditions on them alone."""
    sides = []
    for side, (source, column) in enumerate(zip(scope.sources, columns, strict=True)):
        local = [c for c in compared if isinstance(c.subject, Column) and c.subject.side == side]
        ranges, fixed = local_ranges(scope, local, holes)
        sides.append(Side(source.input.name, source.alias, column, ranges, fixed))
    return sides[0], sides[1]


def _key(equalities: list[Equality], scope: Scope) -> Equality:
    """The one equality between the inputs; written twice it counts once."""
    first = equalities[0]
    for left, right, node in equalities[1:]:
        if {left, right} != {first.left, first.right}:
            kept = f"{scope.text(first.left)} = {scope.text(first.right)}"
            hint = f"keep to {kept}, or push one column that holds both keys"
            raise refuse("a second equality is not supported yet", node, hint=hint)
    return first


def _band(bounds: list[_Bounded], holes: Holes) -> tuple[Difference, Range]:
    """The difference that all bounds are about, and the range of them all."""
    first = bounds[0].difference
    band = Gathered(first.text, first.minuend.kind)
    for difference, (_, operator, node, whole) in bounds:
        same = _is_same(first, difference, whole)
        value = holes.value(node, _hole_kind(first), difference.text)
        if difference.absolute:
            _check_absolute(operator, whole)
            band.add(operator, value, negate=False)
            band.add(operator, value, negate=True)
        else:
            band.add(operator, value, negate=not same)
    return first, _checked(band.range())


def _window(bounds: list[_Bounded], holes: Holes) -> tuple[Difference, Range]:
    """The difference of times that all bounds are about, and the range of its absolute value."""
    first = bounds[0].difference
    window = Gathered(first.text, first.minuend.kind)
    for difference, (_, operator, node, whole) in bounds:
        _is_same(first, difference, whole)
        if not difference.absolute:
            hint = _WINDOW_HINT.format(difference.text)
            raise refuse("an equality beside a difference is not supported yet", whole, hint=hint)
        _check_absolute(operator, whole)
        value = holes.value(node, _hole_kind(first), difference.text)
        window.add(operator, value, negate=False)
    return first, _checked(window.range())


def _hole_kind(difference: Difference) -> HoleKind:
    kind = difference.minuend.kind
    return "duration" if kind == "timestamp" else kind


def _is_same(first: Difference, other: Difference, node: exp.Expression) -> bool:
    """Whether it is the first difference or the same turned round; any other is refused."""
    same = other[:2] == first[:2]
    if not same and other[:2] != (first.subtrahend, first.minuend):
        hint = f"keep to {first.text}"
        raise refuse("a second difference is not supported yet", node, hint=hint)
    return same


def _check_absolute(operator: str, node: exp.Expression) -> None:
    if operator not in ("<", "<="):
        hint = "write ABS(...) < :width or ABS(...) <= :width"
        raise refuse("not one range", node, hint=hint)


def _checked(gathered: Range) -> Range:
    """The range, once its literals are known to lie on the line of differences."""
    for bound in gathered.lows + gathered.highs:
        _check_literal(bound, gathered.kind)
    return gathered


def _check_literal(bound: Bound, kind: str) -> None:
    """Differences of int64 saturate beyond 2^63 - 2 (see `model.numbers`)."""
    value = bound.value
    if kind != "float64" and isinstance(value, int | float) and 2**63 - 2 < abs(value) < 2**64:
        why = "a bound on a difference beyond 2^63 - 2"
        raise refuse(why, str(value), hint="leave the bound out")
