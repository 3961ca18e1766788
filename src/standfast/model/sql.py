"""From SQL to a question: sqlglot reads the text, an allow-list turns its tree into our values.

    text -> tokens -> tree -> FROM: sources -> WHERE / ON: ranges -> SELECT: outputs -> Question

Whatever is not named here is refused with the piece of SQL and a hint; nothing of the text is ever
evaluated or handed to another engine. Accepted are

    filter      SELECT * | columns FROM input WHERE column compared with holes and literals AND ...
    band_join, select_join, window_join    SELECT ... FROM a JOIN b ON ...: see `model.joins`
    window_aggregate, key_threshold    SELECT f(a) OVER (...) FROM input: see `model.windows`

with <, <=, >, >=, =, BETWEEN and, for differences, ABS(...) < and <=. Names are matched as
`model.names` says; holes keep their case.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from standfast.errors import UnsupportedQuery
from standfast.model.joins import JOIN_HINT, read_join
from standfast.model.literals import bare, piece, refuse
from standfast.model.names import did_you_mean, find_names, shown
from standfast.model.predicates import (
    Comparison,
    Condition,
    Holes,
    Scope,
    Source,
    conjuncts,
    local_ranges,
    only,
)
from standfast.model.query import (
    Filter,
    KeyThreshold,
    Output,
    Question,
    SelectJoin,
    WindowAggregate,
)
from standfast.model.stream import Input
from standfast.model.windows import (
    QUALIFY_HINT,
    has_window,
    read_window,
    take_having_for_qualify,
)

MAX_LENGTH = 10_000
MAX_DEPTH = 32
MAX_ATTRIBUTES = 16
RESERVED_OUTPUTS = ("query", "change")

_SHAPE = "write SELECT columns FROM input WHERE column BETWEEN :lo AND :hi"
_CLAUSES = {
    "with": "WITH", "group": "GROUP BY", "order": "ORDER BY", "sort": "SORT BY",
    "cluster": "CLUSTER BY", "distribute": "DISTRIBUTE BY", "windows": "WINDOW",
    "laterals": "LATERAL", "hint": "a hint", "operation_modifiers": "a modifier of SELECT",
    "method": "this kind of join", "db": "a schema name",
    "catalog": "a catalogue name", "sample": "TABLESAMPLE", "pivots": "PIVOT",
    "except": "* EXCEPT", "replace": "* REPLACE", "rename": "* RENAME",
    "locks": "FOR UPDATE", "connect": "CONNECT BY", "match": "MATCH_RECOGNIZE",
    "version": "time travel", "when": "time travel", "columns": "a list of column aliases",
}  # fmt: skip
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


def parse(sql: str, inputs: Mapping[str, Input], aggregates: Collection[str] = ()) -> Question:
    """The question that a template asks of the declared inputs.

    `aggregates` are the names of aggregates beyond the built-in ones.
    """
    select = _select(sql)
    scope = Scope(_sources(select, inputs))
    conditions = [
        condition
        for clause in _clauses(select, scope)
        for node in conjuncts(clause)
        for condition in scope.conditions(node)
    ]
    holes = Holes()
    question: Question
    if has_window(select):
        question = read_window(select, scope, conditions, holes, aggregates)
        _check_names([n for n in _window_names(question) if n is not None])
        return _with_holes(question, holes, select)
    outputs = _outputs(select, scope)
    if len(scope.sources) == 1:
        question = _filter(scope, conditions, holes, outputs)
    else:
        question = read_join(select, scope, conditions, holes, outputs)
    _check_attributes(question, select)
    return _with_holes(question, holes, select)


def _with_holes(question: Question, holes: Holes, select: exp.Select) -> Question:
    if not len(holes):
        hint = "replace a literal by :name, or add a condition such as price < :limit"
        raise refuse("a template without a hole", select, hint=hint)
    return question


def _window_names(question: WindowAggregate | KeyThreshold) -> tuple[str | None, ...]:
    """What the columns of the answers are called."""
    if isinstance(question, KeyThreshold):
        return (question.key_name,)
    return (question.key_name, question.value_name)


def _select(sql: str) -> exp.Select:
    """Text to one SELECT, within the limits."""
    if not isinstance(sql, str):
        raise UnsupportedQuery(f"a template is text, got {shown(sql)}", hint=_SHAPE)
    if len(sql) > MAX_LENGTH:
        raise UnsupportedQuery(
            f"a template of {len(sql):,} characters; at most {MAX_LENGTH:,} are allowed",
            hint="use holes for what differs between queries",
        )
    try:
        tokens = sqlglot.tokenize(sql)
        _check_tokens(tokens)
        trees = sqlglot.parse(sql)
    except UnsupportedQuery:
        raise
    except RecursionError:
        raise UnsupportedQuery("a template nested too deep", hint=_SHAPE) from None
    except ParseError as error:
        raise _unreadable(error) from None
    except TokenError:
        hint = "look for a quote or a comment that is not closed"
        raise UnsupportedQuery("the template is not readable as SQL", hint=hint) from None
    except Exception:  # whatever else a foreign parser raises on odd text means the same
        raise UnsupportedQuery("the template is not readable as SQL", hint=_SHAPE) from None
    tree = trees[0] if trees else None
    if not isinstance(tree, exp.Select):
        found = piece(tree) if isinstance(tree, exp.Expression) else "nothing"
        raise UnsupportedQuery(f"a template is one SELECT: {found}", hint=_SHAPE)
    take_having_for_qualify(tree)
    clauses = ["expressions", "from", "joins", "where"]
    # Only windows are qualified: `model.windows` reads it, or nobody does.
    clauses += ["qualify"] if has_window(tree) else []
    is_bounded = tree.args.get("having") or tree.args.get("qualify")
    only(tree, clauses, _CLAUSES, hint=QUALIFY_HINT if is_bounded else _SHAPE)
    return tree


def _check_tokens(tokens: list[Token]) -> None:
    """What can be seen before parsing: one statement that starts with SELECT, not too deep."""
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        raise UnsupportedQuery("the template is empty", hint=_SHAPE)
    first = tokens[0]
    if first.token_type not in (TokenType.SELECT, TokenType.WITH):
        raise UnsupportedQuery(
            f"a template starts with SELECT, not with {shown(first.text)}", hint=_SHAPE
        )
    depth = 0
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise UnsupportedQuery(
                f"several statements: a semicolon at line {token.line}, column {token.col}",
                hint="register one template for each statement",
            )
        if token.token_type == TokenType.L_BRACE:
            raise UnsupportedQuery(
                f"braces are not supported: line {token.line}, column {token.col}",
                hint="write a hole as :name",
            )
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_DEPTH:
            raise UnsupportedQuery(
                f"a template nested deeper than {MAX_DEPTH}"
                f" at line {token.line}, column {token.col}",
                hint="take parentheses away",
            )


def _unreadable(error: ParseError) -> UnsupportedQuery:
    """A parse error in our words, with the place where the offending token starts."""
    where: dict[str, object] = dict(error.errors[0]) if error.errors else {}
    highlight, line, column = where.get("highlight"), where.get("line"), where.get("col")
    if not isinstance(highlight, str) or not isinstance(column, int):
        return UnsupportedQuery("the template is not readable as SQL", hint=_SHAPE)
    start = max(column - len(highlight) + 1, 1)
    colon = "a hole is :name, and the name is no number and no SQL keyword"
    return UnsupportedQuery(
        f"the template is not readable as SQL at line {line}, column {start},"
        f" near {shown(highlight)}",
        hint=colon if highlight == ":" else _SHAPE,
    )


def _sources(select: exp.Select, inputs: Mapping[str, Input]) -> tuple[Source, ...]:
    """The entries of FROM, in order."""
    origin = select.args.get("from_") or select.args.get("from")
    if origin is None:
        raise refuse("a template without FROM", select, hint=_SHAPE)
    only(origin, ("this",), _CLAUSES, hint=_SHAPE)
    joins = select.args.get("joins") or []
    if len(joins) > 1:
        raise refuse(
            "a join of more than two inputs is not supported yet", select, hint="join two inputs"
        )
    sources = [_source(origin.this, inputs)]
    for join in joins:
        _check_join(join)
        sources.append(_source(join.this, inputs))
        if sources[0].alias.casefold() == sources[1].alias.casefold():
            raise refuse("two inputs of one name", join, hint="give each an alias: FROM a AS x")
    return tuple(sources)


def _check_join(join: exp.Join) -> None:
    if join.side:
        why = f"{join.side} JOIN is not supported"
        raise refuse(why, join, hint="only inner joins: JOIN ... ON ...")
    if join.kind not in ("", "INNER", "CROSS"):
        raise refuse(f"{join.kind} JOIN is not supported", join, hint="write JOIN ... ON ...")
    only(join, ("this", "on", "kind", "using"), _CLAUSES, hint=JOIN_HINT)


def _source(table: exp.Expression, inputs: Mapping[str, Input]) -> Source:
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise refuse("only a declared input can stand in FROM", table, hint="write FROM input")
    only(table, ("this", "alias"), _CLAUSES, hint="write FROM input or FROM input AS alias")
    name = table.this.name
    found = find_names(name, inputs, quoted=bool(table.this.args.get("quoted")))
    if len(found) != 1:
        why = "an ambiguous input" if found else "an unknown input"
        raise refuse(why, name, hint=did_you_mean(name, inputs, what="inputs"))
    alias = table.args.get("alias")
    if alias is None:
        return Source(inputs[found[0]], found[0])
    only(alias, ("this",), _CLAUSES, hint="write FROM input AS alias")
    return Source(inputs[found[0]], alias.name)


def _clauses(select: exp.Select, scope: Scope) -> list[exp.Expression]:
    """The conditions of ON, USING and WHERE."""
    clauses = []
    for join in select.args.get("joins") or []:
        if join.args.get("on"):
            clauses.append(join.args["on"])
        clauses += [_equality(column, scope) for column in join.args.get("using") or []]
    where = select.args.get("where")
    return [*clauses, where.this] if where else clauses


def _equality(column: exp.Expression, scope: Scope) -> exp.Expression:
    """USING (column) as the equality that it stands for."""
    left, right = (
        exp.Column(this=column.copy(), table=exp.to_identifier(source.alias))
        for source in scope.sources
    )
    return exp.EQ(this=left, expression=right)


def _filter(
    scope: Scope, conditions: list[Condition], holes: Holes, select: tuple[Output, ...]
) -> Filter:
    compared = [condition for condition in conditions if isinstance(condition, Comparison)]
    ranges, fixed = local_ranges(scope, compared, holes)
    return Filter(scope.sources[0].input.name, ranges, fixed, select)


def _check_attributes(question: Question, select: exp.Select) -> None:
    if isinstance(question, Filter):
        count = len(question.ranges)
    elif isinstance(question, WindowAggregate | KeyThreshold):
        return
    else:
        count = sum(len(side.ranges) for side in question.sides)
        count += not isinstance(question, SelectJoin)
    if count > MAX_ATTRIBUTES:
        why = f"{count} ranges in a query; at most {MAX_ATTRIBUTES} are allowed"
        raise refuse(why, select, hint="use fewer columns, or literals instead of holes")


def _outputs(select: exp.Select, scope: Scope) -> tuple[Output, ...]:
    """The columns of the result, each under a name of its own."""
    outputs: list[Output] = []
    for node in select.expressions:
        if isinstance(node, exp.Star):
            only(node, ("this",), _CLAUSES, hint="write SELECT * or name the columns")
            for side in range(len(scope.sources)):
                outputs += _star(scope, side)
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            only(node.this, ("this",), _CLAUSES, hint="write alias.* or name the columns")
            only(node, ("this", "table"), _CLAUSES, hint="write alias.* or name the columns")
            outputs += _star(scope, scope.side(node.args["table"]))
        else:
            outputs.append(_output(node, scope))
    _check_names([output.name for output in outputs])
    return tuple(outputs)


def _check_names(names: list[str]) -> None:
    """Result columns have names of their own."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            hint = "rename it with AS"
            raise refuse("two result columns of one name", name, hint=hint)
        if name in RESERVED_OUTPUTS:
            hint = "rename it with AS: every result row carries query and change"
            raise refuse("the name of a result column is taken", name, hint=hint)
        seen.add(name)


def _star(scope: Scope, side: int) -> list[Output]:
    source = scope.sources[side]
    prefix = f"{source.alias}." if len(scope.sources) > 1 else ""
    return [Output(side, column, f"{prefix}{column}") for column in source.input.columns]


def _output(node: exp.Expression, scope: Scope) -> Output:
    name = None
    if isinstance(node, exp.Alias):
        name, node = node.alias, node.this
    node = bare(node)
    if not isinstance(node, exp.Column):
        why = "only columns can be selected"
        raise refuse(why, node, hint="name columns of the inputs, with AS to rename them")
    column = scope.column(node)
    return Output(column.side, column.name, name or column.name)
