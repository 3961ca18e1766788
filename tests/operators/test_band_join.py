"""Band joins by hand: small stores, few bands, every way; and what a probe of a group costs.

That all ways agree on generated histories is a law of tests/contract; here are the cases.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import _numba
from standfast.arrays import Hits, Together
from standfast.group_spans import GroupSpans
from standfast.indexes.keys import FAR, LEAST
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.numbers import INF_KEY, float_keys, floats_of
from standfast.operators.band_join import groups as groups_module
from standfast.operators.band_join import marks
from standfast.operators.band_join.groups import ByGroups, posted, probe_groups
from standfast.operators.band_join.hotspot import Hotspot
from standfast.operators.base import BandStrategy
from standfast.operators.catalog import BAND_JOINS

WAYS = sorted(BAND_JOINS)
DIRECTIONS = pytest.mark.parametrize("minuend", [False, True])
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


def store_of(*batches, ratio: int = 8, gone: tuple[int, ...] = ()) -> SortedRuns:
    """Stored keys, a run per batch as far as the ratio lets them be, without the keys `gone`."""
    runs, keys = SortedRuns(ratio), np.concatenate([np.array(b, np.int64) for b in batches])
    first = 0
    for batch in batches:
        runs.insert(np.array(batch, np.int64), np.arange(first, first + len(batch)))
        first += len(batch)
    ids = np.flatnonzero(np.isin(keys, gone))
    runs.delete(keys[ids], ids)
    return runs


def holding(way: str, bands, *, is_float: bool = False) -> BandStrategy:
    """An instance of a way with these bands as slots 0, 1, 2 ..."""
    strategy = BAND_JOINS[way](is_float=is_float)
    bounds = np.array(bands, np.int64).reshape(-1, 2).T
    strategy.add(np.arange(len(bands)), bounds[:1], bounds[1:])
    strategy.check()
    return strategy


def hit_by(hits: Hits, n_slots: int = 1000) -> list[list[int]]:
    counts = hits.counts()
    out = np.empty(int(counts.sum()), np.int64)
    hits.fill(np.cumsum(counts) - counts, np.arange(n_slots), out)
    rows = np.split(out, np.cumsum(counts)[:-1]) if counts.size else []
    return [sorted(row.tolist()) for row in rows]


def expected(bands, events, rows, *, minuend: bool) -> list[list[int]]:
    """Straight from the definition, in Python's integers."""
    gaps = [[e - s if minuend else s - e for s in rows] for e in events]
    return [
        [i for i, (low, high) in enumerate(bands) if any(low <= gap <= high for gap in event)]
        for event in gaps
    ]


class Case(NamedTuple):
    """Bands, the stored keys as batches, which of them are gone, and the events."""

    bands: list[tuple[int, int]]
    stored: list[list[int]]
    gone: tuple[int, ...]
    events: list[int]


ONE_GROUP = [(-5, 5), (-1, 9), (0, 0), (-9, 2), (-3, 1)]
APART = [(10 * i, 10 * i + 3) for i in range(-6, 6)]
CASES = {
    "all bands in one group": Case(ONE_GROUP, [[0, 4, 40]], (), [-9, -1, 0, 2, 4, 7, 30]),
    "every band a group of its own": Case(APART, [[0, 25, 31]], (), [-30, -8, 0, 1, 22, 60]),
    "a row exactly at the point": Case([(-4, 0), (0, 4), (0, 0)], [[7]], (), [6, 7, 8]),
    "several runs": Case(ONE_GROUP, [[*range(0, 90, 9)], [4, 50], [31]], (), [1, 20, 33, 48]),
    "tombstones beside the point": Case(ONE_GROUP, [[*range(12)]], (3, 4, 5, 6), [0, 4, 5, 13]),
    "tombstones at both ends": Case(ONE_GROUP, [[*range(12)]], (0, 1, 10, 11), [-6, 0, 11, 18]),
    "a run nearly gone": Case(ONE_GROUP, [[*range(40)], [7, 8, 9]], (7, 8), [-3, 5, 8, 50]),
    "equal rows": Case(ONE_GROUP, [[3, 3, 3], [3]], (), [-7, 0, 3, 9]),
    "equal events": Case(APART, [[0, 25]], (), [2, 2, 2, 22, 22]),
    "equal bands": Case([(1, 4)] * 5, [[0, 9]], (), [-5, -4, -1, 0, 8]),
    "no rows": Case(ONE_GROUP, [[]], (), [-1, 0, 1]),
    "no events": Case(ONE_GROUP, [[1, 2]], (), []),
    "unlimited bands": Case(
        [(-FAR, FAR), (-FAR, 0), (0, FAR), (-FAR, -FAR), (FAR, FAR)], [[LEAST, -1, 0, FAR]], (),
        [LEAST, LEAST + 1, -1, 0, 1, FAR - 1, FAR],
    ),
    "bands at the ends of the line": Case(
        [(FAR - 1, FAR), (FAR - 3, FAR - 1), (1 - FAR, 3 - FAR), (-FAR, 1 - FAR)],
        [[LEAST, LEAST + 2, FAR - 2, FAR]], (), [LEAST, -2, 0, 1, FAR],
    ),
}  # fmt: skip


