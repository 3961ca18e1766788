"""Where queries come and go all the time the router still learns, and does not build in vain."""

from __future__ import annotations

import numpy as np
import pytest
from tests.operators.routing import Clock, Fake, fill, model_of

from standfast.arrays import Hits, Int64s
from standfast.operators import router
from standfast.operators.changes import Changes
from standfast.operators.router import Routing


class Churned:
    """Batches of 100 events with a change before each.

    A way takes `took_ms` for a batch, `order_ms` more after a change, and `change_ms` to change.
    """

    def __init__(
        self, took_ms: dict[str, float], estimates: tuple[float, ...], *,
        order_ms: dict[str, float] | None = None, change_ms: dict[str, float] | None = None,
        build_us: float = 1000.0, looking_ms: float = 0.1,
    ) -> None:  # fmt: skip
        self.clock, self.went, self.n = Clock(), list[str](), 10
        self.took_ms, self.estimates, self.looking_ms = took_ms, estimates, looking_ms
        self.order_ms = order_ms or dict.fromkeys(took_ms, 1.0)
        changed = change_ms or dict.fromkeys(took_ms, 0.1)
        make = {name: _maker(self.clock, changed[name]) for name in took_ms}
        self.routing: Routing[Fake] = Routing(
            model_of(*took_ms, build=build_us), make, 1, next(iter(took_ms)), self.clock
        )
        fill(self.routing, self.n)

    def run(self, n_batches: int) -> None:
        for _ in range(n_batches):
            fill(self.routing, 1, first=self.n)
            self.routing.remove(np.array([self.n - 10]))
            self.n += 1
            self.routing.answer(100, self._features, self._process)
            used = {self.routing.model.ways[w] for w in self.routing.last.tolist()}
            self.went.append(" ".join(sorted(used)))

    def _features(self) -> tuple[dict[str, float], np.ndarray]:
        self.clock.now += 1e-3 * self.looking_ms
        return {"one": 1.0}, np.array([np.zeros(100), *(np.full(100, e) for e in self.estimates)])

    def _process(self, way: Fake, places: Int64s) -> Hits:
        name = next(name for name, built in self.routing.built.items() if built is way)
        ms = self.took_ms[name] * places.size / 100
        if getattr(way, "n_changed", 0):
            ms += self.order_ms[name]
            way.n_changed = 0
        self.clock.now += 1e-3 * ms
        return way.process(places.size)


def _maker(clock: Clock, change_ms: float) -> type[Fake]:
    class Changing(Fake):
        n_changed = 0

        def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
            clock.now += 1e-3 * change_ms
            self.n_changed += 1
            super().add(slots, lows, highs)

        def remove(self, slots: Int64s) -> None:
            clock.now += 1e-3 * change_ms
            self.n_changed += 1
            super().remove(slots)

    return Changing


def test_a_batch_after_a_change_counts_where_all_batches_come_after_one() -> None:
    changes = Changes()
    changes.make("groups")
    changes.begin()
    assert not changes.is_usual("groups"), "it is new"
    assert changes.done("groups") == 0
    assert changes.is_usual("groups")
    changes.note("groups", 2.0)
    changes.begin()
    assert not changes.is_usual("groups"), "the first change"
    assert changes.done("groups") == 0
    for _ in range(20):
        changes.note("groups", 1.0)
        changes.note("groups", 2.0)
        changes.begin()
        seconds = changes.done("groups")
    assert seconds == 3, "changes are part of what a batch costs"
    changes.note("groups", 1.0)
    changes.begin()
    changes.note("groups", 1.0)
    changes.begin()
    assert not changes.is_usual("groups"), "the changes of two batches wait"
    changes.done("groups")
    for _ in range(20):
        changes.begin()
    changes.note("groups", 1.0)
    changes.begin()
    assert not changes.is_usual("groups"), "it has been quiet"


@pytest.mark.parametrize("looking_ms", [0.01, 5.0])
def test_the_cheaper_way_is_found_while_queries_come_and_go(looking_ms: float) -> None:
    """No batch was quiet, so nothing was measured and no contest could be held."""
    took = {"groups": 10.0, "select_first": 5.0}
    world = Churned(took, (100.0, 80.0), looking_ms=looking_ms, build_us=1.0)
    world.run(150)
    assert world.went[100:] == ["select_first"] * 50
    assert world.routing.contests.n_held >= 1


def test_what_changes_cost_belongs_to_a_way() -> None:
    """Hotspots answer faster here, but every change of them costs more than that saves."""
    took = {"groups": 10.0, "hotspot": 9.0}
    dear = {"groups": 0.1, "hotspot": 3.0}
    world = Churned(took, (100.0, 90.0), change_ms=dear, build_us=1.0)
    world.run(300)
    assert world.went[150:].count("groups") > 0.9 * 150


def test_what_putting_in_order_costs_belongs_to_a_way() -> None:
    took = {"groups": 10.0, "select_first": 9.0}
    order = {"groups": 0.1, "select_first": 6.0}
    world = Churned(took, (100.0, 90.0), order_ms=order, build_us=1.0)
    world.run(300)
    assert world.went[150:].count("groups") > 0.9 * 150


def test_the_way_in_use_is_not_dropped_for_its_rent() -> None:
    """It was, between two looks, because what it saved was booked at the next one."""
    took = {"groups": 10.0, "select_first": 5.0}
    dear = {"groups": 0.1, "select_first": 1.0}
    world = Churned(took, (100.0, 50.0), change_ms=dear, build_us=100.0)
    world.run(400)
    assert set(world.went[100:]) == {"select_first"}
    assert world.routing.n_built == 1
    assert list(world.routing.built) == ["select_first"], "groups do not pay"


def test_a_way_that_is_dropped_again_and_again_is_built_ever_less_often() -> None:
    """An estimate that flatters a way built it fifty times in as many batches."""
    took = {"groups": 10.0, "hotspot": 30.0}
    world = Churned(took, (100.0, 90.0), build_us=20.0)
    world.run(1000)
    assert world.went.count("groups") > 950
    assert world.routing.n_built <= 8
    assert world.routing.ledger.patience.max() <= router.MOST_PATIENCE


def test_the_rent_of_the_only_way_is_not_held_against_it_later() -> None:
    world = Churned({"groups": 10.0, "select_first": 9.9}, (100.0, 200.0), build_us=10.0)
    world.run(100)
    assert world.routing.ledger.rent.tolist() == [0, 0]
