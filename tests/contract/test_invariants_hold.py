"""Law: after every action the engine's own checks pass, and every row is accounted for.

    received = used + late + rejected

Longer histories and larger batches than in the other laws, since nothing has to be enumerated.
"""

from __future__ import annotations

from random import Random

from tests.contract.histories import Delete, Draft, Push
from tests.contract.laws import SMALL, Tally, every_case, hold_for_all
from tests.contract.oracle import Model
from tests.contract.playing import Player, expect
from tests.contract.worlds import Case, draw_world


def invariants_hold(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case, timed=0.3)
    player, model = Player(world, [case.way]), Model(world)
    sums = {name: {"received": 0, "used": 0, "late": 0, "rejected": 0} for name in world.inputs}
    draft = Draft(world, rng, largest=12 if SMALL else 30, tally=tally)
    for action in draft.actions(rng.randint(4, 16)):
        player.play(action)
        player.engine.check()
        tally["checked"] += 1
        model.queries.clear()  # only the counts of rows are wanted
        expected = expect(model, player, action) if isinstance(action, Push | Delete) else None
        if expected is not None:
            entry = sums[action.name]
            entry["received"] += len(action[1])
            entry["used"] += expected.used
            entry["late"] += expected.late
            entry["rejected"] += expected.rejected
            got = player.counters()[action.name]
            assert {what: got[what] for what in entry} == entry, f"{action}"
            assert got["received"] == got["used"] + got["late"] + got["rejected"]
    for way, entry in player.engine.metrics()["groups"].items():
        assert entry["queries"] == len(draft.living), way
        tally["events"] += entry["events"]


@every_case
def test_invariants_hold(case: Case) -> None:
    assert hold_for_all(invariants_hold, case, "checked", "events")
