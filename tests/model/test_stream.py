"""Inputs: declared once, checked once, with messages that say what to do."""

from __future__ import annotations

import pyarrow as pa
import pytest

from standfast.errors import BadInput
from standfast.model.stream import Input

COLUMNS = {"symbol": "string", "price": "float64", "shares": "int64", "ts": "timestamp"}


def test_a_stream_may_name_its_time_and_its_lateness():
    trades = Input.stream("trades", COLUMNS, time="ts", lateness_us=5_000_000)
    assert (trades.name, trades.kind, trades.columns) == ("trades", "stream", COLUMNS)
    assert (trades.time, trades.lateness_us, trades.key) == ("ts", 5_000_000, ())


def test_a_table_has_one_or_several_key_columns():
    assert Input.table("t", COLUMNS, key="symbol").key == ("symbol",)
    assert Input.table("t", COLUMNS, key=["symbol", "ts"]).key == ("symbol", "ts")


@pytest.mark.parametrize("column", ["shares", "symbol"])
def test_a_stream_may_name_what_tells_its_rows_apart(column):
    assert Input.stream("trades", COLUMNS, id=column).id == column
    assert Input.stream("trades", COLUMNS).id is None


def test_declaring_does_not_hold_on_to_the_argument():
    columns = dict(COLUMNS)
    trades = Input.stream("trades", columns)
    columns["more"] = "int64"
    assert trades.columns == COLUMNS


NAME_HINT = "use letters, digits and underscores, beginning with a letter or underscore"


@pytest.mark.parametrize(
    ("declare", "message", "hint"),
    [
        (lambda: Input.stream("1st", COLUMNS), "'1st' cannot name an input", NAME_HINT),
        (lambda: Input.stream("a.b", COLUMNS), "'a.b' cannot name an input", NAME_HINT),
        (lambda: Input.stream("", COLUMNS), "'' cannot name an input", NAME_HINT),
        (lambda: Input.stream(None, COLUMNS), "None cannot name an input", NAME_HINT),
        (
            lambda: Input.stream("s", {"a b": "int64"}),
            "input 's': 'a b' cannot name a column",
            NAME_HINT,
        ),
        (
            lambda: Input.stream("s", {}),
            "input 's': columns are a mapping of name to kind, got {}",
            'for example {"price": "float64"}',
        ),
        (
            lambda: Input.stream("s", ["a"]),
            "input 's': columns are a mapping of name to kind, got ['a']",
            'for example {"price": "float64"}',
        ),
        (
            lambda: Input.stream("s", {"a": "int32"}),
            "input 's': column 'a' has the unknown kind 'int32'",
            "did you mean 'int64'?",
        ),
        (
            lambda: Input.stream("s", {"a": "decimal"}),
            "input 's': column 'a' has the unknown kind 'decimal'",
            "kinds: int64, float64, timestamp, string",
        ),
        (
            lambda: Input.stream("s", {"a": int}),
            "input 's': column 'a' has the unknown kind <class 'int'>",
            "kinds: int64, float64, timestamp, string",
        ),
        (
            lambda: Input.stream("s", {"a": pa.int64()}),  # equals "int64", and is none
            "input 's': column 'a' has the unknown kind DataType(int64)",
            "did you mean 'int64'?",
        ),
        (
            lambda: Input.stream("s", COLUMNS, time="tss"),
            "input 's': the time column 'tss' is not declared",
            "did you mean 'ts'?",
        ),
        (
            lambda: Input.stream("s", COLUMNS, time="price"),
            "input 's': the time column 'price' is float64, not timestamp",
            "declare the column as timestamp",
        ),
        (
            lambda: Input.stream("s", COLUMNS, lateness_us=5),
            "input 's': lateness needs a time column",
            "pass time=",
        ),
        (
            lambda: Input.stream("s", COLUMNS, time="ts", lateness_us=-1),
            "input 's': lateness is microseconds from 0, got -1",
            "for example lateness_us=5_000_000 for five seconds",
        ),
        (
            lambda: Input.stream("s", COLUMNS, time=[]),
            "input 's': the time column [] is not declared",
            "columns: symbol, price, shares, ts",
        ),
        (
            lambda: Input.stream("s", COLUMNS, id=7),
            "input 's': the id column 7 is not declared",
            "columns: symbol, price, shares, ts",
        ),
        (
            lambda: Input.stream("s", COLUMNS, id="price"),
            "input 's': the id column 'price' is float64",
            "declare the column as int64 or string",
        ),
        (
            lambda: Input.table("t", COLUMNS, key=5),
            "input 't': 5 cannot be a key",
            "name one or more columns",
        ),
        (
            lambda: Input.table("t", COLUMNS, key=[["ts"]]),
            "input 't': the key column ['ts'] is not declared",
            "columns: symbol, price, shares, ts",
        ),
        (
            lambda: Input.table("t", COLUMNS, key=()),
            "input 't': a table needs a key",
            "name one or more columns",
        ),
        (
            lambda: Input.table("t", COLUMNS, key="Symbol"),
            "input 't': the key column 'Symbol' is not declared",
            "did you mean 'symbol'?",
        ),
        (
            lambda: Input.table("t", COLUMNS, key=["ts", "ts"]),
            "input 't': a key column is named twice in ('ts', 'ts')",
            "name each column once",
        ),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_message(declare, message, hint):
    with pytest.raises(BadInput) as caught:
        declare()
    assert (caught.value.message, caught.value.hint) == (message, hint)
