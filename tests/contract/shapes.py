"""The conditions that worlds ask about, each said twice: as SQL and as plain comparisons.

The engine reads the SQL, the oracle reads the comparisons. The two are written by hand side by
side, so that the front end is tested too.

    x, y, s          columns of the one input of a filter
    a.x, b.s         columns of the two sides of a join
    b-a, a-b, abs    differences of x, for band joins
    gap              how far apart the times of the two rows are, for window joins

The equality `a.j = b.j` of select-joins and window joins stands in the SQL only: the question has
it anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


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
# Band joins with conditions on one side, with and without holes.
LOCAL_BAND_SHAPES = (
    Shape(
        "b.x - a.x BETWEEN :lo AND :hi AND a.s = 'p' AND b.s = 'q'",
        "b-a >= lo, b-a <= hi, a.s = 'p', b.s = 'q'",
    ),
    Shape(
        "b.x - a.x BETWEEN :lo AND :hi AND a.y >= :low AND b.s = 'p'",
        "b-a >= lo, b-a <= hi, a.y >= low, b.s = 'p'",
    ),
    Shape(
        "a.y <= :high AND a.x - b.x <= :hi AND b.s = :word",
        "a.y <= high, a-b <= hi, b.s = word",
    ),
    Shape(
        "ABS(a.x - b.x) <= :hi AND b.y > :low AND b.y < :high AND a.s = :word",
        "abs <= hi, b.y > low, b.y < high, a.s = word",
    ),
    Shape("b.x - a.x > :lo AND b.x >= :base AND a.y = 2", "b-a > lo, b.x >= base, a.y = 2"),
    Shape(
        "a.x - b.x BETWEEN -3 AND 3 AND a.s = :word AND b.s = :word",
        "abs <= 3, a.s = word, b.s = word",
    ),
)
SELECT_SHAPES = (
    Shape(
        "a.j = b.j AND a.x BETWEEN :lo AND :hi AND b.x BETWEEN :low AND :high",
        "a.x >= lo, a.x <= hi, b.x >= low, b.x <= high",
    ),
    Shape(
        "b.j = a.j AND a.x > :lo AND a.x < :hi AND b.x >= :low AND :high > b.x",
        "a.x > lo, a.x < hi, b.x >= low, b.x < high",
    ),
    Shape("a.x <= :hi AND b.x > :low AND a.j = b.j", "a.x <= hi, b.x > low"),
    Shape("a.j = b.j AND a.x BETWEEN :lo AND :hi", "a.x >= lo, a.x <= hi"),
    Shape("a.j = b.j AND b.x < :high", "b.x < high"),
    Shape("a.j = b.j AND a.x >= :lo AND b.x >= :lo", "a.x >= lo, b.x >= lo"),
    Shape("a.j = b.j AND a.x = :lo AND b.y BETWEEN :low AND :high",
          "a.x = lo, b.y >= low, b.y <= high"),
    Shape(
        "a.j = b.j AND a.x BETWEEN :lo AND :hi AND b.x <= :high AND a.y >= 2 AND b.s = 'p'",
        "a.x >= lo, a.x <= hi, b.x <= high, a.y >= 2, b.s = 'p'",
    ),
    Shape(
        "a.j = b.j AND a.x BETWEEN :lo AND :hi AND b.x > :low AND a.y >= :least AND b.y < :most",
        "a.x >= lo, a.x <= hi, b.x > low, a.y >= least, b.y < most",
    ),
    Shape(
        "a.x >= :lo AND a.s = :word AND b.x <= :high AND (a.j = b.j)",
        "a.x >= lo, a.s = word, b.x <= high",
    ),
    Shape("a.j = b.j AND b.s = :word", "b.s = word"),
    Shape("a.s = :word AND b.s = :word AND a.j = b.j", "a.s = word, b.s = word"),
    Shape("a.j = b.j AND b.y >= 1 AND a.x < :hi AND b.y <= 3", "b.y >= 1, b.y <= 3, a.x < hi"),
    Shape("a.j = b.j AND a.j >= :key AND b.x BETWEEN :low AND :high",
          "a.j >= key, b.x >= low, b.x <= high"),
)  # fmt: skip
WINDOW_SHAPES = (
    Shape(
        "a.j = b.j AND ABS(a.t - b.t) <= :w AND a.x BETWEEN :lo AND :hi"
        " AND b.x BETWEEN :low AND :high",
        "gap <= w, a.x >= lo, a.x <= hi, b.x >= low, b.x <= high",
    ),
    Shape(
        "ABS(b.t - a.t) < :w AND a.j = b.j AND a.x > :lo AND b.x < :high",
        "gap < w, a.x > lo, b.x < high",
    ),
    Shape("a.j = b.j AND a.x <= :hi AND ABS(a.t - b.t) <= :w", "a.x <= hi, gap <= w"),
    Shape("a.j = b.j AND :w > ABS(a.t - b.t) AND b.x >= :low", "gap < w, b.x >= low"),
    Shape("b.j = a.j AND ABS(a.t - b.t) <= :w", "gap <= w"),
    Shape("a.j = b.j AND ABS(a.t - b.t) < :w AND ABS(b.t - a.t) <= :wide", "gap < w, gap <= wide"),
    Shape(
        "a.j = b.j AND ABS(a.t - b.t) <= 2 AND a.x >= :lo AND b.x BETWEEN :low AND :high",
        "gap <= 2, a.x >= lo, b.x >= low, b.x <= high",
    ),
    Shape("a.j = b.j AND ABS(a.t - b.t) < 3 AND ABS(a.t - b.t) <= :w", "gap < 3, gap <= w"),
    Shape(
        "a.j = b.j AND ABS(a.t - b.t) <= :w AND a.x BETWEEN :lo AND :hi AND b.s = 'p'",
        "gap <= w, a.x >= lo, a.x <= hi, b.s = 'p'",
    ),
    Shape(
        "a.j = b.j AND a.x > :lo AND b.x < :high AND a.y >= :least AND b.s = :word"
        " AND ABS(a.t - b.t) <= :w",
        "a.x > lo, b.x < high, a.y >= least, b.s = word, gap <= w",
    ),
    Shape(
        "a.j = b.j AND ABS(b.t - a.t) < :w AND a.s = :word AND b.y BETWEEN 1 AND 3",
        "gap < w, a.s = word, b.y >= 1, b.y <= 3",
    ),
    Shape(
        "a.j = b.j AND ABS(a.t - b.t) <= :w AND a.t >= :since AND b.x > :low",
        "gap <= w, a.t >= since, b.x > low",
    ),
)
SHAPES = {
    "filter": FILTER_SHAPES,
    "band_join": (*BAND_SHAPES, *LOCAL_BAND_SHAPES),
    "select_join": SELECT_SHAPES,
    "window_join": WINDOW_SHAPES,
}
