"""The box index against a few-line oracle, with capacities small enough to force splits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.arrays import Hits
from standfast.indexes.box_index import BoxIndex
from standfast.indexes.box_tree import BoxTree

LEAST, FAR = np.iinfo(np.int64).min, np.iinfo(np.int64).max
ENDS = np.array([LEAST, LEAST + 1, -(2**62), -1, 0, 1, 2, 2**53, 2**53 + 1, FAR - 1, FAR])


def rows_of(hits: Hits, n_slots: int) -> list[list[int]]:
    """What each event hit, by way of counts and fill, sorted; spans must say the same."""
    counts = hits.counts()
    stops = np.cumsum(counts)
    out = np.full(counts.sum(), -1, np.int64)
    hits.fill(stops - counts, np.arange(n_slots), out)
    rows = [np.sort(row).tolist() for row in np.split(out, stops[:-1])] if counts.size else []
    spans = hits.spans()
    listed: list[list[int]] = [[] for _ in rows]
    for event, start, stop in zip(spans.events, spans.starts, spans.stops, strict=True):
        listed[event] += [s for s in spans.order[start:stop].tolist() if s >= 0]
    assert [sorted(row) for row in listed] == rows
    return rows


def expected(lows: np.ndarray, highs: np.ndarray, values: np.ndarray) -> list[list[int]]:
    return [
        np.flatnonzero(((lows <= event[:, None]) & (event[:, None] <= highs)).all(axis=0)).tolist()
        for event in values.T
    ]


def mixed_boxes(
    rng: np.random.Generator, n_attributes: int, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Points, narrow and wide ranges, unlimited ones, and ends at the ends of the number line."""
    low = rng.integers(0, 30, (n_attributes, n))
    high = low + rng.choice([0, 2, 25], low.shape)
    kind = rng.integers(0, 4, low.shape)
    low[kind == 0] = LEAST
    high[kind <= 1] = FAR
    ends = np.sort(rng.choice(ENDS, (2, *low.shape)), axis=0)
    return np.where(kind == 2, ends[0], low), np.where(kind == 2, ends[1], high)


def mixed_events(rng: np.random.Generator, n_attributes: int, n: int) -> np.ndarray:
    values = rng.integers(-2, 60, (n_attributes, n))
    return np.where(rng.random(values.shape) < 0.2, rng.choice(ENDS, values.shape), values)


@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    n_attributes=st.sampled_from([1, 2, 3, 16]),
    leaf=st.sampled_from([1, 2, 5]),
    long=st.sampled_from([2, 4, 64]),
    chunk=st.sampled_from([1, 7, 100]),
)
def test_any_history_is_answered_like_the_oracle(seed, n_attributes, leaf, long, chunk) -> None:
    rng = np.random.default_rng(seed)
    index = BoxIndex(leaf=leaf, long=long, ratio=1.5, small=4, chunk=chunk)
    lows, highs = mixed_boxes(rng, n_attributes, 120)
    alive, added = np.zeros(120, np.bool_), 0
    while added < 120:
        size = min(int(rng.integers(1, 40)), 120 - added)
        slots = np.arange(added, added + size)
        index.add(slots[::-1], lows[:, slots[::-1]], highs[:, slots[::-1]])
        alive[slots] = True
        added += size
        gone = np.flatnonzero(alive & (rng.random(120) < rng.choice([0, 0.3, 0.7])))
        index.remove(rng.permutation(gone))
        alive[gone] = False
        values = mixed_events(rng, n_attributes, int(rng.integers(0, 30)))
        rows = rows_of(index.stab(values), 120)
        kept = [[s for s in row if alive[s]] for row in expected(lows, highs, values)]
        assert rows == kept
        index.check()
        assert index.n_boxes == np.count_nonzero(alive)


def test_an_empty_index_hits_nothing() -> None:
    index = BoxIndex()
    assert index.stab(np.zeros((3, 2), np.int64)).counts().tolist() == [0, 0]
    index.add(np.array([0]), np.zeros((3, 1), np.int64), np.ones((3, 1), np.int64))
    assert index.stab(np.zeros((3, 0), np.int64)).n_events == 0
    index.remove(np.array([0]))
    assert index.stab(np.zeros((3, 2), np.int64)).counts().tolist() == [0, 0]


def test_many_equal_boxes_are_one_slice_or_nothing() -> None:
    low, high = np.full((2, 500), 5), np.full((2, 500), 9)
    tree = BoxTree(np.arange(500), low, high, leaf=2)
    tree.check()
    pairs = tree.probe(np.array([[5, 4, 9], [9, 7, 10]]))
    assert pairs.slots.size == 0
    assert pairs.long_events.tolist() == [0]
    assert tree.nodes.places[pairs.long_nodes].tolist() == [[0, 500]]


def test_a_published_answer_does_not_change_when_boxes_do() -> None:
    rng = np.random.default_rng(6)
    low = rng.integers(0, 50, (2, 1000))
    index, values = BoxIndex(), rng.integers(0, 100, (2, 20))
    index.add(np.arange(1000), low, np.full((2, 1000), FAR))
    hits = index.stab(values)
    assert hits.spans().starts.size > 20, "some of the answer must be slices of an order"
    before = rows_of(hits, 1000)
    for step in range(8):
        index.remove(np.arange(step * 100, step * 100 + 60))
        index.stab(values)
        assert rows_of(hits, 1000) == before


def test_boxes_closer_than_float64_can_tell_are_kept_apart_exactly() -> None:
    low = 2**62 + np.arange(100)[None, :]
    index = BoxIndex(leaf=2)
    index.add(np.arange(100), low, low)
    assert rows_of(index.stab(low[:, ::9]), 100) == [[s] for s in range(0, 100, 9)]
    index.check()


@pytest.mark.parametrize("n_wide", [1, 20])
def test_a_wide_box_spoils_one_branch_and_not_every_leaf(n_wide: int) -> None:
    rng = np.random.default_rng(4)
    low = rng.integers(0, 1 << 30, (2, 4000))
    high = low + (1 << 24)
    low[:, :n_wide], high[:, :n_wide] = LEAST, FAR
    tree = BoxTree(np.arange(4000), low, high, leaf=8)
    children, attributes, reaches = tree.nodes[:3]
    entered = 0
    for value in rng.integers(0, 1 << 30, (20, 2)):
        todo = [0]
        while todo:
            node = todo.pop()
            entered += 1
            if children[node] >= 0:
                x = value[attributes[node]]
                both = (children[node], children[node] + 1)
                todo += [child for child in both if reaches[child, 0] <= x <= reaches[child, 1]]
    assert entered / 20 < children.size / 10


def test_a_box_of_two_attributes_costs_at_most_60_bytes() -> None:
    rng = np.random.default_rng(5)
    low = rng.integers(0, 1 << 40, (2, 5_000))
    index = BoxIndex()
    index.add(np.arange(5_000), low, low + (1 << 30))
    index.stab(low[:, :1])
    assert index.memory_bytes() <= 60 * 5_000
