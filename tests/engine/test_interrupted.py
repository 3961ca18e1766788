"""A push that is interrupted while it answers: rows that are counted as used are kept."""

from __future__ import annotations

from typing import Any

import pytest

import standfast as sf

COLUMNS = {"k": "int64", "j": "int64", "x": "int64", "ts": "timestamp"}
JOIN = "SELECT a.x FROM a JOIN b ON a.j = b.j WHERE a.x > :low"
WINDOW = """
    SELECT COUNT(x) OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND CURRENT ROW) AS n FROM a
"""


class Interrupted(BaseException):
    """Stands for a broken invariant, too little memory, or a key that somebody pressed."""


def joining(kind: str) -> sf.Engine:
    engine = sf.Engine()
    if kind == "table":
        engine.table("a", COLUMNS, key="k")
    else:
        engine.stream("a", COLUMNS, time="ts", id="k")
        engine.register(WINDOW, name="window").add({"left": [10]})
    engine.stream("b", {"j": "int64"})
    engine.register(JOIN, name="joined").add({"low": [0]})
    return engine


def interrupt(engine: sf.Engine, monkeypatch: pytest.MonkeyPatch, do: str, *args: Any) -> None:
    def fail(*_: Any) -> None:
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(engine.groups["joined"].reader, "process", fail)
        with pytest.raises(Interrupted):
            getattr(engine, do)("a", *args)
    engine.check()


def rows(*xs: int) -> dict[str, list[int]]:
    """Rows with keys from 0 on."""
    return {"k": [*range(len(xs))], "j": [1] * len(xs), "x": [*xs], "ts": [5] * len(xs)}


def joined(engine: sf.Engine) -> list[int]:
    """What a row of the other input meets."""
    return sorted(engine.push("b", {"j": [1]})["joined"].rows()["x"].to_pylist())


def test_rows_of_a_stream_are_stored_and_windows_hold_them(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = joining("stream")
    interrupt(engine, monkeypatch, "push", rows(3, 4))
    assert engine.counters("a")["used"] == engine.metrics()["inputs"]["a"]["stored"] == 2
    assert joined(engine) == [3, 4]
    assert engine.groups["window"].lookup()["n"].to_pylist() == [2]
    engine.push("a", rows(3, 4, 5))  # again, by somebody who saw the error
    assert engine.counters("a") == {
        "received": 5, "used": 3, "late": 0, "duplicate": 2, "rejected": 0,
    }  # fmt: skip
    assert joined(engine) == [3, 4, 5]


def test_rows_of_a_table_are_replaced_and_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = joining("table")
    engine.push("a", rows(3, 4))
    interrupt(engine, monkeypatch, "push", rows(5))
    assert joined(engine) == [4, 5]
    interrupt(engine, monkeypatch, "delete", {"k": [1]})
    assert joined(engine) == [5]
    assert engine.metrics()["inputs"]["a"]["stored"] == 1
