"""Changes of queries: good ones are applied, bad ones named, one that comes again is counted."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from standfast import Engine, Group
from standfast.spark.changes import Outcome, apply


def groups() -> dict[str, Group]:
    engine = Engine()
    engine.stream("s", {"v": "float64", "name": "string"})
    return {
        "low": engine.register("SELECT * FROM s WHERE v BETWEEN :lo AND :hi", name="low"),
        "named": engine.register("SELECT * FROM s WHERE name = :who AND v > :lo", name="named"),
    }


def rows(*changes: tuple[Any, ...]) -> pa.Table:
    names = ("template", "op", "id", "lo", "hi", "who")
    padded = [change + (None,) * (len(names) - len(change)) for change in changes]
    types = [pa.string(), pa.string(), pa.int64(), pa.float64(), pa.float64(), pa.string()]
    columns = [
        pa.array(column, kind)
        for column, kind in zip(zip(*padded, strict=True), types, strict=True)
    ]
    return pa.table(columns, names=names)


def counts(outcome: Outcome) -> tuple[int, int, int, int]:
    return outcome.added, outcome.removed, outcome.repeated, len(outcome.refused)


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[int]:
    """How many rows each call of a method of groups has had, from now on."""
    calls: list[int] = []
    original = getattr(Group, name)

    def call(group: Group, given: Any) -> Any:
        calls.append(len(given))
        return original(group, given)

    monkeypatch.setattr(Group, name, call)
    return calls


def test_changes_are_applied_in_their_order() -> None:
    known = groups()
    outcome = apply(
        known,
        rows(
            ("low", "add", 1, 0.0, 1.0), ("low", "add", 2, 0.0, 1.0), ("low", "remove", 1),
            ("low", "add", 1, 5.0, 6.0), ("named", "add", 1, 0.0, None, "x"),
        ),
    )  # fmt: skip
    assert counts(outcome) == (4, 1, 0, 0)
    assert (len(known["low"]), len(known["named"])) == (2, 1)


def test_a_change_that_comes_again_is_applied_once() -> None:
    known = groups()
    batch = rows(("low", "add", 1, 0.0, 1.0), ("named", "add", 1, 0.0, None, "x"))
    assert counts(apply(known, batch)) == (2, 0, 0, 0)
    assert counts(apply(known, batch)) == (0, 0, 2, 0)
    twice = rows(("low", "add", 3, 0.0, 1.0), ("low", "add", 3, 0.0, 1.0))
    assert counts(apply(known, twice)) == (1, 0, 1, 0)
    assert len(known["low"]) == 2


def test_another_query_under_a_taken_id_is_refused() -> None:
    known = groups()
    apply(known, rows(("low", "add", 1, 0.0, 1.0), ("named", "add", 1, 0.0, None, "x")))
    outcome = apply(known, rows(("low", "add", 1, 0.0, 2.0), ("named", "add", 1, 0.0, None, "y")))
    assert counts(outcome) == (0, 0, 0, 2)
    assert {refusal.reason for refusal in outcome.refused} == {
        "another query has this id; remove it first"
    }


def test_bad_changes_stop_nothing_and_are_named() -> None:
    known = groups()
    good = [("low", "add", 100 + i, 0.0, 1.0) for i in range(50)]
    bad = [
        ("lwo", "add", 1, 0.0, 1.0), ("low", "drop", 2, 0.0, 1.0), ("low", "add", None, 0.0, 1.0),
        ("low", "add", 4, float("nan"), 1.0), ("low", "add", 5, None, 1.0), ("low", "remove", 6),
        (None, "add", 7, 0.0, 1.0), ("named", "add", 8, 0.0),
    ]  # fmt: skip
    outcome = apply(known, rows(*good[:20], *bad, *good[20:]))
    assert counts(outcome) == (50, 0, 0, 8)
    reasons = {refusal.id: refusal.reason for refusal in outcome.refused}
    assert "there is no template 'lwo'; did you mean 'low'?" in reasons["1"]
    assert reasons["2"] == "the operation 'drop' is neither add nor remove"
    assert reasons[None] == "the id is null"
    assert "NaN" in reasons["4"]
    assert "null" in reasons["5"]
    assert reasons["6"] == "no query has this id: it was removed before, or never added"
    assert reasons["7"] == "the template is null"
    assert "null" in reasons["8"]


def damaged(table: pa.Table, name: str, value: bytes) -> pa.Table:
    """Changes with bytes that are no text in the first row, as Spark hands them over."""
    words = [value, *table[name].cast(pa.binary()).to_pylist()[1:]]
    array = pa.array(words, pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(array), array.buffers())
    return table.set_column(table.column_names.index(name), name, text)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("template", "the template is no text: 'n\ufffd'"),
        ("op", "the op is no text: 'n\ufffd'"),
        ("who", "template 'named': parameter 'who' is no text: 'n\ufffd'"),
    ],
)
def test_a_change_whose_bytes_are_no_text_is_refused(name: str, reason: str) -> None:
    """It ended the job, and did so again at every start from the checkpoint."""
    known = groups()
    changes = rows(*[("named", "add", i, 0.0, None, "x") for i in range(3)])
    outcome = apply(known, damaged(changes, name, b"n\xff"))
    assert counts(outcome) == (2, 0, 0, 1)
    said = "n\ufffd" if name == "template" else "named"
    assert outcome.refused == [(said, "0", reason, 0)]
    if name == "who":  # who asks for no such parameter, or for none, does not mind
        others = rows(("low", "add", 7, 0.0, 1.0), ("named", "remove", 1))
        assert counts(apply(known, damaged(others, "who", b"\xff"))) == (1, 1, 0, 0)


def test_without_an_operation_all_are_added() -> None:
    known = groups()
    outcome = apply(known, rows(("low", "add", 1, 0.0, 1.0)).drop_columns(["op"]))
    assert counts(outcome) == (1, 0, 0, 0)


def test_a_whole_file_that_comes_again_costs_no_try_for_each_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = groups()
    batch = rows(*[("low", "add", i, 0.0, 1.0 + i) for i in range(20_000)])
    apply(known, batch)
    calls = counted(monkeypatch, "asked")
    assert counts(apply(known, batch)) == (0, 0, 20_000, 0)
    assert calls == [20_000]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_queries_that_lack_the_same_bound_are_refused_by_one_call(
    monkeypatch: pytest.MonkeyPatch, missing: float | None
) -> None:
    """Each was halved out of the others: a million of them took minutes, at every start again."""
    known, calls = groups(), counted(monkeypatch, "add")
    bad = [("low", "add", i, *((missing, 1.0) if i % 2 else (0.0, missing))) for i in range(5000)]
    outcome = apply(known, rows(*bad, ("low", "add", 5000, 0.0, 1.0)))
    assert counts(outcome) == (1, 0, 0, 5000)
    assert sorted(calls) == [1, 2500, 2500]
    said = "null" if missing is None else "NaN"
    assert [refusal.reason for refusal in outcome.refused[:2]] == [
        f"template 'low': parameter {name!r} is {said}" for name in ("hi", "lo")
    ]


def test_templates_that_take_turns_are_added_in_one_call_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each row was a call of its own: 16,000 of them took half a minute."""
    known, calls = groups(), counted(monkeypatch, "add")
    pairs = [(("low", "add", i, 0.0, 1.0), ("named", "add", i, 0.0, None, "x")) for i in range(500)]
    outcome = apply(known, rows(*(row for pair in pairs for row in pair)))
    assert counts(outcome) == (1000, 0, 0, 0)
    assert calls == [500, 500]


