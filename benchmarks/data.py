"""The data of the figures, all seeded: the paper's Table I and two ways to set the clustering.

Values are the paper's integers times SCALE, so that thousands of groups fit between 0 and 10,000.
"""

from __future__ import annotations

import numpy as np

from benchmarks.band_case import BandCase
from benchmarks.peers import Int64s

SCALE = 1000
DOMAIN = 10_000 * SCALE


def rows_and_events(n_rows: int, n_events: int, rng: np.random.Generator) -> tuple[Int64s, Int64s]:
    """S.B is Normal(5000, 1000) within [0, 10000], R.B is Uni(0, 10000)."""
    stored = np.clip(rng.normal(DOMAIN / 2, DOMAIN / 10, n_rows), 0, DOMAIN)
    return np.rint(stored).astype(np.int64), rng.integers(0, DOMAIN + 1, n_events)


def table_one_bands(
    n: int, length_mean: float, length_deviation: float, rng: np.random.Generator
) -> tuple[Int64s, Int64s]:
    """Bands with midpoint Uni(0, 10000) and normal length; the lengths set how many groups."""
    middles = rng.uniform(0, DOMAIN, n)
    lengths = np.maximum(rng.normal(length_mean, length_deviation, n), 0.0) * SCALE
    lows = np.rint(middles - lengths / 2).astype(np.int64)
    return lows, np.maximum(lows, np.rint(middles + lengths / 2).astype(np.int64))


def clustered_bands(
    n: int, n_groups: int, rng: np.random.Generator, weights: Int64s | None = None
) -> tuple[Int64s, Int64s, Int64s]:
    """Bands in exactly `n_groups` groups: each holds the middle of its cell and stays inside it.

    Returns lows, highs and the cell of each band; every cell has at least one when n allows it.
    """
    width = DOMAIN // n_groups
    cells = rng.choice(n_groups, n, p=None if weights is None else weights / weights.sum())
    cells[: min(n, n_groups)] = np.arange(min(n, n_groups))
    middles = cells * width + width // 2
    reach = max(1, width // 2 - 1)
    return middles - rng.integers(0, reach, n), middles + rng.integers(0, reach, n), cells


def table_one_case(
    n_queries: int, n_rows: int, n_events: int, length: tuple[float, float], seed: int
) -> BandCase:
    """A case of Table I."""
    rng = np.random.default_rng(seed)
    lows, highs = table_one_bands(n_queries, *length, rng)
    return BandCase(lows, highs, *rows_and_events(n_rows, n_events, rng), n_checked=4)


def clustered_case(
    n_queries: int, n_groups: int, n_rows: int, n_events: int, seed: int
) -> BandCase:
    """A case of Table I whose bands form a given number of groups."""
    rng = np.random.default_rng(seed)
    lows, highs, _ = clustered_bands(n_queries, n_groups, rng)
    return BandCase(lows, highs, *rows_and_events(n_rows, n_events, rng), n_checked=4)