def unlimited_ends(bands) -> list[tuple[int, int]]:
    """Ends at +-FAR are unlimited, because differences beyond +-FAR saturate there."""
    far = 1 << 80
    return [(-far if low == -FAR else low, far if high == FAR else high) for low, high in bands]


@EVERY_WAY
@DIRECTIONS
@pytest.mark.parametrize("name", CASES)
def test_a_case_is_answered_as_defined(way, minuend, name):
    bands, stored, gone, events = CASES[name]
    store = store_of(*stored, gone=gone)
    rows = [key for batch in stored for key in batch if key not in gone]
    hits = holding(way, bands).process(np.array(events, np.int64), store, minuend=minuend)
    assert hit_by(hits) == expected(unlimited_ends(bands), events, rows, minuend=minuend)
    store.check()


@EVERY_WAY
def test_the_cases_have_several_runs_and_living_and_dead_neighbours(way):
    several = store_of(*CASES["several runs"].stored)
    assert len(several.runs) == 2
    dead = store_of(*CASES["tombstones beside the point"].stored, gone=(3, 4, 5, 6))
    assert not dead.runs[0].alive.all()
    hits = holding(way, []).process(np.arange(3), several, minuend=False)
    assert hit_by(hits) == [[], [], []]


@EVERY_WAY
@DIRECTIONS
def test_bands_that_were_removed_are_not_hit(way, minuend):
    strategy = holding(way, ONE_GROUP)
    strategy.remove(np.array([0, 3]))
    strategy.check()
    left = [band for i, band in enumerate(ONE_GROUP) if i not in (0, 3)]
    events, rows = [-9, 0, 6], [0, 4]
    names = [i for i in range(len(ONE_GROUP)) if i not in (0, 3)]
    hits = strategy.process(np.array(events), store_of(rows), minuend=minuend)
    found = expected(left, events, rows, minuend=minuend)
    assert hit_by(hits) == [[names[i] for i in row] for row in found]


NUMBERS = [-math.inf, -1.0, 0.0, 2.5, math.inf]
FLOAT_BANDS = [
    (-math.inf, math.inf), (0.0, math.inf), (-math.inf, 0.0), (math.inf, math.inf),
    (-math.inf, -math.inf), (-1.0, 3.5), (2.5, 2.5),
]  # fmt: skip


def float_band_keys(bands) -> list[tuple[int, int]]:
    return [tuple(float_keys(np.array(band)).tolist()) for band in bands]


@EVERY_WAY
@DIRECTIONS
@pytest.mark.parametrize("which", [*range(len(FLOAT_BANDS)), "all"])
def test_infinite_rows_and_events_follow_ieee_and_inf_minus_inf_matches_nothing(
    way, minuend, which
):
    # Groups once walked past a stored inf for a finite event and met it again below its point.
    bands = FLOAT_BANDS if which == "all" else [FLOAT_BANDS[which]]
    strategy = holding(way, float_band_keys(bands), is_float=True)
    for rows in ([math.inf], [-math.inf], [-math.inf, math.inf], NUMBERS):
        store = store_of(float_keys(np.array(rows)))
        hits = strategy.process(float_keys(np.array(NUMBERS)), store, minuend=minuend)
        assert hit_by(hits) == expected(bands, NUMBERS, rows, minuend=minuend), rows


@EVERY_WAY
def test_a_difference_of_floats_is_rounded_once_and_then_compared(way):
    # 0.3 - 0.1 is 0.19999999999999998 in float64, so a band that begins at 0.2 misses it.
    bands = [(0.2, 1.0), (0.19999999999999998, 1.0)]
    strategy = holding(way, float_band_keys(bands), is_float=True)
    hits = strategy.process(float_keys(np.array([0.1])), store_of(float_keys(np.array([0.3]))),
                            minuend=False)  # fmt: skip
    assert hit_by(hits) == [[1]]


