"""Histograms of stabbed ranges: what a height means, what optimal means, what undoing means."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.indexes.histogram_choice import hist_ssi, near_optimal, optimal
from standfast.indexes.histogram_groups import clusters, shares, slopes, weights_of
from standfast.indexes.histogram_steps import Step, counted, error, masses, sampled, uniform
from standfast.indexes.interval_histogram import EqualWidth
from standfast.indexes.keys import key_of

LEAST, MOST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
SMALL = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(sorted)
ANY_KEY = st.integers(-30, 30) | st.sampled_from([LEAST, LEAST + 1, MOST - 1, MOST, 10**18])
ANY = st.tuples(ANY_KEY, ANY_KEY).map(sorted)


def ends(ranges):
    lows, highs = np.array(ranges, np.int64).reshape(-1, 2).T
    return lows.copy(), highs.copy()


def brute(ranges, key):
    return sum(low <= key <= high for low, high in ranges)


def appendix_b(n, seed, deviation=2000):
    """The paper's intervals as whole numbers; lengths below zero count as their absolute value."""
    rng = np.random.default_rng(seed)
    middles, halves = rng.normal(5000, 1500, n), np.abs(rng.normal(1000, deviation, n)) / 2
    return tuple(
        np.clip(np.rint(side), 0, 10_000).astype(np.int64)
        for side in (middles - halves, middles + halves)
    )


def floats(*values):
    return np.array([key_of(float(value)) for value in values], np.int64)


# Step functions


@given(st.lists(ANY, max_size=12))
def test_the_exact_count_is_what_brute_force_counts(ranges):
    step = counted(*ends(ranges))
    step.check()
    keys = sorted({key for pair in ranges for key in pair} | {LEAST, -1, 0, 7, MOST})
    keys += [key + 1 for key in keys if key < MOST]
    found = step.estimate(np.array(keys, np.int64))
    assert found.tolist() == [brute(ranges, key) for key in keys]


def test_an_empty_step_function_is_zero_everywhere():
    nothing = counted(*ends([]))
    assert nothing.n_buckets == 0
    assert nothing.estimate(np.array([LEAST, 0, MOST])).tolist() == [0, 0, 0]


@given(st.lists(SMALL, min_size=1, max_size=10), st.lists(st.integers(0, 60), max_size=6))
def test_the_error_is_the_sum_over_all_keys_of_the_domain(ranges, breaks):
    lows, highs = ends(ranges)
    starts = np.unique(np.array([0, *breaks], np.int64))
    step = Step(starts, np.arange(starts.size, dtype=np.float64))
    wrong = 0.0
    for key in range(0, 51):
        truth = brute(ranges, key)
        estimate = step.values[np.searchsorted(starts, key, side="right") - 1]
        wrong += ((estimate - truth) / max(truth, 1)) ** 2 / 51
    assert error(step, lows, highs, uniform(0, 50)) == pytest.approx(wrong**0.5)


def test_the_error_of_the_exact_count_is_zero():
    lows, highs = appendix_b(500, seed=1)
    assert error(counted(lows, highs), lows, highs) == 0


def test_densities_spread_all_events_over_the_steps():
    starts = np.array([-10, 0, 5, 100])
    assert masses(starts, uniform(0, 9)).tolist() == [0, 0.5, 0.5, 0]
    assert masses(starts, sampled(np.array([0, 4, 5, 200]))).tolist() == [0, 0.5, 0.25, 0.25]
    whole_line = masses(np.array([LEAST, 0]), uniform(LEAST, MOST))
    assert whole_line.tolist() == [0.5, 0.5]


# Few buckets


def best_by_brute_force(lows, highs, n_buckets, density):
    """The least error over all choices of break points, each bucket with its best value."""
    exact = counted(lows, highs)
    n = exact.n_buckets
    weights = (masses(exact.starts, density) / np.maximum(exact.values, 1) ** 2)[:n]
    least = np.inf
    for inner in combinations(range(1, n), min(n_buckets, n) - 1):
        squares = 0.0
        for begin, end in zip((0, *inner), (*inner, n), strict=True):
            weight, count = weights[begin:end], exact.values[begin:end]
            if weight.sum() > 0:
                mean = np.average(count, weights=weight)
                squares += np.sum(weight * (count - mean) ** 2)
        least = min(least, squares)
    return least**0.5


