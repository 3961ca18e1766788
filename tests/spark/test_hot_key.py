"""One key with all the rows: the slices of its bucket share its queries, of thresholds too."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from tests.spark.playing import NOW_US, Outcome, chunks_of

from standfast import Engine
from standfast.model.stream import Input
from standfast.spark.shard import Shard
from standfast.spark.spec import Spec

SOURCE = Input.stream("s", {"k": "string", "v": "int64", "ts": "timestamp"}, time="ts")
SQL = (
    "SELECT k FROM s QUALIFY SUM(v) OVER "
    "(PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW) BETWEEN :lo AND :hi"
)
N_QUERIES, N_BATCHES = 60, 36


def changes_of() -> pa.Table:
    rng = np.random.default_rng(3)
    low = rng.integers(-90, 90, N_QUERIES)
    return pa.table(
        {
            "template": ["marks"] * N_QUERIES, "id": range(N_QUERIES), "lo": low,
            "hi": low + rng.integers(5, 60, N_QUERIES), "w": rng.integers(50, 400, N_QUERIES),
        }
    )  # fmt: skip


def rows_of(batch: int) -> pa.Table:
    rng, n = np.random.default_rng(batch), 120
    times = 1_000_000 + 100 * batch + np.sort(rng.integers(0, 100, n))
    return pa.table(
        {
            "k": ["hot"] * n, "v": rng.integers(-9, 10, n),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )  # fmt: skip


def by_engine() -> Counter[tuple[Any, ...]]:
    """The query, the key, the change and the micro-batch of every answer of one engine."""
    engine = Engine(follows=True, clock=lambda: NOW_US)
    engine.stream("s", SOURCE.columns, time="ts")
    engine.register(SQL, name="marks").add(changes_of().drop_columns(["template"]))
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in range(N_BATCHES):
        rows = rows_of(batch)
        engine.store("s", rows)
        engine.advance("s", int(rows["ts"].cast(pa.int64()).to_numpy().max()))
        told = engine.report()["marks"].rows().to_pylist()
        found.update((row["query"], row["k"], row["change"], batch) for row in told)
    return found


def test_both_slices_of_a_hot_key_answer_for_their_own_queries() -> None:
    spec = Spec({"s": SOURCE}, {"marks": SQL}, {}, "rows", 4)
    names, share = (
        spec.output.schema.names,
        [spec.plan.share(spec.plan.parts[0], i) for i in range(4)],
    )
    shards, found = [Shard(spec, i) for i in range(4)], Counter[tuple[Any, ...]]()
    by_shard: list[set[int]] = [set() for _ in shards]
    bytes_held: list[int] = []
    for batch in range(N_BATCHES):
        parts = chunks_of(spec, batch, None if batch else changes_of(), {"s": rows_of(batch)})
        bytes_held.append(0)
        for i, chunks in enumerate(parts):
            outcome = Outcome()
            bytes_held[-1] += outcome.apply(spec, shards[i], chunks).tally["memory_bytes"]
            shards[i].check()
            for key, n in outcome.answers.items():
                row = dict(zip(names, key, strict=True))
                found[row["query"], row["k"], row["change"], batch] += n
                by_shard[i].add(row["query"])
    assert found == by_engine()
    assert found.total() > 300
    busy = [i for i, queries in enumerate(by_shard) if queries]
    assert len(busy) == 2, "the two slices of one bucket"
    for i in busy:
        assert len(by_shard[i]) > N_QUERIES // 4
        assert all(share[i].has(np.array(sorted(by_shard[i]))))
    # Windows end, and what others are told of is not held.
    assert max(bytes_held[24:]) <= max(bytes_held[12:24])
