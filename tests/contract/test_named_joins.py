"""Cases of joins by equality that are easy to get wrong, each with one line on what would be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.contract.capacities import tiny_capacities
from tests.contract.laws import every_case_of
from tests.contract.numbers import FAR, FEW_TIMES, LEAST
from tests.contract.playing import result_rows, seen
from tests.contract.shapes import SHAPES, Shape
from tests.contract.worlds import Case, Inputs, World, clock

from standfast import Engine, Group
from standfast.engine import strings

STREAMS: Inputs = {"a": "stream", "b": "stream"}
TABLES: Inputs = {"a": "table", "b": "table"}
ANY = {"lo": [-1000], "hi": [1000], "low": [-1000], "high": [1000], "w": [1000]}

every_join = every_case_of("select_join", "window_join")
every_window = every_case_of("window_join")


def world_of(case: Case, inputs: Inputs, select: tuple[str, ...] = ("a.k", "b.k")) -> World:
    return World(case.question, "int64", inputs, SHAPES[case.question][0], select, key="string")


def started(world: World, way: str, holes: dict[str, list[Any]] | None = None
            ) -> tuple[Engine, Group]:  # fmt: skip
    """An engine with one group; every query joins all rows of equal keys unless it says other."""
    engine = world.engine()
    group = world.register(engine, way)
    wanted = ANY if holes is None else holes
    group.add({hole: wanted[hole] for hole in world.shape.holes})
    return engine, group


def rows_of(
    world: World, keys: Sequence[int], joined: Sequence[Any], **more: Any
) -> dict[str, Any]:
    return world.batch([0] * len(keys), k=keys, j=joined, **more)


def found(answer: Any) -> list[tuple[Any, ...]]:
    """The result rows without the query, with the change."""
    return sorted(row[1:] for row in result_rows(answer.rows()))


@every_join
def test_a_batch_that_hits_nobody_has_empty_spans(case: Case) -> None:
    """Parts of a batch that nobody answered had no order of queries to put together."""
    world = world_of(case, STREAMS)
    engine, _ = started(world, case.way)
    for rows in (rows_of(world, [1, 2], [None, None]), rows_of(world, [], [])):
        answer = engine.push("a", rows)[case.way]
        assert seen(answer) == ([], [(i, 0) for i in range(len(rows["k"]))], [], [], [])


@every_join
def test_a_row_of_a_self_join_affects_a_query_once(case: Case) -> None:
    """A row meets a query on both sides, and itself."""
    world = world_of(case, {"a": "stream"})
    engine, _ = started(world, case.way)
    engine.push("a", rows_of(world, [1, 2], ["p", "q"]))
    answer = engine.push("a", rows_of(world, [3], ["p"]))[case.way]
    assert answer.pairs().to_pylist() == [{"row": 0, "query": 0}]
    assert answer.counts(by="query").to_pylist() == [{"query": 0, "rows": 1}]
    assert found(answer) == [(1, 3, 1), (3, 1, 1), (3, 3, 1)]


@every_join
def test_rows_of_a_self_join_that_go_together_take_their_results_along(case: Case) -> None:
    """What the rows of one deletion have with each other must go exactly once."""
    world = world_of(case, {"a": "table"})
    engine, _ = started(world, case.way)
    came = found(engine.push("a", rows_of(world, [0, 1, 2], ["p"] * 3))[case.way])
    went = found(engine.delete("a", {"k": [0, 2]})[case.way])
    last = found(engine.delete("a", {"k": [1]})[case.way])
    assert (len(came), len(went), last) == (9, 8, [(1, 1, -1)])
    assert sorted([(i, j, -change) for i, j, change in went + last]) == came


@every_join
def test_a_row_whose_join_key_changes_leaves_its_old_partners(case: Case) -> None:
    """The old row was looked for under the new key."""
    world = world_of(case, TABLES)
    engine, _ = started(world, case.way)
    engine.push("b", rows_of(world, [1, 2, 3], ["p", "q", None]))
    assert found(engine.push("a", rows_of(world, [7], ["p"]))[case.way]) == [(7, 1, 1)]
    changed = found(engine.push("a", rows_of(world, [7], ["q"]))[case.way])
    assert changed == [(7, 1, -1), (7, 2, 1)]
    assert found(engine.push("a", rows_of(world, [7], [None]))[case.way]) == [(7, 2, -1)]
    assert found(engine.push("b", rows_of(world, [3], ["q"]))[case.way]) == []


@every_join
def test_an_answer_that_is_read_late_has_the_rows_of_its_moment(case: Case) -> None:
    """Deleting a row must not reach into the runs that an answer holds."""
    world = world_of(case, {"a": "table", "b": "stream"})
    engine, group = started(world, case.way)
    engine.push("a", rows_of(world, list(range(8)), ["p"] * 8))
    unread = engine.push("b", rows_of(world, [9], ["p"]))[case.way]
    engine.delete("a", {"k": [7, 3]})
    engine.push("a", rows_of(world, [5, 8], ["q", "p"]))
    group.remove([0])
    assert [row[0] for row in found(unread)] == list(range(8))
    assert seen(unread).pairs == [(0, 0, 1)]


@every_join
def test_queries_that_become_a_hotspot_are_answered_once(case: Case) -> None:
    """A query that moves between the scattered rest and a hotspot must leave where it was."""
    world = world_of(case, STREAMS)
    with tiny_capacities():
        engine, group = started(world, case.way)
        group.remove([0])
        engine.push("a", world.batch([5, 5, 1007], j=["p", "p", "q"]))

        def add(low: Sequence[int], high: Sequence[int]) -> Any:
            n = len(low)
            ends = {"lo": low, "hi": high, "low": low, "high": high, "w": [5] * n}
            return group.add({hole: list(ends[hole]) for hole in world.shape.holes})

        far = add(range(1000, 1040), range(1000, 1040))
        for crowd in (5, 60, 5):
            ids = add([1] * crowd, [9] * crowd)
            answer = engine.push("b", world.batch([2, 1007, 2], j=["p", "q", "r"]))[case.way]
            assert answer.counts()["queries"].to_pylist() == [crowd, 1, 0]
            assert answer.rows().num_rows == 2 * crowd + 1
            group.remove(ids)
            engine.check()
        group.remove(far)
        assert len(group) == 0


@every_join
def test_a_key_whose_text_was_forgotten_can_come_back(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that got a new number must not miss the rows that came with the new one."""
    monkeypatch.setattr(strings, "FEW", 2)
    world = world_of(case, TABLES)
    engine, _ = started(world, case.way)
    for _ in range(3):
        assert found(engine.push("a", rows_of(world, [1], ["p"]))[case.way]) == []
        assert found(engine.push("b", rows_of(world, [2], ["p"]))[case.way]) == [(1, 2, 1)]
        engine.delete("a", {"k": [1]})
        engine.delete("b", {"k": [2]})
        for number in range(5):
            engine.push("a", rows_of(world, [9], [f"other {number}"]))
        engine.delete("a", {"k": [9]})
    assert len(engine._strings.codes) <= 6


