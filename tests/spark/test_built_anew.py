"""Shards that are built anew go on from what was told, not from what they would say themselves."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.playing import Outcome, chunks_of

from standfast.engine import strings
from standfast.model.stream import Input
from standfast.spark import shard
from standfast.spark.host import build
from standfast.spark.outputs import form_of
from standfast.spark.shard import Shard
from standfast.spark.spec import Spec


@pytest.mark.parametrize("function", ["VARIANCE", "SUM"])
def test_what_was_told_of_windows_adds_up_over_shards_built_anew(function: str) -> None:
    """Sums of floats may round otherwise in other places: what went is what came before."""
    source = Input.stream("s", {"k": "string", "v": "float64", "ts": "timestamp"}, time="ts")
    sqls = {
        unit: f"SELECT k, {function}(v) OVER (PARTITION BY k ORDER BY ts "
        f"{unit} BETWEEN :w PRECEDING AND CURRENT ROW) AS answer FROM s"
        for unit in ("ROWS", "RANGE")
    }
    spec, outcome, total = Spec({"s": source}, sqls, {}, form_of("rows"), 2), Outcome(), Counter()
    names = spec.output.schema.names
    rng, n = np.random.default_rng(11), 40
    shards = [Shard(spec, i) for i in range(2)]
    states: list[list[bytes]] = [[shard.to_bytes()] for shard in shards]
    for batch in range(24):
        values = 1e9 + rng.normal(size=n)
        values[rng.integers(0, n, 3)] = rng.choice([1e25, -1e25, 1e17], 3)
        times = 1_000_000 + 50 * batch + np.sort(rng.integers(0, 50, n))
        rows = pa.table(
            {
                "k": rng.choice(["a", "b", "c"], n), "v": values,
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
        )  # fmt: skip
        wide = rng.integers(3, 400, 12)
        ids = 100 * batch + np.arange(12)
        changes = pa.table({"template": ["ROWS", "RANGE"] * 6, "id": ids, "w": wide})
        if batch % 2:
            shards = [build(spec, i, state) for i, state in enumerate(states)]
            for shard in shards:
                shard.check()
        given = changes if batch < 3 else None
        for i, chunks in enumerate(chunks_of(spec, batch, given, {"s": rows})):
            states[i].append(outcome.apply(spec, shards[i], chunks).log)
    for key, times in outcome.answers.items():
        row = dict(zip(names, key, strict=True))
        total[row["template"], row["query"], row["k"], str(row["answer"])] += times * row["change"]
    assert outcome.tally["answers"] > 500
    assert set(total.values()) <= {0, 1}, "something went that never came"
    living = Counter((name, query, k) for (name, query, k, _), n in total.items() if n)
    assert set(living.values()) == {1}, "two answers for one key"


def test_another_strategy_is_taken_up_when_a_shard_is_built_anew() -> None:
    source = Input.stream("s", {"v": "float64"})
    sqls = {"q": "SELECT * FROM s WHERE v BETWEEN :lo AND :hi"}
    before = Spec({"s": source}, sqls, {"q": "naive"}, form_of("pairs"), 1)
    after = Spec({"s": source}, sqls, {"q": "interval_tree"}, form_of("pairs"), 1)
    assert before.digest == after.digest
    shard = Shard.from_bytes(after, Shard(before).to_bytes())
    assert [group.way for group in shard._groups().values()] == ["interval_tree"]


def test_a_row_without_an_id_does_not_move_time_on() -> None:
    columns = {"id": "int64", "ts": "timestamp"}
    source = Input.stream("s", columns, time="ts", lateness_us=10, id="id")
    sqls = {"q": "SELECT * FROM s WHERE id > :lo"}
    spec, outcome = Spec({"s": source}, sqls, {}, form_of("pairs"), 1), Outcome()
    shard = Shard(spec)
    for batch, (ids, times) in enumerate([([1, None], [100, 900]), ([2], [101])]):
        stamps = pa.array(times, pa.timestamp("us", "UTC"))
        rows = {"s": pa.table({"id": pa.array(ids, pa.int64()), "ts": stamps})}
        (chunks,) = chunks_of(spec, batch, None, rows, tasks=1)
        outcome.apply(spec, shard, chunks)
    assert (outcome.tally["used"], outcome.tally["rejected"], outcome.tally["late"]) == (2, 1, 0)


def _many(now: int) -> list[list[tuple[str, int]]]:
    """Rows by key and time after which what was before is let go, and its strings too."""
    return [
        [(f"old {now} {i}", now + 100) for i in range(100)],
        [("b", now + 1000)] * 100,
        [(f"new {now} {i}", now + 5000) for i in range(300)],
    ]


@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_a_key_that_was_told_of_is_known_by_name_after_its_rows_are_gone(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one micro-batch or over several, whose log is taken in again before anything is told."""
    monkeypatch.setattr(strings, "FEW", 2)
    monkeypatch.setattr(shard, "MOST_ROWS_AT_ONCE", 50)
    source = Input.stream("s", {"k": "string", "v": kind, "ts": "timestamp"}, time="ts")
    over = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW)"
    sqls = {
        "sums": f"SELECT k, SUM(v) {over} AS total FROM s",
        "marks": f"SELECT k FROM s QUALIFY SUM(v) {over} > 0",
    }
    spec = Spec({"s": source}, sqls, {}, form_of("rows"), 1)
    queries = pa.table({"template": [*sqls], "id": [0, 0], "w": [10, 10]})
    together = [row for rows in _many(0) for row in rows]
    batches = [[("gone", 1)], together, *_many(10_000), [("last", 20_000)]]
    for snapshot_after, built_after in [(0, 0), (0, 1), (1, 1), (1, 4)]:
        one, outcome = Shard(spec), Outcome()
        state = [one.to_bytes()]
        for batch, given in enumerate(batches):
            keys, times = zip(*given, strict=True)
            rows = pa.table(
                {
                    "k": keys, "v": pa.array([1] * len(keys), kind.replace("float64", "double")),
                    "ts": pa.array(times, pa.timestamp("us", "UTC")),
                }
            )  # fmt: skip
            (chunks,) = chunks_of(spec, batch, None if batch else queries, {"s": rows}, 1)
            state.append(outcome.apply(spec, one, chunks).log)
            if batch == snapshot_after:
                state = [one.to_bytes()]
            if batch == built_after:
                one = build(spec, 0, state)
            one.check()
        total = Counter[tuple[str, str]]()
        for answer, n in outcome.answers.items():
            row = dict(zip(spec.output.schema.names, answer, strict=True))
            total[row["template"], row["k"]] += n * row["change"]
        told = {"gone", "last", "b", *(k for now in (0, 10_000) for k, _ in _many(now)[2])}
        assert {k for _, k in total} - {k for k, _ in _many(10_000)[0]} == told
        assert {key for key, n in total.items() if n} == {(name, "last") for name in sqls}
        assert set(total.values()) == {0, 1}
