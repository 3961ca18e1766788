"""Joins through the engine: equality keys, further conditions, windows, and rows that expire."""

from __future__ import annotations

from typing import Any

import pytest

import standfast as sf
from engine.reading import pairs_of
from standfast.arrays import Hits
from standfast.engine import joins, store, strings
from standfast.engine.pairs import Events
from standfast.operators.catalog import SELECT_JOINS, WINDOW_JOINS

SECOND = 1_000_000
COASTAL = """
    SELECT u.id AS unit, t.id AS target FROM unit AS u JOIN target AS t
    ON u.pos - t.pos BETWEEN :lo AND :hi WHERE u.model = {model} AND t.type = {type}
"""


def coast() -> sf.Engine:
    engine = sf.Engine()
    engine.stream("unit", {"id": "int64", "model": "string", "pos": "float64"})
    engine.stream("target", {"id": "int64", "type": "string", "pos": "float64"})
    return engine


def sighted(engine: sf.Engine) -> dict[str, sf.Answer]:
    """Two batteries and a radar on the coast, then three targets before them."""
    units = {"id": [1, 2, 3], "model": ["BB", "BB", "RR"], "pos": [10.0, 50.0, 11.0]}
    engine.push("unit", units)
    return engine.push(
        "target", {"id": [7, 8, 9], "type": ["surface", "air", "surface"], "pos": [9.0, 9.5, 70.0]}
    )


def test_a_band_join_with_literal_conditions_alerts_only_for_its_class():
    engine = coast()
    group = engine.register(COASTAL.format(model="'BB'", type="'surface'"), name="alerts")
    group.add({"lo": [-5.0, -30.0], "hi": [5.0, 0.0], "id": [100, 200]})
    answer = sighted(engine)["alerts"]
    assert pairs_of(answer) == [(0, 100), (2, 200)]
    assert sorted((r["query"], r["unit"], r["target"]) for r in answer.rows().to_pylist()) == [
        (100, 1, 7), (200, 2, 9),
    ]  # fmt: skip
    assert "u.model before the index, t.type before the index" in group.explain()


def test_classes_that_differ_between_queries_are_tested_pair_by_pair():
    engine = coast()
    group = engine.register(COASTAL.format(model=":model", type=":type"), name="alerts")
    group.add(
        {
            "lo": [-5.0, -5.0, -5.0, -5.0], "hi": [5.0, 5.0, 5.0, 5.0],
            "model": ["BB", "RR", "BB", "XX"], "type": ["surface", "surface", "air", "air"],
            "id": [1, 2, 3, 4],
        }
    )  # fmt: skip
    answer = sighted(engine)["alerts"]
    assert pairs_of(answer) == [(0, 1), (0, 2), (1, 3)]
    assert [r["unit"] for r in answer.rows().to_pylist()] == [1, 3, 1]
    assert "u.model pair by pair (post-filter)" in group.explain()
    engine.check()


def test_pairs_are_tested_some_events_at_a_time(monkeypatch):
    monkeypatch.setattr(joins, "PAIRS_AT_ONCE", 1)
    engine = coast()
    group = engine.register(COASTAL.format(model=":model", type="'surface'"), name="alerts")
    group.add({"lo": [-90.0] * 2, "hi": [90.0] * 2, "model": ["BB", "RR"], "id": [1, 2]})
    assert pairs_of(sighted(engine)["alerts"]) == [(0, 1), (0, 2), (2, 1), (2, 2)]


def turns_of(engine: sf.Engine, monkeypatch: pytest.MonkeyPatch, targets: list[float]) -> list[int]:
    """How many events were tested at once, turn by turn, for targets in the air at these places."""
    turns, hits = list[int](), joins.JoinReader._hits

    def counted(self: joins.JoinReader, events: Events, *args: Any) -> Hits:
        turns.append(events.values.size)
        return hits(self, events, *args)

    with monkeypatch.context() as patch:
        patch.setattr(joins.JoinReader, "_hits", counted)
        n = len(targets)
        answer = engine.push("target", {"id": [*range(n)], "type": ["air"] * n, "pos": targets})
    assert pairs_of(answer["alerts"]) == [(i, 7) for i in range(n) if targets[i] > 0]
    return turns


