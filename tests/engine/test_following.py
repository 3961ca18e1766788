"""Engines that follow a time from outside, store what others answer, and say what they hold."""

from __future__ import annotations

import numpy as np
import pytest

import standfast as sf
from engine.reading import pairs_of, rows_of

NOW_US = 1_700_000_000_000_000
COLUMNS = {"ts": "timestamp", "x": "int64"}
NEAR = "SELECT a.x, b.x AS y FROM a JOIN b ON a.x = b.x WHERE ABS(a.ts - b.ts) < :w"


def engine_of(*, follows: bool, lateness_us: int | None = 10) -> sf.Engine:
    """Two streams with times, and one window join of them."""
    engine = sf.Engine(clock=lambda: NOW_US, follows=follows)
    for name in ("a", "b"):
        engine.stream(name, COLUMNS, time="ts", lateness_us=lateness_us)
    engine.register(NEAR, name="near").add({"w": [5, 20]})
    return engine


def rows(*times: int) -> dict[str, list[int]]:
    return {"ts": list(times), "x": [1] * len(times)}


def test_rows_make_nobody_late_in_an_engine_that_follows():
    engine = engine_of(follows=True)
    engine.push("a", rows(1000, 1, 500))
    assert engine.counters("a") == {
        "received": 3, "used": 3, "late": 0, "duplicate": 0, "rejected": 0,
    }  # fmt: skip
    engine.advance("a", 200)
    engine.push("a", rows(1000, 189, 190))
    assert (engine.counters("a")["used"], engine.counters("a")["late"]) == (5, 1)
    assert engine.dead_letters()["row"].to_pylist() == [1]
    assert engine.counters("b")["received"] == 0


@pytest.mark.parametrize("follows", [False, True])
def test_a_time_from_outside_never_goes_back(follows):
    engine = engine_of(follows=follows)
    engine.advance("a", 200)
    engine.advance("a", 100)
    engine.push("a", rows(189, 190))
    assert (engine.counters("a")["used"], engine.counters("a")["late"]) == (1, 1)
    # The other stream has its own time.
    engine.push("b", rows(1))
    assert engine.counters("b")["used"] == 1


def test_an_engine_that_does_not_follow_takes_the_later_of_both_times():
    engine = engine_of(follows=False)
    engine.advance("a", 200)
    engine.push("a", rows(300, 289, 290))
    engine.advance("a", 250)
    engine.push("a", rows(289))
    assert (engine.counters("a")["used"], engine.counters("a")["late"]) == (2, 2)


def test_rows_far_ahead_of_the_clock_are_rejected_in_an_engine_that_follows():
    engine = engine_of(follows=True)
    engine.push("a", rows(2 * NOW_US, 5))
    assert (engine.counters("a")["used"], engine.counters("a")["rejected"]) == (1, 1)


@pytest.mark.parametrize("time_us", [None, "5", 5.0, True, -1, 2**63, np.int64(5)])
def test_a_time_that_is_none_is_refused(time_us):
    with pytest.raises(sf.BadInput) as error:
        engine_of(follows=True).advance("a", time_us)
    assert error.value.message == (
        f"input 'a': a time is microseconds from 0 to 2262, got {time_us!r}"
    )


def test_only_an_input_with_a_time_can_advance():
    engine = engine_of(follows=True)
    engine.table("t", COLUMNS, key="x")
    engine.stream("s", COLUMNS)
    for name in ("t", "s"):
        with pytest.raises(sf.BadInput) as error:
            engine.advance(name, 5)
        assert error.value.message == f"input {name!r} has no time column"
    assert engine.inputs["t"].time is None


@pytest.mark.parametrize("follows", [False, True])
def test_rows_expire_by_the_time_that_lateness_is_judged_by(follows):
    engine = engine_of(follows=follows)
    for start in range(0, 4000, 40):
        for name in ("a", "b"):
            engine.store(name, rows(*range(start, start + 40)))
    kept = engine.metrics()["inputs"]["a"]["stored"]
    assert kept == 4000 if follows else kept < 200
    for name in ("a", "b"):
        engine.advance(name, 3999)
        engine.store(name, rows(*[3999] * 600))
    # A row from 3999 - 10 on joins rows up to 20 before it, and few older ones are still there.
    assert 611 < engine.metrics()["inputs"]["a"]["stored"] < 800
    engine.check()


