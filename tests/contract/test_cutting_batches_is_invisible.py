"""Law: how rows, queries and removals are cut into batches never changes the accumulated result.

Two engines see one history, the second in other pieces: batches of rows, of new queries, of
removals and of deletions are cut at random places. What all answers add up to is the same after
every action of the first, and so is what became of the rows.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.contract.histories import Action, Draft, cut
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.oracle import Result
from tests.contract.playing import Player, nonzero, seen
from tests.contract.worlds import Case, draw_world


def cutting_is_invisible(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case, timed=0.2)
    whole, pieces = Player(world, [case.way]), Player(world, [case.way])
    total: Result = Counter()
    other: Result = Counter()
    for action in Draft(world, rng, tally=tally).actions(rng.randint(2, 8)):
        parts = cut(rng, [action])
        total = add_up(total, whole, [action], case.way)
        other = add_up(other, pieces, parts, case.way)
        assert total == other, f"cut into {parts}"
        tally["changes"] += len(total)
        tally["cuts"] += len(parts) - 1
    for name, counters in whole.counters().items():
        cut_counters = pieces.counters()[name]
        assert counters | {"batches": 0} == cut_counters | {"batches": 0}


def add_up(total: Result, player: Player, actions: list[Action], way: str) -> Result:
    """The total after these actions, by handle."""
    total = total.copy()
    for action in actions:
        for answer in player.play(action).values():
            for row, n in player.handles(seen(answer).change).items():
                total[row] += n
    return nonzero(total)


@every_case
def test_cutting_batches_is_invisible(case: Case) -> None:
    assert hold_for_all(cutting_is_invisible, case, "changes", "cuts")
