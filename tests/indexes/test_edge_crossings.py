"""Edge crossings: every window whose rows changed is named, and none that no row came near."""

from __future__ import annotations

import numpy as np
import pytest

from standfast.indexes.bound_order import BoundOrder
from standfast.indexes.edge_crossings import EdgeCrossings
from standfast.indexes.lane_changes import PutBy
from standfast.indexes.lane_kernels import FARTHEST
from standfast.indexes.lanes import Lanes

REACH = 80


def held(lanes: Lanes, codes: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> dict:
    """The rows of every window and key, by time and value."""
    rows, found = lanes.kept(), {}
    for code in codes.tolist():
        of = rows.codes == code
        ages, values = lanes.now - rows.times[of], rows.values[of]
        for slot, (low, high) in enumerate(zip(lows, highs, strict=True)):
            inside = (low <= ages) & (ages <= high)
            stamps = lanes.now - ages[inside]
            found[slot, code] = sorted(zip(stamps.tolist(), values[inside].tolist(), strict=True))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_windows_that_hold_other_rows_are_named(seed):
    rng = np.random.default_rng(seed)
    codes, edges, changed = np.arange(3), EdgeCrossings(), PutBy()
    lanes = Lanes("range", is_float=False, is_keyed=True, reach=REACH)
    lanes.append(codes, np.full(3, 1000), codes, np.ones(3, np.bool_))
    lows = rng.integers(0, REACH, 40)
    highs = np.minimum(lows + rng.integers(-1, 30, 40), REACH)
    for some in np.array_split(np.arange(40), 4):
        edges.add(some, lows[some], highs[some])
        edges.check()
    n_named = n_all = 0
    before, then, heads = held(lanes, codes, lows, highs), lanes.now, lanes.geometry.heads.copy()
    for step in range(40):
        n, now = (
            int(rng.integers(0, 4)),
            lanes.now + int(rng.choice([0, 1, 3, 100], p=[0.3, 0.4, 0.25, 0.05])),
        )
        times = now - np.where(rng.random(n) < 0.3, rng.integers(0, REACH, n), 0)
        lanes.advance(now)
        generation = lanes.generation
        changed.add(
            lanes.append(rng.integers(0, 3, n), times, np.full(n, 10 + step), np.ones(n, np.bool_)),
            lanes.n_lanes,
        )  # fmt: skip
        after, since = held(lanes, codes, lows, highs), changed.firsts(3)
        if generation == lanes.generation and (since > heads).all():
            shrank = lanes.geometry.heads > heads
            slots, named = edges.crossed(lanes, np.arange(3), then, since, shrank)
            pairs = list(zip(slots.tolist(), lanes.codes[named].tolist(), strict=True))
            assert len(set(pairs)) == len(pairs)
            wrong = [pair for pair in after if after[pair] != before[pair] and pair not in pairs]
            assert not wrong, (step, wrong)
            n_named, n_all = n_named + len(pairs), n_all + len(after)
        changed.take()
        before, then, heads = after, lanes.now, lanes.geometry.heads.copy()
    assert 0 < n_named < 0.6 * n_all
    assert edges.memory_bytes() > 0


def test_a_window_without_end_has_edges_too():
    lanes, edges = Lanes("range", is_float=False), EdgeCrossings()
    edges.add(np.array([0, 1]), np.array([0, 5]), np.array([2**62, 7]))
    lanes.append(np.zeros(1, np.int64), np.array([100]), np.array([1]), np.ones(1, np.bool_))
    none = np.zeros(1, np.bool_)
    for then, now, expected in ((100, 104, []), (104, 105, [1]), (105, 107, []), (107, 108, [1])):
        lanes.advance(now)
        slots, _ = edges.crossed(lanes, np.arange(1), then, np.array([FARTHEST]), none)
        assert slots.tolist() == expected
    slots, _ = edges.crossed(lanes, np.arange(1), 108, np.array([0]), none)
    assert sorted(slots.tolist()) == [0, 1]


@pytest.mark.parametrize("seed", range(4))
def test_bounds_that_may_hold_a_number_are_found(seed):
    rng = np.random.default_rng(seed)
    order, n = BoundOrder(), 200
    lows = rng.integers(-100, 100, n)
    highs = lows + rng.integers(0, 50, n)
    lows[rng.random(n) < 0.2], highs[rng.random(n) < 0.2] = -(2**63), 2**63 - 1
    for some in np.array_split(np.arange(n), 5):
        order.add(some, lows[some], highs[some])
        order.check()
    leasts = rng.integers(-150, 150, 10)
    mosts = leasts + rng.integers(0, 20, 10)
    slots, which = order.reached(leasts, mosts)
    found = set(zip(slots.tolist(), which.tolist(), strict=True))
    assert len(found) == slots.size < 10 * n
    for i in range(10):
        meets = (lows <= mosts[i]) & (highs >= leasts[i])
        assert {(slot, i) for slot in np.flatnonzero(meets).tolist()} <= found
    assert order.memory_bytes() > 0
