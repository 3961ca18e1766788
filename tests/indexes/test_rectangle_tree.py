"""Rectangle trees: their invariants on small and awkward rectangles, and how much they hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.indexes import rectangle_visits
from standfast.indexes.rectangle_index import RectangleIndex
from standfast.indexes.rectangle_layout import MOST_BLOCKS
from standfast.indexes.rectangle_reach import widened
from standfast.indexes.rectangle_tree import BLOCK, RectangleTree
from standfast.indexes.rectangle_visits import Limits, visited

LEAST, FAR = np.iinfo(np.int64).min, np.iinfo(np.int64).max
KEYS = st.one_of(
    st.integers(-6, 6), st.integers(LEAST, FAR), st.sampled_from([LEAST, LEAST + 1, FAR - 1, FAR])
)
RANGES = st.tuples(KEYS, KEYS).map(sorted)
RECTANGLES = st.lists(st.tuples(RANGES, RANGES), min_size=1, max_size=30)
SHAPES = st.fixed_dictionaries(
    {"block": st.sampled_from([1, 2, 3, 16]), "fanout_bits": st.sampled_from([1, 2, 3])}
)


def bounds_of(rectangles) -> tuple[np.ndarray, np.ndarray]:
    """Lows and highs by attribute of a list of (own range, other range)."""
    bounds = np.array(rectangles, np.int64).reshape(-1, 2, 2)
    return bounds[:, :, 0].T.copy(), bounds[:, :, 1].T.copy()


def crowd(n: int, n_groups: int, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Rectangles whose other ranges lie in so many groups; own ranges are a tenth of the line."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, 900_000, n)
    point = (rng.integers(0, n_groups, n) + 1) * 1_000_000
    reach = rng.integers(1, 400_000, (2, n))
    lows = np.array([own, point - reach[0]])
    return lows, np.array([own + rng.integers(50_000, 150_000, n), point + reach[1]])


@given(rectangles=RECTANGLES, shape=SHAPES, seed=st.integers(0, 100))
def test_a_tree_of_any_rectangles_keeps_its_invariant(rectangles, shape, seed) -> None:
    lows, highs = bounds_of(rectangles)
    slots = np.random.default_rng(seed).permutation(3 * len(rectangles))[: len(rectangles)]
    tree = RectangleTree(slots, lows, highs, **shape)
    tree.check()
    buried = np.flatnonzero(np.random.default_rng(seed).random(len(rectangles)) < 0.4)
    tree.bury(buried)
    tree.check()
    kept = np.delete(np.argsort(slots), buried)
    for found, expected in zip(
        tree.live(), (slots[kept], lows[:, kept], highs[:, kept]), strict=True
    ):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("shape", [{"block": 4, "fanout_bits": 1}, {"block": 8, "fanout_bits": 3}])
def test_a_larger_tree_keeps_its_invariant(shape) -> None:
    lows, highs = crowd(400, 3)
    tree = RectangleTree(np.arange(400), lows, highs, **shape)
    tree.check()
    assert tree.n_groups == 3
    assert tree.group_sizes().sum() == 400


@pytest.mark.parametrize("n_groups", [1, 3, 40])
def test_the_prefix_of_a_group_ends_at_the_first_member_that_is_missed(n_groups) -> None:
    tree = RectangleTree(np.arange(1000), *crowd(1000, n_groups)).rectangles
    rng, sizes = np.random.default_rng(n_groups), np.diff(tree.offsets)
    limits = np.sort(rng.integers(0, sizes[:, None] + 1, (2, n_groups, 60)), axis=0)
    limits[1, :, :30] = rng.integers(0, 3, (n_groups, 30))  # rows so dense that few are missed
    lows, highs = limits.astype(np.int32)
    wide = widened(tree, Limits(lows, highs))
    assert np.array_equal(wide.highs, highs)
    for g, c in np.ndindex(lows.shape):
        ranks = tree.low_to_high[tree.offsets[g] : tree.offsets[g + 1]]
        missed = np.flatnonzero((np.arange(ranks.size) >= lows[g, c]) & (ranks < highs[g, c]))
        assert wide.lows[g, c] == (missed[0] if missed.size else ranks.size)


def test_a_range_that_holds_everything_stands_at_the_root_alone() -> None:
    lows, highs = crowd(300, 1)
    lows[0, 7], highs[0, 7] = LEAST, FAR
    tree = RectangleTree(np.arange(300), lows, highs, block=4, fanout_bits=2).rectangles
    rank = int(np.flatnonzero(np.argsort(lows[1], kind="stable") == 7)[0])
    assert np.flatnonzero(tree.node_lows == rank).size == 1
    assert tree.node_lows[tree.node_offsets[-2] :].tolist() == [rank]
    assert rank not in tree.ragged_ranks[0]


def test_equal_ends_never_crowd_a_block() -> None:
    lows, highs = np.zeros((2, 500), np.int64), np.zeros((2, 500), np.int64)
    lows[0, ::3], highs[0, ::2] = -1, 2
    tree = RectangleTree(np.arange(500), lows, highs, block=4).rectangles
    assert tree.ragged_offsets[-1] == 0


def test_ends_inside_a_block_are_fewer_than_a_block_and_nodes_of_a_member_few() -> None:
    block, bits = 8, 2
    lows, highs = crowd(3000, 2)
    tree = RectangleTree(np.arange(3000), lows, highs, block=block, fanout_bits=bits).rectangles
    assert np.diff(tree.ragged_offsets).max() < block
    assert tree.ragged_offsets[-1] <= 2 * 3000
    n_levels = 1 + int(np.ceil(np.log(np.diff(tree.boundary_offsets).max()) / np.log(1 << bits)))
    for g in range(2):
        part = slice(*tree.node_offsets[tree.node_bases[[g, g + 1]]])
        assert np.bincount(tree.node_lows[part]).max() <= 2 * ((1 << bits) - 1) * n_levels


@pytest.mark.large
def test_a_large_group_has_larger_blocks_and_not_more_of_them() -> None:
    n_blocks = []
    for n in (20_000, 200_000):
        tree = RectangleTree(np.arange(n), *crowd(n, 1)).rectangles
        n_blocks.append(tree.boundaries.size)
        assert np.diff(tree.ragged_offsets).max() < max(BLOCK, 2 * n // MOST_BLOCKS)
    assert max(n_blocks) <= 2 * MOST_BLOCKS


@pytest.mark.parametrize(("gallop", "search"), [(0, 8), (16, 8), (1 << 30, 0), (1 << 30, 1 << 30)])
def test_visits_follow_blocks_or_callers_whichever_are_fewer(gallop, search, monkeypatch) -> None:
    monkeypatch.setattr(rectangle_visits, "GALLOP", gallop)  # by few callers, by many or by chance
    monkeypatch.setattr(rectangle_visits, "SEARCH", search)
    lows, highs = crowd(2000, 4)
    tree = RectangleTree(np.arange(2000), lows, highs, block=8).rectangles
    n_blocks = np.diff(tree.boundary_offsets)
    for n_callers in (1, 5, 100, 500, 100_000):
        values = np.sort(np.random.default_rng(n_callers).integers(-9, 1_100_000, n_callers))
        visits = visited(tree, values)
        for g in range(4):
            found = slice(visits.offsets[g], visits.stops[g])
            blocks, firsts = visits.blocks[found], visits.firsts[found]
            assert blocks.size <= min(n_blocks[g], n_callers)
            boundaries = tree.boundaries[tree.boundary_offsets[g] : tree.boundary_offsets[g + 1]]
            expected = np.searchsorted(boundaries, values, side="right") - 1
            below = np.count_nonzero(expected < 0)
            sizes = np.diff(np.append(firsts, n_callers))
            assert np.array_equal(np.repeat(blocks, sizes), expected[below:])


def test_changes_that_nobody_asks_for_do_not_pile_up() -> None:
    index = RectangleIndex(block=2, small=4)
    lows, highs = crowd(4000, 2)
    for first in range(0, 4000, 10):
        slots = np.arange(first, first + 10)
        index.add(slots, lows[:, slots], highs[:, slots])
        if first:
            index.remove(slots - 10)
        index.check()
    assert len(index) == 10
    assert index.memory_bytes() < 20_000


def test_a_bulk_load_is_one_tree_with_the_fewest_groups() -> None:
    index = RectangleIndex()
    index.add(np.arange(5000), *crowd(5000, 7))
    (tree,) = index.trees()
    assert tree.n_groups == 7
    assert index.group_sizes().sum() == 5000
