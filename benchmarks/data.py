"""The data of the figures: workloads of the paper as whole numbers, all seeded.

The paper's attributes are integers between 0 and 10,000; ours have SCALE steps to each of them, so
that thousands of groups fit.
"""

from __future__ import annotations

import numpy as np

from benchmarks.band_case import BandCase
from benchmarks.peers import Int64s
from standfast import workloads
from standfast.workloads import Ranges, whole

SCALE = 1000
N_CHECKED = 16


def rows_and_events(n_rows: int, n_events: int, seed: int) -> tuple[Int64s, Int64s]:
    """Stored rows and events of Table I.

    What an event costs depends on where it lies, and a slow way is measured on the first N_CHECKED
    events only; so there is one of them in each of as many equal parts of the domain.
    """
    rng = np.random.default_rng(seed)
    events = workloads.table_one_events(n_events, seed + 1)
    parts = rng.permutation(N_CHECKED) + rng.uniform(0, 1, N_CHECKED)
    events[:N_CHECKED] = parts * workloads.DOMAIN / N_CHECKED
    return whole(workloads.table_one_rows(n_rows, seed), SCALE), whole(events, SCALE)


def band_case(bands: Ranges, n_rows: int, n_events: int, seed: int) -> BandCase:
    """These bands over rows and events of Table I."""
    bands = bands.whole(SCALE)
    stored, events = rows_and_events(n_rows, n_events, seed)
    return BandCase(bands.lows, bands.highs, stored, events, N_CHECKED)
