"""Law: rows of one time may come in any order among themselves.

Streams have an event time, and some a lateness. A second engine gets the same history, but rows
that stand beside each other with equal times have changed places, also across batches. What the
answers add up to is the same, and no row is late in one order and in time in the other.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from random import Random

from tests.contract.histories import Action, Draft, Push
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.oracle import Result, Row
from tests.contract.playing import Player, seen
from tests.contract.sights import WANTED
from tests.contract.worlds import Case, World, draw_world


def order_of_equal_times_is_invisible(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case, timed=1.0)
    one, other = Player(world, [case.way]), Player(world, [case.way])
    for stretch in _stretches(world, Draft(world, rng, tally=tally).actions(rng.randint(2, 8))):
        shuffled = _shuffled(rng, world, stretch)
        totals: list[Result] = []
        for player, actions in ((one, stretch), (other, shuffled)):
            total: Result = Counter()
            for action in actions:
                for answer in player.play(action).values():
                    total.update(player.handles(seen(answer).change))
            totals.append(total)
        assert totals[0] == totals[1], f"{stretch} became {shuffled}"
        tally["changes"] += len(totals[0])
        tally["moved"] += stretch != shuffled
    assert one.counters() == other.counters()


def _stretches(world: World, actions: list[Action]) -> list[list[Action]]:
    """The history in pieces: pushes into one stream that follow each other stay together."""

    def place(numbered: tuple[int, Action]) -> object:
        number, action = numbered
        is_stream = isinstance(action, Push) and world.inputs[action.name] == "stream"
        return action[0] if is_stream else number

    return [[a for _, a in group] for _, group in groupby(enumerate(actions), place)]


def _shuffled(rng: Random, world: World, stretch: list[Action]) -> list[Action]:
    """The same pushes with neighbours of equal time in another order."""
    pushes = [a for a in stretch if isinstance(a, Push)]
    if not pushes or world.inputs[pushes[0].name] == "table":
        return stretch
    rows: list[Row] = []
    for _, ties in groupby((r for p in pushes for r in p.rows), lambda row: row[-1]):
        tied = list(ties)
        rows += rng.sample(tied, len(tied))
    sizes = [len(push.rows) for push in pushes]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [
        Push(push.name, tuple(rows[start : start + size]))
        for push, start, size in zip(pushes, starts, sizes, strict=True)
    ]


@every_case
def test_order_of_equal_times_is_invisible(case: Case) -> None:
    # Filters are about one input, which is a stream here: its rows stay.
    is_filter = case.question == "filter"
    shown = tuple(what for what in WANTED[case.question] if not (is_filter and what == "went"))
    assert hold_for_all(order_of_equal_times_is_invisible, case, "changes", "moved", shown=shown)
