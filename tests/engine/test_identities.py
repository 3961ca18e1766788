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
from standfast.engine.identities import EVER, Identities, Noted
from standfast.errors import BadInput

NOW_US = 1_700_000_000_000_000
KINDS = ["int64", "string"]
TYPES = {"int64": pa.int64(), "string": pa.string()}


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


def noted_of(kind: str, rows: list[tuple[int, int, int]]) -> Noted:
    """Rows of others as (time, id, the own row that it stands before)."""
    ids = pa.array([named(kind, i) for _, i, _ in rows], TYPES[kind])
    times, befores = (np.array([row[c] for row in rows], np.int64) for c in (0, 2))
    return Noted(ids, times, befores)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_others_use_their_ids_from_where_they_stand(kind):
    engine = sf.Engine(clock=lambda: NOW_US, follows=True)
    engine.stream("s", {"ts": "timestamp", "i": kind}, time="ts", lateness_us=10, id="i")
    engine.register("SELECT * FROM s WHERE ts >= :lo", name="all").add({"lo": [0]})
    engine.advance("s", 100)

    def used(rows: list[tuple[int, int | None]], others: list[tuple[int, int, int]]) -> list[int]:
        batch = {"ts": [ts for ts, _ in rows], "i": [named(kind, i) for _, i in rows]}
        answers = engine.push("s", batch, noted=noted_of(kind, others))
        engine.check()
        return [row for row, _ in pairs_of(answers["all"])]

    # 1 stands before its row, 2 behind it, 3 is late and uses nothing, 4 comes at the end.
    others = [(95, 1, 0), (95, 2, 2), (80, 3, 2), (95, 4, 4)]
    assert used([(96, 2), (96, 1), (96, 3), (96, None)], others) == [0, 2]
    assert used([(96, 4), (97, 5)], []) == [1]
    # Between them stand a rejected and a late row, which use nothing either.
    assert used([(10**18, 6), (20, 6), (96, 6)], [(95, 6, 2)]) == []
    engine.store("s", pa.table({"ts": pa.array([], pa.timestamp("us")), "i": []}),
                 noted=noted_of(kind, [(99, 7, 0)]))  # fmt: skip
    assert used([(98, 7)], []) == []
    engine.advance("s", 110)  # the oldest that is in time is 100
    assert used([(105, 7), (106, 1)], [(104, 7, 0)]) == [1]
    again = sf.Engine.from_bytes(engine.to_bytes(), clock=lambda: NOW_US)
    assert engine.counters("s") == again.counters("s")
    assert account(engine) == (4, 1, 5, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_engines_that_take_note_of_each_other_use_the_rows_that_one_engine_uses(kind):
    rng = Random(8)
    for _ in range(30):
        rows = [(rng.randint(0, 40), rng.randint(0, 12)) for _ in range(rng.randint(0, 40))]
        owner = [rng.randint(0, 1) for _ in rows]
        oldest, wanted = rng.randint(0, 30), Identities(kind)
        given = [(t, i, mine) for (t, i), mine in zip(rows, owner, strict=True) if t >= oldest]
        ids = pa.chunked_array([pa.array([named(kind, i) for _, i, _ in given], TYPES[kind])])
        times, whose = (np.array([row[c] for row in given], np.int64) for c in (0, 2))
        new = np.zeros(0, np.bool_)
        if given:
            new = wanted.first_uses(ids, times, np.full(times.size, oldest))
        for me in (0, 1):
            mine, its = np.flatnonzero(whose == me), np.flatnonzero(whose != me)
            own, others = (
                Noted(ids.take(pa.array(at)), times[at], places)
                for at, places in ((mine, np.arange(mine.size)), (its, np.searchsorted(mine, its)))
            )
            others = others._replace(ids=others.ids.combine_chunks())
            found = Identities(kind)
            # In two pieces, which do not show.
            cut = rng.randint(0, mine.size)
            first = Noted(own.ids.slice(0, cut), own.times[:cut], own.befores[:cut])
            rest = Noted(own.ids.slice(cut), own.times[cut:], np.arange(mine.size - cut))
            got = np.concatenate(
                [
                    found.first_among(first, others.cut(0, cut), oldest),
                    found.first_among(rest, others.cut(cut, mine.size + 1), oldest),
                ]
            )
            assert np.array_equal(got, new[mine])
            assert found.table().sort_by("id") == wanted.table().sort_by("id")
            found.check()


def test_an_engine_that_does_not_follow_is_not_told_of_others():
    with pytest.raises(BadInput, match="only an engine that follows takes note") as refused:
        engine_of("int64").push("s", {"ts": [1], "i": [1]}, noted=noted_of("int64", [(1, 1, 0)]))
    assert "follows=True" in str(refused.value)


@pytest.mark.parametrize(
    ("noted", "reason"),
    [
        (Noted(pa.array([1, 2]), np.zeros(2, np.int64), np.zeros(1, np.int64)), "2, 2 and 1 ids"),
        (Noted(pa.array(["a"]), np.zeros(1, np.int64), np.zeros(1, np.int64)), "are int64, not"),
        (Noted(pa.array([None], pa.int64()), np.zeros(1, np.int64), np.zeros(1, np.int64)), "null"),
        (Noted(pa.array([1, 2]), np.zeros(2, np.int64), np.array([1, 0])), "do not ascend"),
    ],
)
def test_rows_of_others_that_do_not_fit_are_refused_and_change_nothing(noted, reason):
    engine = sf.Engine(clock=lambda: NOW_US, follows=True)
    engine.stream("s", {"ts": "timestamp", "i": "int64"}, time="ts", lateness_us=10, id="i")
    engine.stream("t", {"ts": "timestamp", "i": "int64"}, time="ts", lateness_us=10)
    with pytest.raises(BadInput, match=reason):
        engine.push("s", {"ts": [1], "i": [1]}, noted=noted)
    with pytest.raises(BadInput, match="for 't': the stream has no id"):
        engine.push("t", {"ts": [1], "i": [1]}, noted=noted)
    assert engine.counters("s")["received"] == 0
