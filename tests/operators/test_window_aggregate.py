"""Window aggregates beyond the laws: sums that do not drift, sums too large, what is refused."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import standfast as sf
from standfast.indexes.lanes import Lanes
from standfast.operators.aggregates import UserAggregate, aggregate_of
from standfast.operators.catalog import WINDOW_AGGREGATES

NOTHING = np.empty(0, np.int64)
MERGING = ["augmented_tree", "base_intervals", "landmark_intervals", "running_intervals"]
SUMMING = [*MERGING, "naive", "materialise_all", "routed"]


def made(way, name, values, lefts, *, batch=1000, unit="rows", rights=None):
    """A way that took these values in, with suffix windows (or others) of these ages."""
    values = np.asarray(values)
    is_float = values.dtype == np.float64
    lanes = Lanes(unit, is_float=is_float, reach=int(np.max(lefts)))
    made = WINDOW_AGGREGATES[way](aggregate_of(name, is_float=is_float), lanes)
    lows = np.zeros_like(lefts) if rights is None else rights
    made.add(np.arange(len(lefts)), np.array([lows]), np.array([lefts]))
    for i in range(0, values.size, batch):
        part = values[i : i + batch]
        made.append(NOTHING, np.arange(i, i + part.size), part, np.ones(part.size, np.bool_))
    return made


def answers(way):
    slots = np.flatnonzero(way.living)
    return way.lookup(slots, np.zeros_like(slots))


@pytest.mark.large
@pytest.mark.parametrize("way", MERGING)
def test_sums_do_not_drift_after_large_values_that_cancel(way):
    """As much is added up as 10^9 values of a million: 10^6 values of 10^9, then small ones.

    A window reaches all of them, so that all are written. A running total of float64 is off by far
    more than rounding by then, as the same windows show that are differences of such totals. The
    bound is that of decision 014: a rounding of the answer, and what n roundings of the rest of n
    roundings can come to.
    """
    rng = np.random.default_rng(5)
    large = rng.uniform(0, 2e9, size=500_000)
    small = rng.normal(size=2_000)
    values = np.concatenate([large, -rng.permutation(large), large[:1], small])
    lefts = np.array([0, 1, 50, 999, 1_999, values.size - 1])
    made_way = made(way, "SUM", values, lefts, batch=50_000)
    assert len(made_way.lanes) == values.size, "rows that no window reaches are not written"
    assert np.abs(made_way.lanes.kept().values).sum() > 0.99e15
    found, drifting = answers(made_way), np.append(0.0, np.cumsum(values))
    n_added, most = values.size, 10**15
    for left, value in zip(lefts.tolist(), found.values.tolist(), strict=True):
        window = values[values.size - 1 - left :].tolist()
        # Whole numbers of 2^-80 each: nothing is rounded.
        exact = Fraction(sum(int(math.ldexp(v, 80)) for v in window), 2**80)
        bound = Fraction(2) ** -53 * abs(exact) + Fraction(n_added**2, 2**106) * most
        assert abs(Fraction(value) - exact) <= bound
        assert value == pytest.approx(float(exact), rel=1e-12)
        plain = drifting[-1] - drifting[values.size - 1 - left]
        assert plain != pytest.approx(float(exact), rel=1e-12), "totals of float64 would do"


@pytest.mark.parametrize("way", MERGING)
def test_what_was_before_a_window_does_not_matter_to_it(way):
    """Rows that are gone for good leave no trace, however large they were."""
    rng = np.random.default_rng(6)
    values = np.concatenate([[1e140, -3e139, 1e100], rng.normal(size=3_000)])
    found = answers(made(way, "SUM", values, np.array([99, 499])))
    assert found.values.tolist() == [math.fsum(values[-100:]), math.fsum(values[-500:])]


@pytest.mark.large
@pytest.mark.parametrize("way", MERGING)
@pytest.mark.parametrize("name", ["VARIANCE", "STDDEV_POP"])
def test_the_variance_of_values_far_from_zero_keeps_its_digits(way, name):
    rng = np.random.default_rng(7)
    values = 1e9 + rng.normal(size=4_000)
    found = answers(made(way, name, values, np.array([9, 999, 3_999])))
    for left, value in zip((9, 999, 3_999), found.values.tolist(), strict=True):
        exact = [Fraction(v) for v in values[-left - 1 :].tolist()]
        mean = sum(exact) / len(exact)
        moment = sum((v - mean) ** 2 for v in exact)
        variance = moment / (left if name == "VARIANCE" else left + 1)
        wanted = float(variance) if name == "VARIANCE" else math.sqrt(variance)
        assert value == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("way", SUMMING)
def test_a_sum_that_int64_cannot_hold_is_null_and_counted(way):
    most = 2**63 - 1
    values = np.array([most, 1, -1, 5, most, -most], np.int64)
    lefts = np.array([0, 1, 2, 3, 4, 5])
    found = answers(made(way, "SUM", values, lefts))
    assert found.known.tolist() == [True, True, True, True, True, False]
    assert found.values[:5].tolist() == [-most, 0, 5, 4, 5]
    assert found.n_overflowed == 1
    mean = answers(made(way, "AVG", values, lefts))
    assert mean.values[5] == (most + 5) / 6


@pytest.mark.parametrize("way", SUMMING)
def test_means_of_large_whole_numbers_are_those_of_python(way):
    values = np.random.default_rng(14).integers(-(2**63), 2**63 - 1, 300)
    values[100:200] = 1_700_000_000_000_000 + np.arange(100)
    lefts = np.arange(0, 300, 7)
    found = answers(made(way, "AVG", values, lefts, batch=70)).values.tolist()
    rows = values.tolist()
    assert found == [sum(rows[-left - 1 :]) / (left + 1) for left in lefts.tolist()]


@pytest.mark.parametrize("way", SUMMING)
def test_overflows_are_counted_by_the_group(way):
    engine = sf.Engine()
    engine.stream("s", {"a": "int64", "ts": "timestamp"}, time="ts")
    group = engine.register(
        "SELECT SUM(a) OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW) FROM s",
        strategy=way,
    )
    group.add({"n": [0, 1]})
    engine.store("s", {"a": [2**63 - 1, 2**63 - 1], "ts": [1, 2]})
    assert group.lookup()["value"].to_pylist() == [2**63 - 1, None]
    assert group.metrics()["overflowed"] == 1
    group.lookup([0])
    assert group.metrics()["overflowed"] == 1, "nobody asked for the one that is too large"
    group.lookup([1])
    assert group.metrics()["overflowed"] == 2


@pytest.mark.parametrize("way", SUMMING)
def test_sums_too_large_are_told_when_they_come_back_to_their_bound(way):
    """By the naive way they slept, as if they were 0 and so far from the bound."""
    engine, told = sf.Engine(), dict[int, int]()
    engine.stream("s", {"a": "int64", "ts": "timestamp"}, time="ts")
    group = engine.register(
        "SELECT SUM(a) OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW) AS v FROM s "
        "QUALIFY v BETWEEN :lo AND :hi",
        name="g", strategy=way,
    )  # fmt: skip
    group.add({"id": range(60), "n": [40] * 60, "lo": [2**62] * 60, "hi": [2**63 - 1] * 60})
    values = [2**58] * 41 + [0] * 14
    for first, last in [(0, 41), *((i, i + 1) for i in range(41, 55))]:
        given = {"a": values[first:last], "ts": range(first, last)}
        rows = engine.push("s", given)["g"].rows().to_pylist()
        for row in sorted(rows, key=lambda row: row["change"]):
            if row["change"] < 0:
                assert told.pop(row["query"]) == row["v"]
            else:
                told[row["query"]] = row["v"]
        assert told == {row["query"]: row["v"] for row in group.lookup().to_pylist()}
    assert told == dict.fromkeys(range(60), 27 * 2**58)


def test_sums_too_large_do_not_keep_others_from_being_read_again():
    values = np.array([2**63 - 1, 2**63 - 1, 5], np.int64)
    way = made("routed", "SUM", values, np.array([0, 1, 2]))
    for _ in range(3):
        assert answers(way).n_overflowed == 2
    assert way.n_reread == 6


@pytest.mark.parametrize("way", [*MERGING, "naive", "materialise_all", "routed"])
def test_a_key_whose_rows_all_went_before_anybody_looked_is_no_trouble(way):
    """Of an aggregate with an inverse the totals of a key without rows were asked for its first."""
    user = UserAggregate(
        lambda v: v[:, None], lambda a, b: a + b, lambda s: s[:, 0], lambda t, part: t - part
    )
    engine = sf.Engine()
    engine.aggregate("total", user)
    engine.stream("s", {"ts": "timestamp", "k": "string", "v": "float64"}, time="ts")
    group = engine.register(
        "SELECT k, total(v) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND "
        "CURRENT ROW) AS t FROM s", strategy=way,
    )  # fmt: skip
    group.add({"w": [3]})
    engine.push("s", {"ts": [1], "k": ["a"], "v": [1.0]})
    engine.store("s", {"ts": [2], "k": ["a"], "v": [1.0]})
    engine.store("s", {"ts": [100], "k": ["b"], "v": [1.0]})
    assert group.lookup().to_pylist() == [{"query": 0, "k": "b", "t": 1.0}]
    engine.push("s", {"ts": [101], "k": ["b"], "v": [1.0]})
    assert group.lookup()["t"].to_pylist() == [2.0]


def test_a_structure_that_no_query_needs_any_more_costs_nothing():
    """Landmark intervals have no class of widths then, so rows were estimated at 0 and divided."""
    way = made("routed", "MAX", np.arange(5.0), np.array([3, 3]))
    way.switch("landmark_intervals")
    way.remove(np.array([0, 1]))
    for i in range(200):
        way.append(NOTHING, np.array([10 + i]), np.array([1.0]), np.ones(1, np.bool_))
        assert way.lookup(NOTHING, NOTHING).values.size == 0
    assert way.way == "landmark_intervals"


@pytest.mark.parametrize("way", MERGING)
def test_infinite_and_huge_values_count_while_they_are_in_the_window(way):
    values = np.array([1.0, math.inf, 2.0, 1e308, 1e308, -1e308, 3.0, 4.0])
    lefts = np.array([0, 1, 2, 3, 4, 5, 6])
    found = answers(made(way, "SUM", values, lefts, batch=2))
    assert found.values.tolist() == [4.0, 7.0, -1e308, 0.0 + 7.0, 1e308, 1e308, math.inf]
    later = np.concatenate([values, np.ones(100)])
    assert answers(made(way, "SUM", later, lefts)).values.tolist() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("sql", "way", "message"),
    [
        ("MIN(a)", "running_intervals", "takes subtractable aggregates, MIN is mergeable"),
        ("odd(a)", "running_intervals", "takes subtractable aggregates, odd is mergeable"),
        ("COUNT(DISTINCT a)", "base_intervals", "COUNT_DISTINCT is holistic"),
        ("PERCENTILE_DISC(a, :p)", "augmented_tree", "PERCENTILE_DISC is holistic"),
        ("SUM(a)", "base_interval_quantiles", "takes holistic aggregates, SUM is subtractable"),
        ("SUM(a)", "hotspot", "strategy 'hotspot' does not answer window_aggregate"),
    ],
)
def test_a_way_that_cannot_answer_an_aggregate_is_refused(sql, way, message):
    engine = sf.Engine()
    engine.stream("s", {"a": "int64", "ts": "timestamp"}, time="ts")
    same = UserAggregate(lambda v: v[:, None], lambda a, b: a, lambda s: s[:, 0])
    engine.aggregate("odd", same)
    over = "OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW) FROM s"
    with pytest.raises(sf.UnsupportedQuery, match=message.replace("(", r"\(")):
        engine.register(f"SELECT {sql} {over}", strategy=way)


def test_names_and_functions_of_users_aggregates_are_checked():
    engine = sf.Engine()
    good = UserAggregate(lambda v: v[:, None], lambda a, b: a + b, lambda s: s[:, 0])
    for name in ("SUM", "median", "two words", 7):
        with pytest.raises(sf.BadInput, match="an aggregate cannot be called"):
            engine.aggregate(name, good)
    flat = UserAggregate(lambda v: v, lambda a, b: a + b, lambda s: s)
    with pytest.raises(sf.BadInput, match=r"synopses of shape \(2,\)"):
        engine.aggregate("flat", flat)
    failing = UserAggregate(lambda v: v[:, None], lambda a, b: a + b, lambda s: s[5])
    with pytest.raises(sf.BadInput, match="fails on two zeros"):
        engine.aggregate("failing", failing)
    engine.aggregate("mine", good)
    with pytest.raises(sf.BadInput, match="the name 'mine' is taken"):
        engine.aggregate("mine", good)


@pytest.mark.parametrize("way", MERGING)
def test_a_way_of_a_users_aggregate_begins_while_a_key_has_no_rows(way):
    """Running sums once failed on a lane that stands empty in the middle of its ring."""
    engine = sf.Engine()
    engine.stream("s", {"k": "string", "a": "int64", "ts": "timestamp"}, time="ts")
    total = UserAggregate(
        lambda v: v[:, None], lambda a, b: a + b, lambda s: s[:, 0], lambda a, b: a - b
    )
    engine.aggregate("total", total)
    over = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW)"
    group = engine.register(f"SELECT k, total(a) {over} AS t FROM s", strategy="naive")
    group.add({"w": [10]})
    engine.push("s", {"k": ["x", "x"], "a": [1, 2], "ts": [1, 1]})
    engine.push("s", {"k": ["y"] * 4, "a": [1] * 4, "ts": [100] * 4})
    group.switch(way)
    engine.check()
    engine.push("s", {"k": ["x", "x"], "a": [1, 5], "ts": [101, 101]})
    engine.check()
    assert [tuple(row.values()) for row in group.lookup().to_pylist()] == [
        (0, "x", 6.0), (0, "y", 4.0),
    ]  # fmt: skip


def test_other_questions_have_no_answers_to_look_up():
    engine = sf.Engine()
    engine.stream("s", {"a": "int64"})
    group = engine.register("SELECT * FROM s WHERE a < :x", name="f")
    with pytest.raises(sf.BadInput, match="template 'f' has no current answers to look up"):
        group.lookup()


@pytest.mark.large
def test_landmarks_of_suffix_windows_take_little_more_than_the_widest():
    """Each class of widths keeps as much as its own windows reach."""
    values = np.random.default_rng(8).integers(0, 9, 40_000)
    lefts = 2 ** np.arange(1, 15) - 1
    suffix = made("landmark_intervals", "MAX", values, lefts)
    alone = made("landmark_intervals", "MAX", values, lefts[-1:])
    historical = made(
        "landmark_intervals", "MAX", values, lefts * 0 + lefts[-1], rights=lefts[-1] - lefts
    )
    assert suffix.memory_bytes() < 4 * alone.memory_bytes()
    assert historical.memory_bytes() > 6 * alone.memory_bytes()
    wanted = [values[-left - 1 :].max() for left in lefts]
    assert answers(suffix).values.tolist() == wanted
