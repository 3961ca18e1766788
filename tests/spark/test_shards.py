"""Which shard stores and answers a row: every row is answered once, equal keys meet."""

from __future__ import annotations

from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from standfast.errors import BadInput
from standfast.model.stream import Input
from standfast.model.template import Template
from standfast.spark import packing
from standfast.spark.brief import EVENT, Brief
from standfast.spark.outputs import form_of
from standfast.spark.packing import ARRIVED, Place, pack_changes, pack_rows
from standfast.spark.planning import plan
from standfast.spark.shards import hashed, shard_keys, spark_hash
from standfast.spark.spec import Spec
from standfast.spark.wire import NO_TIME, ROWS, TICK, Chunk

INPUTS = {
    "s": Input.stream("s", {"k": "int64", "name": "string", "v": "float64", "id": "int64"}),
    "d": Input.stream("d", {"k": "int64", "name": "string", "v": "float64"}),
    "t": Input.table("t", {"k": "int64", "v": "float64"}, key="k"),
    "u": Input.table("u", {"k": "int64", "v": "float64"}, key="v"),
    "w": Input.stream("w", {"k": "string", "v": "int64", "ts": "timestamp"}, time="ts"),
}
TIME = pa.timestamp("us", "UTC")
OVER = "OVER ({} ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW)"
SUMS, ALL_SUMS = (f"SELECT SUM(v) {OVER.format(by)} FROM w " for by in ("PARTITION BY k", ""))
MARKS = f"SELECT k FROM w QUALIFY SUM(v) {OVER.format('PARTITION BY k')} > :t"
SELECT = "SELECT * FROM {0} a JOIN {1} b ON a.{2} = b.{3} WHERE a.v > :lo AND b.v > :hi"


def dealt(*sqls: str, n_shards: int = 4, form: str = "rows") -> list[tuple[str, tuple[str, ...]]]:
    templates = {f"q{i}": Template.parse(f"q{i}", sql, INPUTS) for i, sql in enumerate(sqls)}
    read = {n: i for n, i in INPUTS.items() if any(f" {n} " in f"{sql} " for sql in sqls)}
    return [(p.deal, p.templates) for p in plan(templates, read, n_shards, form).parts]


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
        plan({"q": template}, {"s": INPUTS["s"], "d": INPUTS["d"]}, 2, "pairs")


