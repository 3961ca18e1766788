"""Worked examples of [hotspot], sections 1, 2 and 3, played through the library.

The paper prints its figures without coordinates; where a figure is meant, the numbers here are
ours and what is asserted is what the text says about it.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import standfast as sf
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.skylines import Rows, past_skylines
from standfast.indexes.sorted_runs import SortedRuns
from standfast.indexes.stabbing_partition import StabbingPartition, canonical
from standfast.operators.band_join.groups import ByGroups
from standfast.operators.catalog import BAND_JOINS, SELECT_JOINS, WINDOW_JOINS

# Ten intervals in the manner of Fig. 1: two groups of four and one of two.
FIGURE_1 = np.array([
    (0, 6), (2, 8), (3, 5), (4, 9),
    (11, 17), (12, 20), (14, 16), (15, 22),
    (24, 28), (26, 30),
])  # fmt: skip


def test_section_1_a_range_selection_is_affected_iff_its_interval_is_stabbed():
    engine = sf.Engine()
    engine.stream("R", {"A": "int64"})
    selections = engine.register("SELECT * FROM R WHERE A BETWEEN :a AND :b", name="selections")
    selections.add({"a": FIGURE_1[:, 0], "b": FIGURE_1[:, 1]})
    for value in range(-1, 32):
        stabbed = [i for i, (a, b) in enumerate(FIGURE_1.tolist()) if a <= value <= b]
        pairs = engine.push("R", {"A": [value]})["selections"].pairs()
        assert sorted(pairs["query"].to_pylist()) == stabbed


def test_figure_1_the_greedy_partition_has_as_few_groups_as_any():
    group_of, points = canonical(FIGURE_1[:, 0].copy(), FIGURE_1[:, 1].copy())
    assert group_of.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    for (low, high), group in zip(FIGURE_1.tolist(), group_of.tolist(), strict=True):
        assert low <= points[group] <= high
    # Three intervals that are pairwise apart need three points, so two groups are not enough.
    apart = FIGURE_1[[2, 6, 8]]
    assert (apart[:-1, 1] < apart[1:, 0]).all()


def test_definition_2_the_first_two_groups_of_figure_1_are_the_hotspots_at_0_4():
    tracker = HotspotTracker(alpha=0.4)
    tracker.add(np.arange(10), FIGURE_1[:, 0].copy(), FIGURE_1[:, 1].copy())
    tracker.check()
    assert tracker.n_hot == 2 <= 1 / 0.4
    assert sorted(tracker.scattered_slots().tolist()) == [8, 9]
    hot = tracker.hot_groups()
    assert [sorted(part.tolist()) for part in np.split(hot.low_slots, hot.offsets[1:-1])] == [
        [0, 1, 2, 3], [4, 5, 6, 7],
    ]  # fmt: skip


def test_section_2_2_a_hotspot_stays_until_it_has_lost_half_its_share():
    tracker = HotspotTracker(alpha=0.4)
    tracker.add(np.arange(10), FIGURE_1[:, 0].copy(), FIGURE_1[:, 1].copy())
    tracker.remove(np.array([7]))
    assert tracker.n_hot == 2  # 3 of 9 are fewer than 0.4, but not fewer than 0.2
    tracker.remove(np.array([5, 6]))
    assert tracker.n_hot == 1  # 1 of 7 is
    tracker.check()


@pytest.mark.parametrize(("beta", "least", "most"), [(1.0, 0.70, 0.78), (1.2, 0.88, 0.93)])
def test_figure_2_a_tenth_of_zipfian_groups_covers_most_queries(beta, least, most):
    ranks = np.arange(1, 5001)
    sizes = np.ceil(5000 * ranks**-beta).astype(np.int64)
    centers = np.repeat(100 * ranks, sizes)
    partition = StabbingPartition()
    partition.add(np.arange(centers.size), centers - 7, centers + 7)
    _, found = partition.group_sizes()
    assert found.size == 5000
    top = np.sort(found)[::-1][:500].sum() / found.sum()
    # The smallest groups are rounded up to one query, which takes a little off the paper's share.
    exact = (ranks[:500] ** -beta).sum() / (ranks**-beta).sum()
    assert least <= exact <= most
    assert exact - 0.1 < top <= exact


def test_section_3_1_1_every_algorithm_of_the_paper_has_its_strategy():
    acronyms = {way: strategy.spec.paper.split(" ")[0] for way, strategy in BAND_JOINS.items()}
    assert {way: acronym for way, acronym in acronyms.items() if acronym.startswith("BJ-")} == {
        "per_query": "BJ-QOuter", "per_tuple": "BJ-DOuter", "merge": "BJ-MJ",
        "groups": "BJ-SSI", "refined_groups": "BJ-SSI", "hotspot": "BJ-SSI",
    }  # fmt: skip


# One group in the manner of Fig. 4: all ranges hold p = 0; an arriving r has b = 100.
RANGES = np.array([(-9, 3), (-7, 12), (-4, 1), (-2, 6), (-1, 0)])
B = 100


def affected(stored: list[int]) -> list[int]:
    """Step 1: the queries that r(a, 100) affects, with S(B) as given."""
    strategy, s_b = ByGroups(is_float=False), SortedRuns()
    strategy.add(np.arange(5), RANGES[None, :, 0], RANGES[None, :, 1])
    assert strategy.partition.n_groups == 1
    s_b.insert(np.array(stored), np.arange(len(stored)))
    hits = strategy.process(np.array([B]), s_b, minuend=False)
    found = np.empty(int(hits.counts()[0]), np.int64)
    hits.fill(np.zeros(1, np.int64), np.arange(5), found)
    return sorted(found.tolist())


def test_figure_4_only_the_two_rows_around_the_point_decide_who_is_affected():
    # s1 - b = -5 and s2 - b = 7 surround the point; (-4, 1), (-2, 6) and (-1, 0) fall in the gap.
    assert affected([B - 5, B + 7]) == [0, 1]
    # Rows further away change nothing: whoever holds them also holds s1 or s2.
    assert affected([B - 90, B - 8, B - 5, B + 7, B + 9, B + 90]) == [0, 1]


def test_figure_4_a_row_at_the_point_affects_the_whole_group():
    assert affected([B]) == [0, 1, 2, 3, 4]


def test_figure_4_rows_on_one_side_only_affect_those_that_reach_them():
    assert affected([B - 3]) == [0, 1, 2]
    assert affected([B + 5]) == [1, 3]
    assert affected([B - 10, B + 13]) == []
    assert affected([]) == []


def test_section_3_1_2_step_2_results_are_consecutive_rows_that_include_a_neighbour():
    engine = sf.Engine()
    engine.stream("R", {"A": "int64", "B": "int64"})
    engine.stream("S", {"B": "int64", "C": "int64"})
    sql = "SELECT S.B AS b FROM R JOIN S ON S.B - R.B BETWEEN :lo AND :hi"
    engine.register(sql, name="bands").add({"lo": RANGES[:, 0], "hi": RANGES[:, 1]})
    stored = [B - 8, B - 6, B - 5, B + 2, B + 5, B + 11, B + 40]
    engine.push("S", {"B": stored, "C": [0] * len(stored)})
    answer = engine.push("R", {"A": [1], "B": [B]})["bands"]
    results = answer.rows().to_pydict()
    for query, (low, high) in enumerate(RANGES.tolist()):
        rows = sorted(b for q, b in zip(results["query"], results["b"], strict=True) if q == query)
        first = next((i for i, b in enumerate(stored) if b >= B + low), 0)
        assert rows == stored[first : first + len(rows)]
        assert rows == [b for b in stored if low <= b - B <= high]
        assert not rows or {B - 5, B + 2} & set(rows)
    assert set(answer.pairs()["query"].to_pylist()) == set(results["query"]) == {0, 1, 3}


@pytest.mark.parametrize("way", sorted(BAND_JOINS))
def test_section_3_the_coastal_defence_is_alerted_when_a_target_comes_into_range(way):
    """Each class of units is a standing query with its firing range: Unit.pos - Target.pos."""
    engine = sf.Engine()
    engine.table("unit", {"id": "int64", "model": "string", "pos": "float64"}, key="id")
    engine.table("target", {"id": "int64", "type": "string", "pos": "float64"}, key="id")
    alerts = engine.register(
        "SELECT u.id AS unit, t.id AS target FROM unit AS u JOIN target AS t "
        "ON u.pos - t.pos BETWEEN :lo AND :hi",
        name="alerts",
        strategy=way,
    )
    alerts.add({"lo": [-8.0, -2.0], "hi": [8.0, 30.0], "id": [1, 2]})
    engine.push("unit", {"id": [10, 11], "model": ["BB", "BB"], "pos": [50.0, 90.0]})

    def moved(position: float) -> list[tuple[int, ...]]:
        rows = {"id": [7], "type": ["surface"], "pos": [position]}
        return sorted(zip(*engine.push("target", rows)["alerts"].rows().to_pydict().values(),
                          strict=True))  # fmt: skip

    assert moved(0.0) == []
    assert moved(21.0) == [(2, 10, 7, 1)]
    assert moved(45.0) == [(1, 10, 7, 1), (2, 10, 7, -1), (2, 10, 7, 1)]
    assert moved(200.0) == [(1, 10, 7, -1), (2, 10, 7, -1)]


@pytest.mark.parametrize("way", sorted(BAND_JOINS))
def test_section_3_the_coastal_defence_as_printed_selects_the_model_and_the_kind_of_target(way):
    engine = sf.Engine()
    engine.table("Unit", {"id": "int64", "model": "string", "pos": "float64"}, key="id")
    engine.table("Target", {"id": "int64", "type": "string", "pos": "float64"}, key="id")
    template = (
        "SELECT Unit.id AS unit, Target.id AS target FROM Unit JOIN Target "
        "ON Unit.pos - Target.pos BETWEEN :lo AND :hi "
        "WHERE Unit.model = {} AND Target.type = {}"
    )
    batteries = engine.register(template.format("'BB'", "'surface'"), name="BB", strategy=way)
    batteries.add({"lo": [-8.0], "hi": [8.0]})
    classes = engine.register(template.format(":model", ":type"), name="classes", strategy=way)
    classes.add({
        "id": [1, 2, 3], "model": ["BB", "BB", "AA"], "type": ["surface", "air", "air"],
        "lo": [-8.0, 0.0, -30.0], "hi": [8.0, 2.0, 30.0],
    })  # fmt: skip
    engine.push("Unit", {"id": [10, 11], "model": ["BB", "AA"], "pos": [50.0, 52.0]})

    def came(target: int, kind: str, position: float) -> tuple[list[int], list[tuple[int, int]]]:
        answers = engine.push("Target", {"id": [target], "type": [kind], "pos": [position]})
        rows = answers["classes"].rows()
        return (
            answers["BB"].rows()["unit"].to_pylist(),
            sorted(zip(rows["query"].to_pylist(), rows["unit"].to_pylist(), strict=True)),
        )

    assert came(7, "surface", 48.0) == ([10], [(1, 10)])
    assert came(8, "air", 48.0) == ([], [(2, 10), (3, 11)])
    assert came(9, "submarine", 48.0) == ([], [])
    assert came(6, "surface", 41.9) == ([], [])


SUPPLY_AND_DEMAND = """
    SELECT * FROM supply AS s JOIN demand AS d ON s.prod_id = d.prod_id
    WHERE s.quantity BETWEEN :s_lo AND :s_hi AND d.quantity BETWEEN :d_lo AND :d_hi
