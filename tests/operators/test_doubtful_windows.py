"""Windows that sums cannot tell are read row by row: whatever cancels would leave nothing right.

A total keeps a sum and what rounding left out of it. Where values of 10^38 stood before a window
of ones, both are larger than anything the window holds. And of values far from zero the squares
less the square of the sum leave no digit of a small variance, in every way that sums squares.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from random import Random

import numpy as np
import pytest

from standfast import Engine
from standfast.indexes.lanes import Lanes
from standfast.operators import lowering, spread_kernels
from standfast.operators.aggregates import aggregate_of
from standfast.operators.base import AggregateStrategy
from standfast.operators.catalog import WINDOW_AGGREGATES
from standfast.operators.plain import _root, plain_answers
from standfast.operators.window_aggregate.base_intervals import BaseIntervals

REACH = 99


class Folded(BaseIntervals):
    """Base intervals that are read from folds of blocks from the first lookup on."""

    few, shift = 1, 2


WAYS = {
    **{way: WINDOW_AGGREGATES[way] for way in (
        "naive", "materialise_all", "augmented_tree", "base_intervals", "landmark_intervals",
        "running_intervals", "routed",
    )},
    "folds": Folded,
}  # fmt: skip
every_way = pytest.mark.parametrize("way", WAYS)


def way_over(
    name: str, batches: list[np.ndarray], way: str = "running_intervals", *, every: int = 1
) -> AggregateStrategy:
    """A way that took batches in, with one in `every` windows of the last 100 rows."""
    is_float = batches[0].dtype == np.float64
    lanes = Lanes("rows", is_float=is_float, reach=REACH)
    way = WAYS[way](aggregate_of(name, is_float=is_float), lanes)
    lows, highs = (ages[::every] for ages in np.triu_indices(REACH + 1))
    way.add(np.arange(lows.size), lows[None, :], highs[None, :])
    n_rows = 0
    for values in batches:
        times = np.arange(n_rows, n_rows + values.size)
        way.append(times, times, values, np.ones(values.size, np.bool_))
        n_rows += values.size
    return way


def check_all_windows(way: AggregateStrategy) -> None:
    slots = np.arange(way.lows.shape[1])
    lanes = np.zeros_like(slots)
    found = way.lookup(slots, lanes)
    windows = (lanes, *way.lanes.positions(lanes, way.lows[0], way.highs[0]))
    wanted, known, _ = plain_answers(way.aggregate, way.lanes, windows, np.zeros(slots.size))
    assert np.array_equal(found.known, known)
    np.testing.assert_allclose(found.values[known], wanted[known], rtol=1e-9)


def glitches(scale: float, n: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    return rng.normal(size=n) * scale


@pytest.mark.parametrize("name", ["SUM", "AVG", "VARIANCE", "STDDEV"])
@pytest.mark.parametrize("scale", [1e15, 1e30, 3.4e38, 1e100])
def test_floats_after_far_larger_ones_are_summed_up_from_their_rows(name, scale):
    small = np.random.default_rng(6).uniform(1.0, 2.0, 60)
    check_all_windows(way_over(name, [glitches(scale, 30), small], every=7))


@pytest.mark.parametrize("name", ["SUM", "AVG", "VARIANCE", "STDDEV"])
def test_whole_numbers_after_far_larger_ones_keep_their_digits(name):
    rng = np.random.default_rng(7)
    large = rng.integers(-(2**63), 2**63 - 1, 30)
    check_all_windows(way_over(name, [large, rng.integers(0, 100, 60)], every=7))


def read_again(way: AggregateStrategy, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many of all windows are read row by row."""
    slots = np.arange(way.lows.shape[1])
    lanes = np.zeros_like(slots)
    windows = (lanes, *way.lanes.positions(lanes, way.lows[0], way.highs[0]))
    if way.aggregate.name == "SUM":
        return way._totals.reread(way.lanes, windows, way.lookup(slots, lanes))
    counts = []
    with monkeypatch.context() as patched:
        for kernel in (spread_kernels.read_around, spread_kernels.read_shifted):
            counting = partial(lambda read, *args: counts.append(read(*args)), kernel)
            patched.setattr(lowering, kernel.__name__, counting)
        way.read(slots, *windows)
    return sum(counts)


@pytest.mark.parametrize("name", ["SUM", "VARIANCE"])
def test_ordinary_values_leave_no_window_in_doubt(name, monkeypatch):
    rng = np.random.default_rng(8)
    prices, signed = rng.uniform(90.0, 110.0, 500), rng.integers(-3, 4, 500).astype(np.float64)
    for values in (prices, signed, np.zeros(500), np.full(500, 0.1)):
        assert read_again(way_over(name, [values]), monkeypatch) == 0
    way = way_over(name, [glitches(1e30, 30), prices[:60]])
    assert read_again(way, monkeypatch) > 1000


