"""Law: an engine restored from its snapshot goes on as if nothing had happened.

At random moments of a history the engine is written to a file, thrown away and restored. All
answers, ids and counters are those of an engine that was left alone.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from tests.contract.histories import Draft
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.playing import Player, seen
from tests.contract.worlds import Case, clock, draw_world

from standfast import Engine


def snapshot_round_trip(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case, timed=0.6)
    alone, restored = Player(world, [case.way]), Player(world, [case.way])
    with tempfile.TemporaryDirectory() as folder:
        for action in Draft(world, rng, tally=tally).actions(rng.randint(2, 8)):
            if rng.random() < 0.5:
                path = Path(folder) / "snapshot"
                restored.engine.snapshot(path)
                restored.engine = Engine.restore(path, clock=clock)
                restored.engine.check()
                tally["restored"] += 1
            answers, others = alone.play(action), restored.play(action)
            assert answers.keys() == others.keys()
            for way, answer in answers.items():
                one = seen(answer)
                assert one == seen(others[way]), f"restored {case} differs: {action}"
                tally["pairs"] += bool(one.pairs) and tally["restored"]
            assert alone.ids == restored.ids, "ids are assigned differently"
    assert alone.counters() == restored.counters()
    assert alone.engine.dead_letters() == restored.engine.dead_letters()
    assert repr(alone.groups[case.way]) == repr(restored.groups[case.way])


@every_case
def test_snapshot_round_trip(case: Case) -> None:
    assert hold_for_all(snapshot_round_trip, case, "pairs", "restored", seeds=5, examples=2)
