"""The router learns: what ways cost in truth, which of two close ones is better, when to look."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.operators.reading import slots_in_spans, slots_of
from tests.operators.routing import Clock, Fake, fill, model_of, routing_of, run

from standfast import _numba
from standfast.arrays import Hits, Int64s, Matches, SpanList
from standfast.operators import router
from standfast.operators.ledger import Ledger
from standfast.operators.router import Routing


def test_wrong_constants_heal() -> None:
    routing, clock = routing_of("groups", "select_first", build=0.0)
    fill(routing, 3)
    costs = [[1000.0] * 4, [500.0] * 4]  # select_first really costs ten times as much

    def took(way: Fake) -> None:
        clock.now += 1e-6 * (4000 if way is routing.built["groups"] else 20_000)

    for _ in range(40):
        run(routing, costs, took)
    assert routing.last.tolist() == [0] * 4
    factors = routing.ledger.corrections()
    assert 2 < factors[1] / factors[0] < 20


def test_a_way_that_was_not_measured_is_thought_about_as_slow_as_the_others() -> None:
    book = Ledger(3)
    for _ in range(50):
        book.measure(0, 10, 3e-3, 1000.0)
        book.measure(1, 10, 3e-3, 1000.0)
    assert book.corrections() == pytest.approx([3, 3, 3 ** (2 / 3)], rel=0.15)


def test_one_strange_measurement_does_little() -> None:
    book = Ledger(1)
    for _ in range(50):
        book.measure(0, 10, 1e-3, 1000.0)
    book.measure(0, 10, 10.0, 1000.0)
    assert book.corrections()[0] < 2


@pytest.mark.parametrize("n_looked", [0, 20])
def test_a_batch_that_something_was_compiled_for_is_not_measured(
    n_looked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    routing, clock = routing_of("groups", "select_first")
    fill(routing, 2)
    costs = [[1000.0] * 100, [2000.0] * 100]

    def takes(seconds: float) -> Callable[[Fake], None]:
        def took(_: Fake) -> None:
            clock.now += seconds

        return took

    def compiles(_: Fake) -> None:
        monkeypatch.setattr(_numba, "_n_made", _numba._n_made + 1)
        clock.now += 30.0

    for _ in range(2 + n_looked):
        run(routing, costs, takes(0.1))
    before = routing.describe()["routes"]
    run(routing, costs, compiles)
    run(routing, costs, takes(0.1))
    after = routing.describe()["routes"]
    assert "measured at 1000.00 us each" in str(before)
    assert "measured at 1000.00 us each" in str(after), "what compiling took is nobody's cost"


def test_ways_that_fell_out_of_use_are_measured_again() -> None:
    routing, _ = routing_of("groups", "select_first", build=0.0)
    fill(routing, 1)
    run(routing, [[2.0] * 100, [1.0] * 50 + [3.0] * 50])
    for _ in range(router.EXPLORE_EVERY):
        run(routing, [[10.0] * 100, [30.0] * 100])
        if routing.n_batches % router.EXPLORE_EVERY == 0:
            break
    assert 0 < np.count_nonzero(routing.last == 1) <= 4


def test_the_share_of_slices_is_learned_from_those_who_ask() -> None:
    model, clock = model_of("groups"), Clock()
    model.spans = np.array([0.5])
    routing = Routing(model, {"groups": Fake}, 1, "groups", clock)
    fill(routing, 1)

    class Slow(Matches):
        def spans(self) -> SpanList:
            clock.now += 9e-3
            return super().spans()

    def process(way: Fake, places: Int64s) -> Hits:
        clock.now += 1e-3
        found = way.process(places.size)
        return Slow(found.offsets, found.slots)

    traits = np.array([[0.0], [2000.0]])
    for _ in range(30):
        hits = routing.answer(1, lambda: ({"one": 1.0}, traits), process)
        assert hits.n_events == hits.counts().size == 1
        assert slots_of(hits) == [[0]]
    assert routing.ledger.spans[0] == 0.5, "nobody has asked"
    for _ in range(30):
        hits = routing.answer(1, lambda: ({"one": 1.0}, traits), process)
        assert slots_in_spans(hits) == [[0]]
    assert routing.ledger.spans[0] == pytest.approx(0.9, abs=0.01)
    assert routing.ledger.corrections()[0] == pytest.approx(5, rel=0.3), "10 ms in all, not 2"


def test_where_choosing_saves_nothing_it_is_not_done() -> None:
    routing, clock = routing_of("groups", "select_first", build=0.0)
    fill(routing, 1)
    looked = []

    def batch(first: float, second: float) -> None:
        def features() -> tuple[dict[str, float], np.ndarray]:
            looked.append(routing.n_batches)
            clock.now += 1e-3
            return {"one": 1.0}, np.array([[0.0, 0.0], [10.0, 10.0], [first, second]])

        hits = routing.answer(2, features, lambda way, places: way.process(places.size))
        assert slots_of(hits) == [[0], [0]]

    for _ in range(2 * router.LOOK_EVERY):
        batch(1.0, 1.0)
    first = list(range(1, router.LOOK_FIRST + 1))
    assert looked == [*first, router.LOOK_EVERY, 2 * router.LOOK_EVERY]
    assert routing.last.tolist() == [1, 1], "both by the better way"
    for _ in range(4 * router.LOOK_EVERY):
        batch(1.0, 1e6)
    assert routing.n_batches in looked, "now it saves so much that every batch is looked at"
    assert routing.last.tolist() == [1, 0]
