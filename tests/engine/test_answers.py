"""Answers: every form says the same, and nothing that happens later changes them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import standfast as sf
from engine.reading import pairs_of, rows_of, spans_of
from standfast.engine import registry
from standfast.engine.answer import expand

JOIN = "SELECT * FROM a JOIN b ON b.x - a.x BETWEEN :lo AND :hi"


def joined(kind: str = "int64", *, sql: str = JOIN, strategy: str = "auto") -> sf.Engine:
    """Streams a and b with a join of three bands: 10 (0 to 5), 20 (3 to 3), 30 (-9 to -1)."""
    engine = sf.Engine()
    for name in ("a", "b"):
        engine.stream(name, {"x": kind, "tag": "string"})
    group = engine.register(sql, name="j", strategy=strategy)
    group.add({"lo": [0, 3, -9], "hi": [5, 3, -1], "id": [10, 20, 30]})
    return engine


def rows(*values) -> dict:
    return {"x": list(values), "tag": [f"t{value}" for value in values]}


def test_a_join_answers_arrivals_on_both_sides():
    engine = joined()
    assert pairs_of(engine.push("a", rows(100, 200))["j"]) == []
    answer = engine.push("b", rows(103, 198, 150))["j"]
    assert pairs_of(answer) == [(0, 10), (0, 20), (1, 30)]
    assert rows_of(answer) == [
        (10, 100, "t100", 103, "t103", 1),
        (20, 100, "t100", 103, "t103", 1),
        (30, 200, "t200", 198, "t198", 1),
    ]
    answer = engine.push("a", rows(98, 0))["j"]
    assert rows_of(answer) == [(10, 98, "t98", 103, "t103", 1)]
    assert answer.rows().schema.names == ["query", "a.x", "a.tag", "b.x", "b.tag", "change"]


def test_rows_pushed_together_on_one_side_do_not_meet_each_other():
    engine = joined()
    assert rows_of(engine.push("a", rows(1, 4))["j"]) == []


def test_the_order_of_subtraction_is_kept():
    engine = joined(sql=JOIN.replace("b.x - a.x", "a.x - b.x"))
    engine.push("a", rows(100))
    assert pairs_of(engine.push("b", rows(103, 98, 97, 104))["j"]) == [
        (0, 30), (1, 10), (2, 10), (2, 20), (3, 30),
    ]  # fmt: skip


def test_selected_columns_come_under_their_names_and_types():
    engine = joined(sql="SELECT b.x AS there, a.tag FROM a JOIN b ON b.x - a.x BETWEEN :lo AND :hi")
    engine.push("a", rows(100))
    found = engine.push("b", rows(103))["j"].rows()
    assert found.schema == pa.schema(
        [("query", pa.int64()), ("there", pa.int64()), ("tag", pa.string()), ("change", pa.int8())]
    )
    assert rows_of(engine.push("b", rows(104))["j"]) == [(10, 104, "t100", 1)]


@pytest.mark.parametrize("strategy", ["auto", "hotspot", "merge", "naive"])
def test_every_form_of_an_answer_says_the_same(strategy):
    engine = joined(strategy=strategy)
    engine.push("a", rows(*range(0, 40, 4)))
    answer = engine.push("b", rows(3, 100, 17, 5, 39))["j"]
    pairs = pairs_of(answer)
    assert spans_of(answer) == [(row, query, 1) for row, query in pairs]
    counts = answer.counts().to_pydict()
    assert counts == {"row": [0, 1, 2, 3, 4], "queries": [sum(r == i for r, _ in pairs)
                                                         for i in range(5)]}  # fmt: skip
    by_query = answer.counts(by="query").to_pydict()
    assert by_query["query"] == sorted({query for _, query in pairs})
    assert sum(by_query["rows"]) == len(pairs)
    assert {(row[0], row[3]) for row in rows_of(answer)} == {
        (query, [3, 100, 17, 5, 39][row]) for row, query in pairs
    }
    assert answer.pairs()["row"].to_pylist() == sorted(row for row, _ in pairs)


def self_joined(kind: str = "stream") -> sf.Engine:
    engine = sf.Engine()
    if kind == "stream":
        engine.stream("t", {"k": "int64", "x": "int64"})
    else:
        engine.table("t", {"k": "int64", "x": "int64"}, key="k")
    sql = (
        "SELECT one.k AS one, two.k AS two FROM t one JOIN t two ON two.x - one.x BETWEEN :l AND :h"
    )
    engine.register(sql, name="near").add({"l": [0, 1], "h": [3, 1]})
    return engine


def test_a_self_join_meets_every_pair_of_rows_once_also_within_a_batch():
    whole, cut = self_joined(), self_joined()
    xs = [0, 2, 3, 3, 9]
    together = rows_of(whole.push("t", {"k": range(5), "x": xs})["near"])
    apart = [
        row
        for k, x in enumerate(xs)
        for row in rows_of(cut.push("t", {"k": [k], "x": [x]})["near"])
    ]
    bands = enumerate([(0, 3), (1, 1)])
    expected = [
        (query, one, two, 1)
        for query, (low, high) in bands
        for one in range(5)
        for two in range(5)
        if low <= xs[two] - xs[one] <= high
    ]
    assert together == sorted(apart) == sorted(expected)
    assert (0, 4, 4, 1) in expected


def test_a_row_and_a_query_that_meet_on_both_sides_of_a_self_join_are_one_pair():
    engine = self_joined()
    engine.push("t", {"k": [0], "x": [2]})
    answer = engine.push("t", {"k": [1, 2], "x": [1, 50]})["near"]
    assert pairs_of(answer) == [(0, 0), (0, 1), (1, 0)]
    assert answer.counts().to_pydict() == {"row": [0, 1], "queries": [2, 1]}
    assert answer.counts(by="query").to_pydict() == {"query": [0, 1], "rows": [2, 1]}
    assert rows_of(answer) == [(0, 1, 0, 1), (0, 1, 1, 1), (0, 2, 2, 1), (1, 1, 0, 1)]
    assert sorted(set(spans_of(answer))) == [(0, 0, 1), (0, 1, 1), (1, 0, 1)]


def test_a_row_that_leaves_a_self_joined_table_takes_each_of_its_pairs_once():
    engine = self_joined("table")
    came = rows_of(engine.push("t", {"k": [0, 1, 2], "x": [0, 1, 2]})["near"])
    went = rows_of(engine.delete("t", {"k": [1, 0, 2]})["near"])
    assert went == [(*row[:3], -1) for row in came]
    engine.push("t", {"k": [0, 1, 2], "x": [0, 1, 2]})
    moved = rows_of(engine.push("t", {"k": [1], "x": [2]})["near"])
    gone = [row for row in moved if row[3] < 0]
    assert gone == [(0, 0, 1, -1), (0, 1, 1, -1), (0, 1, 2, -1), (1, 0, 1, -1), (1, 1, 2, -1)]
    assert sorted(set(moved) - set(gone)) == [
        (0, 0, 1, 1), (0, 1, 1, 1), (0, 1, 2, 1), (0, 2, 1, 1),
    ]  # fmt: skip


def everything(answer: sf.Answer) -> tuple:
    spans = answer.spans()
    return (
        answer.counts().to_pydict(), pairs_of(answer), rows_of(answer),
        spans.spans.to_pydict(), spans.order.to_pylist(), spans.rank.to_pylist(),
    )  # fmt: skip


@pytest.mark.parametrize("strategy", ["auto", "hotspot", "merge"])
def test_an_answer_does_not_change_when_queries_and_rows_come_and_go(monkeypatch, strategy):
    monkeypatch.setattr(registry, "FEW", 0)
    asked_later, asked_before = joined(strategy=strategy), joined(strategy=strategy)
    for engine in (asked_later, asked_before):
        engine.push("a", rows(*range(50)))
    answer = asked_later.push("b", rows(*range(0, 60, 7)))["j"]
    expected = everything(asked_before.push("b", rows(*range(0, 60, 7)))["j"])
    group = asked_later.groups["j"]
    group.add({"lo": range(50), "hi": range(50, 100), "id": range(1000, 1050)})
    group.remove([10, 30])
    group.remove(range(1000, 1050))
    asked_later.push("a", rows(*range(40, 90)))
    asked_later.push("b", rows(*range(40)))
    assert everything(answer) == expected


def test_an_answer_about_a_table_outlives_its_rows():
    engine = sf.Engine()
    engine.table("t", {"k": "int64", "x": "int64"}, key="k")
    engine.stream("s", {"x": "int64"})
    sql = "SELECT t.k, s.x FROM t JOIN s ON s.x - t.x BETWEEN :lo AND :hi"
    engine.register(sql, name="j").add({"lo": 0, "hi": 5})
    engine.push("t", {"k": range(20), "x": range(20)})
    answer = engine.push("s", {"x": [4, 40]})["j"]
    expected = [(0, k, 4, 1) for k in range(5)]
    engine.delete("t", {"k": range(0, 20, 2)})
    engine.push("t", {"k": [1, 3], "x": [77, 78]})
    engine.delete("t", {"k": range(20)})
    assert rows_of(answer) == expected


@pytest.mark.parametrize("wrap", [lambda a: {"x": a}, lambda a: pd.DataFrame({"x": a}, copy=False)])
@pytest.mark.parametrize("kind", ["int64", "float64", "timestamp"])
def test_filling_a_pushed_array_again_changes_neither_answers_nor_stored_rows(kind, wrap):
    # Rows of int64 and timestamps once shared the memory of the array that was pushed.
    engine = sf.Engine()
    engine.stream("a", {"x": kind})
    engine.stream("b", {"x": kind})
    hole = {"lo": [0]}
    engine.register("SELECT x FROM a WHERE x >= :lo", name="f").add(hole)
    engine.register("SELECT a.x AS a FROM a JOIN b ON b.x - a.x >= :lo", name="j").add(hole)
    values = np.arange(4, dtype=np.float64 if kind == "float64" else np.int64)
    answer = engine.push("a", wrap(values))["f"]
    values[:] = 99
    zero_to_three = [str(value) for value in engine._stores["a"].living()["x"].to_pylist()]
    assert len(set(zero_to_three)) == 4
    assert sorted(str(row[1]) for row in rows_of(answer)) == sorted(zero_to_three)
    late = engine.push("b", {"x": [3]})["j"]
    assert sorted(str(row[1]) for row in rows_of(late)) == sorted(zero_to_three)


def test_an_answer_tells_its_size():
    answer = joined().push("a", rows(1, 2))["j"]
    assert repr(answer) == "Answer(2 rows, 1 parts)"
    assert answer.n_rows == 2


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5)), max_size=8))
def test_places_are_listed_slice_by_slice(slices):
    starts = np.array([start for start, _ in slices], np.int64)
    counts = np.array([count for _, count in slices], np.int64)
    expected = [start + i for start, count in slices for i in range(count)]
    assert expand(starts, counts).tolist() == expected


def test_counts_are_by_row_or_by_query_and_nothing_else():
    engine = sf.Engine()
    engine.stream("trades", {"price": "float64"})
    engine.register("SELECT * FROM trades WHERE price > :p", name="g")
    answer = engine.push("trades", {"price": [1.0]})["g"]
    with pytest.raises(sf.BadInput) as error:
        answer.counts("rwo")
    assert str(error.value) == 'counts by \'rwo\' are not known\n  hint: by="row" or by="query"'


def test_a_row_that_was_replaced_affects_a_query_once():
    # It was once counted for going and for coming.
    engine = sf.Engine()
    engine.table("stock", {"key": "string", "x": "int64"}, key="key")
    engine.register("SELECT * FROM stock WHERE x > :x", name="g").add({"x": [0]})
    engine.push("stock", {"key": ["a"], "x": [1]})
    answer = engine.push("stock", {"key": ["a", "b"], "x": [2, 3]})["g"]
    assert answer.counts().to_pydict() == {"row": [0, 1], "queries": [1, 1]}
    assert answer.counts(by="query").to_pydict() == {"query": [0], "rows": [2]}


def test_a_join_sees_stream_rows_from_the_first_join_on_and_all_rows_of_a_table():
    sql = "SELECT * FROM u JOIN t ON t.x - u.x BETWEEN :lo AND :hi"
    engine = sf.Engine()
    engine.stream("u", {"x": "int64"})
    engine.table("t", {"key": "int64", "x": "int64"}, key="key")
    engine.push("u", {"x": [1]})
    engine.push("t", {"key": [1], "x": [1]})
    engine.register(sql, name="first").add({"lo": 0, "hi": 0})
    assert engine.push("t", {"key": [2], "x": [1]})["first"].rows().num_rows == 0
    assert engine.push("u", {"x": [1]})["first"].rows().num_rows == 2
    engine.register(sql, name="second").add({"lo": 0, "hi": 0})
    answers = engine.push("t", {"key": [3], "x": [1]})
    assert [answers[name].rows().num_rows for name in ("first", "second")] == [1, 1]


def test_the_spans_of_an_answer_do_not_grow_with_the_queries():
    def spans(n_queries):
        engine = sf.Engine()
        engine.stream("r", {"b": "int64"})
        engine.stream("s", {"b": "int64"})
        group = engine.register("SELECT * FROM r JOIN s ON s.b - r.b BETWEEN :lo AND :hi", name="g")
        group.add({"lo": -np.arange(n_queries), "hi": np.arange(n_queries)})
        engine.push("s", {"b": [5]})
        return engine.push("r", {"b": [0, 3, 9]})["g"].spans()

    few, many = spans(20), spans(2_000)
    assert few.spans.num_rows == many.spans.num_rows > 0
    assert "order" not in vars(many)  # the order is as long as the queries: only when asked
    assert len(many.order) >= 2_000


@pytest.mark.parametrize("most", [0, -1, "a"])
def test_a_piece_of_an_answer_has_a_pair_at_least(most):
    engine = sf.Engine()
    engine.stream("s", {"v": "int64"})
    engine.register("SELECT * FROM s WHERE v > :lo", name="q").add({"lo": [0]})
    answer = engine.push("s", {"v": [1]})["q"]
    with pytest.raises(sf.StandfastError, match=f"1 pair at least, not {most!r}"):
        list(answer.pieces(most))
