"""From parameters to closed key ranges: a value matches a query exactly when its keys do."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model import special
from model.golden import inputs
from model.special import satisfies
from standfast.model.key_ranges import column_keys, key_ranges, row_mask
from standfast.model.numbers import FAR, LEAST, float_keys
from standfast.model.parameters import read_parameters
from standfast.model.template import Template

OPERATORS = ["<", "<=", ">", ">=", "="]
BAND = "SELECT u.pos FROM unit u JOIN target t ON "
WINDOW = "SELECT u.pos FROM unit u JOIN target t ON u.name = t.name AND "
INF_KEY = int(float_keys(np.array([np.inf]))[0])


def ranges(sql: str, params: object, intern=None) -> tuple[np.ndarray, np.ndarray]:
    template = Template.parse("t", sql, inputs())
    return key_ranges(template.question, read_parameters(template, params), intern)


def check(keys: list[int], lows: np.ndarray, highs: np.ndarray, expected: list[list[bool]]) -> None:
    """Key k lies in range i exactly when `expected[i][k]`; an empty range is written 1 .. 0."""
    assert lows.shape == highs.shape == (1, len(expected))
    for low, high, wanted in zip(lows[0].tolist(), highs[0].tolist(), expected, strict=True):
        assert low <= high or (low, high) == (1, 0)
        assert [low <= key <= high for key in keys] == wanted


def parameter_columns() -> list[np.ndarray]:
    return [np.array(special.FLOATS), np.array(special.INTEGERS)]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("column", ["price", "shares"])
def test_every_operator_on_special_numbers_is_exact(column, operator):
    values = special.FLOATS if column == "price" else special.INTEGERS
    keys = float_keys(np.array(values)).tolist() if column == "price" else values
    for bounds in parameter_columns():
        lows, highs = ranges(f"SELECT * FROM trades WHERE {column} {operator} :x", {"x": bounds})
        expected = [[satisfies(v, operator, b) for v in values] for b in bounds.tolist()]
        check(keys, lows, highs, expected)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("subtrahend", ["u", "t"])
def test_every_operator_on_integer_differences_is_exact(operator, subtrahend):
    """The second condition turns the difference round, so bounds are negated on the way."""
    first = "t.grid - u.grid >= -9223372036854775806"
    turned = {"u": "t.grid - u.grid", "t": "u.grid - t.grid"}[subtrahend]
    differences = sorted({a - b for a in special.INTEGERS for b in special.INTEGERS})[::29]
    differences = [d for d in differences if d >= 2 - 2**63]
    keys = [min(d, FAR) for d in differences]
    signed = differences if subtrahend == "u" else [-d for d in differences]
    for bounds in parameter_columns():
        size = np.abs(bounds.astype(np.float64))
        bounds = bounds[(size < 2.0**63 - 2048) | (size >= 2.0**64)]
        lows, highs = ranges(f"{BAND} {first} AND {turned} {operator} :x", {"x": bounds})
        expected = [[satisfies(d, operator, b) for d in signed] for b in bounds.tolist()]
        check(keys, lows, highs, expected)


@pytest.mark.parametrize("operator", ["<", "<="])
def test_an_absolute_difference_of_floats_is_exact(operator):
    keys = float_keys(np.array(special.FLOATS)).tolist()
    for bounds in parameter_columns():
        lows, highs = ranges(f"{BAND} ABS(t.pos - u.pos) {operator} :w", {"w": bounds})
        expected = [
            [satisfies(abs(v), operator, b) for v in special.FLOATS] for b in bounds.tolist()
        ]
        check(keys, lows, highs, expected)


@pytest.mark.parametrize("operator", ["<", "<="])
@pytest.mark.parametrize("column", ["pos", "grid"])
def test_every_window_on_special_numbers_is_exact(column, operator):
    """A window is about an absolute difference: no key below 0 is ever in its range."""
    if column == "pos":
        values = special.FLOATS
        keys = float_keys(np.array(values)).tolist()
    else:
        values = sorted({a - b for a in special.INTEGERS for b in special.INTEGERS})[::29]
        keys = [max(min(d, FAR), -FAR) for d in values]
    for bounds in parameter_columns():
        if column == "grid":
            size = np.abs(bounds.astype(np.float64))
            bounds = bounds[(size < 2.0**63 - 2048) | (size >= 2.0**64)]
        sql = f"{WINDOW} ABS(u.{column} - t.{column}) {operator} :w"
        lows, highs = ranges(sql, {"w": bounds})
        expected = [[v >= 0 and satisfies(v, operator, b) for v in values] for b in bounds.tolist()]
        check(keys, lows, highs, expected)
        assert (lows[0][lows[0] <= highs[0]] == 0).all()


numbers = st.one_of(
    st.sampled_from(special.INTEGERS), st.sampled_from(special.FLOATS),
    st.integers(-20, 20), st.floats(allow_nan=False),
)  # fmt: skip
conditions = st.tuples(st.sampled_from(OPERATORS), numbers)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(conditions, min_size=1, max_size=4), st.sampled_from(["price", "shares"]))
@example([(">", math.inf), ("<", 5)], "price")
@example([(">=", 2), ("<=", 1)], "shares")
def test_all_conditions_on_a_column_hold_together(conditions, column):
    values = special.FLOATS if column == "price" else special.INTEGERS
    keys = float_keys(np.array(values)).tolist() if column == "price" else values
    where = " AND ".join(f"{column} {op} :h{i}" for i, (op, _) in enumerate(conditions))
    params = {f"h{i}": [bound] for i, (_, bound) in enumerate(conditions)}
    lows, highs = ranges(f"SELECT * FROM trades WHERE {where}", params)
    check(keys, lows, highs, [[all(satisfies(v, *c) for c in conditions) for v in values]])


bands = st.lists(st.tuples(st.sampled_from(OPERATORS), st.integers(-20, 20)), max_size=3)
windows = st.tuples(st.sampled_from(["<", "<="]), st.integers(-3, 20))


def written(subject: str, conditions: list[tuple[str, float]], prefix: str) -> list[str]:
    return [f"{subject} {op} :{prefix}{i}" for i, (op, _) in enumerate(conditions)]


def filled(conditions: list[tuple[str, float]], prefix: str) -> dict[str, list[float]]:
    return {f"{prefix}{i}": [bound] for i, (_, bound) in enumerate(conditions)}


@settings(max_examples=80, derandomize=True, deadline=None)
@given(
    st.lists(windows, min_size=1, max_size=3),
    st.lists(conditions, min_size=1, max_size=3),
    st.lists(conditions, min_size=1, max_size=3),
)
@example([("<", 0)], [("<", LEAST)], [(">", FAR)])
def test_a_window_and_the_ranges_of_both_sides_are_rows_of_their_own(window, left, right):
    """The local ranges reach over the whole line, also where differences are saturated."""
    where = [
        *written("ABS(u.seen - t.seen)", window, "w"),
        *written("u.grid", left, "a"),
        *written("t.pos", right, "b"),
    ]
    params = {**filled(window, "w"), **filled(left, "a"), **filled(right, "b")}
    lows, highs = ranges(WINDOW + " AND ".join(where), params)
    integers, floats = special.INTEGERS, special.FLOATS
    keys = [list(range(-22, 23)), integers, float_keys(np.array(floats)).tolist()]
    expected = [
        [k >= 0 and all(satisfies(k, *c) for c in window) for k in keys[0]],
        [all(satisfies(v, *c) for c in left) for v in integers],
        [all(satisfies(v, *c) for c in right) for v in floats],
    ]
    for row in range(3):
        check(keys[row], lows[row : row + 1], highs[row : row + 1], [expected[row]])


@settings(max_examples=80, derandomize=True, deadline=None)
@given(bands, st.lists(conditions, min_size=1, max_size=3))
def test_a_band_and_the_ranges_of_a_side_are_rows_of_their_own(band, local):
    where = [
        "t.grid - u.grid < 15",
        *written("t.grid - u.grid", band, "d"),
        *written("t.grid", local, "a"),
    ]
    lows, highs = ranges(BAND + " AND ".join(where), {**filled(band, "d"), **filled(local, "a")})
    keys = list(range(-22, 23))
    inside = [all(satisfies(k, *c) for c in [("<", 15), *band]) for k in keys]
    check(keys, lows[:1], highs[:1], [inside])
    integers = special.INTEGERS
    inside = [all(satisfies(v, *c) for c in local) for v in integers]
    check(integers, lows[1:], highs[1:], [inside])


def test_literals_are_the_same_for_every_query():
    sql = "SELECT * FROM trades WHERE shares BETWEEN 3 AND :hi"
    lows, highs = ranges(sql, {"hi": [2, 3, 10]})
    assert (lows.tolist(), highs.tolist()) == ([[1, 3, 3]], [[0, 3, 10]])


def test_every_attribute_has_its_row():
    sql = "SELECT * FROM trades WHERE shares > :a AND ts < :b AND price <= :c"
    lows, highs = ranges(sql, {"a": [1, 5], "b": [10, LEAST], "c": [0.0, -0.0]})
    assert lows.tolist() == [[2, 6], [LEAST, 1], [-INF_KEY] * 2]
    assert highs.tolist() == [[FAR, FAR], [9, 0], [0, 0]]


def test_durations_bound_a_band_of_timestamps():
    sql = f"{BAND} t.seen - u.seen BETWEEN :lo AND INTERVAL '1' SECOND"
    lows, highs = ranges(sql, {"lo": np.array([-1, 2], "m8[s]")})
    assert (lows.tolist(), highs.tolist()) == ([[-1_000_000, 1]], [[1_000_000, 0]])


def test_an_unlimited_band_reaches_from_end_to_end():
    lows, highs = ranges(f"{BAND} t.grid - u.grid < :x", {"x": [math.inf, -math.inf, 2.0**64]})
    assert lows.tolist() == [[-FAR, 1, -FAR]]
    assert highs.tolist() == [[FAR, 0, FAR]]


def test_durations_bound_a_window_of_timestamps():
    sql = f"{WINDOW} ABS(u.seen - t.seen) < :w AND ABS(t.seen - u.seen) <= INTERVAL '2' SECOND"
    lows, highs = ranges(sql, {"w": np.array([1, 5, 0, -1], "m8[s]")})
    assert lows.tolist() == [[0, 0, 1, 1]]
    assert highs.tolist() == [[999_999, 2_000_000, 0, 0]]


def test_an_unlimited_window_reaches_to_the_end():
    for column, end in (("grid", FAR), ("pos", INF_KEY)):
        sql = f"{WINDOW} ABS(u.{column} - t.{column}) <= :w"
        lows, highs = ranges(sql, {"w": [math.inf, -math.inf, 0.0, -0.0]})
        assert lows.tolist() == [[0, 1, 0, 0]]
        assert highs.tolist() == [[end, 0, 0, 0]]


def test_a_literal_window_is_the_same_for_every_query():
    sql = f"{WINDOW} ABS(u.grid - t.grid) < 5 AND t.grid > :n"
    lows, highs = ranges(sql, {"n": [3, FAR, LEAST]})
    assert (lows.tolist(), highs.tolist()) == ([[0, 0, 0], [4, 1, LEAST + 1]],
                                               [[4, 4, 4], [FAR, 0, FAR]])  # fmt: skip


def test_a_literal_band_is_the_same_for_every_query():
    lows, highs = ranges(f"{BAND} ABS(t.grid - u.grid) <= 5 AND u.grid = :g", {"g": [LEAST, 7]})
    assert lows.tolist() == [[-5, -5], [LEAST, 7]]
    assert highs.tolist() == [[5, 5], [LEAST, 7]]


def test_the_ranges_of_the_first_side_come_before_those_of_the_second():
    sql = f"{WINDOW} t.grid > :b AND u.grid > :a"
    lows, highs = ranges(sql, {"a": [1], "b": [2]})
    assert (lows.tolist(), highs.tolist()) == ([[2], [3]], [[FAR], [FAR]])


def test_text_of_both_sides_becomes_codes_of_their_columns():
    asked: list[tuple[str, list[str]]] = []

    def intern(column: str, strings: np.ndarray) -> np.ndarray:
        asked.append((column, strings.tolist()))
        return np.arange(strings.size, dtype=np.int64) + 10 * len(asked)

    sql = f"{BAND} u.pos - t.pos < :hi WHERE u.model = :model AND t.type = :type"
    params = {"hi": [0.0, 0.0], "model": ["BB", "CC"], "type": ["surface", "air"]}
    lows, highs = ranges(sql, params, intern)
    assert asked == [("model", ["BB", "CC"]), ("type", ["surface", "air"])]
    assert lows.tolist()[1:] == highs.tolist()[1:] == [[10, 11], [20, 21]]


def test_text_becomes_codes_and_two_texts_an_empty_range():
    codes: dict[str, int] = {}

    def intern(column: str, strings: np.ndarray) -> np.ndarray:
        assert column == "symbol"
        return np.array([codes.setdefault(s, len(codes)) for s in strings], np.int64)

    sql = "SELECT * FROM trades WHERE symbol = :s AND symbol = 'b' AND price < :p"
    lows, highs = ranges(sql, {"s": ["a", "b", "c"], "p": [1, 2, 3]}, intern)
    assert codes == {"a": 0, "b": 1, "c": 2}
    assert (lows[0].tolist(), highs[0].tolist()) == ([1, 1, 1], [0, 1, 0])


def test_no_queries_have_no_ranges():
    lows, highs = ranges("SELECT * FROM trades WHERE price < :p", {"p": []})
    assert lows.shape == highs.shape == (1, 0)


@pytest.mark.parametrize(
    ("array", "kind", "keys", "valid"),
    [
        (pa.array([5, None, LEAST]), "int64", [5, 0, LEAST], [True, False, True]),
        (pa.array([7], pa.timestamp("us", "UTC")), "timestamp", [7], [True]),
        (pa.chunked_array([[1.0], [None, math.nan, -0.0]]), "float64",
         [float_keys(np.array([1.0]))[0], 0, 0, 0], [True, False, False, True]),
        (pa.array([], pa.float64()), "float64", [], []),
        (pa.array([5, 6, 7]).slice(1), "int64", [6, 7], [True, True]),
    ],
)  # fmt: skip
def test_a_column_has_keys_where_it_has_values(array, kind, keys, valid):
    found, mask = column_keys(array, kind)
    assert (found.tolist(), mask.tolist()) == (keys, valid)


LITERALS = ["-1.5", "0", "2", "9007199254740993", "1e300"]


@pytest.mark.parametrize(("operator", "literal"), list(itertools.product(OPERATORS, LITERALS)))
def test_fixed_conditions_choose_rows_exactly(operator, literal):
    values = [*special.FLOATS, None, math.nan]
    sql = f"SELECT * FROM trades WHERE price {operator} {literal} AND shares < :n"
    question = Template.parse("t", sql, inputs()).question
    mask = row_mask(question.fixed, pa.table({"price": pa.array(values, from_pandas=False)}))
    bound = int(literal) if literal.lstrip("-").isdecimal() else float(literal)
    expected = [v is not None and v == v and satisfies(v, operator, bound) for v in values]
    assert mask.tolist() == expected


def test_fixed_conditions_of_each_side_choose_its_rows():
    sql = f"{BAND} u.pos - t.pos < :hi WHERE u.model = 'BB' AND t.type = 'surface' AND t.grid < 3"
    unit, target = Template.parse("t", sql, inputs()).question.sides
    assert row_mask(unit.fixed, pa.table({"model": ["BB", "b", None]})).tolist() == [1, 0, 0]
    rows = pa.table({"type": ["surface", "surface", "air"], "grid": [2, 3, 2]})
    assert row_mask(target.fixed, rows).tolist() == [1, 0, 0]


def test_fixed_conditions_on_text_and_time_choose_rows():
    sql = """SELECT * FROM trades WHERE symbol = 'a' AND shares < :n
             AND ts >= TIMESTAMP '1970-01-01 00:00:01'"""
    question = Template.parse("t", sql, inputs()).question
    times = pa.array([1_000_000, 999_999, 1_000_000, None, 5_000_000], pa.timestamp("us", "UTC"))
    table = pa.table({"symbol": ["a", "a", "b", "a", None], "ts": times})
    assert row_mask(question.fixed, table).tolist() == [True, False, False, False, False]
    assert row_mask((), table).tolist() == [True] * 5
