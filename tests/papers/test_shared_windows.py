"""Worked examples of [shared-windows], sections 1 to 3, played through the library.

The paper counts positions from 1, ours from 0; its window S[N_L, N_R] holds the rows with an age
from N_R to N_L - 1 here.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import standfast as sf
from standfast.indexes.lanes import Lanes
from standfast.operators.aggregates import aggregate_of
from standfast.operators.catalog import WINDOW_AGGREGATES
from standfast.operators.landmark_kernels import list_pieces
from standfast.operators.synopses import cover
from standfast.operators.window_aggregate.landmark_intervals import LandmarkIntervals, levels_of

NOTHING = np.empty(0, np.int64)


def lanes_of(values, reach=1 << 20):
    """Lanes of one row a microsecond, not yet read by anybody."""
    lanes = Lanes("rows", is_float=False, reach=reach)
    values = np.asarray(values, np.int64)
    lanes.append(NOTHING, np.arange(values.size), values, np.ones(values.size, np.bool_))
    return lanes


def one(*numbers):
    return tuple(np.array([number]) for number in numbers)


def pieces(lanes, first, last):
    """The base intervals of a window, in the paper's positions from 1 on."""
    offsets, nodes = cover(lanes, one(0, first - 1, last - 1))
    capacity = int(lanes.geometry.masks[0]) + 1
    found, at = [], first
    for node in (nodes - 2 * lanes.geometry.starts[0]).tolist():
        width = capacity >> (node.bit_length() - 1)
        found.append((at, at + width - 1))
        at += width
    assert offsets.tolist() == [0, nodes.size]
    assert at == last + 1
    return found


def test_example_3_1_the_interval_1_43_is_a_union_of_base_intervals():
    """Printed with (1, 2), (3, 4), (5, 8), (9, 16), (17, 32) in front, which are one: (1, 32)."""
    lanes = lanes_of(range(64))
    assert pieces(lanes, 1, 43) == [(1, 32), (33, 40), (41, 42), (43, 43)]
    printed = [(1, 2), (3, 4), (5, 8), (9, 16), (17, 32), (33, 40), (41, 42), (43, 43)]
    for first, last in printed:
        width = last - first + 1
        assert width & (width - 1) == 0
        assert (first - 1) % width == 0
        assert pieces(lanes, first, last) == [(first, last)]


def test_theorem_3_1_a_window_is_made_up_of_few_neighbouring_base_intervals():
    lanes = lanes_of(range(200))
    for first in range(1, 200, 7):
        for last in range(first, 201):
            found = pieces(lanes, first, last)
            assert len(found) <= 2 * max(1, int(np.log2(last - first + 1)) + 1)
            assert all(a[1] + 1 == b[0] for a, b in pairwise(found))


def test_definition_3_1_a_level_7_base_interval():
    assert pieces(lanes_of(range(1024)), 385, 512) == [(385, 512)]


def landmark_pieces(way, level, first, last):
    """The landmark intervals that a window is read from, in the paper's positions from 1 on."""
    kept = way._classes[level]
    rings, begins = kept._rings, kept._begins
    places, plain = np.empty((1, 3), np.int64), np.empty(1, np.bool_)
    list_pieces(rings, begins, *one(0, first - 1, last - 1), places, plain)
    assert not plain[0], "read row by row instead"
    found = []
    for place in places[places >= 0].tolist():
        ring = place // 2 - rings.starts[0]
        at = first - 1 + ((ring - (first - 1)) & rings.masks[0])
        if place % 2:  # from here back to the landmark after it
            found.append((int(at) + 1, int(at >> level) + 1 << level))
        else:
            found.append((int(begins[rings.starts[0] + ring]) + 1, int(at) + 1))
    return found