def test_as_many_events_at_once_as_have_few_candidates(monkeypatch):
    """They were as many as if every query were a candidate: with a million of them, 16."""
    monkeypatch.setattr(joins, "PAIRS_AT_ONCE", 1000)
    engine = coast()
    group = engine.register(COASTAL.format(model=":model", type="'air'"), name="alerts")
    bands = {"lo": [0.0] + [5.0] * 499, "hi": [1.0] + [6.0] * 499, "id": [*range(7, 507)]}
    group.add(bands | {"model": ["BB"] + ["RR"] * 499})
    engine.push("unit", {"id": [1], "model": ["BB"], "pos": [1.0]})
    assert turns_of(engine, monkeypatch, [0.5] * 90) == [2, 32, 32, 24]
    assert turns_of(engine, monkeypatch, [0.5] * 40) == [32, 8], "known from the batch before"
    # Each of these has 499 candidates, of which none is left.
    assert turns_of(engine, monkeypatch, [-4.5] * 8) == [8, 2, 2, 2, 2]
    assert turns_of(engine, monkeypatch, [0.5] * 3) == [2, 1]
    # However few candidates there were, many queries more can mean many candidates more.
    more = {"lo": [0.0] * 500, "hi": [1.0] * 500, "model": ["RR"] * 500, "id": [*range(507, 1007)]}
    group.add(more)
    assert turns_of(engine, monkeypatch, [0.5] * 20) == [16, *[1] * 20]
    engine.check()


@pytest.mark.parametrize("way", [*SELECT_JOINS, "auto"])
def test_a_further_range_on_the_stored_side_needs_one_row_that_satisfies_everything(way: str):
    engine = sf.Engine()
    engine.stream("supply", {"product": "string", "quantity": "int64"})
    engine.stream("demand", {"product": "string", "quantity": "int64", "price": "int64"})
    group = engine.register(
        """SELECT * FROM supply AS s JOIN demand AS d ON s.product = d.product
           WHERE s.quantity >= :least AND d.quantity BETWEEN :lo AND :hi AND d.price < :price""",
        name="alerts", strategy=way,
    )  # fmt: skip
    group.add({"least": [1, 1], "lo": [5, 5], "hi": [9, 9], "price": [20, 31], "id": [1, 2]})
    rows = {"product": ["fig", "fig", "nut"], "quantity": [5, 20, 6], "price": [30, 10, 10]}
    engine.push("demand", rows)
    answer = engine.push("supply", {"product": ["fig", "oat", None], "quantity": [3, 3, 3]})
    assert pairs_of(answer["alerts"]) == [(0, 2)]
    assert [r["d.price"] for r in answer["alerts"].rows().to_pylist()] == [30]
    engine.check()


def market(lateness_us: int | None = 2 * SECOND, way: str = "auto") -> tuple[sf.Engine, sf.Group]:
    """Orders and offers of products that meet when they come close in time."""
    engine = sf.Engine()
    for name in ("orders", "offers"):
        engine.stream(
            name, {"product": "int64", "price": "int64", "ts": "timestamp"},
            time="ts", lateness_us=lateness_us,
        )  # fmt: skip
    group = engine.register(
        """SELECT * FROM orders AS o JOIN offers AS f ON o.product = f.product
           WHERE o.price >= :ask AND f.price <= :bid AND ABS(o.ts - f.ts) < :window""",
        name="deals", strategy=way,
    )  # fmt: skip
    return engine, group


def rows_at(*seconds: float, product: int = 1, price: int = 10) -> dict[str, list[int]]:
    n = len(seconds)
    times = [int(s * SECOND) for s in seconds]
    return {"product": [product] * n, "price": [price] * n, "ts": times}


@pytest.mark.parametrize("way", [*WINDOW_JOINS, "auto"])
def test_a_window_holds_rows_before_and_after_but_not_at_its_end(way: str):
    engine, group = market(way=way)
    group.add({"ask": [0, 0], "bid": [99, 99], "window": [3 * SECOND, 4 * SECOND], "id": [3, 4]})
    engine.push("offers", rows_at(10, 13, 16.5))
    answer = engine.push("orders", rows_at(13.5, 16, 20))["deals"]
    assert pairs_of(answer) == [(0, 3), (0, 4), (1, 3), (1, 4), (2, 4)]
    found = [(r["query"], r["o.ts"].second, r["f.ts"].second) for r in answer.rows().to_pylist()]
    assert sorted(found) == [
        (3, 13, 13), (3, 16, 16), (4, 13, 10), (4, 13, 13), (4, 13, 16), (4, 16, 13), (4, 16, 16),
        (4, 20, 16),
    ]  # fmt: skip


