"""A WHERE clause as alternatives, each a conjunction of ranges: a small reader of its own.

    a > 1 AND (b = 2 OR c BETWEEN 3 AND 4)   ->   [a > 1, b = 2], [a > 1, c BETWEEN 3 AND 4]

It shares nothing with the library's front end, which reads the same text by other means.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

Literal = int | float | str

_TOKEN = re.compile(r"\s*(-?\d+(?:\.\d+)?|'[^']*'|\w+|<=|>=|<>|[<>=(),])")
_OPERATORS = ("<", "<=", ">", ">=", "=")
MOST_ALTERNATIVES = 1024


class NoRange(Exception):
    """The clause is not made of ranges; the message says why."""


class Term(NamedTuple):
    """`column operator value`, or `column BETWEEN value AND value`."""

    column: str
    operator: str
    values: tuple[Literal, ...]


def text_of(terms: list[Term]) -> str:
    """A conjunction as SQL."""
    return " AND ".join(
        f"{column} {operator} {' AND '.join(map(_shown, values))}"
        for column, operator, values in terms
    )


def _shown(value: Literal) -> str:
    return f"'{value}'" if isinstance(value, str) else f"{value!r}"


@lru_cache(maxsize=4096)
def alternatives(where: str) -> list[list[Term]]:
    """The clause in disjunctive form, or NoRange."""
    reader = _Reader(_TOKEN.findall(where))
    found = reader.either()
    if reader.peek():
        raise NoRange("another form of WHERE")
    return found


class _Reader:
    """Recursive descent: OR of AND of terms and parentheses."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self, *wanted: str) -> str:
        token = self.peek()
        if wanted and token not in wanted:
            raise NoRange("another form of WHERE")
        self.at += 1
        return token

    def either(self) -> list[list[Term]]:
        found = self.both()
        while self.peek() == "OR":
            self.next()
            found = found + self.both()
        return _limited(found)

    def both(self) -> list[list[Term]]:
        found = self.one()
        while self.peek() == "AND":
            self.next()
            more = self.one()
            found = _limited([left + right for left in found for right in more])
        return found

    def one(self) -> list[list[Term]]:
        if self.peek() == "(":
            self.next()
            found = self.either()
            self.next(")")
            return found
        column, operator = self.next(), self.next()
        if operator == "IS":
            raise NoRange("IS NULL")
        if operator == "BETWEEN":
            low = self.literal()
            self.next("AND")
            return [[Term(column, operator, (low, self.literal()))]]
        if operator == "IN":
            return [[Term(column, "=", (value,))] for value in self.listed()]
        if operator not in _OPERATORS:
            raise NoRange("another form of WHERE")
        return [[Term(column, operator, (self.literal(),))]]

    def listed(self) -> list[Literal]:
        """The values of an IN list, each once."""
        self.next("(")
        values = [self.literal()]
        while self.next(",", ")") == ",":
            values.append(self.literal())
        return list(dict.fromkeys(values))

    def literal(self) -> Literal:
        token = self.next()
        if token == "SELECT":
            raise NoRange("subquery")
        if token.startswith("'"):
            return token[1:-1]
        if not re.fullmatch(r"-?\d+(\.\d+)?", token):
            raise NoRange("another form of WHERE")
        return float(token) if "." in token else int(token)


def _limited(found: list[list[Term]]) -> list[list[Term]]:
    if len(found) > MOST_ALTERNATIVES:
        raise NoRange(f"more than {MOST_ALTERNATIVES} alternatives")
    return found
