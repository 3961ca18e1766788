"""Law: what is held follows what lives, however much has come and gone.

Queries come and go in rounds until many times more have lived than live; rows of a table are
replaced and deleted in rounds. Memory stays within a constant factor of the living (and of the few
dead that are tolerated before a renumbering), and does not rise from one stretch of rounds to the
next.
"""

from __future__ import annotations

from itertools import count
from random import Random

import pytest
from tests.contract.histories import bounds_of
from tests.contract.laws import SMALL, every_case, every_case_of
from tests.contract.numbers import FEW_TIMES, Kind
from tests.contract.shapes import SHAPES, Shape
from tests.contract.worlds import Case, Inputs, KeyKind, World

from standfast import Engine, Group
from standfast.engine import registry, strings
from standfast.indexes import skylines
from standfast.indexes.changed_codes import ChangedCodes
from standfast.operators.router import Routing

FEW = 100 if SMALL else 1_000  # dead queries that are tolerated here
LIVING = 20 if SMALL else 100
PER_ROUND = 20 if SMALL else 200
ROUNDS = 3 * (FEW // PER_ROUND + 2)
BYTES_PER_QUERY = {"filter": 150, "band_join": 150, "select_join": 200, "window_join": 250}
BYTES_PER_ROW = 400
SLACK = 5_000


@pytest.fixture(autouse=True)
def _tolerate_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held beyond the living is limited by constants: small ones show it in short runs."""
    monkeypatch.setattr(registry, "FEW", FEW)
    monkeypatch.setattr(strings, "FEW", 50)
    monkeypatch.setattr(skylines, "SLACK", 32)
    monkeypatch.setattr(ChangedCodes.__init__, "__defaults__", (64,))
    # Which ways a router has built follows what they take: here the same on every machine.
    ticks = count()
    monkeypatch.setattr(Routing.__init__, "__defaults__", (lambda: 1e-4 * next(ticks),))


def world_of(case: Case, kind: Kind, source: str) -> World:
    names = ("a",) if case.question == "filter" else ("a", "b")
    return World(case.question, kind, dict.fromkeys(names, source), SHAPES[case.question][0])


def batch_of(rng: Random, world: World, keys: list[int]) -> dict[str, list[object]]:
    rows = [rng.randint(0, 100) for _ in keys]
    return world.batch(rows, k=keys, y=rows)


@every_case
def test_queries_that_come_and_go_do_not_grow_the_group(case: Case) -> None:
    rng, world = Random(11), world_of(case, "float64", "stream")
    engine = world.engine()
    group = world.register(engine, case.way)
    held, hit = [], 0
    living: list[int] = []
    for _ in range(ROUNDS):
        bounds = {
            hole: bounds_of(rng, world, subject, PER_ROUND)
            for hole, subject in world.shape.holes.items()
        }
        living += group.add(bounds).to_pylist()
        hit += _push(engine, world, rng)
        rng.shuffle(living)
        group.remove(living[LIVING:])
        living = living[:LIVING]
        _push(engine, world, rng)
        held.append(group.memory_bytes())
    assert len(group) == LIVING
    assert hit > 0
    _check_bounded(held, BYTES_PER_QUERY[case.question] * (LIVING + FEW + 2 * PER_ROUND))
    engine.check()


def _push(engine: Engine, world: World, rng: Random) -> int:
    """One row on each side; how many queries it hit."""
    hits = 0
    for name in engine.inputs:
        (answer,) = engine.push(name, batch_of(rng, world, [rng.randrange(100)])).values()
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
            engine.push(name, batch_of(rng, world, keys))
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


WINDOW_US, LATENESS_US = 1_000, 100
PER_BATCH = 20  # rows of one side
BATCHES_PER_WINDOW = 4 if SMALL else 6


@every_case_of("window_join")
@pytest.mark.parametrize("key", ["int64", "string"])
def test_a_stream_ten_times_longer_than_the_window_is_kept_for_a_window(
    case: Case, key: KeyKind
) -> None:
    """Join keys are new all the time, so that nothing may be kept for each key of the past."""
    shape, rng = SHAPES["window_join"][0], Random(14)
    inputs: Inputs = {"a": "stream", "b": "stream"}
    world = World("window_join", "int64", inputs, shape, (), True, LATENESS_US, key)
    engine = world.engine()
    wide = {"w": [WINDOW_US, 10], "lo": [0, 0], "hi": [100, 9], "low": [0, 50], "high": [100, 99]}
    group = world.register(engine, case.way)
    group.add(wide)
    step = WINDOW_US // BATCHES_PER_WINDOW
    stored, held, pairs = [], [], 0
    for number in range(10 * BATCHES_PER_WINDOW):
        for name in world.inputs:
            times = [FEW_TIMES + number * step + rng.randrange(step) for _ in range(PER_BATCH)]
            keys = [number + rng.randrange(3) for _ in times]
            named = [f"key {k}" for k in keys] if key == "string" else keys
            rows = batch_of(rng, world, keys) | {"j": named, "t": sorted(times)}
            pairs += engine.push(name, rows)[case.way].pairs().num_rows
        stored.append(sum(counters["stored"] for counters in engine.metrics()["inputs"].values()))
        held.append(group.memory_bytes() + sum(s.memory_bytes() for s in engine._stores.values()))
    engine.check()
    assert pairs > 0
    assert engine.metrics()["inputs"]["a"]["late"] == 0
    n_windows = (WINDOW_US + LATENESS_US) / WINDOW_US + 2 / BATCHES_PER_WINDOW
    # Old rows go when an eighth of all is new.
    limit = 2 * PER_BATCH * BATCHES_PER_WINDOW * n_windows * 9 / 8
    assert max(stored) <= limit, f"{max(stored)} rows are kept, more than {limit:.0f}"
    assert min(stored[BATCHES_PER_WINDOW:]) >= 2 * PER_BATCH * (BATCHES_PER_WINDOW - 1)
    third = len(held) // 3
    assert max(held[-third:]) <= 1.1 * max(held[third : 2 * third]) + SLACK, "memory grows"
    assert len(engine._strings.codes) <= 12 * BATCHES_PER_WINDOW + 100, "keys of the past are kept"


@every_case_of("filter")
def test_a_stream_that_only_filters_read_is_not_kept(case: Case) -> None:
    rng, world = Random(13), world_of(case, "int64", "stream")
    engine = world.engine()
    group = world.register(engine, case.way)
    group.add({hole: [50] for hole in world.shape.holes})
    pairs = 0
    for _ in range(20):
        pairs += engine.push("a", batch_of(rng, world, list(range(50))))[case.way].pairs().num_rows
    assert pairs > 0
    assert len(engine._stores["a"]) == 0
    assert engine._stores["a"].memory_bytes() == 0


@every_case_of("filter")
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
    assert len(group.strings.codes) < 100, "words of the past are kept"
