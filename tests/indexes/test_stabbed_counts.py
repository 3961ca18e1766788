"""Counts of stabbed ranges, as the router asks for them: two histograms, the better one answers."""

import numpy as np
import pytest

from standfast.indexes import interval_histogram
from standfast.indexes.interval_histogram import StabbedCounts


def ends(ranges):
    lows, highs = np.array(ranges, np.int64).reshape(-1, 2).T
    return lows.copy(), highs.copy()


def test_stabbed_counts_use_the_finer_histogram_where_it_is_better():
    lows, highs = ends([(i, i + 5) for i in range(5000)] + [(10**12, 10**12 + 1)])
    counts = StabbedCounts(20)
    counts.add(lows, highs)
    assert counts.is_due
    events = np.arange(10, 4900)
    assert counts.estimate(events[:1])[0] < 1, "one far range spoils equally wide buckets"
    assert counts.rebuild(lows, highs, events)
    assert counts.is_fine
    assert not counts.is_due
    assert counts.estimate(events) == pytest.approx(np.full(events.size, 6), rel=0.2)
    counts.check()


def test_stabbed_counts_follow_changes_until_these_are_many():
    lows, highs = ends([(i, i + 5) for i in range(1000)] + [(10**12, 10**12 + 1)])
    counts = StabbedCounts(20)
    counts.add(lows, highs)
    counts.rebuild(lows, highs, np.arange(10, 990))
    counts.add(*ends([(0, 1000)] * 50))
    counts.remove(lows[:20], highs[:20])
    assert counts.is_fine
    assert counts.estimate(np.array([500]))[0] == pytest.approx(56, rel=0.1)
    counts.add(*ends([(0, 1000)] * 60))
    assert counts.is_due
    assert counts.is_fine, "it stays in use until somebody has the time for another one"
    assert counts.estimate(np.array([500]))[0] == pytest.approx(116, rel=0.1)
    assert counts.estimate(np.array([5000]))[0] < 5
    counts.remove(lows[20:], highs[20:])
    assert not counts.is_fine, "more ranges have changed than there are"
    counts.check()
    assert counts.n_ranges == 110


def test_stabbed_counts_keep_equally_wide_buckets_where_these_are_exact():
    lows, highs = ends([(10 * i, 10 * i + 9) for i in range(100) for _ in range(1 + i % 7)])
    counts = StabbedCounts(100)
    counts.add(lows, highs)
    assert not counts.rebuild(lows, highs, np.arange(10, 1000))
    assert not counts.is_fine
    assert not counts.is_due
    assert counts.estimate(np.array([35, 68])) == pytest.approx([4, 7])


def test_where_equally_wide_buckets_are_good_enough_nothing_is_chosen(monkeypatch):
    """Choosing took a quarter of a second each time that a tenth of uniform ranges had changed."""
    lows = np.random.default_rng(5).integers(0, 100_000, 10_000)
    counts = StabbedCounts()
    counts.add(lows, lows + 10_000)

    def never(*args, **options):
        raise AssertionError("equally wide buckets are within a few percent")

    monkeypatch.setattr(interval_histogram, "near_optimal", never)
    assert not counts.rebuild(lows, lows + 10_000, np.arange(0, 100_000, 50))
    assert not counts.is_due


def test_nothing_to_rebuild_from_leaves_equally_wide_buckets():
    counts = StabbedCounts()
    assert not counts.rebuild(*ends([]), np.arange(5))
    counts.add(*ends([(1, 5)]))
    assert not counts.rebuild(*ends([(1, 5)]), np.array([3]))
    assert counts.estimate(np.array([3])).tolist() == [1]
