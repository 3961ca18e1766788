"""Conditions of a template: comparisons of a column, or of a difference, with holes and literals.

    price BETWEEN :lo AND :hi     ->  price >= :lo, price <= :hi
    :lo <= t.pos - u.pos          ->  (t.pos - u.pos) >= :lo
    ABS(t.pos - u.pos) < :w       ->  difference > -:w, difference < :w
    u.grid = t.grid               ->  an equality of the inputs' columns

Every comparison becomes one or two `Bound`s; all bounds of a column are gathered in one `Range`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from sqlglot import exp

from standfast.model.literals import bare, is_literal, read_literal, refuse
from standfast.model.names import did_you_mean, find_names, is_identifier
from standfast.model.query import Bound, Hole, HoleKind, Kind, Range
from standfast.model.stream import Input

MAX_HOLES = 64
MAX_CONDITIONS = 256

Operator = Literal["<", "<=", ">", ">=", "="]
_OPERATORS: dict[type[exp.Expression], Operator] = {
    exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.EQ: "=",
}  # fmt: skip
_MIRRORED: dict[Operator, Operator] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}

_DIFFERENCE = (
    "write the condition as a difference, such as b.pos - a.pos BETWEEN :lo AND :hi"
    " or ABS(b.ts - a.ts) < :w"
)
_ONE_SIDE = "compare a column with a hole or a literal, such as price < :limit"
_REFUSED: tuple[tuple[type[object], str, str], ...] = (
    (exp.Or, "OR is not supported", "register one template for each alternative"),
    (exp.Not, "NOT is not supported", "write the opposite comparison"),
    (exp.NEQ, "<> is not a range", "use < in one template and > in another"),
    (exp.In, "IN is not supported", "use = :hole and register one query for each value"),
    (exp.Is, "IS is not supported", "leave it out: null and NaN match no range"),
    (exp.Like, "LIKE is not supported", "strings are compared with = only"),
    (exp.NullSafeEQ, "a comparison of nulls is not supported", "write ="),
    (exp.NullSafeNEQ, "a comparison of nulls is not supported", "use < and > in two templates"),
    (exp.Window, "window functions are not supported", _ONE_SIDE),
    (exp.Subquery, "a subquery is not supported", _ONE_SIDE),
    (exp.Query, "a subquery is not supported", _ONE_SIDE),
    (exp.Exists, "a subquery is not supported", _ONE_SIDE),
    (exp.Tuple, "a comparison of tuples is not supported", "compare one column with one column"),
    (exp.Case, "CASE is not supported", _ONE_SIDE),
    (exp.Cast, "a cast is not supported", "declare the column with the kind you need"),
    (exp.Predicate, "this comparison is not supported", "use <, <=, >, >=, = or BETWEEN"),
    (exp.Func, "a function is not supported here", _ONE_SIDE),
    (exp.Binary, "arithmetic is not supported here", _ONE_SIDE),
    (exp.Unary, "arithmetic is not supported here", _ONE_SIDE),
)


class Source(NamedTuple):
    """One entry of FROM: an input under the name that the template uses for it."""

    input: Input
    alias: str


class Column(NamedTuple):
    """A resolved column: which entry of FROM, its declared name and kind."""

    side: int
    name: str
    kind: Kind


class Difference(NamedTuple):
    """`minuend - subtrahend`, or its absolute value."""

    minuend: Column
    subtrahend: Column
    text: str
    absolute: bool


class Comparison(NamedTuple):
    """`subject operator value`, with the value on the right."""

    subject: Column | Difference
    operator: Operator
    value: exp.Expression
    node: exp.Expression


class Equality(NamedTuple):
    """`left = right`: columns of one kind and of different entries of FROM."""

    left: Column
    right: Column
    node: exp.Expression


Condition = Comparison | Equality


def only(node: exp.Expression, allowed: Iterable[str], words: dict[str, str], *, hint: str) -> None:
    """Refuse a node that carries anything beyond the allowed parts."""
    for key, value in node.args.items():
        if value and key.rstrip("_") not in allowed:
            word = words.get(key.rstrip("_"), key.rstrip("_").upper())
            raise refuse(f"{word} is not supported", node, hint=hint)


def refuse_node(node: exp.Expression) -> Exception:
    """The refusal for a node that no rule allows."""
    if isinstance(node, exp.Placeholder) and node.name:
        return refuse("a hole can only stand for a value in a condition", node, hint=_ONE_SIDE)
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return refuse("a parameter without a name", node, hint="write :name")
    for kind, why, hint in _REFUSED:
        if isinstance(node, kind):
            if kind is exp.In and _is_beside_window(node):
                hint = "register one template for each value"
            return refuse(why, node, hint=hint)
    return refuse("this is not supported here", node, hint=_ONE_SIDE)


def _is_beside_window(node: exp.Expression) -> bool:
    """Whether the template has a window, which takes no holes beside it."""
    select = node.find_ancestor(exp.Select)
    return select is not None and select.find(exp.Window) is not None


def conjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    """The conditions joined by AND, from left to right, without parentheses around them."""
    stack = [node]
    count = 0
    while stack:
        node = bare(stack.pop())
        if isinstance(node, exp.And):
            stack += [node.args["expression"], node.this]
        else:
            count += 1
            if count > MAX_CONDITIONS:
                raise refuse(f"more than {MAX_CONDITIONS} conditions", node, hint="use fewer")
            yield node


class Scope:
    """The entries of FROM, and which column each written name means."""

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self.sources = sources

    def side(self, identifier: exp.Identifier) -> int:
        """The entry of FROM that a qualifier names."""
        aliases = [source.alias for source in self.sources]
        found = find_names(identifier.name, aliases, quoted=bool(identifier.args.get("quoted")))
        if len(found) != 1:
            why = "no input of this name in FROM" if not found else "an ambiguous name"
            hint = did_you_mean(identifier.name, aliases, what="inputs in FROM")
            raise refuse(why, identifier, hint=hint)
        return aliases.index(found[0])

    def column(self, node: exp.Column) -> Column:
        """The declared column that `name` or `alias.name` means."""
        only(node, ("this", "table"), {}, hint="write a column as name or alias.name")
        identifier = node.this
        if not isinstance(identifier, exp.Identifier):
            raise refuse_node(identifier)
        qualifier = node.args.get("table")
        sides = [self.side(qualifier)] if qualifier else range(len(self.sources))
        quoted = bool(identifier.args.get("quoted"))
        found = [
            Column(side, name, self.sources[side].input.columns[name])
            for side in sides
            for name in find_names(identifier.name, self.sources[side].input.columns, quoted=quoted)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            hint = "write it exactly as declared, with the input's alias in front"
            raise refuse("an ambiguous column", node, hint=hint)
        declared = dict.fromkeys(name for s in sides for name in self.sources[s].input.columns)
        hint = did_you_mean(identifier.name, declared, what="columns")
        if identifier.name.startswith("$"):
            hint = "write a hole as :name"
        raise refuse("an unknown column", node, hint=hint)

    def text(self, column: Column) -> str:
        """The column as messages show it."""
        if len(self.sources) == 1:
            return column.name
        return f"{self.sources[column.side].alias}.{column.name}"

    def conditions(self, node: exp.Expression) -> Iterator[Condition]:
        """The conditions that a condition stands for: two for BETWEEN, else one."""
        if isinstance(node, exp.Between):
            only(node, ("this", "low", "high"), {}, hint="write BETWEEN :lo AND :hi")
            yield self._condition(node.this, ">=", node.args["low"], node)
            yield self._condition(node.this, "<=", node.args["high"], node)
            return
        operator = _OPERATORS.get(type(node))
        if operator is None:
            if isinstance(node, exp.Column):
                raise refuse("a column is not a condition", node, hint=_ONE_SIDE)
            raise refuse_node(node)
        yield self._condition(node.this, operator, node.args["expression"], node)

    def _condition(
        self, left: exp.Expression, operator: Operator, right: exp.Expression, node: exp.Expression
    ) -> Condition:
        left, right = bare(left), bare(right)
        if _is_value(left):
            if _is_value(right):
                raise refuse("a condition without a column", node, hint=_ONE_SIDE)
            return Comparison(self._subject(right), _MIRRORED[operator], left, node)
        subject = self._subject(left)
        if _is_value(right):
            return Comparison(subject, operator, right, node)
        other = self._subject(right)
        if not isinstance(subject, Column) or not isinstance(other, Column):
            raise refuse(
                "a difference is compared with a hole or a literal", node, hint=_DIFFERENCE
            )
        if subject.side == other.side:
            raise refuse("a comparison of two columns of one input", node, hint=_ONE_SIDE)
        if operator != "=":
            raise refuse("a comparison of two columns", node, hint=_DIFFERENCE)
        if subject.kind != other.kind:
            raise refuse(
                f"an equality of {subject.kind} and {other.kind}", node,
                hint="declare both columns with one kind",
            )  # fmt: skip
        return Equality(subject, other, node)

    def _subject(self, node: exp.Expression) -> Column | Difference:
        """What a condition is about: a column, or the difference of two inputs' columns."""
        if isinstance(node, exp.Column):
            return self.column(node)
        absolute = isinstance(node, exp.Abs)
        inner = bare(node.this) if absolute else node
        if len(self.sources) == 2 and isinstance(inner, exp.Sub):
            left, right = bare(inner.this), bare(inner.args["expression"])
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                return self._difference(inner, self.column(left), self.column(right), absolute)
        if node.find(exp.Placeholder) is not None:
            hint = _DIFFERENCE if len(self.sources) == 2 else _ONE_SIDE
            raise refuse("arithmetic on a hole is not supported", node, hint=hint)
        raise refuse_node(node)

    def _difference(
        self, node: exp.Expression, left: Column, right: Column, absolute: bool
    ) -> Difference:
        if left.side == right.side:
            raise refuse("a difference within one input", node, hint=_DIFFERENCE)
        if "string" in (left.kind, right.kind):
            raise refuse("a difference of strings", node, hint="use numeric or timestamp columns")
        if left.kind != right.kind:
            raise refuse(
                f"a difference of {left.kind} and {right.kind}", node,
                hint="declare both columns with one kind",
            )  # fmt: skip
        return Difference(left, right, f"{self.text(left)} - {self.text(right)}", absolute)