@every_window
def test_rows_newer_than_the_event_join_too(case: Case) -> None:
    """Only older rows were looked for, as if rows always came in order."""
    world = World("window_join", "int64", STREAMS, SHAPES["window_join"][0], ("a.k",))
    engine, _ = started(world, case.way, ANY | {"w": [2]})
    times = [FEW_TIMES + gap for gap in (-3, -2, 0, 2, 3)]
    engine.push("a", world.batch([0] * 5, t=times))
    answer = engine.push("b", world.batch([0]))[case.way]
    assert [row[0] for row in found(answer)] == [1, 2, 3]


@every_window
@pytest.mark.parametrize("kind", ["int64", "float64"])
def test_times_at_both_ends_of_the_line_are_far_apart(case: Case, kind: str) -> None:
    """Their difference does not fit and must not wrap around to a small one."""
    world = World(
        "window_join", "int64", STREAMS, SHAPES["window_join"][4], ("a.k", "b.k"), clock=kind
    )
    ends = [LEAST, 0, FAR] if kind == "int64" else [-1.7e308, 0.0, 1.7e308]
    engine, _ = started(world, case.way, {"w": [1, 2**62]})
    engine.push("a", world.batch([0] * 3, t=ends))
    answer = engine.push("b", world.batch([0] * 3, t=ends))[case.way]
    wanted = [(query, i, i, 1) for query in range(2) for i in range(3)]
    assert sorted(result_rows(answer.rows())) == wanted


def timed(case: Case, lateness_us: int, inputs: Inputs = STREAMS) -> World:
    shape = SHAPES["window_join"][4]
    return World("window_join", "int64", inputs, shape, ("a.k", "b.k"), True, lateness_us)


def at(world: World, key: int, time: int) -> dict[str, Any]:
    """One row of the only join key."""
    return world.batch([0], k=[key], t=[FEW_TIMES + time])


