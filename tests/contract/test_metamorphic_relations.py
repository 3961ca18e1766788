"""Law: answers to related questions are related, whatever the answers are.

No oracle is needed: a range cut in two holds what its parts hold, events and queries moved together
stay where they are to each other, `BETWEEN` is `>=` and `<=`, and so on. Each relation asks two or
three questions about the same random numbers and compares whole results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from tests.contract.laws import SMALL, Tally, every_case_of
from tests.contract.numbers import KINDS, Kind, draw_bounds, draw_value
from tests.contract.shapes import Shape
from tests.contract.worlds import Case, World

N_QUERIES, N_ROWS = (15, 12) if SMALL else (25, 16)
Bounds = list[Any]
Found = Counter[tuple[int, ...]]  # (query, row of a [, row of b]), rows by their place


class Asker:
    """Asks one strategy about numbers of one kind; counts the decisions."""

    def __init__(self, case: Case, kind: Kind, rng: Random) -> None:
        self.case = case
        self.kind = kind
        self.rng = rng
        self.is_band = case.question == "band_join"
        self.subject = "b.x - a.x" if self.is_band else "x"
        self.decisions = self.matches = 0

    def ask(
        self, condition: str, bounds: dict[str, Bounds], sides: Sequence[list[Any]],
        *, kind: Kind | None = None, order: str = "ab", times: int = 1,
    ) -> Found:  # fmt: skip
        """The result of queries `condition` (`?` is the subject) over the numbers of each side."""
        names = "ab"[: len(sides)]
        select = tuple(f"{name}.k" for name in names)
        shape = Shape(condition.replace("?", self.subject), "")
        inputs = dict.fromkeys(names, "stream")
        world = World(self.case.question, kind or self.kind, inputs, shape, select)
        engine = world.engine()
        group = world.register(engine, self.case.way)
        group.add(bounds)
        found: Found = Counter()
        for name in [n for n in order if n in names] * times:
            values = sides[names.index(name)]
            keys = range(len(values))
            batch = {"k": keys, "x": values, "y": keys, "s": [None] * len(values)}
            table = engine.push(name, batch)[self.case.way].rows()
            found.update(zip(*(c.to_pylist() for c in table.columns[:-1]), strict=True))
        self.decisions += len(group) * math.prod(map(len, sides))
        self.matches += found.total()
        return found

    def sides(self, *, special: bool = False) -> list[list[Any]]:
        """Numbers for each side; without special ones they can be moved, negated and doubled."""
        return [
            [draw_value(self.rng, self.kind) if special else self._number() for _ in range(N_ROWS)]
            for _ in range(2 if self.is_band else 1)
        ]

    def bounds(self, *, special: bool = False) -> Bounds:
        if special:
            return draw_bounds(self.rng, self.kind, N_QUERIES, is_band=self.is_band)
        shift = 20 if self.is_band else 0
        return [self._number() - shift for _ in range(N_QUERIES)]

    def _number(self) -> Any:
        number = self._base() + self.rng.randint(0, 40)
        return number / 2 if self.kind == "float64" else number

    def _base(self) -> int:
        """Differences of times are small numbers, times are not."""
        return 10**15 if self.kind == "timestamp" and not self.is_band else 0


def split_range_is_the_union_of_its_parts(asker: Asker) -> None:
    ends = [sorted(pair) for pair in zip(asker.bounds(), asker.bounds(), strict=True)]
    low, high = [pair[0] for pair in ends], [pair[1] for pair in ends]
    middle = [asker.rng.choice((a, b, max(a, (a + b) // 2))) for a, b in ends]
    sides = asker.sides(special=True)
    whole = asker.ask("? BETWEEN :lo AND :hi", {"lo": low, "hi": high}, sides)
    below = asker.ask("? BETWEEN :lo AND :hi", {"lo": low, "hi": middle}, sides)
    above = asker.ask("? > :lo AND ? <= :hi", {"lo": middle, "hi": high}, sides)
    assert whole == below + above


def between_is_at_least_and_at_most(asker: Asker) -> None:
    bounds = {"lo": asker.bounds(special=True), "hi": asker.bounds(special=True)}
    sides = asker.sides(special=True)
    between = asker.ask("? BETWEEN :lo AND :hi", bounds, sides)
    assert between == asker.ask("? >= :lo AND ? <= :hi", bounds, sides)
    assert between == asker.ask(":hi >= ? AND (:lo <= ?)", bounds, sides)


def equality_is_a_range_of_one_number(asker: Asker) -> None:
    value, sides = asker.bounds(special=True), asker.sides(special=True)
    equal = asker.ask("? = :lo", {"lo": value}, sides)
    assert equal == asker.ask("? BETWEEN :lo AND :hi", {"lo": value, "hi": value}, sides)


def a_condition_said_twice_is_said_once(asker: Asker) -> None:
    low, more, sides = asker.bounds(), asker.bounds(), asker.sides()
    both = asker.ask("? >= :lo AND ? >= :more", {"lo": low, "more": more}, sides)
    larger = [max(pair) for pair in zip(low, more, strict=True)]
    assert both == asker.ask("? >= :lo", {"lo": larger}, sides)


def a_wider_range_holds_more(asker: Asker) -> None:
    low, high, sides = asker.bounds(), asker.bounds(), asker.sides()
    narrow = asker.ask("? BETWEEN :lo AND :hi", {"lo": low, "hi": high}, sides)
    open_ends = asker.ask("? > :lo AND ? < :hi", {"lo": low, "hi": high}, sides)
    wider = {"lo": [x - 1 for x in low], "hi": [x + 1 for x in high]}
    wide = asker.ask("? BETWEEN :lo AND :hi", wider, sides)
    assert open_ends <= narrow <= wide


def all_complements_are_everything(asker: Asker) -> None:
    value, sides = asker.bounds(), asker.sides()
    parts = [asker.ask(f"? {o} :lo", {"lo": value}, sides) for o in ("<", "=", ">")]
    total = sum(parts, Counter())
    assert set(total.values()) == {1}
    assert total.total() == N_QUERIES * math.prod(map(len, sides))


def moving_events_and_queries_together_changes_nothing(asker: Asker) -> None:
    low, high, sides = asker.bounds(), asker.bounds(), asker.sides()
    step = asker.rng.randint(1, 10**6)
    asked = asker.ask("? BETWEEN :lo AND :hi", {"lo": low, "hi": high}, sides)
    moved = [[x + step for x in side] for side in sides]
    if asker.is_band:
        assert asked == asker.ask("? BETWEEN :lo AND :hi", {"lo": low, "hi": high}, moved)
        moved = [sides[0], moved[1]]
    bounds = {"lo": [x + step for x in low], "hi": [x + step for x in high]}
    assert asked == asker.ask("? BETWEEN :lo AND :hi", bounds, moved)


def negating_events_and_queries_changes_nothing(asker: Asker) -> None:
    low, high, sides = asker.bounds(), asker.bounds(), asker.sides()
    asked = asker.ask("? >= :lo AND ? < :hi", {"lo": low, "hi": high}, sides)
    bounds = {"lo": [-x for x in high], "hi": [-x for x in low]}
    negated = [[-x for x in side] for side in sides]
    assert asked == asker.ask("? > :lo AND ? <= :hi", bounds, negated)


def doubling_every_number_changes_nothing(asker: Asker) -> None:
    low, high, sides = asker.bounds(), asker.bounds(), asker.sides()
    asked = asker.ask("? > :lo AND ? < :hi", {"lo": low, "hi": high}, sides)
    bounds = {"lo": [2 * x for x in low], "hi": [2 * x for x in high]}
    assert asked == asker.ask("? > :lo AND ? < :hi", bounds, [[2 * x for x in s] for s in sides])


def an_infinite_bound_is_no_bound(asker: Asker) -> None:
    high, sides = asker.bounds(special=True), asker.sides(special=True)
    bounds = {"lo": [-math.inf] * N_QUERIES, "hi": high}
    two_sided = asker.ask("? BETWEEN :lo AND :hi", bounds, sides)
    # Two infinite events have no difference, and every other number is at least -inf.
    assert two_sided == asker.ask("? <= :hi", {"hi": high}, sides)


def open_ends_of_whole_numbers_are_closed_one_further(asker: Asker) -> None:
    low, high, sides = asker.bounds(), asker.bounds(), asker.sides()
    asked = asker.ask("? > :lo AND ? < :hi", {"lo": low, "hi": high}, sides)
    bounds = {"lo": [x + 1 for x in low], "hi": [x - 1 for x in high]}
    assert asked == asker.ask("? BETWEEN :lo AND :hi", bounds, sides)


def whole_numbers_are_the_same_in_every_kind(asker: Asker) -> None:
    low, high, sides = asker.bounds(), asker.bounds(), asker.sides()
    bounds = {"lo": low, "hi": high}
    asked = asker.ask("? BETWEEN :lo AND :hi", bounds, sides)
    for kind in ("float64", "timestamp"):
        assert asked == asker.ask("? BETWEEN :lo AND :hi", bounds, sides, kind=kind)


def equal_queries_have_equal_answers(asker: Asker) -> None:
    low, high, sides = asker.bounds(), asker.bounds(), asker.sides(special=True)
    twice = {"lo": low + low, "hi": high + high}
    found = asker.ask("? BETWEEN :lo AND :hi", twice, sides)
    first = Counter({pair: n for pair, n in found.items() if pair[0] < N_QUERIES})
    moved = Counter({(query + N_QUERIES, *rows): n for (query, *rows), n in first.items()})
    assert found == first + moved


def rows_that_come_twice_count_twice(asker: Asker) -> None:
    bounds, sides = {"lo": asker.bounds(), "hi": asker.bounds()}, asker.sides(special=True)
    once = asker.ask("? BETWEEN :lo AND :hi", bounds, sides)
    twice = asker.ask("? BETWEEN :lo AND :hi", bounds, sides, times=2)
    assert twice == Counter({row: n * 2 ** len(sides) for row, n in once.items()})


def mirrored_subtraction_has_negated_bounds(asker: Asker) -> None:
    low, high, sides = asker.bounds(), asker.bounds(), asker.sides(special=True)
    asked = asker.ask("? BETWEEN :lo AND :hi", {"lo": low, "hi": high}, sides)
    bounds = {"lo": [-x for x in high], "hi": [-x for x in low]}
    assert asked == asker.ask("a.x - b.x BETWEEN :lo AND :hi", bounds, sides)


def sides_may_change_their_roles(asker: Asker) -> None:
    low, high, (a, b) = asker.bounds(), asker.bounds(), asker.sides(special=True)
    bounds = {"lo": low, "hi": high}
    asked = asker.ask("b.x - a.x BETWEEN :lo AND :hi", bounds, [a, b])
    changed = asker.ask("a.x - b.x BETWEEN :lo AND :hi", bounds, [b, a])
    assert asked == Counter({(query, j, i): n for (query, i, j), n in changed.items()})


def either_side_may_come_first(asker: Asker) -> None:
    bounds, sides = {"lo": asker.bounds(), "hi": asker.bounds()}, asker.sides(special=True)
    asked = asker.ask("? BETWEEN :lo AND :hi", bounds, sides)
    assert asked == asker.ask("? BETWEEN :lo AND :hi", bounds, sides, order="ba")


def an_absolute_difference_is_a_range_around_zero(asker: Asker) -> None:
    # Some widths are negative, which holds nothing.
    width = [abs(x) if i % 4 else x for i, x in enumerate(asker.bounds())]
    sides = asker.sides(special=True)
    asked = asker.ask("ABS(a.x - b.x) <= :hi", {"hi": width}, sides)
    bounds = {"lo": [-x for x in width], "hi": width}
    assert asked == asker.ask("? BETWEEN :lo AND :hi", bounds, sides)


Relation = Callable[[Asker], None]
BOTH: tuple[Relation, ...] = (
    split_range_is_the_union_of_its_parts,
    between_is_at_least_and_at_most,
    equality_is_a_range_of_one_number,
    a_condition_said_twice_is_said_once,
    a_wider_range_holds_more,
    all_complements_are_everything,
    equal_queries_have_equal_answers,
    rows_that_come_twice_count_twice,
)
BANDS: tuple[Relation, ...] = (
    mirrored_subtraction_has_negated_bounds,
    sides_may_change_their_roles,
    either_side_may_come_first,
    an_absolute_difference_is_a_range_around_zero,
)
# Relations that hold only where the numbers can be moved, negated or written in another kind.
BY_KIND: dict[Kind, tuple[Relation, ...]] = {
    "int64": (
        moving_events_and_queries_together_changes_nothing,
        negating_events_and_queries_changes_nothing,
        doubling_every_number_changes_nothing,
        open_ends_of_whole_numbers_are_closed_one_further,
        whole_numbers_are_the_same_in_every_kind,
        an_infinite_bound_is_no_bound,
    ),
    "float64": (
        negating_events_and_queries_changes_nothing,
        doubling_every_number_changes_nothing,
        an_infinite_bound_is_no_bound,
    ),
    "timestamp": (
        moving_events_and_queries_together_changes_nothing,
        open_ends_of_whole_numbers_are_closed_one_further,
    ),
}


def relations_of(case: Case, kind: Kind) -> tuple[Relation, ...]:
    # Times are whole numbers inside, so only what is special about them is asked again.
    shared = BOTH[:2] if kind == "timestamp" else BOTH
    return shared + BY_KIND[kind] + (BANDS if case.question == "band_join" else ())


def metamorphic_relations_hold(case: Case, rng: Random, tally: Tally) -> None:
    """Any relation on any numbers, for longer searches."""
    kind = rng.choice(KINDS)
    relation = rng.choice(relations_of(case, kind))
    asker = Asker(case, kind, rng)
    relation(asker)
    tally[relation.__name__] += asker.decisions


@every_case_of("filter", "band_join")
@pytest.mark.parametrize("kind", KINDS)
def test_related_questions_have_related_answers(case: Case, kind: Kind) -> None:
    for number, relation in enumerate(relations_of(case, kind)):
        asker = Asker(case, kind, Random(number))
        relation(asker)
        assert 0 < asker.matches < 4 * asker.decisions, relation.__name__
