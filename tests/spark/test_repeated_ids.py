"""An id that comes again is known on every shard, whatever its key, as in one engine."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.spark.playing import NOW_US, Outcome, chunks_of

from standfast import Engine
from standfast.model.stream import Input
from standfast.spark import packing
from standfast.spark import shard as module
from standfast.spark.brief import Brief
from standfast.spark.host import build
from standfast.spark.shard import COUNTERS, Shard
from standfast.spark.spec import Spec
from standfast.spark.state import Meta, WrongState, read_meta
from standfast.spark.wire import ROWS, Chunk, sealed

OVER = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN 10000 PRECEDING AND CURRENT ROW)"
TEMPLATES = {
    "filter": "SELECT n FROM s WHERE n >= :lo",
    "joined": "SELECT s.n, d.v FROM s JOIN d ON s.k = d.k WHERE s.n >= :lo AND d.v >= :lo",
    "sums": f"SELECT k, SUM(n) {OVER} AS answer FROM s QUALIFY answer >= :lo",
    "marks": f"SELECT k FROM s QUALIFY SUM(n) {OVER} >= :lo",
}
SELECTED = {"filter": ("n",), "joined": ("n", "v"), "sums": ("k", "answer"), "marks": ("k",)}


def inputs_of(kind: str) -> dict[str, Input]:
    columns = {"k": "int64", "n": "int64", "word": "string", "ts": "timestamp", "id": kind}
    return {
        "d": Input.stream("d", {"k": "int64", "v": "int64"}),
        "s": Input.stream("s", columns, time="ts", lateness_us=100, id="id"),
    }


def spec_of(
    n_shards: int, kind: str = "int64", still: tuple[str, ...] = (),
    templates: tuple[str, ...] = tuple(TEMPLATES),
) -> Spec:  # fmt: skip
    sqls = {name: TEMPLATES[name] for name in templates}
    return Spec(inputs_of(kind), sqls, {}, "rows", n_shards, still)


def as_strings(words: pa.Array) -> pa.Array:
    """As Spark hands over bytes that were cast to a string."""
    return pa.Array.from_buffers(pa.string(), len(words), words.buffers())


def rows_of(rng: Random, kind: str, batch: int, n: int = 60) -> pa.Table:
    """Few ids and keys; late, of the far future, without time, id or key, with damaged text."""
    rows = []
    for i in range(n):
        at: int | None = 1_000_000 + 60 * batch + rng.randint(-160, 60)
        odd, identity = rng.random(), rng.randint(0, 25)
        at = None if odd < 0.04 else 10**15 if odd < 0.08 else at
        rows.append(
            {
                "k": rng.choice([*range(7), None]),
                "n": batch * n + i,
                "word": b"\xff" if 0.08 < odd < 0.12 else b"fine",
                "ts": at + 100 if at and 0.08 < odd < 0.12 else at,
                "id": None if rng.random() < 0.04 else identity,
            }
        )
    table = pa.Table.from_pylist(
        rows, pa.schema([("k", pa.int64()), ("n", pa.int64()), ("word", pa.binary()),
                         ("ts", pa.timestamp("us", "UTC")), ("id", pa.int64())]),
    )  # fmt: skip
    table = table.set_column(2, "word", as_strings(table["word"].combine_chunks()))
    return table if kind == "int64" else table.set_column(4, "id", table["id"].cast(pa.string()))


def history(seed: int, kind: str) -> list[tuple[pa.Table | None, dict[str, pa.Table]]]:
    rng = Random(seed)
    names = [name for name in TEMPLATES for _ in range(6)]
    changes = pa.table(
        {"template": names, "id": range(len(names)), "lo": [0, 5, 40, 90, 150, 200] * 4}
    )
    side = pa.table({"k": [*range(7)] * 2, "v": range(0, 280, 20)})
    found: list[tuple[pa.Table | None, dict[str, pa.Table]]] = []
    for batch in range(6):
        rows = {"s": rows_of(rng, kind, batch)}
        found.append((None, rows) if batch else (changes, {"d": side, **rows}))
    return found


Answers = Counter[tuple[Any, ...]]


def alone(seed: int, kind: str) -> tuple[Answers, Answers, dict[str, int]]:
    """What one engine says, and one for windows: answers, dead letters of `s`, and counters."""
    plain, windows = (Engine(follows=True, clock=lambda: NOW_US) for _ in range(2))
    for name, declared in inputs_of(kind).items():
        for each in (plain, windows):
            each.stream(
                name, declared.columns, time=declared.time, lateness_us=declared.lateness_us,
                id=declared.id,
            )  # fmt: skip
    for name, sql in TEMPLATES.items():
        (windows if name in ("sums", "marks") else plain).register(sql, name=name)
    groups = {**plain.groups, **windows.groups}
    found: Answers = Counter()
    letters: Answers = Counter()
    for changes, rows in history(seed, kind):
        for change in changes.to_pylist() if changes is not None else ():
            groups[change["template"]].add({"id": [change["id"]], "lo": [change["lo"]]})
        for name, table in rows.items():
            for template, answer in plain.push(name, table).items():
                found.update((template, *row.values()) for row in answer.rows().to_pylist())
            windows.store(name, table)
        ids = rows["s"]["id"].to_pylist()
        for letter in plain.dead_letters(take=True).to_pylist():
            event = ids[letter["row"]]
            told = (letter["reason"], letter["column"], letter["value"])
            letters["s", None if event is None else str(event), *told] += 1
        is_fine = pc.equal(rows["s"]["word"].cast(pa.binary()), b"fine")
        known = rows["s"].filter(pc.and_(rows["s"]["id"].is_valid(), is_fine))["ts"]
        latest = max(at for at in known.cast(pa.int64()).to_pylist() if at and at < NOW_US)
        for each in (plain, windows):
            each.advance("s", latest)
        for template, answer in windows.report().items():
            found.update((template, *row.values()) for row in answer.rows().to_pylist())
    return found, letters, plain.counters("s")


def apart(
    spec: Spec, seed: int, kind: str, again: int | None = None
) -> tuple[Answers, Answers, dict[str, int]]:
    """The same of shards, which before batch `again` are all built anew."""
    outcome, found = Outcome(), Counter[tuple[Any, ...]]()
    shards = [Shard(Spec.from_json(spec.to_json()), i) for i in range(spec.n_shards)]
    states = [[shard.to_bytes()] for shard in shards]
    received = 0
    for batch, (changes, rows) in enumerate(history(seed, kind)):
        if batch == again:
            shards = [build(spec, i, state) for i, state in enumerate(states)]
        received += rows["d"].num_rows if "d" in rows else 0
        for i, chunks in enumerate(chunks_of(spec, batch, changes, rows, tasks=3)):
            states[i].append(outcome.apply(spec, shards[i], chunks).log)
            shards[i].check()
            if batch == 2:
                states[i] = [shards[i].to_bytes()]
    for key, times in outcome.answers.items():
        row = dict(zip(spec.output.schema.names, key, strict=True))
        values = (row[name] for name in (*SELECTED[row["template"]], "change"))
        found[row["template"], row["query"], *values] += times
    counted = {name: outcome.tally[name] for name in COUNTERS}
    counted["received"] -= received
    counted["used"] -= received
    letters = Counter({key: n for key, n in outcome.letters.items() if key[0] == "s"})
    return found, letters, counted


@pytest.mark.parametrize(
    ("n_shards", "kind", "seeds"),
    [(1, "string", 1), (2, "int64", 1), (4, "int64", 1), (4, "string", 1), (6, "string", 1)],
)
def test_shards_use_the_rows_that_one_engine_uses(n_shards: int, kind: str, seeds: int) -> None:
    for seed in range(seeds):
        answers, letters, counted = alone(seed, kind)
        assert apart(spec_of(n_shards, kind), seed, kind) == (answers, letters, counted)
        assert {key[0] for key in answers} == set(TEMPLATES)
        assert counted["received"] == sum(counted[name] for name in COUNTERS[1:])
        assert min(counted.values()) > 10


def test_without_being_told_a_shard_would_use_ids_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the histories have what they are for."""
    monkeypatch.setattr(Chunk, "notes", lambda chunk: None)
    answers, _, _ = alone(0, "int64")
    found, _, _ = apart(spec_of(4), 0, "int64")
    assert {key[0] for key in found - answers} >= {"joined", "sums"}