def test_memory_is_flat_over_a_stream_ten_times_longer_than_the_window():
    engine, group = market()
    group.add({"ask": [0], "bid": [99], "window": [100 * SECOND]})
    stored, pairs = [], 0
    for second in range(0, 2000, 10):
        seconds = [second + i / 4 for i in range(40)]
        engine.push("offers", rows_at(*seconds))
        pairs += engine.push("orders", rows_at(*seconds))["deals"].pairs().num_rows
        stored.append(engine.metrics()["inputs"]["offers"]["stored"])
    needed = 4 * (100 + 2 + 10)
    assert pairs == 200 * 40
    assert max(stored) <= 1.5 * needed
    assert min(stored[20:]) >= 400, "rows that a window can still reach are gone"
    engine.check()


def test_without_a_stated_lateness_no_row_is_ever_too_old():
    engine, group = market(lateness_us=None)
    group.add({"ask": 0, "bid": 99, "window": SECOND})
    for second in range(0, 1000, 10):
        engine.push("offers", rows_at(second))
        engine.push("orders", rows_at(second + 500))
    assert engine.metrics()["inputs"]["offers"]["stored"] == 100
    assert engine.push("orders", rows_at(0.5))["deals"].pairs().num_rows == 1


def test_a_wider_window_sees_exactly_the_rows_that_the_widest_so_far_needed(monkeypatch):
    """However many rows lie around because letting them go did not pay yet."""
    for look_again in (1, 1000):
        monkeypatch.setattr(store, "LOOK_AGAIN", look_again)
        engine, group = market(lateness_us=0)
        group.add({"ask": [0], "bid": [99], "window": [10 * SECOND], "id": [1]})
        engine.push("offers", rows_at(*range(100)))
        engine.push("orders", rows_at(99))
        group.add({"ask": [0], "bid": [99], "window": [500 * SECOND], "id": [2]})
        answer = engine.push("orders", rows_at(99))["deals"]
        found = [
            r["f.ts"].second + 60 * r["f.ts"].minute
            for r in answer.rows().to_pylist()
            if r["query"] == 2
        ]
        assert found == list(range(90, 100))
        assert engine.metrics()["inputs"]["offers"]["stored"] == 10


def test_a_stream_that_another_join_reads_keeps_every_row():
    engine, group = market(lateness_us=0)
    engine.register(
        "SELECT * FROM orders AS o JOIN offers AS f ON o.product = f.product WHERE f.price > :p",
        name="all",
    )
    group.add({"ask": 0, "bid": 99, "window": SECOND})
    for second in range(0, 300, 3):
        engine.push("offers", rows_at(second))
        engine.push("orders", rows_at(second))
    assert engine.metrics()["inputs"]["offers"]["stored"] == 100


def test_a_restored_engine_lets_rows_go_as_the_saved_one_did(tmp_path):
    engine, group = market(lateness_us=0)
    group.add({"ask": [0], "bid": [99], "window": [10 * SECOND]})
    engine.push("offers", rows_at(*range(100)))
    engine.push("orders", rows_at(99))
    engine.snapshot(tmp_path / "deals")
    restored = sf.Engine.restore(tmp_path / "deals")
    for one in (engine, restored):
        one.groups["deals"].add({"ask": 0, "bid": 99, "window": 500 * SECOND, "id": 2})
    answers = [one.push("orders", rows_at(99))["deals"].rows() for one in (engine, restored)]
    assert answers[0].num_rows == 20
    # In which order they come depends on the way, which the routers may choose differently.
    by_place = [("query", "ascending"), ("f.ts", "ascending")]
    assert answers[0].sort_by(by_place).equals(answers[1].sort_by(by_place))


def test_a_restored_engine_knows_the_window_of_queries_that_went():
    """It kept every row: the window of the last query was not written down."""
    engine, group = market(lateness_us=0)
    group.remove(group.add({"ask": [0], "bid": [99], "window": [10 * SECOND]}))
    found = []
    for one in (engine, sf.Engine.from_bytes(engine.to_bytes())):
        for second in range(100):
            one.push("offers", rows_at(second))
            one.push("orders", rows_at(second))
        one.groups["deals"].add({"ask": 0, "bid": 99, "window": 500 * SECOND, "id": 2})
        found.append(one.push("orders", rows_at(99))["deals"].rows().num_rows)
    assert found == [10, 10]


