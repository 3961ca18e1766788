"""Shards together answer as one engine does, and a shard built anew goes on as if nothing was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.playing import NOW_US, Outcome, chunks_of

from standfast import Engine
from standfast.model.stream import Input
from standfast.spark import shard as module
from standfast.spark.host import build
from standfast.spark.outputs import form_of
from standfast.spark.packing import ROW_BITS, TASK_BITS
from standfast.spark.shard import Shard
from standfast.spark.spec import Spec

INPUTS = {
    "s": Input.stream(
        "s", {"k": "string", "v": "float64", "ts": "timestamp", "id": "int64"}, time="ts",
        lateness_us=400, id="id",
    ),
    "d": Input.stream("d", {"k": "string", "v": "float64", "ts": "timestamp"}, time="ts",
                      lateness_us=400),
    "t": Input.table("t", {"k": "string", "v": "float64"}, key="k"),
}  # fmt: skip
TEMPLATES = {
    "filter": "SELECT * FROM s WHERE v BETWEEN :lo AND :hi",
    "band": "SELECT s.id, d.v FROM s JOIN d ON s.v - d.v BETWEEN :lo AND :hi",
    "select": "SELECT s.v, d.v AS other FROM s JOIN d ON s.k = d.k "
    "WHERE s.v BETWEEN :lo AND :hi AND d.v > :lo",
    "window": "SELECT s.v FROM s JOIN d ON s.k = d.k "
    "WHERE s.v > :lo AND d.v < :hi AND ABS(s.ts - d.ts) < :w",
    "self": "SELECT a.v FROM d a JOIN d b ON a.k = b.k WHERE a.v > :lo AND b.v < :hi",
    "table": "SELECT * FROM t WHERE v BETWEEN :lo AND :hi",
    "mixed": "SELECT s.v, t.v AS price FROM s JOIN t ON s.v - t.v BETWEEN :lo AND :hi",
    "sums": "SELECT k, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND "
    "CURRENT ROW) AS answer FROM s",
    "tops": "SELECT MAX(v) OVER (ORDER BY ts ROWS BETWEEN :w PRECEDING AND CURRENT ROW) AS answer "
    "FROM d QUALIFY answer > :lo",
    "marks": "SELECT k FROM d QUALIFY SUM(v) OVER (PARTITION BY k ORDER BY ts "
    "RANGE BETWEEN :w PRECEDING AND CURRENT ROW) BETWEEN :lo AND :hi",
}
WINDOWS = frozenset(["sums", "tops", "marks"])


def changes_of(batch: int, rng: np.random.Generator) -> pa.Table:
    """New queries of every template, some removed again, some wrong."""
    n = 8
    parts = []
    for i, template in enumerate(TEMPLATES):
        low = rng.normal(size=n)
        parts.append(
            pa.table(
                {
                    "template": [template] * n, "op": ["add"] * n,
                    "id": 1000 * i + n * batch + np.arange(n), "lo": low,
                    "hi": low + rng.uniform(-0.1, 1, n), "w": rng.integers(0, 500, n),
                }
            )
        )  # fmt: skip
        if batch:
            parts.append(
                pa.table(
                    {
                        "template": [template] * 3, "op": ["remove", "remove", "add"],
                        "id": 1000 * i + n * (batch - 1) + np.array([0, 777, 1]),
                        "lo": [0.0] * 3, "hi": [0.0] * 3, "w": [0] * 3,
                    }
                )
            )  # fmt: skip
    return pa.concat_tables(parts)


def rows_of(batch: int, rng: np.random.Generator) -> dict[str, pa.Table]:
    """Rows of every input: keys with a favourite, values out of order, late, double, null."""
    n = 40
    found = {}
    for name in ("s", "d"):
        times = 1_000_000 + 300 * batch + rng.integers(-600, 300, n)
        columns: dict[str, Any] = {
            "k": pa.array([None if x == 9 else "abc"[min(x, 2)] for x in rng.integers(0, 10, n)]),
            "v": np.where(rng.random(n) < 0.05, np.nan, rng.normal(size=n).round(2)),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
        if batch == 2:
            columns["ts"] = pa.array(
                times + (np.arange(n) == 3) * 10**12, pa.timestamp("us", "UTC")
            )
        if name == "s":
            columns["id"] = n * batch + np.arange(n) - 5 * (rng.random(n) < 0.2)
        found[name] = pa.table(columns)
    found["t"] = pa.table({"k": [f"k{i}" for i in rng.integers(0, 6, 5)], "v": rng.normal(size=5)})
    return found


def history(n_batches: int = 5) -> list[tuple[pa.Table, dict[str, pa.Table]]]:
    rng = np.random.default_rng(7)
    return [(changes_of(b, rng), rows_of(b, rng)) for b in range(n_batches)]


def spec_of(n_shards: int, form: str = "pairs") -> Spec:
    return Spec(INPUTS, TEMPLATES, {}, form_of(form), n_shards)


def played(n_shards: int, form: str = "pairs", *, again: int | None = None) -> Outcome:
    """All micro-batches on this many shards; before batch `again` all shards are built anew."""
    spec, outcome = spec_of(n_shards, form), Outcome()
    shards = [Shard(Spec.from_json(spec.to_json()), i) for i in range(n_shards)]
    states: list[list[bytes]] = [[shard.to_bytes()] for shard in shards]
    for batch, (changes, rows) in enumerate(history()):
        if batch == again:
            for i, (base, *logs) in enumerate(states):
                shards[i] = build(spec, i, [base, *logs])
                shards[i].check()
        for i, chunks in enumerate(chunks_of(spec, batch, changes, rows)):
            done = outcome.apply(spec, shards[i], chunks)
            states[i].append(done.log)
            if batch == 1:
                states[i] = [shards[i].to_bytes()]
    return outcome


def by_engine() -> Counter[tuple[Any, ...]]:
    """The pairs of an engine that follows, fed by task like the shards, and of one for windows."""
    engine, windows = (Engine(follows=True, clock=lambda: NOW_US) for _ in range(2))
    for name, source in INPUTS.items():
        if source.key:
            engine.table(name, source.columns, key=source.key)
            continue
        for each in (engine, windows):
            each.stream(
                name, source.columns, time=source.time, lateness_us=source.lateness_us, id=source.id
            )
    groups = {
        name: (windows if name in WINDOWS else engine).register(sql, name=name)
        for name, sql in TEMPLATES.items()
    }
    found: Counter[tuple[Any, ...]] = Counter()
    latest: dict[str, int] = {}
    for batch, (changes, rows) in enumerate(history()):
        for change in changes.to_pylist():
            group, identity = groups[change["template"]], change["id"]
            known = group.registry.slots_of(np.array([identity]))[0] >= 0
            if change["op"] == "remove" and known:
                group.remove([identity])
            elif change["op"] == "add" and not known:
                holes = [hole.name for hole in group.template.holes]
                group.add({"id": [identity]} | {hole: [change[hole]] for hole in holes})
        for name, table in rows.items():
            for task in range(2):
                half = table.num_rows // 2
                part = table.slice(task * half, half if task == 0 else None)
                if name in windows.inputs:
                    windows.store(name, part)
                for template, answer in engine.push(name, part).items():
                    for pair in answer.pairs().to_pylist():
                        event = ((batch << TASK_BITS | task) << ROW_BITS) + pair["row"]
                        if name == "s":
                            event = part["id"][pair["row"]].as_py()
                        key = (template, pair["query"], name, event, pair.get("change", 1))
                        found[(*key, batch + 1)] += 1
            if INPUTS[name].time:
                times = table["ts"].cast(pa.int64()).to_numpy()
                seen = times[times < NOW_US + 300_000_000]
                latest[name] = max(latest.get(name, 0), int(seen.max()))
        for name, at in latest.items():
            engine.advance(name, at)
            windows.advance(name, at)
        for template, answer in windows.report().items():
            for pair in answer.pairs().to_pylist():
                name = groups[template].inputs[0]
                found[template, pair["query"], name, None, pair["change"], batch + 1] += 1
    return found


@pytest.fixture(scope="module")
def alone() -> Counter[tuple[Any, ...]]:
    return by_engine()


def test_one_shard_answers_as_the_engine(alone: Counter[tuple[Any, ...]]) -> None:
    outcome = played(1)
    assert sum(alone.values()) > 1000
    assert {key[0] for key in alone} == set(TEMPLATES)
    assert outcome.answers == alone


@pytest.mark.parametrize("n_shards", [2, 3, 4, 6])
def test_several_shards_answer_as_one(n_shards: int, alone: Counter[tuple[Any, ...]]) -> None:
    # Where rows are cut shows in two ways: of two rows that meet in a self join the later one is
    # named, and a row of a table that comes and goes within a micro-batch is told or not.
    other, one = played(n_shards), played(1)
    for template in set(TEMPLATES) - {"self", "table", "mixed"}:
        mine = {key: n for key, n in other.answers.items() if key[0] == template}
        assert mine == {key: n for key, n in alone.items() if key[0] == template}
    assert other.letters == one.letters
    for what in ("received", "used", "late", "duplicate", "rejected"):
        assert other.tally[what] == one.tally[what] > 0, what


@pytest.mark.parametrize("n_shards", [2, 3, 4])
def test_several_shards_accumulate_the_same_results(n_shards: int) -> None:
    found, wanted = played(n_shards, "rows").answers, played(1, "rows").answers
    names = spec_of(1, "rows").output.schema.names
    change = names.index("change")
    kept = [i for i, n in enumerate(names) if n not in ("input", "event", "registry", "change")]

    def results(answers: Counter[tuple[Any, ...]]) -> dict[str, int]:
        total: Counter[str] = Counter()
        for key, n in answers.items():
            total[str([key[i] for i in kept])] += n * key[change]
        return {row: n for row, n in total.items() if n}

    assert len(results(wanted)) > 1000
    assert results(found) == results(wanted)


def test_a_row_is_used_late_double_or_rejected() -> None:
    tally = played(2).tally
    assert tally["received"] == sum(
        table.num_rows for _, rows in history() for table in rows.values()
    )
    parts = ("used", "late", "duplicate", "rejected")
    assert tally["received"] == sum(tally[what] for what in parts)


@pytest.mark.parametrize("again", [1, 2, 3, 4])
def test_a_shard_built_anew_goes_on(again: int) -> None:
    whole, rebuilt = played(2), played(2, again=again)
    assert rebuilt.answers == whole.answers
    assert rebuilt.letters == whole.letters
    counted = [name for name in whole.tally if not name.endswith(("_us", "_bytes"))]
    assert {n: rebuilt.tally[n] for n in counted} == {n: whole.tally[n] for n in counted}


@pytest.mark.parametrize("form", ["counts", "spans"])
def test_compact_forms_say_the_same(form: str) -> None:
    pairs, compact = played(2).answers, played(2, form).answers
    # Of windows every shard says so of its own queries.
    pairs, compact = (
        {key: n for key, n in found.items() if key[0] not in WINDOWS} for found in (pairs, compact)
    )
    per_event: Counter[tuple[Any, ...]] = Counter()
    for (template, _, name, event, change, registry), n in pairs.items():
        per_event[template, name, event, change if form == "spans" else 1, registry] += n
    if form == "spans":
        for (template, name, event, queries, change, registry), n in compact.items():
            assert n == 1
            assert per_event[template, name, event, change, registry] == len(queries)
        assert len(compact) == len(per_event)
    else:
        streams = {key: n for key, n in per_event.items() if key[0] not in ("table", "mixed")}
        found = {(t, n, e, 1, r): q for (t, n, e, q, r) in compact if t not in ("table", "mixed")}
        assert found == streams


def test_counts_of_windows_add_up_over_the_shards() -> None:
    queries: dict[tuple[Any, ...], set[int]] = {}
    for template, query, name, event, _, registry in played(3).answers:
        if template in WINDOWS:
            assert event is None
            queries.setdefault((template, name, registry), set()).add(query)
    total: Counter[tuple[Any, ...]] = Counter()
    for (template, name, _, n, registry), times in played(3, "counts").answers.items():
        if template in WINDOWS:
            total[template, name, registry] += n * times
    assert {key[0] for key in queries} == WINDOWS
    assert total == {key: len(found) for key, found in queries.items()}


@pytest.mark.parametrize("form", ["pairs", "spans", "counts"])
def test_rows_are_pushed_in_pieces_whose_answers_fit_into_memory(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand answers at once, and every row brings a hundred."""
    monkeypatch.setattr(module, "ANSWERS_AT_ONCE", 1000)
    source = Input.stream("s", {"v": "float64"})
    sqls = {"q": "SELECT * FROM s WHERE v BETWEEN :lo AND :hi"}
    spec, outcome = Spec({"s": source}, sqls, {}, form_of(form), 1), Outcome()
    shard, sizes = Shard(spec), list[int]()
    push = Engine.push

    def noted(engine: Engine, name: str, rows: pa.Table, **more: Any) -> Any:
        sizes.append(rows.num_rows)
        return push(engine, name, rows, **more)

    monkeypatch.setattr(Engine, "push", noted)
    n = 100
    changes = pa.table({"template": ["q"] * n, "id": range(n), "lo": [0.0] * n, "hi": [1.0] * n})
    for batch in range(2):
        rows = {"s": pa.table({"v": [0.5] * 500})}
        (chunks,) = chunks_of(spec, batch, changes if batch == 0 else None, rows, tasks=1)
        outcome.apply(spec, shard, chunks)
    first = module.FIRST_ROWS_AT_ONCE
    if form == "counts":  # a number for each row, however many queries it counts
        assert sizes == [first, 500 - first, 500]
    else:
        assert sizes[0] == first
        assert max(sizes[1:]) == 10
    assert sum(sizes) == 1000
    assert outcome.tally["affected"] == 1000 * n
    assert 0 < outcome.tally["memory_bytes"] < outcome.tally["peak_bytes"]


