"""Row intake: good rows become a canonical table, bad rows are left out and reported once."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import standfast.model.rows as rows_module
from standfast.errors import BadInput
from standfast.model.rows import ARROW_TYPES, MAX_TIME_US, read_rows
from standfast.model.stream import Input

COLUMNS = {"symbol": "string", "price": "float64", "shares": "int64", "ts": "timestamp"}
TRADES = Input.stream("trades", COLUMNS, time="ts")
GOOD = {
    "symbol": ["a", None, "c"],
    "price": [1.5, math.inf, None],
    "shares": [1, None, 2**63 - 1],
    "ts": [0, 1, MAX_TIME_US],
}


def one(kind: str, values: object) -> tuple[list[object], list[tuple[int, str]]]:
    """Read one column of a kind: the values that came through, and (position, reason) of others."""
    intake = read_rows(Input.stream("s", {"x": kind}), {"x": values})
    assert intake.table.schema.types == [ARROW_TYPES[kind]]
    assert intake.table.num_rows == intake.kept.size
    column = intake.table["x"].cast(pa.int64()) if kind == "timestamp" else intake.table["x"]
    return column.to_pylist(), [(r.position, r.reason) for r in intake.rejected]


TABLE = pa.table(
    {name: pa.array(values, ARROW_TYPES[COLUMNS[name]]) for name, values in GOOD.items()}
)


@pytest.mark.parametrize(
    "rows",
    [
        GOOD,
        TABLE,
        TABLE.to_batches()[0],
        pl.from_arrow(TABLE),
        {name: TABLE[name] for name in TABLE.column_names},
        {name: pl.from_arrow(TABLE)[name] for name in TABLE.column_names},
        [dict(zip(GOOD, row, strict=True)) for row in zip(*GOOD.values(), strict=True)],
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        TABLE.set_column(0, "symbol", TABLE["symbol"].dictionary_encode()),
        TABLE.set_column(0, "symbol", TABLE["symbol"].cast(pa.large_string())),
        TABLE.append_column("more", [[1, 2, 3]]),
        pd.DataFrame(GOOD, dtype=object),
        TABLE.to_pandas(types_mapper=pd.ArrowDtype),
    ],
    ids=[
        "dict of lists", "table", "record batch", "polars", "dict of chunked arrays",
        "dict of polars series", "list of dicts", "two chunks", "dictionary", "large strings",
        "a column that nobody declared", "pandas objects", "pandas over arrow",
    ],
)  # fmt: skip
def test_the_same_rows_come_in_many_forms(rows):
    intake = read_rows(TRADES, rows)
    assert intake.table.combine_chunks().equals(TABLE)
    assert intake.kept.tolist() == [0, 1, 2]
    assert intake.rejected == []


def test_plain_pandas_reads_nan_as_null():
    frame = pd.DataFrame({"symbol": ["a", None], "price": [math.nan, 2.0], "shares": [1, 2]})
    frame["ts"] = pd.to_datetime(["2024-01-01", "2024-01-02"])
    intake = read_rows(TRADES, frame)
    assert intake.rejected == []
    assert intake.table["price"].to_pylist() == [None, 2.0]
    assert intake.table["symbol"].to_pylist() == ["a", None]


def test_nan_in_an_array_stays_nan():
    values, rejected = one("float64", np.array([math.nan, 1.0]))
    assert math.isnan(values[0])
    assert rejected == []


def test_a_dict_of_scalars_is_one_row():
    assert read_rows(TRADES, {"symbol": "a", "price": 1, "shares": 2, "ts": 3}).table.num_rows == 1


@pytest.mark.parametrize("rows", [{}, [], TABLE.slice(0, 0), {name: [] for name in COLUMNS}])
def test_no_rows_are_no_rows(rows):
    intake = read_rows(TRADES, rows)
    assert intake.table.equals(TABLE.slice(0, 0))
    assert intake.rejected == []


def test_minus_zero_is_normalised():
    values, _ = one("float64", np.array([-0.0]))
    assert math.copysign(1.0, values[0]) == 1.0
    values, _ = one("float64", [-0.0, 1])
    assert math.copysign(1.0, values[0]) == 1.0


@pytest.mark.parametrize(
    ("values", "kept", "rejected"),
    [
        (np.array([1, -2], np.int8), [1, -2], []),
        (np.array([1, 2**32 - 1], np.uint32), [1, 2**32 - 1], []),
        (np.array([1, 2**63], np.uint64), [1], [(1, "out of range")]),
        (np.array([1.0, 1.5, -0.0]), [1, 0], [(1, "not exact")]),
        (np.array([2.0**63, -(2.0**63), math.inf, math.nan]), [-(2**63)],
         [(0, "out of range"), (2, "out of range"), (3, "out of range")]),
        (np.array([1.0, 0.5], np.float16), [1], [(1, "not exact")]),
        (np.array([1, 2], ">i8"), [1, 2], []),
        (np.ma.array([1, 2], mask=[False, True]), [1, None], []),
        ([1, None, 3], [1, None, 3], []),
        ([None, None], [None, None], []),
        ([1, "2", 3], [1, 3], [(1, "wrong type")]),
        ([1, 2**63, 3], [1, 3], [(1, "out of range")]),
        ([1, 2.0, 2.5], [1, 2], [(2, "not exact")]),
        ([1, math.nan, math.inf], [1], [(1, "out of range"), (2, "out of range")]),
        ([1, True, False], [1], [(1, "wrong type"), (2, "wrong type")]),
        ([True], [], [(0, "wrong type")]),
        (np.array([True]), [], [(0, "wrong type")]),
        (["1", "2"], [], [(0, "wrong type"), (1, "wrong type")]),
        ([b"1", [], {}], [], [(0, "wrong type"), (1, "wrong type"), (2, "wrong type")]),
        ([np.int64(4), np.float32(2.0), 7], [4, 2, 7], []),
        ([np.int32(4), np.int32(5)], [4, 5], []),
        ([1, np.timedelta64(1, "s")], [1], [(1, "wrong type")]),
        (np.array([1 + 2j]), [], [(0, "wrong type")]),
        (pa.array([1, None], pa.decimal128(5, 2)), [None], [(0, "wrong type")]),
    ],
)  # fmt: skip
def test_an_int64_column_takes_whole_numbers(values, kept, rejected):
    assert one("int64", values) == (kept, rejected)


@pytest.mark.parametrize(
    ("values", "kept", "rejected"),
    [
        (np.array([0.1], np.float32), [float(np.float32(0.1))], []),
        (np.array([1, 2], np.int32), [1.0, 2.0], []),
        (np.array([2**53, 2**53 + 1, 2**53 + 2]), [2.0**53, 2.0**53 + 2], [(1, "not exact")]),
        (np.array([2**63 - 1, -(2**63)]), [-(2.0**63)], [(0, "not exact")]),
        (np.array([2**64 - 1, 2**63], np.uint64), [2.0**63], [(0, "not exact")]),
        ([1, 2.5, None], [1.0, 2.5, None], []),
        ([2**53 + 1, 2.5], [2.5], [(0, "not exact")]),
        ([10**400, 2.5], [2.5], [(0, "not exact")]),
        ([1.5, "2.5", True], [1.5], [(1, "wrong type"), (2, "wrong type")]),
        ([5e-324, -1e308], [5e-324, -1e308], []),
        (np.array(["x", 1.5], object), [1.5], [(0, "wrong type")]),
    ],
)
def test_a_float64_column_takes_what_float64_holds(values, kept, rejected):
    assert one("float64", values) == (kept, rejected)


DAY_US = 86_400_000_000
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("values", "kept", "rejected"),
    [
        (np.array(["1970-01-02"], "M8[D]"), [DAY_US], []),
        (np.array(["1970-01-01T01"], "M8[h]"), [DAY_US // 24], []),
        (np.array([1], "M8[s]"), [1_000_000], []),
        (np.array([1], "M8[ms]"), [1_000], []),
        (np.array([1_999, 2_000], "M8[ns]"), [1, 2], []),
        (np.array(["NaT", "1970-01-02"], "M8[us]"), [None, DAY_US], []),
        (np.array([2**62, -(2**62), 5], "M8[s]"), [5_000_000],
         [(0, "time out of range"), (1, "time out of range")]),
        (np.array([-1, MAX_TIME_US, MAX_TIME_US + 1]), [MAX_TIME_US],
         [(0, "time out of range"), (2, "time out of range")]),
        (np.array([1, 2**64 - 1], np.uint64), [1], [(1, "time out of range")]),
        (np.array([1.0]), [], [(0, "wrong type")]),
        (pa.array([7], pa.timestamp("us", "America/New_York")), [7], []),
        (pa.array([1], pa.date32()), [DAY_US], []),
        (pa.array([DAY_US // 1000], pa.date64()), [DAY_US], []),
        (pa.array([5], pa.duration("us")), [], [(0, "wrong type")]),
        ([datetime(1970, 1, 2), datetime(1970, 1, 2, 2, tzinfo=EAST)], [DAY_US, DAY_US], []),
        ([datetime(1970, 1, 2), 5, date(1970, 1, 2)], [DAY_US, 5, DAY_US], []),
        ([datetime(1969, 1, 1), datetime(2300, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)], [0],
         [(0, "time out of range"), (1, "time out of range")]),
        ([5, np.datetime64(6, "us"), np.datetime64("NaT"), True], [5, 6, None],
         [(3, "wrong type")]),
        (["1970-01-01"], [], [(0, "wrong type")]),
        ([5, "1970-01-01", 1.5, 10**30], [5],
         [(1, "wrong type"), (2, "wrong type"), (3, "time out of range")]),
        (pd.Series(pd.to_datetime(["1970-01-02"]).tz_localize("Europe/Paris")),
         [DAY_US - DAY_US // 24], []),
    ],
)  # fmt: skip
def test_a_timestamp_column_takes_times_and_microseconds(values, kept, rejected):
    assert one("timestamp", values) == (kept, rejected)


@pytest.mark.parametrize(
    ("values", "kept", "rejected"),
    [
        (np.array(["a", "bc"]), ["a", "bc"], []),
        (["a", None, 5], ["a", None], [(2, "wrong type")]),
        (["a", "\ud800", "c"], ["a", "c"], [(1, "wrong type")]),
        ([b"a"], [], [(0, "wrong type")]),
        (["a", b"b"], ["a"], [(1, "wrong type")]),
        (np.array([1, 2]), [], [(0, "wrong type"), (1, "wrong type")]),
        (pd.Series(["x", "y"], dtype="category"), ["x", "y"], []),
        (pl.Series(["x", None]), ["x", None], []),
    ],
)
def test_a_string_column_takes_text(values, kept, rejected):
    assert one("string", values) == (kept, rejected)


def test_damaged_text_in_an_arrow_column_is_left_out():
    damaged = pa.array([b"good", b"\xff\xfe", None]).view(pa.string())
    assert one("string", damaged) == (["good", None], [(1, "wrong type")])
    (rejection,) = read_rows(Input.stream("s", {"v": "string"}), {"v": damaged}).rejected
    assert rejection.value == repr(b"\xff\xfe"), "not the name of a type"


def test_a_row_is_reported_once_with_its_first_wrong_column():
    rows = {"symbol": ["a", 1, "c"], "price": ["x", "y", 1.0], "shares": [1, 2, 3], "ts": [1, 2, 3]}
    intake = read_rows(TRADES, rows)
    assert intake.rejected == [
        (0, "wrong type", "price", "'x'"),
        (1, "wrong type", "symbol", "1"),
    ]
    assert intake.kept.tolist() == [2]
    assert intake.table.to_pylist()[0]["symbol"] == "c"


def test_a_missing_column_rejects_every_row():
    intake = read_rows(TRADES, {"symbol": ["a", "b"], "price": [1.0, 2.0], "ts": [1, 2]})
    assert intake.rejected == [
        (0, "missing column", "shares", ""),
        (1, "missing column", "shares", ""),
    ]
    assert intake.table.num_rows == 0


def test_a_key_missing_in_one_dict_rejects_that_row_only():
    good = {"symbol": "a", "price": 1.0, "shares": 2, "ts": 3}
    intake = read_rows(TRADES, [good, {"symbol": "b"}, good, 7])
    assert intake.kept.tolist() == [0, 2]
    assert [(r.position, r.reason, r.column) for r in intake.rejected] == [
        (1, "missing column", "price"),
        (3, "missing column", "symbol"),
    ]


def test_a_column_named_twice_rejects_every_row():
    table = pa.table([[1], [2]], names=["x", "x"])
    intake = read_rows(Input.stream("s", {"x": "int64"}), table)
    assert [r.reason for r in intake.rejected] == ["column named twice"]


def test_a_stream_needs_its_time():
    rows = {"symbol": ["a", "b"], "price": [1.0, 2.0], "shares": [1, 2], "ts": [None, 2]}
    assert read_rows(TRADES, rows).rejected == [(0, "null time", "ts", "None")]
    assert read_rows(Input.stream("trades", COLUMNS), rows).rejected == []


def test_a_table_needs_its_key():
    table = Input.table("t", {"k": "float64", "s": "string", "x": "int64"}, key=["k", "s"])
    rows = {"k": np.array([1.0, np.nan, 2.0]), "s": ["a", "b", None], "x": [1, 2, None]}
    assert read_rows(table, rows).rejected == [
        (1, "null key", "k", "nan"),
        (2, "null key", "s", "None"),
    ]


def test_columns_of_one_type_are_never_judged_value_by_value(monkeypatch):
    monkeypatch.setattr(rows_module, "_judged_one_by_one", None)
    n_rows = 1_000
    arrays = {
        "symbol": pa.array(["a", None] * 500),
        "price": np.arange(n_rows, dtype=np.float32),
        "shares": np.arange(n_rows, dtype=np.float64) / 2,
        "ts": np.arange(n_rows).astype("M8[ns]"),
    }
    assert read_rows(TRADES, arrays).kept.tolist() == list(range(0, n_rows, 2))
    lists = {name: list(values) for name, values in GOOD.items()}
    assert read_rows(TRADES, lists).kept.size == 3


def test_a_value_that_python_has_none_for_is_shown():
    """The name of its Arrow type stood in its place."""
    far = pa.array([10**18, 0], pa.timestamp("us", "UTC"))
    text = pa.array([b"\xffab", b"good"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, text.buffers())
    stream = Input.stream("far", {"at": "timestamp", "name": "string"})
    rejected = [
        read_rows(stream, pa.table(columns)).rejected[0].value
        for columns in ({"at": far, "name": ["a", "b"]}, {"at": [0, 0], "name": text})
    ]
    assert rejected == ["1000000000000000000", "b'\\xffab'"]


def test_a_long_value_is_cut_in_the_report():
    rejected = read_rows(Input.stream("s", {"x": "int64"}), {"x": ["y" * 1000]}).rejected
    assert len(rejected[0].value) == 80


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (5, "rows of 'trades': not a set of columns: 'int'"),
        (None, "rows of 'trades': not a set of columns: 'NoneType'"),
        ("abc", "rows of 'trades': not a set of columns: 'str'"),
        ([1, 2], "rows of 'trades': not a list of dicts: [1, 2]"),
        (pl.LazyFrame({"x": [1]}), "rows of 'trades': not a set of columns: 'LazyFrame'"),
        (np.zeros((2, 2)), "rows of 'trades': not a set of columns: 'ndarray'"),
        (
            {"symbol": ["a"], "price": [1.0, 2.0]},
            "rows of 'trades': columns of unequal length: 'symbol' has 1, 'price' has 2",
        ),
        (
            {"symbol": ["a"], "price": 1.0},
            "rows of 'trades': column 'price' is a single value beside arrays: 1.0",
        ),
        *(
            ({"price": square}, "rows of 'trades': column 'price' has 2 dimensions, not one")
            for square in (np.zeros((2, 2)), pd.DataFrame([[1.0]]), pl.DataFrame({"x": [1.0]}))
        ),
    ],
)
def test_only_what_is_no_set_of_columns_raises(rows, message):
    with pytest.raises(BadInput) as caught:
        read_rows(TRADES, rows)
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("rows", "n_rows"),
    [
        (pd.DataFrame([[1.0, 2.0], [3.0, 4.0]]), 2),  # columns 0 and 1, as of a file without heads
        (pd.DataFrame(index=range(3)), 3),
        (TABLE.select([]), 3),
        ({1: [1.0, 2.0]}, 2),
        ({1: 5}, 1),
        ([{}, {}], 2),
        ([{1: 5}], 1),
    ],
)
def test_rows_without_a_column_that_has_a_name_are_still_rows(rows, n_rows):
    intake = read_rows(TRADES, rows)
    assert [(r.position, r.reason) for r in intake.rejected] == [
        (i, "missing column") for i in range(n_rows)
    ]


@pytest.mark.parametrize("kind", ["int64", "float64", "timestamp", "string"])
@pytest.mark.parametrize(
    "values",
    [
        pd.period_range("2024-01-01", periods=2, freq="D"),
        pd.Series(pd.period_range("2024-01-01", periods=2, freq="D")),
        pa.Array.from_pandas(pd.Series(pd.period_range("2024-01-01", periods=2, freq="D"))),
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8())),
    ],
)
def test_what_arrow_keeps_as_integers_is_not_one_for_that(kind, values):
    assert one(kind, values) == ([], [(0, "wrong type"), (1, "wrong type")])


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3),
    st.binary(max_size=3), st.datetimes(), st.dates(), st.decimals(), st.timedeltas(),
    st.lists(st.integers(), max_size=2), st.complex_numbers(),
)  # fmt: skip


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.sampled_from(sorted(ARROW_TYPES)), st.lists(anything, max_size=6))
def test_whatever_the_values_every_row_is_kept_or_rejected(kind, values):
    kept, rejected = one(kind, values)
    assert len(kept) + len(rejected) == len(values)
    assert one(kind, np.array([*values, None], object)[:-1]) == one(kind, values)