@every_window
def test_a_row_that_is_behind_the_other_stream_still_meets_its_rows(case: Case) -> None:
    """Streams drift apart: what is old for one may be new for the other."""
    world = timed(case, 0)
    engine, _ = started(world, case.way, {"w": [5]})
    for key, time in enumerate((0, 10, 20, 1000)):
        engine.push("a", at(world, key, time))
    assert engine.metrics()["inputs"]["a"]["stored"] == 4  # b has not begun: all may matter
    for time, wanted in ((0, [0]), (7, [1]), (12, [1]), (500, [])):
        answer = engine.push("b", at(world, 9, time))[case.way]
        assert [row[0] for row in found(answer)] == wanted, time
    engine.push("a", at(world, 4, 2000))
    assert engine.metrics()["inputs"]["a"]["stored"] == 2  # those that b has not reached yet


@every_window
def test_a_wider_window_counts_from_then_on(case: Case) -> None:
    """Rows that came after a wide window stay as long as it wants; of older ones some are gone."""
    world = timed(case, 0)
    engine, group = started(world, case.way, {"w": [1]})
    for time in range(10):
        for name in "ab":
            engine.push(name, at(world, time, time))
    (wide,) = group.add({"w": [6]}).to_pylist()
    results = set()
    for time in range(10, 30):
        for name in "ab":
            rows = result_rows(engine.push(name, at(world, time, time))[case.way].rows())
            results |= {(a, b) for query, a, b, _ in rows if query == wide}
    young = {(a, b) for a, b in results if min(a, b) >= 10}
    both = [(a, b) for a in range(10, 30) for b in range(10, 30) if abs(a - b) <= 6]
    assert young == set(both)
    assert all(abs(a - b) <= 6 for a, b in results)


@every_window
def test_a_narrower_window_lets_rows_go_and_hurts_nobody(case: Case) -> None:
    """When the widest query is removed, the next widest one says what is kept."""
    world = timed(case, 0)
    engine, group = started(world, case.way, {"w": [50, 3]})
    stored, results = [], set()
    for time in range(110):
        if time == 60:
            group.remove([0])
        for name in "ab":
            rows = result_rows(engine.push(name, at(world, time, time))[case.way].rows())
            results |= {(a, b) for query, a, b, _ in rows if query == 1}
        stored.append(engine.metrics()["inputs"]["a"]["stored"])
    assert results == {(a, b) for a in range(110) for b in range(110) if abs(a - b) <= 3}
    assert 45 <= stored[59] <= 70
    assert stored[109] <= 10


@every_window
def test_rows_that_a_table_or_a_join_without_a_window_may_meet_are_kept(case: Case) -> None:
    """A table's rows may change at any time, and a select-join knows no time."""
    world = timed(case, 0, {"a": "stream", "b": "table"})
    engine, _ = started(world, case.way, {"w": [1]})
    for time in range(0, 500, 10):
        engine.push("a", at(world, time, time))
        engine.push("b", at(world, 1, time))
    assert engine.metrics()["inputs"]["a"]["stored"] == 50
    answer = engine.push("b", at(world, 1, 30))[case.way]
    assert found(answer) == [(30, 1, 1), (490, 1, -1)]

    world = timed(case, 0)
    engine, _ = started(world, case.way, {"w": [1]})
    shape = Shape("a.j = b.j AND a.x >= :lo", "a.x >= lo")
    joined = engine.register(f"SELECT a.k FROM a JOIN b ON {shape.sql}", name="all")
    joined.add({"lo": [0]})
    for time in range(0, 500, 10):
        engine.push("a", at(world, time, time))
        answers = engine.push("b", at(world, time, time))
        assert answers["all"].rows().num_rows == 1 + time // 10
        assert answers[case.way].rows().num_rows == 1


@every_window
def test_a_restored_engine_knows_what_has_expired(case: Case, tmp_path: Path) -> None:
    """After a snapshot rows go and stay as if nothing had happened."""
    world = timed(case, 2)
    engine, _ = started(world, case.way, {"w": [5]})
    for time in range(40):
        for name in "ab":
            engine.push(name, at(world, time, time))
    engine.snapshot(tmp_path / "snapshot")
    restored = Engine.restore(tmp_path / "snapshot", clock=clock)
    assert restored.metrics()["inputs"]["a"]["stored"] <= 12
    for time in (38, 41, 44, 60):
        answers = [one.push("a", at(world, 100, time))[case.way] for one in (engine, restored)]
        assert found(answers[0]) == found(answers[1]) != ([] if time < 60 else None)
    restored.check()
