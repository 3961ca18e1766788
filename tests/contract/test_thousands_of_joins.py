"""Law, at a size where every index splits, merges and rebuilds: thousands of joins are exact.

As `test_thousands_of_queries`, for select-joins and window joins: queries crowd in a few places and
thousands come and go in a step, between rows of a few join keys that are pushed and deleted by the
dozen. The truth is every comparison of every query with every pair of rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.contract.laws import SMALL, every_case_of
from tests.contract.numbers import FEW_TIMES, KINDS, Kind
from tests.contract.shapes import SHAPES
from tests.contract.test_thousands_of_queries import check_answer, draw_ranges, draw_values
from tests.contract.worlds import Case, World

N_QUERIES, N_ROWS, N_STEPS = (200, 10, 3) if SMALL else (1_500, 40, 3)
KEY_KINDS = {"int64": "string", "float64": "int64", "timestamp": "float64"}
NAMES = {"int64": [0, 7, -(2**63)], "string": ["", "p", "q"], "float64": [0.5, 0.0, -1.5]}


class Rows(NamedTuple):
    """Rows of one side: key of the table, place of the join key among the names, number, time."""

    k: np.ndarray
    j: np.ndarray
    x: np.ndarray
    t: np.ndarray

    def take(self, chosen: np.ndarray) -> Rows:
        return Rows(*(column[chosen] for column in self))

    def and_more(self, more: Rows) -> Rows:
        return Rows(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))


class Queries(NamedTuple):
    """Ids, ranges of both sides as `[end, query]`, windows."""

    ids: np.ndarray
    a: np.ndarray
    b: np.ndarray
    w: np.ndarray

    def holes(self, world: World) -> dict[str, Any]:
        found = {"lo": self.a[0], "hi": self.a[1], "low": self.b[0], "high": self.b[1], "w": self.w}
        return {hole: found[hole] for hole in world.shape.holes}

    def take(self, chosen: np.ndarray) -> Queries:
        return Queries(*(column[..., chosen] for column in self))

    def and_more(self, more: Queries) -> Queries:
        return Queries(*(np.concatenate(p, axis=-1) for p in zip(self, more, strict=True)))


def draw_queries(rng: np.random.Generator, kind: Kind, n: int) -> Queries:
    ranges = [draw_ranges(rng, kind, n, is_band=False) for _ in "ab"]
    # Rows lie everywhere: an end far away on one side makes most queries match some.
    for ends in ranges:
        ends[1] = np.where(rng.random(n) < 0.5, ends[1] + 400, ends[1])
    return Queries(np.arange(n), ranges[0], ranges[1], rng.integers(-2, 60, n))


def draw_rows(rng: np.random.Generator, kind: Kind, first_key: int) -> Rows:
    keys = rng.choice(3, N_ROWS, p=[0.6, 0.3, 0.1])
    times = FEW_TIMES + rng.integers(0, 100, N_ROWS)
    return Rows(
        np.arange(first_key, first_key + N_ROWS), keys, draw_values(rng, kind, N_ROWS), times
    )


def batch_of(world: World, rows: Rows) -> dict[str, Any]:
    """The rows as they are pushed."""
    found = {"k": rows.k, "j": [NAMES[world.key][place] for place in rows.j], "t": rows.t}
    return world.batch(rows.x, **{c: found[c] for c in found if c in world.columns("a")})


def holds(values: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """`[row, query]`: whether the row's number lies in the query's range."""
    return (values[:, None] >= ranges[0]) & (values[:, None] <= ranges[1])


def truth_of(world: World, rows: Rows, stored: Rows, own: np.ndarray, other: np.ndarray,
             windows: np.ndarray) -> np.ndarray:  # fmt: skip
    """`[event, query]`: how many stored rows each event joins with."""
    found, inside = np.zeros((rows.k.size, windows.size), np.int64), holds(stored.x, other)
    for event in range(rows.k.size):
        met = inside & (stored.j == rows.j[event])[:, None]
        if world.question == "window_join":
            met &= np.abs(stored.t - rows.t[event])[:, None] <= windows
        found[event] = met.sum(axis=0)
    return found * holds(rows.x, own)


@every_case_of("select_join", "window_join")
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_joins_are_exact(case: Case, kind: Kind) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    world = World(
        case.question, kind, {"a": "table", "b": "table"}, SHAPES[case.question][0],
        ("a.k",), key=KEY_KINDS[kind],
    )  # fmt: skip
    engine = world.engine()
    group = world.register(engine, case.way)
    n_queries = min(N_QUERIES, 125 if case.way == "naive" else N_QUERIES)
    queries = draw_queries(rng, kind, 0)
    stored = {name: draw_rows(rng, kind, 0).take(np.zeros(0, int)) for name in "ab"}
    next_key = pairs = 0
    for _ in range(N_STEPS):
        more = draw_queries(rng, kind, n_queries)
        ids = group.add(more.holes(world)).to_numpy()
        gone = rng.random(queries.ids.size) < 0.7
        group.remove(queries.ids[gone])
        queries = queries.take(~gone).and_more(more._replace(ids=ids))
        for name, other in ("ab", "ba"):
            rows = draw_rows(rng, kind, next_key)
            next_key += N_ROWS
            answer = engine.push(name, batch_of(world, rows))[case.way]
            own, others = getattr(queries, name), getattr(queries, other)
            truth = truth_of(world, rows, stored[other], own, others, queries.w)
            check_answer(answer, truth, queries.ids)
            pairs += np.count_nonzero(truth)
            stored[name] = stored[name].and_more(rows)
            dropped = rng.random(stored[name].k.size) < 0.3
            engine.delete(name, {"k": stored[name].k[dropped]})
            stored[name] = stored[name].take(~dropped)
        engine.check()
    assert len(group) == queries.ids.size > n_queries
    assert pairs > n_queries
