"""Windows through the engine: queries without answers, reused slots, bad input, `explain`."""

from __future__ import annotations

import re

import numpy as np
import pytest

import standfast as sf
from standfast.engine import registry
from standfast.operators.aggregates import aggregate_of, serves
from standfast.operators.catalog import WINDOW_AGGREGATES

FUNCTIONS = {"SUM": "SUM(a)", "MAX": "MAX(a)", "PERCENTILE_DISC": "PERCENTILE_DISC(a, 0.5)"}
SERVED = [
    (way, name)
    for way, made in WINDOW_AGGREGATES.items()
    for name in FUNCTIONS
    if serves(made.spec.needs, aggregate_of(name, is_float=True).belongs_to)
]
BY_TIME = "OVER (ORDER BY ts RANGE BETWEEN :left PRECEDING AND CURRENT ROW) AS v FROM s"


def engine_of_one_stream():
    engine = sf.Engine()
    engine.stream("s", {"ts": "timestamp", "k": "string", "a": "float64", "n": "int64"}, time="ts")
    return engine


def rows(times, keys, values, numbers=None):
    numbers = np.ones(len(times), np.int64) if numbers is None else np.array(numbers)
    return {"ts": np.array(times, "M8[us]"), "k": list(keys), "a": np.array(values), "n": numbers}


@pytest.mark.parametrize(("way", "name"), SERVED)
@pytest.mark.parametrize("key", ["", "PARTITION BY k"])
def test_a_bound_that_nothing_meets_has_no_answer(way, name, key):
    engine = engine_of_one_stream()
    window = f"OVER ({key} ORDER BY ts ROWS BETWEEN :left PRECEDING AND CURRENT ROW)"
    group = engine.register(
        f"SELECT {FUNCTIONS[name]} {window} AS v FROM s QUALIFY v BETWEEN :lo AND :hi",
        name="bounded", strategy=way,
    )  # fmt: skip
    group.add({"id": [7, 8], "left": [3, 3], "lo": [0.0, 5.0], "hi": [100.0, 1.0]})
    group.add({"id": [9], "left": [2], "lo": [5.0], "hi": [1.0]})
    for begin in (0, 10):
        changes = engine.push("s", rows([begin, begin + 1, begin + 2], "aba", [1.0, 2.0, 4.0]))
        assert set(changes["bounded"].rows()["query"].to_pylist()) <= {7}
        # The second time answers may have been written down.
        for _ in range(2):
            assert set(group.lookup()["query"].to_pylist()) == {7}
            assert group.lookup([8, 9]).num_rows == 0
    group.remove([8])
    assert set(group.lookup()["query"].to_pylist()) == {7}


def test_a_slot_that_is_used_again_does_not_report_what_it_held_before(monkeypatch):
    """A push reads a window again only if its rows changed; a quantile of them may be another."""
    monkeypatch.setattr(registry, "FEW", 4)
    engine = engine_of_one_stream()
    group = engine.register(f"SELECT PERCENTILE_DISC(a, :p) {BY_TIME} WHERE n > 0", name="shares")
    ids = group.add({"left": np.full(10, 100), "p": np.full(10, 0.5)})
    engine.push("s", rows([1, 2, 3], "aaa", [1.0, 2.0, 3.0]))
    group.remove(ids[1:])
    group.add({"left": np.full(9, 100), "p": np.full(9, 1.0)})
    changes = engine.push("s", rows([3], "a", [9.0], [0]))["shares"].rows()
    assert changes["v"].to_pylist() == [3.0] * 9


@pytest.mark.parametrize("function", ["MAX(a, n)", "MIN(a, n)", "COUNT(a, n)", "LAST(a, TRUE)"])
def test_an_aggregate_of_more_than_a_column_is_refused(function):
    with pytest.raises(sf.UnsupportedQuery, match="an aggregate is of one column"):
        engine_of_one_stream().register(f"SELECT {function} {BY_TIME}")


def test_a_bound_names_the_answer_in_any_case_unless_it_is_quoted():
    engine = engine_of_one_stream()
    group = engine.register(f"SELECT SUM(a) {BY_TIME} QUALIFY V > :least", name="named")
    group.add({"left": [10, 10], "least": [0.0, 5.0]})
    engine.store("s", rows([1], "a", [3.0]))
    assert group.lookup().to_pydict() == {"query": [0], "v": [3.0]}
    with pytest.raises(sf.UnsupportedQuery, match="QUALIFY compares something else"):
        engine.register(f'SELECT SUM(a) {BY_TIME} QUALIFY "V" > :least')


def of_sums(lift, inverse=None):
    return sf.UserAggregate(lift, lambda a, b: a + b, lambda kept: kept[:, 0], inverse)


def test_what_is_no_aggregate_is_refused():
    engine = engine_of_one_stream()
    with pytest.raises(sf.BadInput, match="is not a UserAggregate"):
        engine.aggregate("total", np.sum)
    with pytest.raises(sf.BadInput, match="fails on two zeros: nothing is taken away"):
        engine.aggregate("total", of_sums(lambda values: values[:, None], failing))
    with pytest.raises(sf.BadInput, match="makes synopses of shape"):
        engine.aggregate("total", of_sums(lambda values: values[:, None], lambda a, b: a[:, 0]))


def failing(total, part):
    raise ValueError("nothing is taken away")


