"""Law: NaN, infinities, both zeros, denormals, 2^53 + 1, the ends of int64 and lo > hi are exact.

Every special number meets every other: as event, as low bound and as high bound, bounds as
integers and as floats, all four kinds of interval, arrivals on either side. The whole cross product
stands in one group; what must match is worked out in plain Python, comparison by comparison.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.contract.laws import SMALL, every_case
from tests.contract.numbers import BAND_BOUNDS, BOUNDS, EVENTS, KINDS, Kind, Number
from tests.contract.oracle import holds, minus
from tests.contract.worlds import BAND_SHAPES, FILTER_SHAPES, Case, Comparison, Shape, World

from standfast import Answer, BadParameters

Bools = np.ndarray[Any, np.dtype[np.bool_]]
Params = dict[str, list[Number]]

# Both ends closed, both open, half-open, one-sided, equality; for differences both orders and ABS.
SHAPES = {"filter": FILTER_SHAPES[:7], "band_join": BAND_SHAPES[:8]}
INPUTS = {"filter": {"a": "stream"}, "band_join": {"a": "stream", "b": "stream"}}


class Cross(NamedTuple):
    """Every combination of bounds, and which event (or pair of events) each must match."""

    params: list[Params]  # one call of `add` for each combination of types
    truth: Bools  # query, event; query, event of a, event of b


def events_of(kind: Kind) -> list[Any]:
    """The special numbers as events; fewer where kernels are plain Python."""
    return list(EVENTS[kind][::3] if SMALL else EVENTS[kind])


@cache
def cross(question: str, kind: Kind, shape: Shape) -> Cross:
    """The cross product of a shape, decided in plain Python."""
    pools = (BOUNDS if question == "filter" else BAND_BOUNDS)[kind]
    events, holes = events_of(kind), list(shape.holes)
    subjects: dict[str, list[Any]] = {"x": events}
    if question == "band_join":
        gaps = [minus(a, b) for a in events for b in events]
        subjects = {
            "a-b": gaps,
            "b-a": [minus(b, a) for a in events for b in events],
            "abs": [gap if gap is None else abs(gap) for gap in gaps],
        }
    calls, decided = [], []
    for types in product(pools, repeat=len(holes)):
        combined = list(product(*(values[::4] if SMALL else values for values in types)))
        params = {hole: [bounds[i] for bounds in combined] for i, hole in enumerate(holes)}
        calls.append(params)
        decided.append(
            np.all([_decided(c, params[c.hole], subjects[c.subject]) for c in shape.comparisons], 0)
        )
    truth = np.concatenate(decided)
    sides = 1 if question == "filter" else 2
    return Cross(calls, truth.reshape(len(truth), *[len(events)] * sides))


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
        world = World(case.question, kind, INPUTS[case.question], shape, select)
        engine, events = world.engine(), events_of(kind)
        group = world.register(engine, case.way)
        wanted = cross(case.question, kind, shape)
        for params in wanted.params:
            group.add(params)
        number_of = range(len(events))
        batch = {"k": number_of, "x": events, "y": number_of, "s": [None] * len(events)}
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
    world = World(case.question, kind, INPUTS[case.question], shape)
    group = world.register(world.engine(), case.way)
    for low, high in ((0.0, math.nan), (math.nan, math.inf)):
        with pytest.raises(BadParameters):
            group.add({"lo": [0.0, low], "hi": [1.0, high]})
    assert len(group) == 0
    group.check()


@every_case
def test_events_without_a_number_match_nothing_and_are_counted(case: Case) -> None:
    shape = SHAPES[case.question][0]
    world = World(case.question, "float64", INPUTS[case.question], shape)
    engine = world.engine()
    group = world.register(engine, case.way)
    group.add({"lo": [-math.inf], "hi": [math.inf]})
    batch = {"k": [1, 2, 3], "x": [math.nan, None, -0.0], "y": [0] * 3, "s": ["p"] * 3}
    for name in world.inputs:
        answer = engine.push(name, batch)[case.way]
    assert answer.counts()["queries"].to_pylist() == [0, 0, 1]
    assert group.metrics()["unmatched"] == 2 * len(world.inputs)
