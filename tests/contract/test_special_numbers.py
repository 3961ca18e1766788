"""Law: NaN, infinities, both zeros, denormals, 2^53 + 1, the ends of int64 and lo > hi are exact.

Every special number meets every other: as event, as low bound and as high bound, bounds as
integers and as floats, all four kinds of interval, arrivals on either side. The whole cross product
stands in one group; what must match is worked out in plain Python, comparison by comparison.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.contract.laws import SMALL, every_case, every_case_of
from tests.contract.numbers import BAND_BOUNDS, BOUNDS, EVENTS, KINDS, Kind, Number
from tests.contract.oracle import holds, joins, minus
from tests.contract.shapes import BAND_SHAPES, FILTER_SHAPES, Comparison, Shape
from tests.contract.worlds import Case, Inputs, World

from standfast import Answer, BadParameters

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Params = dict[str, list[Number]]

# Both ends closed, both open, half-open, one-sided, equality; for differences both orders and ABS.
# A join of two ranges has one end on each side, so that the cross product stays small.
SHAPES = {
    "filter": FILTER_SHAPES[:7],
    "band_join": BAND_SHAPES[:8],
    "select_join": (
        Shape("a.j = b.j AND a.x >= :lo AND b.x <= :hi", "a.x >= lo, b.x <= hi"),
        Shape("a.j = b.j AND a.x < :hi AND b.x > :lo", "a.x < hi, b.x > lo"),
        Shape("a.j = b.j AND b.x BETWEEN :lo AND :hi", "b.x >= lo, b.x <= hi"),
        Shape("a.j = b.j AND a.x > :lo AND a.x < :hi", "a.x > lo, a.x < hi"),
        Shape("a.j = b.j AND a.x = :lo", "a.x = lo"),
    ),
    "window_join": (
        Shape("a.j = b.j AND ABS(a.t - b.t) <= :w AND b.x >= :lo", "gap <= w, b.x >= lo"),
        Shape("a.j = b.j AND ABS(a.t - b.t) < :w AND a.x < :hi", "gap < w, a.x < hi"),
        Shape("a.j = b.j AND ABS(b.t - a.t) < :w", "gap < w"),
        Shape("a.j = b.j AND ABS(b.t - a.t) <= :w AND a.t > :lo", "gap <= w, a.t > lo"),
    ),
}


def world_of(case: Case, kind: Kind, shape: Shape, select: tuple[str, ...] = ()) -> World:
    """Streams of numbers of this kind; times are of the same kind."""
    names = "a" if case.question == "filter" else "ab"
    inputs: Inputs = dict.fromkeys(names, "stream")
    return World(case.question, kind, inputs, shape, select, clock=kind)


GAPS = ("a-b", "b-a", "abs", "gap")


class Cross(NamedTuple):
    """Every combination of bounds, and which event (or pair of events) each must match."""

    params: list[Params]  # one call of `add` for each combination of types
    truth: Bools  # query, event; query, event of a, event of b


def special_rows(world: World, events: list[Any]) -> dict[str, Any]:
    """Rows with these numbers, in the time column too where there is one."""
    return world.batch(events) | ({"t": events} if "t" in world.columns("a") else {})


def events_of(kind: Kind) -> list[Any]:
    """The special numbers as events; fewer where kernels are plain Python."""
    return list(EVENTS[kind][::3] if SMALL else EVENTS[kind])


@cache
def cross(question: str, kind: Kind, shape: Shape) -> Cross:
    """The cross product of a shape, decided in plain Python."""
    events, holes = events_of(kind), shape.holes
    sides = 1 if question == "filter" else 2
    subjects: dict[str, list[Any]] = {"x": events} if sides == 1 else _pairs(events)
    pools = [(BAND_BOUNDS if s in GAPS else BOUNDS)[kind] for s in holes.values()]
    calls, decided = [], []
    for types in product(*pools):
        combined = list(product(*(values[::4] if SMALL else values for values in types)))
        params = {hole: [bounds[i] for bounds in combined] for i, hole in enumerate(holes)}
        calls.append(params)
        decided.append(
            np.all([_decided(c, params[c.hole], subjects[c.subject]) for c in shape.comparisons], 0)
        )
    truth = np.concatenate(decided)
    return Cross(calls, truth.reshape(len(truth), *[len(events)] * sides))


def _pairs(events: list[Any]) -> dict[str, list[Any]]:
    """What a condition can be about, for every event of a with every event of b."""
    pairs = list(product(events, repeat=2))
    gaps = [minus(a, b) for a, b in pairs]
    sizes = [gap if gap is None else abs(gap) for gap in gaps]
    a, b = [a for a, _ in pairs], [b for _, b in pairs]
    return {
        "a.x": a, "b.x": b, "a.t": a, "b.t": b,
        "a-b": gaps, "b-a": [minus(b, a) for a, b in pairs], "abs": sizes, "gap": sizes,
    }  # fmt: skip


def _decided(comparison: Comparison, bounds: list[Number], values: list[Any]) -> Bools:
    """`[i, j]`: whether value j satisfies the comparison with bound i."""
    rows = {
        bound: [holds(value, comparison, {comparison.hole: bound}) for value in values]
        for bound in set(bounds)
    }
    return np.array([rows[bound] for bound in bounds])


def matrix(answer: Answer, shape: tuple[int, int]) -> np.ndarray:
    """`[query, row]`: how often a pair is in the answer."""
    found = np.zeros(shape, np.int64)
    pairs = answer.pairs()
    np.add.at(found, (pairs["query"].to_numpy(), pairs["row"].to_numpy()), 1)
    assert np.array_equal(found.sum(axis=0), answer.counts()["queries"].to_numpy())
    return found


@every_case
@pytest.mark.parametrize("kind", KINDS)
def test_special_numbers_are_exact(case: Case, kind: Kind) -> None:
    decisions = matches = 0
    for number, shape in enumerate(SHAPES[case.question]):
        select = ("a.k",) if case.question == "filter" else ("a.k", "b.k")
        world = world_of(case, kind, shape, select)
        engine, events = world.engine(), events_of(kind)
        group = world.register(engine, case.way)
        wanted = cross(case.question, kind, shape)
        for params in wanted.params:
            group.add(params)
        batch = special_rows(world, events)
        # Every other shape has its events arrive on the other side.
        names = list(world.inputs)[:: 1 - 2 * (number % 2)]
        for name in names:
            answer = engine.push(name, batch)[case.way]
        truth, other = wanted.truth, {"a": 2, "b": 1}[names[-1]]
        arrived = truth if truth.ndim == 2 else truth.any(axis=other)
        assert np.array_equal(matrix(answer, arrived.shape), arrived), shape
        check_rows(answer, truth, shape)
        engine.check()
        decisions += truth.size
        matches += int(truth.sum())
    assert decisions > matches > 0
    assert decisions > (1_000 if SMALL else 60_000) // (10 if kind == "timestamp" else 1)


def check_rows(answer: Answer, truth: Bools, shape: Shape) -> None:
    """The result rows are the combinations that must match, each once."""
    columns = answer.rows()
    keys = [columns[i].to_numpy() for i in range(truth.ndim)]
    found = np.sort(np.ravel_multi_index(keys, truth.shape))
    assert np.array_equal(found, np.flatnonzero(truth)), shape


@every_case
@pytest.mark.parametrize("kind", KINDS)
def test_nan_as_a_bound_is_refused_and_nothing_is_applied(case: Case, kind: Kind) -> None:
    shape = SHAPES[case.question][0]
    world = world_of(case, kind, shape)
    group = world.register(world.engine(), case.way)
    one, other = shape.holes
    for low, high in ((0.0, math.nan), (math.nan, math.inf)):
        with pytest.raises(BadParameters):
            group.add({one: [0.0, low], other: [1.0, high]})
    assert len(group) == 0
    group.check()


@every_case
def test_events_without_a_number_match_nothing_and_are_counted(case: Case) -> None:
    world = world_of(case, "float64", SHAPES[case.question][0])
    engine = world.engine()
    group = world.register(engine, case.way)
    group.add({hole: [-math.inf if hole == "lo" else math.inf] for hole in world.shape.holes})
    for name in world.inputs:
        answer = engine.push(name, special_rows(world, [math.nan, None, -0.0]))[case.way]
    assert answer.counts()["queries"].to_pylist() == [0, 0, 1]
    assert group.metrics()["unmatched"] == 2 * len(world.inputs)


KEYS: dict[str, list[Any]] = {
    **{kind: list(EVENTS[kind]) for kind in KINDS},
    "string": ["p", "P", "", " ", "p ", "\u00e9", "e\u0301", "null", "0", None],
}


@every_case_of("select_join", "window_join")
@pytest.mark.parametrize("kind", KEYS)
def test_special_join_keys_join_with_their_equals_only(case: Case, kind: str) -> None:
    shape = SHAPES[case.question][0]
    world = replace(world_of(case, "int64", shape, ("a.k", "b.k")), key=kind)
    engine, keys = world.engine(), KEYS[kind]
    wide = {hole: [-5.0 if hole == "lo" else 5.0] for hole in shape.holes}
    world.register(engine, case.way).add(wide)
    engine.push("a", world.batch([0] * len(keys), j=keys))
    answer = engine.push("b", world.batch([0] * len(keys), j=keys))[case.way]
    found = answer.rows()
    equal = [(i, j) for j, b in enumerate(keys) for i, a in enumerate(keys) if joins(a, b)]
    assert sorted(zip(found[1].to_pylist(), found[2].to_pylist(), strict=True)) == sorted(equal)
    meets = [any(joins(key, other) for other in keys) for key in keys]
    assert answer.counts()["queries"].to_pylist() == [int(m) for m in meets]
