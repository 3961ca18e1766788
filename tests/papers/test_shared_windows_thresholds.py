"""Worked examples of [shared-windows], sections 2 and 4, played through the library.

Figure 8 is a picture that the text describes in part: three keys; the 11th row from the end has
the time 90, 85 and 68; TSTAMP[k3, 2] = 85; TSTAMP[k, 2] >= 87 for k1 and k2. The other times here
are ours, chosen to agree with all of that.
"""

from __future__ import annotations

import numpy as np
import pytest

import standfast as sf
from standfast.indexes.collective_index import LATEST, CollectiveIndex
from standfast.indexes.key_rows import KeyRows
from standfast.indexes.keys import LEAST
from standfast.operators.key_threshold.totals import IndexedTotals

FIGURE_8 = {
    "k1": [74, 80, 86, 90, 91, 92, 94, 95, 96, 97, 99, 101, 104, 106],
    "k2": [66, 70, 76, 81, 85, 86, 87, 88, 90, 93, 95, 98, 100, 103, 105],
    "k3": [60, 64, 68, 70, 75, 79, 83, 85, 88, 92, 97, 100, 104],
}
KEYS = list(FIGURE_8)
NOW, WINDOW, THRESHOLD = 106, 20, 11


def figure_8(per_size: int) -> CollectiveIndex:
    rows = KeyRows(None)
    index = CollectiveIndex(rows, counts=True, per_size=per_size)
    index.serve(np.arange(1, 15), np.arange(1, 15))
    events = sorted((time, KEYS.index(key)) for key, times in FIGURE_8.items() for time in times)
    for time, number in events:
        _, anew = rows.insert(np.array([number]), np.array([time]), np.empty(0, np.int64))
        index.refresh(np.array([number]), anew=anew)
        index.check()
    return index


def times_on(index: CollectiveIndex, level: int) -> list[int]:
    return index.times.levels.times[index._places[level], : len(KEYS)].tolist()


def test_example_4_1_the_reconstruction_agrees_with_the_text():
    assert [times[-11] for times in FIGURE_8.values()] == [90, 85, 68]
    counts = {k: sum(NOW - WINDOW < t <= NOW for t in times) for k, times in FIGURE_8.items()}
    assert {k for k, n in counts.items() if n >= THRESHOLD} == {"k1"}


def test_example_4_1_the_time_on_level_2_is_that_of_a_multiple_of_4():
    index = figure_8(per_size=1)
    for level in range(3):
        for key, held in zip(KEYS, times_on(index, level), strict=True):
            times = FIGURE_8[key]
            # Positions count from 1; level l holds the distances 2^l to 2^(l + 1) - 1.
            (position,) = [
                p
                for p in range(1, len(times) + 1)
                if p % 2**level == 0 and 2**level <= len(times) - p + 1 < 2 ** (level + 1)
            ]
            assert held == times[position - 1]
    assert times_on(index, 2)[KEYS.index("k3")] == 85
    assert times_on(index, LATEST) == [106, 105, 104]


def test_example_4_1_the_relaxed_answer_has_k2_too_and_the_rows_take_it_out_again():
    totals = IndexedTotals(counts=True, is_float=False, per_size=1)
    for number, times in enumerate(FIGURE_8.values()):
        totals.insert(np.full(len(times), number), np.array(times), np.empty(0, np.int64), 0)
    totals.serve(np.array([THRESHOLD]), np.array([2**62]))
    assert totals.index.levels_for(np.array([THRESHOLD]), np.array([2**62])).late.tolist() == [2]
    start = np.array([NOW - WINDOW + 1])
    relaxed, _ = totals.ask(np.array([0]), start, exact=False)
    exact, _ = totals.ask(np.array([0]), start)
    assert [KEYS[k] for k in relaxed.keys] == ["k1", "k2"]
    assert [KEYS[k] for k in exact.keys] == ["k1"]


