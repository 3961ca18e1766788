"""What `Engine.report` tells of windows: whatever changed since it was last told, once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tests.engine.reporting import (
    Told,
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
from standfast.engine.sharing import ALL, Share
from standfast.operators.key_threshold.totals import IndexedTotals


@each_question
def test_rows_that_were_stored_are_told_once(name):
    engine = engine_of(name)
    add(engine, name, (7, 10, 0), (8, 100, 0))
    engine.store("s", rows(("a", 100, 1), ("b", 101, 2)))
    engine.store("s", rows(("a", 102, 3)))
    assert reported(engine, name) == as_told(
        name, (7, "a", 4, 1), (7, "b", 2, 1), (8, "a", 4, 1), (8, "b", 2, 1)
    )
    assert reported(engine, name) == []
    engine.check()


@each_question
def test_an_answer_that_is_another_goes_and_comes(name):
    engine = engine_of(name)
    add(engine, name, (7, 100, 4))
    engine.store("s", rows(("a", 100, 5), ("b", 100, 5)))
    reported(engine, name)
    engine.store("s", rows(("a", 101, -2), ("b", 101, 1)))
    assert reported(engine, name) == {
        "sums": [(7, "a", 3, 1), (7, "a", 5, -1), (7, "b", 5, -1), (7, "b", 6, 1)],
        "marks": [(7, "a", -1)],
    }[name]  # fmt: skip


@each_question
def test_what_came_and_went_in_between_is_not_told(name):
    engine = engine_of(name)
    add(engine, name, (7, 10, 1))
    engine.store("s", rows(("a", 100, 5)))
    engine.store("s", rows(("b", 200, 5)))
    assert reported(engine, name) == as_told(name, (7, "b", 5, 1))


@each_question
def test_time_alone_changes_answers(name):
    engine = engine_of(name)
    add(engine, name, (7, 10, 0), (8, 100, 0))
    engine.store("s", rows(("a", 100, 1), ("a", 105, 2)))
    reported(engine, name)
    engine.advance("s", 112)
    gone = as_told(name, (7, "a", 3, -1), (7, "a", 2, 1)) if name == "sums" else []
    assert reported(engine, name) == gone
    engine.advance("s", 150)
    assert reported(engine, name) == as_told(name, (7, "a", 2, -1))
    engine.advance("s", 140)
    assert reported(engine, name) == []


@each_question
def test_a_new_query_tells_what_it_holds(name):
    engine = engine_of(name)
    add(engine, name, (7, 50, 0))
    engine.store("s", rows(("a", 100, 1), ("b", 120, 2)))
    reported(engine, name)
    add(engine, name, (8, 10, 0))
    assert reported(engine, name) == as_told(name, (8, "b", 2, 1))
    assert reported(engine, name) == []


@each_question
def test_a_query_that_went_takes_its_answers_with_it_untold(name):
    engine = engine_of(name)
    add(engine, name, (7, 50, 0), (8, 50, 0))
    engine.store("s", rows(("a", 100, 1)))
    reported(engine, name)
    engine.groups[name].remove([7])
    assert reported(engine, name) == []
    engine.store("s", rows(("b", 101, 2)))
    assert reported(engine, name) == as_told(name, (8, "b", 2, 1))
    add(engine, name, (7, 50, 0))
    assert reported(engine, name) == as_told(name, (7, "a", 1, 1), (7, "b", 2, 1))


@each_question
def test_a_push_tells_only_what_is_new_since_a_report(name):
    engine = engine_of(name)
    add(engine, name, (7, 50, 0))
    engine.store("s", rows(("a", 100, 1)))
    assert reported(engine, name) == as_told(name, (7, "a", 1, 1))
    found = engine.push("s", rows(("b", 101, 2), ("b", 102, 2)))
    assert told(found[name]) == as_told(name, (7, "b", 4, 1))
    assert found[name].pairs()["row"].to_pylist() == [1]
    assert reported(engine, name) == []


@each_question
def test_a_push_tells_also_what_no_report_told(name):
    engine = engine_of(name)
    add(engine, name, (7, 50, 0))
    engine.store("s", rows(("a", 100, 1)))
    found = engine.push("s", rows(("b", 101, 2)))
    assert told(found[name]) == as_told(name, (7, "a", 1, 1), (7, "b", 2, 1))
    assert reported(engine, name) == []


@each_question
def test_a_restored_engine_tells_what_was_not_told(name, tmp_path):
    engine = engine_of(name)
    add(engine, name, (7, 50, 0))
    engine.store("s", rows(("a", 100, 1)))
    reported(engine, name)
    engine.store("s", rows(("b", 101, 2)))
    engine.snapshot(tmp_path / "snapshot")
    again = sf.Engine.restore(tmp_path / "snapshot", clock=lambda: 2**50)
    expected = as_told(name, (7, "b", 2, 1))
    assert reported(again, name) == reported(engine, name) == expected
    engine.snapshot(tmp_path / "snapshot")
    again = sf.Engine.restore(tmp_path / "snapshot", clock=lambda: 2**50)
    assert reported(again, name) == []
    again.check()


def test_an_engine_without_windows_has_nothing_to_report():
    assert engine_of().report() == {}


def history(seed, n_steps):
    """For each step: queries that come, how many of the oldest go, rows, the time."""
    rng = np.random.default_rng(seed)
    now, n_queries = 1000, 0
    for _ in range(n_steps):
        n = int(rng.integers(0, 30))
        ids = range(n_queries, n_queries + n)
        n_queries += n
        fresh = [(i, int(rng.integers(1, 200)), int(rng.integers(-5, 20))) for i in ids]
        now += int(rng.integers(0, 60))
        batch = [
            ("abcde"[rng.integers(5)], now - int(rng.integers(0, 40)), int(rng.integers(-3, 9)))
            for _ in range(int(rng.integers(0, 12)))
        ]
        yield fresh, int(rng.integers(0, 12)), batch, now


def play(engines, name, seed, shares):
    """The same history in each engine; yields what each tells of its share after every step."""
    living: list[int] = []
    for fresh, n_gone, batch, now in history(seed, 30):
        gone, living = living[:n_gone], [*living[n_gone:], *(query[0] for query in fresh)]
        for engine in engines:
            engine.groups[name].remove(gone)
            add(engine, name, *fresh)
            engine.store("s", rows(*batch))
            engine.advance("s", now)
        yield living, [reported(e, name, share) for e, share in zip(engines, shares, strict=True)]


@each_question
@pytest.mark.parametrize("of", [2, 3, 8])
def test_all_shares_together_are_the_whole(name, of):
    shares = [ALL, *(Share(number, of) for number in range(of))]
    engines = [engine_of(name) for _ in shares]
    n_told = Counter[int]()
    for _, (whole, *parts) in play(engines, name, of, shares):
        assert sorted(entry for part in parts for entry in part) == whole
        for number, part in enumerate(parts):
            n_told[number] += len(part)
            queries = np.array([entry[0] for entry in part], np.int64)
            assert shares[number + 1].has(queries).all()
    assert all(n_told[number] > 30 for number in range(of))


@each_question
@pytest.mark.parametrize("way", ["auto", "naive"])
def test_all_that_was_told_adds_up_to_the_current_answers(name, way):
    engine, total, n_gone = engine_of(name, way=way), Counter[Told](), 0
    for living, (found,) in play([engine], name, 5, [ALL]):
        for *entry, change in found:
            total[tuple(entry)] += change
            n_gone += change < 0
        current = {entry: n for entry, n in total.items() if n and entry[0] in living}
        looked = engine.groups[name].lookup().to_pylist()
        assert current == dict.fromkeys((tuple(row.values()) for row in looked), 1)
    assert n_gone > 100


def test_every_query_is_in_one_share_and_shares_are_about_as_large():
    far = np.random.default_rng(3).integers(-(2**62), 2**62, 5000)
    ids = np.concatenate([np.arange(-5000, 5000), far])
    for of in (1, 2, 3, 4, 7, 64):
        has = np.array([Share(number, of).has(ids) for number in range(of)])
        assert np.all(has.sum(axis=0) == 1)
        assert has.sum(axis=1).min() > 0.6 * ids.size / of


@pytest.mark.parametrize("way", ["naive", "collective_index"])
def test_of_thresholds_only_the_share_is_looked_for(way):
    """Two engines with a share each tell what one tells, and hold what their own queries hold."""
    whole, *halves = (engine_of("marks", way=way) for _ in range(3))
    rng = np.random.default_rng(4)
    for batch in range(12):
        given = rows(*((f"k{i}", 100 + batch, int(rng.integers(-5, 9))) for i in range(20)))
        queries = [(40 * batch + i, int(rng.integers(0, 9)), int(i)) for i in range(20)]
        for engine in (whole, *halves):
            add(engine, "marks", *queries)
            engine.store("s", given)
            if batch == 8:  # so many that slots are numbered anew
                engine.groups["marks"].remove([40 * b + i for b in range(7) for i in range(20)])
        if batch % 3 == 0:
            halves = [sf.Engine.from_bytes(e.to_bytes(), clock=lambda: 2**50) for e in halves]
        found = [reported(e, "marks", Share(i, 2)) for i, e in enumerate(halves)]
        assert all(found)
        assert sorted(found[0] + found[1]) == reported(whole, "marks")
        for engine in (whole, *halves):
            engine.check()
        held = [e.groups["marks"].reader.strategy._held.keys.size for e in (whole, *halves)]
        assert held[0] == held[1] + held[2] > 0, "what others tell of is held"
        assert halves[0].groups["marks"].lookup() == whole.groups["marks"].lookup()


@each_question
def test_a_key_that_went_is_named_though_many_others_were_stored_since(name, monkeypatch):
    """Its text was forgotten with its rows, and the report raised a KeyError."""
    monkeypatch.setattr(strings, "FEW", 2)
    engine = engine_of(name)
    add(engine, name, (1, 10, 0))
    engine.push("s", rows(("a", 100, 7)))
    for time in range(200, 1000, 100):
        engine.store("s", rows(*((f"k{time + i}", time, 1) for i in range(9))))
    went = [each for each in reported(engine, name) if each[-1] == -1]
    assert went == as_told(name, (1, "a", 7, -1))
    assert "a" in engine._strings.codes
    engine.report()  # the last one may be asked for again, with its texts
    engine.store("s", rows(*((f"l{i}", 2000, 1) for i in range(99))))
    assert "a" not in engine._strings.codes


def test_queries_of_others_are_not_asked(monkeypatch):
    engine, asked = engine_of("marks"), []
    add(engine, "marks", *((i, 10, 0) for i in range(100)))
    ask = IndexedTotals.ask
    monkeypatch.setattr(
        IndexedTotals,
        "ask",
        lambda self, p, starts, **how: (asked.append(p.size), ask(self, p, starts, **how))[1],
    )
    for batch in range(3):
        engine.store("s", rows(("a", 100 + batch, 1)))
        engine.report(Share(0, 4))
        engine.to_bytes()
    n = int(Share(0, 4).has(np.arange(100)).sum())
    assert asked == [n] * 6
    assert 0 < n < 50