@dataclass(slots=True)
class Gathered:
    """The bounds met so far on one column or difference."""

    column: str
    kind: Kind
    lows: list[Bound] = field(default_factory=list)
    highs: list[Bound] = field(default_factory=list)

    def add(self, operator: Operator, value: Hole | int | float | str, *, negate: bool) -> None:
        """Take in `column operator value`, or `-column operator value` when `negate`."""
        negated = False
        if negate:
            operator = _MIRRORED[operator]
            if isinstance(value, int | float):
                value = -value if value else value
            else:
                negated = True
        bound = Bound(value, strict=operator in "<>", negated=negated)
        if operator != "<" and operator != "<=":
            self.lows.append(bound)
        if operator != ">" and operator != ">=":
            self.highs.append(bound)

    def range(self) -> Range:
        """All of it as one range; a bound written twice counts once."""
        lows, highs = tuple(dict.fromkeys(self.lows)), tuple(dict.fromkeys(self.highs))
        return Range(self.column, self.kind, lows, highs)


class Holes:
    """The holes met so far: one kind each."""

    def __init__(self) -> None:
        self._kinds: dict[str, HoleKind] = {}

    def __len__(self) -> int:
        return len(self._kinds)

    def value(self, node: exp.Expression, kind: HoleKind, column: str) -> Hole | int | float | str:
        """The hole or the literal that meets `column`."""
        if not isinstance(node, exp.Placeholder):
            return read_literal(node, kind, column)
        name = node.name
        if not is_identifier(name):
            raise refuse("a parameter without a name", node, hint="write :name")
        if name == "id":
            hint = "rename the hole: the parameter column id numbers the queries"
            raise refuse("the name of this hole is taken", node, hint=hint)
        known = self._kinds.setdefault(name, kind)
        if known != kind:
            raise refuse(
                f"a hole of two kinds, {known} and {kind} (of {column})", node,
                hint="use two holes",
            )  # fmt: skip
        if len(self._kinds) > MAX_HOLES:
            raise refuse(f"more than {MAX_HOLES} holes", node, hint="use fewer holes")
        return Hole(name, kind)


def local_ranges(
    scope: Scope, conditions: Iterable[Comparison], holes: Holes
) -> tuple[tuple[Range, ...], tuple[Range, ...]]:
    """One range per column of an input: those with holes, and the literal ones."""
    gathered: dict[str, Gathered] = {}
    for subject, operator, value, node in conditions:
        assert isinstance(subject, Column), "a difference is about two inputs"
        name = scope.text(subject)
        if subject.kind == "string" and operator != "=":
            raise refuse("strings are compared with = only", node, hint=f"write {name} = :hole")
        entry = gathered.setdefault(subject.name, Gathered(subject.name, subject.kind))
        entry.add(operator, holes.value(value, subject.kind, name), negate=False)
    ranges = [entry.range() for entry in gathered.values()]
    return tuple(r for r in ranges if r.holes), tuple(r for r in ranges if not r.holes)


def _is_value(node: exp.Expression) -> bool:
    return isinstance(node, exp.Placeholder) or is_literal(node)
