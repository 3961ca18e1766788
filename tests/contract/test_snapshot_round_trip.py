"""Law: an engine restored from its snapshot goes on as if nothing had happened.

At random moments of a history the engine is written to a file or to bytes, thrown away and
restored. All answers, ids and counters are those of an engine that was left alone. Some of the
streams know their rows by id, and some of the engines follow a time that they are told.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from tests.contract.histories import Draft
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.numbers import FEW_TIMES
from tests.contract.playing import Player, seen
from tests.contract.worlds import Case, World, clock, draw_world

from standfast import Engine


def player_of(world: World, way: str, follows: bool, identity: str | None) -> Player:
    """A player whose engine may follow, and whose streams may have ids."""
    player = Player(world, [])
    player.engine = Engine(clock=clock, follows=follows)
    for name, source in player.world.engine().inputs.items():
        if source.kind == "table":
            player.engine.table(name, source.columns, key=source.key)
        else:
            player.engine.stream(
                name, source.columns, time=source.time, lateness_us=source.lateness_us, id=identity
            )
    world.register(player.engine, way)
    player.ways = [way]
    return player


def moved(engine: Engine, rng: Random, folder: Path) -> Engine:
    """The engine after a way through a file or through bytes."""
    if rng.random() < 0.5:
        return Engine.from_bytes(engine.to_bytes(), clock=clock)
    engine.snapshot(folder / "snapshot")
    return Engine.restore(folder / "snapshot", clock=clock)


def snapshot_round_trip(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case, timed=0.6)
    follows, identity = rng.random() < 0.3, rng.choice([None, None, "k"])
    alone, restored = (player_of(world, case.way, follows, identity) for _ in range(2))
    draft = Draft(world, rng, tally=tally)
    with tempfile.TemporaryDirectory() as folder:
        for action in draft.actions(rng.randint(2, 8)):
            if rng.random() < 0.5:
                restored.engine = moved(restored.engine, rng, Path(folder))
                restored.engine.check()
                tally["restored"] += 1
            for name, source in alone.engine.inputs.items():
                if source.time and rng.random() < 0.3:
                    time_us = rng.choice([FEW_TIMES, draft.now]) + rng.randint(-2, 4)
                    alone.engine.advance(name, time_us)
                    restored.engine.advance(name, time_us)
            answers, others = alone.play(action), restored.play(action)
            assert answers.keys() == others.keys()
            for way, answer in answers.items():
                one = seen(answer)
                assert one == seen(others[way]), f"restored {case} differs: {action}"
                tally["pairs"] += bool(one.pairs) and tally["restored"]
            assert alone.ids == restored.ids, "ids are assigned differently"
    for name in alone.engine.inputs:
        assert alone.engine.counters(name) == restored.engine.counters(name)
    assert alone.counters() == restored.counters()
    assert alone.engine.dead_letters() == restored.engine.dead_letters()
    assert repr(alone.groups[case.way]) == repr(restored.groups[case.way])


@every_case
def test_snapshot_round_trip(case: Case) -> None:
    assert hold_for_all(snapshot_round_trip, case, "pairs", "restored", seeds=5, examples=2)
