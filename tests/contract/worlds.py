"""The world of a history: which inputs there are, which template stands, and what it means.

A `Shape` says a condition twice: as SQL, which the engine reads, and as plain comparisons, which
the oracle reads. The two are written by hand side by side, so that the front end is tested too.

    FROM a                 rows (k, x, y, s): key, the compared number, another number, a text
    FROM a JOIN b          differences of x; a self join reads `a` under both names
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, NamedTuple

from tests.contract.numbers import KINDS, Kind

from standfast import Engine, Group
from standfast.operators.catalog import CATALOG, QuestionName

NOW_US = 2**62  # the clock: no time of a test is ahead of it


class Case(NamedTuple):
    """One entry of the catalogue."""

    question: QuestionName
    way: str

    def __str__(self) -> str:
        return f"{self.question}-{self.way}"

    @property
    def max_attributes(self) -> int:
        return CATALOG[self.question][self.way].spec.max_attributes


CASES = [Case(question, way) for question, ways in CATALOG.items() for way in ways]


class Comparison(NamedTuple):
    """`subject operator value`; the value is what the query says for `hole`, or a literal."""

    subject: str
    operator: str
    hole: str
    literal: int | str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """A condition as SQL and as comparisons: `x >= lo, x <= hi`."""

    sql: str
    meaning: str

    @property
    def comparisons(self) -> list[Comparison]:
        return [_comparison(*text.split()) for text in self.meaning.split(", ")]

    @property
    def holes(self) -> dict[str, str]:
        """The holes with the subject that each meets."""
        return {c.hole: c.subject for c in self.comparisons if c.hole}

    @property
    def n_attributes(self) -> int:
        return len(set(self.holes.values()))


def _comparison(subject: str, operator: str, value: str) -> Comparison:
    if value.isdecimal():
        return Comparison(subject, operator, "", int(value))
    if value.startswith("'"):
        return Comparison(subject, operator, "", value.strip("'"))
    return Comparison(subject, operator, value, None)


FILTER_SHAPES = (
    Shape("x BETWEEN :lo AND :hi", "x >= lo, x <= hi"),
    Shape("x > :lo AND x < :hi", "x > lo, x < hi"),
    Shape("x >= :lo AND :hi > x", "x >= lo, x < hi"),
    Shape(":lo < x AND x <= :hi", "x > lo, x <= hi"),
    Shape("x <= :hi", "x <= hi"),
    Shape("x > :lo", "x > lo"),
    Shape("x = :lo", "x = lo"),
    Shape("x BETWEEN :lo AND :hi AND x >= :more", "x >= lo, x <= hi, x >= more"),
    Shape("x BETWEEN :lo AND :hi AND y >= 2 AND s = 'p'", "x >= lo, x <= hi, y >= 2, s = 'p'"),
    Shape("s = :word", "s = word"),
    Shape("x >= :lo AND y < :hi", "x >= lo, y < hi"),
    Shape(
        "x BETWEEN :lo AND :hi AND y BETWEEN :low AND :high",
        "x >= lo, x <= hi, y >= low, y <= high",
    ),
    Shape(
        "s = :word AND (y > :low AND x >= :lo) AND x < :hi", "s = word, y > low, x >= lo, x < hi"
    ),
)
BAND_SHAPES = (
    Shape("b.x - a.x BETWEEN :lo AND :hi", "b-a >= lo, b-a <= hi"),
    Shape("a.x - b.x BETWEEN :lo AND :hi", "a-b >= lo, a-b <= hi"),
    Shape("b.x - a.x > :lo AND b.x - a.x < :hi", "b-a > lo, b-a < hi"),
    Shape("a.x - b.x >= :lo AND b.x - a.x > :hi", "a-b >= lo, b-a > hi"),
    Shape("a.x - b.x <= :hi", "a-b <= hi"),
    Shape("b.x - a.x > :lo", "b-a > lo"),
    Shape("b.x - a.x = :lo", "b-a = lo"),
    Shape("ABS(a.x - b.x) <= :hi", "abs <= hi"),
    Shape("ABS(b.x - a.x) < :hi AND b.x - a.x >= :lo", "abs < hi, b-a >= lo"),
)

# Inputs by name; a self join has one input under two names.
Inputs = dict[str, Literal["stream", "table"]]
FILTER_INPUTS: tuple[Inputs, ...] = ({"a": "stream"}, {"a": "table"})
BAND_INPUTS: tuple[Inputs, ...] = (
    {"a": "stream", "b": "stream"},
    {"a": "table", "b": "table"},
    {"a": "stream", "b": "table"},
    {"a": "table", "b": "stream"},
    {"a": "stream"},
    {"a": "table"},
)


@dataclass(frozen=True, slots=True)
class World:
    """Inputs and one template over them; `time` gives streams an event time and a lateness."""

    question: QuestionName
    kind: Kind
    inputs: Inputs
    shape: Shape
    select: tuple[str, ...] = ()
    time: bool = False
    lateness_us: int | None = None

    @property
    def sides(self) -> tuple[str, ...]:
        """The input of each side of FROM."""
        if self.question == "filter":
            return ("a",)
        return ("a", "b") if "b" in self.inputs else ("a", "a")

    @property
    def is_self_join(self) -> bool:
        return self.sides == ("a", "a")

    def columns(self, name: str) -> dict[str, str]:
        """The columns of an input with their kinds."""
        kinds = {"k": "int64", "x": self.kind, "y": "int64", "s": "string"}
        return kinds | {"t": "timestamp"} if self.time and self.inputs[name] == "stream" else kinds

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
        table = CATALOG[self.question]
        return [w for w in table if self.shape.n_attributes <= table[w].spec.max_attributes]


def clock() -> int:
    return NOW_US


def draw_world(rng: Random, case: Case, *, timed: bool = False) -> World:
    """Any world that the case's strategy serves; `timed` wants streams with an event time."""
    is_filter = case.question == "filter"
    shapes = [
        s
        for s in (FILTER_SHAPES if is_filter else BAND_SHAPES)
        if s.n_attributes <= case.max_attributes
    ]
    arrangements = [
        inputs
        for inputs in (FILTER_INPUTS if is_filter else BAND_INPUTS)
        if not timed or "stream" in inputs.values()
    ]
    lateness = rng.choice([None, 0, 2]) if timed else None
    select = rng.choice([(), ("a.x", "a.k"), ("a.y",) if is_filter else ("b.x", "a.k", "b.s")])
    return World(
        case.question, rng.choice(KINDS), rng.choice(arrangements), rng.choice(shapes), select,
        timed, lateness,
    )  # fmt: skip