def test_example_3_2_a_window_of_1908_rows_is_three_landmark_intervals_or_two():
    """Printed as (3257, 3999) and (4000, 5164), which passes a landmark.

    Ours end at the next landmark, every 1024 rows here: the end of a stretch, a whole one, a
    beginning. Two are enough when the window begins in the first 141 rows of a stretch.
    """
    values = np.random.default_rng(3).integers(-100, 100, 6000)
    lanes = lanes_of(values)
    way = LandmarkIntervals(aggregate_of("MAX", is_float=False), lanes)
    width = 5164 - 3257 + 1
    assert levels_of(np.array([0]), np.array([width - 1])).tolist() == [10]
    way.add(np.array([0, 1]), np.array([[0, 4000]]), np.array([[width - 1, 3999 + width]]))
    way.take_in(lanes.all_changed())
    assert landmark_pieces(way, 10, 3257, 5164) == [(3257, 4096), (4097, 5120), (5121, 5164)]
    assert landmark_pieces(way, 10, 3213, 5120) == [(3213, 4096), (4097, 5120)]
    assert landmark_pieces(way, 10, 3073, 4980) == [(3073, 4096), (4097, 4980)]
    n_pieces = set()
    for last in range(6000, 4000, -31):
        first = last - width + 1
        made_of = landmark_pieces(way, 10, first, last)
        assert (made_of[0][0], made_of[-1][1]) == (first, last)
        assert all(a[1] + 1 == b[0] for a, b in pairwise(made_of))
        assert len(made_of) == (2 if (first - 1) % 1024 <= 2048 - width else 3)
        n_pieces.add(len(made_of))
        found = way.read(*one(0, 0, first - 1, last - 1))
        assert found.values[0] == values[first - 1 : last].max()
    assert n_pieces == {2, 3}


def test_example_1_1_a_suffix_by_rows_and_a_window_between_1_and_2_minutes_ago():
    engine = sf.Engine()
    engine.stream("trades", {"shares": "int64", "ts": "timestamp"}, time="ts")
    last = engine.register(
        "SELECT AVG(shares) OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW)"
        " FROM trades",
        name="last",
    )
    ago = engine.register(
        "SELECT AVG(shares) OVER (ORDER BY ts RANGE BETWEEN :old PRECEDING AND :young PRECEDING)"
        " FROM trades",
        name="ago",
    )
    last.add({"n": [9_999, 99]})
    ago.add({"old": [120_000_000], "young": [60_000_000]})
    shares, seconds = np.arange(1, 12_001), np.arange(12_000) // 50
    engine.store("trades", {"shares": shares, "ts": seconds * 1_000_000})
    now = int(seconds[-1])
    inside = shares[(seconds >= now - 120) & (seconds <= now - 60)]
    assert last.lookup()["value"].to_pylist() == [shares[-10_000:].mean(), shares[-100:].mean()]
    assert ago.lookup()["value"].to_pylist() == [inside.mean()]


@pytest.mark.parametrize("way", ["running_intervals", "base_intervals", "naive"])
def test_section_3_2_sums_are_subtractable_and_maxima_are_not(way):
    engine = sf.Engine()
    engine.stream("s", {"a": "int64", "ts": "timestamp"}, time="ts")
    over = "OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW) FROM s"
    assert engine.register(f"SELECT SUM(a) {over}", strategy=way).way == way
    if WINDOW_AGGREGATES[way].spec.needs == "subtractable":
        with pytest.raises(sf.UnsupportedQuery) as refused:
            engine.register(f"SELECT MAX(a) {over}", strategy=way)
        assert refused.value.message == (
            "strategy 'running_intervals' takes subtractable aggregates, MAX is mergeable"
        )
        assert refused.value.hint == (
            "one of auto, naive, materialise_all, augmented_tree, base_intervals,"
            " landmark_intervals, routed"
        )
    else:
        assert engine.register(f"SELECT MAX(a) {over}", strategy=way).way == way


def test_section_3_3_quantiles_with_different_shares_are_answered_together():
    engine = sf.Engine()
    engine.stream("s", {"a": "float64", "ts": "timestamp"}, time="ts")
    group = engine.register(
        "SELECT PERCENTILE_DISC(:phi) WITHIN GROUP (ORDER BY a)"
        " OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND CURRENT ROW) FROM s"
    )
    group.add({"phi": [0.1, 0.5, 1.0, 0.25], "left": [9, 9, 9, 3]})
    values = [5.0, 3.0, 9.0, 1.0, 7.0, 2.0, 8.0, 6.0, 4.0, 10.0]
    engine.store("s", {"a": values, "ts": range(10)})
    assert group.lookup()["value"].to_pylist() == [1.0, 5.0, 10.0, 4.0]
    with pytest.raises(sf.BadParameters, match=r"not above 0 and up to 1 in row 0: 0\.0"):
        group.add({"phi": [0.0], "left": [1]})
