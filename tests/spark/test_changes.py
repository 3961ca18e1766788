"""Changes of queries: good ones are applied, bad ones named, one that comes again is counted."""

from __future__ import annotations

from typing import Any

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
    assert reasons["None"] == "the id is null"
    assert "NaN" in reasons["4"]
    assert "null" in reasons["5"]
    assert reasons["6"] == "no query has this id: it was removed before, or never added"
    assert "there is no template None" in reasons["7"]
    assert "null" in reasons["8"]


def test_without_an_operation_all_are_added() -> None:
    known = groups()
    outcome = apply(known, rows(("low", "add", 1, 0.0, 1.0)).drop_columns(["op"]))
    assert counts(outcome) == (1, 0, 0, 0)


def test_a_whole_file_that_comes_again_costs_no_try_for_each_query(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = groups()
    batch = rows(*[("low", "add", i, 0.0, 1.0 + i) for i in range(20_000)])
    calls: list[int] = []
    original = Group.asked

    def counted(group: Group, params: pa.Table) -> Any:
        calls.append(params.num_rows)
        return original(group, params)

    apply(known, batch)
    monkeypatch.setattr(Group, "asked", counted)
    assert counts(apply(known, batch)) == (0, 0, 20_000, 0)
    assert calls == [20_000]
