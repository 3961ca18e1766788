"""Ids of rows: none is used twice, however rows are cut into batches, and memory follows time."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import standfast as sf
from engine.reading import pairs_of
from standfast.engine import identities
from standfast.engine.identities import EVER, Identities

NOW_US = 1_700_000_000_000_000
KINDS = ["int64", "string"]


def engine_of(kind: str, *, lateness_us: int | None = None, timed: bool = True) -> sf.Engine:
    """A stream of rows with ids and one filter that every used row meets."""
    engine = sf.Engine(clock=lambda: NOW_US)
    time = {"time": "ts", "lateness_us": lateness_us} if timed else {}
    engine.stream("s", {"ts": "timestamp", "i": kind}, id="i", **time)
    engine.register("SELECT * FROM s WHERE ts >= :lo", name="all").add({"lo": [0]})
    return engine


def named(kind: str, i: int | None) -> int | str | None:
    return i if kind == "int64" or i is None else f"é{i}"


def pushed(engine: sf.Engine, kind: str, rows: list[tuple[int, int | None]]) -> list[int]:
    """Push (time, id) and tell which rows were used."""
    batch = {"ts": [ts for ts, _ in rows], "i": [named(kind, i) for _, i in rows]}
    return [row for row, _ in pairs_of(engine.push("s", batch)["all"])]


def account(engine: sf.Engine) -> tuple[int, ...]:
    """Used, late, duplicate, rejected: what was received is their sum."""
    received, *counted = engine.counters("s").values()
    assert received == sum(counted)
    assert engine.dead_letters().num_rows == received - counted[0]
    engine.check()
    return tuple(counted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("timed", [False, True])
def test_of_rows_with_the_same_id_only_the_first_is_used(kind, timed):
    engine = engine_of(kind, timed=timed)
    assert pushed(engine, kind, [(5, 1), (6, 2), (7, 1), (8, 3), (9, 2)]) == [0, 1, 3]
    assert pushed(engine, kind, [(1, 3), (2, 4), (10**9, 1), (3, 4)]) == [1]
    assert account(engine) == (4, 0, 5, 0)
    letters = engine.dead_letters().to_pylist()
    assert {letter["reason"] for letter in letters} == {"duplicate"}
    assert {letter["column"] for letter in letters} == {"i"}
    assert letters[-1]["value"] == str(named(kind, 4))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_an_id_is_rejected_and_moves_no_time(kind):
    engine = engine_of(kind, lateness_us=0)
    assert pushed(engine, kind, [(900, None), (5, 1), (6, None), (7, 2)]) == [1, 3]
    assert account(engine) == (2, 0, 0, 2)
    assert engine.metrics()["inputs"]["s"]["reasons"] == {"null id": 2}
    assert pushed(engine, kind, [(8, None)]) == pushed(engine, kind, []) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_late_row_is_late_whether_its_id_is_known_or_not(kind):
    engine = engine_of(kind, lateness_us=10)
    assert pushed(engine, kind, [(100, 1), (120, 2)]) == [0, 1]
    assert pushed(engine, kind, [(100, 1), (101, 9), (110, 2)]) == []
    assert account(engine) == (2, 2, 1, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [False, True])
def test_an_id_is_known_as_long_as_its_row_would_not_be_late(kind, cut):
    rows = [(100, 1), (110, 2), (110, 1), (111, 3), (111, 1), (105, 1), (130, 2), (130, 1)]
    engine = engine_of(kind, lateness_us=10)
    if cut:
        used = [i for i, row in enumerate(rows) if pushed(engine, kind, [row])]
    else:
        used = pushed(engine, kind, rows)
    # After 111 the row at 100 would be late, so its id is free, and taken again at 111.
    # At the first 130 id 2 is still known; but that time counts, and frees id 1 once more.
    assert used == [0, 1, 3, 4, 7]
    assert account(engine) == (5, 0, 3, 0)


def expected_uses(rows: list[tuple[int, int | None]], lateness_us: int | None) -> list[int]:
    """The rule, row by row."""
    used: list[int] = []
    latest = 0
    for place, (ts, i) in enumerate(rows):
        if i is None:
            continue
        oldest = -(2**62) if lateness_us is None else latest - lateness_us
        latest = max(latest, ts)
        known = any(rows[u][1] == i and rows[u][0] >= oldest for u in used)
        if ts >= oldest and not known:
            used.append(place)
    return used


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lateness_us", [None, 0, 5, 40])
def test_any_cut_into_batches_and_any_restore_use_the_same_rows(kind, lateness_us, monkeypatch):
    monkeypatch.setattr(identities, "FEW", 4)
    n_duplicates = 0
    for seed in range(12):
        rng = Random(seed)
        rows = [(2 * i + rng.randint(0, 12), rng.choice([None, *range(40)])) for i in range(120)]
        edges = sorted(
            {0, len(rows), *(rng.randrange(len(rows)) for _ in range(rng.choice([0, 30])))}
        )
        engine, used = engine_of(kind, lateness_us=lateness_us), []
        for first, last in pairwise(edges):
            used += [first + row for row in pushed(engine, kind, rows[first:last])]
            if rng.random() < 0.3:
                engine = sf.Engine.from_bytes(engine.to_bytes(), clock=lambda: NOW_US)
        assert used == expected_uses(rows, lateness_us), seed
        n_duplicates += account(engine)[2]
    assert n_duplicates > 10


@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_that_follows_forgets_ids_by_the_time_it_is_told(kind):
    engine = sf.Engine(clock=lambda: NOW_US, follows=True)
    engine.stream("s", {"ts": "timestamp", "i": kind}, id="i", time="ts", lateness_us=10)
    engine.register("SELECT * FROM s WHERE ts >= :lo", name="all").add({"lo": [0]})
    assert pushed(engine, kind, [(100, 1), (900, 2), (100, 1)]) == [0, 1]
    engine.advance("s", 110)
    engine = sf.Engine.from_bytes(engine.to_bytes(), clock=lambda: NOW_US)
    assert pushed(engine, kind, [(910, 1)]) == []
    engine.advance("s", 111)
    engine = sf.Engine.from_bytes(engine.to_bytes(), clock=lambda: NOW_US)
    assert pushed(engine, kind, [(99, 2), (910, 1), (910, 2), (910, 1)]) == [1]
    assert account(engine) == (3, 1, 4, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_stored_rows_are_known_by_their_ids_too(kind):
    engine = engine_of(kind)
    engine.store("s", {"ts": [1, 2, 3], "i": [named(kind, i) for i in (1, 1, 2)]})
    assert pushed(engine, kind, [(4, 1), (5, 2), (6, 3)]) == [2]
    assert account(engine) == (3, 0, 3, 0)


def test_numbers_at_both_ends_of_the_line_and_alike_as_floats_are_different_ids():
    ids = [-(2**63), 2**63 - 1, 2**53, 2**53 + 1, 0, -1]
    engine = engine_of("int64")
    assert pushed(engine, "int64", [(1, i) for i in ids]) == list(range(6))
    assert pushed(engine, "int64", [(1, i) for i in ids]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_memory_holds_the_ids_of_the_time_that_can_still_come(kind):
    engine = engine_of(kind, lateness_us=1_000)
    held = []
    for first in range(0, 60_000, 500):
        rows = {
            "ts": range(first, first + 500),
            "i": [named(kind, i) for i in range(first, first + 500)],
        }
        engine.store("s", rows)
        held.append(len(engine._doors["s"].identities))
    assert max(held) <= 4_000
    assert engine.counters("s")["used"] == 60_000
    assert engine.memory_bytes() == engine.metrics()["inputs"]["s"]["memory_bytes"] + (
        engine.groups["all"].memory_bytes()
    )
    engine.check()
    engine.advance("s", 10**9)
    restored = sf.Engine.from_bytes(engine.to_bytes(), clock=lambda: NOW_US)
    assert len(restored._doors["s"].identities) == 0


def test_ids_that_are_never_too_old_stay_in_few_runs():
    rng, known = np.random.default_rng(5), Identities("int64")
    ids = rng.permutation(20_000) - 10_000
    for first in range(0, 20_000, 100):
        some = pa.chunked_array([ids[first : first + 100]])
        times, oldest = np.zeros(100, np.int64), np.full(100, EVER)
        assert known.first_uses(some, times, oldest).all()
        assert not known.first_uses(some, times, oldest).any()
    known.check()
    assert len(known) == 20_000
    assert len(known._known._runs) <= 5
    assert known.memory_bytes() == 320_000
