"""Key thresholds through the engine: what is reported when, and rows and numbers of all kinds."""

from __future__ import annotations

import math

import pytest

import standfast as sf
from standfast.engine import registry
from standfast.operators.catalog import KEY_THRESHOLDS

every_way = pytest.mark.parametrize("way", [*KEY_THRESHOLDS, "auto"])
OVER = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW)"


def made(way: str, condition: str, **columns: str) -> tuple[sf.Engine, sf.Group]:
    """An engine with one template over a stream of keys, times and values."""
    engine = sf.Engine(clock=lambda: 2**50)
    kinds = {"k": "string", "ts": "timestamp", "v": "int64"} | columns
    engine.stream("s", kinds, time="ts", lateness_us=100)
    sql = f"SELECT k FROM s QUALIFY {condition.replace('OVER', OVER)}"
    return engine, engine.register(sql, name="g", strategy=way)


def pushed(engine: sf.Engine, *rows: tuple) -> list[tuple]:
    """What a batch of (key, time, value) changed, as (query, key, change)."""
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("k", "ts", "v"))}
    found = engine.push("s", columns)["g"].rows().to_pylist()
    return sorted((row["query"], row["k"], row["change"]) for row in found)


def held(group: sf.Group) -> list[tuple]:
    return sorted((row["query"], row["k"]) for row in group.lookup().to_pylist())


@every_way
def test_keys_are_reported_when_they_come_and_when_they_leave(way):
    engine, group = made(way, "SUM(v) OVER > :t")
    group.add({"w": [10, 100], "t": [5, 5]})
    assert pushed(engine, ("a", 100, 3), ("b", 101, 9)) == [(0, "b", 1), (1, "b", 1)]
    assert pushed(engine, ("a", 105, 3)) == [(0, "a", 1), (1, "a", 1)]
    assert pushed(engine, ("a", 111, 0)) == [(0, "a", -1)]
    assert pushed(engine, ("c", 112, 0)) == [(0, "b", -1)]
    assert pushed(engine, ("c", 113, 0)) == []
    assert held(group) == [(1, "a"), (1, "b")]


@every_way
@pytest.mark.parametrize("few", [1, 4096])
def test_a_query_sees_no_rows_that_only_queries_reached_which_went(way, few, monkeypatch):
    """A way that was made anew after they went took in rows that the lanes were about to drop."""
    monkeypatch.setattr(registry, "FEW", few)  # dead slots that are worth a renumbering
    engine, group = made(way, "COUNT(*) OVER >= :t")
    ids = group.add({"w": [50, 2], "t": [1, 1]})
    pushed(engine, ("a", 100, 1), ("b", 110, 1))
    group.remove(ids)
    group.switch(way)
    group.add({"w": [50], "t": [1]})
    assert held(group) == []
    restored = sf.Engine.from_bytes(engine.to_bytes(), clock=lambda: 2**50)
    assert held(restored.groups["g"]) == []
    assert pushed(engine, ("c", 111, 1)) == [(2, "c", 1)]


@every_way
def test_a_new_query_reports_what_it_holds_with_the_next_batch(way):
    engine, group = made(way, "COUNT(*) OVER >= :t")
    group.add({"w": [50], "t": [2]})
    pushed(engine, ("a", 100, 1), ("a", 101, 1), ("b", 101, 1))
    ids = group.add({"w": [50], "t": [1]})
    assert held(group) == [(0, "a"), (1, "a"), (1, "b")]
    assert pushed(engine, ("c", 102, 1)) == [(1, "a", 1), (1, "b", 1), (1, "c", 1)]
    group.remove(ids)
    assert pushed(engine, ("a", 200, 1)) == [(0, "a", -1)]


@every_way
def test_a_late_row_counts_as_if_it_had_come_in_time(way):
    engine, group = made(way, "MAX(v) OVER BETWEEN :lo AND :hi")
    group.add({"w": [50], "lo": [5], "hi": [8]})
    assert pushed(engine, ("a", 100, 3)) == []
    assert pushed(engine, ("a", 70, 7)) == [(0, "a", 1)]
    assert pushed(engine, ("a", 60, 9)) == [(0, "a", -1)]
    assert pushed(engine, ("b", 111, 0)) == [(0, "a", 1)]
    assert engine.counters("s")["late"] == 0


@every_way
def test_rows_without_key_or_value_are_left_out(way):
    engine, group = made(way, "COUNT(v) OVER <= :t", v="float64")
    group.add({"w": [50], "t": [1]})
    rows = [("a", 100, 1.0), ("a", 100, None), ("a", 100, math.nan), (None, 100, 1.0)]
    assert pushed(engine, *rows, ("b", 100, None)) == [(0, "a", 1)]


@every_way
def test_every_row_counts_for_a_count_of_rows(way):
    engine, group = made(way, "COUNT(*) OVER >= :t")
    group.add({"w": [50], "t": [2]})
    assert pushed(engine, ("a", 100, None), ("a", 100, None), ("b", 100, 1)) == [(0, "a", 1)]


@every_way
@pytest.mark.parametrize("kind", ["int64", "float64", "timestamp"])
def test_keys_of_any_kind_come_back_as_they_were(way, kind):
    engine, group = made(way, "COUNT(*) OVER >= :t", k=kind)
    group.add({"w": [50], "t": [1]})
    keys = {"int64": [2**53 + 1, -4], "float64": [-0.5, math.inf], "timestamp": [5, 2**40]}[kind]
    pushed(engine, *((key, 100, 1) for key in keys))
    found = group.lookup()["k"]
    assert sorted(found.cast("int64").to_pylist() if kind == "timestamp" else found.to_pylist()) \
        == sorted(keys)  # fmt: skip


