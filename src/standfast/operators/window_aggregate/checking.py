"""What `check` of the ways asks: that one which took rows in bit by bit reads like a new one."""

from __future__ import annotations

import numpy as np

from standfast.operators.base import AggregateStrategy


def check_same(way: AggregateStrategy, fresh: AggregateStrategy) -> None:
    """Assert that both read every window of some rows alike: up to 8 rows, and all rows.

    Values may cancel, so what is alike is measured by the largest of them.
    """
    g, kept = way.lanes.geometry, np.abs(way.lanes.kept().values.astype(np.float64))
    most = float(kept[np.isfinite(kept)].max(initial=0.0))
    slack = 1e-15 * min(most, 1e150) ** (2 if way.aggregate.name.startswith("VAR") else 1)
    # Some slot that the ways know: quantiles have a share of their own.
    slot = int(way.living.argmax()) if way.living.size else 0
    for lane in range(way.lanes.n_lanes):
        head, tail = int(g.heads[lane]), int(g.tails[lane])
        for first in range(head, tail):
            lasts = np.unique(np.append(np.arange(first, min(first + 8, tail)), tail - 1))
            firsts, lanes = np.full(lasts.size, first), np.full(lasts.size, lane)
            one = way.answers(lanes * 0 + slot, lanes, firsts, lasts)
            other = fresh.answers(lanes * 0 + slot, lanes, firsts, lasts)
            assert np.array_equal(one.known, other.known), "a window lost its values"
            same = np.isclose(one.values, other.values, rtol=1e-9, atol=slack, equal_nan=True)
            assert np.all(same | ~one.known), "a window reads unlike its rows"