@settings(deadline=None)
@given(st.lists(SMALL, min_size=1, max_size=6), st.integers(1, 5), st.booleans())
def test_no_choice_of_break_points_beats_the_optimal_histogram(ranges, n_buckets, is_plain):
    lows, highs = ends(ranges)
    density = uniform(0, 45)
    step = optimal(lows, highs, n_buckets, density, stop_early=not is_plain)
    step.check()
    assert step.n_buckets <= n_buckets
    best = best_by_brute_force(lows, highs, n_buckets, density)
    assert error(step, lows, highs, density) == pytest.approx(best, abs=1e-7)


NEAR = [hist_ssi, near_optimal]


@settings(deadline=None)
@given(st.sampled_from(NEAR), st.lists(SMALL, min_size=1, max_size=30), st.integers(1, 8))
def test_the_near_ones_keep_to_their_buckets_and_never_beat_the_optimal(near, ranges, n_buckets):
    lows, highs = ends(ranges)
    density = sampled(np.array([low for low, _ in ranges]))
    step = near(lows, highs, n_buckets, density)
    step.check()
    assert step.n_buckets <= n_buckets
    least = error(optimal(lows, highs, n_buckets, density), lows, highs, density)
    assert error(step, lows, highs, density) >= least - 1e-7


@pytest.mark.large
@pytest.mark.parametrize("near", NEAR)
@pytest.mark.parametrize("deviation", [100, 2000])
@pytest.mark.parametrize("n_buckets", [10, 30])
def test_the_near_ones_are_within_a_fifth_of_optimal_on_the_papers_intervals(
    near, deviation, n_buckets
):
    lows, highs = appendix_b(400, seed=7, deviation=deviation)
    phi = uniform(0, 10_000)
    found = error(near(lows, highs, n_buckets, phi), lows, highs, phi)
    assert found <= 1.2 * error(optimal(lows, highs, n_buckets, phi), lows, highs, phi)


@pytest.mark.parametrize("build", [*NEAR, optimal])
def test_as_many_buckets_as_steps_make_no_error(build):
    lows, highs = appendix_b(30, seed=3)
    assert error(build(lows, highs, 60), lows, highs) < 1e-9


@pytest.mark.parametrize("build", [*NEAR, optimal])
def test_no_ranges_make_no_buckets_and_whole_lines_one(build):
    assert build(*ends([]), 10).n_buckets == 0
    lines = build(*ends([(LEAST, MOST)] * 3), 10)
    assert lines.n_buckets == 1
    assert lines.estimate(np.array([LEAST, 0, MOST])).tolist() == [3, 3, 3]


def test_buckets_that_expect_no_event_have_the_mean_of_their_counts():
    lows, highs = ends([(0, 9), (5, 9)])
    step = optimal(lows, highs, 1, sampled(np.array([100])))
    assert step.estimate(np.array([7])).tolist() == [1.5]


def test_counts_that_differ_by_millions_are_told_apart():
    """Sums over everything to the left lose the small weights of high counts; ours do not."""
    lows = np.concatenate([[0], np.full(300_000, 5000), np.full(300_000, 7500)])
    highs = np.full(lows.size, 9999)
    step = optimal(lows, highs, 2, uniform(0, 9999))
    assert step.starts.tolist() == [0, 5000, 10_000]
    assert step.values[1] == pytest.approx(360_001, rel=1e-5)


@given(st.lists(SMALL, min_size=1, max_size=20))
def test_slopes_of_all_groups_add_up_to_the_count(ranges):
    lows, highs = ends(ranges)
    exact = counted(lows, highs)
    steps = slopes(lows, highs, exact.starts)
    total = np.zeros(exact.starts.size)
    for height, first, stop in zip(steps.heights, steps.firsts, steps.stops, strict=True):
        total[first:stop] += height
    assert total[: exact.n_buckets].tolist() == exact.values[: exact.n_buckets].tolist()
    for first, last in zip(steps.offsets[:-1], steps.offsets[1:], strict=True):
        assert np.all(np.diff(steps.heights[first:last]) > 0)