@pytest.mark.large
@pytest.mark.parametrize("way", [way for way in WAYS if way != "naive"])
def test_no_way_doubts_the_variance_of_ordinary_values(way, monkeypatch):
    rng = np.random.default_rng(9)
    cents, whole = rng.integers(9_000, 11_000, 300) / 100, rng.integers(-(2**24), 2**24, 300)
    epochs = 1_700_000_000_000_000 + np.cumsum(rng.integers(1, 10**9, 300))  # microseconds
    for values in (cents, whole, epochs, epochs / 1e6, np.full(300, 7), np.zeros(300)):
        assert read_again(way_over("VARIANCE", [values], way), monkeypatch) == 0
    far = way_over("VARIANCE", [1.7e18 + rng.normal(size=300) * 1e4], way)
    assert read_again(far, monkeypatch) > 1000


FAR = {
    "epoch nanoseconds": 17 * 10**17 + 100 * np.arange(90),
    "near the end of int64": 2**62 + 1 + 2 * (np.arange(90) % 7),
    "beyond 2^53": 2**53 + 3 + 2 * (np.arange(90) % 3),
    "both ends of int64": np.where(np.arange(90) % 9, 2**63 - 1 - np.arange(90), -(2**63)),
    "floats": 1e15 + np.random.default_rng(3).normal(size=90) * 577,
    "floats, steps of 256": 1.7e18 + 256.0 * (np.arange(90) % 11),
    "floats of one value": np.full(90, 1e17 / 3),
    "floats, a few of them other": np.where(np.arange(90) % 40, 0.1, 0.1 + 2.0**-50),
    "very small floats": 1e-165 * (1 + 2 * (np.arange(90) % 3)),
    "the smallest floats": 5e-324 * (np.arange(90) % 5),
    "small floats that cancel": np.resize([1e-170, -1e-170], 90),
    "small floats after others": np.append(np.full(30, 0.1), 1e-170 * (np.arange(60) % 3)),
}


@every_way
@pytest.mark.parametrize("what", FAR)
def test_spreads_of_values_far_from_zero_and_next_to_it_keep_their_digits(way, what):
    """They read as 0, or wrong from the first digit on, in all ways but one."""
    for name in ("VARIANCE", "STDDEV", "VAR_POP", "STDDEV_POP"):
        check_all_windows(way_over(name, [FAR[what][:50], FAR[what][50:]], way, every=251))


@every_way
@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("STDDEV", [17 * 10**17 + i for i in (0, 100, 200)], 100.0),
        ("VARIANCE", [2**62 + 1, 2**62 + 3, 2**62 + 5], 4.0),
        ("STDDEV_POP", [2**53 + 3, 2**53 + 5], 1.0),
        ("STDDEV", [-(2**63), 2**63 - 1], math.sqrt(2.0**127)),
    ],
)  # fmt: skip
def test_whole_numbers_have_the_spread_of_their_differences(way, name, values, wanted):
    made = way_over(name, [np.array(values)], way, every=REACH)
    widest = np.flatnonzero((made.lows[0] == 0) & (made.highs[0] == REACH))
    assert made.lookup(widest, widest * 0).values.tolist() == [wanted]


@every_way
@pytest.mark.parametrize(
    ("name", "values", "wanted"),
    [
        ("STDDEV", [1e200, 3e200, 5e200], 2e200),
        ("VARIANCE", [1e200, 3e200, 5e200], math.inf),
        ("VARIANCE", [1e150, 3e150, 5e150], 4e300),
        ("STDDEV", [1.7e308, 1.7e308], 0.0),
        ("STDDEV_POP", [-1.5e308, 1.5e308], 1.5e308),
        ("STDDEV", [-1.5e308, 1.5e308], math.inf),
        ("STDDEV", [1e-165, 3e-165, 5e-165], 2e-165),
        ("VARIANCE", [1e-165, 3e-165, 5e-165], 0.0),
        ("STDDEV_POP", [5e-324, 15e-324], 5e-324),
        ("AVG", [1e308, 1.5e308], 1.25e308),
        ("AVG", [1.7e308, 1.7e308, -1.7e308], 1.7e308 / 3),
        ("AVG", [1.0, math.inf], math.inf),
        ("AVG", [-math.inf, math.inf], math.nan),
        ("SUM", [1e308, 1.5e308], math.inf),
    ],
)  # fmt: skip
def test_answers_at_the_ends_of_float64(way, name, values, wanted):
    """Deviations were rounded to float64 before the root, and means were sums before they were."""
    made = way_over(name, [np.array(values)], way, every=REACH)
    widest = np.flatnonzero((made.lows[0] == 0) & (made.highs[0] == REACH))
    (found,) = made.lookup(widest, widest * 0).values.tolist()
    assert found == pytest.approx(wanted, rel=4e-16, abs=0.0, nan_ok=True)


