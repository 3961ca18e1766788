"""Golden pairs of SQL: reading the fixture files, and a question as compact, stable text.

Run as a program it prints a fixture file anew, for review: `python tests/model/golden.py accepted`.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from standfast.errors import UnsupportedQuery
from standfast.model.query import (
    BandJoin,
    Bound,
    Filter,
    Hole,
    Join,
    KeyThreshold,
    Output,
    Question,
    Range,
    SelectJoin,
    WindowAggregate,
    Windowed,
)
from standfast.model.sql import parse
from standfast.model.stream import Input
from standfast.model.template import holes_of

FOLDER = Path(__file__).parents[1] / "fixtures" / "sql"
SEPARATOR = "\n----\n"
QUESTIONS = (
    "filter ", "band_join ", "select_join ", "window_join ", "window_aggregate ", "key_threshold ",
)  # fmt: skip


class Case(NamedTuple):
    """One pair: a title, a template, and what it is expected to become."""

    title: str
    sql: str
    expected: str


def cases(name: str) -> list[Case]:
    """The cases of a fixture file."""
    found = []
    for block in (FOLDER / f"{name}.txt").read_text().strip("\n").split(SEPARATOR):
        title, _, rest = block.partition("\n")
        sql, _, expected = rest.rpartition("\n=>\n")
        found.append(Case(title.removeprefix("# "), sql, expected))
    return found


@cache
def inputs() -> dict[str, Input]:
    """The inputs that the fixtures are about."""
    declared = {}
    for line in (FOLDER / "inputs.txt").read_text().splitlines():
        head, _, body = line.partition(": ")
        kind, name = head.split()
        columns = dict(column.split() for column in body.split(", "))
        if kind == "stream":
            time = "ts" if "ts" in columns else None
            declared[name] = Input.stream(name, columns, time=time)
        else:
            declared[name] = Input.table(name, columns, key=next(iter(columns)))
    return declared


def outcome(sql: str) -> str:
    """What a template becomes: the text of its question, or of its refusal."""
    try:
        return text_of(parse(sql, inputs()))
    except UnsupportedQuery as error:
        return f"{error.message}\nhint: {error.hint}"


def text_of(question: Question) -> str:
    """A question as a few lines."""
    if isinstance(question, Filter):
        lines = [f"filter {question.input}"]
        lines += [f"range {_range(r)}" for r in question.ranges]
        lines += [f"fixed {_range(r)}" for r in question.fixed]
        aliases = ["", ""]
    elif isinstance(question, WindowAggregate | KeyThreshold):
        return _window(question)
    else:
        lines = _join(question)
        aliases = [f"{side.alias}." for side in question.sides]
    holes = ", ".join(f"{hole.name} {hole.kind}" for hole in holes_of(question))
    select = ", ".join(_output(output, aliases) for output in question.select)
    return "\n".join([*lines, f"holes {holes}", f"select {select}"])


def _window(question: Windowed) -> str:
    is_threshold = isinstance(question, KeyThreshold)
    unit = "range" if is_threshold else question.unit
    name = "key_threshold" if is_threshold else "window_aggregate"
    lines = [f"{name} {question.input}", f"aggregate {question.function} of {question.column}"]
    lines += [f"key {question.key}", f"{unit} {_range(question.window)}"]
    if not is_threshold and question.phi is not None:
        lines.append(f"share {_range(question.phi)}")
    if question.bound is not None:
        lines.append(f"bound {_range(question.bound)}")
    lines += [f"fixed {_range(r)}" for r in question.fixed]
    holes = ", ".join(f"{hole.name} {hole.kind}" for hole in holes_of(question))
    shown = question.key_name if is_threshold else f"{question.key_name}, {question.value_name}"
    return "\n".join([*lines, f"holes {holes}", f"select {shown} ({question.result})"])


def _join(question: Join) -> list[str]:
    sides = ", ".join(f"{s.input} AS {s.alias} ({s.column})" for s in question.sides)
    if isinstance(question, BandJoin):
        lines = [f"band_join {sides}", f"range {_range(question.band)}"]
        lines += [f"subtrahend {question.sides[question.subtrahend].alias}"]
    elif isinstance(question, SelectJoin):
        lines = [f"select_join {sides}", f"key {question.key}"]
    else:
        lines = [f"window_join {sides}", f"key {question.key}"]
        lines += [f"times {', '.join(question.times)}", f"window {_range(question.window)}"]
    for side in question.sides:
        lines += [f"{side.alias} range {_range(r)}" for r in side.ranges]
        lines += [f"{side.alias} fixed {_range(r)}" for r in side.fixed]
    return lines


def _range(r: Range) -> str:
    lows = [f"{'>' if bound.strict else '>='} {_bound(bound)}" for bound in r.lows]
    highs = [f"{'<' if bound.strict else '<='} {_bound(bound)}" for bound in r.highs]
    return f"{r.column} {r.kind}: {', '.join(lows + highs)}"


def _bound(bound: Bound) -> str:
    value = f":{bound.value.name}" if isinstance(bound.value, Hole) else repr(bound.value)
    return f"-{value}" if bound.negated else value


def _output(output: Output, aliases: list[str]) -> str:
    written = f"{aliases[output.side]}{output.column}"
    return written if written == output.name else f"{written} AS {output.name}"


def main(name: str) -> None:
    """Print a fixture file with what its templates become now."""
    blocks = [f"# {c.title}\n{c.sql}\n=>\n{outcome(c.sql)}" for c in cases(name)]
    sys.stdout.write(SEPARATOR.join(blocks) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
