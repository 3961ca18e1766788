"""Filters through the engine: strings, literals, times, and values that match nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

import standfast as sf
from engine.reading import pairs_of, rows_of

COLUMNS = {"ts": "timestamp", "price": "float64", "size": "int64", "symbol": "string"}


def engine_of(condition: str, select: str = "*", strategy: str = "auto") -> sf.Engine:
    engine = sf.Engine()
    engine.stream("trades", COLUMNS)
    sql = f"SELECT {select} FROM trades WHERE {condition}"
    engine.register(sql, name="f", strategy=strategy)
    return engine


def push(engine: sf.Engine, **columns) -> sf.Answer:
    n = len(next(iter(columns.values())))
    rows = {"ts": [0] * n, "price": [1.0] * n, "size": [1] * n, "symbol": ["A"] * n} | columns
    answer = engine.push("trades", rows)["f"]
    engine.check()
    return answer


def test_strings_that_no_query_knows_match_nothing():
    engine = engine_of("symbol = :symbol")
    assert pairs_of(push(engine, symbol=["A", "B", None])) == []
    engine.groups["f"].add({"symbol": ["B", "", "B", "ü"], "id": [1, 2, 3, 4]})
    found = pairs_of(push(engine, symbol=["A", "B", None, "", "ü", "b", "B"]))
    assert found == [(1, 1), (1, 3), (3, 2), (4, 4), (6, 1), (6, 3)]
    # Events leave no codes behind, and do not disturb those of later queries.
    engine.groups["f"].add({"symbol": ["A"], "id": [5]})
    assert engine.groups["f"].strings.codes == {"B": 0, "": 1, "ü": 2, "A": 3}
    assert pairs_of(push(engine, symbol=["ü", "A"])) == [(0, 4), (1, 5)]


def test_a_string_and_a_range_must_both_hold():
    engine = engine_of("symbol = :s AND price BETWEEN :lo AND :hi", strategy="naive")
    engine.groups["f"].add({"s": ["A", "B", "A"], "lo": [1, 1, 5], "hi": [3, 3, 9]})
    answer = push(engine, symbol=["A", "B", "C", "A"], price=[2.0, 9.0, 2.0, 6.0])
    assert pairs_of(answer) == [(0, 0), (3, 2)]


def test_a_hole_used_twice_has_one_value():
    engine = engine_of("price <= :x AND price >= :x")
    engine.groups["f"].add({"x": [2.0, 3.0]})
    assert pairs_of(push(engine, price=[2.0, 3.0, 2.5])) == [(0, 0), (1, 1)]


def test_literal_conditions_decide_before_any_query_is_asked():
    engine = engine_of("symbol = 'A' AND size < 10 AND size >= 2 AND price > :lo")
    engine.groups["f"].add({"lo": [5.0]})
    answer = push(
        engine, symbol=["A", "B", "A", "A", None, "A"], size=[5, 5, 10, 2, 5, None], price=[6.0] * 6
    )
    assert pairs_of(answer) == [(0, 0), (3, 0)]
    assert engine.metrics()["groups"]["f"]["unmatched"] == 4


def test_literal_and_hole_on_one_column_are_one_range():
    engine = engine_of("price > 5 AND price < :hi")
    engine.groups["f"].add({"hi": [7.0, 3.0]})
    assert pairs_of(push(engine, price=[5.0, 6.0, 7.0, 2.0])) == [(1, 0)]


def test_open_and_closed_ends_are_kept():
    values = [1.0, math.nextafter(1.0, 2), 1.5, math.nextafter(2.0, 1), 2.0]
    for low, high, inside in [
        (">", "<", [1, 2, 3]),
        (">=", "<", [0, 1, 2, 3]),
        (">", "<=", [1, 2, 3, 4]),
        (">=", "<=", [0, 1, 2, 3, 4]),
    ]:
        engine = engine_of(f"price {low} :lo AND price {high} :hi")
        engine.groups["f"].add({"lo": 1, "hi": 2})
        assert pairs_of(push(engine, price=values)) == [(row, 0) for row in inside]


def test_nulls_and_nan_match_nothing_and_are_counted():
    engine = engine_of("price BETWEEN :lo AND :hi")
    engine.groups["f"].add({"lo": [-math.inf], "hi": [math.inf]})
    answer = push(engine, price=[math.nan, None, math.inf, -math.inf, 0.0])
    assert pairs_of(answer) == [(2, 0), (3, 0), (4, 0)]
    assert answer.counts()["queries"].to_pylist() == [0, 0, 1, 1, 1]
    metrics = engine.metrics()
    assert metrics["groups"]["f"]["unmatched"] == 2
    assert metrics["inputs"]["trades"]["used"] == 5


def test_an_empty_range_is_registered_and_never_hit():
    engine = engine_of("price BETWEEN :lo AND :hi")
    group = engine.groups["f"]
    group.add({"lo": [5.0, 1.0], "hi": [1.0, 5.0], "id": [7, 8]})
    assert (len(group), pairs_of(push(engine, price=[3.0]))) == (2, [(0, 8)])
    group.remove(7)
    assert (len(group), pairs_of(push(engine, price=[3.0]))) == (1, [(0, 8)])


MOMENT = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "since",
    [
        [MOMENT],
        pa.array([MOMENT], pa.timestamp("ms", "UTC")),
        np.array(["2024-05-01T12:00:00"], "datetime64[s]"),
        [int(MOMENT.timestamp()) * 1_000_000],
    ],
)
def test_a_hole_on_a_time_takes_times_and_microseconds(since):
    engine = engine_of("ts >= :since", select="ts")
    engine.groups["f"].add({"since": since})
    second = timedelta(seconds=1)
    answer = push(engine, ts=[MOMENT - second, MOMENT, MOMENT + second])
    assert rows_of(answer) == [(0, MOMENT, 1), (0, MOMENT + second, 1)]


def test_a_literal_time_is_compared_in_utc():
    engine = engine_of("ts >= TIMESTAMP '2024-05-01 14:00:00+02:00' AND price > :lo")
    engine.groups["f"].add({"lo": 0})
    answer = push(engine, ts=[MOMENT - timedelta(microseconds=1), MOMENT])
    assert pairs_of(answer) == [(1, 0)]


@pytest.mark.parametrize(
    "width", [[timedelta(seconds=5)], [5_000_000], [5e6], pa.array([5], pa.duration("s"))]
)
def test_a_band_on_times_takes_durations_and_microseconds(width):
    engine = sf.Engine()
    engine.stream("a", {"ts": "timestamp"})
    engine.stream("b", {"ts": "timestamp"})
    engine.register("SELECT * FROM a JOIN b ON ABS(a.ts - b.ts) <= :w", name="j").add({"w": width})
    engine.push("a", {"ts": [MOMENT]})
    seconds = [-6, -5, 0, 5, 5.000001]
    answer = engine.push("b", {"ts": [MOMENT + timedelta(seconds=s) for s in seconds]})["j"]
    assert pairs_of(answer) == [(1, 0), (2, 0), (3, 0)]


def test_a_projection_renames_and_repeats_columns():
    engine = engine_of("price > :lo", select="symbol AS name, price, price AS again")
    engine.groups["f"].add({"lo": [0.0]})
    found = push(engine, price=[2.5]).rows()
    assert found.schema.names == ["query", "name", "price", "again", "change"]
    assert found.to_pylist() == [{"query": 0, "name": "A", "price": 2.5, "again": 2.5, "change": 1}]


def test_integers_beyond_float64_are_told_apart():
    engine = engine_of("size = :n")
    engine.groups["f"].add({"n": [2**53, 2**53 + 1]})
    assert pairs_of(push(engine, size=[2**53 + 1, 2**53, 2**53 + 2])) == [(0, 1), (1, 0)]


def test_groups_over_one_input_answer_side_by_side():
    engine = engine_of("price > :lo")
    other = engine.register("SELECT size FROM trades WHERE size < :n", name="other")
    engine.groups["f"].add({"lo": [0.0]})
    other.add({"n": [5]})
    rows = {"ts": [0], "price": [1.0], "size": [9], "symbol": ["A"]}
    answers = engine.push("trades", rows)
    assert {name: pairs_of(answer) for name, answer in answers.items()} == {
        "f": [(0, 0)], "other": [],
    }  # fmt: skip
