"""What a push reads again, by counts: it follows what changed, not how many queries there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import standfast as sf
from standfast.engine.relations import Relation
from standfast.engine.reported import Reported
from standfast.engine.sharing import ALL, Share

START = 1_000_000


def engine_of(aggregate: str, frame: str, qualify: str = "", *, key: bool = False) -> sf.Engine:
    engine = sf.Engine(clock=lambda: 2**50, follows=True)
    columns = {"ts": "timestamp", "v": "int64", "k": "int64"}
    engine.stream("s", columns, time="ts", lateness_us=10**9)
    partition = "PARTITION BY k " if key else ""
    over = f"({partition}ORDER BY ts {frame})"
    engine.register(f"SELECT {aggregate} OVER {over} AS answer FROM s {qualify}", name="q")
    return engine


SUFFIX = "ROWS BETWEEN :left PRECEDING AND CURRENT ROW"
IN_TIME = "RANGE BETWEEN :left PRECEDING AND CURRENT ROW"
PAST = "RANGE BETWEEN :left PRECEDING AND :right PRECEDING"


def rows(times: Any, values: Any, keys: Any = 0) -> dict[str, Any]:
    times, values, keys = np.broadcast_arrays(np.atleast_1d(times), values, keys)
    return {"ts": times, "v": values, "k": keys}


def push(engine: sf.Engine, *batch: Any) -> tuple[int, list[tuple[Any, ...]]]:
    """How many windows a push read, and what it told."""
    told = engine.push("s", rows(*batch))["q"].rows().to_pylist()
    read = engine.groups["q"].metrics()["reread"]
    return int(read), sorted(tuple(row.values()) for row in told)


@pytest.mark.parametrize(("aggregate", "near", "far"), [("SUM(v)", 150, 50_000), ("MAX(v)", 5, 99)])
@pytest.mark.parametrize("frame", [SUFFIX, IN_TIME])
def test_queries_far_from_their_bound_are_not_read(aggregate, near, far, frame):
    n_read = {}
    for n_far in (100, 10_000):
        engine = engine_of(aggregate, frame, "QUALIFY answer >= :least")
        group = engine.groups["q"]
        group.add({"left": np.full(10, 50), "least": np.full(10, near)})
        group.add({"left": np.arange(n_far) % 50, "least": np.full(n_far, far)})
        push(engine, START + np.arange(60), np.arange(60) % 10)
        n_read[n_far], n_told = [], 0
        for step in range(40):  # rows go on the way
            read, told = push(engine, START + 60 + step, step % 10)
            n_read[n_far].append(read)
            n_told += len(told)
        engine.check()
        assert n_told or aggregate == "MAX(v)"
    assert n_read[100] == n_read[10_000] == [10] * 40


def test_a_sum_wakes_in_time_to_be_told():
    """Rows as large as can be, one after the other, until the bound is met."""
    engine = engine_of("SUM(v)", SUFFIX, "QUALIFY answer >= :least")
    engine.groups["q"].add({"left": np.full(200, 1000), "least": 10 * np.arange(1, 201)})
    push(engine, START, 0)
    n_read, found = 0, []
    for step in range(1, 101):
        read, told = push(engine, START + step, 10)
        n_read += read - step
        found.append([query for query, *_, change in told if change > 0])
    assert found == [list(range(step)) for step in range(1, 101)]
    assert n_read < 10 * 200


def test_sums_that_int64_cannot_hold_stay_awake():
    engine = engine_of("SUM(v)", SUFFIX, "QUALIFY answer >= :least")
    engine.groups["q"].add({"left": [2] * 40, "least": [2**63 - 10] * 40})
    push(engine, [START, START + 1], 2**62)
    read, told = push(engine, START + 2, -5)
    assert (read, [row[1] for row in told]) == (40, [2**63 - 5] * 40)


def test_sums_that_int64_cannot_hold_stay_awake_beside_an_empty_window():
    """The empty window made them look like known zeros."""
    engine = engine_of("SUM(v)", PAST, "QUALIFY answer >= :least")
    lefts, rights = np.full(40, 1_000), np.zeros(40, np.int64)
    lefts[-1] = rights[-1] = 900
    least = np.full(40, 2**63 - 10)
    engine.groups["q"].add({"left": lefts, "right": rights, "least": least})
    push(engine, np.arange(START - 1_000, START - 980), 0)
    push(engine, [START, START + 1], 2**62)
    _, told = push(engine, START + 2, -5)
    assert [row[:2] for row in told] == [(query, 2**63 - 5) for query in range(39)]


@pytest.mark.parametrize("way", ["running_intervals", "base_intervals"])
def test_lookups_of_sums_go_from_ages_to_answers(way, monkeypatch):
    """No position of a window is looked for."""
    engine = sf.Engine(clock=lambda: 2**50)
    engine.stream("s", {"ts": "timestamp", "v": "float64"}, time="ts")
    over = "OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND :right PRECEDING)"
    group = engine.register(f"SELECT SUM(v) {over} FROM s", name="q", strategy=way)
    group.add({"left": [0, 3, 9, 50, 50], "right": [0, 1, 3, 18, 40]})
    engine.store("s", {"ts": START + np.arange(20), "v": np.arange(20.0)})
    with monkeypatch.context() as patched:
        patched.setattr(type(group.reader.lanes), "positions", None)
        assert group.lookup().column(1).to_pylist() == [19.0, 51.0, 91.0, 1.0, None]
    group.add({"left": [2], "right": [3]})  # which no row can be in
    assert group.lookup().column(1).to_pylist() == [19.0, 51.0, 91.0, 1.0, None, None]


def test_windows_in_time_are_read_when_a_row_crosses_an_edge():
    engine = engine_of("SUM(v)", PAST)
    lows = np.arange(0, 1000)
    engine.groups["q"].add({"left": lows + 10_000, "right": lows})
    push(engine, START, 1)
    engine.advance("s", START + 1000)
    engine.report()
    steps = {1001: 0, 10_000: 0, 10_001: 1, 10_006: 5, 10_999: 993, 11_000: 1}
    for now, n_crossed in steps.items():
        engine.advance("s", START + now)
        assert engine.report()["q"].rows().num_rows == 2 * n_crossed
        assert engine.groups["q"].metrics()["reread"] == n_crossed
    assert engine.groups["q"].lookup()["answer"].null_count == 1000


def test_windows_by_rows_are_read_in_lanes_that_rows_came_to():
    engine = engine_of("SUM(v)", SUFFIX, key=True)
    engine.groups["q"].add({"left": np.arange(500)})
    push(engine, START, 1, np.arange(100))
    assert push(engine, START + 1, 1, [3, 5, 7])[0] == 3 * 500
    engine.groups["q"].add({"left": np.arange(2)})
    read, told = push(engine, START + 2, 0, [3])
    assert read == 500 + 2 * 100
    assert len(told) == 2 * 100 + 2 * 2
    assert engine.report()["q"].rows().num_rows == engine.groups["q"].metrics()["reread"] == 0


@pytest.mark.parametrize(("n_rows", "is_snapshot"), [(10, True), (17, False)])
def test_rows_that_went_before_a_report_wake_who_held_them(n_rows, is_snapshot):
    """A snapshot lets rows go that no window reaches, and so do many rows that come."""
    engine = engine_of("SUM(v)", SUFFIX, "QUALIFY answer <= :most")
    engine.groups["q"].add({"left": [40] * 9, "most": [10] * 9})
    push(engine, START + np.arange(41), np.where(np.arange(41) < n_rows, 1000, 0))
    engine.store("s", rows(START + 50 + np.arange(n_rows), 0))
    if is_snapshot:
        engine.to_bytes()
    assert len(engine.groups["q"].reader.lanes) == 41
    assert [row["answer"] for row in engine.report()["q"].rows().to_pylist()] == [0] * 9


def test_keys_whose_lanes_are_gone_are_told_to_be():
    engine = engine_of("SUM(v)", IN_TIME, key=True)
    engine.groups["q"].add({"left": [10]})
    push(engine, START, 1, np.arange(500))
    for step in (1, 2):
        engine.store("s", rows(START + 1000 * step, np.arange(200), 999))
    lanes = engine.groups["q"].reader.lanes
    assert (lanes.generation, lanes.n_lanes) == (1, 1)
    told = engine.report()["q"].rows().to_pylist()
    assert [row["change"] for row in told] == [-1] * 500 + [1]


def test_another_share_is_told_from_the_beginning():
    engine = engine_of("SUM(v)", SUFFIX)
    engine.groups["q"].add({"left": np.arange(100)})
    engine.store("s", rows(START, 1))
    shares = (Share(0, 2), Share(1, 2), Share(1, 2), ALL)
    n_told = [engine.report(share)["q"].rows().num_rows for share in shares]
    assert n_told[0] + n_told[1] == 100
    assert n_told[2:] == [0, n_told[0]]


def test_explain_tells_what_a_push_reads():
    cases = {
        (SUFFIX, ""): "all windows of lanes that rows came to",
        (IN_TIME, ""): "windows that a row came into or left",
        (SUFFIX, "QUALIFY answer >= :least"): "windows that may have come near to theirs",
    }
    for (frame, qualify), expected in cases.items():
        engine = engine_of("SUM(v)", frame, qualify)
        engine.groups["q"].add({"left": [5]} | ({"least": [1]} if qualify else {}))
        push(engine, START, 1)
        assert expected in engine.groups["q"].explain()
        assert "1 windows by the last" in engine.groups["q"].explain()


@pytest.mark.parametrize("seed", range(4))
def test_what_is_reported_changes_in_place(seed):
    rng = np.random.default_rng(seed)
    reported, expected = Reported(), dict[tuple[int, int], tuple[int, bool]]()
    for _ in range(50):
        places = np.sort(rng.choice(400, int(rng.integers(0, 60)), replace=False))
        n = places.size
        read = Relation(places // 8, places % 8, rng.integers(0, 3, n), rng.random(n) < 0.7)
        holds = rng.random(n) < (0.2 if rng.random() < 0.3 else 0.8)
        went, came = reported.update(read, holds)
        now = dict(expected)
        for slot, code, raw, known, is_held in zip(
            *(c.tolist() for c in (*read, holds)), strict=True
        ):
            now.pop((slot, code), None)
            if is_held:
                now[slot, code] = raw, known
        for rows_told, one, other in ((went, expected, now), (came, now, expected)):
            told = {
                (s, c): (r, k) for s, c, r, k in zip(*(c.tolist() for c in rows_told), strict=True)
            }
            assert told == {of: value for of, value in one.items() if other.get(of) != value}
        expected = now
        reported.check()
        found = reported.rows()
        assert list(zip(found.slots.tolist(), found.codes.tolist(), strict=True)) == sorted(
            expected
        )
    assert reported.memory_bytes() > 0