@pytest.mark.parametrize("strategy", ["naive", "collective_index"])
def test_example_4_1_as_sql(strategy):
    """The paper's window of 20 holds the times 87 to 106, so as a RANGE it is 19 before now."""
    engine = sf.Engine()
    engine.stream("S", {"K": "string", "ts": "timestamp"}, time="ts")
    group = engine.register(
        """SELECT K FROM S QUALIFY COUNT(*) OVER (
           PARTITION BY K ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW) >= :v""",
        strategy=strategy,
    )
    group.add({"w": [WINDOW - 1], "v": [THRESHOLD]})
    events = sorted((time, key) for key, times in FIGURE_8.items() for time in times)
    engine.push("S", {"K": [k for _, k in events], "ts": [t for t, _ in events]})
    assert group.lookup()["K"].to_pylist() == ["k1"]


@pytest.mark.parametrize("strategy", ["naive", "collective_index"])
def test_example_2_1_sums_above_1000_in_the_last_300_time_units(strategy):
    engine = sf.Engine()
    engine.stream("S", {"K": "int64", "A": "int64", "ts": "timestamp"}, time="ts")
    group = engine.register(
        """SELECT K FROM S QUALIFY SUM(A) OVER (
           PARTITION BY K ORDER BY ts RANGE BETWEEN :w PRECEDING AND CURRENT ROW) > :v""",
        strategy=strategy, name="group",
    )  # fmt: skip
    group.add({"w": [299], "v": [1000]})
    rows = {"K": [1, 2, 3, 1, 2], "A": [600, 1000, 5000, 400, 1], "ts": [50, 90, 1, 200, 300]}
    changes = engine.push("S", rows)["group"].rows().to_pylist()
    assert changes == [
        {"query": 0, "K": 2, "change": 1}, {"query": 0, "K": 3, "change": 1},
    ]  # fmt: skip
    # One time unit later the row of key 3 is out of the window; key 1 has 1000, which is not above.
    changes = engine.push("S", {"K": [1], "A": [0], "ts": [301]})["group"].rows().to_pylist()
    assert changes == [{"query": 0, "K": 3, "change": -1}]


def test_figure_7_levels_are_those_of_the_papers_update():
    """With z trailing zeros in m + p, the levels z to 1 take over what the one below held."""
    rows = KeyRows(None)
    index = CollectiveIndex(rows, counts=True, per_size=1)
    thresholds = np.array([1, 3, 7, 15, 31])
    index.serve(thresholds, thresholds)
    held = [LEAST] * 7
    for m in range(1, 100):
        _, anew = rows.insert(np.array([0]), np.array([1000 + m]), np.empty(0, np.int64))
        index.refresh(np.array([0]), anew=anew)
        z = ((m + 1) & -(m + 1)).bit_length() - 1
        for level in range(min(z, 6), 0, -1):
            held[level] = held[level - 1]
        held[0] = 1000 + m
        assert [times_on_key(index, level) for level in range(5)] == held[:5]


def times_on_key(index: CollectiveIndex, level: int) -> int:
    return int(index.times.levels.times[index._places[level], 0])


def test_section_4_2_a_value_counts_as_so_many_rows():
    """CI-SUM over values is CI-COUNT over as many copies of each row, updated at once."""
    values, times = [3, 1, 7, 2, 12, 1, 5], [1, 4, 6, 7, 9, 12, 15]
    copies = [time for value, time in zip(values, times, strict=True) for _ in range(value)]
    sums, counts = KeyRows(np.int64), KeyRows(None)
    by_sum = CollectiveIndex(sums, counts=False, per_size=2)
    by_count = CollectiveIndex(counts, counts=True, per_size=2)
    thresholds = np.arange(1, 31)
    for index in (by_sum, by_count):
        index.serve(thresholds, thresholds)
    zero = np.zeros(1, np.int64)
    for value, time in zip(values, times, strict=True):
        by_sum.refresh(zero, anew=sums.insert(zero, np.array([time]), np.array([value])).anew)
    counts.insert(np.zeros(len(copies), np.int64), np.array(copies), np.empty(0, np.int64))
    by_count.refresh(zero, anew=zero)
    for level in by_sum._places:
        assert times_on_key(by_sum, level) == times_on_key(by_count, level)
