"""An aggregate of the user's own that fails: nobody else is touched, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

import standfast as sf
from standfast.engine import rereading
from standfast.operators.aggregates import serves
from standfast.operators.catalog import WINDOW_AGGREGATES

WAYS = [way for way, made in WINDOW_AGGREGATES.items() if serves(made.spec.needs, "subtractable")]
BY_ROWS = "OVER (ORDER BY ts ROWS BETWEEN :left PRECEDING AND CURRENT ROW) AS v FROM s"
BY_KEY = """OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :left PRECEDING AND CURRENT ROW) AS v
         FROM s"""
WINDOWS = {"rows": BY_ROWS, "range": BY_ROWS.replace("ROWS", "RANGE"), "key": BY_KEY}
BAD = 13.0


class Total:
    """A sum that fails on one value, in the steps named, until it is mended."""

    def __init__(self, *steps):
        self.steps = steps

    def functions(self):
        return sf.UserAggregate(self.lift, self.combine, self.lower, self.inverse)

    def lift(self, values):
        self._look("lift", values)
        return values[:, None]

    def combine(self, one, other):
        self._look("combine", one[:, 0], other[:, 0])
        return one + other

    def lower(self, kept):
        self._look("lower", kept[:, 0])
        return kept[:, 0]

    def inverse(self, total, part):
        return total - part

    def _look(self, step, *values):
        if step in self.steps and any((some >= BAD).any() for some in values):
            raise ValueError("13!")


class World:
    """A stream with a template of the user's between two others, and all that was told of them."""

    def __init__(self, total, way, window="rows"):
        self.engine = sf.Engine()
        self.engine.aggregate("total", total.functions())
        columns = {"ts": "timestamp", "k": "string", "a": "float64"}
        self.engine.stream("s", columns, time="ts")
        for name, function in {"before": "SUM", "own": "total", "after": "SUM"}.items():
            sql = f"SELECT {function}(a) {WINDOWS[window]}"
            strategy = way if name == "own" else "auto"
            self.engine.register(sql, name=name, strategy=strategy)
            self.engine.groups[name].add({"id": [1, 2], "left": [1, 5]})
        self.engine.register("SELECT a FROM s WHERE a > :least", name="large").add({"least": [9.0]})
        self.told = {}

    def push(self, time, values):
        rows = {"ts": np.full(len(values), time, "M8[us]"), "k": list("xyz" * len(values))}
        rows = {**rows, "k": rows["k"][: len(values)], "a": np.array(values, np.float64)}
        self.tell(answers := self.engine.push("s", rows))
        return answers

    def tell(self, answers):
        for name, answer in answers.items():
            for row in [] if answer.failed else answer.rows().to_pylist():
                key = (name, *(row[column] for column in row if column != "change"))
                self.told[key] = self.told.get(key, 0) + row["change"]

    def check_told(self, *names):
        """What was told adds up to the answers of now."""
        for name in names:
            told = {key[1:] for key, n in self.told.items() if key[0] == name and n}
            assert set(self.told.values()) <= {0, 1}
            now = self.engine.groups[name].lookup().to_pylist()
            assert told == {tuple(row.values()) for row in now}, name


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("way", ["auto", *WAYS])
@pytest.mark.parametrize("step", ["lift", "combine", "lower"])
def test_other_templates_are_answered_and_its_own_is_once_it_is_mended(step, way, window):
    total = Total(step)
    world = World(total, way, window)
    world.push(1, [1.0, 2.0])
    for time, values in [(2, [BAD, 3.0]), (3, [4.0]), (4, [0.5, 0.5])]:
        answers = world.push(time, values)
        world.check_told("before", "after")
    assert world.told["large", 0, BAD] == 1
    with pytest.raises(sf.FailedAggregate, match="template 'own': aggregate 'total' fails: Val"):
        world.engine.groups["own"].lookup()
    with pytest.raises(sf.FailedAggregate, match="13!"):
        answers["own"].rows()
    total.steps = ()
    world.tell(world.engine.report())
    world.check_told("before", "own", "after")
    own, sums = (world.engine.groups[name].lookup() for name in ("own", "after"))
    assert own.to_pydict() == sums.to_pydict()
    world.engine.check()


@pytest.mark.parametrize("way", ["auto", *WAYS])
def test_a_failure_is_over_when_the_row_has_left_the_windows(way):
    world = World(Total("lift"), way)
    assert world.push(1, [BAD])["own"].failed
    for time in range(2, 9):
        world.push(time, [1.0])
    world.check_told("before", "own", "after")
    world.engine.check()


@pytest.mark.parametrize("way", ["auto", *WAYS])
def test_queries_come_and_go_while_it_fails(way):
    total = Total("lift")
    world = World(total, way)
    world.push(1, [1.0, BAD])
    group = world.engine.groups["own"]
    group.add({"id": [7, 8], "left": [0, 100]})
    group.remove([1, 8])
    group.switch("naive")
    group.switch(way)
    assert len(group) == 2
    copy = sf.Engine.from_bytes(world.engine.to_bytes(), aggregates={"total": Total().functions()})
    assert copy.groups["own"].lookup().to_pydict() == {"query": [2, 7], "v": [14.0, BAD]}
    total.steps = ()
    assert group.lookup().to_pydict() == {"query": [2, 7], "v": [14.0, BAD]}


def test_a_report_that_fails_half_way_is_told_in_full_later(monkeypatch):
    monkeypatch.setattr(rereading, "AT_ONCE", 1)
    total = Total()
    world = World(total, "auto", "key")
    world.push(1, [1.0, 2.0, 3.0])
    total.steps = ("lower",)
    assert world.push(2, [1.0, 2.0, 12.0])["own"].failed
    assert world.push(3, [1.0])["own"].failed
    total.steps = ()
    world.push(4, [1.0])
    world.check_told("before", "own", "after")


def test_an_answer_that_failed_says_so():
    answer = World(Total("lift"), "auto").push(1, [BAD])["own"]
    assert repr(answer) == "Answer(1 rows, failed)"
    assert isinstance(answer.failed.__cause__, ValueError)
    for ask in (answer.counts, answer.pairs, answer.rows, answer.spans):
        with pytest.raises(sf.FailedAggregate, match="hint: rows are kept and it is tried again"):
            ask()


def test_explain_tells_of_a_failure():
    world = World(Total("lift"), "base_intervals")
    world.push(1, [BAD])
    assert "inside  state failed" in world.engine.groups["own"].explain()
