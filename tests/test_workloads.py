"""The workloads are what they say, and the same for the same seed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from standfast import workloads
from standfast.workloads import DOMAIN, Ranges

SEED = 20240808


def _stabbing_number_by_hand(ranges):
    """Pick the smallest high, drop all it stabs, repeat."""
    left = sorted(zip(ranges.highs.tolist(), ranges.lows.tolist(), strict=True))
    n = 0
    while left:
        point = left[0][0]
        left = [(high, low) for high, low in left if low > point]
        n += 1
    return n


GENERATORS = {
    "table_one_bands": lambda seed: workloads.table_one_bands(500, 300, 60, seed),
    "bands_in_groups": lambda seed: workloads.bands_in_groups(500, 20, seed),
    "clustered_bands": lambda seed: workloads.clustered_bands(500, 20, seed, beta=1.0),
    "hotspot_bands": lambda seed: workloads.hotspot_bands(500, 0.7, 5, seed),
    "drifting_bands": lambda seed: next(workloads.drifting_bands(3, 500, 5, seed)),
    "filters": lambda seed: workloads.filters(500, 10, seed),
    "selections": lambda seed: workloads.selections(500, 0.1, seed),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_ranges_are_never_empty_and_repeat_with_their_seed(name):
    first, again, other = (GENERATORS[name](seed) for seed in (SEED, SEED, SEED + 1))
    assert len(first) == 500
    assert np.all(first.lows <= first.highs)
    assert np.array_equal(first.lows, again.lows)
    assert np.array_equal(first.highs, again.highs)
    assert not np.array_equal(first.lows, other.lows)


@pytest.mark.parametrize("name", GENERATORS)
def test_whole_ranges_are_int64_and_never_empty(name):
    ranges = GENERATORS[name](SEED).whole(1000)
    assert ranges.lows.dtype == ranges.highs.dtype == np.int64
    assert np.all(ranges.lows <= ranges.highs)


@pytest.mark.parametrize("name", GENERATORS)
def test_the_stabbing_number_is_that_of_the_greedy_partition(name):
    for ranges in (GENERATORS[name](SEED), GENERATORS[name](SEED).whole()):
        assert workloads.stabbing_number(ranges) == _stabbing_number_by_hand(ranges)


def test_no_ranges_need_no_point():
    assert workloads.stabbing_number(Ranges(np.empty(0), np.empty(0))) == 0


def test_table_one_has_the_papers_distributions():
    rows = workloads.table_one_rows(50_000, SEED)
    events = workloads.table_one_events(50_000, SEED)
    bands = workloads.table_one_bands(50_000, 400, 50, SEED)
    lengths, middles = bands.highs - bands.lows, (bands.highs + bands.lows) / 2
    assert rows.min() >= 0
    assert rows.max() <= DOMAIN
    assert rows.mean() == pytest.approx(5000, abs=20)
    assert rows.std() == pytest.approx(1000, abs=20)
    for uniform in (events, middles):
        assert uniform.mean() == pytest.approx(5000, abs=50)
        assert uniform.std() == pytest.approx(DOMAIN / 12**0.5, abs=50)
    assert lengths.mean() == pytest.approx(400, abs=2)
    assert lengths.std() == pytest.approx(50, abs=2)


@pytest.mark.parametrize("n_groups", [1, 10, 70, 1000])
def test_bands_in_groups_have_about_the_wanted_number_of_groups(n_groups):
    ranges = workloads.bands_in_groups(20_000, n_groups, SEED)
    assert workloads.stabbing_number(ranges) == pytest.approx(n_groups, rel=0.05)


@pytest.mark.parametrize("scale", [None, 1000])
@pytest.mark.parametrize(("n", "n_groups"), [(7, 7), (1000, 1), (20_000, 5000)])
def test_clustered_bands_have_exactly_the_wanted_number_of_groups(n, n_groups, scale):
    ranges = workloads.clustered_bands(n, n_groups, SEED, beta=1.0)
    if scale:
        ranges = ranges.whole(scale)
    assert workloads.stabbing_number(ranges) == n_groups


def test_more_groups_than_bands_are_refused():
    with pytest.raises(ValueError, match="3 bands cannot form 4 groups"):
        workloads.clustered_bands(3, 4, SEED)


def test_zipf_groups_are_all_there_and_the_first_is_the_largest():
    groups = workloads.zipf_groups(100_000, 100, 1.0, np.random.default_rng(SEED))
    sizes = np.bincount(groups)
    assert sizes.size == 100
    assert sizes.min() >= 1
    assert sizes.argmax() == 0
    assert sizes[0] / sizes[9] == pytest.approx(10, rel=0.15)


def test_the_hot_fraction_lies_in_the_hotspots():
    ranges = workloads.hotspot_bands(10_000, 0.7, 5, SEED)
    hot = ranges.highs < DOMAIN / 2
    assert hot.mean() == pytest.approx(0.7)
    assert workloads.stabbing_number(ranges.take(hot)) == 5
    assert workloads.stabbing_number(ranges.take(~hot)) > 2000


def test_drifting_bands_come_from_elsewhere_in_the_end():
    steps = list(workloads.drifting_bands(8, 1000, 1, SEED))
    middles = [float(np.median(s.lows + s.highs)) / 2 for s in steps]
    assert middles[:4] == pytest.approx([5000, 6250, 7500, 8750], abs=20)
    assert len(steps) == 8


def test_an_event_hits_about_the_wanted_number_of_filters():
    ranges = workloads.filters(20_000, 10, SEED)
    events = workloads.table_one_events(500, SEED + 1)[:, None]
    hits = ((ranges.lows <= events) & (events <= ranges.highs)).sum(axis=1)
    assert hits.mean() == pytest.approx(10, abs=0.5)


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.3])
def test_an_event_is_selected_by_about_the_wanted_share_of_the_queries(rate):
    ranges = workloads.selections(10_000, rate, SEED)
    events = workloads.table_one_events(1000, SEED + 1)[:, None]
    share = ((ranges.lows <= events) & (events <= ranges.highs)).mean()
    assert share == pytest.approx(rate, rel=0.1)


def test_an_event_joins_on_average_with_the_wanted_number_of_rows():
    rows = workloads.join_keys(workloads.table_one_rows(50_000, SEED), 100)
    events = workloads.join_keys(workloads.table_one_events(5_000, SEED + 1), 100)
    sizes = np.bincount(rows, minlength=100)
    assert sizes[events].mean() == pytest.approx(500, rel=0.05)
    assert sizes[50] == pytest.approx(2_000, rel=0.1)  # the top of the normal distribution
    assert set(np.unique(events)) == set(range(100))


def test_join_keys_stay_below_their_number_at_the_end_of_the_domain():
    ends = np.array([0, DOMAIN / 2, DOMAIN])
    assert workloads.join_keys(ends, 4).tolist() == [0, 2, 3]


def test_trades_are_typed_and_complete():
    trades = workloads.trades()
    time = pa.timestamp("us", "UTC")
    assert trades.schema == pa.schema(
        {
            "arrival": time,
            "time": time,
            "market": pa.string(),
            "symbol": pa.string(),
            "trade_id": pa.int64(),
            "price": pa.float64(),
            "qty": pa.float64(),
            "buyer_is_maker": pa.bool_(),
        }
    )
    assert trades.num_rows == 78_638
    assert all(column.null_count == 0 for column in trades.columns)
    assert set(trades["market"].to_pylist()) == {"spot", "usdm", "cm"}
    first = trades.slice(0, 1).to_pylist()[0]
    assert (first["price"], first["qty"], first["buyer_is_maker"]) == (61837.63, 0.02, True)
    assert str(first["time"]) == "2024-08-08 23:54:15.342000+00:00"


def test_trades_stand_in_order_of_arrival_and_not_of_time():
    trades = workloads.trades()
    arrival, time = (trades[name].cast(pa.int64()).to_numpy() for name in ("arrival", "time"))
    assert np.all(np.diff(arrival) >= 0)
    late = time < np.maximum.accumulate(time)
    assert late.sum() == 19_643
    assert (time - arrival).min() > 1_000_000  # the recorder's clock is more than a second behind


def test_the_trades_are_the_file_that_its_readme_describes():
    data = Path(workloads.__file__).parent / "data"
    digest = hashlib.sha256((data / "binance-trades.csv.gz").read_bytes()).hexdigest()
    assert digest == "16ff4011245058f5cbf0da9e9a8bbd5da9db8a4b378d163d4544a2fb146e4169"
    assert "MIT" in (data / "README.md").read_text()