def test_queries_that_are_replaced_cost_one_call_for_all_that_go_and_one_for_all_that_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = groups()
    apply(known, rows(*[("low", "add", i, 0.0, 1.0) for i in range(500)]))
    added, removed = counted(monkeypatch, "add"), counted(monkeypatch, "remove")
    pairs = [(("low", "remove", i), ("low", "add", i, 5.0, 6.0)) for i in range(500)]
    outcome = apply(known, rows(*(row for pair in pairs for row in pair)))
    assert counts(outcome) == (500, 500, 0, 0)
    assert (added, removed) == ([500], [500])


def test_a_query_that_is_wrong_at_first_is_added_by_the_row_after_it() -> None:
    """The third row was refused, because it was tried together with the second."""
    known = groups()
    again = ("low", "add", 1, 0.0, 1.0)
    outcome = apply(known, rows(("low", "add", 1, float("nan"), 1.0), again, again))
    assert counts(outcome) == (1, 0, 1, 1)


def drawn(rng: Random, n: int) -> list[tuple[Any, ...]]:
    """Changes of few ids, so that they meet; some are bad in one way or another."""
    found: list[tuple[Any, ...]] = []
    for _ in range(n):
        template = rng.choice(["low", "named"] * 10 + ["lwo", "", None])
        op = rng.choice(["add"] * 10 + ["remove"] * 8 + ["drop", None])
        low = rng.choice([0.0, 1.0, 1.0, float("nan"), None])
        who = rng.choice(["x", "y", None])
        found.append(
            (template, op, rng.choice([*range(8), None]), low, rng.choice([1.0, 2.0]), who)
        )
    return found


