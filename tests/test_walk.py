"""The walk of one row and of one query through the embedded engine, as ARCHITECTURE.md tells it.

Nothing is replaced here: the interpreter reports every call, and the test keeps those inside the
package, as `folder/file.py function`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np
import pytest

import standfast as sf

PACKAGE = Path(sf.__file__).parent
ROOT = PACKAGE.parent.parent
BAND = "SELECT u.id, t.id AS target FROM unit u JOIN target t ON t.pos - u.pos BETWEEN :lo AND :hi"


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """Walk everything once unseen, so that no compiler is among the calls."""
    for strategy in ("groups", "hotspot"):
        engine = engine_of(strategy)
        answer = engine.push("target", {"id": [7], "pos": [13.0]})["alerts"]
        answer.pairs()
        answer.rows()
        engine.groups["alerts"].remove([0])
    table = table_engine()
    table.push("unit", {"id": [1], "pos": [2.0]})


def calls_of(action: Callable[[], object]) -> list[str]:
    """Every function of the package that the action enters, in order."""
    calls: list[str] = []

    def report(frame: FrameType, event: str, _argument: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(f"{PACKAGE}{os.sep}"):
            name = Path(path).relative_to(PACKAGE).as_posix()
            calls.append(f"{name} {frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(report)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls


def assert_in_order(calls: list[str], steps: list[str]) -> None:
    """Each step is called, after the step before it."""
    at = 0
    for step in steps:
        assert step in calls[at:], f"{step} does not follow {steps[: steps.index(step)]}"
        at = calls.index(step, at) + 1


def files_named(chapter: str) -> list[str]:
    """The files of the package that a chapter of ARCHITECTURE.md names."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    (body,) = re.findall(rf"^## {chapter}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return re.findall(r"`((?:\w+/)*\w+\.py)`", body)


def engine_of(strategy: str = "groups") -> sf.Engine:
    engine = sf.Engine()
    engine.stream("unit", {"id": "int64", "pos": "float64"})
    engine.stream("target", {"id": "int64", "pos": "float64"})
    group = engine.register(BAND, name="alerts", strategy=strategy)
    group.add({"lo": [0.0, -3.0], "hi": [5.0, 3.0]})
    engine.push("unit", {"id": [1, 2], "pos": [10.0, 20.0]})
    return engine


def table_engine() -> sf.Engine:
    engine = sf.Engine()
    engine.table("unit", {"id": "int64", "pos": "float64"}, key="id")
    engine.register("SELECT id FROM unit WHERE pos > :lo", name="f").add({"lo": 0.0})
    engine.push("unit", {"id": [1], "pos": [1.0]})
    return engine


def test_a_row_walks_from_the_door_to_the_strategy_and_into_the_store():
    engine, answers = engine_of(), {}
    rows = {"id": [7], "pos": [13.0]}
    calls = calls_of(lambda: answers.update(engine.push("target", rows)))
    assert_in_order(
        calls,
        [
            "engine/engine.py Engine.push",
            "engine/door.py Door.admit",
            "model/rows.py read_rows",
            "engine/group.py Group.process",
            "engine/joins.py JoinReader.process",
            "engine/reading.py keys_of",
            "model/numbers.py float_keys",
            "operators/band_join/groups.py ByGroups.process",
            "indexes/stabbing_partition.py StabbingPartition.groups",
            "operators/band_join/groups.py probe_groups",
            "indexes/sorted_runs.py SortedRuns.published",
            "engine/store.py Store.published",
            "engine/store.py Store.append",
            "indexes/sorted_runs.py SortedRuns.insert",
            "engine/answer.py Answer.__init__",
        ],
    )
    assert not any(call.startswith("model/sql.py") for call in calls)
    results = answers["alerts"].rows().to_pylist()
    assert sorted(row["query"] for row in results) == [0, 1]
    assert {(row["id"], row["target"], row["change"]) for row in results} == {(1, 7, 1)}
    visited = {call.split(" ")[0] for call in calls}
    assert set(files_named("The walk of one row")) <= visited


def test_an_answer_enumerates_only_when_asked():
    answer = engine_of().push("target", {"id": [7], "pos": [13.0]})["alerts"]
    calls = calls_of(answer.pairs)
    assert_in_order(calls, ["engine/answer.py Answer.pairs", "group_spans.py GroupSpans.fill"])
    assert not any("store.py" in call or "questions.py" in call for call in calls)
    assert_in_order(
        calls_of(answer.rows),
        [
            "engine/answer.py Answer.rows",
            "group_spans.py GroupSpans.fill",
            "engine/joins.py JoinResults.rows",
            "engine/store.py Rows.take",
        ],
    )


def test_a_hotspot_row_walks_the_hot_groups_and_the_scattered_rest():
    calls = calls_of(lambda: engine_of("hotspot").push("target", {"id": [7], "pos": [13.0]}))
    assert_in_order(
        calls,
        [
            "operators/band_join/hotspot.py Hotspot.process",
            "indexes/hotspot_tracker.py HotspotTracker.hot_groups",
            "operators/band_join/groups.py probe_groups",
        ],
    )


def test_a_row_of_a_table_first_leaves_and_then_comes():
    engine = table_engine()
    process = "engine/questions.py FilterReader.process"
    assert_in_order(
        calls_of(lambda: engine.push("unit", {"id": [1], "pos": [2.0]})),
        [
            "engine/door.py Door.admit",
            "engine/store.py Store.replaced_by",
            process,
            "engine/store.py Store.delete",
            process,
            "engine/store.py Store.append",
            "engine/answer.py Answer.__init__",
        ],
    )


def test_a_query_walks_from_sql_to_the_index():
    engine = sf.Engine()
    engine.stream("unit", {"id": "int64", "pos": "float64"})
    engine.stream("target", {"id": "int64", "pos": "float64"})
    registering = calls_of(lambda: engine.register(BAND, name="alerts", strategy="groups"))
    assert_in_order(
        registering,
        [
            "engine/engine.py Engine.register",
            "model/template.py Template.parse",
            "model/sql.py parse",
            "engine/group.py Group.__init__",
            "operators/catalog.py choose",
            "engine/questions.py reader_of",
        ],
    )
    group = engine.groups["alerts"]
    adding = calls_of(lambda: group.add({"lo": np.array([0.0]), "hi": np.array([5.0])}))
    assert_in_order(
        adding,
        [
            "engine/group.py Group.add",
            "model/parameters.py read_parameters",
            "model/key_ranges.py key_ranges",
            "model/numbers.py at_least",
            "engine/registry.py Registry.add",
            "operators/band_join/groups.py ByGroups.add",
            "indexes/stabbing_partition.py StabbingPartition.add",
        ],
    )
    assert_in_order(
        calls_of(lambda: group.remove([0])),
        [
            "engine/group.py Group.remove",
            "engine/registry.py Registry.remove",
            "operators/band_join/groups.py ByGroups.remove",
            "indexes/stabbing_partition.py StabbingPartition.remove",
        ],
    )
    visited = {call.split(" ")[0] for call in registering + adding}
    assert set(files_named("The walk of one query")) <= visited