def test_following_what_the_rows_say_gives_the_answers_of_an_engine_that_does_not():
    rng = np.random.default_rng(7)
    plain, following = engine_of(follows=False), engine_of(follows=True)
    latest, n_pairs = {"a": 0, "b": 0}, 0
    for step in range(60):
        name = "ab"[rng.integers(2)]
        # One row a batch: rows move the time after themselves, as `advance` does here.
        batch = rows(max(0, 7 * step + int(rng.integers(-25, 25))))
        expected, found = plain.push(name, batch)["near"], following.push(name, batch)["near"]
        latest[name] = max(latest[name], *batch["ts"])
        following.advance(name, latest[name])
        assert pairs_of(found) == pairs_of(expected)
        assert rows_of(found) == rows_of(expected)
        n_pairs += len(pairs_of(found))
    assert n_pairs > 20
    assert plain.counters("a")["late"] > 2
    for name in ("a", "b"):
        assert plain.counters(name) == following.counters(name)


def store_engine() -> sf.Engine:
    engine = sf.Engine(clock=lambda: NOW_US)
    engine.stream("a", {"x": "int64", "s": "string"})
    engine.table("t", {"k": "int64", "x": "int64", "s": "string"}, key="k")
    engine.register("SELECT * FROM a WHERE x > :lo", name="f").add({"lo": [1]})
    band = "SELECT a.x, t.k FROM a JOIN t ON t.x - a.x BETWEEN :lo AND :hi"
    engine.register(band, name="band").add({"lo": [-2, 0], "hi": [2, 9]})
    alike = "SELECT a.x, t.k FROM a JOIN t ON a.s = t.s WHERE t.x > :lo"
    engine.register(alike, name="alike").add({"lo": [3, 6]})
    twice = "SELECT p.x, q.x AS y FROM a AS p JOIN a AS q ON p.s = q.s WHERE q.x > :lo"
    engine.register(twice, name="twice").add({"lo": [2]})
    return engine


def test_stored_rows_leave_behind_what_pushed_ones_do():
    rng = np.random.default_rng(3)
    pushed, stored = store_engine(), store_engine()
    n_pairs = 0
    for step in range(30):
        name = "at"[rng.integers(2)]
        batch = {"x": rng.integers(0, 10, 6), "s": rng.choice(["p", "q", None], 6)}
        batch |= {"k": rng.integers(0, 12, 6)} if name == "t" else {}
        expected = pushed.push(name, batch)
        if step % 3:
            assert stored.store(name, batch) is None
        else:
            found = stored.push(name, batch)
            assert {n: rows_of(a) for n, a in found.items()} == {
                n: rows_of(a) for n, a in expected.items()
            }
            n_pairs += sum(len(pairs_of(answer)) for answer in found.values())
        assert stored.counters(name) == pushed.counters(name)
    stored.check()
    assert n_pairs > 100
    assert stored.to_bytes() == pushed.to_bytes()


def test_storing_asks_no_group():
    engine = store_engine()
    engine.store("a", {"x": [5, "bad"], "s": ["p", "p"]})
    engine.store("t", {"k": [1, 1], "x": [5, 6], "s": ["p", "p"]})
    assert {group["events"] for group in engine.metrics()["groups"].values()} == {0}
    assert engine.counters("a") == {
        "received": 2, "used": 1, "late": 0, "duplicate": 0, "rejected": 1,
    }  # fmt: skip
    assert engine.metrics()["inputs"]["t"]["stored"] == 1


def test_an_input_holds_rows_once_somebody_needs_them_later():
    engine = sf.Engine()
    engine.stream("a", {"x": "int64"})
    engine.stream("named", {"x": "int64"}, id="x")
    engine.table("t", {"x": "int64"}, key="x")
    engine.register("SELECT * FROM a WHERE x > :lo")
    assert [engine.holds_rows(name) for name in ("a", "named", "t")] == [False, True, True]
    engine.register("SELECT * FROM a JOIN t ON t.x - a.x BETWEEN :lo AND :hi")
    assert engine.holds_rows("a")
    assert sf.Engine.from_bytes(engine.to_bytes()).holds_rows("a")


def test_memory_is_the_sum_of_what_inputs_and_groups_hold():
    engine = store_engine()
    engine.stream("named", {"x": "int64"}, id="x")
    before = engine.memory_bytes()
    engine.push("a", {"x": range(100), "s": ["p"] * 100})
    engine.push("named", {"x": range(100)})
    metrics = engine.metrics()
    held = [part["memory_bytes"] for kind in metrics.values() for part in kind.values()]
    assert engine.memory_bytes() == sum(held) > before
    assert metrics["inputs"]["named"]["memory_bytes"] == 1600
