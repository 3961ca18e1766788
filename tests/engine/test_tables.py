"""Tables: upserts and deletes, what they change, and how the store keeps the rows."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import standfast as sf
from engine.reading import pairs_of, rows_of, spans_of
from standfast.engine.store import RATIO, OrderBy, Store
from standfast.engine.strings import Strings
from standfast.model.stream import Input


def engine_of(key: str | tuple[str, ...] = "id") -> sf.Engine:
    """A table of stock with a filter (queries 1 and 2) on its price."""
    engine = sf.Engine()
    engine.table("stock", {"id": "int64", "price": "float64", "note": "string"}, key=key)
    group = engine.register("SELECT id, price FROM stock WHERE price <= :hi", name="cheap")
    group.add({"hi": [10.0, 20.0], "id": [1, 2]})
    return engine


def push(engine: sf.Engine, *rows: tuple) -> sf.Answer:
    names = ("id", "price", "note")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names[: len(rows[0])])}
    answer = engine.push("stock", columns | {"note": [None] * len(rows)} | columns)["cheap"]
    engine.check()
    return answer


def test_a_new_key_comes_and_a_known_key_replaces():
    engine = engine_of()
    assert rows_of(push(engine, (7, 5.0))) == [(1, 7, 5.0, 1), (2, 7, 5.0, 1)]
    answer = push(engine, (7, 15.0))
    assert rows_of(answer) == [(1, 7, 5.0, -1), (2, 7, 5.0, -1), (2, 7, 15.0, 1)]
    assert pairs_of(answer) == [(0, 1, -1), (0, 2, -1), (0, 2, 1)]
    assert spans_of(answer) == [(0, 1, -1), (0, 2, -1), (0, 2, 1)]
    assert answer.counts().to_pydict() == {"row": [0], "queries": [2]}
    assert rows_of(push(engine, (7, 99.0))) == [(2, 7, 15.0, -1)]


@pytest.mark.parametrize("row", [(7, 5.0, "a"), (7, 5.0, None), (7, math.nan, "a"), (7, None, "a")])
def test_a_row_equal_to_the_stored_one_changes_nothing(row):
    # NaN differs from itself in SQL; a row that is pushed again is the same row all the same.
    engine = engine_of()
    push(engine, row)
    answer = push(engine, row)
    assert pairs_of(answer) == rows_of(answer) == []
    assert engine.metrics()["groups"]["cheap"]["events"] == 1
    assert engine.metrics()["inputs"]["stock"]["used"] == 2


@pytest.mark.parametrize(("old", "new"), [(None, math.nan), (math.nan, None), (None, 5.0)])
def test_null_and_nan_are_different_values(old, new):
    engine = engine_of()
    push(engine, (7, old, None))
    push(engine, (7, new, None))
    stored = engine._stores["stock"].living()["price"].to_pylist()
    assert str(stored) == str([new])
    assert engine.metrics()["groups"]["cheap"]["events"] == 3


def test_of_several_rows_with_one_key_the_last_counts():
    engine = engine_of()
    answer = push(engine, (7, 1.0), (8, 30.0), (7, 15.0), (8, 2.0), (7, 12.0))
    assert rows_of(answer) == [(1, 8, 2.0, 1), (2, 7, 12.0, 1), (2, 8, 2.0, 1)]
    assert pairs_of(answer) == [(3, 1, 1), (3, 2, 1), (4, 2, 1)]
    assert engine.metrics()["inputs"]["stock"]["used"] == 5


def test_deleted_rows_go_and_their_keys_are_free_again():
    engine = engine_of()
    push(engine, (7, 5.0), (8, 15.0), (9, 50.0))
    answer = engine.delete("stock", {"id": [9, 7]})["cheap"]
    assert rows_of(answer) == [(1, 7, 5.0, -1), (2, 7, 5.0, -1)]
    assert pairs_of(answer) == [(1, 1, -1), (1, 2, -1)]
    assert rows_of(push(engine, (7, 15.0))) == [(2, 7, 15.0, 1)]


def test_an_unknown_or_repeated_key_is_rejected_like_a_bad_row():
    engine = engine_of()
    push(engine, (7, 5.0), (8, 5.0))
    answer = engine.delete("stock", {"id": [7, 99, 7, None, 8]})["cheap"]
    assert pairs_of(answer) == [(0, 1, -1), (0, 2, -1), (4, 1, -1), (4, 2, -1)]
    counters = engine.metrics()["inputs"]["stock"]
    assert counters["reasons"] == {"unknown key": 2, "null key": 1}
    assert (counters["received"], counters["used"], counters["rejected"]) == (7, 4, 3)
    letters = engine.dead_letters().to_pylist()
    # Once the letters of one batch carried two batch numbers.
    assert {letter["batch"] for letter in letters} == {1}
    assert sorted((letter["row"], letter["value"]) for letter in letters) == [
        (1, "99"), (2, "7"), (3, "None"),
    ]  # fmt: skip


def test_deleting_from_a_stream_is_refused():
    engine = sf.Engine()
    engine.stream("trades", {"price": "float64"})
    with pytest.raises(sf.BadInput) as error:
        engine.delete("trades", {"price": [1.0]})
    assert str(error.value) == (
        "'trades' is a stream, which is append-only\n  hint: declare a table"
    )


def test_a_key_of_several_columns_is_one_key():
    engine = engine_of(key=("id", "note"))
    push(engine, (7, 1.0, "a"), (7, 2.0, "b"))
    assert rows_of(push(engine, (7, 50.0, "a"))) == [(1, 7, 1.0, -1), (2, 7, 1.0, -1)]
    answer = engine.delete("stock", {"id": [7, 8], "note": ["b", "b"]})["cheap"]
    assert rows_of(answer) == [(1, 7, 2.0, -1), (2, 7, 2.0, -1)]
    assert engine.dead_letters()["value"].to_pylist() == ["(8, 'b')"]


def test_minus_zero_and_zero_are_one_key():
    engine = engine_of(key="price")
    push(engine, (1, 0.0), (2, -0.0))
    assert len(engine._stores["stock"]) == 1


ACTIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("push"),
            st.lists(
                st.tuples(st.integers(0, 6), st.sampled_from([1.0, 15.0, 99.0, None, math.nan])),
                max_size=5,
            ),
        ),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 6), max_size=4)),
    ),
    max_size=10,
)


@given(actions=ACTIONS)
def test_the_changes_of_any_history_add_up_to_the_result(actions):
    engine, stock, result = engine_of(), {}, {}
    for action, rows in actions:
        if action == "push":
            columns = {"id": [i for i, _ in rows], "price": [p for _, p in rows]}
            answer = engine.push("stock", columns | {"note": [None] * len(rows)})["cheap"]
            stock.update(rows)
        else:
            answer = engine.delete("stock", {"id": rows})["cheap"]
            stock = {key: price for key, price in stock.items() if key not in rows}
        for query, key, price, change in rows_of(answer):
            result[query, key, price] = result.get((query, key, price), 0) + change
        engine.check()
    expected = {
        (query, key, price): 1
        for query, high in ((1, 10.0), (2, 20.0))
        for key, price in stock.items()
        if price is not None and price <= high
    }
    assert {row: n for row, n in result.items() if n} == expected


def stored(*batches: list[int]) -> Store:
    """A store of rows whose price is ten times their key, in batches."""
    store = Store(Input.table("t", {"k": "int64", "x": "int64", "s": "string"}, key="k"), Strings())
    store.order(OrderBy("x"))
    for keys in batches:
        columns = [pa.array(keys, pa.int64()), pa.array([10 * k for k in keys], pa.int64())]
        store.append(pa.table([*columns, pa.array([str(k) for k in keys])], schema=store.schema))
        store.check()
    return store


def test_rows_are_taken_by_id_across_segments_in_the_order_asked():
    # Taking from several segments once joined the text of the whole store for every batch.
    store = stored(list(range(100)), list(range(100, 110)), [110])
    assert len(store._segments) == 3
    taken = store.published().take(np.array([110, 3, 105, 3, 99]))
    assert taken["s"].to_pylist() == ["110", "3", "105", "3", "99"]
    assert store.published().take(np.empty(0, np.int64)).schema == store.schema


def test_segments_shrink_geometrically_and_lose_their_dead():
    store = stored(*([i] for i in range(200)))
    sizes = [segment.ids.size for segment in store._segments]
    assert all(a >= RATIO * b for a, b in pairwise(sizes))
    store.delete(np.arange(0, 150))
    store.check()
    assert sum(segment.ids.size for segment in store._segments) <= 2 * len(store) == 100
    store.delete(np.arange(150, 200))
    assert (len(store), store._segments, store.living().num_rows) == (0, [], 0)


def test_rows_that_were_published_outlive_their_deletion():
    store = stored([1, 2, 3])
    published, (run,) = store.published(), store.order(OrderBy("x")).published()
    store.delete(np.array([0, 1, 2]))
    assert published.take(np.array([2, 0]))["k"].to_pylist() == [3, 1]
    assert run.alive.all()


def test_an_order_asked_for_later_holds_the_rows_that_live():
    store = stored([5, 1, 3])
    store.delete(np.array([1]))
    assert store.order(OrderBy("k")).keys().tolist() == [3, 5]
    store.append(pa.table([[9], [90], ["9"]], schema=store.schema))
    assert store.order(OrderBy("k")).keys().tolist() == [3, 5, 9]


def test_check_notices_a_store_whose_parts_differ():
    store = stored([1, 2, 3])
    store._keys[1] = 2
    with pytest.raises(AssertionError, match="a key leads astray"):
        store.check()
    store = stored([1, 2, 3])
    store._orders[OrderBy("x")].delete(np.array([10]), np.array([0]))
    with pytest.raises(AssertionError, match=r"the order of .* differs"):
        store.check()


def test_a_stream_keeps_its_rows_from_the_moment_a_join_reads_it():
    engine = sf.Engine()
    engine.stream("a", {"x": "int64"})
    engine.stream("b", {"x": "int64"})
    engine.push("a", {"x": [1]})
    assert len(engine._stores["a"]) == 0
    group = engine.register("SELECT * FROM a JOIN b ON b.x - a.x BETWEEN :lo AND :hi", name="j")
    group.add({"lo": 0, "hi": 9})
    engine.push("a", {"x": [2]})
    assert rows_of(engine.push("b", {"x": [3]})["j"]) == [(0, 2, 3, 1)]
