"""Engines whose windows are reported, what they are given, and what they tell, as plain values."""

from __future__ import annotations

from typing import Any

import pytest

import standfast as sf
from standfast.engine.sharing import ALL, Share

OVER = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW)"
TEMPLATES = {
    "sums": f"SELECT k, SUM(v) {OVER} AS total FROM s",
    "marks": f"SELECT k FROM s QUALIFY SUM(v) {OVER} >= :t",
}
each_question = pytest.mark.parametrize("name", TEMPLATES)

Told = tuple[Any, ...]  # query, key, what was selected beside them, change


def engine_of(*names: str, way: str = "auto") -> sf.Engine:
    """An engine with these templates over a stream, and a filter that has no answers that stay."""
    engine = sf.Engine(clock=lambda: 2**50, follows=True)
    engine.stream("s", {"k": "string", "ts": "timestamp", "v": "int64"}, time="ts")
    engine.register("SELECT * FROM s WHERE v > :least", name="filter").add({"least": [0]})
    for name in names:
        engine.register(TEMPLATES[name], name=name, strategy=way)
    return engine


def add(engine: sf.Engine, name: str, *queries: tuple[int, int, int]) -> None:
    """Queries as (id, window, threshold); sums have no threshold."""
    columns = {hole: [q[i] for q in queries] for i, hole in enumerate(("id", "w", "t"))}
    if name == "sums":
        del columns["t"]
    engine.groups[name].add(columns)


def rows(*given: tuple[Any, int, int]) -> dict[str, list[Any]]:
    """A batch of (key, time, value)."""
    return {name: [row[i] for row in given] for i, name in enumerate(("k", "ts", "v"))}


def told(answer: sf.Answer) -> list[Told]:
    return sorted(tuple(row.values()) for row in answer.rows().to_pylist())


def reported(engine: sf.Engine, name: str, share: Share = ALL) -> list[Told]:
    found = engine.report(share)
    assert found.keys() == engine.groups.keys() - {"filter"}
    assert found[name].n_rows == 1
    assert set(found[name].pairs()["row"].to_pylist()) <= {0}
    return told(found[name])


def as_told(name: str, *expected: tuple[int, str, int, int]) -> list[Told]:
    """Answers as (query, key, sum, change); marks do not tell the sum."""
    return sorted(e if name == "sums" else (*e[:2], e[3]) for e in expected)