def test_the_root_of_what_float64_cannot_hold_is_rounded_once():
    rng = Random(15)
    for _ in range(500):
        root = rng.randrange(1, 2**53) * Fraction(2) ** rng.randrange(-1074, 971)
        assert _root(root * root) == root
        near = Fraction(rng.randrange(1, 2**70), rng.randrange(1, 2**70))
        found, half = Fraction(_root(near)), Fraction(math.ulp(_root(near))) / 2
        assert (found - half) ** 2 <= near <= (found + half) ** 2


def test_rows_without_a_value_are_left_out_of_what_is_read_again():
    lanes = Lanes("rows", is_float=True, reach=9)
    for name, wanted in (("VARIANCE", 2.0), ("VAR_POP", 1.0)):
        way = WAYS["base_intervals"](aggregate_of(name, is_float=True), lanes)
        way.add(np.array([0]), np.array([[0]]), np.array([[9]]))
        column = np.array([0.0, 2.0**50, 0.0, 2.0**50 + 2, 0.0])
        way.append(np.arange(5), np.arange(5), column, np.array([0, 1, 0, 1, 0], np.bool_))
        assert way.lookup(np.array([0]), np.array([0])).values.tolist() == [wanted]
        lanes = Lanes("rows", is_float=True, reach=9)


def test_a_stream_that_stands_still_is_walked_once(monkeypatch):
    """Each window of it by itself would cost all of its rows; nothing is added up."""
    way = way_over("STDDEV", [np.full(200, 0.1), np.full(200, 1e17 / 3)])
    assert read_again(way, monkeypatch) == 0
    check_all_windows(way)


@pytest.mark.large
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e5])
def test_what_is_not_doubted_is_right_after_many_rows(offset):
    """Values that round alike all the time are the worst for the rest of a sum."""
    rng, n = np.random.default_rng(4), 1 << 17
    for spread in 10.0 ** np.arange(-8, 0):
        values = offset + 0.1 + spread * rng.choice([-1.0, 1.0], n)
        lanes = Lanes("rows", is_float=True, reach=n)
        way = WAYS["running_intervals"](aggregate_of("VARIANCE", is_float=True), lanes)
        lefts = np.array([[1, 9, 99, 9_999, n - 1]])
        way.add(np.arange(5), lefts * 0, lefts)
        way.append(np.arange(n), np.arange(n), values, np.ones(n, np.bool_))
        found = way.lookup(np.arange(5), np.zeros(5, np.int64)).values.tolist()
        for left, value in zip(lefts[0].tolist(), found, strict=True):
            whole = [int(v * 2**80) for v in values[-left - 1 :].tolist()]
            moment = len(whole) * sum(v * v for v in whole) - sum(whole) ** 2
            wanted = Fraction(moment, 2**160 * len(whole) * left)
            assert value == pytest.approx(float(wanted), rel=1e-9)


def test_doubt_ends_when_totals_start_anew(monkeypatch):
    """Two rounds of the ring later nothing is left of what was large."""
    few = [np.full(50, 0.1)]
    assert read_again(way_over("SUM", [glitches(1e30, 30), *few]), monkeypatch) > 1000
    way = way_over("SUM", [glitches(1e30, 30), *few * 8])
    assert read_again(way, monkeypatch) == 0
    check_all_windows(way)


def test_late_rows_beside_large_values_keep_the_invariants() -> None:
    """Such windows are added up row by row; `check` read their totals, which nobody asks for."""
    engine, rng, now = Engine(), Random(0), 10**8
    engine.stream("s", {"v": "float64", "ts": "timestamp"}, time="ts", lateness_us=10**7)
    sums = "SELECT SUM(v) OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW) AS v FROM s"
    group = engine.register(sums, name="sums", strategy="running_intervals")
    group.add({"n": [2, 5]})
    came = list[tuple[int, float]]()
    for _ in range(20):
        n = rng.randint(1, 3)
        values = [rng.choice([5e-324, 2.0**481, -(2.0**481), 1.0]) for _ in range(n)]
        times = [now + rng.randint(-8, 5) * 10**6 for _ in range(n)]
        latest = max([time for time, _ in came], default=0)
        for time, value in zip(times, values, strict=True):
            if time >= latest - 10**7:
                came.append((time, value))
            latest = max(latest, time)
        engine.push("s", {"v": values, "ts": times})
        engine.check()
        rows = [Fraction(value) for _, value in sorted(came)]
        said = group.lookup()["v"].to_pylist()
        assert said == [float(sum(rows[-3:])), float(sum(rows[-6:]))]
        now += 2 * 10**6
