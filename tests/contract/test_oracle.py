"""The oracle is right: a database says the same about the same rows and the same SQL.

DuckDB reads the template's own text, with the holes as columns of a table of queries. It knows no
difference of int64 beyond int64 and orders NaN above all, so only plain numbers are compared here;
`test_special_numbers` and `test_named_cases` say by hand what the others mean.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.contract.histories import KEYS, Draft, Push
from tests.contract.numbers import FEW_TIMES, KINDS
from tests.contract.oracle import Model, Result, Row
from tests.contract.shapes import SHAPES, Shape
from tests.contract.worlds import KEY_KINDS, Inputs, World

from standfast.model.template import Template
from standfast.operators.catalog import question_name

EVERY = [(question, shape) for question, shapes in SHAPES.items() for shape in shapes]
every_shape = pytest.mark.parametrize(
    ("question", "shape"), EVERY, ids=[f"{question}-{shape.sql}" for question, shape in EVERY]
)
SEEDS = 3
TYPES = {
    "int64": pa.int64(), "float64": pa.float64(), "timestamp": pa.int64(), "string": pa.string(),
}  # fmt: skip


def world_of(question: Any, shape: Shape, rng: Random, inputs: Inputs) -> World:
    keys = KINDS if "a.j" in shape.meaning else KEY_KINDS
    return World(
        question, rng.choice(KINDS), inputs, shape, key=rng.choice(keys), clock=rng.choice(KINDS)
    )


@every_shape
def test_every_shape_asks_its_question(question: str, shape: Shape) -> None:
    names = "a" if question == "filter" else "ab"
    world = world_of(question, shape, Random(1), dict.fromkeys(names, "stream"))
    template = Template.parse("t", world.sql, world.engine().inputs)
    assert question_name(template.question) == question
    assert {hole.name for hole in template.holes} == set(shape.holes)


@every_shape
def test_a_database_says_what_the_oracle_says(question: str, shape: Shape) -> None:
    found = 0
    for seed in range(SEEDS):
        rng = Random(seed)
        inputs: Inputs = {"a": "stream", "b": "stream"}
        if question == "filter" or seed % 3 == 2:
            inputs = {"a": "stream"}
        world = world_of(question, shape, rng, inputs)
        model, draft = Model(world), Draft(world, rng)
        for name in inputs:
            pushes = [draft.push(name, 5) for _ in range(4)]
            model.push(name, [row for push in pushes for row in plain_rows(world, push)])
        bounds = draft.bounds(10)
        queries = [
            {
                hole: plain_bound(world, shape.holes[hole], values[i])
                for hole, values in bounds.items()
            }
            for i in range(10)
        ]
        model.queries = dict(enumerate(queries))
        expected = model.results()
        assert answer_of(world, model.rows, queries) == expected
        found += expected.total()
    assert found > 0


def plain_rows(world: World, push: Push) -> list[Row]:
    """The rows with special numbers replaced by null."""
    kinds = list(world.columns(push.name).values())
    return [
        tuple(v if is_plain(v, kind) else None for v, kind in zip(row, kinds, strict=True))
        for row in push.rows
    ]


def is_plain(value: Any, kind: str) -> bool:
    if value is None or isinstance(value, str):
        return True
    return abs(value - (FEW_TIMES if kind == "timestamp" else 0)) <= 100


def plain_bound(world: World, subject: str, value: Any) -> Any:
    """The bound, or a plain one where it is special."""
    is_gap = subject in ("a-b", "b-a", "abs", "gap")
    kind = "int64" if is_gap else world.kind_of(subject)
    return value if is_plain(value, kind) else KEYS + (FEW_TIMES if kind == "timestamp" else 0)


def answer_of(world: World, rows: dict[str, list[Row]], queries: list[dict[str, Any]]) -> Result:
    """What DuckDB answers to all queries."""
    outputs = ", ".join(f"{'ab'[side]}.{column}" for side, column in world.outputs)
    sql = re.sub(r":(\w+)", r"$\1", world.sql.replace("*", outputs, 1))
    found: Result = Counter()
    with duckdb.connect(config={"threads": 1}) as database:
        for name in world.inputs:
            schema = pa.schema([(c, TYPES[kind]) for c, kind in world.columns(name).items()])
            columns = [[row[i] for row in rows[name]] for i in range(len(schema))]
            database.register(name, pa.table(columns, schema=schema))
        for query, holes in enumerate(queries):
            for row in database.execute(sql, holes).fetchall():
                found[query, *row] += 1
    return found
