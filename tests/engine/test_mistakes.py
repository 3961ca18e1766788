"""What users get wrong around windows and names is answered with what to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import standfast as sf

OVER = "OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW)"


@pytest.fixture
def engine() -> sf.Engine:
    made = sf.Engine()
    made.stream("s", {"v": "int64", "ts": "timestamp"}, time="ts")
    made.register(f"SELECT SUM(v) {OVER} FROM s", name="sums").add({"n": [1, 2]})
    return made


MISTAKES: list[tuple[Callable[[sf.Engine], object], str]] = [
    (lambda e: e.register("SELECT * FROM s WHERE v > :x", name=["x"]),
     "a template cannot be called ['x']\n  hint: take a text"),
    (lambda e: e.register("SELECT * FROM s WHERE v > :x", name=b"x"), "a template cannot be"),
    (lambda e: e.push(["s"], {}), "there is no input ['s']"),
    (lambda e: e.counters({}), "there is no input {}"),
    (lambda e: e.report((0, 2)), "a share is told as Share(number, of), got (0, 2)"),
    (lambda e: e.groups["sums"].lookup([0, 0]),
     "template 'sums': id 0 appears twice\n  hint: pass the ids of living queries, each once"),
    (lambda e: e.groups["sums"].lookup("x"), "hint: pass the ids of living queries, each once"),
    (lambda e: e.register(f"SELECT PERCENTILE_DISC(:p) {OVER} FROM s"),
     "hint: PERCENTILE_DISC(price, :share), or WITHIN GROUP (ORDER BY price) after it"),
    (lambda e: e.groups["sums"].lookup([2**70]),
     f"template 'sums': parameter 'id' is beyond int64 in row 0: {2**70}\n"
     "  hint: pass the ids of living queries, each once"),
    (lambda e: e.groups["sums"].lookup(np.array([1, 2**63], np.uint64)),
     f"template 'sums': parameter 'id' is beyond int64 in row 1: {2**63}\n"
     "  hint: pass the ids of living queries, each once"),
    (lambda e: e.register(f"SELECT PERCENTILE_DISC(v, :p) {OVER} FROM s", name="shares")
     .add({"p": [0.5, np.nan], "n": [1, 1]}),
     "template 'shares': parameter 'p' is not above 0 and up to 1 in row 1: nan\n"
     "  hint: 0.5 asks for the median"),
    (lambda e: sf.Engine.from_bytes(e.to_bytes(), aggregates={"u": np.sum}),
     "aggregate 'u' is not a UserAggregate\n  hint: pass UserAggregate(lift, combine, lower)"),
    (lambda e: sf.Engine.from_bytes(e.to_bytes(), aggregates=[np.sum]),
     "aggregates are given by name, got a list\n"
     "  hint: pass aggregates={name: UserAggregate(...)}"),
    (lambda e: sf.Engine.from_bytes(e.to_bytes(), clock=time.time).push("s", {"v": [1], "ts": [1]}),
     "hint: for example lambda: time.time_ns() // 1000"),
    *[
        (lambda e, path=path, call=call: call(e, path),
         f"no file can be at {path!r}\n  hint: pass the path of a snapshot")
        for path in (None, 7, b"s", "", Path(), "a\0b")
        for call in (lambda e, path: e.snapshot(path), lambda _, path: sf.Engine.restore(path))
    ],
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_a_mistake_is_told_with_what_to_do(
    engine: sf.Engine, mistake: Callable[[sf.Engine], object], message: str
) -> None:
    with pytest.raises(sf.StandfastError) as refused:
        mistake(engine)
    assert message in str(refused.value)


def test_a_snapshot_asks_for_the_aggregates_that_it_does_not_hold() -> None:
    engine = sf.Engine()
    engine.stream("s", {"v": "int64", "ts": "timestamp"}, time="ts")
    total = sf.UserAggregate(
        lift=lambda v: v[:, None].astype(float), combine=np.add, lower=lambda s: s[:, 0]
    )
    engine.aggregate("total", total)
    engine.register(f"SELECT total(v) {OVER} FROM s")
    with pytest.raises(sf.BadSnapshot) as refused:
        sf.Engine.from_bytes(engine.to_bytes())
    assert "hint: pass aggregates={name: UserAggregate(...)}" in str(refused.value)
    sf.Engine.from_bytes(engine.to_bytes(), aggregates={"total": total})


def test_counting_a_constant_counts_rows(engine: sf.Engine) -> None:
    group = engine.register(f"SELECT COUNT(1) {OVER} AS n FROM s")
    group.add({"n": [1, 9]})
    engine.push("s", {"v": [None, 1, 2], "ts": [1, 2, 3]})
    assert group.lookup()["n"].to_pylist() == [2, 3]
