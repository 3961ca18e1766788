"""Law: a group may change its strategy between any two actions, and nobody can tell.

One group stays with its way, the other switches at random moments to any way of the catalogue.
"""

from __future__ import annotations

from random import Random

from tests.contract.histories import Draft
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.playing import Player, seen
from tests.contract.worlds import Case, draw_world


def switching_is_invisible(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case)
    steady, restless = Player(world, [case.way]), Player(world, [case.way])
    group = restless.groups[case.way]
    for action in Draft(world, rng, tally=tally).actions(rng.randint(3, 9)):
        if rng.random() < 0.5:
            way = rng.choice([*world.ways(), "auto"])
            group.switch(way)
            group.check()
            assert way in ("auto", group.way)
            tally["switched"] += 1
        answers, others = steady.play(action), restless.play(action)
        for way, answer in answers.items():
            one = seen(answer)
            assert one == seen(others[way]), f"after switching to {group.way}: {action}"
            tally["pairs"] += len(one.pairs)
    group.switch(case.way)
    restless.engine.check()


@every_case
def test_switching_strategy_is_invisible(case: Case) -> None:
    assert hold_for_all(switching_is_invisible, case, "pairs", "switched")
