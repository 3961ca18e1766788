"""Law: an answer says the same whenever it is read.

Two engines see one history. The answers of the first are read at once and once more at the end;
those of the second are read for the first time at the end, when queries were added and removed,
rows replaced and deleted, and the strategy was switched and switched back.
"""

from __future__ import annotations

from random import Random

from tests.contract.histories import Draft, Remove
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.playing import Player, Seen, seen
from tests.contract.worlds import Case, draw_world

from standfast import Answer


def published_answers_do_not_change(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case)
    prompt, late = Player(world, [case.way]), Player(world, [case.way])
    kept: list[tuple[Answer, Seen, Answer]] = []
    draft = Draft(world, rng, tally=tally)
    for action in draft.actions(rng.randint(4, 10)):
        answers, others = prompt.play(action), late.play(action)
        kept += [(answer, seen(answer), others[way]) for way, answer in answers.items()]
    for player in (prompt, late):
        group = player.groups[case.way]
        group.switch("naive")
        group.switch(case.way)
        player.play(Remove(tuple(draft.living)))
    for answer, at_once, unread in kept:
        assert seen(answer) == at_once, "an answer that was read has changed"
        assert seen(unread) == at_once, "an answer that was not read has changed"
        tally["pairs"] += len(at_once.pairs)
        tally["answers"] += 1


@every_case
def test_published_answers_do_not_change(case: Case) -> None:
    assert hold_for_all(published_answers_do_not_change, case, "pairs", "answers")
