"""The world of a history: which inputs there are, which template stands, and what it means.

FROM a                 rows (k, x, y, s): key, the compared number, another number, a text
FROM a JOIN b          a self join reads `a` under both names; further columns are
                       j   what select-joins and window joins join on
                       t   the time of window joins, and the event time of timed streams
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal, NamedTuple

from tests.contract.numbers import FEW_TIMES, KINDS, Kind
from tests.contract.shapes import SHAPES, Shape

from standfast import Engine, Group
from standfast.operators.catalog import CATALOG, QuestionName

NOW_US = 2**62  # the clock: no time of a test is ahead of it


# One value of each kind, for columns that are all equal.
EQUAL: dict[str, Any] = {"int64": 7, "float64": 7.5, "timestamp": FEW_TIMES, "string": "p"}


class Case(NamedTuple):
    """One entry of the catalogue."""

    question: QuestionName
    way: str

    def __str__(self) -> str:
        return f"{self.question}-{self.way}"

    @property
    def max_attributes(self) -> int:
        """How many columns a filter may have; whoever chooses takes all."""
        ways = CATALOG[self.question]
        return ways[self.way].spec.max_attributes if self.way in ways else 16


# Questions about rows, one by one; windows have worlds of their own (`window_worlds`).
QUESTIONS: tuple[QuestionName, ...] = ("filter", "band_join", "select_join", "window_join")
CASES = [Case(question, way) for question in QUESTIONS for way in CATALOG[question]]


def cases_of(*questions: str) -> list[Case]:
    """The entries of some questions."""
    return [case for case in CASES if case.question in questions]


# The engine chooses the way.
CHOICES = [Case(question, "auto") for question in QUESTIONS]


KeyKind = Literal["int64", "float64", "timestamp", "string"]
KEY_KINDS: tuple[KeyKind, ...] = ("int64", "int64", "string", "float64", "timestamp")

# Inputs by name; a self join has one input under two names.
Inputs = dict[str, Literal["stream", "table"]]
FILTER_INPUTS: tuple[Inputs, ...] = ({"a": "stream"}, {"a": "table"})
JOIN_INPUTS: tuple[Inputs, ...] = (
    {"a": "stream", "b": "stream"},
    {"a": "table", "b": "table"},
    {"a": "stream", "b": "table"},
    {"a": "table", "b": "stream"},
    {"a": "stream"},
    {"a": "table"},
)


@dataclass(frozen=True, slots=True)
class World:
    """Inputs and one template over them; `time` gives streams an event time and a lateness.

    `key` is the kind of the join keys, `clock` that of the times of a window join. No window of a
    query is wider than `widest`; None sets no limit.
    """

    question: QuestionName
    kind: Kind
    inputs: Inputs
    shape: Shape
    select: tuple[str, ...] = ()
    time: bool = False
    lateness_us: int | None = None
    key: KeyKind = "int64"
    clock: Kind = "timestamp"
    widest: int | None = None

    @property
    def sides(self) -> tuple[str, ...]:
        """The input of each side of FROM."""
        if self.question == "filter":
            return ("a",)
        return ("a", "b") if "b" in self.inputs else ("a", "a")

    @property
    def is_self_join(self) -> bool:
        return self.sides == ("a", "a")

    @property
    def has_keys(self) -> bool:
        return self.question in ("select_join", "window_join")

    def columns(self, name: str) -> dict[str, str]:
        """The columns of an input with their kinds; a time comes last."""
        kinds: dict[str, str] = {"k": "int64", "x": self.kind, "y": "int64", "s": "string"}
        if self.has_keys:
            kinds["j"] = self.key
        if self.question == "window_join":
            kinds["t"] = self.clock
        elif self.time and self.inputs[name] == "stream":
            kinds["t"] = "timestamp"
        return kinds

    def kind_of(self, subject: str) -> str:
        """The kind of what a comparison is about; that of differences is the kind of the numbers.

        A column has the same kind on both sides.
        """
        if subject in ("b-a", "a-b", "abs"):
            return self.kind
        return self.clock if subject == "gap" else self.columns("a")[subject[-1]]

    @property
    def outputs(self) -> list[tuple[int, str]]:
        """What the template selects: side and column."""
        if self.select:
            return [("ab".index(name[0]), name[2]) for name in self.select]
        return [(i, c) for i, name in enumerate(self.sides) for c in self.columns(name)]

    @property
    def sql(self) -> str:
        names = [f"{n} AS c{i}" for i, n in enumerate(self.select)]
        source = " JOIN ".join(f"{name} AS {'ab'[i]}" for i, name in enumerate(self.sides))
        word = "WHERE" if self.question == "filter" else "ON"
        return f"SELECT {', '.join(names) or '*'} FROM {source} {word} {self.shape.sql}"

    def engine(self) -> Engine:
        """An engine with the inputs and without a template."""
        engine = Engine(clock=clock)
        for name, kind in self.inputs.items():
            if kind == "table":
                engine.table(name, self.columns(name), key="k")
            elif self.time:
                engine.stream(name, self.columns(name), time="t", lateness_us=self.lateness_us)
            else:
                engine.stream(name, self.columns(name))
        return engine

    def register(self, engine: Engine, way: str, name: str = "") -> Group:
        """Register the template in an engine, to be answered this way."""
        return engine.register(self.sql, name=name or way, strategy=way)

    def ways(self) -> list[str]:
        """Every way of the catalogue that takes this template."""
        cases = [Case(self.question, way) for way in CATALOG[self.question]]
        return [case.way for case in cases if serves(case, self.shape)]

    def batch(self, values: Sequence[Any], **columns: Any) -> dict[str, Any]:
        """Rows with these numbers in x; keys count up, all join keys and all times are equal."""
        counted, kinds = list(range(len(values))), self.columns("a")
        rows: dict[str, Any] = {"k": counted, "x": list(values), "y": counted}
        rows |= {name: [EQUAL[kinds[name]]] * len(values) for name in kinds if name not in rows}
        return rows | {name: list(given) for name, given in columns.items()}


def clock() -> int:
    return NOW_US


def serves(case: Case, shape: Shape) -> bool:
    """Whether the case's strategy takes the shape; joins take any number of conditions."""
    return case.question != "filter" or shape.n_attributes <= case.max_attributes


