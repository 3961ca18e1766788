"""Workloads: the paper's Table I and its variations, and a replay of real trades.

Every generator is seeded and makes float64 values between 0 and `DOMAIN`; `whole` turns values or
ranges into the int64 variant. Ranges are closed.

    table_one_*      [hotspot] Table I: stored rows, events, bands with normal lengths
    bands_in_groups  Table I bands, as long as makes the wanted number of stabbing groups
    clustered_bands  an exact number of stabbing groups whose sizes follow Zipf's law
    hotspot_bands    a given fraction in a few hotspots, the rest scattered ([hotspot] 5.1)
    drifting_bands   hotspots that wander through the domain
    filters          one-dimensional ranges of which an event hits about k
    selections       Table I ranges on A, of which an event hits about a given share
    join_keys        values as join keys, as many as give the wanted number of joining rows
    trades           real trades of four symbols on three markets
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

DOMAIN = 10_000.0


@dataclass(frozen=True, slots=True)
class Ranges:
    """Closed ranges: `lows[i]` to `highs[i]`, never empty."""

    lows: npt.NDArray[Any]
    highs: npt.NDArray[Any]

    def __len__(self) -> int:
        return self.lows.size

    def take(self, chosen: npt.NDArray[Any] | slice) -> Ranges:
        """Some of the ranges."""
        return Ranges(self.lows[chosen], self.highs[chosen])

    def whole(self, scale: int = 1) -> Ranges:
        """The int64 variant."""
        return Ranges(whole(self.lows, scale), whole(self.highs, scale))


def whole(values: Floats, scale: int = 1) -> Integers:
    """The int64 variant of values: `scale` whole numbers to each unit of the domain."""
    return np.rint(values * scale).astype(np.int64)


def table_one_rows(n: int, seed: int) -> Floats:
    """S.B: Normal(5000, 1000) within the domain."""
    return np.clip(np.random.default_rng(seed).normal(DOMAIN / 2, DOMAIN / 10, n), 0, DOMAIN)


def table_one_events(n: int, seed: int) -> Floats:
    """R.B: Uni(0, 10000)."""
    return np.random.default_rng(seed).uniform(0, DOMAIN, n)


def table_one_bands(n: int, mean: float, deviation: float, seed: int) -> Ranges:
    """rangeB: midpoints Uni(0, 10000), lengths Normal(mean, deviation^2), none below zero."""
    rng = np.random.default_rng(seed)
    return _around(rng.uniform(0, DOMAIN, n), rng.normal(mean, deviation, n))


def bands_in_groups(n: int, n_groups: int, seed: int, *, spread: float = 0.2) -> Ranges:
    """Table I bands in about `n_groups` stabbing groups; lengths deviate by `spread` times mean.

    The shorter the bands, the more groups they need; the mean length is found by bisection.
    """
    rng = np.random.default_rng(seed)
    middles, shape = rng.uniform(0, DOMAIN, n), 1 + spread * rng.normal(0, 1, n)
    short, long = 1e-3 * DOMAIN / n_groups, 1e3 * DOMAIN / n_groups
    for _ in range(20):
        mean = np.sqrt(short * long)
        n_found = stabbing_number(_around(middles, mean * shape))
        if n_found == n_groups:
            break
        short, long = (mean, long) if n_found > n_groups else (short, mean)
    return _around(middles, mean * shape)


def clustered_bands(n: int, n_groups: int, seed: int, *, beta: float = 0.0) -> Ranges:
    """Bands in exactly `n_groups` groups; the k-th largest has about k^-beta times the first's.

    Each group has a cell of the domain to itself: its bands hold the cell's middle and stay inside.
    """
    if not 0 < n_groups <= n:
        raise ValueError(f"{n} bands cannot form {n_groups} groups")
    rng = np.random.default_rng(seed)
    cells = rng.permutation(n_groups)[zipf_groups(n, n_groups, beta, rng)]
    width = DOMAIN / n_groups
    middles = (cells + 0.5) * width
    reach = 0.49 * width
    return Ranges(middles - rng.uniform(0, reach, n), middles + rng.uniform(0, reach, n))


def zipf_groups(n: int, n_groups: int, beta: float, rng: np.random.Generator) -> Integers:
    """For each of n members its group, 0 the most popular; every group has at least one."""
    weights = np.arange(1, n_groups + 1) ** -beta
    drawn = rng.choice(n_groups, n - n_groups, p=weights / weights.sum())
    return rng.permutation(np.concatenate([np.arange(n_groups), drawn]))


def hotspot_bands(n: int, hot_fraction: float, n_hotspots: int, seed: int) -> Ranges:
    """`hot_fraction` of the bands around few centres, the others short and scattered elsewhere.

    Hotspots lie in the lower half of the domain and the scattered bands in the upper half, where
    they form small groups, as in the paper's experiment on coverage by hotspots.
    """
    rng = np.random.default_rng(seed)
    n_hot = round(n * hot_fraction)
    centres = (np.arange(n_hotspots) + 0.5) * DOMAIN / 2 / n_hotspots
    hot = _hot(centres[rng.integers(0, n_hotspots, n_hot)], DOMAIN / 8 / n_hotspots, rng)
    n_cold = n - n_hot
    cold = _around(
        rng.uniform(0.55 * DOMAIN, DOMAIN, n_cold),
        rng.normal(0.1, 0.02, n_cold) * DOMAIN / max(n_cold, 1),
    )
    order = rng.permutation(n)
    return Ranges(
        np.concatenate([hot.lows, cold.lows])[order], np.concatenate([hot.highs, cold.highs])[order]
    )


def drifting_bands(
    n_steps: int, n_per_step: int, n_hotspots: int, seed: int, *, laps: float = 1.0
) -> Iterator[Ranges]:
    """One set of new bands a step; their hotspots wander through the domain `laps` times."""
    rng = np.random.default_rng(seed)
    starts = (np.arange(n_hotspots) + 0.5) * DOMAIN / n_hotspots
    for step in range(n_steps):
        centres = (starts + laps * DOMAIN * step / n_steps) % DOMAIN
        yield _hot(centres[rng.integers(0, n_hotspots, n_per_step)], DOMAIN / 100, rng)


def filters(n: int, n_hits: float, seed: int) -> Ranges:
    """Ranges of which a uniform event hits about `n_hits`."""
    rng = np.random.default_rng(seed)
    mean = n_hits * DOMAIN / n
    return _around(rng.uniform(0, DOMAIN, n), rng.uniform(0, 2 * mean, n))


def selections(n: int, rate: float, seed: int) -> Ranges:
    """rangeA: midpoints Normal(5000, 1500^2); a uniform event hits about `rate` of the ranges."""
    rng = np.random.default_rng(seed)
    middles = rng.normal(DOMAIN / 2, 0.15 * DOMAIN, n)
    return _around(middles, rate * DOMAIN * rng.normal(1, 0.2, n))


def join_keys(values: Floats, n_keys: int) -> Integers:
    """Which of `n_keys` equal parts of the domain each value lies in: a discretised B.

    Uniform events join on average with the stored rows divided by `n_keys`.
    """
    return np.minimum(values * n_keys / DOMAIN, n_keys - 1).astype(np.int64)


def stabbing_number(ranges: Ranges) -> int:
    """Size of the smallest stabbing partition: how clustered a workload is.

    Greedy from the left: the smallest high among the ranges not yet stabbed is the next point.
    """
    order = np.argsort(ranges.lows, kind="stable")
    lows = ranges.lows[order]
    least_high = np.minimum.accumulate(ranges.highs[order][::-1])[::-1]
    n_points = at = 0
    while at < lows.size:
        at = int(np.searchsorted(lows, least_high[at], side="right"))
        n_points += 1
    return n_points


def trades() -> pa.Table:
    """Real trades in order of arrival: 78,638 of four symbols on the markets spot, usdm and cm.

    `arrival` is the recorder's clock, `time` the exchange's; arrivals are not in order of time.
    """
    packed = (files("standfast") / "data" / "binance-trades.csv.gz").read_bytes()
    raw = pa.csv.read_csv(
        BytesIO(gzip.decompress(packed)),
        convert_options=pa.csv.ConvertOptions(
            column_types={"price": pa.float64(), "qty": pa.float64(), "trade_id": pa.int64()}
        ),
    )
    microseconds = pa.timestamp("us", "UTC")
    return pa.table(
        {
            "arrival": pc.divide(raw["local_ts_ns"], 1_000).cast(microseconds),
            "time": pc.multiply(raw["trade_ts_ms"], 1_000).cast(microseconds),
            "market": raw["market"],
            "symbol": raw["symbol"],
            "trade_id": raw["trade_id"],
            "price": raw["price"],
            "qty": raw["qty"],
            "buyer_is_maker": raw["buyer_is_maker"].cast(pa.bool_()),
        }
    )


def _around(middles: Floats, lengths: Floats) -> Ranges:
    halves = np.maximum(lengths, 0) / 2
    return Ranges(middles - halves, middles + halves)


def _hot(centres: Floats, reach: float, rng: np.random.Generator) -> Ranges:
    """Bands that hold their centre and reach about `reach` to either side."""
    sides = np.abs(rng.normal(0, reach / 2, (2, centres.size)))
    return Ranges(centres - np.minimum(sides[0], reach), centres + np.minimum(sides[1], reach))