def test_strings_of_rows_that_expired_are_forgotten(monkeypatch):
    monkeypatch.setattr(strings, "FEW", 20)
    engine = sf.Engine()
    for name in ("a", "b"):
        engine.stream(name, {"word": "string", "ts": "timestamp"}, time="ts", lateness_us=0)
    engine._strings._many = 20
    group = engine.register(
        "SELECT * FROM a JOIN b ON a.word = b.word AND ABS(a.ts - b.ts) < :w", name="w"
    )
    group.add({"w": 10 * SECOND})
    pairs = 0
    for second in range(500):
        row = {"word": [f"word {second}"], "ts": [second * SECOND]}
        engine.push("b", row)
        pairs += engine.push("a", row)["w"].pairs().num_rows
    assert pairs == 500
    assert len(engine._strings.codes) < 60, "words of the past are kept"
    engine.check()


@pytest.mark.parametrize("look_again", [1, 1000])
def test_a_late_row_that_a_wider_window_needs_is_kept(monkeypatch, look_again: int):
    monkeypatch.setattr(store, "LOOK_AGAIN", look_again)
    engine, group = market(lateness_us=50 * SECOND)
    group.add({"ask": [0], "bid": [99], "window": [10 * SECOND], "id": [1]})
    engine.push("offers", rows_at(1000))
    engine.push("orders", rows_at(1000))
    group.add({"ask": [0], "bid": [99], "window": [50 * SECOND], "id": [2]})
    engine.push("offers", rows_at(955, product=2))
    found = engine.push("orders", rows_at(1000, product=2))["deals"]
    assert pairs_of(found) == [(0, 2)]


def test_a_wider_window_takes_nothing_from_a_join_that_needs_every_row():
    engine, group = market(lateness_us=50 * SECOND)
    group.add({"ask": [0], "bid": [99], "window": [10 * SECOND], "id": [1]})
    engine.push("offers", rows_at(1000))
    engine.push("orders", rows_at(1000))
    every = engine.register(
        "SELECT * FROM orders AS o JOIN offers AS f ON o.product = f.product WHERE f.price > :p",
        name="all",
    )
    every.add({"p": 0})
    engine.push("offers", rows_at(951))
    group.add({"ask": [0], "bid": [99], "window": [500 * SECOND], "id": [2]})
    assert engine.push("orders", rows_at(1000))["all"].rows().num_rows == 2


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("last", [0, 50])
def test_a_template_whose_queries_all_went_keeps_no_more_than_before(calls: int, last: int):
    """It kept every row when no batch came between two removals, or before the first one."""
    engine, group = market(lateness_us=0)
    ids = group.add({"ask": [0, 0], "bid": [99, 99], "window": [15 * SECOND, 10 * SECOND]})
    for second in range(200):
        if second == last:
            for first in range(0, 2, 2 // calls):
                group.remove(ids[first : first + 2 // calls])
        engine.push("offers", rows_at(second))
        engine.push("orders", rows_at(second))
    assert engine.metrics()["inputs"]["offers"]["stored"] < 20


def test_a_refused_strategy_leaves_nothing_behind():
    engine, _ = market()
    users = len(engine._strings._users)
    with pytest.raises(sf.StandfastError, match="does not answer"):
        engine.register("SELECT * FROM orders WHERE price > :p", strategy="nonsense")
    assert len(engine._strings._users) == users


def test_a_forgone_stream_is_answered_and_not_kept():
    engine = sf.Engine()
    for name in ("live", "still"):
        engine.stream(name, {"v": "int64"})
    group = engine.register("SELECT * FROM live l JOIN still s ON l.v - s.v BETWEEN :lo AND :hi")
    group.add({"lo": [0], "hi": [5]})
    engine.forgo("live")
    engine.push("still", {"v": [10]})
    for _ in range(3):
        assert engine.push("live", {"v": [12, 20]})[group.name].counts()["queries"].to_pylist() == [
            1,
            0,
        ]
    assert engine.metrics()["inputs"]["live"]["stored"] == 0
    assert not engine.holds_rows("live")
    assert engine.holds_rows("still")
    engine.check()
    with pytest.raises(sf.BadInput, match="the rows of 'still' are needed"):
        engine.forgo("still")