@pytest.mark.parametrize("n_shards", [1, 3])
def test_rows_that_meet_only_what_does_not_grow_leave_nothing_behind(n_shards: int) -> None:
    """The same answers whether the shards know it or not; knowing it, they keep nothing."""
    rng, n = np.random.default_rng(5), 60
    inputs = {name: Input.stream(name, {"v": "float64"}) for name in ("still", "live")}
    sqls = {"q": "SELECT l.v FROM live l JOIN still s ON l.v - s.v BETWEEN :lo AND :hi"}
    low = rng.normal(size=n)
    changes = pa.table({"template": ["q"] * n, "id": range(n), "lo": low, "hi": low + 0.2})
    rows = {name: [pa.table({"v": rng.normal(size=50)}) for _ in range(4)] for name in inputs}
    outcomes = {}
    for still in ((), ("still",)):
        spec, outcome = Spec(inputs, sqls, {}, form_of("pairs"), n_shards, still), Outcome()
        shards = [Shard(spec, i) for i in range(n_shards)]
        logs = list[int]()
        for batch in range(4):
            some = {"live": rows["live"][batch]} | ({} if batch else {"still": rows["still"][0]})
            parts = chunks_of(spec, batch, None if batch else changes, some)
            done = [outcome.apply(spec, s, chunks) for s, chunks in zip(shards, parts, strict=True)]
            logs.append(sum(len(each.log) for each in done))
            shards = [build(spec, i, [shard.to_bytes()]) for i, shard in enumerate(shards)]
        outcomes[still] = outcome.answers
        assert logs[0] > 0
        assert all(log > 0 for log in logs[1:]) == (still == ())
        assert any(log > 0 for log in logs[1:]) == (still == ())
    assert len(outcomes[()]) > 500
    assert outcomes[()] == outcomes[("still",)]
