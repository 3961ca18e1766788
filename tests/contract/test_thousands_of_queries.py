"""Law, at a size where every index splits, merges and rebuilds: thousands of queries are exact.

The histories of the other laws are small, so that they can be shrunk and read. Here queries crowd
in a few places and thousands come and go in a step, between rows that are pushed and deleted by
the hundred. For each event the values (or differences) are sorted and every query searches them,
which is quick enough to be the truth at this size.
"""

from __future__ import annotations

import numpy as np
import pytest
from tests.contract.laws import SMALL, every_case_of
from tests.contract.numbers import FAR, FEW_TIMES, KINDS, LAST_US, LEAST, Kind
from tests.contract.oracle import minus
from tests.contract.shapes import BAND_SHAPES, FILTER_SHAPES
from tests.contract.worlds import Case, World

from standfast import Answer

N_QUERIES, N_ROWS, N_STEPS = (250, 10, 3) if SMALL else (2_000, 30, 3)
ENDS = {
    "int64": [LEAST, LEAST + 1, 0, FAR - 1, FAR],
    "float64": [-np.inf, -5e-324, 0.0, 5e-324, np.inf],
    "timestamp": [0, 1, LAST_US],
}


def draw_values(rng: np.random.Generator, kind: Kind, n: int) -> np.ndarray:
    """Row values: everywhere, often equal, sometimes at an end of the line."""
    found = rng.integers(0, 1_000, n)
    values = found / 8 if kind == "float64" else found
    if kind == "timestamp":
        values = values + FEW_TIMES
    return np.where(rng.random(n) < 0.03, rng.choice(ENDS[kind], n), values)


def draw_ranges(rng: np.random.Generator, kind: Kind, n: int, *, is_band: bool) -> np.ndarray:
    """`[end, query]`: around a few centres, some everywhere, some empty, some very wide."""
    centre = rng.choice(rng.integers(-500 if is_band else 0, 1_000, 12), n)
    centre = np.where(rng.random(n) < 0.2, rng.integers(-900, 1_000, n), centre)
    width = np.where(rng.random(n) < 0.02, 10**6, rng.geometric(0.05, n))
    ends = np.array([centre - rng.integers(0, 30, n), centre + width - 2])
    if kind == "float64":
        return ends / 8
    return ends + (FEW_TIMES if kind == "timestamp" and not is_band else 0)


def gaps_of(event: object, stored: list[object], *, minuend: bool) -> np.ndarray:
    """Differences of an event and the stored rows, ascending, within int64."""
    gaps = [minus(event, other) if minuend else minus(other, event) for other in stored]
    exact = [gap for gap in gaps if gap is not None]
    return np.sort([max(min(gap, FAR), -FAR) if isinstance(gap, int) else gap for gap in exact])


def count(values: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """How many of the ascending values each closed range holds."""
    found = values.searchsorted(ranges[1], "right") - values.searchsorted(ranges[0], "left")
    return np.maximum(found, 0)


def check_answer(answer: Answer, truth: np.ndarray, ids: np.ndarray) -> None:
    """Pairs, spans, counts and the number of result rows are those of `truth[event, query]`."""
    events, places = np.nonzero(truth)
    wanted = np.sort(events * 10**6 + ids[places])
    pairs = answer.pairs()
    got = pairs["row"].to_numpy() * 10**6 + pairs["query"].to_numpy()
    assert np.array_equal(np.sort(got), wanted), "pairs differ"
    assert np.array_equal(np.sort(_expanded(answer)), wanted), "spans differ"
    assert np.array_equal(answer.counts()["queries"].to_numpy(), (truth > 0).sum(axis=1))
    query, n_rows = np.unique(answer.rows()["query"].to_numpy(), return_counts=True)
    totals = truth.sum(axis=0)
    order = np.argsort(ids[totals > 0])
    assert np.array_equal(query, ids[totals > 0][order]), "rows name other queries"
    assert np.array_equal(n_rows, totals[totals > 0][order]), "result rows differ in number"


def _expanded(answer: Answer) -> np.ndarray:
    """The pairs that the spans stand for, as codes of row and query."""
    spans = answer.spans()
    start, stop, row, floor = (
        spans.spans[name].to_numpy() for name in ("start", "stop", "row", "floor")
    )
    sizes = stop - start
    span = np.repeat(np.arange(sizes.size), sizes)
    place = np.arange(span.size) - np.repeat(np.cumsum(sizes) - sizes - start, sizes)
    query = spans.order.fill_null(-1).to_numpy()[place]
    counts = (query >= 0) & (spans.rank.to_numpy()[place] >= floor[span])
    return row[span[counts]] * 10**6 + query[counts]


@every_case_of("filter", "band_join")
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_queries_are_exact(case: Case, kind: Kind) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    is_band = case.question == "band_join"
    shape = (BAND_SHAPES if is_band else FILTER_SHAPES)[0]
    names = "ab" if is_band else "a"
    world = World(case.question, kind, dict.fromkeys(names, "table"), shape, ("a.k",))
    engine = world.engine()
    group = world.register(engine, case.way)
    ids, ranges = np.empty(0, np.int64), draw_ranges(rng, kind, 0, is_band=is_band)
    stored: dict[str, dict[int, object]] = {name: {} for name in names}
    next_key = pairs = 0
    n_queries = min(N_QUERIES, 125 if case.way == "naive" else N_QUERIES)
    for _ in range(N_STEPS):
        more = draw_ranges(rng, kind, n_queries, is_band=is_band)
        gone = rng.random(ids.size) < 0.7
        added = group.add({"lo": more[0], "hi": more[1]}).to_numpy()
        group.remove(ids[gone])
        ids = np.concatenate([ids[~gone], added])
        ranges = np.concatenate([ranges[:, ~gone], more], axis=1)
        for name in names:
            values = draw_values(rng, kind, N_ROWS).tolist()
            keys = list(range(next_key, next_key + N_ROWS))
            next_key += N_ROWS
            batch = {"k": keys, "x": values, "y": keys, "s": [None] * N_ROWS}
            answer = engine.push(name, batch)[case.way]
            met = list(stored["b" if name == "a" else "a"].values()) if is_band else []
            truth = np.array([
                count(gaps_of(v, met, minuend=name == "b") if is_band else np.array([v]), ranges)
                for v in values
            ])  # fmt: skip
            check_answer(answer, truth, ids)
            pairs += np.count_nonzero(truth)
            stored[name] |= dict(zip(keys, values, strict=True))
            dropped = rng.permutation(list(stored[name]))[: N_ROWS // 2].tolist()
            engine.delete(name, {"k": dropped})
            stored[name] = {k: v for k, v in stored[name].items() if k not in dropped}
        engine.check()
    assert len(group) == ids.size > n_queries
    assert pairs > n_queries // 4
