"""Templates over a sliding window: which aggregate, over which rows, and what is asked of it.

    SELECT AVG(price) OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND CURRENT ROW) FROM trades
    SELECT symbol, SUM(shares) OVER (PARTITION BY symbol ORDER BY ts
           RANGE BETWEEN :left PRECEDING AND :right PRECEDING) AS total FROM trades
           [WHERE literal conditions] [QUALIFY total > :limit]             ->  window_aggregate
    SELECT symbol FROM trades QUALIFY COUNT(*) OVER (PARTITION BY symbol ORDER BY ts
           RANGE BETWEEN :w PRECEDING AND CURRENT ROW) > :limit            ->  key_threshold

A window is the closed range of the ages of its rows. ORDER BY names the stream's time column.
Quantiles are PERCENTILE_DISC(:phi) WITHIN GROUP (ORDER BY price) OVER (...), or
PERCENTILE_DISC(price, :phi) OVER (...). HAVING means the same as QUALIFY: nothing is grouped here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from standfast.model.literals import bare, piece, refuse
from standfast.model.names import did_you_mean, find_names, is_identifier
from standfast.model.predicates import (
    Column,
    Comparison,
    Condition,
    Gathered,
    Holes,
    Operator,
    Scope,
    conjuncts,
    local_ranges,
    only,
)
from standfast.model.query import Bound, HoleKind, KeyThreshold, Kind, Range, WindowAggregate

WINDOW_HINT = "write f(a) OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND CURRENT ROW)"
QUALIFY_HINT = (
    "bound an aggregate over a window: SELECT f(a) OVER (...) AS total FROM input"
    " QUALIFY total > :limit"
)
NO_TIME = "a window needs a stream with a time column"
_COLUMN_HINT = "write SUM(price)"
_BOUND_HINT = "compare the selected aggregate with a hole or a literal, such as total > :limit"
_FUNCTIONS: tuple[tuple[type[exp.Expression], str], ...] = (
    (exp.Sum, "SUM"), (exp.Avg, "AVG"), (exp.Min, "MIN"), (exp.Max, "MAX"),
    (exp.Variance, "VARIANCE"), (exp.VariancePop, "VAR_POP"),
    (exp.Stddev, "STDDEV"), (exp.StddevSamp, "STDDEV"), (exp.StddevPop, "STDDEV_POP"),
    (exp.First, "FIRST"), (exp.FirstValue, "FIRST"), (exp.Last, "LAST"), (exp.LastValue, "LAST"),
)  # fmt: skip
BUILT_IN = (*dict.fromkeys(name for _, name in _FUNCTIONS), "COUNT", "COUNT_DISTINCT",
            "PERCENTILE_DISC")  # fmt: skip
# As they are written.
_WRITTEN = [name.replace("COUNT_DISTINCT", "COUNT(DISTINCT column)") for name in BUILT_IN]
_ARITHMETIC = ("SUM", "AVG", "VARIANCE", "VAR_POP", "STDDEV", "STDDEV_POP")
_COUNTS = ("COUNT", "COUNT_DISTINCT")
_THRESHOLDS: tuple[Literal["COUNT", "SUM", "MIN", "MAX"], ...] = ("COUNT", "SUM", "MIN", "MAX")
_COMPARED: dict[type[exp.Expression], tuple[Operator, Operator]] = {
    exp.LT: ("<", ">"), exp.LTE: ("<=", ">="), exp.GT: (">", "<"), exp.GTE: (">=", "<="),
    exp.EQ: ("=", "="),
}  # fmt: skip


class _Function(NamedTuple):
    """An aggregate of a column, with the share that a quantile asks for."""

    name: str
    column: Column | None
    phi: exp.Expression | None
    result: Kind


class _Over(NamedTuple):
    """What stands behind OVER."""

    key: Column | None
    order: str
    unit: Literal["rows", "range"]
    window: Range


def has_window(select: exp.Select) -> bool:
    """Whether the template selects or qualifies by an aggregate over a window."""
    qualify = select.args.get("qualify")
    selected = [_unnamed(node)[0] for node in select.expressions]
    return any(isinstance(node, exp.Window) for node in selected) or (
        qualify is not None and qualify.find(exp.Window) is not None
    )


def take_having_for_qualify(select: exp.Select) -> None:
    """Write HAVING as QUALIFY where there is a window and no group; who writes both means both."""
    having, qualify = select.args.get("having"), select.args.get("qualify")
    if having is None or select.args.get("group"):
        return
    if has_window(select) or having.find(exp.Window) is not None:
        bound = having.this
        if qualify is not None:
            bound = exp.And(this=bound, expression=qualify.this)
        select.set("qualify", exp.Qualify(this=bound))
        select.set("having", None)


def is_free_name(name: object) -> bool:
    """Whether SQL has no meaning for this function name, so that an aggregate may have it."""
    if not isinstance(name, str) or not is_identifier(name) or name.upper() in BUILT_IN:
        return False
    try:
        return isinstance(sqlglot.parse_one(f"SELECT {name}(x)").expressions[0], exp.Anonymous)
    except SqlglotError:
        return False


def read_window(
    tree: exp.Select,
    scope: Scope,
    conditions: list[Condition],
    holes: Holes,
    aggregates: Collection[str],
) -> WindowAggregate | KeyThreshold:
    """The question that a template with a window asks."""
    source = scope.sources[0].input
    if len(scope.sources) > 1:
        raise refuse("a window over a join is not supported", tree, hint="read one input")
    if source.kind != "stream" or source.time is None:
        hint = 'declare it as a stream with time="ts"'
        raise refuse(NO_TIME, source.name, hint=hint)
    node, key, key_name, value_name = _selected(tree, scope)
    name = source.name
    function = _function(node.this, scope, aggregates)
    over = _over(node, scope, holes)
    _check_key(key, over, tree)
    phi = None if function.phi is None else _share(function.phi, holes)
    bound = _bound(tree, node, value_name, function, holes)
    fixed = _fixed(scope, conditions, holes)
    column = function.column.name if function.column else None
    if value_name is not None:
        shown = key_name or (over.key.name if over.key else None)
        return WindowAggregate(
            name, function.name, column, over.key.name if over.key else None, over.order,
            over.unit, over.window, phi, bound, fixed, function.result, shown, value_name,
        )  # fmt: skip
    threshold = next((f for f in _THRESHOLDS if f == function.name), None)
    is_suffix = over.unit == "range" and over.window.lows == (Bound(0),)
    if key is None or key_name is None or bound is None or threshold is None or not is_suffix:
        hint = (
            "select the aggregate too; keys alone need COUNT, SUM, MIN or MAX, RANGE to CURRENT ROW"
        )
        raise refuse("a window that is not selected", node, hint=hint)
    return KeyThreshold(
        name, threshold, column, key.name, over.order, over.window, bound, fixed,
        function.result, key_name,
    )  # fmt: skip


def _unnamed(node: exp.Expression) -> tuple[exp.Expression, str | None]:
    """A selected expression without its alias."""
    return (bare(node.this), node.alias) if isinstance(node, exp.Alias) else (bare(node), None)


def _selected(
    tree: exp.Select, scope: Scope
) -> tuple[exp.Window, Column | None, str | None, str | None]:
    """The window, the selected key, and what both are called; no name if not selected."""
    window, value_name, key, key_name = None, None, None, None
    for node in tree.expressions:
        inner, alias = _unnamed(node)
        if isinstance(inner, exp.Window) and window is None:
            window, value_name = inner, alias or "value"
        elif isinstance(inner, exp.Column) and key is None:
            key = scope.column(inner)
            key_name = alias or key.name
        else:
            hint = "select one aggregate, and the column of PARTITION BY beside it"
            raise refuse("this cannot be selected beside a window", node, hint=hint)
    if window is None:
        window = tree.args["qualify"].find(exp.Window)
    return window, key, key_name, value_name


def _check_key(key: Column | None, over: _Over, tree: exp.Select) -> None:
    if key is not None and key != over.key:
        hint = "select only the column that PARTITION BY names"
        raise refuse("a column beside a window", key.name, hint=hint)


def _function(node: exp.Expression, scope: Scope, aggregates: Collection[str]) -> _Function:
    """Which aggregate of which column."""
    for kind, name in _FUNCTIONS:
        if type(node) is kind:
            _check_alone(node)
            return _of_column(name, node.this, node, scope)
    if isinstance(node, exp.Count):
        _check_alone(node)
        if isinstance(node.this, exp.Star | exp.Literal):
            return _Function("COUNT", None, None, "int64")
        if isinstance(node.this, exp.Distinct) and len(node.this.expressions) == 1:
            return _of_column("COUNT_DISTINCT", node.this.expressions[0], node, scope)
        return _of_column("COUNT", node.this, node, scope)
    if isinstance(node, exp.WithinGroup) and isinstance(node.this, exp.PercentileDisc):
        order = node.args["expression"]
        column = _ordered(order, node, order.find(exp.Column) or "price")
        return _of_column("PERCENTILE_DISC", column, node, scope)._replace(phi=node.this.this)
    if isinstance(node, exp.PercentileDisc) and node.args.get("expression") is not None:
        found = _of_column("PERCENTILE_DISC", node.this, node, scope)
        return found._replace(phi=node.args["expression"])
    if isinstance(node, exp.PercentileDisc):
        hint = "PERCENTILE_DISC(price, :share), or WITHIN GROUP (ORDER BY price) after it"
        raise refuse("a quantile of no column", node, hint=hint)
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        known = find_names(node.name, aggregates, quoted=False)
        if len(known) == 1:
            return _of_column(known[0], node.expressions[0], node, scope)
        hint = did_you_mean(node.name, [*_WRITTEN, *aggregates], what="aggregates")
        raise refuse("an unknown aggregate", node, hint=hint)
    hint = f"one of {', '.join(_WRITTEN)}"
    raise refuse("not an aggregate that windows take", node, hint=hint)


def _check_alone(node: exp.Expression) -> None:
    """Refuse what an aggregate is given beside its column."""
    beside = [part for name, part in node.args.items() if name != "this"]
    if any(isinstance(part, list | exp.Expression) and part for part in beside):
        raise refuse("an aggregate is of one column", node, hint=_COLUMN_HINT)


def _of_column(name: str, node: exp.Expression, whole: exp.Expression, scope: Scope) -> _Function:
    node = bare(node)
    if not isinstance(node, exp.Column):
        raise refuse("an aggregate is of one column", whole, hint=_COLUMN_HINT)
    column = scope.column(node)
    result: Kind = "int64" if name in _COUNTS else column.kind
    if name not in _COUNTS and column.kind == "string":
        raise refuse(f"{name} of strings", whole, hint="strings can be counted only")
    if name in _ARITHMETIC or name not in BUILT_IN:
        if column.kind == "timestamp":
            raise refuse(f"{name} of timestamps", whole, hint="use MIN, MAX, FIRST or LAST")
        result = column.kind if name == "SUM" else "float64"
    return _Function(name, column, None, result)


def _ordered(
    order: exp.Expression, whole: exp.Expression, wanted: exp.Expression | str
) -> exp.Expression:
    """The one column of an ORDER BY, ascending; `wanted` is what to write instead."""
    entries = order.expressions if isinstance(order, exp.Order) else []
    if len(entries) != 1 or not isinstance(entries[0], exp.Ordered) or entries[0].args.get("desc"):
        hint = f"write ORDER BY {piece(wanted)}"
        raise refuse("an order is one column, ascending", whole, hint=hint)
    found: exp.Expression = entries[0].this
    return found


def _over(node: exp.Window, scope: Scope, holes: Holes) -> _Over:
    """The key, the order and the rows of a window."""
    only(node, ("this", "partition_by", "order", "spec", "over"), {}, hint=WINDOW_HINT)
    source = scope.sources[0].input
    partition = node.args.get("partition_by") or []
    key = None
    if partition:
        named = bare(partition[0])
        if len(partition) > 1 or not isinstance(named, exp.Column):
            raise refuse("PARTITION BY takes one column", node, hint="write PARTITION BY symbol")
        key = scope.column(named)
    order, spec = node.args.get("order"), node.args.get("spec")
    if order is None or spec is None:
        raise refuse("a window without its order or its rows", node, hint=WINDOW_HINT)
    assert source.time is not None, "a window was let through without a time"
    column = bare(_ordered(order, node, source.time))
    if not isinstance(column, exp.Column) or scope.column(column).name != source.time:
        hint = f"write ORDER BY {source.time}"
        raise refuse("a window is ordered by the time of its stream", node, hint=hint)
    only(spec, ("kind", "start", "start_side", "end", "end_side"), {}, hint=WINDOW_HINT)
    unit: Literal["rows", "range"] = "rows" if spec.args["kind"] == "ROWS" else "range"
    if spec.args["kind"] not in ("ROWS", "RANGE"):
        raise refuse("a window is of ROWS or of RANGE", node, hint=WINDOW_HINT)
    left = _age(spec.args["start"], spec.args.get("start_side"), unit, node, holes)
    right = Bound(0)
    if spec.args.get("end") is not None:
        right = _age(spec.args["end"], spec.args.get("end_side"), unit, node, holes)
    kind: Kind = "int64" if unit == "rows" else "timestamp"
    return _Over(key, source.time, unit, Range(source.time, kind, (right,), (left,)))


def _age(
    node: exp.Expression | str, side: str | None, unit: str, whole: exp.Window, holes: Holes
) -> Bound:
    """How far back one end of a window lies."""
    if node == "CURRENT ROW":
        return Bound(0)
    if isinstance(node, str) or side != "PRECEDING":
        hint = "give both ends as :name PRECEDING, the later one as CURRENT ROW if it is that"
        raise refuse("a window looks back a limited way", whole, hint=hint)
    kind: HoleKind = "int64" if unit == "rows" else "duration"
    value = holes.value(bare(node), kind, "the age of a row")
    if isinstance(value, int | float) and value < 0:
        raise refuse("a window looks back, not ahead", whole, hint="write 0 or more")
    return Bound(value)


def _share(node: exp.Expression, holes: Holes) -> Range:
    value = holes.value(bare(node), "float64", "the share of a quantile")
    if isinstance(value, int | float) and not 0 < value <= 1:
        hint = "0.5 asks for the median"
        raise refuse("the share of a quantile is above 0 and up to 1", node, hint=hint)
    return Range("phi", "float64", (Bound(value),), (Bound(value),))


def _bound(
    tree: exp.Select, window: exp.Window, name: str | None, function: _Function, holes: Holes
) -> Range | None:
    """What QUALIFY asks of the answer."""
    qualify = tree.args.get("qualify")
    if qualify is None:
        return None
    gathered = Gathered("value", function.result)
    for node in conjuncts(qualify.this):
        for subject, operator, value in _comparisons(node):
            if subject != window and not _is_called(subject, name):
                raise refuse("QUALIFY compares something else", node, hint=_BOUND_HINT)
            gathered.add(operator, holes.value(value, function.result, "the answer"), negate=False)
    return gathered.range()


def _is_called(subject: exp.Expression, name: str | None) -> bool:
    """Whether this is the selected aggregate by its name."""
    if name is None or not isinstance(subject, exp.Column) or subject.table:
        return False
    return bool(find_names(subject.name, [name], quoted=bool(subject.this.args.get("quoted"))))


def _comparisons(
    node: exp.Expression,
) -> list[tuple[exp.Expression, Operator, exp.Expression]]:
    """The subject, the operator and the value of each comparison that a condition stands for."""
    if isinstance(node, exp.Between):
        subject = bare(node.this)
        return [(subject, ">=", bare(node.args["low"])), (subject, "<=", bare(node.args["high"]))]
    operators = _COMPARED.get(type(node))
    if operators is None:
        raise refuse("QUALIFY takes comparisons only", node, hint=_BOUND_HINT)
    left, right = bare(node.this), bare(node.args["expression"])
    if isinstance(left, exp.Window | exp.Column):
        return [(left, operators[0], right)]
    return [(right, operators[1], left)]


def _fixed(scope: Scope, conditions: list[Condition], holes: Holes) -> tuple[Range, ...]:
    compared = [condition for condition in conditions if isinstance(condition, Comparison)]
    ranges, fixed = local_ranges(scope, compared, holes)
    if ranges:
        hint = "write literals in WHERE; what differs between queries is the window"
        raise refuse("a hole in WHERE beside a window", ranges[0].column, hint=hint)
    return fixed
