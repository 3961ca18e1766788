"""Counter-examples that were found once, each with one line on what was wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.contract.capacities import tiny_capacities
from tests.contract.numbers import FAR, FEW_TIMES
from tests.contract.playing import result_rows, seen
from tests.contract.shapes import BAND_SHAPES, FILTER_SHAPES
from tests.contract.worlds import CASES, Case, World, clock

from standfast import Engine

BANDS = [case for case in CASES if case.question == "band_join"]
every_band = pytest.mark.parametrize("case", BANDS, ids=str)
every_filter = pytest.mark.parametrize(
    "case", [case for case in CASES if case.question == "filter"], ids=str
)


def batch(values: Sequence[Any], keys: Sequence[int] | None = None) -> dict[str, Any]:
    """Rows with these values; the keys count up."""
    keys = list(range(len(values))) if keys is None else list(keys)
    return {"k": keys, "x": list(values), "y": keys, "s": [None] * len(keys)}


@every_band
def test_a_row_of_a_self_join_affects_a_query_once(case: Case) -> None:
    """A row that met a query on both sides was listed and counted twice."""
    world = World("band_join", "int64", {"a": "stream"}, BAND_SHAPES[0])
    engine = world.engine()
    world.register(engine, case.way).add({"lo": [-5], "hi": [5]})
    engine.push("a", batch([10]))
    answer = engine.push("a", batch([11]))[case.way]
    assert answer.pairs().to_pylist() == [{"row": 0, "query": 0}]
    assert answer.counts()["queries"].to_pylist() == [1]
    assert answer.counts(by="query").to_pylist() == [{"query": 0, "rows": 1}]
    assert answer.rows().num_rows == 3  # (10, 11), (11, 10) and (11, 11)


@every_band
def test_rows_of_a_self_join_that_go_together_take_their_results_along(case: Case) -> None:
    """What the rows of one deletion have with each other must go exactly once."""
    world = World("band_join", "int64", {"a": "table"}, BAND_SHAPES[0], ("a.k", "b.k"))
    engine = world.engine()
    world.register(engine, case.way).add({"lo": [-5], "hi": [5]})
    came = engine.push("a", batch([10, 11, 12]))[case.way].rows()
    went = engine.delete("a", {"k": [0, 2]})[case.way].rows()
    last = engine.delete("a", {"k": [1]})[case.way].rows()
    assert (came.num_rows, went.num_rows, last.num_rows) == (9, 8, 1)
    gone = [row[:-1] for row in result_rows(went) + result_rows(last)]
    assert sorted(gone) == sorted(row[:-1] for row in result_rows(came))


@every_band
def test_an_answer_that_is_read_late_has_the_rows_of_its_moment(case: Case) -> None:
    """Deleting a row must not reach into the runs that an answer holds."""
    world = World("band_join", "int64", {"a": "table", "b": "stream"}, BAND_SHAPES[0])
    engine = world.engine()
    world.register(engine, case.way).add({"lo": [0, 1], "hi": [9, 1]})
    engine.push("a", batch(range(8)))
    unread = engine.push("b", batch([8]))[case.way]
    engine.delete("a", {"k": [7, 3]})
    engine.push("a", batch([100], keys=[5]))
    assert len(seen(unread).rows) == 8 + 1
    assert seen(unread).pairs == [(0, 0, 1), (0, 1, 1)]


@every_band
def test_bands_at_both_ends_of_the_line_share_a_group(case: Case) -> None:
    """Cells of signposts were numbered beyond int64 when a group spanned more than half of it."""
    world = World("band_join", "int64", {"a": "stream", "b": "stream"}, BAND_SHAPES[0])
    engine = world.engine()
    group = world.register(engine, case.way)
    n = 40
    low = [2 - FAR + i * (2**62 // n) for i in range(n)]
    group.add({"lo": low, "hi": [-x for x in low]})
    group.add({"lo": [-3] * n, "hi": list(range(n))})
    engine.push("a", batch([0]))
    gaps = [-(2**62), -4, 0, n - 1, 2**62, FAR]
    answer = engine.push("b", batch(gaps))[case.way]
    wide = [sum(x <= gap <= -x for x in low) for gap in gaps]
    near = [sum(-3 <= gap <= high for high in range(n)) for gap in gaps]
    assert answer.counts()["queries"].to_pylist() == [
        a + b for a, b in zip(wide, near, strict=True)
    ]


@every_band
def test_bands_that_become_a_hotspot_are_answered_once(case: Case) -> None:
    """A band that moves between the scattered rest and a hotspot must leave where it was."""
    world = World("band_join", "int64", {"a": "stream", "b": "stream"}, BAND_SHAPES[0])
    engine = world.engine()
    with tiny_capacities():
        group = world.register(engine, case.way)
    engine.push("a", batch([0]))
    far = group.add({"lo": range(1000, 1040), "hi": range(1000, 1040)})
    for crowd in (5, 60, 5):
        ids = group.add({"lo": [1] * crowd, "hi": [2] * crowd})
        answer = engine.push("b", batch([2, 1007]))[case.way]
        assert answer.counts()["queries"].to_pylist() == [crowd, 1]
        assert len(set(answer.pairs()["query"].to_pylist())) == crowd + 1
        group.remove(ids)
        group.check()
    group.remove(far)
    assert len(group) == 0


@every_filter
def test_a_row_with_nan_that_is_pushed_again_changes_nothing(case: Case) -> None:
    """NaN is not equal to itself, so the row was taken for another one."""
    world = World("filter", "float64", {"a": "table"}, FILTER_SHAPES[4])
    engine = world.engine()
    world.register(engine, case.way).add({"hi": [5.0]})
    rows = batch([float("nan"), 1.0, None])
    assert len(seen(engine.push("a", rows)[case.way]).rows) == 1
    assert seen(engine.push("a", rows)[case.way]).rows == []


@every_filter
def test_a_restored_stream_knows_its_latest_time(case: Case, tmp_path: Path) -> None:
    """A row that is late before the snapshot is late after it."""
    world = World("filter", "int64", {"a": "stream"}, FILTER_SHAPES[4], (), True, 2)
    engine = world.engine()
    world.register(engine, case.way).add({"hi": [5]})
    engine.push("a", batch([1]) | {"t": [FEW_TIMES + 10]})
    engine.snapshot(tmp_path / "snapshot")
    restored = Engine.restore(tmp_path / "snapshot", clock=clock)
    rows = batch([1, 2, 3]) | {"t": [FEW_TIMES + 7, FEW_TIMES + 8, FEW_TIMES + 11]}
    for one in (engine, restored):
        assert one.push("a", rows)[case.way].counts()["queries"].to_pylist() == [0, 1, 1]
        assert one.metrics()["inputs"]["a"]["late"] == 1
