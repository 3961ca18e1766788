"""Query parameters: read as they come, or refused as a whole with an exact message."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from model.golden import inputs
from standfast.errors import BadParameters
from standfast.model.parameters import read_ids, read_parameters
from standfast.model.template import Template

FILTER = Template.parse("alerts", "SELECT * FROM trades WHERE price BETWEEN :lo AND :hi", inputs())
WHOLE = Template.parse("whole", "SELECT * FROM trades WHERE shares = :n", inputs())
TIMES = Template.parse("times", "SELECT * FROM trades WHERE ts < :until", inputs())
WORDS = Template.parse("words", "SELECT * FROM trades WHERE symbol = :s", inputs())
SPANS = Template.parse(
    "spans", "SELECT u.pos FROM unit u JOIN target t ON ABS(t.seen - u.seen) < :w", inputs()
)
BAND = Template.parse(
    "band", "SELECT u.pos FROM unit u JOIN target t ON t.grid - u.grid > :d", inputs()
)
ON_NAME = "SELECT u.pos FROM unit u JOIN target t ON u.name = t.name"
WINDOW = Template.parse("window", f"{ON_NAME} AND ABS(t.seen - u.seen) < :w", inputs())
STEPS = Template.parse("steps", f"{ON_NAME} AND ABS(t.grid - u.grid) <= :w", inputs())
JOIN = Template.parse("join", f"{ON_NAME} WHERE t.grid > :n", inputs())
LOCAL = Template.parse(
    "local",
    "SELECT u.pos FROM unit u JOIN target t ON t.grid - u.grid > :d WHERE u.grid < :n"
    " AND u.model = :m AND t.seen < :s",
    inputs(),
)
COLUMNS = {"lo": [1.5, -math.inf], "hi": [2.5, math.inf]}


@pytest.mark.parametrize(
    "params",
    [
        COLUMNS,
        {name: np.array(values) for name, values in COLUMNS.items()},
        {name: pa.array(values) for name, values in COLUMNS.items()},
        {name: pd.Series(values) for name, values in COLUMNS.items()},
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_batches()[0],
        pd.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS),
        [{"lo": 1.5, "hi": 2.5}, {"lo": -math.inf, "hi": math.inf}],
    ],
    ids=["lists", "numpy", "arrow", "series", "table", "batch", "pandas", "polars", "rows"],
)
def test_the_same_parameters_come_in_many_forms(params):
    parameters = read_parameters(FILTER, params)
    assert parameters.ids is None
    assert parameters.n_queries == 2
    assert {name: values.tolist() for name, values in parameters.columns.items()} == COLUMNS
    assert all(values.dtype == np.float64 for values in parameters.columns.values())


def test_ids_come_along_and_are_a_copy():
    ids = np.array([7, 3])
    parameters = read_parameters(FILTER, {**COLUMNS, "id": ids})
    ids[0] = 0
    assert parameters.ids.tolist() == [7, 3]
    assert parameters.ids.dtype == np.int64


def test_scalars_are_one_query():
    parameters = read_parameters(FILTER, {"lo": 1, "hi": 2.5, "id": 9})
    assert (parameters.n_queries, parameters.ids.tolist()) == (1, [9])


def test_no_rows_are_no_queries():
    for params in ({"lo": [], "hi": []}, pa.table(COLUMNS).slice(2)):
        assert read_parameters(FILTER, params).n_queries == 0


@pytest.mark.parametrize(
    ("template", "values", "dtype", "expected"),
    [
        (FILTER, [1, 2**53 + 1], np.int64, [1, 2**53 + 1]),
        (FILTER, np.array([1, 2], np.uint8), np.int64, [1, 2]),
        (FILTER, np.array([0.5], np.float32), np.float64, [0.5]),
        (FILTER, [1, 2.5], np.float64, [1.0, 2.5]),
        (FILTER, [np.int64(1), 2.5], np.float64, [1.0, 2.5]),
        (WHOLE, [1.5, math.inf], np.float64, [1.5, math.inf]),
        (WHOLE, [-(2**63), 2**63 - 1], np.int64, [-(2**63), 2**63 - 1]),
        (TIMES, [5, -5], np.int64, [5, -5]),
        (TIMES, np.array([1], "M8[s]"), np.int64, [1_000_000]),
        (TIMES, np.array([2_000], "M8[ns]"), np.int64, [2]),
        (TIMES, [datetime(1970, 1, 1, 0, 0, 1)], np.int64, [1_000_000]),
        (TIMES, [datetime(1970, 1, 1, tzinfo=UTC)], np.int64, [0]),
        (TIMES, [pd.Timestamp(5_000)], np.int64, [5]),
        (TIMES, np.array(["1970-01-02"], "M8[D]"), np.int64, [86_400_000_000]),
        (TIMES, pa.array([3], pa.timestamp("ms", "UTC")), np.int64, [3_000]),
        (SPANS, [timedelta(seconds=1)], np.int64, [1_000_000]),
        (SPANS, np.array([1], "m8[m]"), np.int64, [60_000_000]),
        (SPANS, pa.array([5], pa.duration("us")), np.int64, [5]),
        (SPANS, pl.Series([timedelta(days=1)]), np.int64, [86_400_000_000]),
        (SPANS, [pd.Timedelta(5_000)], np.int64, [5]),
        (SPANS, [10], np.int64, [10]),
        (SPANS, [0.5, math.inf], np.float64, [0.5, math.inf]),
        (WINDOW, [timedelta(seconds=1)], np.int64, [1_000_000]),
        (WINDOW, np.array([1], "m8[m]"), np.int64, [60_000_000]),
        (WINDOW, [-5, 0], np.int64, [-5, 0]),
        (WINDOW, [0.5, math.inf], np.float64, [0.5, math.inf]),
        (STEPS, [2**63 - 2], np.int64, [2**63 - 2]),
        (JOIN, [2**63 - 1, -(2**63)], np.int64, [2**63 - 1, -(2**63)]),
        (BAND, [2**63 - 2, 2 - 2**63], np.int64, [2**63 - 2, 2 - 2**63]),
        (BAND, [2.0**64, -math.inf], np.float64, [2.0**64, -math.inf]),
        (WORDS, ["a", "b"], object, ["a", "b"]),
        (WORDS, ["a", np.str_("b")], object, ["a", "b"]),
        (WORDS, np.array(["a"]), object, ["a"]),
        (WORDS, pl.Series(["a", "b"]), object, ["a", "b"]),
        (WORDS, pd.Series(["a", "b"], dtype="category"), object, ["a", "b"]),
    ],
)
def test_a_hole_keeps_the_type_that_it_got(template, values, dtype, expected):
    params = {hole.name: values for hole in template.holes}
    column = read_parameters(template, params).columns[template.holes[0].name]
    assert column.dtype == dtype
    assert column.tolist() == expected


NUMBERS = "the hole :lo meets a column or difference of kind float64"


@pytest.mark.parametrize(
    ("params", "message", "hint"),
    [
        ({"lo": [1]}, "parameter 'hi' is missing", "pass one column for each of: lo, hi"),
        ({**COLUMNS, "Hi": [1, 2]}, "unknown parameter 'Hi'", "did you mean 'hi'?"),
        ({**COLUMNS, "zzz": [1, 2]}, "unknown parameter 'zzz'", "parameters: lo, hi, id"),
        ({"lo": ["1"], "hi": [2]}, "parameter 'lo' takes numbers, got string", NUMBERS),
        ({"lo": [True], "hi": [2]}, "parameter 'lo' takes numbers, got bool", NUMBERS),
        ({"lo": [True, 1], "hi": [2, 3]}, "parameter 'lo' takes numbers, got True in row 0",
         NUMBERS),
        ({"lo": [1, "x"], "hi": [2, 3]}, "parameter 'lo' takes numbers, got 'x' in row 1", NUMBERS),
        ({"lo": np.array([1], "M8[s]"), "hi": [2]},
         "parameter 'lo' takes numbers, got timestamp[s]", NUMBERS),
        ({"lo": np.array([1], "m8[s]"), "hi": [2]},
         "parameter 'lo' takes numbers, got duration[s]", NUMBERS),
        ({"lo": [1, None], "hi": [2, 3]}, "parameter 'lo' is null in row 1",
         "every query needs a value for every hole"),
        ({"lo": [1, None, 2.5], "hi": [2, 3, 4]}, "parameter 'lo' is null in row 1",
         "every query needs a value for every hole"),
        ([{"lo": 1, "hi": 2}, {"lo": 1}], "parameter 'hi' is null in row 1",
         "every query needs a value for every hole"),
        ({"lo": [1.0, math.nan], "hi": [2, 3]}, "parameter 'lo' is NaN in row 1",
         "use -inf or +inf for no limit"),
        ({"lo": [1, math.nan], "hi": [2, 3]}, "parameter 'lo' is NaN in row 1",
         "use -inf or +inf for no limit"),
        (pd.DataFrame({"lo": [1.0, math.nan], "hi": [2, 3]}), "parameter 'lo' is null in row 1",
         "every query needs a value for every hole"),
        ({"lo": np.array([1, 2**63], np.uint64), "hi": [2, 3]},
         "parameter 'lo' is beyond int64 in row 1: 9223372036854775808",
         "pass a float, or leave the bound out of the template"),
        ({"lo": [1, 2**63], "hi": [2, 3]},
         "parameter 'lo' is beyond int64 in row 1: 9223372036854775808",
         "pass a float, or leave the bound out of the template"),
        ({"lo": [1.5, 2**53 + 1], "hi": [2, 3]},
         "parameter 'lo' mixes floats with an integer that float64 cannot hold in row 1:"
         " 9007199254740993", "pass integers only"),
        ({"lo": [1, 2], "hi": [3]}, "columns of unequal length: 'lo' has 2, 'hi' has 1",
         "pass one value per row in every column"),
        ({"lo": 1, "hi": [3]}, "column 'lo' is a single value beside arrays: 1",
         "pass an Arrow table, a pandas or polars frame, or a dict of arrays"),
        (7, "not a set of columns: 'int'",
         "pass an Arrow table, a pandas or polars frame, or a dict of arrays"),
        ({**COLUMNS, "id": [5, 5]}, "id 5 appears twice",
         "leave it out to have ids assigned"),
        ({**COLUMNS, "id": [1.0, 2.0]}, "parameter 'id' takes integers, got double",
         "leave it out to have ids assigned"),
        ({**COLUMNS, "id": [1, None]}, "parameter 'id' is null in row 1",
         "every query needs a value for every hole"),
        ({**COLUMNS, "id": np.array([1, 2**64 - 1], np.uint64)},
         "parameter 'id' is beyond int64 in row 1: 18446744073709551615",
         "leave it out to have ids assigned"),
        (pa.table([[1], [2], [3]], names=["lo", "lo", "hi"]), "parameter 'lo' is given twice",
         "keep one"),
        ({}, "parameter 'lo' is missing", "pass one column for each of: lo, hi"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused_with_their_message(params, message, hint):
    refused(FILTER, params, f"template 'alerts': {message}", hint)


@pytest.mark.parametrize(
    ("template", "values", "message", "hint"),
    [
        (TIMES, [1.5], "parameter 'until' takes timestamps or integers (microseconds UTC),"
         " got double", "the hole :until meets a column or difference of kind timestamp"),
        (TIMES, [datetime(2024, 1, 1), "x"], "parameter 'until' takes timestamps or integers"
         " (microseconds UTC), got values of several types",
         "the hole :until meets a column or difference of kind timestamp"),
        (TIMES, np.array([1_999], "M8[ns]"), "parameter 'until' is not a whole number of"
         " microseconds within int64 in row 0", "round it to microseconds"),
        (TIMES, [pd.Timestamp(1_999)], "parameter 'until' is not a whole number of"
         " microseconds within int64 in row 0", "round it to microseconds"),
        (TIMES, np.array([5, 2**62], "M8[s]"), "parameter 'until' is not a whole number of"
         " microseconds within int64 in row 1", "round it to microseconds"),
        (TIMES, np.array(["NaT"], "M8[us]"), "parameter 'until' is null in row 0",
         "every query needs a value for every hole"),
        (SPANS, np.array([1], "M8[s]"), "parameter 'w' takes durations or numbers (microseconds),"
         " got timestamp[s]", "the hole :w meets a column or difference of kind duration"),
        (SPANS, [2**63 - 1], "parameter 'w' is beyond 2^63 - 2 in row 0: 9223372036854775807",
         "a bound on a difference of int64 is smaller, or an infinite float for no limit"),
        (BAND, [0, -(2**63) + 1],
         "parameter 'd' is beyond 2^63 - 2 in row 1: -9223372036854775807",
         "a bound on a difference of int64 is smaller, or an infinite float for no limit"),
        (BAND, [2.0**63], "parameter 'd' is beyond 2^63 - 2 in row 0: 9.223372036854776e+18",
         "a bound on a difference of int64 is smaller, or an infinite float for no limit"),
        (WINDOW, np.array([1], "M8[s]"), "parameter 'w' takes durations or numbers (microseconds),"
         " got timestamp[s]", "the hole :w meets a column or difference of kind duration"),
        (WINDOW, [5, 2**63 - 1],
         "parameter 'w' is beyond 2^63 - 2 in row 1: 9223372036854775807",
         "a bound on a difference of int64 is smaller, or an infinite float for no limit"),
        (STEPS, [2.0**63], "parameter 'w' is beyond 2^63 - 2 in row 0: 9.223372036854776e+18",
         "a bound on a difference of int64 is smaller, or an infinite float for no limit"),
        (WORDS, [5], "parameter 's' takes text, got int64",
         "the hole :s meets a column or difference of kind string"),
        (WORDS, ["a", 5], "parameter 's' takes text, got 5 in row 1",
         "the hole :s meets a column or difference of kind string"),
        (WORDS, [b"a"], "parameter 's' takes text, got b'a' in row 0",
         "the hole :s meets a column or difference of kind string"),
        (WORDS, ["\ud800"], "parameter 's' takes text, got '\\ud800' in row 0",
         "the hole :s meets a column or difference of kind string"),
        (WORDS, [None], "parameter 's' is null in row 0",
         "every query needs a value for every hole"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_message(template, values, message, hint):
    params = {template.holes[0].name: values}
    refused(template, params, f"template {template.name!r}: {message}", hint)


def test_only_bounds_on_a_difference_are_limited_to_the_differences():
    ends = [2**63 - 1, -(2**63)]
    params = {"d": [0, 0], "n": ends, "m": ["a", "b"], "s": ends}
    columns = read_parameters(LOCAL, params).columns
    assert (columns["n"].tolist(), columns["s"].tolist()) == (ends, ends)
    message = "template 'local': parameter 'd' is beyond 2^63 - 2 in row 0: 9223372036854775807"
    hint = "a bound on a difference of int64 is smaller, or an infinite float for no limit"
    refused(LOCAL, {**params, "d": ends}, message, hint)


def refused(template: Template, params: object, message: str, hint: str) -> None:
    with pytest.raises(BadParameters) as caught:
        read_parameters(template, params)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize("ids", [[3, 1], np.array([3, 1]), pa.array([3, 1]), pl.Series([3, 1])])
def test_ids_to_remove_come_in_many_forms(ids):
    assert read_ids(FILTER, ids).tolist() == [3, 1]


def test_a_date_is_a_time_alone_and_among_others_of_its_kind():
    days = [date(2024, 1, 1), date(1969, 12, 31)]
    assert read_parameters(TIMES, {"until": days}).columns["until"].tolist() == [
        1_704_067_200_000_000, -86_400_000_000,
    ]  # fmt: skip
    assert read_parameters(TIMES, {"until": days[0]}).n_queries == 1


def test_an_empty_list_of_dicts_is_no_query():
    for template in (FILTER, WORDS, TIMES):
        assert read_parameters(template, []).n_queries == 0


def test_one_id_and_no_id_are_fine():
    assert read_ids(FILTER, 5).tolist() == [5]
    assert read_ids(FILTER, []).tolist() == []


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2, 1], "template 'alerts': id 1 appears twice"),
        (["a"], "template 'alerts': parameter 'id' takes integers, got string"),
        ([1, "a"], "template 'alerts': parameter 'id' takes integers, got values of several types"),
        ([1, 2**70], f"template 'alerts': parameter 'id' is beyond int64 in row 1: {2**70}"),
        ([-(2**70)], f"template 'alerts': parameter 'id' is beyond int64 in row 0: {-(2**70)}"),
        ([2**63], f"template 'alerts': parameter 'id' is beyond int64 in row 0: {2**63}"),
        (None, "template 'alerts': parameter 'id' takes integers, got null"),
        ([1, None, "a"], "template 'alerts': parameter 'id' is null in row 1"),
        ({3, 1}, "template 'alerts': parameter 'id' takes integers, got set"),
        (pd.DataFrame({"id": [1]}), "template 'alerts': column 'id' has 2 dimensions, not one"),
        (pl.DataFrame({"id": [1]}), "template 'alerts': column 'id' has 2 dimensions, not one"),
    ],
)
def test_wrong_ids_are_refused(ids, message):
    with pytest.raises(BadParameters) as caught:
        read_ids(FILTER, ids)
    assert caught.value.message == message
