"""Law: answers to related select-joins and window joins are related, whatever the answers are.

No oracle is needed: which input stands first in FROM makes no difference, a literal is a hole that
all queries fill alike, keys may be renamed, all times may be moved, and so on. Each relation asks
two or three questions about the same random rows and compares whole results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.contract.laws import SMALL, Tally, every_case_of
from tests.contract.numbers import FEW_TIMES
from tests.contract.worlds import Case

from standfast import Engine

N_QUERIES, N_ROWS = (15, 16) if SMALL else (25, 20)
RANGES = "a.x BETWEEN :lo AND :hi AND b.x BETWEEN :low AND :high"
Found = Counter[tuple[int, ...]]  # (query, row of a, row of b), rows by their place
Holes = dict[str, list[Any]]


class Row(NamedTuple):
    """Join key, selected number, another number, time."""

    j: Any
    x: Any
    y: int
    t: Any


Sides = tuple[list[Row], list[Row]]
KINDS = {"k": "int64", "j": "int64", "x": "int64", "y": "int64", "t": "int64"}


class Asker:
    """Asks one strategy about rows; counts what matches."""

    def __init__(self, case: Case, rng: Random) -> None:
        self.case = case
        self.rng = rng
        self.has_window = case.question == "window_join"
        self.matches = self.asked = 0

    @property
    def join(self) -> str:
        """What relates the two inputs."""
        return "a.j = b.j" + (" AND ABS(a.t - b.t) <= :w" if self.has_window else "")

    def ask(
        self, condition: str, holes: Holes, sides: Sides, *, source: str = "a JOIN b",
        order: str = "ab", way: str = "", **kinds: str,
    ) -> Found:  # fmt: skip
        """The result of queries with this condition, the rows pushed in the order of the names."""
        engine = Engine()
        for name in "ab":
            engine.stream(name, KINDS | kinds)
        sql = f"SELECT a.k AS i, b.k AS j FROM {source} ON {condition}"
        engine.register(sql, name="g", strategy=way or self.case.way).add(holes)
        found: Found = Counter()
        for name, start, stop in self._pieces(order):
            rows = list(enumerate(sides["ab".index(name)]))[start:stop]
            batch = {c: [getattr(row, c) for _, row in rows] for c in Row._fields}
            table = engine.push(name, batch | {"k": [k for k, _ in rows]})["g"].rows()
            found.update(zip(*(c.to_pylist() for c in table.columns[:-1]), strict=True))
        self.matches += found.total()
        self.asked += 1
        return found

    def _pieces(self, order: str) -> list[tuple[str, int, int]]:
        """Each name of the order stands for an equal share of the rows of that side."""
        pieces, at = [], {"a": 0, "b": 0}
        for name in order:
            n, i = order.count(name), at[name]
            at[name] += 1
            pieces.append((name, i * N_ROWS // n, (i + 1) * N_ROWS // n))
        return pieces

    def sides(self) -> Sides:
        """Rows of both sides, with few keys."""
        return self._rows(), self._rows()

    def _rows(self) -> list[Row]:
        draw = self.rng.randint
        return [Row(draw(0, 3), draw(0, 40), draw(0, 9), draw(0, 30)) for _ in range(N_ROWS)]

    def holes(self) -> Holes:
        """Ranges on both sides, and windows where the question has them."""
        one, other = self._ranges(), self._ranges()
        holes: Holes = {"lo": one[0], "hi": one[1], "low": other[0], "high": other[1]}
        if self.has_window:
            holes["w"] = self.numbers(-1, 20)
        return holes

    def _ranges(self) -> tuple[list[int], list[int]]:
        """Low and high ends, a few the wrong way round."""
        low = self.numbers(-2, 30)
        return low, [end + self.rng.randint(-2, 25) for end in low]

    def numbers(self, least: int, most: int) -> list[int]:
        return [self.rng.randint(least, most) for _ in range(N_QUERIES)]


def moved(sides: Sides, **steps: int) -> Sides:
    """The rows with some columns moved."""
    changed = [
        [row._replace(**{c: getattr(row, c) + step for c, step in steps.items()}) for row in side]
        for side in sides
    ]
    return changed[0], changed[1]


def inputs_of_from_may_change_places(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    assert asked == asker.ask(f"{asker.join} AND {RANGES}", holes, sides, source="b JOIN a")


def sides_may_change_their_roles(asker: Asker) -> None:
    holes, (a, b) = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, (a, b))
    mirrored = "b.x BETWEEN :lo AND :hi AND a.x BETWEEN :low AND :high"
    changed = asker.ask(f"{asker.join} AND {mirrored}", holes, (b, a))
    assert asked == Counter({(query, j, i): n for (query, i, j), n in changed.items()})


def either_side_may_come_first(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    for order in ("ba", "abab", "babbaaab"):
        assert asked == asker.ask(f"{asker.join} AND {RANGES}", holes, sides, order=order)


def an_unlimited_condition_changes_nothing(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    more = {"least": [-math.inf] * N_QUERIES, "most": [math.inf] * N_QUERIES}
    limited = f"{asker.join} AND {RANGES} AND a.y >= :least AND b.y < :most AND b.x >= -9"
    assert asked == asker.ask(limited, holes | more, sides)


def a_literal_is_a_hole_that_all_fill_alike(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    low, least = asker.rng.randint(0, 20), asker.rng.randint(0, 5)
    alike = holes | {"lo": [low] * N_QUERIES, "least": [least] * N_QUERIES}
    asked = asker.ask(f"{asker.join} AND {RANGES} AND a.y >= :least", alike, sides)
    del holes["lo"]
    written = f"{RANGES.replace(':lo ', f'{low} ')} AND a.y >= {least}"
    assert asked == asker.ask(f"{asker.join} AND {written}", holes, sides)


def moving_numbers_and_ranges_together_changes_nothing(asker: Asker) -> None:
    holes, sides, step = asker.holes(), asker.sides(), asker.rng.randint(1, 10**6)
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    shifted = {h: [x + step for x in holes[h]] for h in ("lo", "hi", "low", "high")}
    assert asked == asker.ask(f"{asker.join} AND {RANGES}", holes | shifted, moved(sides, x=step))


def negating_numbers_and_ranges_changes_nothing(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    a, b = ([row._replace(x=-row.x, t=-row.t) for row in side] for side in sides)
    ends = {"lo": "hi", "hi": "lo", "low": "high", "high": "low"}
    negated = {h: [-x for x in holes[ends[h]]] for h in ends}
    assert asked == asker.ask(f"{asker.join} AND {RANGES}", holes | negated, (a, b))


def names_of_keys_do_not_matter(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    names: dict[str, list[Any]] = {
        "int64": [2**63 - 1, -(2**63), 0, 7],
        "string": ["", "b", "B", "0"],
        "float64": [math.inf, -0.0, 5e-324, 0.5],
        "timestamp": [0, 1, FEW_TIMES, 2],
    }
    for kind, renamed in names.items():
        a, b = ([row._replace(j=renamed[row.j]) for row in side] for side in sides)
        assert asked == asker.ask(f"{asker.join} AND {RANGES}", holes, (a, b), j=kind)


def whole_numbers_are_the_same_in_every_kind(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    for kind in ("float64", "timestamp"):
        same = asker.ask(f"{asker.join} AND {RANGES}", holes, sides, x=kind, t=kind)
        assert asked == same, kind


def split_range_is_the_union_of_its_parts(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    holes["high"] = [max(ends) for ends in zip(holes["low"], holes["high"], strict=True)]
    middle = [asker.rng.randint(*ends) for ends in zip(holes["low"], holes["high"], strict=True)]
    whole = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    below = asker.ask(f"{asker.join} AND {RANGES}", holes | {"high": middle}, sides)
    upper = RANGES.replace("b.x BETWEEN :low AND :high", "b.x > :low AND b.x <= :high")
    above = asker.ask(f"{asker.join} AND {upper}", holes | {"low": middle}, sides)
    assert whole == below + above


def between_is_at_least_and_at_most(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    written = ":high >= b.x AND a.x >= :lo AND (b.x >= :low AND :hi >= a.x)"
    assert asked == asker.ask(f"{written} AND {asker.join}", holes, sides)
    open_ends = "a.x > :lo AND a.x < :hi AND b.x > :low AND b.x < :high"
    shifted = {h: [x - 1 for x in holes[h]] for h in ("lo", "low")}
    shifted |= {h: [x + 1 for x in holes[h]] for h in ("hi", "high")}
    assert asked == asker.ask(f"{asker.join} AND {open_ends}", holes | shifted, sides)


def all_complements_are_everything(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    kept = {h: holes[h] for h in holes if h not in ("lo", "hi")}
    condition = f"{asker.join} AND b.x BETWEEN :low AND :high"
    everything = asker.ask(condition, kept, sides)
    parts = [
        asker.ask(f"{condition} AND a.x {o} :value", kept | {"value": holes["lo"]}, sides)
        for o in ("<", "=", ">")
    ]
    assert sum(parts, Counter()) == everything


def equal_queries_have_equal_answers(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    twice = {h: values + values for h, values in holes.items()}
    found = asker.ask(f"{asker.join} AND {RANGES}", twice, sides)
    first = Counter({pair: n for pair, n in found.items() if pair[0] < N_QUERIES})
    again = Counter({(query + N_QUERIES, i, j): n for (query, i, j), n in first.items()})
    assert found == first + again


def rows_that_fail_a_condition_may_stay_away(asker: Asker) -> None:
    holes, (a, b) = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES} AND a.y >= 4 AND b.y <= 5", holes, (a, b))
    # A key of its own that nobody else has joins nothing.
    fewer = [row if row.y >= 4 else row._replace(j=100) for row in a]
    others = [row if row.y <= 5 else row._replace(j=200) for row in b]
    assert asked == asker.ask(f"{asker.join} AND {RANGES}", holes, (fewer, others))


def a_wider_range_holds_more(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    narrow = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    wider = {h: [x - 1 for x in holes[h]] for h in ("lo", "low")}
    wider |= {h: [x + 1 for x in holes[h]] for h in ("hi", "high", "w") if h in holes}
    assert narrow <= asker.ask(f"{asker.join} AND {RANGES}", holes | wider, sides)


def an_equality_of_numbers_is_a_band_of_no_width(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    kept = {h: holes[h] for h in holes if h != "w"}
    joined = asker.ask(f"a.j = b.j AND {RANGES}", kept, sides)
    band = asker.ask(f"b.j - a.j = 0 AND {RANGES}", kept, sides, way="groups")
    assert joined == band


def moving_all_times_changes_nothing(asker: Asker) -> None:
    holes, sides, step = asker.holes(), asker.sides(), asker.rng.randint(1, 10**12)
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    assert asked == asker.ask(f"{asker.join} AND {RANGES}", holes, moved(sides, t=step))
    assert asked == asker.ask(f"{asker.join} AND {RANGES}", holes, moved(sides, t=-step))


def an_open_window_of_whole_numbers_is_closed_one_less(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    wider = holes | {"w": [w + 1 for w in holes["w"]]}
    opened = f"a.j = b.j AND ABS(b.t - a.t) < :w AND {RANGES}"
    assert asked == asker.ask(opened, wider, sides)


def an_endless_window_is_a_select_join(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    endless = holes | {"w": [math.inf] * N_QUERIES}
    asked = asker.ask(f"{asker.join} AND {RANGES}", endless, sides)
    del holes["w"]
    assert asked == asker.ask(f"a.j = b.j AND {RANGES}", holes, sides)


def a_window_is_a_select_join_without_what_is_far(asker: Asker) -> None:
    holes, sides = asker.holes(), asker.sides()
    asked = asker.ask(f"{asker.join} AND {RANGES}", holes, sides)
    windows = holes.pop("w")
    joined = asker.ask(f"a.j = b.j AND {RANGES}", holes, sides)
    a, b = sides
    near = {p: n for p, n in joined.items() if abs(a[p[1]].t - b[p[2]].t) <= windows[p[0]]}
    assert asked == Counter(near)


Relation = Callable[[Asker], None]
BOTH: tuple[Relation, ...] = (
    inputs_of_from_may_change_places,
    sides_may_change_their_roles,
    either_side_may_come_first,
    an_unlimited_condition_changes_nothing,
    a_literal_is_a_hole_that_all_fill_alike,
    moving_numbers_and_ranges_together_changes_nothing,
    negating_numbers_and_ranges_changes_nothing,
    names_of_keys_do_not_matter,
    split_range_is_the_union_of_its_parts,
    between_is_at_least_and_at_most,
    all_complements_are_everything,
    equal_queries_have_equal_answers,
    rows_that_fail_a_condition_may_stay_away,
    a_wider_range_holds_more,
    whole_numbers_are_the_same_in_every_kind,
)
SELECTS: tuple[Relation, ...] = (an_equality_of_numbers_is_a_band_of_no_width,)
WINDOWS: tuple[Relation, ...] = (
    moving_all_times_changes_nothing,
    an_open_window_of_whole_numbers_is_closed_one_less,
    an_endless_window_is_a_select_join,
    a_window_is_a_select_join_without_what_is_far,
)


def relations_of(case: Case) -> Sequence[Relation]:
    return (*BOTH, *(WINDOWS if case.question == "window_join" else SELECTS))


def metamorphic_joins_hold(case: Case, rng: Random, tally: Tally) -> None:
    """Any relation on any rows, for longer searches."""
    relation = rng.choice(relations_of(case))
    asker = Asker(case, rng)
    relation(asker)
    tally[relation.__name__] += asker.matches


@every_case_of("select_join", "window_join")
def test_related_joins_have_related_answers(case: Case) -> None:
    for number, relation in enumerate(relations_of(case)):
        asker = Asker(case, Random(number))
        relation(asker)
        assert 0 < asker.matches < asker.asked * 2 * N_QUERIES * N_ROWS**2, relation.__name__