KEYS = st.integers(-12, 12) | st.sampled_from([LEAST, LEAST + 1, FAR - 1, FAR])
BANDS = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)).map(sorted), max_size=12)


@given(
    bands=BANDS, stored=st.lists(st.lists(KEYS, max_size=9), min_size=1, max_size=4),
    gone=st.sets(st.integers(-12, 12), max_size=8), events=st.lists(KEYS, max_size=6),
    minuend=st.booleans(),
)  # fmt: skip
def test_groups_answer_any_small_case_as_defined(bands, stored, gone, events, minuend):
    events = sorted(events)
    store = store_of(*stored, ratio=1, gone=tuple(gone))
    rows = [key for batch in stored for key in batch if key not in gone]
    hits = holding("groups", bands).process(np.array(events, np.int64), store, minuend=minuend)
    assert hit_by(hits) == expected(bands, events, rows, minuend=minuend)


@given(
    bands=st.lists(st.tuples(*[st.sampled_from(NUMBERS)] * 2).map(sorted), max_size=6),
    rows=st.lists(st.sampled_from(NUMBERS), max_size=4), minuend=st.booleans(),
)  # fmt: skip
def test_groups_answer_any_infinite_case_as_defined(bands, rows, minuend):
    store = store_of(float_keys(np.array(rows, np.float64)), ratio=1)
    strategy = holding("groups", float_band_keys(bands), is_float=True)
    hits = strategy.process(float_keys(np.array(NUMBERS)), store, minuend=minuend)
    assert hit_by(hits) == expected(bands, NUMBERS, rows, minuend=minuend)


def test_keys_of_infinity_stand_for_infinity():
    assert floats_of(np.array([INF_KEY, -INF_KEY])).tolist() == [math.inf, -math.inf]


def test_the_answer_of_groups_is_two_prefix_lengths():
    """The picture of the module: rows s1 = -1 and s2 = 2 around the point 0 of the event 0."""
    bands = [(-3, 1), (-4, 4), (-1, 0), (0, 1)]
    hits = holding("groups", bands).process(np.array([0]), store_of([-1, 2]), minuend=False)
    assert isinstance(hits, GroupSpans)
    assert hits.groups.n_groups == 1
    assert hits.groups.lows.tolist() == [-4, -3, -1, 0]
    assert hits.groups.highs.tolist() == [0, 1, 1, 4]
    assert hits.low_counts.tolist() == [[3]]  # -4, -3 and -1 are at most s1 - b = -1
    assert hits.high_counts.tolist() == [[1]]  # 4 is at least s2 - b = 2
    assert hit_by(hits) == [[0, 1, 2]]


def test_hotspots_and_the_scattered_rest_answer_together():
    strategy = Hotspot(is_float=False, alpha=0.4)
    bands = np.array([(-5, 5), (-4, 1), (-2, 9), (90, 91), (40, 50)]).T
    strategy.add(np.arange(5), bands[:1], bands[1:])
    assert (strategy.tracker.n_hot, strategy.tracker.n_scattered) == (1, 2)
    hits = strategy.process(np.array([0, 50]), store_of([0, 45, 141]), minuend=False)
    assert isinstance(hits, Together)
    assert hit_by(hits) == [[0, 1, 2, 4], [0, 3]]
    assert strategy.describe()["hotspots"] == 1


def test_many_small_runs_are_merged_before_a_batch_worth_it():
    store = store_of(range(64), range(100, 108), [7])
    assert len(store.runs) == 3
    strategy = holding("groups", ONE_GROUP)
    strategy.process(np.array([5]), store, minuend=False)
    assert len(store.runs) == 3
    strategy.process(np.arange(20), store, minuend=False)
    assert len(store.runs) == 1


