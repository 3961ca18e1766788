"""Select-joins by the ways that do not group: all of them against a loop over everything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.equality_histories import (
    FAR,
    LEAST,
    History,
    Row,
    crowd,
    crowd_events,
    histories,
    hit_by,
    play,
)
from standfast import _numba
from standfast.arrays import Matches
from standfast.operators import equality, joined
from standfast.operators.base import Arrivals
from standfast.operators.select_join import select_first, vanilla
from standfast.operators.select_join.join_first import JoinFirst
from standfast.operators.select_join.naive import Naive
from standfast.operators.select_join.select_first import SelectFirst
from standfast.operators.select_join.vanilla import Vanilla

WAYS = [Naive, Vanilla, JoinFirst, SelectFirst]
EVERY_WAY = pytest.mark.parametrize("way", WAYS)
SIDES = pytest.mark.parametrize("side", [0, 1])


@given(histories(None), st.sampled_from([1, 8]))
def test_every_way_answers_any_small_history_as_defined(steps, ratio):
    assert play(History(*(way() for way in WAYS), ratio=ratio), steps) >= 3 * len(WAYS)


@EVERY_WAY
def test_the_picture_of_the_paper(way):
    """The query rectangles that some join result point on the line of the event lies in."""
    history = History(way())
    history.add([((0, 9), (10, 20)), ((5, 9), (21, 29)), ((0, 4), (28, 40)), ((6, 6), (0, 50))])
    history.insert(1, [Row(7, 12), Row(7, 30), Row(8, 25)])
    hits, right = history.answers(0, [Row(7, 4), Row(7, 6), Row(8, 6), Row(9, 6)])
    assert right == [[0, 2], [0, 3], [1, 3], []]
    assert hit_by(hits[0]) == right


@EVERY_WAY
@SIDES
def test_ranges_and_rows_at_the_ends_of_the_line_are_met(way, side):
    history = History(way())
    ends = [(LEAST, LEAST), (LEAST, LEAST + 1), (FAR, FAR), (FAR - 1, FAR), (LEAST, FAR), (0, 0)]
    history.add([(one, other) for one in ends for other in ends])
    keys = [LEAST, LEAST + 1, 0, FAR - 1, FAR]
    for code in (LEAST, FAR):
        history.insert(1 - side, [Row(code, key) for key in keys])
    history.delete(1 - side, [0, 2, 9])
    hits, right = history.answers(side, [Row(code, key) for code in (LEAST, FAR) for key in keys])
    assert hit_by(hits[0]) == right
    assert 0 < sum(map(len, right)) < 36 * 10


@EVERY_WAY
def test_no_rows_no_queries_and_no_events_give_empty_answers(way):
    history = History(way())
    assert hit_by(history.answers(0, [Row(1, 1), Row(2, 2)])[0][0]) == [[], []]
    history.insert(1, [Row(1, 1)])
    assert hit_by(history.answers(0, [Row(1, 1)])[0][0]) == [[]]
    history.add([((0, 2), (0, 2))])
    assert hit_by(history.answers(0, [])[0][0]) == []
    assert hit_by(history.answers(0, [Row(1, 1)])[0][0]) == [[0]]
    history.remove([0])
    assert hit_by(history.answers(0, [Row(1, 1)])[0][0]) == [[]]


@EVERY_WAY
def test_a_code_whose_rows_are_all_deleted_joins_nothing(way):
    history = History(way())
    history.add([((LEAST, FAR), (LEAST, FAR))])
    history.insert(1, [Row(code, key) for code in (1, 2, 3) for key in range(4)])
    history.delete(1, range(4, 8))
    assert not history.stores[1].runs[0].alive.all()
    hits, _ = history.answers(0, [Row(1, 0), Row(2, 0), Row(3, 0)])
    assert hit_by(hits[0]) == [[0], [], [0]]


@SIDES
def test_all_ways_agree_on_a_crowd(side):
    history = History(*(way() for way in WAYS))
    crowd(history, n_queries=400, n_rows=900, seed=4)
    assert len(history.stores[1 - side].runs) > 1
    naive, *others = history.answers(side, crowd_events(25, 5))[0]
    for way, hits in zip(WAYS[1:], others, strict=True):
        assert hit_by(hits) == hit_by(naive), way
    assert naive.counts().min() == 0 < naive.counts().max()


@pytest.mark.parametrize("at_once", [1, 700])
def test_many_candidates_are_tested_in_rounds(monkeypatch, at_once):
    history = History(Naive(), Vanilla(), SelectFirst(), JoinFirst())
    crowd(history, n_queries=200, n_rows=300, seed=6)
    for module in (select_first, vanilla, joined):
        monkeypatch.setattr(module, "CANDIDATES_AT_ONCE", at_once)
    monkeypatch.setattr(joined, "POINTS_AT_ONCE", 50)
    naive, *others = history.answers(0, crowd_events(12, 7))[0]
    assert [hit_by(hits) for hits in others] == 3 * [hit_by(naive)]


def test_threads_share_the_events_and_answer_the_same(monkeypatch):
    monkeypatch.setattr(_numba, "THREADS", 3)
    for module in (equality, joined, vanilla):
        monkeypatch.setattr(
            module, "in_parts", lambda work, n, cost: _numba.in_parts(work, n, cost=10_000_000)
        )
    history = History(*(way() for way in WAYS))
    crowd(history, n_queries=200, n_rows=300, seed=8)
    naive, *others = history.answers(1, crowd_events(20, 9))[0]
    assert [hit_by(hits) for hits in others] == 3 * [hit_by(naive)]


def test_runs_are_merged_when_candidates_are_many_and_stay_apart_when_few():
    history = History(SelectFirst())
    crowd(history, n_queries=300, n_rows=900, seed=10)
    apart = len(history.stores[1].runs)
    assert apart > 1
    history.answers(0, crowd_events(1, 11))
    assert len(history.stores[1].runs) == apart
    history.answers(0, crowd_events(60, 12))
    assert len(history.stores[1].runs) == 1


def test_changes_do_not_pile_up_for_a_side_without_events():
    way, history = SelectFirst(), History()
    box = np.array([[0], [0]]), np.array([[9], [9]])
    for side in (0, 1):
        history.insert(side, [Row(1, 1)])
    event = Arrivals(np.array([1]), np.array([1]), np.empty(0, np.int64))
    n, kept, sizes = 500, 20, []
    for slot in range(n):
        way.add(np.array([slot]), *box)
        if slot >= kept:
            way.remove(np.array([slot - kept]))
        way.process(event, history.stores[1], side=0)
        sizes.append(way._ranges.memory_bytes())
        if slot == kept:  # from here on only side 0 has events
            way.process(event, history.stores[0], side=1)
    assert max(sizes[kept:]) <= 2 * max(sizes[: 2 * kept])
    hits = way.process(event, history.stores[0], side=1)
    assert hit_by(hits) == [list(range(n - kept, n))]


def test_equal_rows_make_one_point(monkeypatch):
    stabbed = []
    index = JoinFirst()
    index.add(np.array([0]), np.array([[0], [0]]), np.array([[9], [9]]))
    stab = index._rectangles.stab

    def counting(values):
        stabbed.append(values.shape[1])
        return stab(values)

    monkeypatch.setattr(index._rectangles, "stab", counting)
    history = History(index)
    history.insert(1, [Row(1, 5)] * 50 + [Row(1, 6)] * 50 + [Row(2, 6)])
    hits, _ = history.answers(0, [Row(1, 5), Row(1, 6), Row(2, 6)])
    assert isinstance(hits[0], Matches)
    assert sum(stabbed) == 2 + 2 + 1


def test_a_lost_slot_and_a_stale_list_of_the_living_are_noticed():
    table = equality.BoxTable(2)
    table.add(np.arange(3), np.zeros((2, 3), np.int64), np.ones((2, 3), np.int64))
    table.check()
    table._alive[1] = False
    with pytest.raises(AssertionError, match="miscounted"):
        table.check()
    table._n = 2
    with pytest.raises(AssertionError, match="stale"):
        table.check()
