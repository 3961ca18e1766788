"""Law: queries that came and went leave nothing behind.

A second engine gets the same history, and between its actions a crowd of other queries comes and
goes. The queries of the history never notice. When everything is removed, nothing is answered,
nothing is held, and every id is free again.
"""

from __future__ import annotations

from random import Random

from tests.contract.histories import Add, Draft, Remove
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.playing import Player, Seen, seen
from tests.contract.worlds import Case, draw_world

CROWD = 10_000  # handles from here on are the others
NEARLY_NOTHING = 2_000  # bytes that an empty group may hold, and per query of the past
PER_ROUTER = 5_000  # its histograms are of a fixed size
PER_PAST_QUERY = 100  # until they are so many that the living are renumbered


def add_then_remove_leaves_no_trace(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case)
    plain, crowded = Player(world, [case.way]), Player(world, [case.way])
    crowd = Draft(world, rng, largest=9, first_handle=CROWD, first_id=-1000)
    draft = Draft(world, rng, tally=tally)
    for action in draft.actions(rng.randint(2, 8)):
        for _ in range(rng.randint(0, 3)):
            crowded.play(crowd.add() if rng.random() < 0.6 else crowd.remove())
        answers = plain.play(action)
        others = crowded.play(action)
        for way, answer in answers.items():
            one, other = by_handle(plain, seen(answer)), by_handle(crowded, seen(others[way]))
            kept = [[r for r in form if r[1] < CROWD] for form in other]
            assert one == kept, f"{case} noticed a crowd: {action}"
            tally["pairs"] += len(one[0])
            tally["crowd pairs"] += len(other[0]) - len(kept[0])
    group = crowded.groups[case.way]
    crowded.play(Remove(tuple(crowd.living)))
    assert len(group) == len(plain.groups[case.way]) == len(draft.living)
    crowded.play(Remove(tuple(draft.living)))
    _check_empty(crowded, draft, tally)


def by_handle(player: Player, answer: Seen) -> list[list[tuple[object, ...]]]:
    """Pairs and rows with the handle of the query in second place."""
    names = {i: handle for handle, i in player.ids.items()}
    pairs = sorted((row, names[query], change) for row, query, change in answer.pairs)
    rows = sorted([("", names[query], *rest) for query, *rest in answer.rows], key=repr)
    return [pairs, rows]


def _check_empty(player: Player, draft: Draft, tally: Tally) -> None:
    """Nothing is answered or held, and the ids of the past can be used again."""
    (group,) = player.groups.values()
    assert len(group) == 0
    for name in player.world.inputs:
        (answer,) = player.play(draft.push(name)).values()
        assert not seen(answer).pairs, "an empty group answered"
    past = sorted(set(player.ids.values()))
    limit = NEARLY_NOTHING + PER_PAST_QUERY * len(player.ids)
    limit += PER_ROUTER if group.way == "routed" else 0
    assert group.memory_bytes() < limit, "an empty group holds memory"
    player.engine.check()
    player.play(Add(tuple(range(-len(past), 0)), draft.bounds(len(past)), tuple(past)))
    assert len(group) == len(past)
    tally["used again"] += len(past)


@every_case
def test_add_then_remove_leaves_no_trace(case: Case) -> None:
    assert hold_for_all(add_then_remove_leaves_no_trace, case, "pairs", "crowd pairs", "used again")
