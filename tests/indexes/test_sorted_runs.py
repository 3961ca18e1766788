"""Sorted runs against a list of pairs, with a ratio so small that everything merges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from standfast.indexes.keys import FAR, INF_KEY, LEAST
from standfast.indexes.sorted_runs import (
    RATIO,
    Run,
    SortedRuns,
    first_above,
    first_beyond,
    living_above,
    living_below,
    slices,
)
from standfast.model.numbers import float_keys, floats_of

KEYS = st.one_of(st.integers(-6, 6), st.sampled_from([LEAST, LEAST + 1, FAR - 1, FAR]))
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.lists(KEYS, max_size=7)),
        st.tuples(st.just("delete"), st.integers(0, 1 << 30)),
        st.tuples(st.just("consolidate"), st.just(0)),
        st.tuples(st.just("publish"), st.just(0)),
    ),
    max_size=25,
)


def int64s(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def filled(keys, *, ratio: int = RATIO) -> SortedRuns:
    """One run per key batch, as far as the ratio lets them be."""
    runs, first = SortedRuns(ratio), 0
    for batch in keys:
        runs.insert(np.array(batch, np.int64), np.arange(first, first + len(batch)))
        first += len(batch)
    return runs


def entries(runs: tuple[Run, ...]) -> list[tuple[int, int]]:
    return sorted(
        pair
        for run in runs
        for pair in zip(run.keys[run.alive].tolist(), run.ids[run.alive].tolist(), strict=True)
    )


def below(runs: SortedRuns, key: int) -> int | None:
    """The largest living key at or below `key`, over all runs."""
    found = [
        int(run.keys[place])
        for run in runs.runs
        if (place := living_below(run, first_above(run.keys, key, 0, run.keys.size) - 1)) >= 0
    ]
    return max(found, default=None)


def above(runs: SortedRuns, key: int) -> int | None:
    """The smallest living key above `key`, over all runs."""
    found = [
        int(run.keys[place])
        for run in runs.runs
        if (place := living_above(run, first_above(run.keys, key, 0, run.keys.size)))
        < run.keys.size
    ]
    return min(found, default=None)


class History:
    """Sorted runs beside the list of pairs that they should hold."""

    def __init__(self, ratio: int) -> None:
        self.runs = SortedRuns(ratio)
        self.pairs: list[tuple[int, int]] = []
        self.published: list[tuple[tuple[Run, ...], list[tuple[int, int]]]] = []
        self.next_id = 0

    def apply(self, action: str, argument) -> None:
        if action == "insert":
            ids = range(self.next_id, self.next_id + len(argument))
            self.next_id += len(argument)
            ids = list(reversed(ids)) if len(argument) % 2 else list(ids)
            self.runs.insert(np.array(argument, np.int64), np.array(ids, np.int64))
            self.pairs += list(zip(argument, ids, strict=True))
        elif action == "delete" and self.pairs:
            gone = self.pairs[argument % len(self.pairs) :: 1 + argument % 4]
            self.runs.delete(int64s(*(k for k, _ in gone)), int64s(*(i for _, i in gone)))
            self.pairs = [pair for pair in self.pairs if pair not in gone]
        elif action == "consolidate":
            self.runs.consolidate()
        elif action == "publish":
            self.published.append((self.runs.published(), sorted(self.pairs)))

    def check(self) -> None:
        self.runs.check()
        keys = sorted(key for key, _ in self.pairs)
        assert len(self.runs) == len(keys)
        assert self.runs.keys().tolist() == keys
        assert entries(self.runs.runs) == sorted(self.pairs)
        for probe in (LEAST, -3, 0, 2, FAR - 1, FAR):
            assert below(self.runs, probe) == max((k for k in keys if k <= probe), default=None)
            assert above(self.runs, probe) == min((k for k in keys if k > probe), default=None)


@given(actions=ACTIONS, ratio=st.sampled_from([1, 2, 8]))
def test_any_history_holds_the_same_entries_as_a_list(actions, ratio):
    history = History(ratio)
    for action, argument in actions:
        history.apply(action, argument)
        history.check()


@given(actions=ACTIONS)
def test_what_was_published_never_changes(actions):
    history = History(2)
    history.apply("insert", [3, 1, 2])
    history.apply("publish", 0)
    for action, argument in actions:
        history.apply(action, argument)
        for runs, pairs in history.published:
            assert entries(runs) == pairs


def test_consolidated_runs_are_one_run_without_tombstones():
    runs = filled([range(0, 40, 2), (7, 9), (5,)], ratio=2)
    runs.delete(int64s(4, 9), int64s(2, 21))
    assert len(runs.runs) > 1
    runs.consolidate()
    (run,) = runs.runs
    assert run.alive.all()
    assert run.keys.tolist() == sorted([*range(0, 4, 2), *range(6, 40, 2), 5, 7])


def test_an_empty_set_has_no_runs():
    runs = SortedRuns()
    runs.insert(int64s(), int64s())
    runs.delete(int64s(), int64s())
    runs.consolidate()
    runs.check()
    assert (len(runs), runs.runs, runs.keys().size, runs.memory_bytes()) == (0, (), 0, 0)


def test_equal_keys_are_told_apart_by_their_ids():
    runs = filled([[5, 5, 5, 5]])
    runs.delete(int64s(5, 5), int64s(2, 0))
    assert entries(runs.runs) == [(5, 1), (5, 3)]


def test_deleting_everything_leaves_nothing_behind():
    runs = filled([[5, 6, 7], [1, 2]], ratio=1)
    runs.delete(int64s(5, 6, 7, 1, 2), np.arange(5))
    assert runs.runs == ()
    assert len(runs) == 0


def test_deleting_what_is_not_there_is_noticed():
    runs = filled([[5, 6]])
    with pytest.raises(AssertionError, match="1 of 2 entries to delete are unknown"):
        runs.delete(int64s(5, 6), int64s(0, 7))


def test_links_lead_over_any_number_of_tombstones():
    runs = filled([range(100)])
    gone = np.arange(30, 75)
    runs.delete(gone, gone)
    (run,) = runs.runs
    assert not run.alive[gone].any()
    # Twice, because the first walk shortens the links of the second.
    for _ in range(2):
        assert {living_below(run, int(place)) for place in gone} == {29}
        assert {living_above(run, int(place)) for place in gone} == {75}
        runs.check()


def test_links_lead_out_of_the_run_when_nothing_lives_on_that_side():
    runs = filled([range(10)])
    runs.delete(int64s(0, 1, 8, 9), int64s(0, 1, 8, 9))
    (run,) = runs.runs
    assert living_below(run, 1) == -1
    assert living_above(run, 8) == run.keys.size == 10
    assert living_below(run, -1) == -1
    assert living_above(run, 10) == 10


@given(st.lists(KEYS, max_size=12), KEYS, st.integers(0, 12))
def test_galloping_finds_the_first_key_above(keys, last, start):
    keys = np.sort(np.array(keys, np.int64))
    expected = int(np.searchsorted(keys, last, side="right"))
    assert first_above(keys, last, min(start, expected), keys.size) == expected


def exact_difference(key: int, event: int, *, is_float: bool) -> float | int | None:
    """key - event as a number; None where it is inf - inf."""
    if not is_float:
        return key - event
    one, other = floats_of(np.array([key, event], np.int64)).tolist()
    return None if math.isnan(one - other) else one - other


BANDS = st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(sorted)
NUMBERS = st.sampled_from([-math.inf, -2.0, -0.5, 0.0, 0.5, 3.0, math.inf])


@given(st.lists(KEYS, max_size=10), st.lists(st.tuples(KEYS, BANDS), max_size=5), st.booleans())
def test_slices_of_integers_are_the_keys_whose_difference_is_in_the_band(keys, asked, minuend):
    keys = np.sort(np.array(keys, np.int64))
    bands = [(low, high) for _, (low, high) in asked]
    check_slices(keys, [event for event, _ in asked], bands, bands, False, minuend)


FLOAT_BANDS = st.tuples(NUMBERS, NUMBERS).map(sorted)


@given(
    st.lists(NUMBERS, max_size=10),
    st.lists(st.tuples(NUMBERS, FLOAT_BANDS), max_size=5),
    st.booleans(),
)
def test_slices_of_floats_are_the_keys_whose_difference_is_in_the_band(values, asked, minuend):
    keys = np.sort(float_keys(np.array(values, np.float64)))
    events = float_keys(np.array([event for event, _ in asked], np.float64)).tolist()
    bands = [(low, high) for _, (low, high) in asked]
    band_keys = [tuple(float_keys(np.array(band)).tolist()) for band in bands]
    check_slices(keys, events, bands, band_keys, True, minuend)


def check_slices(keys, events, bands, band_keys, is_float, minuend) -> None:
    starts, stops = np.empty(len(events), np.int64), np.empty(len(events), np.int64)
    lows, highs = int64s(*(b[0] for b in band_keys)), int64s(*(b[1] for b in band_keys))
    slices(keys, int64s(*events), lows, highs, is_float, minuend, starts, stops)
    for i, (event, (low, high)) in enumerate(zip(events, bands, strict=True)):
        exact = [exact_difference(k, event, is_float=is_float) for k in keys.tolist()]
        signed = [None if d is None else -d if minuend else d for d in exact]
        expected = [k for k, d in enumerate(signed) if d is not None and low <= d <= high]
        assert list(range(starts[i], stops[i])) == expected


@pytest.mark.parametrize("minuend", [False, True])
def test_an_unlimited_band_holds_every_difference_of_integers(minuend):
    keys = int64s(LEAST, -1, 0, 1, FAR)
    for event in keys:
        starts, stops = np.empty(1, np.int64), np.empty(1, np.int64)
        slices(keys, event[None], int64s(-FAR), int64s(FAR), False, minuend, starts, stops)
        assert (starts[0], stops[0]) == (0, keys.size)


def test_an_unlimited_band_of_floats_leaves_out_only_equal_infinities():
    keys = float_keys(np.array([-math.inf, 0.0, math.inf]))
    assert first_beyond(keys, np.int64(INF_KEY), np.int64(INF_KEY), True, 0) == 2
    assert first_beyond(keys, np.int64(-INF_KEY), np.int64(-INF_KEY - 1), True, 0) == 1


class Counting(SortedRuns):
    """Counts the entries that merges write."""

    written = 0

    def _merge(self, i: int) -> None:
        super()._merge(i)
        self.written += self._runs[i].keys.size


def written_per_entry(m: int, batch: int, ratio: int) -> float:
    rng, runs = np.random.default_rng(8), Counting(ratio)
    for first in range(0, m, batch):
        runs.insert(rng.integers(0, 1000, batch), np.arange(first, first + batch))
        assert len(runs.runs) <= math.log(m / batch, ratio) + 2
    return runs.written / m


@pytest.mark.parametrize("ratio", [2, 8])
def test_an_entry_is_merged_a_logarithmic_number_of_times(ratio):
    # Every merge makes the run of an entry at least 1 + 1 / ratio times as large.
    sizes = (64, 512) if config.DISABLE_JIT else (256, 4096)
    for batch in (1, 4):
        for m in sizes:
            assert written_per_entry(m, batch, ratio) <= math.log(m / batch, 1 + 1 / ratio) + 1


def test_deleting_costs_no_more_than_a_purge_of_each_run_now_and_then():
    runs = Counting(8)
    runs.insert(np.arange(1024), np.arange(1024))
    for i in np.random.default_rng(3).permutation(1024):
        runs.delete(int64s(i), int64s(i))
        assert sum(run.keys.size for run in runs.runs) <= 2 * len(runs)
    assert (runs.written, runs.runs) == (0, ())


def broken(name: str) -> SortedRuns:
    """Sorted runs of one large and one small run, damaged in one way."""
    runs = filled([range(0, 64, 2), (9, 9)], ratio=8)
    runs.delete(int64s(8), int64s(4))
    large, small = runs._runs
    if name == "keys":
        large.keys[3] = 100
    elif name == "ids":
        small.ids[:] = 33, 32
    elif name == "counts":
        large.alive[7] = False
    elif name == "tombstones":
        large.alive[:20], runs._dead[0] = False, 20
    elif name == "sizes":
        runs._runs, runs._dead = [small, large], [0, 1]
    elif name == "empty":
        runs._runs.append(Run(*(array[:0] for array in small)))
        runs._dead.append(0)
    elif name == "link down":
        large.below[10] = 8
    elif name == "link up":
        large.above[4] = 6
    return runs


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("keys", "run 0: keys do not ascend"),
        ("ids", "run 1: ids of equal keys disordered"),
        ("counts", "run 0: tombstones miscounted"),
        ("tombstones", "run 0: more tombstones than living entries"),
        ("sizes", "run 1 is larger than run 0"),
        ("empty", "run 2 is empty"),
        ("link down", "run 0: a link leads past a living entry"),
        ("link up", "run 0: a link leads past a living entry"),
    ],
)
def test_check_notices_a_broken_structure(name, message):
    broken("nothing").check()
    with pytest.raises(AssertionError, match=message):
        broken(name).check()
