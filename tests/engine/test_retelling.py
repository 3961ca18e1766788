"""What was told of windows is known by name, here and elsewhere, until it is told as gone."""

from __future__ import annotations

import pytest
from tests.engine.reporting import (
    TEMPLATES,
    add,
    as_told,
    each_question,
    engine_of,
    reported,
    rows,
    told,
)

import standfast as sf
from standfast.engine import strings
from standfast.engine.relations import RelationRows


def told_of_a_key(name, way="auto"):
    """An engine that told of a key."""
    engine = engine_of(name, way=way)
    add(engine, name, (7, 10, 0))
    engine.store("s", rows(("gone", 1, 1)))
    assert reported(engine, name) == as_told(name, (7, "gone", 1, 1))
    return engine


def outlive(engine, name, now=0):
    """Many rows later its lane is gone, and the strings were looked through; nothing was told."""
    engine.store("s", rows(*((f"old {i}", now + 100, 1) for i in range(100))))
    engine.store("s", rows(*[("b", now + 1000, 1)] * 70))
    assert engine.groups[name].reader.lanes.n_lanes == 1, "keys of the past are kept"
    engine.store("s", rows(*((f"new {now} {i}", now + 5000, 1) for i in range(150))))
    assert "old 1" not in engine._strings.codes, "words of the past are kept"


OUTLIVED = [(7, "gone", 1, -1), *((7, f"new 0 {i}", 1, 1) for i in range(150))]


@pytest.fixture
def few_strings(monkeypatch):
    """Strings without a user are looked for at once."""
    monkeypatch.setattr(strings, "FEW", 2)


@each_question
@pytest.mark.parametrize("way", ["auto", "naive"])
def test_a_key_whose_rows_are_gone_is_still_told_by_its_name(name, way, few_strings):
    early = told_of_a_key(name, way)
    engine, again = (sf.Engine.from_bytes(early.to_bytes(), clock=lambda: 2**50) for _ in "ab")
    for one in (early, engine, again):
        outlive(one, name)
    again = sf.Engine.from_bytes(again.to_bytes(), clock=lambda: 2**50)
    for one in (early, engine, again):
        assert reported(one, name) == as_told(name, *OUTLIVED)
        assert reported(one, name) == []
        one.store("s", rows(("gone", 5001, 2)))
        assert reported(one, name) == as_told(name, (7, "gone", 2, 1))
        one.check()


def test_a_mark_that_another_way_has_to_tell_keeps_its_name(few_strings):
    engine = told_of_a_key("marks")
    engine.advance("s", 50)
    engine.groups["marks"].switch("naive")
    outlive(engine, "marks")
    assert reported(engine, "marks") == as_told("marks", *OUTLIVED)


def test_what_was_told_can_be_retold_after_its_rows_are_gone(few_strings):
    engine = told_of_a_key("sums")
    engine.advance("s", 50)
    assert reported(engine, "sums") == [(7, "gone", 1, -1)]
    outlive(engine, "sums")
    (told_last,) = engine.groups["sums"].told().to_pylist()
    assert told_last == {"query": 7, "key": "gone", "raw": 1, "known": True, "change": -1}


def test_a_told_key_is_known_to_an_engine_that_it_was_retold(few_strings):
    engine, other = told_of_a_key("sums"), engine_of("sums")
    add(other, "sums", (7, 10, 0))
    other.store("s", rows(("gone", 1, 1)))
    other.groups["sums"].retell(engine.groups["sums"].told())
    for one in (engine, other):
        outlive(one, "sums")
    assert reported(engine, "sums") == as_told("sums", *OUTLIVED)
    other.groups["sums"].retell(engine.groups["sums"].told())
    assert reported(other, "sums") == []
    other.check()


@each_question
def test_of_a_snapshot_without_the_name_of_a_key_the_others_are_told(
    name, few_strings, monkeypatch
):
    """As releases up to 0.6.0 wrote them."""
    with monkeypatch.context() as before:
        before.setattr(type(engine_of(name).groups[name].reader), "_told_codes", lambda self: ())
        engine = told_of_a_key(name)
        outlive(engine, name)
        again = sf.Engine.from_bytes(engine.to_bytes(), clock=lambda: 2**50)
    assert reported(again, name) == as_told(name, *OUTLIVED[1:])
    assert reported(again, name) == []
    again.check()


@pytest.mark.parametrize(
    ("kind", "keys"), [("float64", (3.0, -3.0)), ("int64", (2**63 - 1, -(2**63)))]
)
def test_keys_far_apart_are_retold_in_order(kind, keys):
    """The difference of their codes leaves int64: the smaller was once taken for the larger."""
    engines = [sf.Engine(clock=lambda: 2**50, follows=True) for _ in range(2)]
    for engine in engines:
        engine.stream("s", {"k": kind, "ts": "timestamp", "v": "int64"}, time="ts")
        engine.register(TEMPLATES["sums"], name="sums").add({"w": [100]})
    one, other = engines
    for key, now in zip(keys, (1, 2), strict=True):
        for engine in engines:
            engine.store("s", rows((key, now, 1)))
        assert told(one.report()["sums"]) == [(0, key, 1, 1)]
        other.groups["sums"].retell(one.groups["sums"].told())
        other.check()
    for engine in engines:
        engine.store("s", rows((keys[1], 3, 1)))
        assert told(engine.report()["sums"]) == [(0, keys[1], 1, -1), (0, keys[1], 2, 1)]
        engine.check()


@each_question
def test_what_could_not_be_told_is_told_by_the_next_report(name, monkeypatch):
    engine = engine_of(name)
    add(engine, name, (7, 10, 3), (8, 100, 0))
    engine.store("s", rows(("a", 100, 5), ("b", 100, 1)))
    before = reported(engine, name)
    engine.store("s", rows(("a", 101, -4), ("c", 102, 4)))
    again = sf.Engine.from_bytes(engine.to_bytes(), clock=lambda: 2**50)
    expected = reported(again, name)
    assert {entry[-1] for entry in expected} == {1, -1}
    with monkeypatch.context() as broken:
        broken.setattr(RelationRows, "of", None)
        for _ in range(2):
            with pytest.raises(TypeError):
                engine.report()
    engine.check()
    assert reported(engine, name) == expected != before
    assert reported(engine, name) == []