@pytest.mark.parametrize("templates", [("joined",), ("joined", "filter"), ("marks", "joined")])
def test_parts_agree_whichever_counts_and_whether_rows_are_stored(
    templates: tuple[str, ...],
) -> None:
    for still in ((), ("d",)):
        answers, letters, counted = alone(5, "int64")
        answers = Counter({key: n for key, n in answers.items() if key[0] in templates})
        spec = spec_of(4, still=still, templates=templates)
        assert any(part.forgone for part in spec.plan.parts) == (still != ())
        found = apart(spec, 5, "int64")
        assert found[1:] == (letters, counted)
        assert {key: n for key, n in found[0].items() if key[0] in templates} == answers


@pytest.mark.parametrize("again", [1, 3])
def test_a_shard_built_anew_knows_the_ids_of_all(again: int) -> None:
    """Before the third batch from the log alone, behind it from snapshot and log."""
    spec = spec_of(4)
    assert apart(spec, 9, "int64", again) == alone(9, "int64")


def test_cuts_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task has several chunks for a shard, and a chunk is pushed in pieces."""
    monkeypatch.setattr(packing, "GATHERED", 8)
    monkeypatch.setattr(module, "MOST_ROWS_AT_ONCE", 3)
    assert apart(spec_of(4, "string"), 0, "string") == alone(0, "string")


def chunks_and_notes(spec: Spec) -> tuple[int, list[pa.Table]]:
    """How many chunks of rows `s` makes, and what is noted in them."""
    rows = history(0, "int64")[0][1]
    chunks = [c for some in chunks_of(spec, 0, None, rows) for c in some if c.kind == ROWS]
    notes = [chunk.notes() for chunk in chunks]
    return len(chunks), [some for some in notes if some is not None]


def test_an_id_costs_twenty_bytes_on_each_shard_of_another_bucket() -> None:
    _, notes = chunks_and_notes(spec_of(4, templates=("joined",)))
    n_ids = sum(some.num_rows for some in notes)
    usable = packing._notes(inputs_of("int64")["s"], history(0, "int64")[0][1]["s"], NOW_US)
    assert n_ids == 2 * usable.places.size, "two of four shards hold the row, two note it"
    assert sum(some.nbytes for some in notes) == 20 * n_ids


def test_nothing_is_noted_where_there_is_one_bucket_or_no_id() -> None:
    for spec in (spec_of(1), spec_of(2), spec_of(3), spec_of(4, templates=("filter", "joined"))):
        n_chunks, notes = chunks_and_notes(spec)
        assert n_chunks > 0
        assert bool(notes) == (spec.n_shards == 4)
        assert Brief.from_json(spec.brief.to_json()) == spec.brief
    plain = {name: Input.stream(name, i.columns) for name, i in inputs_of("int64").items()}
    spec = Spec(plain, {"joined": TEMPLATES["joined"]}, {}, "rows", 4)
    assert not any(part.noted for part in spec.plan.parts)
    assert not any("told to all buckets" in line for line in spec.plan.lines())
    assert any("ids of s told to all buckets" in line for line in spec_of(4).plan.lines())


def test_a_row_whose_key_is_no_text_is_rejected_and_does_not_use_its_id() -> None:
    sources = {
        "d": Input.stream("d", {"k": "string"}),
        "s": Input.stream("s", {"k": "string", "id": "int64"}, id="id"),
    }
    sql = "SELECT s.id FROM s JOIN d ON s.k = d.k WHERE s.id >= :lo"
    spec, outcome = Spec(sources, {"q": sql}, {}, "rows", 4), Outcome()
    words = [b"a", b"\xff", b"b", b"c", b"\xfe"]
    rows = {
        "d": pa.table({"k": ["a", "b", "c", "d"]}),
        "s": pa.table({"k": as_strings(pa.array(words)), "id": [1, 2, 2, 1, 3]}),
    }
    changes = pa.table({"template": ["q"], "id": [7], "lo": [0]})
    for i, chunks in enumerate(chunks_of(spec, 0, changes, rows)):
        outcome.apply(spec, Shard(spec, i), chunks)
    assert {key[spec.output.schema.names.index("event")] for key in outcome.answers} == {1, 2}
    assert Counter(key[2] for key in outcome.letters) == {"wrong type": 2, "duplicate": 1}


def test_a_dead_letter_whose_id_is_no_text_can_be_read() -> None:
    """Its bytes were handed on as they were, and whoever read them as text got an error."""
    source = Input.stream("s", {"id": "string", "v": "int64"}, id="id")
    spec, outcome = (
        Spec({"s": source}, {"q": "SELECT v FROM s WHERE v > :lo"}, {}, "rows", 2),
        Outcome(),
    )
    ids = as_strings(pa.array([b"a", b"a\xff", None]))
    parts = chunks_of(spec, 0, None, {"s": pa.table({"id": ids, "v": [1, 2, 3]})})
    for i, chunks in enumerate(parts):
        outcome.apply(spec, Shard(spec, i), chunks)
    assert {(letter[1], letter[2]) for letter in outcome.letters} == {
        ("a\ufffd", "wrong type"), (None, "null id")
    }  # fmt: skip


class Cells:
    """A meta row of a job that noted no ids."""

    def __init__(self, digest: str) -> None:
        self.digest = digest

    def meta(self) -> bytes:
        return sealed(json.dumps(asdict(Meta(self.digest, 4, version=1))).encode())


def test_a_checkpoint_of_shards_that_were_told_nothing_is_refused() -> None:
    spec = spec_of(4)
    parts = tuple(replace(part, noted=()) for part in spec.plan.parts)
    before = Spec(spec.inputs, spec.templates, {}, "rows", 4)
    before.__dict__["plan"] = replace(spec.plan, parts=parts)
    assert before.digest != spec.digest
    with pytest.raises(WrongState, match="or by an earlier version") as refused:
        read_meta(Cells(before.digest), spec.brief)
    assert "start with a new checkpoint" in str(refused.value)