@every_way
def test_bounds_are_compared_exactly(way):
    engine, group = made(way, "SUM(v) OVER > :t")
    group.add({"w": [50] * 3, "t": [2**53 - 1, 2**53, 2**53 + 1]})
    pushed(engine, ("a", 100, 2**53), ("a", 101, 1))
    assert held(group) == [(0, "a"), (1, "a")]


@every_way
def test_sums_of_floats_are_exact_and_rounded_once(way):
    engine, group = made(way, "SUM(v) OVER >= :t", v="float64")
    above = math.nextafter(1.0, 2.0)
    group.add({"w": [50] * 4, "t": [1.0, above, -math.inf, math.inf]})
    pushed(engine, *(("a", 100 + i, 0.1) for i in range(10)))
    assert held(group) == [(0, "a"), (2, "a")]
    pushed(engine, ("a", 110, math.inf))
    assert held(group) == [(0, "a"), (1, "a"), (2, "a"), (3, "a")]
    pushed(engine, ("a", 110, -math.inf))
    assert held(group) == []


@every_way
def test_sums_with_values_below_0_and_beyond_int64(way):
    engine, group = made(way, "SUM(v) OVER BETWEEN :lo AND :hi")
    most = 2**63 - 1
    group.add({"w": [50] * 3, "lo": [-9, 5, most], "hi": [-1, 5, most]})
    assert pushed(engine, ("a", 100, 5), ("b", 100, -3)) == [(0, "b", 1), (1, "a", 1)]
    assert pushed(engine, ("a", 101, most), ("a", 101, most)) == [(1, "a", -1), (2, "a", 1)]
    assert pushed(engine, ("a", 102, -most), ("a", 102, -most)) == [(1, "a", 1), (2, "a", -1)]


@every_way
def test_a_sum_beyond_int64_is_within_bounds_unless_it_is_selected(way):
    engine, group = made(way, "SUM(v) OVER > :t")
    sql = f"SELECT k, SUM(v) {OVER} AS total FROM s QUALIFY total > :t"
    selected = engine.register(sql, name="selected")
    for some in (group, selected):
        some.add({"w": [50], "t": [5]})
    pushed(engine, ("a", 100, 2**62), ("a", 101, 2**62), ("b", 101, 6))
    assert held(group) == [(0, "a"), (0, "b")]
    assert held(selected) == [(0, "b")]


@every_way
def test_a_bound_that_is_no_number_is_refused_and_empty_ones_hold_nothing(way):
    engine, group = made(way, "MAX(v) OVER BETWEEN :lo AND :hi", v="float64")
    with pytest.raises(sf.BadParameters):
        group.add({"w": [5], "lo": [math.nan], "hi": [1.0]})
    group.add({"w": [5, -1], "lo": [2.0, 0.0], "hi": [1.0, 9.0]})
    assert pushed(engine, ("a", 100, 1.5)) == []
    assert held(group) == []


@every_way
def test_explain_and_metrics_tell_keys_and_rows(way):
    engine, group = made(way, "COUNT(*) OVER >= :t")
    group.add({"w": [50], "t": [1]})
    pushed(engine, ("a", 100, 1), ("b", 101, 1), ("a", 102, 1))
    assert "2 keys, 3 rows" in group.explain()
    assert engine.metrics()["groups"]["g"]["queries"] == 1
    engine.check()


def test_an_unknown_strategy_is_refused_by_name():
    with pytest.raises(sf.UnsupportedQuery, match="naive, collective_index"):
        made("groups", "COUNT(*) OVER >= :t")


@every_way
@pytest.mark.parametrize("function", ["COUNT(v)", "SUM(v)"])
def test_a_lookup_that_need_not_be_exact_names_every_right_key_and_few_others(way, function):
    """Only the collective index has a shortcut: with 32 levels a size it is off by 2 / 34."""
    engine, group = made(way, f"{function} OVER >= :t")
    group.add({"w": [1000], "t": [1000]})
    rows = [(f"k{n}", n, 1) for n in range(920, 1040) for _ in range(n)]
    engine.store("s", {name: [row[i] for row in rows] for i, name in enumerate(("k", "ts", "v"))})
    right = {f"k{n}" for n in range(1000, 1040)}
    named = {row["k"] for row in group.lookup(exact=False).to_pylist()}
    assert {key for _, key in held(group)} == right <= named
    assert (named > right) == (way != "naive")
    assert min(int(key[1:]) for key in named) > (1 - 2 / 34) * 1000


@pytest.mark.parametrize("exact", ["no", 0, 1, None, [False]])
def test_a_lookup_is_told_by_true_or_false_whether_it_must_be_exact(exact):
    """Any other value was taken for its truth, so that "no" meant yes."""
    _, group = made("auto", "COUNT(*) OVER >= :t")
    with pytest.raises(sf.BadParameters, match="exact must be True or False, got") as error:
        group.lookup(exact=exact)
    assert "'g'" in str(error.value)
    assert repr(exact) in str(error.value)


def test_windows_look_up_exactly_whether_or_not_they_have_to():
    engine = sf.Engine(clock=lambda: 2**50)
    engine.stream("s", {"ts": "timestamp", "v": "int64"}, time="ts")
    over = "OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW)"
    group = engine.register(f"SELECT SUM(v) {over} AS total FROM s", name="g")
    group.add({"n": [1, 2]})
    engine.store("s", {"ts": [1, 2, 3], "v": [5, 6, 7]})
    assert group.lookup(exact=False) == group.lookup()
    assert group.lookup()["total"].to_pylist() == [13, 18]
