"""Answers by others: recorded sqllogictest queries become standing filters.

    python -m tests.contract.slt PATH...                 whole files (.test or .test.gz): counts
    python -m tests.contract.slt --strategy naive PATH   answered by one way of the catalogue
    python -m tests.contract.slt --sample N PATH         prints a part of a file: every N-th label

A file creates tables, fills them and asks `SELECT pk FROM table WHERE ...`, each query with the
recorded answer. A WHERE clause that is a conjunction of ranges becomes one standing query: its
literals become holes, and all queries of one shape stand in one group. A clause with OR or IN
becomes one standing query for each alternative, and its answer is their union. All rows are pushed
when all queries stand; the answers must be the recorded ones. IS NULL and subqueries are no ranges
and out of scope.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.contract.ranges import NoRange, Term, alternatives, text_of
from tests.contract.worlds import clock

from standfast import Engine
from standfast.operators.catalog import CATALOG

KINDS = {"INTEGER": "int64", "FLOAT": "float64", "TEXT": "string"}
_CREATE = re.compile(r"CREATE TABLE (\w+)\((.*)\)")
_VALUES = re.compile(r"INSERT INTO (\w+) VALUES\((.*)\)")
_COPY = re.compile(r"INSERT INTO (\w+) SELECT \* FROM (\w+)")
_SELECT = re.compile(r"SELECT pk FROM (\w+) WHERE (.*)")
_HASHED = re.compile(r"(\d+) values hashing to ([0-9a-f]{32})")


class Table(NamedTuple):
    """A table of a file: its columns with their kinds, and its rows."""

    columns: dict[str, str]
    rows: list[list[Any]]


class Query(NamedTuple):
    """A recorded query: what it asks and the lines it must answer."""

    label: str
    sql: str
    expected: list[str]


class Script(NamedTuple):
    """A whole file."""

    tables: dict[str, Table]
    queries: list[Query]


class Standing(NamedTuple):
    """One alternative of a recorded query: the template and what its holes say."""

    template: str
    literals: list[int | float | str]
    n_columns: int


@dataclass(slots=True)
class Score:
    """What became of the queries of a file."""

    n_queries: int = 0
    conjunctions: int = 0
    unions: int = 0
    templates: int = 0
    rows_found: int = 0
    out_of_scope: Counter[str] = field(default_factory=Counter)
    different: list[str] = field(default_factory=list)

    @property
    def in_scope(self) -> int:
        return self.conjunctions + self.unions

    def __str__(self) -> str:
        reasons = ", ".join(f"{n} {why}" for why, n in self.out_of_scope.most_common())
        return (
            f"{self.n_queries} queries, {self.in_scope} in scope ({self.conjunctions} conjunctions"
            f" of ranges, {self.unions} unions of them) in {self.templates} templates,"
            f" {self.in_scope - len(self.different)} equal, {self.rows_found} rows;"
            f" out of scope: {reasons or 'none'}"
        )


def records(path: Path) -> Iterator[list[str]]:
    """The records of a file: lines between empty lines."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for record in data.decode().replace("\r\n", "\n").split("\n\n"):
        lines = [line for line in record.split("\n") if line]
        if lines:
            yield lines


def read_script(path: Path) -> Script:
    """Tables and queries of a file."""
    script = Script({}, [])
    for lines in records(path):
        words = lines[0].split()
        if words[:2] == ["statement", "ok"]:
            _execute(lines[1], script.tables)
        elif words[0] == "query":
            assert words[1:3] == ["I", "rowsort"], f"unknown form of a query: {lines[0]}"
            end = lines.index("----")
            script.queries.append(Query(words[3], " ".join(lines[1:end]), lines[end + 1 :]))
        else:
            assert words[0] == "hash-threshold", f"unknown record: {lines[0]}"
    return script


def _execute(sql: str, tables: dict[str, Table]) -> None:
    if match := _CREATE.fullmatch(sql):
        columns = [column.split()[:2] for column in match[2].split(", ")]
        tables[match[1]] = Table({name: KINDS[kind] for name, kind in columns}, [])
    elif match := _VALUES.fullmatch(sql):
        kinds = tables[match[1]].columns.values()
        tables[match[1]].rows.append(
            [_value(text, kind) for text, kind in zip(match[2].split(","), kinds, strict=True)]
        )
    elif match := _COPY.fullmatch(sql):
        tables[match[1]].rows.extend(tables[match[2]].rows)
    else:
        assert re.match(r"CREATE (UNIQUE )?INDEX ", sql), f"unknown statement: {sql}"


def _value(text: str, kind: str) -> Any:
    if text == "NULL":
        return None
    return {"int64": int, "float64": float, "string": lambda t: t.strip("'")}[kind](text)


