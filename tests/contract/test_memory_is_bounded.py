"""Law: what is held follows what lives, however much has come and gone.

Queries come and go in rounds until many times more have lived than live; rows of a table are
replaced and deleted in rounds. Memory stays within a constant factor of the living (and of the few
dead that are tolerated before a renumbering), and does not rise from one stretch of rounds to the
next.
"""

from __future__ import annotations

from random import Random

import pytest
from tests.contract.laws import SMALL, every_case
from tests.contract.numbers import Kind, draw_bounds
from tests.contract.worlds import BAND_SHAPES, CASES, FILTER_SHAPES, Case, Shape, World

from standfast import Engine, Group
from standfast.engine import registry

FEW = 100 if SMALL else 1_000  # dead queries that are tolerated here
LIVING = 20 if SMALL else 100
PER_ROUND = 20 if SMALL else 200
ROUNDS = 3 * (FEW // PER_ROUND + 2)
BYTES_PER_QUERY = 150
BYTES_PER_ROW = 400
SLACK = 5_000


def world_of(case: Case, kind: Kind, source: str) -> World:
    shape = (FILTER_SHAPES if case.question == "filter" else BAND_SHAPES)[0]
    names = ("a",) if case.question == "filter" else ("a", "b")
    return World(case.question, kind, dict.fromkeys(names, source), shape)


def batch_of(rng: Random, keys: list[int]) -> dict[str, list[object]]:
    rows = [rng.randint(0, 100) for _ in keys]
    return {"k": keys, "x": rows, "y": rows, "s": [None] * len(keys)}


@every_case
def test_queries_that_come_and_go_do_not_grow_the_group(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "FEW", FEW)
    rng, world = Random(11), world_of(case, "float64", "stream")
    engine = world.engine()
    group = world.register(engine, case.way)
    held, hit = [], 0
    living: list[int] = []
    for _ in range(ROUNDS):
        bounds = {h: draw_bounds(rng, "float64", PER_ROUND, is_band="b" in world.inputs)
                  for h in world.shape.holes}  # fmt: skip
        living += group.add(bounds).to_pylist()
        hit += _push(engine, rng)
        rng.shuffle(living)
        group.remove(living[LIVING:])
        living = living[:LIVING]
        _push(engine, rng)
        held.append(group.memory_bytes())
    assert len(group) == LIVING
    assert hit > 0
    _check_bounded(held, BYTES_PER_QUERY * (LIVING + FEW + 2 * PER_ROUND))
    engine.check()


def _push(engine: Engine, rng: Random) -> int:
    """One row on each side; how many queries it hit."""
    hits = 0
    for name in engine.inputs:
        (answer,) = engine.push(name, batch_of(rng, [rng.randrange(100)])).values()
        hits += answer.pairs().num_rows
    return hits


def _check_bounded(held: list[int], limit: int) -> None:
    """Never above the limit, and the last third not above the second."""
    assert max(held) < limit + SLACK, f"{max(held):,} bytes are held, more than {limit:,}"
    third = len(held) // 3
    assert max(held[-third:]) <= 1.1 * max(held[third : 2 * third]) + SLACK, "memory grows"


@every_case
def test_rows_that_come_and_go_do_not_grow_the_store(case: Case) -> None:
    rng, world = Random(12), world_of(case, "int64", "table")
    engine = world.engine()
    group = world.register(engine, case.way)
    group.add({hole: [0] for hole in world.shape.holes})
    n_keys, held, changes = (20 if SMALL else 60), [], 0
    for _ in range(30):
        for name in world.inputs:
            keys = rng.sample(range(n_keys), n_keys // 2)
            engine.push(name, batch_of(rng, keys))
            gone = rng.sample(range(n_keys), n_keys // 3)
            changes += engine.delete(name, {"k": gone})[case.way].n_rows
            engine.dead_letters(take=True)
        held.append(sum(store.memory_bytes() for store in engine._stores.values()))
    engine.check()
    assert changes > 0
    _check_bounded(held, BYTES_PER_ROW * n_keys * len(world.inputs))
    for name in world.inputs:
        engine.delete(name, {"k": range(n_keys)})
    assert sum(store.memory_bytes() for store in engine._stores.values()) < SLACK


FILTERS = [case for case in CASES if case.question == "filter"]


@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_a_stream_that_only_filters_read_is_not_kept(case: Case) -> None:
    rng, world = Random(13), world_of(case, "int64", "stream")
    engine = world.engine()
    group = world.register(engine, case.way)
    group.add({hole: [50] for hole in world.shape.holes})
    pairs = 0
    for _ in range(20):
        pairs += engine.push("a", batch_of(rng, list(range(50))))[case.way].pairs().num_rows
    assert pairs > 0
    assert len(engine._stores["a"]) == 0
    assert engine._stores["a"].memory_bytes() == 0


@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_words_of_queries_that_went_are_forgotten(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "FEW", 50)
    world = World("filter", "int64", {"a": "stream"}, Shape("s = :word", "s = word"))
    engine = world.engine()
    group: Group = world.register(engine, case.way)
    kept = group.add({"word": ["stays"]})
    for number in range(20):
        ids = group.add({"word": [f"{number}-{i}" for i in range(20)]})
        group.remove(ids)
    answer = engine.push("a", {"k": [1, 2], "x": [1, 1], "y": [1, 1], "s": ["stays", "19-3"]})
    assert answer[case.way].pairs().to_pylist() == [{"row": 0, "query": kept[0].as_py()}]
    assert len(group.strings.codes["s"]) < 100, "words of the past are kept"