def held(known: dict[str, Group]) -> list[tuple[Any, ...]]:
    """What the queries of all groups are called and ask."""
    found = []
    for name, group in known.items():
        registry = group.registry
        for slot in registry.living():
            bounds = (*registry.lows[:, slot].tolist(), *registry.highs[:, slot].tolist())
            found.append((name, int(registry.ids[slot]), *bounds))
    return sorted(found)


@pytest.mark.parametrize("seed", range(8))
def test_changes_do_together_what_they_do_one_by_one(seed: int) -> None:
    rng, together, alone = Random(seed), groups(), groups()
    total = np.zeros(4, int)
    for _ in range(6):
        batch = rows(*drawn(rng, rng.choice([1, 20, 120])))
        outcome = apply(together, batch)
        each = [apply(alone, batch.slice(i, 1)) for i in range(batch.num_rows)]
        assert counts(outcome) == tuple(np.sum([counts(one) for one in each], axis=0))
        reasons = [refusal[:3] for one in each for refusal in one.refused]
        assert [refusal[:3] for refusal in outcome.refused] == reasons, "in the order of the rows"
        assert held(together) == held(alone)
        total += counts(outcome)
    assert min(total) > 0, "everything happened"
    for known in (together, alone):
        for group in known.values():
            group.check()


WIDTHS = (0, 10, 500, 3_000)


def windows() -> tuple[Engine, Group]:
    """Sums over windows, the widest of which reaches rows that no other one does."""
    engine = Engine(clock=lambda: 10_000)
    engine.stream("s", {"v": "int64", "ts": "timestamp"}, time="ts")
    sql = "SELECT SUM(v) OVER (ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW) AS n FROM s"
    group = engine.register(sql, name="sums")
    group.add({"id": range(len(WIDTHS)), "w": WIDTHS})
    engine.push("s", {"v": [1, 10, 100, 1000], "ts": [2_000, 4_600, 4_995, 5_000]})
    return engine, group


def widths(*changes: tuple[str, int, int | None]) -> pa.Table:
    ops, ids, wide = zip(*changes, strict=True)
    columns = {"op": ops, "id": ids, "w": pa.array(wide, pa.int64())}
    return pa.table({"template": ["sums"] * len(changes), **columns})


@pytest.mark.parametrize("seed", range(12))
def test_a_query_over_a_window_finds_what_it_would_find_if_changes_came_one_by_one(
    seed: int,
) -> None:
    """All removes of a turn came before its adds, and what the widest window had kept was gone."""
    rng, (_, together), (_, alone) = Random(seed), windows(), windows()
    changes = [("remove", i, None) for i in rng.sample(range(len(WIDTHS)), rng.randint(1, 4))]
    changes += [("add", rng.randint(0, 9), rng.choice(WIDTHS)) for _ in range(rng.randint(1, 6))]
    rng.shuffle(changes)
    batch = widths(*changes)
    outcome = apply({"sums": together}, batch)
    each = [apply({"sums": alone}, batch.slice(i, 1)) for i in range(batch.num_rows)]
    assert counts(outcome) == tuple(np.sum([counts(one) for one in each], axis=0))
    assert together.lookup() == alone.lookup()


