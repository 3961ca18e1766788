"""Inputs and their doors: declarations, every columnar type, and an account of every row."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import standfast as sf
from engine.reading import pairs_of, rows_of
from standfast.engine.door import AHEAD_US

NOW_US = 1_700_000_000_000_000


def engine_of(**options) -> sf.Engine:
    """A stream of trades with one group of two filters, at a clock that stands still."""
    engine = sf.Engine(clock=lambda: NOW_US)
    engine.stream("trades", {"ts": "timestamp", "price": "float64"}, time="ts", **options)
    group = engine.register("SELECT price FROM trades WHERE price BETWEEN :lo AND :hi", name="f")
    group.add({"lo": [1.0, 5.0], "hi": [10.0, 6.0], "id": [100, 200]})
    return engine


def account(engine: sf.Engine, name: str = "trades") -> dict:
    """The counters of an input, which must add up."""
    counters = engine.metrics()["inputs"][name]
    unused = counters["late"] + counters["duplicate"] + counters["rejected"]
    assert counters["received"] == counters["used"] + unused
    assert counters["rejected"] == sum(counters["reasons"].values())
    assert engine.dead_letters().num_rows == unused
    short = engine.counters(name)
    assert list(short) == ["received", "used", "late", "duplicate", "rejected"]
    assert short.items() <= counters.items()
    return counters


DECLARATIONS = [
    ("stream", ("1st", {"a": "int64"}), {}, "'1st' cannot name an input"),
    ("stream", ("s", {}), {}, "input 's': columns are a mapping of name to kind, got {}"),
    ("stream", ("s", {"a b": "int64"}), {}, "input 's': 'a b' cannot name a column"),
    ("stream", ("s", {"a": "float"}), {}, "input 's': column 'a' has the unknown kind 'float'"),
    ("stream", ("s", {"a": "int64"}), {"time": "b"},
     "input 's': the time column 'b' is not declared"),
    ("stream", ("s", {"a": "int64"}), {"time": "a"},
     "input 's': the time column 'a' is int64, not timestamp"),
    ("stream", ("s", {"a": "int64"}), {"lateness_us": 5},
     "input 's': lateness needs a time column"),
    ("stream", ("s", {"a": "timestamp"}), {"time": "a", "lateness_us": -1},
     "input 's': lateness is microseconds from 0, got -1"),
    ("table", ("t", {"a": "int64"}), {"key": ()}, "input 't': a table needs a key"),
    ("table", ("t", {"price": "int64"}), {"key": "prise"},
     "input 't': the key column 'prise' is not declared"),
    ("table", ("t", {"a": "int64"}), {"key": ["a", "a"]},
     "input 't': a key column is named twice in ('a', 'a')"),
    ("stream", ("trades", {"a": "int64"}), {}, "the name 'trades' is taken by another input"),
    ("table", ("trades", {"a": "int64"}), {"key": "a"},
     "the name 'trades' is taken by another input"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "arguments", "options", "message"), DECLARATIONS)
def test_a_wrong_declaration_is_refused_and_declares_nothing(what, arguments, options, message):
    engine = engine_of()
    with pytest.raises(sf.BadInput) as error:
        getattr(engine, what)(*arguments, **options)
    assert error.value.message == message
    assert list(engine.inputs) == ["trades"]


def test_an_unknown_input_is_named_with_the_closest_known_one():
    engine = engine_of()
    for call in (engine.push, engine.store, engine.delete, engine.advance):
        with pytest.raises(sf.BadInput) as error:
            call("trade", {})
        assert str(error.value) == "there is no input 'trade'\n  hint: did you mean 'trades'?"
    for ask in (engine.counters, engine.holds_rows):
        with pytest.raises(sf.BadInput, match="there is no input 'trade'"):
            ask("trade")
    with pytest.raises(sf.BadInput) as error:
        sf.Engine().push("trades", {})
    assert str(error.value) == "there is no input 'trades'\n  hint: inputs: none"


PRICES, TIMES = [5.5, 7.0, 11.0], [10, 20, 30]
FRAMES = {
    "Arrow table": pa.table({"ts": pa.array(TIMES, pa.timestamp("us", "UTC")), "price": PRICES}),
    "Arrow batch": pa.record_batch({"price": pa.array(PRICES), "ts": pa.array(TIMES)}),
    "Arrow stream": pa.table({"price": PRICES, "ts": TIMES}).to_reader(),
    "Arrow chunks": pa.table({
        "ts": pa.chunked_array([[10], [20, 30]]), "price": pa.chunked_array([PRICES[:2], [11.0]]),
    }),
    "pandas": pd.DataFrame({"price": PRICES, "ts": pd.to_datetime(TIMES, unit="us")}),
    "polars": pl.DataFrame({"price": PRICES, "ts": TIMES}),
    "dict of lists": {"ts": TIMES, "price": PRICES},
    "dict of arrays": {"ts": np.array(TIMES), "price": np.array(PRICES)},
    "dict of float32": {"ts": np.array(TIMES, np.int32), "price": np.array(PRICES, np.float32)},
    "dict of datetime64": {"ts": np.array(TIMES, "datetime64[us]"), "price": PRICES},
    "list of dicts": [{"ts": t, "price": p} for t, p in zip(TIMES, PRICES, strict=True)],
    "datetimes": {"price": PRICES, "ts": [datetime.fromtimestamp(t / 1e6, UTC) for t in TIMES]},
}  # fmt: skip


@pytest.mark.parametrize("kind", FRAMES)
def test_every_columnar_type_gives_the_same_answer(kind):
    engine = engine_of()
    answer = engine.push("trades", FRAMES[kind])["f"]
    assert pairs_of(answer) == [(0, 100), (0, 200), (1, 100)]
    assert rows_of(answer) == [(100, 5.5, 1), (100, 7.0, 1), (200, 5.5, 1)]
    assert account(engine)["used"] == 3


def test_a_dict_of_single_values_is_one_row():
    answer = engine_of().push("trades", {"ts": 1, "price": 5})["f"]
    assert pairs_of(answer) == [(0, 100), (0, 200)]


def test_what_is_no_set_of_columns_is_refused_and_not_counted():
    engine = engine_of()
    for rows in (5, "text", None):
        with pytest.raises(sf.BadInput, match=r"rows of 'trades': not a set of columns"):
            engine.push("trades", rows)
    with pytest.raises(sf.BadInput, match=r"'ts' has 2, 'price' has 1"):
        engine.push("trades", {"ts": [1, 2], "price": [1.0]})
    assert account(engine)["received"] == account(engine)["batches"] == 0


@pytest.mark.parametrize("rows", [{}, [], {"ts": [], "price": []}, pa.table({"price": []})])
def test_an_empty_batch_changes_nothing(rows):
    engine = engine_of()
    answer = engine.push("trades", rows)["f"]
    assert answer.pairs().num_rows == answer.rows().num_rows == answer.counts().num_rows == 0
    assert answer.spans().spans.num_rows == 0
    assert answer.rows().schema.names == ["query", "price", "change"]
    assert account(engine)["received"] == 0


def test_an_input_that_nobody_reads_has_no_answers():
    engine = engine_of()
    engine.stream("quotes", {"bid": "float64"})
    assert engine.push("quotes", {"bid": [1.0, 2.0]}) == {}
    assert account(engine, "quotes")["used"] == 2


def test_bad_rows_stay_outside_with_their_reason_and_the_good_ones_are_used():
    engine = engine_of(lateness_us=100)
    rows = [
        {"ts": 500, "price": 5.5},
        {"ts": 501, "price": "cheap"},
        {"ts": None, "price": 5.5},
        {"ts": 502},
        {"ts": 399, "price": 5.5},
        {"ts": 400, "price": 5.5},
        {"ts": -1, "price": 5.5},
        {"ts": NOW_US + AHEAD_US + 1, "price": 5.5},
        {"ts": NOW_US + AHEAD_US, "price": math.nan},
    ]
    answer = engine.push("trades", rows)["f"]
    assert pairs_of(answer) == [(0, 100), (0, 200), (5, 100), (5, 200)]
    assert answer.n_rows == 9
    assert account(engine) == {
        "batches": 1, "received": 9, "used": 3, "late": 1, "duplicate": 0, "rejected": 5,
        "reasons": {"wrong type": 1, "null time": 1, "missing column": 1,
                    "time out of range": 1, "far future": 1},
        "stored": 0, "memory_bytes": 0,
    }  # fmt: skip
    letters = {letter.pop("row"): letter for letter in engine.dead_letters().to_pylist()}
    assert sorted(letters) == [1, 2, 3, 4, 6, 7]
    assert letters[1] == {
        "input": "trades", "batch": 0, "reason": "wrong type", "column": "price",
        "value": "'cheap'",
    }  # fmt: skip
    assert letters[4]["reason"] == "late"
    assert letters[7]["reason"] == "far future"
    assert engine.metrics()["groups"]["f"]["unmatched"] == 1


def test_dead_letters_are_kept_until_taken():
    engine = engine_of()
    engine.push("trades", {"ts": [1], "price": ["a"]})
    engine.push("trades", {"ts": [1], "price": [1.0]})
    engine.push("trades", {"ts": [1], "price": ["b"]})
    assert engine.dead_letters()["batch"].to_pylist() == [0, 2]
    taken = engine.dead_letters(take=True)
    assert taken["value"].to_pylist() == ["'a'", "'b'"]
    assert engine.dead_letters().num_rows == 0
    assert engine.dead_letters().schema == taken.schema
    engine.push("trades", {"ts": [1], "price": ["c"]})
    assert engine.dead_letters()["value"].to_pylist() == ["'c'"]
    assert engine.metrics()["inputs"]["trades"]["rejected"] == 3


def test_one_clock_far_ahead_makes_nobody_else_late():
    engine = engine_of(lateness_us=0)
    engine.push("trades", {"ts": [NOW_US, NOW_US + AHEAD_US + 1, NOW_US], "price": [2.0] * 3})
    assert account(engine)["late"] == 0
    assert account(engine)["reasons"] == {"far future": 1}


def test_the_clock_decides_when_a_time_is_far_ahead():
    now = NOW_US
    engine = sf.Engine(clock=lambda: now)
    engine.stream("trades", {"ts": "timestamp"}, time="ts")
    ahead = {"ts": [NOW_US + AHEAD_US + 7]}
    engine.push("trades", ahead)
    assert account(engine)["rejected"] == 1
    now += 7
    engine.push("trades", ahead)
    assert account(engine)["used"] == 1


def test_without_a_lateness_no_row_is_late():
    engine = engine_of()
    engine.push("trades", {"ts": [1000, 1, 999], "price": [2.0] * 3})
    assert account(engine)["used"] == 3


def test_equal_times_are_not_late():
    engine = engine_of(lateness_us=0)
    engine.push("trades", {"ts": [7, 7, 7, 6], "price": [2.0] * 4})
    assert (account(engine)["used"], account(engine)["late"]) == (3, 1)


ROWS = st.lists(
    st.tuples(
        st.integers(0, 60) | st.sampled_from([None, "soon", NOW_US * 2]),
        st.sampled_from([0.5, 5.5, 7.0, 100.0, math.nan, None, "cheap"]),
    ),
    max_size=14,
)


def cut(rows: list, cuts: set[int]) -> list[list]:
    edges = [0, *sorted(c for c in cuts if 0 < c < len(rows)), len(rows)]
    return [rows[a:b] for a, b in pairwise(edges)]


@given(rows=ROWS, cuts=st.sets(st.integers(1, 13)))
def test_cutting_rows_into_batches_changes_neither_the_account_nor_the_result(rows, cuts):
    seen = []
    for batches in ([rows], cut(rows, cuts)):
        engine, pairs, firsts = engine_of(lateness_us=10), [], [0]
        for batch in batches:
            columns = {"ts": [ts for ts, _ in batch], "price": [price for _, price in batch]}
            found = pairs_of(engine.push("trades", columns)["f"])
            pairs += [(firsts[-1] + row, query) for row, query in found]
            firsts.append(firsts[-1] + len(batch))
        letters = engine.dead_letters().to_pylist()
        places = [firsts[letter["batch"]] + letter["row"] for letter in letters]
        reasons = [letter["reason"] for letter in letters]
        counters = account(engine) | {"batches": None}
        seen.append((pairs, sorted(zip(places, reasons, strict=True)), counters))
    assert seen[0] == seen[1]
