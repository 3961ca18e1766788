"""The laws of the contract for window aggregates: every aggregate, every way that answers it."""

from __future__ import annotations

from random import Random

import numba
import pytest
from tests.contract.window_worlds import (
    FUNCTIONS,
    Add,
    Advance,
    Draft,
    Model,
    Player,
    Push,
    Remove,
    World,
    draw_world,
)

from standfast import Engine

SEEDS = 3 if numba.config.DISABLE_JIT else 12

every_function = pytest.mark.parametrize("function", FUNCTIONS)


def play(world: World, rng: Random, n: int, *, follows: bool = False) -> tuple[Player, Model]:
    """A history played by every way and by the model, compared after every action."""
    player, model = Player(world, [*world.ways, "auto"], follows=follows), Model(world)
    for action in Draft(world, rng).actions(n):
        player.play(action)
        is_reported = model.play(action)
        expected = model.answers()
        for way in player.ways:
            assert player.found(way) == expected, (way, action)
            if is_reported:
                assert player.sums[way] == expected, (way, action)
        player.engine.check()
    return player, model


@every_function
def test_every_way_answers_what_brute_force_answers(function):
    for seed in range(SEEDS):
        rng = Random(f"{function} {seed}")
        world = draw_world(rng, function)
        play(world, rng, 14)
