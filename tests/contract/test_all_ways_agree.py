"""Law: whichever way answers, and whoever chooses it, the answer is the same.

Every way of a question that takes the template stands in one engine, and beside them a group that
leaves the choice to the engine, which may choose another way for each event. All answers are equal
in all their forms after every action.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.contract.histories import Draft
from tests.contract.laws import Tally, hold_for_all
from tests.contract.playing import Player, seen
from tests.contract.worlds import CHOICES, Case, draw_world


def all_ways_agree(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case, timed=0.3)
    player = Player(world, [case.way, *world.ways()])
    for action in Draft(world, rng, tally=tally, largest=12).actions(rng.randint(4, 12)):
        answers = {way: seen(answer) for way, answer in player.play(action).items()}
        for way, answer in answers.items():
            assert answer == answers[case.way], f"{way} differs from {case.way}: {action}"
            tally["compared"] += way != case.way
            tally["pairs"] += len(answer.pairs)
    player.engine.check()


@pytest.mark.parametrize("case", CHOICES, ids=str)
def test_all_ways_agree(case: Case) -> None:
    assert hold_for_all(all_ways_agree, case, "compared", "pairs", seeds=8)