def draw_world(rng: Random, case: Case, *, timed: float = 0.0) -> World:
    """Any world that the case's strategy serves.

    `timed` is the chance that streams have an event time; it is never small for window joins.
    """
    is_filter, has_window = case.question == "filter", case.question == "window_join"
    is_timed = rng.random() < max(timed, 0.7 if has_window else 0.0)
    shape = rng.choice([s for s in SHAPES[case.question] if serves(case, s)])
    arrangements = [
        inputs
        for inputs in (FILTER_INPUTS if is_filter else JOIN_INPUTS)
        if not is_timed or "stream" in inputs.values()
    ]
    if has_window and is_timed:
        arrangements += 3 * [JOIN_INPUTS[0]]
    lateness = rng.choice([None, 0, 0, 2]) if is_timed else None
    select = rng.choice([(), ("a.x", "a.k"), ("a.y",) if is_filter else ("b.x", "a.k", "b.s")])
    return World(
        case.question, rng.choice(KINDS), rng.choice(arrangements), shape, select,
        is_timed, lateness,
        key=rng.choice(KINDS if "a.j" in shape.meaning else KEY_KINDS),
        clock=rng.choice(KINDS) if has_window and not is_timed else "timestamp",
        widest=rng.choice([1, 3]) if has_window and lateness is not None else None,
    )  # fmt: skip


def draw_expiring_world(rng: Random, case: Case) -> World:
    """A window join of streams with a lateness, where rows are kept as long as they can matter."""
    return replace(
        draw_world(rng, case),
        inputs=rng.choice([JOIN_INPUTS[0], JOIN_INPUTS[0], JOIN_INPUTS[4]]),
        time=True, clock="timestamp", lateness_us=rng.choice([0, 2, 5]), widest=rng.choice([1, 3]),
    )  # fmt: skip