def test_queries_over_windows_that_are_replaced_go_on_with_the_rows_that_are_there() -> None:
    _, group = windows()
    before = group.lookup()["n"].to_pylist()
    assert before == [1000, 1100, 1110, 1111]
    pairs = [(("remove", i, None), ("add", i, wide)) for i, wide in enumerate(WIDTHS)]
    apply({"sums": group}, widths(*(change for pair in pairs for change in pair)))
    assert group.lookup()["n"].to_pylist()[:3] == before[:3]


@pytest.mark.parametrize("is_equal", [True, False])
def test_windows_that_are_replaced_cost_one_call_for_all_that_go_and_one_for_all_that_come(
    monkeypatch: pytest.MonkeyPatch, is_equal: bool
) -> None:
    """Each change of operation was a call of its own, where the widest window went."""
    (_, group), rng, n = windows(), Random(1), 400
    wide = [3_000 if is_equal else rng.randrange(4_000) for _ in range(n)]
    group.remove(range(len(WIDTHS)))
    group.add({"id": range(n), "w": wide})
    added, removed = counted(monkeypatch, "add"), counted(monkeypatch, "remove")
    pairs = [(("remove", i, None), ("add", i, width)) for i, width in enumerate(wide)]
    outcome = apply({"sums": group}, widths(*(change for pair in pairs for change in pair)))
    assert counts(outcome) == (n, n, 0, 0)
    assert (added, removed) == ([n], [n])


SUMS = "SELECT SUM(v) OVER (ORDER BY ts {} BETWEEN :w PRECEDING AND CURRENT ROW) AS n FROM s"
ASKED = {
    "range": SUMS.format("RANGE"),
    "rows": SUMS.format("ROWS"),
    "keys": SUMS.format("RANGE").replace("SELECT SUM", "SELECT k, SUM").replace(
        "ORDER", "PARTITION BY k ORDER"
    ),
    "threshold": "SELECT k FROM s QUALIFY COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN "
    ":w PRECEDING AND CURRENT ROW) >= :m",
}  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("asked", "way"),
    [
        ("range", "auto"), ("range", "naive"), ("range", "materialise_all"), ("rows", "auto"),
        ("rows", "landmark_intervals"), ("keys", "auto"), ("threshold", "collective_index"),
        ("threshold", "naive"),
    ],
)  # fmt: skip
def test_windows_that_widen_and_shrink_together_find_what_they_would_find_one_by_one(
    monkeypatch: pytest.MonkeyPatch, seed: int, asked: str, way: str
) -> None:
    if seed % 2:
        monkeypatch.setattr("standfast.engine.registry.FEW", 2)  # slots are numbered anew
    rng, both = Random(seed), list[tuple[Engine, Group]]()
    drawn_from = (0, 1, 3, 7, 20) if asked == "rows" else (0, 10, 300, 1500, 2600)
    for _ in range(2):
        engine = Engine(clock=lambda: 10**6)
        engine.stream("s", {"k": "int64", "v": "int64", "ts": "timestamp"}, time="ts")
        both.append((engine, engine.register(ASKED[asked], name="sums", strategy=way)))
    (_, together), (_, alone) = both
    total = np.zeros(4, int)
    for step in range(6):
        times = [1000 * step + rng.randrange(1000) for _ in range(8)]
        given = {"k": [rng.randrange(3) for _ in times], "v": [1 << i for i in range(8)]}
        told = [engine.push("s", {**given, "ts": times})["sums"].rows() for engine, _ in both]
        assert sorted(map(str, told[0].to_pylist())) == sorted(map(str, told[1].to_pylist()))
        changes = [
            (rng.choice(["add", "remove"]), rng.randrange(9), rng.choice([*drawn_from, None]))
            for _ in range(rng.choice([2, 12, 40]))
        ]
        batch = widths(*changes).append_column("m", pa.array([2] * len(changes)))
        outcome = apply({"sums": together}, batch)
        each = [apply({"sums": alone}, batch.slice(i, 1)) for i in range(batch.num_rows)]
        assert counts(outcome) == tuple(np.sum([counts(one) for one in each], axis=0))
        assert together.lookup() == alone.lookup()
        total += counts(outcome)
    assert min(total) > 0, "everything happened"
    together.check()


def test_no_changes_change_nothing() -> None:
    assert counts(apply(groups(), rows(("low", "add", 1, 0.0, 1.0)).slice(1))) == (0, 0, 0, 0)
