"""Worked examples of [hotspot], sections 1, 2 and 3.1, played through the library.

The paper prints its figures without coordinates; where a figure is meant, the numbers here are
ours and what is asserted is what the text says about it.
"""

from __future__ import annotations

import numpy as np
import pytest

import standfast as sf
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.sorted_runs import SortedRuns
from standfast.indexes.stabbing_partition import StabbingPartition, canonical
from standfast.operators.band_join.groups import ByGroups
from standfast.operators.catalog import BAND_JOINS

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


def test_section_3_local_selections_of_the_coastal_defence_are_refused_with_a_way_out():
    engine = sf.Engine()
    engine.stream("unit", {"model": "string", "pos": "float64"})
    engine.stream("target", {"type": "string", "pos": "float64"})
    with pytest.raises(sf.UnsupportedQuery) as error:
        engine.register(
            "SELECT * FROM unit u JOIN target t ON u.pos - t.pos BETWEEN :lo AND :hi "
            "WHERE u.model = 'BB' AND t.type = 'surface'",
            name="alerts",
        )
    assert "a band join with a further condition is not supported yet" in str(error.value)
    assert "filter the input before pushing" in error.value.hint