"""


@pytest.mark.parametrize("way", ["auto", *SELECT_JOINS])
def test_section_3_merchants_watch_supply_and_demand_of_their_own_sizes(way):
    engine = sf.Engine()
    engine.stream("supply", {"prod_id": "int64", "quantity": "float64"})
    engine.stream("demand", {"prod_id": "int64", "quantity": "float64"})
    alerts = engine.register(SUPPLY_AND_DEMAND, name="alerts", strategy=way)
    # A wholesaler, a small retailer, and one who buys in bulk to sell by the piece.
    ids = alerts.add({
        "s_lo": [1000.0, 0.0, 1000.0], "s_hi": [np.inf, 10.0, np.inf],
        "d_lo": [1000.0, 0.0, 0.0], "d_hi": [np.inf, 10.0, 10.0],
    })  # fmt: skip
    assert ids.to_pylist() == [0, 1, 2]
    engine.push("demand", {"prod_id": [1, 1, 2, 3], "quantity": [5.0, 8.0, 5000.0, 1500.0]})
    # Product 1 is in demand by the piece, product 2 in bulk, product 4 by nobody.
    supply = {"prod_id": [1, 2, 1, 2, 4], "quantity": [3.0, 2000.0, 4000.0, 3.0, 3.0]}
    answer = engine.push("supply", supply)["alerts"]
    pairs = answer.pairs()
    assert list(zip(*pairs.to_pydict().values(), strict=True)) == [(0, 1), (1, 0), (2, 2)]
    assert answer.counts()["queries"].to_pylist() == [1, 1, 1, 0, 0]
    rows = answer.rows()
    names = ["query", "s.prod_id", "s.quantity", "d.prod_id", "d.quantity", "change"]
    assert rows.column_names == names
    assert sorted(zip(*rows.to_pydict().values(), strict=True)) == [
        (0, 2, 2000.0, 2, 5000.0, 1),
        (1, 1, 3.0, 1, 5.0, 1), (1, 1, 3.0, 1, 8.0, 1),
        (2, 1, 4000.0, 1, 5.0, 1), (2, 1, 4000.0, 1, 8.0, 1),
    ]  # fmt: skip
    alerts.remove(ids[1:])
    assert engine.push("supply", supply)["alerts"].pairs()["query"].to_pylist() == [0]
    assert "select_join" in alerts.explain()


def test_section_3_2_every_algorithm_of_the_paper_has_its_strategy():
    for ways, wanted in (
        (SELECT_JOINS, {"vanilla": "SJ-Vanilla", "join_first": "SJ-JoinFirst",
                        "select_first": "SJ-SelectFirst", "groups": "SJ-SSI"}),
        (WINDOW_JOINS, {"join_first": "WJ-JoinFirst", "select_first": "WJ-SelectFirst",
                        "groups": "WJ-SSI"}),
    ):  # fmt: skip
        acronyms = {way: re.split("[, ]", s.spec.paper)[0] for way, s in ways.items()}
        assert {way: acronyms[way] for way in wanted} == wanted
        assert {"naive", "hotspot"} <= set(ways)


# Rectangles in the manner of Fig. 5: every range of S.C holds p = 50; a row r(a, b) has a = 10.
P, A = 50, 10
RECTANGLES = {
    "holds q1": (0, 20, 30, 55),
    "holds q2": (5, 10, 45, 70),
    "holds both": (10, 11, 20, 80),
    "falls in the gap": (0, 20, 47, 53),
    "misses the line R.A = a": (11, 20, 20, 80),
    "ends at q1": (10, 10, 40, 50),
}


def select_joins(way: str) -> tuple[sf.Engine, list[str]]:
    engine = sf.Engine()
    engine.stream("R", {"A": "int64", "B": "string"})
    engine.stream("S", {"B": "string", "C": "int64"})
    sql = (
        "SELECT S.C AS c FROM R JOIN S ON R.B = S.B "
        "WHERE R.A BETWEEN :a AND :b AND S.C BETWEEN :c AND :d"
    )
    ends = zip(*RECTANGLES.values(), strict=True)
    engine.register(sql, name="g", strategy=way).add(dict(zip("abcd", ends, strict=True)))
    return engine, list(RECTANGLES)


@pytest.mark.parametrize("way", SELECT_JOINS)
def test_figure_5_the_two_join_result_points_around_the_stabbing_point_decide(way):
    affected = ["holds q1", "holds q2", "holds both", "ends at q1"]
    # q1 = 40 and q2 = 60 are the closest; rows further away and rows of other keys add nobody.
    for stored in ([40, 60], [3, 22, 40, 60, 75, 99]):
        engine, names = select_joins(way)
        engine.push("S", {"B": ["b"] * len(stored) + ["other", None], "C": [*stored, P, P]})
        answer = engine.push("R", {"A": [A], "B": ["b"]})["g"]
        found = [names[i] for i in sorted(answer.pairs()["query"].to_pylist())]
        assert found == affected
        results = answer.rows()
        for query, (_, _, low, high) in enumerate(RECTANGLES.values()):
            rows = results.filter(np.array(results["query"].to_pylist()) == query)["c"].to_pylist()
            wanted = [c for c in stored if low <= c <= high] if names[query] in affected else []
            assert sorted(rows) == wanted
            # Consecutive join result points that include one of the two.
            assert not rows or {40, 60} & set(rows)


@pytest.mark.parametrize("way", SELECT_JOINS)
def test_figure_5_a_row_at_the_stabbing_point_affects_all_whose_other_range_holds(way):
    engine, names = select_joins(way)
    engine.push("S", {"B": ["b"], "C": [P]})
    answer = engine.push("R", {"A": [A], "B": ["b"]})["g"]
    missed = {names[i] for i in range(len(names))} - {
        names[i] for i in answer.pairs()["query"].to_pylist()
    }
    assert missed == {"misses the line R.A = a"}


# Points (S.C, T) of one join key in the manner of Fig. 6; the event comes at time 100.
POINTS_6 = [
    (10, 95),
    (20, 70),
    (26, 90),
    (32, 60),
    (38, 85),
    (44, 80),
    (55, 75),
    (62, 92),
    (70, 99),
]
NOW = 100


def skyline(p: int) -> set[tuple[int, int]]:
    """The definition of section 3.3.2 with ages for y: nobody nearer to p is as new."""
    left = [(c, t) for c, t in POINTS_6 if c <= p]
    right = [(c, t) for c, t in POINTS_6 if c >= p]
    kept = {(c, t) for c, t in left if not any(d > c and u > t for d, u in left)}
    return kept | {(c, t) for c, t in right if not any(d < c and u > t for d, u in right)}


def test_figure_6_a_rectangle_is_stabbed_iff_a_point_on_the_two_skylines_stabs_it():
    p, stabbed = 50, 0
    assert skyline(p) == {(10, 95), (26, 90), (38, 85), (44, 80), (55, 75), (62, 92), (70, 99)}
    for low in range(0, p + 1, 3):
        for high in range(p, 80, 3):
            for w in range(45):
                by = [[(c, t) for c, t in points if low <= c <= high and NOW - t <= w]
                      for points in (POINTS_6, skyline(p))]  # fmt: skip
                assert bool(by[0]) == bool(by[1])
                stabbed += bool(by[0])
    assert stabbed > 0


def test_figure_6_the_skylines_of_all_points_are_held_once():
    points = [30, 50, 65]
    rows = Rows(
        np.array([0, len(POINTS_6)]),
        np.array([c for c, _ in POINTS_6]), np.array([t for _, t in POINTS_6]),
    )  # fmt: skip
    held, _ = past_skylines(rows, np.array(points))
    found = set(zip(held.keys.tolist(), held.near.tolist(), strict=True))
    assert set().union(*(skyline(p) for p in points)) <= found <= set(POINTS_6)
    assert (20, 70) not in found  # between the points, older than neighbours on both sides
    assert len(found) == held.keys.size


@pytest.mark.parametrize("way", ["auto", *WINDOW_JOINS])
def test_figure_6_window_joins_are_affected_as_their_boxes_say(way):
    engine = sf.Engine()
    engine.stream("R", {"A": "int64", "B": "int64", "T": "int64"})
    engine.stream("S", {"B": "int64", "C": "int64", "T": "int64"})
    sql = (
        "SELECT S.C AS c FROM R JOIN S ON R.B = S.B AND ABS(R.T - S.T) < :w "
        "WHERE R.A BETWEEN :a AND :b AND S.C BETWEEN :c AND :d"
    )
    boxes = [(0, a, low, high, w) for a in (A - 1, A) for low in range(0, 51, 10)
             for high in range(50, 80, 10) for w in (1, 2, 9, 20, 21, 26, 41)]  # fmt: skip
    group = engine.register(sql, name="g", strategy=way)
    group.add(dict(zip("abcdw", np.array(boxes).T, strict=True)))
    engine.push("S", {
        "B": [7] * len(POINTS_6) + [8], "C": [*(c for c, _ in POINTS_6), 50],
        "T": [*(t for _, t in POINTS_6), NOW],
    })  # fmt: skip
    answer = engine.push("R", {"A": [A], "B": [7], "T": [NOW]})["g"]
    joined = {
        (query, c) for query, (_, high_a, low, high, w) in enumerate(boxes)
        for c, t in POINTS_6 if high_a >= A and low <= c <= high and NOW - t < w
    }  # fmt: skip
    rows = answer.rows()
    assert set(zip(rows["query"].to_pylist(), rows["c"].to_pylist(), strict=True)) == joined
    assert sorted(answer.pairs()["query"].to_pylist()) == sorted({query for query, _ in joined})
    assert 0 < len({query for query, _ in joined}) < len(boxes) / 2
