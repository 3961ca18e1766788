"""Which shard stores and answers a row: every row is answered once, equal keys meet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from standfast.errors import BadInput, UnsupportedQuery
from standfast.model.stream import Input
from standfast.model.template import Template
from standfast.spark.packing import ARRIVED, Place, pack_rows
from standfast.spark.shards import hashed, plan, shard_keys, spark_hash
from standfast.spark.spec import EVENT, Spec
from standfast.spark.wire import ROWS, Chunk

INPUTS = {
    "s": Input.stream("s", {"k": "int64", "name": "string", "v": "float64", "id": "int64"}),
    "d": Input.stream("d", {"k": "int64", "name": "string", "v": "float64"}),
    "t": Input.table("t", {"k": "int64", "v": "float64"}, key="k"),
    "u": Input.table("u", {"k": "int64", "v": "float64"}, key="v"),
}
SELECT = "SELECT * FROM {0} a JOIN {1} b ON a.{2} = b.{3} WHERE a.v > :lo AND b.v > :hi"


def dealt(*sqls: str, n_shards: int = 4) -> list[tuple[str, tuple[str, ...]]]:
    templates = {f"q{i}": Template.parse(f"q{i}", sql, INPUTS) for i, sql in enumerate(sqls)}
    read = {n: i for n, i in INPUTS.items() if any(f" {n} " in f"{sql} " for sql in sqls)}
    return [(part.deal, part.templates) for part in plan(templates, read, n_shards).parts]


def test_each_question_is_dealt_by_the_table() -> None:
    assert dealt("SELECT * FROM s WHERE v > :x") == [("rows", ("q0",))]
    assert dealt("SELECT * FROM t WHERE v > :x") == [("keys", ("q0",))]
    assert dealt("SELECT * FROM s JOIN d ON s.v - d.v BETWEEN :a AND :b") == [("events", ("q0",))]
    assert dealt(SELECT.format("s", "d", "k", "k")) == [("keys", ("q0",))]
    assert dealt(SELECT.format("s", "s", "k", "k")) == [("keys", ("q0",))]


def test_rows_that_would_have_to_move_are_stored_everywhere() -> None:
    assert dealt(SELECT.format("s", "s", "k", "id")) == [("events", ("q0",))], "two columns of one"
    assert dealt(SELECT.format("s", "t", "k", "k")) == [("keys", ("q0",))]
    assert dealt(SELECT.format("s", "u", "k", "k")) == [("events", ("q0",))], "its key is another"


def test_templates_with_the_same_keys_share_a_part_and_others_do_not() -> None:
    by_k, by_name = SELECT.format("s", "d", "k", "k"), SELECT.format("s", "d", "name", "name")
    assert dealt(by_k, by_name, by_k) == [("keys", ("q0", "q2")), ("keys", ("q1",))]


def test_an_input_that_nobody_reads_is_refused() -> None:
    template = Template.parse("q", "SELECT * FROM s WHERE v > :x", INPUTS)
    with pytest.raises(BadInput, match="no template reads the input 'd'"):
        plan({"q": template}, {"s": INPUTS["s"], "d": INPUTS["d"]}, 2)


def packed(spec: Spec, number: int, table: pa.Table) -> list[tuple[int, Chunk]]:
    arrived = pa.array(np.zeros(table.num_rows, np.int64), pa.timestamp("us", "UTC"))
    batches = table.append_column(ARRIVED, arrived).to_batches(max_chunksize=7)
    keys = list(range(spec.n_shards))
    return [
        (row.pop("shard"), Chunk(**{name: row[name] for name in Chunk._fields}))
        for batch in pack_rows(spec, keys, number, batches, Place(3, 1))
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("n_shards", [1, 2, 3, 4, 6])
def test_a_row_is_answered_on_one_shard_and_stored_where_it_can_be_met(n_shards: int) -> None:
    rng = np.random.default_rng(n_shards)
    inputs = {name: INPUTS[name] for name in ("s", "d")}
    templates = {
        "filter": "SELECT * FROM s WHERE v > :x",
        "band": "SELECT * FROM s JOIN d ON s.v - d.v BETWEEN :a AND :b",
        "keyed": SELECT.format("s", "d", "name", "name"),
    }
    spec = Spec(inputs, templates, {}, "pairs", n_shards)
    homes: dict[tuple[int, str], set[int]] = {}
    for number, name in enumerate(inputs):
        n = 100
        table = pa.table(
            {
                "k": rng.integers(0, 9, n), "name": [f"n{i % 5}" for i in range(n)],
                "v": rng.normal(size=n), "id": np.arange(n),
            }
        ).select(list(inputs[name].columns))  # fmt: skip
        owned: dict[tuple[int, int], int] = {}
        stored: dict[tuple[int, int], set[int]] = {}
        for shard, chunk in packed(spec, number, table):
            assert chunk.kind == ROWS
            rows = chunk.table()
            for event, key in zip(rows[EVENT].to_pylist(), rows["name"].to_pylist(), strict=True):
                at = (chunk.part, event)
                assert shard not in stored.setdefault(at, set()), "twice on one shard"
                stored[at].add(shard)
                if chunk.owned:
                    assert at not in owned, "answered twice"
                    owned[at] = shard
                if spec.plan.parts[chunk.part].deal == "keys":
                    homes.setdefault((chunk.part, key), set()).add(shard)
        n_parts = sum(name in part.inputs for part in spec.plan.parts)
        assert owned.keys() == stored.keys()
        assert len(owned) == n * n_parts, "a row of a part was lost"
        for (part, _), shards in stored.items():
            wanted = {"rows": 1, "events": n_shards}.get(spec.plan.parts[part].deal)
            assert wanted is None or len(shards) == wanted
    slices = spec.plan.grid(spec.plan.parts[2])[1]
    assert all(len(shards) == slices for shards in homes.values()), "equal keys do not meet"


def test_a_hot_key_keeps_several_shards_busy() -> None:
    inputs = {name: INPUTS[name] for name in ("s", "d")}
    spec = Spec(inputs, {"q": SELECT.format("s", "d", "k", "k")}, {}, "pairs", 4)
    table = pa.table({"k": [7] * 90, "name": ["x"] * 90, "v": [0.5] * 90, "id": range(90)})
    owners = {shard for shard, chunk in packed(spec, 0, table) if chunk.owned}
    assert len(owners) == 2


def test_an_event_that_comes_again_meets_the_shard_that_knows_it() -> None:
    source = Input.stream("s", {"v": "float64", "id": "string"}, id="id")
    spec = Spec({"s": source}, {"q": "SELECT * FROM s WHERE v > :x"}, {}, "pairs", 4)
    found: dict[str, set[int]] = {}
    for seed in range(3):
        ids = [f"e{i}" for i in np.random.default_rng(seed).permutation(50)]
        for shard, chunk in packed(spec, 0, pa.table({"v": [1.0] * 50, "id": ids})):
            for event in chunk.table()[EVENT].to_pylist():
                found.setdefault(event, set()).add(shard)
    assert len(found) == 50
    assert all(len(shards) == 1 for shards in found.values())
    assert len(set.union(*found.values())) == 4


def test_equal_values_have_equal_hashes() -> None:
    floats = hashed(pa.chunked_array([[0.0, -0.0, None, float("nan"), 2.5]]), "float64")
    assert floats[0] == floats[1] == floats[2] == floats[3] != floats[4]
    texts = hashed(pa.chunked_array([["a", "b"], ["a", None]]), "string")
    assert texts[0] == texts[2] != texts[1]
    ints = hashed(pa.chunked_array([[5, None, 5]]), "int64")
    assert ints[0] == ints[2]


def test_shards_fall_into_different_partitions() -> None:
    for n_shards, n_partitions in [(1, 1), (2, 2), (4, 4), (3, 8), (5, 2), (7, 200)]:
        keys = shard_keys(n_shards, n_partitions)
        assert len(set(keys)) == n_shards
        partitions = {spark_hash(key) % n_partitions for key in keys}
        assert len(partitions) == min(n_shards, n_partitions)


def test_the_hash_is_that_of_spark() -> None:
    # SELECT hash(0), hash(1), hash(42), hash(-1), hash(2147483647)
    known = {0: 933211791, 1: -559580957, 42: 29417773, -1: -1604776387}
    assert {value: spark_hash(value) for value in known} == known


def test_windows_are_refused_for_now():
    trades = Input.stream("trades", {"a": "int64", "ts": "timestamp"}, time="ts")
    sql = "SELECT SUM(a) OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW) FROM trades"
    template = Template.parse("sums", sql, {"trades": trades})
    with pytest.raises(UnsupportedQuery) as refused:
        plan({"sums": template}, {"trades": trades}, 2)
    assert refused.value.message == "template 'sums': windows are not dealt to shards yet"
