"""Law: rows that can matter no more are forgotten, and nobody can tell from the answers.

The oracle keeps every row for ever. The engine keeps a row of a window join only while a row that
is near enough in time can still come: not further behind the other stream than its lateness and
the widest window. Answers are the same after every action, and the engine holds fewer rows.
"""

from __future__ import annotations

from random import Random

from tests.contract.histories import Draft
from tests.contract.laws import SMALL, Tally, every_case_of, hold_for_all
from tests.contract.oracle import Model
from tests.contract.playing import Player, expect, seen
from tests.contract.worlds import Case, draw_expiring_world

N_ACTIONS = 12 if SMALL else 25


def expiry_is_invisible(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_expiring_world(rng, case)
    player, model = Player(world, [case.way]), Model(world)
    for action in Draft(world, rng, tally=tally).actions(N_ACTIONS):
        answers = player.play(action)
        expected = expect(model, player, action)
        player.engine.check()
        if expected is not None:
            answer = seen(answers[case.way])
            assert answer.pairs == expected.pairs, f"{case} forgot too much: {action}"
            assert answer.change == expected.change, f"{case} has other results: {action}"
            tally["pairs"] += len(expected.pairs)
    for name, stored in player.stored().items():
        tally["dropped"] += len(model.rows[name]) - stored


@every_case_of("window_join")
def test_expiry_is_invisible(case: Case) -> None:
    shown = ("special numbers", "ties", "several rows of a key", "late rows", "expired rows")
    assert hold_for_all(expiry_is_invisible, case, "pairs", "dropped", shown=shown, seeds=8)
