"""Literals of a template: numbers, text, TIMESTAMP '...' and INTERVAL '...', read exactly."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from sqlglot import ErrorLevel, exp

from standfast.errors import UnsupportedQuery
from standfast.model.query import HoleKind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?"
)
_AMOUNT = re.compile(r"-?\d{1,18}(\.\d{1,9})?")
_UNIT_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": 86_400_000_000,
    "WEEK": 604_800_000_000,
}
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


def piece(node: exp.Expression | str, limit: int = 80) -> str:
    """The SQL of a node, cut to a readable length, for messages."""
    if isinstance(node, str):
        text = node
    else:
        try:
            text = node.sql(comments=False, unsupported_level=ErrorLevel.IGNORE)
        except Exception:  # the printer of a foreign tree must never hide our own message
            text = node.key.upper()
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def refuse(why: str, node: exp.Expression | str, *, hint: str) -> UnsupportedQuery:
    """The error for a piece of SQL: what is wrong, the piece, what to do."""
    return UnsupportedQuery(f"{why}: {piece(node)}", hint=hint)


def bare(node: exp.Expression) -> exp.Expression:
    """A node without the parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def is_literal(node: exp.Expression) -> bool:
    """A value written out in the template (NULL included, which `read_literal` refuses)."""
    node = _signed(node)[1]
    if isinstance(node, exp.Cast):
        return isinstance(node.this, exp.Literal)
    return isinstance(node, exp.Literal | exp.Interval | exp.Null | exp.Boolean)


def read_literal(node: exp.Expression, kind: HoleKind, column: str) -> int | float | str:
    """The value of a literal that meets `column` of this kind; timestamps are microseconds UTC."""
    sign, value = _signed(node)
    if isinstance(value, exp.Null):
        raise refuse("a comparison with NULL is never true", node, hint="leave the condition out")
    if kind == "string":
        if isinstance(value, exp.Literal) and value.is_string and value is node:
            return str(value.this)
    elif kind == "timestamp":
        if isinstance(value, exp.Cast) and value is node:
            return _moment(value)
    elif kind == "duration" and isinstance(value, exp.Interval):
        return sign * _interval(value)
    elif isinstance(value, exp.Literal) and not value.is_string:
        return _number(sign, value, whole_line=kind != "float64")
    raise refuse(f"{column} is a {kind}, the literal is not", node, hint=_EXAMPLES[kind])


_EXAMPLES: dict[HoleKind, str] = {
    "int64": "write a number such as 42",
    "float64": "write a number such as 42.5",
    "string": "write text in single quotes such as 'abc'",
    "timestamp": "write TIMESTAMP '2024-01-01 00:00:00'",
    "duration": "write INTERVAL '5' SECOND, or a number of microseconds",
}


def _signed(node: exp.Expression) -> tuple[int, exp.Expression]:
    """Take off parentheses and at most one minus sign."""
    sign = 1
    node = bare(node)
    if isinstance(node, exp.Neg):
        sign, node = -1, bare(node.this)
    return sign, node


def _number(sign: int, literal: exp.Literal, *, whole_line: bool) -> int | float:
    """An int64 or the nearest float64.

    On a line of whole numbers (int64, durations) a decimal literal must round to the same whole
    numbers as its float64, so that comparing with the float64 is comparing with the literal;
    beyond all int64 and their differences it makes no difference.
    """
    text = str(literal.this)
    try:
        exact = Decimal(text) if sign > 0 else Decimal(text).copy_negate()
    except InvalidOperation:
        raise refuse("not a number", text, hint="write a number such as 42 or 42.5") from None
    if text.isdecimal():
        if not INT64_MIN <= exact <= INT64_MAX:
            raise refuse("an integer beyond int64", text, hint="write it with a decimal point")
        return int(exact)
    value = float(exact)
    if not math.isfinite(value):
        raise refuse("a number beyond float64", text, hint="leave the condition out")
    if whole_line and abs(value) < 2.0**65:
        near = Decimal(value)
        if math.floor(near) != math.floor(exact) or math.ceil(near) != math.ceil(exact):
            why = "a number with more digits than float64 holds"
            raise refuse(why, text, hint="write a whole number")
    return value + 0.0


def _moment(cast: exp.Cast) -> int:
    """Microseconds since 1970 UTC of TIMESTAMP 'text'; without an offset the text is UTC."""
    kind, text = cast.to.this, str(cast.this.name)
    written = f"{kind.value} '{text}'"
    hint = "write TIMESTAMP '2024-01-01 00:00:00', at most six digits after the second"
    kinds = (exp.DataType.Type.TIMESTAMP, exp.DataType.Type.TIMESTAMPTZ)
    if kind not in kinds or not cast.this.is_string or not _MOMENT.fullmatch(text):
        raise refuse("not a timestamp", written, hint=hint)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise refuse("not a timestamp", written, hint=hint) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // _MICROSECOND


def _interval(node: exp.Interval) -> int:
    """Microseconds of INTERVAL 'number' UNIT; months and years have no fixed length."""
    unit = str(node.args["unit"].name).upper() if node.args.get("unit") else ""
    unit_us = _UNIT_US.get(unit.removesuffix("S"))
    text = node.this.name if isinstance(node.this, exp.Literal) else ""
    if unit_us is None or not _AMOUNT.fullmatch(text):
        raise refuse(
            "an interval is one number and one unit of fixed length", node,
            hint=f"write INTERVAL '5' SECOND; units: {', '.join(u.lower() for u in _UNIT_US)}",
        )  # fmt: skip
    microseconds = Fraction(text) * unit_us
    if microseconds.denominator != 1 or abs(microseconds) > INT64_MAX:
        raise refuse(
            "an interval is a whole number of microseconds within int64", node,
            hint="write INTERVAL '5' SECOND",
        )  # fmt: skip
    return int(microseconds)
