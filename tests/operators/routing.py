"""A router over ways that only hold slots, with costs and a clock that the test gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from standfast.arrays import Hits, Int64s, Matches
from standfast.operators.base import Strategy
from standfast.operators.costs import Model
from standfast.operators.router import Routing


def matches(*slots: list[int]) -> Matches:
    offsets = np.cumsum([0] + [len(s) for s in slots])
    return Matches(offsets, np.array([s for part in slots for s in part], np.int32))


class Fake(Strategy):
    """Holds slots; every event hits all of them."""

    def __init__(self) -> None:
        self.slots: set[int] = set()

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        assert lows.shape == highs.shape == (1, slots.size)
        assert (lows[0] == slots).all(), "a range of another slot"
        self.slots |= set(slots.tolist())

    def remove(self, slots: Int64s) -> None:
        self.slots -= set(slots.tolist())

    def process(self, n_events: int) -> Hits:
        return matches(*[sorted(self.slots)] * n_events)

    def check(self) -> None:
        pass

    def memory_bytes(self) -> int:
        return 8


class Clock:
    """A clock that stands still unless somebody turns it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def model_of(*names: str, build: float = 10.0) -> Model:
    """A model whose traits are a call, which costs 1 us, and what each way costs."""
    model = Model.__new__(Model)
    model.ways, model.source = names, "a test"
    model.traits, model.stats = ("call", *names), ["one"]
    model._us = np.concatenate([np.ones((len(names), 1)), np.eye(len(names))], axis=1)[:, None]
    model.builds = np.full(len(names), build)
    model.spans = np.zeros(len(names))
    return model


def routing_of(*names: str, build: float = 10.0) -> tuple[Routing[Fake], Clock]:
    clock = Clock()
    made = Routing(model_of(*names, build=build), dict.fromkeys(names, Fake), 1, names[0], clock)
    return made, clock


def fill(routing: Routing[Fake], n: int, first: int = 0) -> None:
    slots = np.arange(first, first + n)
    routing.add(slots, slots[None], slots[None])


def run(
    routing: Routing[Fake],
    costs: list[list[float]],
    took: Callable[[Fake], None] = lambda way: None,
) -> Hits:
    def process(way: Fake, places: Int64s) -> Hits:
        took(way)
        return way.process(places.size)

    traits = np.concatenate([np.zeros((1, len(costs[0]))), costs])
    return routing.answer(len(costs[0]), lambda: ({"one": 1.0}, traits), process)