@DIRECTIONS
@pytest.mark.parametrize("at_once", [1, 7, 40])
def test_an_answer_with_too_many_cells_is_probed_in_turns_when_asked(monkeypatch, minuend, at_once):
    strategy, store = holding("groups", APART), store_of(range(0, 60, 3), [7, 8], gone=(9, 12))
    events = np.arange(-70, 70, 5)
    at_once_hits = hit_by(strategy.process(events, store, minuend=minuend))
    monkeypatch.setattr(groups_module, "CELLS_AT_ONCE", at_once)
    hits = strategy.process(events, store, minuend=minuend)
    assert isinstance(hits, groups_module.Deferred)
    before = hits.spans()
    # Rows that come and go afterwards do not reach the answer.
    store.delete(np.array([7, 0, 3]), np.array([20, 0, 1]))
    store.insert(np.array([1, 50]), np.array([100, 101]))
    assert hit_by(hits) == at_once_hits
    assert hits.n_events == events.size
    after = hits.spans()
    assert all(np.array_equal(a, b) for a, b in zip(before[:4], after[:4], strict=True))
    assert np.array_equal(before.order, after.order)
    assert np.array_equal(before.ranks, after.ranks)
    spans = [
        (int(e), int(slot))
        for e, start, stop, floor in zip(*before[:4], strict=True)
        for slot, rank in zip(before.order[start:stop], before.ranks[start:stop], strict=True)
        if rank >= floor
    ]
    pairs = [(e, slot) for e, row in enumerate(at_once_hits) for slot in row]
    assert sorted(spans) == pairs


@DIRECTIONS
def test_groups_are_probed_the_same_on_several_threads_also_over_tombstones(monkeypatch, minuend):
    monkeypatch.setattr(_numba, "THREADS", 3)
    monkeypatch.setattr(
        groups_module, "in_parts", lambda work, n, cost: _numba.in_parts(work, n, cost=10_000_000)
    )
    gone, events = tuple(range(100, 180)), list(range(-90, 300, 3))
    store = store_of(range(200), gone=gone)
    hits = holding("groups", APART).process(np.array(events), store, minuend=minuend)
    rows = [row for row in range(200) if row not in gone]
    assert hit_by(hits) == expected(APART, events, rows, minuend=minuend)
    store.check()


def test_a_table_of_marks_is_cut_into_rounds(monkeypatch):
    monkeypatch.setattr(marks, "MARKS_AT_ONCE", 7)
    for way in ("per_query", "merge"):
        events, rows = list(range(-20, 20)), [0, 4]
        hits = holding(way, ONE_GROUP).process(np.array(events), store_of(rows), minuend=False)
        assert hit_by(hits) == expected(ONE_GROUP, events, rows, minuend=False)


def crowd(n_queries: int) -> ByGroups:
    """Bands of many lengths in three groups, whatever their number."""
    half = np.random.default_rng(6).integers(1, 1000, n_queries)
    centers = np.resize(np.array([-9000, 0, 9000]), n_queries)
    strategy = ByGroups(is_float=False)
    strategy.add(np.arange(n_queries), (centers - half)[None], (centers + half)[None])
    assert strategy.partition.n_groups == 3
    return strategy


def searches_of_a_batch(monkeypatch, n_queries: int) -> int:
    """How often the rows are searched for 20 events; the kernel runs as plain Python."""
    searches = 0
    original = groups_module.first_beyond

    def counting(*arguments):
        nonlocal searches
        searches += 1
        return original(*arguments)

    with monkeypatch.context() as patch:
        run_plainly(patch, counting)
        groups = crowd(n_queries).partition.groups()
        store = store_of(range(-12000, 12000, 7))
        hits = probe_groups(
            posted(groups, None), np.arange(20), store, is_float=False, minuend=False
        )
    assert hits.low_counts.shape == hits.high_counts.shape == (3, 20)
    return searches


def run_plainly(patch, first_beyond) -> None:
    """Run the module's own kernels as plain Python, with this search in the rows."""
    for name, value in list(vars(groups_module).items()):
        if getattr(value, "__module__", "") == groups_module.__name__:
            patch.setattr(groups_module, name, getattr(value, "py_func", value))
    patch.setattr(groups_module, "first_beyond", first_beyond)


def test_the_rows_are_searched_once_per_event_and_group_however_many_queries_there_are(
    monkeypatch,
):
    assert searches_of_a_batch(monkeypatch, 30) == 3 * 20
    assert searches_of_a_batch(monkeypatch, 3000) == 3 * 20


def test_rows_out_of_reach_of_a_group_are_not_searched_at_all(monkeypatch):
    def refuse(*arguments):
        raise AssertionError(f"searched for {arguments[1:]}")

    run_plainly(monkeypatch, refuse)
    groups, store = crowd(30).partition.groups(), store_of(range(2000, 7000, 7))
    hits = probe_groups(
        posted(groups, None), np.arange(-500, 500, 50), store, is_float=False, minuend=False
    )
    assert hits.counts().sum() == 0