def packed(spec: Spec, number: int, table: pa.Table) -> list[tuple[int, Chunk]]:
    arrived = pa.array(np.zeros(table.num_rows, np.int64), pa.timestamp("us", "UTC"))
    batches = table.append_column(ARRIVED, arrived).to_batches(max_chunksize=7)
    keys = list(range(spec.n_shards))
    return [
        (row.pop("shard"), Chunk(**{name: row[name] for name in Chunk._fields}))
        for batch in pack_rows(spec.brief, keys, number, batches, Place(3, 1))
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
    damaged = pa.array([b"\xff", b"a"])
    damaged = pa.Array.from_buffers(pa.string(), 2, damaged.buffers())
    assert hashed(pa.chunked_array([damaged]), "string")[1] == texts[0] == 13950350942979735504
    ints = hashed(pa.chunked_array([[5, None, 5]]), "int64")
    assert ints[0] == ints[2]


def test_shards_fall_evenly_into_partitions_however_many_there_are() -> None:
    keys = shard_keys(7)
    for n_partitions in (1, 2, 3, 4, 8, 200):
        assert [spark_hash(key) % n_partitions for key in keys] == [
            i % n_partitions for i in range(7)
        ]


def test_the_numbers_of_shards_are_ints_and_stay_when_more_are_added() -> None:
    keys = shard_keys(4096)
    assert len(set(keys)) == 4096
    assert all(-(1 << 31) <= key < 1 << 31 for key in keys)
    assert shard_keys(5) == keys[:5]


@pytest.mark.parametrize("n_shards", [1, 2, 4])
def test_every_shard_takes_part_in_every_micro_batch(n_shards: int) -> None:
    """It was only the first, and what others should have told waited for their first rows."""
    inputs = {name: INPUTS[name] for name in ("s", "d")}
    spec = Spec(inputs, {"q": SELECT.format("s", "d", "k", "k")}, {}, "pairs", n_shards)
    everybody, asked = list(range(n_shards)), 0
    for key in range(20):
        chunks = packed(spec, 0, pa.table({"k": [key], "name": ["x"], "v": [0.5], "id": [1]}))
        assert sorted(shard for shard, _ in chunks) == everybody, "each once"
        ticks = [chunk for _, chunk in chunks if chunk.kind == TICK]
        assert all(chunk.time_us == NO_TIME for chunk in ticks)
        asked += len(ticks)
    assert asked == (40 if n_shards == 4 else 0), "one bucket of two has the row"
    idle = packed(spec, 0, pa.table({"k": [0]}).slice(1))
    assert [(shard, chunk.kind) for shard, chunk in idle] == [(s, TICK) for s in everybody]


def test_every_shard_takes_part_where_a_file_of_changes_is_empty() -> None:
    """A micro-batch with nothing else said that there were no queries, in version 0."""
    (idle,) = pack_changes([5, 7], [], Place(3, 1))
    found = [(row["shard"], row["kind"], row["time_us"]) for row in idle.to_pylist()]
    assert found == [(5, TICK, NO_TIME), (7, TICK, NO_TIME)]


def test_spark_is_given_no_more_at_once_than_it_can_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that all shards store is written out for each: 300 MB for eight ended the job."""
    inputs = {name: INPUTS[name] for name in ("s", "d")}
    band = "SELECT * FROM s a JOIN d b ON a.v - b.v BETWEEN :lo AND :hi"
    spec = Spec(inputs, {"q": band}, {}, "pairs", 4)
    row = pa.table({"k": [1], "name": ["x" * 1000], "v": [0.5], "id": [1]})
    rows = pa.concat_tables([row] * 40).append_column(ARRIVED, pa.array([0] * 40, TIME))

    def given() -> list[pa.RecordBatch]:
        batches = rows.combine_chunks().to_batches(max_chunksize=2)
        return list(pack_rows(spec.brief, [0, 1, 2, 3], 0, batches, Place(0, 0)))

    (whole,) = given()
    assert whole.nbytes > 4 * 40_000, "a copy for each shard"
    monkeypatch.setattr("standfast.spark.packing.GIVEN_BYTES", 50_000)
    assert max(batch.nbytes for batch in given()) < 51_000
    monkeypatch.setattr("standfast.spark.packing.GATHERED_BYTES", 10_000)
    pieces = given()
    assert max(len(body.as_py()) for batch in pieces for body in batch["body"]) < 10_000
    assert sum(sum(batch["n_rows"].to_pylist()) for batch in pieces) == 4 * 40


def test_a_chunk_has_no_more_bytes_than_stated_however_large_the_batches_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chunk of 64 MB and the batch of Spark behind it: Java holds it several times, and ended."""
    monkeypatch.setattr("standfast.spark.packing.GATHERED_BYTES", 10_000)
    spec = Spec({"s": INPUTS["s"]}, {"q": "SELECT * FROM s WHERE v > :x"}, {}, "pairs", 1)
    ids = range(50)
    rows = pa.table({"k": ids, "name": ["x" * 1000] * 50, "v": [0.5] * 50, "id": ids})
    (batch,) = rows.append_column(ARRIVED, pa.array([0] * 50, TIME)).combine_chunks().to_batches()
    given = [row for some in pack_rows(spec.brief, [0], 0, [batch], Place(0, 0))
             for row in some.to_pylist()]  # fmt: skip
    assert max(len(row["body"]) for row in given) < 13_000
    taken = [Chunk(**{name: row[name] for name in Chunk._fields}).table() for row in given]
    assert pa.concat_tables(taken)["id"].to_pylist() == list(ids)


def test_an_empty_batch_before_the_rows_of_a_file_is_nothing() -> None:
    """It was put together by itself, and has no time at which it arrived."""
    spec = Spec({"t": INPUTS["t"]}, {"q": "SELECT * FROM t WHERE v > :x"}, {}, "pairs", 1)
    rows = pa.table({"k": [1], "v": [0.5], ARRIVED: pa.array([0], TIME)}).to_batches()[0]
    batches = [rows.slice(1), rows.replace_schema_metadata({"a": "file"})]
    (given,) = pack_rows(spec.brief, [0], 0, batches, Place(0, 0))
    assert given["n_rows"].to_pylist() == [1]


def test_a_batch_that_waits_for_others_is_weighed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that waited were weighed for each that came: small batches of Spark cost their square."""
    n_weighed = 0

    class Weighed:
        def __init__(self, batch: pa.RecordBatch) -> None:
            self.batch = batch

        def __getattr__(self, name: str) -> object:
            nonlocal n_weighed
            n_weighed += name == "nbytes"
            return getattr(self.batch, name)

    together = packing._together
    monkeypatch.setattr(packing, "_together", lambda some: together([one.batch for one in some]))
    spec = Spec({"s": INPUTS["s"]}, {"q": "SELECT * FROM s WHERE v > :x"}, {}, "pairs", 1)
    row = pa.table({"k": [1], "name": ["x"], "v": [0.5], "id": [1]})
    rows = pa.concat_tables([row] * 300).append_column(ARRIVED, pa.array([0] * 300, TIME))
    batches = [Weighed(batch) for batch in rows.to_batches()]
    assert len(batches) == 300
    (given,) = pack_rows(spec.brief, [0], 0, cast(list[pa.RecordBatch], batches), Place(0, 0))
    assert given["n_rows"].to_pylist() == [300]
    assert n_weighed == 300


def test_the_hash_is_that_of_spark() -> None:
    # SELECT hash(0), hash(1), hash(42), hash(-1), hash(2147483647)
    known = {0: 933211791, 1: -559580957, 42: 29417773, -1: -1604776387}
    assert {value: spark_hash(value) for value in known} == known


def test_windows_are_dealt_by_key_where_rows_are_asked_for() -> None:
    assert dealt(SUMS) == [("windows", ("q0",))]
    assert dealt(MARKS) == [("windows", ("q0",))]
    assert dealt(SUMS, ALL_SUMS, SUMS) == [("windows", ("q0", "q2")), ("windows", ("q1",))]
    assert dealt(SUMS, MARKS) == [("windows", ("q0", "q1"))], "both by the same key"


@pytest.mark.parametrize("form", ["pairs", "counts", "spans"])
def test_where_queries_are_named_one_shard_answers_a_query_over_all_keys(form: str) -> None:
    assert dealt(SUMS, MARKS, ALL_SUMS, form=form) == [("windows", ("q0", "q1", "q2"))]
    spec = Spec({"w": INPUTS["w"]}, {"q": SUMS}, {}, form_of(form), 4)
    assert spec.plan.grid(spec.plan.parts[0]) == (1, 4)


@pytest.mark.parametrize("n_shards", [1, 2, 3, 4, 6])
def test_every_key_and_query_of_a_window_has_one_shard_that_answers(n_shards: int) -> None:
    spec = Spec(
        {"w": INPUTS["w"]}, {"sums": SUMS, "whole": ALL_SUMS, "marks": MARKS}, {}, "rows", n_shards
    )
    n = 60
    table = pa.table(
        {
            "k": [f"k{i % 7}" for i in range(n)], "v": np.arange(n),
            "ts": pa.array(np.arange(n), pa.timestamp("us", "UTC")),
        }
    )  # fmt: skip
    stored: dict[tuple[int, str], set[int]] = {}
    for shard, chunk in packed(spec, 0, table):
        for key in chunk.table()["k"].to_pylist() if chunk.kind == ROWS else ():
            stored.setdefault((chunk.part, key), set()).add(shard)
    ids = np.random.default_rng(1).integers(0, 1 << 40, 500)
    assert {part for part, _ in stored} == {0, 1}
    for (number, _), shards in stored.items():
        shares = [spec.plan.share(spec.plan.parts[number], shard).has(ids) for shard in shards]
        assert np.all(np.sum(shares, axis=0) == 1), "a query is answered twice, or not at all"
    if n_shards == 4:
        sizes = {part: {len(s) for (p, _), s in stored.items() if p == part} for part in range(2)}
        assert sizes == {0: {2}, 1: {4}}


def forgone(still: tuple[str, ...], **templates: str) -> list[tuple[str, ...]]:
    read = {n: i for n, i in INPUTS.items() if any(f" {n} " in f"{s} " for s in templates.values())}
    spec = Spec(read, templates, {}, "pairs", 4, still)
    return [part.forgone for part in spec.plan.parts]


def test_rows_that_meet_only_what_does_not_grow_are_stored_nowhere() -> None:
    band = "SELECT * FROM s JOIN d ON s.v - d.v BETWEEN :a AND :b"
    keyed = SELECT.format("s", "d", "k", "k")
    assert forgone((), band=band) == [()]
    assert forgone(("d",), band=band) == [("s",)]
    assert forgone(("d",), keyed=keyed) == [("s",)]
    assert forgone(("t",), keyed=SELECT.format("s", "t", "k", "k")) == [("s",)]
    assert forgone(("d",), table=SELECT.format("t", "d", "k", "k")) == [()], "a table replaces rows"
    assert forgone(("d",), keyed=keyed, own=SELECT.format("s", "s", "k", "k")) == [()]
    assert forgone(("d", "s"), keyed=keyed) == [()], "both are needed"
    assert forgone(("d",), one="SELECT * FROM s WHERE v > :x", other=band) == [(), ("s",)]


def test_rows_that_are_stored_nowhere_go_to_the_shard_that_answers() -> None:
    inputs = {name: INPUTS[name] for name in ("d", "s")}
    band = {"q": "SELECT * FROM s JOIN d ON s.v - d.v BETWEEN :a AND :b"}
    spec = Spec(inputs, band, {}, "pairs", 4, ("d",))
    assert Brief.from_json(spec.brief.to_json()) == spec.brief
    table = pa.table({"k": [7] * 80, "name": ["x"] * 80, "v": [0.5] * 80, "id": range(80)})
    chunks = packed(spec, 1, table)
    assert all(chunk.owned for _, chunk in chunks)
    assert sum(chunk.n_rows for _, chunk in chunks) == 80
    assert {shard for shard, _ in chunks} == {0, 1, 2, 3}
    stored = packed(spec, 0, table.drop_columns(["id"]))
    assert sum(chunk.n_rows for _, chunk in stored) == 4 * 80
    assert any("of s nothing" in line for line in spec.plan.lines())
