"""Every peer of the window aggregates sums what the definition says."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.peers.rolling import (
    DuckdbWindows,
    NumpySlices,
    PandasRolling,
    PolarsRolling,
    RollingPeer,
)


@pytest.mark.parametrize("kind", [PandasRolling, PolarsRolling, DuckdbWindows, NumpySlices])
@pytest.mark.parametrize("n", [1, 7])
def test_a_rolling_peer_sums_what_the_definition_says(kind: type[RollingPeer], n: int) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        lows = rng.integers(0, 10, 120)
        highs = lows + rng.integers(0, 20, 120)
        values = rng.integers(-50, 50, int(highs.max()) + n).astype(np.float64)
        found = kind(lows, highs).sums(values, n)
        ages = np.arange(values.size)[::-1] - np.arange(n)[::-1, None]
        inside = (lows <= ages[..., None]) & (ages[..., None] <= highs)
        assert np.array_equal(found, np.einsum("r,arw->aw", values, inside)), f"seed {seed}"