@given(st.lists(SMALL, min_size=1, max_size=20), st.integers(1, 6))
def test_clusters_ascend_and_begin_with_their_slope(ranges, n_wanted):
    lows, highs = ends(ranges)
    exact = counted(lows, highs)
    steps = slopes(lows, highs, exact.starts)
    weights = weights_of(steps, np.ones(exact.starts.size))
    wanted = np.full(steps.offsets.size - 1, n_wanted)
    slope_of, cuts = clusters(steps, weights, shares(steps, weights), wanted)
    assert np.all(np.diff(cuts) > 0)
    n_steps = np.diff(steps.offsets)
    assert np.bincount(slope_of).tolist() == np.minimum(n_steps, n_wanted).tolist()
    first = np.append(True, np.diff(slope_of) > 0)
    assert cuts[first].tolist() == steps.offsets[:-1].tolist()


# Equally wide buckets


def test_a_range_raises_what_it_covers_and_its_ends_by_the_covered_part():
    histogram = EqualWidth(4)
    histogram.add(*ends([(0, 39)]))
    histogram.add(*ends([(5, 33)]))
    assert histogram.estimate(np.array([0, 10, 20, 39])) == pytest.approx([1.5, 2, 2, 1.4])
    assert histogram.estimate(np.array([-1, 40])).tolist() == [0, 0]
    histogram.check()


@given(st.lists(SMALL, min_size=1, max_size=15))
def test_a_height_is_the_mean_of_the_count_over_its_bucket(ranges):
    histogram = EqualWidth(8)
    histogram.add(*ends([(0, 79), *ranges]))
    means = [np.mean([1 + brute(ranges, k) for k in range(b, b + 10)]) for b in range(0, 80, 10)]
    assert histogram.estimate(np.arange(0, 80, 10)) == pytest.approx(means)
    histogram.check()


@given(st.lists(ANY, min_size=1, max_size=20), st.integers(1, 20))
def test_ranges_added_in_any_pieces_give_the_same_heights(ranges, cut):
    """The first call sees all ends, so that both histograms have the same buckets."""
    frame = ends([(-30, 30), (10**18, 10**18)])
    whole, pieces = EqualWidth(10), EqualWidth(10)
    for histogram in (whole, pieces):
        histogram.add(*frame)
    whole.add(*ends(ranges))
    pieces.add(*ends(ranges[:cut]))
    pieces.add(*ends(ranges[cut:]))
    keys = np.array([LEAST, -30, 0, 30, 10**17, 10**18, MOST])
    assert pieces.estimate(keys) == pytest.approx(whole.estimate(keys))


@given(st.lists(ANY, max_size=12), st.lists(ANY, min_size=1, max_size=12), st.booleans())
def test_removal_undoes_addition(kept, passing, is_float):
    histogram = EqualWidth(16, is_float=is_float)
    histogram.add(*ends([*kept, (-40, 40)]))
    histogram.add(*ends(passing))
    histogram.check()
    histogram.remove(*ends(passing))
    histogram.check()
    same = EqualWidth(16, is_float=is_float)
    same.add(*ends([*kept, (-40, 40), *passing]))
    same.remove(*ends(passing))
    assert histogram.n_ranges == same.n_ranges == len(kept) + 1
    histogram.remove(*ends([*kept, (-40, 40)]))
    histogram.check()
    assert histogram.estimate(np.array([LEAST, -5, 0, 5, MOST])).tolist() == [0] * 5


@given(st.lists(st.tuples(st.integers(-500, 500), st.integers(0, 90)), min_size=1, max_size=12))
def test_buckets_that_grew_still_hold_the_mean_of_the_count(pairs):
    """The first range makes eight buckets of ten; doubled buckets begin at whole numbers too."""
    ranges = [(0, 79), *((low, low + length) for low, length in pairs)]
    histogram, counts = EqualWidth(8), np.zeros(8000)
    for low, high in ranges:
        histogram.add(*ends([(low, high)]))
        histogram.check()
        counts[low + 4000 : high + 4001] += 1
    step = histogram.step()
    step.check()
    assert step.starts.size == 10
    for begin, end, height in zip(
        step.starts[1:-1], step.starts[2:], step.values[1:], strict=False
    ):
        assert height == pytest.approx(counts[begin + 4000 : end + 4000].mean())
    assert counts.sum() == pytest.approx(
        counts[step.starts[1] + 4000 : step.starts[-1] + 4000].sum()
    )