def standing(query: Query) -> list[Standing]:
    """The standing queries whose union answers a recorded one, or NoRange."""
    match = _SELECT.fullmatch(query.sql)
    if match is None:
        raise NoRange("another form of SELECT")
    table, where = match.groups()
    found = alternatives(where)
    # A conjunction keeps its own text; only its literals become holes.
    is_own = len(found) == 1 and " IN " not in where
    texts = [where] if is_own else [text_of(terms) for terms in found]
    return [_with_holes(table, text, terms) for text, terms in zip(texts, found, strict=True)]


def _with_holes(table: str, where: str, terms: list[Term]) -> Standing:
    literals = [value for term in terms for value in term.values]
    pieces = re.split(r"(?<=[\s(])-?\d+(?:\.\d+)?(?=[\s)]|$)|'[^']*'", where)
    assert len(pieces) == len(literals) + 1, f"literals are not found: {where}"
    holes = [f":h{i}" for i in range(len(literals))] + [""]
    text = "".join(piece + hole for piece, hole in zip(pieces, holes, strict=True))
    n_columns = len({term.column for term in terms})
    return Standing(f"SELECT pk FROM {table} WHERE {text}", literals, n_columns)


def run(script: Script, strategy: str = "auto") -> Score:
    """Let every query in scope stand, push all rows, compare all answers."""
    score = Score(len(script.queries))
    most = 16 if strategy == "auto" else CATALOG["filter"][strategy].spec.max_attributes
    groups: dict[str, list[tuple[int, Standing]]] = defaultdict(list)
    asked = []
    for number, query in enumerate(script.queries):
        try:
            parts = standing(query)
        except NoRange as reason:
            score.out_of_scope[str(reason)] += 1
            continue
        if max(part.n_columns for part in parts) > most:
            score.out_of_scope[f"more columns than {strategy} takes"] += 1
            continue
        score.conjunctions += len(parts) == 1
        score.unions += len(parts) > 1
        asked.append(number)
        for part in parts:
            groups[part.template].append((number, part))
    score.templates = len(groups)
    found = answers(script, groups, strategy)
    for number in asked:
        keys = found[number] if len(standing(script.queries[number])) == 1 else set(found[number])
        score.rows_found += len(keys)
        if not is_recorded(sorted(map(str, keys)), script.queries[number].expected):
            score.different.append(script.queries[number].sql)
    return score


def answers(
    script: Script, groups: dict[str, list[tuple[int, Standing]]], strategy: str
) -> dict[int, list[int]]:
    """The keys that each recorded query finds, once for each of its alternatives."""
    engine = Engine(clock=clock)
    for name, table in script.tables.items():
        engine.stream(name, table.columns)
    for template, members in groups.items():
        group = engine.register(template, name=template, strategy=strategy)
        columns = zip(*(part.literals for _, part in members), strict=True)
        group.add({f"h{i}": list(values) for i, values in enumerate(columns)})
    found: dict[int, list[int]] = defaultdict(list)
    for name, table in script.tables.items():
        columns = dict(zip(table.columns, map(list, zip(*table.rows, strict=True)), strict=True))
        for template, answer in engine.push(name, columns).items():
            rows = answer.rows()
            for member, key in zip(rows["query"].to_pylist(), rows["pk"].to_pylist(), strict=True):
                found[groups[template][member][0]].append(key)
    return found


def is_recorded(values: list[str], expected: list[str]) -> bool:
    """Whether sorted values are the recorded ones: all of them, or their number and hash."""
    hashed = _HASHED.fullmatch(expected[0]) if len(expected) == 1 else None
    if hashed is None:
        return values == expected
    digest = hashlib.md5("".join(f"{value}\n" for value in values).encode()).hexdigest()
    return (len(values), digest) == (int(hashed[1]), hashed[2])


def sample(path: Path, step: int) -> str:
    """A part of a file: its tables, and the queries in scope under every `step`-th label."""
    kept: list[str] = []
    labels: dict[str, int] = {}
    for lines in records(path):
        words = lines[0].split()
        if words[0] == "query":
            end = lines.index("----")
            query = Query(words[3], " ".join(lines[1:end]), lines[end + 1 :])
            try:
                standing(query)
            except NoRange:
                continue
            if labels.setdefault(query.label, len(labels)) % step:
                continue
        kept.append("\n".join(lines))
    return "\n\n".join(kept) + "\n"


def main(arguments: list[str]) -> int:
    """Run whole files, print counts; 1 when an answer differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--strategy", default="auto", choices=["auto", *CATALOG["filter"]])
    parser.add_argument("--sample", type=int, help="print every N-th label instead")
    options = parser.parse_args(arguments)
    different = 0
    for path in options.paths:
        if options.sample:
            print(sample(path, options.sample), end="")
            continue
        score = run(read_script(path), options.strategy)
        print(f"{path.name}: {score}", flush=True)
        for sql in score.different[:5]:
            print(f"  differs: {sql}")
        different += len(score.different)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