def test_rows_that_an_aggregate_fails_on_are_not_left_out_of_later_answers():
    def lift(values):
        if is_broken:
            raise ValueError("broken")
        return values[:, None]

    is_broken = False
    engine = engine_of_one_stream()
    engine.aggregate("total", of_sums(lift))
    group = engine.register(f"SELECT total(a) {BY_TIME}", name="totals")
    group.add({"left": [10]})
    is_broken = True
    for time, value in [(1, 7.0), (2, 6.0)]:
        answer = engine.push("s", rows([time], "a", [value]))["totals"]
        with pytest.raises(sf.FailedAggregate, match="broken"):
            answer.rows()
    is_broken = False
    engine.store("s", rows([3], "a", [1.0]))
    assert group.lookup()["v"].to_pylist() == [14.0]


@pytest.mark.parametrize("way", [way for way, name in SERVED if name == "SUM"])
def test_a_sum_beyond_float64_is_infinite(way):
    engine = engine_of_one_stream()
    group = engine.register(f"SELECT SUM(a) {BY_TIME}", name="sums", strategy=way)
    group.add({"left": [0, 1, 2]})
    engine.push("s", rows([1, 2, 3], "aaa", [1e308, 1e308, 1e308]))
    assert group.lookup()["v"].to_pylist() == [1e308, np.inf, np.inf]
    engine.push("s", rows([4, 5, 6], "aaa", [-1e308, -1e308, -1e308]))
    assert group.lookup()["v"].to_pylist() == [-1e308, -np.inf, -np.inf]
    engine.push("s", rows([7, 8, 9], "aaa", [1e308, 1e308, -np.inf]))
    assert group.lookup()["v"].to_pylist() == [-np.inf, -np.inf, -np.inf]


@pytest.mark.parametrize("way", [way for way, name in SERVED if name == "SUM"])
def test_a_key_that_is_left_alone_with_another_number_is_read_there(way):
    """The router put a change by under the number that the key had before others went."""
    engine = engine_of_one_stream()
    sql = BY_TIME.replace("ORDER", "PARTITION BY k ORDER")
    group = engine.register(f"SELECT k, SUM(a) {sql}", name="sums", strategy=way)
    group.add({"left": [10]})
    others = [str(i) for i in range(9_000)]
    engine.push("s", rows(np.full(9_000, 1_000), others, np.ones(9_000)))
    for time in (2_000, 3_000, 4_000):
        engine.store("s", rows(np.full(4_000, time), ["late"] * 4_000, np.arange(4_000.0)))
    assert group.lookup()["v"].to_pylist() == [7_998_000.0]


def test_a_snapshot_of_windows_over_keys_without_queries_is_in_order():
    """A change of no lanes was put by, and the check took it for one that nobody knew of."""
    engine = engine_of_one_stream()
    sql = BY_TIME.replace("ORDER", "PARTITION BY k ORDER")
    engine.register(f"SELECT k, SUM(a) {sql}", name="sums")
    restored = sf.Engine.from_bytes(engine.to_bytes())
    restored.check()
    restored.groups["sums"].add({"left": [10]})
    restored.push("s", rows([1_000, 1_001], "xy", [1.0, 2.0]))
    restored.check()
    assert restored.groups["sums"].lookup()["v"].to_pylist() == [1.0, 2.0]


def test_explain_names_the_structure_that_the_mix_of_rows_and_lookups_chose():
    """Rows alone want base intervals, many wide windows at a time landmarks, one by one the former.

    The clock stands still, so that estimates decide and not how busy the machine is.
    """
    engine = engine_of_one_stream()
    window = "OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND CURRENT ROW)"
    group = engine.register(f"SELECT MAX(a) {window} FROM s", name="maxima")
    group.reader.strategy._clock = lambda: 0.0
    ids = group.add({"left": 2**19 + np.arange(40_000)})
    engine.store("s", rows(np.arange(100), "a" * 100, np.arange(100.0)))
    assert "chosen as the best known way" in group.explain()
    told = [structures_told(group)]
    for i in range(0, 32_000, 1_000):
        group.lookup(ids[i : i + 1_000])
    told.append(structures_told(group))
    for time in range(100, 150):
        engine.store("s", rows([time], "a", [1.0]))
        group.lookup(ids[:1])
    told.append(structures_told(group))
    assert [each[:2] for each in told] == [
        ("base_intervals", 0), ("landmark_intervals", 1), ("base_intervals", 2),
    ]  # fmt: skip
    for way, _, costs in told[:2]:
        assert costs.keys() == {"base_intervals", "landmark_intervals"}
        assert 0 < costs[way] == min(costs.values())


def structures_told(group):
    """What `explain` says: the one in use, after how many switches, what each would have cost."""
    text = group.explain()
    way, n_switches = (
        re.search(p, text)[1] for p in (r"inside  structure (\w+)", r"(\d+) switches")
    )
    costs = {way: float(us) for way, us in re.findall(r"us by (\w+) ([\d.e+-]+)", text)}
    return way, int(n_switches), costs


def test_rows_within_a_reach_that_is_held_stay_while_all_queries_are_replaced():
    engine = engine_of_one_stream()
    group = engine.register(f"SELECT SUM(a) {BY_TIME}", name="sums")
    group.add({"id": [1, 2], "left": [50, 5]})
    engine.push("s", rows([0, 30, 48, 50], "aaaa", [1.0, 2.0, 4.0, 8.0]))
    with group.holding(25):
        group.remove([1, 2])
        group.add({"id": [3, 4], "left": [50, 5]})
    assert group.lookup()["v"].to_pylist() == [14.0, 12.0]
    group.remove([3])
    group.add({"id": [5], "left": [50]})
    assert group.lookup()["v"].to_pylist() == [12.0, 12.0], "nothing is held any more"