def test_unlimited_ranges_leave_the_buckets_where_the_others_are():
    histogram = EqualWidth(10)
    histogram.add(*ends([(LEAST, MOST), (LEAST, MOST)]))
    assert histogram.estimate(np.array([LEAST, 0, MOST])).tolist() == [2, 2, 2]
    histogram.add(*ends([(0, 99), (LEAST, 49), (50, MOST), (50, MOST)]))
    keys = np.array([LEAST, -1, 0, 49, 50, 99, 100, MOST])
    assert histogram.estimate(keys).tolist() == [3, 3, 4, 4, 5, 5, 4, 4]
    histogram.add(*ends([(1000, 1009)]))
    grown = histogram.estimate(np.array([LEAST, 900, MOST]))
    assert grown.tolist() == [3, 4, 4]
    histogram.check()


def test_two_buckets_reach_as_far_as_they_must_and_one_is_refused():
    """One became infinitely wide when a range came left of it, and wrote outside of its arrays."""
    histogram = EqualWidth(2)
    for low in (0, -100, -(10**15), 10**15):
        histogram.add(*ends([(low, low + 9)]))
        histogram.check()
    with pytest.raises(AssertionError, match="a histogram of 1 buckets"):
        EqualWidth(1)


def test_ranges_at_the_ends_of_the_number_line_are_counted_there():
    histogram = EqualWidth(10)
    histogram.add(*ends([(LEAST, LEAST), (MOST, MOST), (MOST - 1, MOST)]))
    assert histogram.estimate(np.array([LEAST, 0, MOST])).tolist() == [1, 0, 2]
    histogram.add(*ends([(-8 * 10**18, 8 * 10**18)]))
    assert histogram.estimate(np.array([0, 7 * 10**18])) == pytest.approx([1, 1])
    histogram.check()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("far", [(np.inf, np.inf), (1.7e308, np.inf), (1e300, 1.7e308), MOST])
def test_ranges_that_are_far_altogether_are_nowhere_in_buckets_that_grow(far, sign):
    # They counted as reaching over what the buckets grew into, and stayed there when they left.
    keys, far = (np.array, (far, far)) if far == MOST else (lambda v: floats(*v), far)
    histogram = EqualWidth(10, is_float=keys is not np.array)
    low, high = (keys([value] * 1000) for value in sorted(sign * end for end in far))
    for value in (1, 10, 100):
        histogram.add(keys([-value]), keys([value]))
        histogram.add(low, high)
        assert all(histogram.estimate(keys([sign * value, sign * 500])) <= [3, 0])
        assert histogram.estimate(high[:1]) == histogram.n_ranges // 1000 * 1000
    histogram.remove(np.tile(low, 3), np.tile(high, 3))
    assert all(histogram.estimate(keys([sign * 99, *(sign * end for end in far)])) <= [1, 0, 0])
    histogram.check()


def test_neighbouring_keys_far_from_zero_have_buckets_of_their_own():
    histogram, base = EqualWidth(4), 4 * 10**18 + 1
    histogram.add(*ends([(base, base + 3), (base + 2, base + 2)]))
    assert histogram.estimate(base + np.arange(4)).tolist() == [1, 1, 2, 1]


def test_buckets_of_floats_are_equally_wide_in_values_not_in_keys():
    histogram = EqualWidth(100, is_float=True)
    histogram.add(floats(0.0, 2500.0), floats(10_000.0, 7500.0))
    assert histogram.estimate(floats(1.0, 2450.0, 2550.0, 7450.0, 9999.0)).tolist() == [
        1,
        1,
        2,
        2,
        1,
    ]
    infinite = floats(-np.inf, np.inf)
    assert histogram.estimate(infinite).tolist() == [0, 0]
    histogram.add(infinite[:1], infinite[1:])
    assert histogram.estimate(np.append(infinite, floats(1.0))).tolist() == [1, 1, 2]
    assert histogram.step().estimate(floats(1.0, 2550.0)).tolist() == [2, 3]


@pytest.mark.parametrize("value", [0.0, 5e-324, -1e-310, 1e15, -1e290])
def test_a_single_float_makes_buckets_that_can_be_counted_in(value):
    histogram = EqualWidth(is_float=True)
    histogram.add(floats(value), floats(value))
    histogram.add(floats(-1e280, 0.0), floats(1e280, 1.0))
    histogram.check()
    assert np.isfinite(histogram.estimate(floats(value, 0.5))).all()
