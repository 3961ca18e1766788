"""What a shard enumerates at once is bounded, however much a micro-batch brings."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.spark.playing import Outcome, chunks_of

from standfast import Answer
from standfast.engine import cutting
from standfast.engine.joins import JoinResults
from standfast.engine.relations import Columns, Relation
from standfast.model.stream import Input
from standfast.spark import outputs
from standfast.spark.once import in_one_go
from standfast.spark.outputs import ANSWERS, TALLY, form_of
from standfast.spark.shard import Shard
from standfast.spark.shards import shard_keys
from standfast.spark.spec import Spec
from standfast.spark.wire import Chunk

PIECE = 1000
POOLS: list[pa.MemoryPool] = []  # for as long as anything lives that they gave out
KINDS = {"k": "int64", "v": "float64", "ts": "timestamp"}
INPUTS = {name: Input.stream(name, KINDS, time="ts", lateness_us=10**9) for name in ("s", "d")}
SQLS = {
    "filter": "SELECT v FROM s WHERE v BETWEEN :lo AND :hi",
    "band": "SELECT s.v, d.v AS other FROM s JOIN d ON s.v - d.v BETWEEN :lo AND :hi",
    "select": "SELECT s.v, d.v AS other FROM s JOIN d ON s.k = d.k "
    "WHERE s.v BETWEEN :lo AND :hi AND d.v > :lo",
    "self": "SELECT a.v FROM s a JOIN s b ON a.v - b.v BETWEEN :lo AND :hi",
    "sums": "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND "
    "CURRENT ROW) AS answer FROM s",
    "marks": "SELECT k FROM s QUALIFY SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w "
    "PRECEDING AND CURRENT ROW) BETWEEN :lo AND :hi",
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "PIECE", PIECE)


def rows(n: int, value: float = 0.5) -> pa.Table:
    """So many rows at one time, of many keys or of one value."""
    times = pa.array(np.full(n, 10**6), pa.timestamp("us", "UTC"))
    return pa.table({"k": np.arange(n) % 50, "v": np.full(n, value), "ts": times})


class Played:
    """A shard of one template with queries that everything near 0.5 affects."""

    def __init__(self, template: str, form: str, n_queries: int) -> None:
        read = {name: source for name, source in INPUTS.items() if f"{name}." in SQLS[template]}
        read = read or {"s": INPUTS["s"]}
        self.spec = Spec(read, {template: SQLS[template]}, {}, form_of(form), 1)
        self.shard, self.outcome, self.batch = Shard(self.spec), Outcome(), 0
        n = n_queries
        columns: dict[str, Any] = {"template": [template] * n, "id": range(n), "w": [10**6] * n}
        self.add = pa.table(columns | {"lo": np.full(n, -1.0), "hi": np.full(n, 10.0)})

    def chunks(self, taken: dict[str, pa.Table]) -> list[Chunk]:
        """The next micro-batch; all queries come with the first."""
        changes = None if self.batch else self.add
        taken = {name: table for name, table in taken.items() if name in self.spec.inputs}
        (chunks,) = chunks_of(self.spec, self.batch, changes, taken, tasks=1)
        self.batch += 1
        return chunks

    def told(self, **taken: pa.Table) -> Counter[tuple[Any, ...]]:
        """What there is to tell after a micro-batch."""
        self.outcome.apply(self.spec, self.shard, self.chunks(taken))
        return self.outcome.answers

    def apply(self, **taken: pa.Table) -> int:
        """A micro-batch; how many bytes it took at most, beyond what there was before."""
        chunks = self.chunks(taken)
        before = pa.default_memory_pool()
        pool = pa.proxy_memory_pool(before)
        POOLS.append(pool)
        pa.set_memory_pool(pool)
        tracemalloc.start()
        try:
            self.outcome.tally.update(self.shard.apply(chunks, lambda kind, body: None).tally)
            return tracemalloc.get_traced_memory()[1] + pool.max_memory()
        finally:
            tracemalloc.stop()
            pa.set_memory_pool(before)


@pytest.mark.parametrize("form", ["pairs", "rows"])
@pytest.mark.parametrize("template", ["filter", "band", "select", "self"])
def test_no_piece_is_larger_than_stated(
    template: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One event affects three pieces of queries, and joins some rows for each of them."""
    sizes = enumerated(monkeypatch)
    played = Played(template, form, 3 * PIECE)
    played.apply(d=rows(60, 0.4), s=rows(2, 0.4))
    sizes.clear()
    played.apply(s=rows(1))
    assert sum(sizes) >= 3 * PIECE
    assert max(sizes) <= PIECE


