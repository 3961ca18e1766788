"""Groups of standing queries: registering, ids, renumbering, what explain and metrics say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import standfast as sf
from engine.reading import pairs_of
from standfast.engine import registry
from standfast.engine.registry import Registry

FILTER = "SELECT * FROM trades WHERE price BETWEEN :lo AND :hi"
BAND = "SELECT * FROM trades t JOIN quotes q ON q.bid - t.price BETWEEN :lo AND :hi"
FAR = np.iinfo(np.int64).max


def engine_of() -> sf.Engine:
    engine = sf.Engine()
    engine.stream("trades", {"price": "float64", "size": "int64", "symbol": "string"})
    engine.stream("quotes", {"bid": "float64"})
    return engine


def group_of(strategy: str = "auto", sql: str = FILTER) -> tuple[sf.Engine, sf.Group]:
    engine = engine_of()
    return engine, engine.register(sql, name="g", strategy=strategy)


def hit(engine: sf.Engine, *prices: float) -> list[tuple[int, ...]]:
    n = len(prices)
    rows = {"price": list(prices), "size": [1] * n, "symbol": ["A"] * n}
    found = pairs_of(engine.push("trades", rows)["g"])
    engine.check()
    return found


REFUSED = [
    (FILTER, {"name": "g", "strategy": "fastest"}, sf.UnsupportedQuery,
     "strategy 'fastest' does not answer filter\n  hint: one of auto, naive, "),
    (FILTER, {"name": "g", "strategy": ["naive"]}, sf.UnsupportedQuery,
     "strategy ['naive'] does not answer filter\n  hint: one of auto, naive, "),
    (BAND, {"strategy": "interval_tree"}, sf.UnsupportedQuery,
     "strategy 'interval_tree' does not answer band_join\n  hint: one of auto, naive, "),
    (FILTER + " AND size > :s", {"strategy": "interval_tree"}, sf.UnsupportedQuery,
     "strategy 'interval_tree' takes up to 1 attributes, the template has 2\n"
     '  hint: pass strategy="auto"'),
    (FILTER, {"name": "taken"}, sf.BadInput, "the name 'taken' is taken by another template"),
    ("SELECT * FROM trade WHERE price > :lo", {"name": "g"}, sf.UnsupportedQuery,
     "template 'g': an unknown input: trade\n  hint: did you mean 'trades'?"),
    ("SELECT * FROM trades WHERE prise > :lo", {"name": "g"}, sf.UnsupportedQuery,
     "template 'g': "),
    ("SELECT * FROM trades WHERE price > 5", {"name": "g"}, sf.UnsupportedQuery,
     "template 'g': a template without a hole"),
    ("SELECT", {"name": "g"}, sf.UnsupportedQuery, "template 'g': "),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "options", "kind", "message"), REFUSED)
def test_a_template_that_cannot_be_answered_is_refused_and_leaves_no_trace(
    sql, options, kind, message
):
    engine = engine_of()
    engine.register(FILTER, name="taken")
    with pytest.raises(kind) as error:
        engine.register(sql, **options)
    assert str(error.value).startswith(message)
    assert list(engine.groups) == ["taken"]
    assert not engine._stores["quotes"].keeps


def test_a_template_without_a_name_gets_a_free_one():
    # A name given by the user was once handed out a second time.
    engine = engine_of()
    engine.register(FILTER, name="template_2")
    assert [engine.register(FILTER).name for _ in range(3)] == [
        "template_1", "template_3", "template_4",
    ]  # fmt: skip


PARAMETERS = {
    "dict of lists": {"lo": [1.0, 5.0], "hi": [2.0, 6.0]},
    "dict of arrays": {"lo": np.array([1, 5]), "hi": np.array([2.0, 6.0])},
    "one query": {"lo": 1, "hi": 2.0},
    "Arrow": pa.table({"hi": [2, 6], "lo": [1.0, 5.0]}),
    "pandas": pd.DataFrame({"lo": [1.0, 5.0], "hi": [2, 6]}),
    "polars": pl.DataFrame({"lo": [1.0, 5.0], "hi": [2.0, 6.0]}),
    "list of dicts": [{"lo": 1.0, "hi": 2.0}, {"lo": 5, "hi": 6}],
}


@pytest.mark.parametrize("kind", PARAMETERS)
def test_queries_come_in_every_columnar_type(kind):
    engine, group = group_of()
    ids = group.add(PARAMETERS[kind])
    assert ids.to_pylist() == list(range(len(group)))
    assert hit(engine, 1.5, 5.5)[:1] == [(0, 0)]


def test_no_queries_are_no_mistake():
    engine, group = group_of()
    assert group.add({"lo": [], "hi": []}).to_pylist() == []
    group.remove([])
    assert (len(group), hit(engine, 1.0)) == (0, [])


def test_ids_are_assigned_above_the_largest_so_far_or_taken_as_given():
    _, group = group_of()
    bounds = {"lo": [1, 1], "hi": [2, 2]}
    assert group.add(bounds).to_pylist() == [0, 1]
    assert group.add(bounds | {"id": [50, -7]}).to_pylist() == [50, -7]
    assert group.add(bounds).to_pylist() == [51, 52]
    group.remove([51, 52])
    assert group.add(bounds).to_pylist() == [53, 54]
    assert repr(group).startswith("Group('g', 6 queries, ")


def test_an_id_can_be_used_again_after_its_removal():
    engine, group = group_of()
    group.add({"lo": 1, "hi": 2, "id": 7})
    group.remove(7)
    group.add({"lo": 5, "hi": 6, "id": 7})
    assert hit(engine, 1.5, 5.5) == [(1, 7)]


def test_ids_end_with_int64():
    # Beyond that they once wrapped around to the negative end.
    _, group = group_of()
    assert group.add({"lo": 1, "hi": 2, "id": FAR}).to_pylist() == [FAR]
    with pytest.raises(sf.BadParameters) as error:
        group.add({"lo": 1, "hi": 2})
    assert str(error.value) == (
        f"template 'g': cannot assign 1 ids above {FAR}, the largest so far\n"
        "  hint: pass a column id"
    )
    assert group.add({"lo": [], "hi": []}).to_pylist() == []
    assert group.add({"lo": 1, "hi": 2, "id": 3}).to_pylist() == [3]


BAD_QUERIES = [
    ({"lo": [1.0], "hi": [2.0], "id": [7]}, "template 'g': id 7 is taken by a living query"),
    ({"lo": [1.0] * 3, "hi": [2.0] * 3, "id": [8, 9, 8]}, "template 'g': id 8 appears twice"),
    (
        # Each is more than the one before if differences are taken in int64.
        {"lo": [1.0] * 4, "hi": [2.0] * 4, "id": [8, 6 * 10**18, -6 * 10**18, 8]},
        "template 'g': id 8 appears twice",
    ),
    ({"lo": [1.0]}, "template 'g': parameter 'hi' is missing"),
    ({"lo": [1.0], "hi": [2.0], "high": [3.0]}, "template 'g': unknown parameter 'high'"),
    ({"lo": [1.0, float("nan")], "hi": [2.0, 2.0]}, "template 'g': parameter 'lo' is NaN in row 1"),
    ({"lo": [1.0, None], "hi": [2.0, 2.0]}, "template 'g': parameter 'lo' is null in row 1"),
    ({"lo": ["a"], "hi": [2.0]}, "template 'g': parameter 'lo' takes numbers, got string"),
    ({"lo": [1.0, 2.0], "hi": [2.0]}, "template 'g': columns of unequal length"),
    (17, "template 'g': not a set of columns"),
]


@pytest.mark.parametrize(("params", "message"), BAD_QUERIES)
def test_a_mistake_in_the_parameters_applies_nothing_of_the_call(params, message):
    engine, group = group_of()
    group.add({"lo": 1.0, "hi": 2.0, "id": 7})
    with pytest.raises(sf.BadParameters) as error:
        group.add(params)
    assert str(error.value).startswith(message)
    assert (len(group), hit(engine, 1.5)) == (1, [(0, 7)])
    assert group.add({"lo": 1.0, "hi": 2.0}).to_pylist() == [8]


def test_strings_of_a_refused_call_get_no_codes():
    # They were once kept, though nothing of the call may be applied.
    _, group = group_of(sql="SELECT * FROM trades WHERE symbol = :symbol")
    group.add({"symbol": ["A"], "id": [1]})
    with pytest.raises(sf.BadParameters, match="id 1 is taken"):
        group.add({"symbol": ["B", "C"], "id": [2, 1]})
    assert group.strings.codes == {"A": 0}


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 99, 2], "template 'g': id 99 is not a living query\n  hint: nothing was removed"),
        ([1, 2, 1], "template 'g': id 1 appears twice"),
        (["1"], "template 'g': parameter 'id' takes integers"),
        ([None], "template 'g': parameter 'id'"),
    ],
)
def test_a_mistake_in_the_ids_removes_nothing(ids, message):
    engine, group = group_of()
    group.add({"lo": [1, 1, 1], "hi": [2, 2, 2]})
    with pytest.raises(sf.BadParameters) as error:
        group.remove(ids)
    assert str(error.value).startswith(message)
    assert hit(engine, 1.5) == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("ids", [[0, 2], np.array([2, 0]), pa.array([0, 2]), pd.Series([0, 2])])
def test_ids_to_remove_come_as_any_column(ids):
    engine, group = group_of()
    group.add({"lo": [1, 1, 1], "hi": [2, 2, 2]})
    group.remove(ids)
    assert hit(engine, 1.5) == [(0, 1)]


@pytest.mark.parametrize(("strategy", "sql"), [("auto", FILTER), ("auto", BAND), ("merge", BAND)])
def test_slots_are_renumbered_when_most_are_dead_and_nobody_notices(monkeypatch, strategy, sql):
    monkeypatch.setattr(registry, "FEW", 3)
    engine, group = group_of(strategy, sql)
    n = 60
    ids = group.add({"lo": np.arange(n), "hi": np.arange(n) + 4, "id": np.arange(n) * 10})
    engine.push("quotes", {"bid": [0.0, 100.0]})
    sizes = set()
    order = np.random.default_rng(5).permutation(n)
    for done, gone in enumerate(order, 1):
        group.remove(ids[int(gone)].as_py())
        sizes.add(group.registry.n_slots)
        left = sorted(set(range(n)) - set(order[:done].tolist()))
        offset = 0.0 if sql == FILTER else 100.0
        probe = 30.0
        expected = [(0, 10 * i) for i in left if i <= probe <= i + 4]
        price = probe if sql == FILTER else offset - probe
        assert hit(engine, price) == expected
        assert group.registry.n_slots <= 2 * max(3, len(group)) + 1
    assert len(sizes) > 3
    assert group.add({"lo": 0, "hi": 1}).to_pylist() == [10 * n - 9]


def test_switching_the_strategy_changes_no_answer_and_a_wrong_one_changes_nothing():
    engine, group = group_of("naive")
    group.add({"lo": [1.0, 5.0, 3.0], "hi": [2.0, 6.0, 1.0]})
    before = hit(engine, 1.5, 5.5, 9.0)
    group.switch("interval_tree")
    assert (group.way, hit(engine, 1.5, 5.5, 9.0)) == ("interval_tree", before)
    with pytest.raises(sf.UnsupportedQuery):
        group.switch("magic")
    assert (group.way, hit(engine, 1.5, 5.5, 9.0)) == ("interval_tree", before)


@pytest.mark.parametrize(
    ("strategy", "promise"),
    [("auto", "exact, float sums but for rounding; "), ("naive", "exact; O(1) update")],
)
def test_explain_tells_where_sums_are_rounded(strategy, promise):
    """It promised exact answers of sums that are within a bound."""
    engine = sf.Engine()
    engine.stream("s", {"a": "float64", "ts": "timestamp"}, time="ts")
    over = "OVER (ORDER BY ts ROWS BETWEEN :n PRECEDING AND CURRENT ROW) FROM s"
    group = engine.register(f"SELECT SUM(a) {over}", strategy=strategy)
    assert f"promise  {promise}" in group.explain()


def test_explain_tells_question_strategy_inside_and_cost():
    engine, group = group_of("groups", BAND)
    group.add({"lo": [0.0, 1.0, 100.0], "hi": [2.0, 3.0, 101.0]})
    engine.push("quotes", {"bid": [1.0]})
    hit(engine, 0.0, float("nan"))
    lines = dict(line.strip().split("  ", 1) for line in group.explain().splitlines())
    assert lines["template"] == "g: band_join over trades, quotes"
    assert lines["holes"] == ":lo float64, :hi float64"
    assert lines["queries"] == "3"
    assert lines["strategy"] == "groups (BJ-SSI [hotspot] 3.1.2), as asked"
    assert lines["promise"].startswith("exact; O(")
    assert lines["inside"].startswith("2 groups")
    assert lines["memory"].endswith("MB beyond the parameters")
    assert lines["measured"].startswith("3 events, ")
    auto = engine.register(FILTER, name="auto")
    assert "chosen as the best known way" in auto.explain()
    assert "filter over trades" in auto.explain()


def test_metrics_count_what_each_group_holds_and_has_done():
    engine, group = group_of()
    group.add({"lo": [1.0, 2.0], "hi": [2.0, 1.0]})
    hit(engine, 1.5, float("nan"))
    metrics = engine.metrics()["groups"]["g"]
    assert (metrics["queries"], metrics["events"], metrics["unmatched"]) == (2, 2, 1)
    assert metrics["strategy"] == group.way
    assert metrics["seconds"] == 0  # the first batch may compile, so it is no measure
    hit(engine, 1.5)
    assert engine.metrics()["groups"]["g"]["seconds"] > 0
    assert metrics["memory_bytes"] == group.memory_bytes() > 0


HISTORY = st.lists(
    st.tuples(st.booleans(), st.lists(st.integers(-20, 20), unique=True, max_size=6)), max_size=12
)


@given(HISTORY)
def test_a_registry_leads_from_every_living_id_to_its_ranges(history):
    known, queries = Registry(1), {}
    for is_add, ids in history:
        if is_add:
            fresh = np.array([i for i in ids if i not in queries], np.int64)
            known.add(fresh, fresh[None] * 2, fresh[None] * 2 + 1)
            queries.update({int(i): (2 * int(i), 2 * int(i) + 1) for i in fresh})
        else:
            gone = np.array([i for i in ids if i in queries], np.int64)
            slots = known.remove(gone)
            assert known.ids[slots].tolist() == gone.tolist()
            queries = {i: r for i, r in queries.items() if i not in ids}
        if known.n_slots > 2 * len(queries):
            known.renumber()
        known.check()
        slots = known.living()
        found = zip(known.ids[slots].tolist(), known.lows[0, slots].tolist(), strict=True)
        assert {i: (low, low + 1) for i, low in found} == queries


def test_check_notices_a_registry_whose_ids_lead_astray():
    known = Registry(1)
    known.add(np.array([5, 6]), np.zeros((1, 2), np.int64), np.ones((1, 2), np.int64))
    known._ids[0] = 99
    with pytest.raises(AssertionError, match="an id leads to another slot"):
        known.check()
    known._alive[0] = False
    with pytest.raises(AssertionError, match="differ in number"):
        known.check()


def test_costs_are_told_once_they_are_measured():
    engine = sf.Engine()
    engine.stream("s", {"x": "float64"})
    group = engine.register("SELECT * FROM s WHERE x > :low")
    group.add({"low": [1.0]})
    engine.push("s", {"x": [2.0]})  # the first batch is left out
    assert "measured  1 events, too few to tell what one costs" in group.explain()
    for _ in range(3):  # one of them may load a kernel
        engine.push("s", {"x": [2.0]})
    assert "us each, compiling apart" in group.explain()