@pytest.mark.parametrize("template", ["sums", "marks"])
def test_no_piece_of_a_report_is_larger_than_stated(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every query has an answer for each of fifty keys."""
    sizes = enumerated(monkeypatch)
    played = Played(template, "rows", PIECE)
    played.apply(s=rows(50))
    assert played.outcome.tally["answers"] == 50 * PIECE == sum(sizes) // 2
    assert max(sizes) <= PIECE


TEXTS = {
    "filter": "SELECT note FROM s WHERE v BETWEEN :lo AND :hi",
    "band": "SELECT s.note, d.note AS other FROM s JOIN d ON s.v - d.v BETWEEN :lo AND :hi",
    "select": "SELECT s.v, d.note AS other FROM s JOIN d ON s.k = d.k "
    "WHERE d.v BETWEEN :lo AND :hi",
    "bare": "SELECT s.v FROM s JOIN d ON s.k = d.k WHERE d.v BETWEEN :lo AND :hi",
}


def with_notes(template: str, monkeypatch: pytest.MonkeyPatch) -> Played:
    """A shard whose rows have texts of a kilobyte and more; a few of them make a full piece."""
    monkeypatch.setitem(SQLS, template, TEXTS[template])
    for name in INPUTS:
        source = Input.stream(name, KINDS | {"note": "string"}, time="ts", lateness_us=10**9)
        monkeypatch.setitem(INPUTS, name, source)
    played = Played(template, "rows", 30)
    played.told(d=noted(8))
    return played


def noted(n: int) -> pa.Table:
    notes = pa.array([None if i == 3 else f"{i}é" * (500 * i) for i in range(n)])
    return rows(n).append_column("note", notes)


@pytest.mark.parametrize("template", TEXTS)
def test_no_piece_has_more_text_than_stated(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces were counted in rows: long texts filled the memory, or did not fit into one array."""
    wanted = with_notes(template, monkeypatch).told(s=noted(6), d=noted(4))
    monkeypatch.setattr(cutting, "TEXT_AT_ONCE", 20_000)
    sizes, traced = list[int](), Answer._traced

    def weighed(answer: Answer, most: int) -> Any:
        for table, pushed in traced(answer, most):
            texts = [table[name] for name in ("note", "other") if name in table.column_names]
            sizes.append(sum(pc.sum(pc.binary_length(text)).as_py() or 0 for text in texts))
            yield table, pushed

    monkeypatch.setattr(Answer, "_traced", weighed)
    found = with_notes(template, monkeypatch).told(s=noted(6), d=noted(4))
    assert found == wanted
    assert found.total() > 100
    if template == "bare":
        assert not any(sizes), "no text is selected"
    else:
        assert 10_000 < max(sizes) <= 20_000 < sum(sizes)


@pytest.mark.parametrize("template", ["sums", "marks"])
def test_no_piece_of_a_report_has_more_text_than_stated(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys are texts of a hundred characters, which each query names."""
    source = Input.stream("s", KINDS | {"k": "string"}, time="ts", lateness_us=10**9)
    monkeypatch.setitem(INPUTS, "s", source)
    monkeypatch.setattr(cutting, "TEXT_AT_ONCE", 20_000)
    sizes = enumerated(monkeypatch)
    played, keys = Played(template, "rows", 30), pa.array([f"{i:0100}" for i in range(50)])
    assert played.told(s=rows(50).set_column(0, "k", keys)).total() == 50 * 30
    assert max(sizes) == 20_000 // (4 * 100)


def test_a_text_that_is_not_selected_is_not_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event was taken with all its columns, once for each query that it affects."""
    monkeypatch.setitem(SQLS, "bare", "SELECT v FROM s WHERE v BETWEEN :lo AND :hi")
    source = Input.stream("s", KINDS | {"note": "string"}, time="ts", lateness_us=10**9)
    monkeypatch.setitem(INPUTS, "s", source)
    played = Played("bare", "rows", 300)
    event = rows(1).append_column("note", pa.array(["x" * 1_000_000]))
    assert played.apply(s=event) < 100_000_000
    assert played.outcome.tally["answers"] == 300


def enumerated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes how many pairs and result rows are written out at a time."""
    sizes, pairs, traced = list[int](), Answer.pairs, Answer._traced
    joined, of = JoinResults.rows, Columns.of

    def noted_pairs(answer: Answer) -> pa.Table:
        found = pairs(answer)
        sizes.append(found.num_rows)
        return found

    def noted_traced(answer: Answer, most: int) -> Any:
        for table, pushed in traced(answer, most):
            sizes.append(table.num_rows)
            yield table, pushed

    def noted_rows(results: JoinResults, *given: Any) -> Any:
        for pair, columns in joined(results, *given):
            sizes.append(pair.size)
            yield pair, columns

    def noted_columns(columns: Columns, found: Relation) -> Any:
        sizes.append(found.slots.size)
        return of(columns, found)

    monkeypatch.setattr(Answer, "pairs", noted_pairs)
    monkeypatch.setattr(Answer, "_traced", noted_traced)
    monkeypatch.setattr(JoinResults, "rows", noted_rows)
    monkeypatch.setattr(Columns, "of", noted_columns)
    return sizes


@pytest.mark.parametrize("form", ["pairs", "rows", "spans"])
def test_a_burst_takes_no_more_memory_than_a_piece(form: str) -> None:
    """After quiet rows many are pushed at once; eight times the answers in the same memory."""
    peaks = []
    for n in (10, 80):
        played = Played("band", form, 10 * PIECE)
        played.apply(d=rows(1, 0.4))
        for _ in range(2):
            played.apply(s=rows(600, 99.0))
        peaks.append(played.apply(s=rows(n)))
        assert played.outcome.tally["affected"] == 10 * PIECE * n
    assert peaks[1] < 1.5 * peaks[0], peaks


def test_a_pair_that_joins_many_rows_takes_no_more_memory_than_a_piece() -> None:
    """One event and one query, and eight times the stored rows."""
    peaks = []
    for n in (5 * PIECE, 40 * PIECE):
        played = Played("band", "rows", 1)
        played.apply(d=rows(n))
        played.apply(s=rows(1))
        peaks.append(played.apply(s=rows(1)))
        assert played.outcome.tally["answers"] == 2 * n
    assert peaks[1] < 1.5 * peaks[0], peaks


def test_a_shard_of_static_frames_gives_each_piece_away_before_it_makes_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All pieces were put together first: a backfill had to fit into memory, and into one array."""
    sizes, played = enumerated(monkeypatch), Played("filter", "pairs", 3 * PIECE)
    (chunks,) = chunks_of(played.spec, 0, played.add, {"s": rows(4)}, tasks=1)
    key = shard_keys(1)[0]
    table = pa.Table.from_pylist([chunk._asdict() | {"shard": key} for chunk in chunks])
    made = []
    for batch in in_one_go(played.spec.to_json(), table.to_batches()):
        made.append(sum(sizes))
        assert batch.num_rows == 1
        (kind,) = batch["kind"].to_pylist()
        assert kind == (ANSWERS if len(made) <= 12 else TALLY)
    assert made == [*range(PIECE, 12 * PIECE + 1, PIECE), 12 * PIECE]
    assert batch["answers"].to_pylist() == [12 * PIECE]
