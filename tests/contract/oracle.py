"""What every answer must be, said once more in plain Python: no arrays, no keys, no indexes.

Python compares an int with a float exactly and subtracts ints without end, floats as IEEE 754
does; that is the whole arithmetic. The `Model` keeps every living row and every query, and works
out each result from scratch.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from tests.contract.shapes import Comparison
from tests.contract.worlds import World

Row = tuple[Any, ...]
Holes = Mapping[str, Any]
Pair = tuple[int, int, int]  # row, query, change
Result = Counter[Row]  # query, selected columns

_OPERATORS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip


def holds(value: Any, comparison: Comparison, holes: Holes) -> bool:
    """Whether a value satisfies a comparison; null and NaN satisfy none."""
    if value is None or value != value:
        return False
    bound = holes[comparison.hole] if comparison.hole else comparison.literal
    return bool(_OPERATORS[comparison.operator](value, bound))


def minus(one: Any, other: Any) -> Any:
    """The difference; None where there is none (null, NaN, inf - inf)."""
    if one is None or other is None:
        return None
    gap = one - other
    return None if gap != gap else gap


def _size(gap: Any) -> Any:
    return None if gap is None else abs(gap)


def joins(one: Any, other: Any) -> bool:
    """Whether two join keys are equal; null and NaN equal nothing, both zeros are one."""
    return one is not None and bool(one == other)


def plain(value: Any) -> Any:
    """A value that equals itself and has one zero, as results are compared."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


class Expected(NamedTuple):
    """What one push or delete must answer, and what must become of its rows."""

    pairs: list[Pair]
    used: int
    late: int
    rejected: int
    change: Result  # of the results, without zeros


class Model:
    """Rows and queries of one world. Rows are tuples in the order of the input's columns."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queries: dict[int, Holes] = {}
        self.rows: dict[str, list[Row]] = {name: [] for name in world.inputs}
        self.columns = [list(world.columns(name)) for name in world.sides]
        self.comparisons = world.shape.comparisons
        self.latest_us: dict[str, int] = {}
        self._change: Result = Counter()

    def affected(self, rows: Sequence[Row]) -> list[int]:
        """The queries whose condition holds for one row of each side."""
        values = self._subjects(rows)
        if not values:
            return []
        return [
            query
            for query, holes in self.queries.items()
            if all(holds(values[c.subject], c, holes) for c in self.comparisons)
        ]

    def _subjects(self, rows: Sequence[Row]) -> dict[str, Any]:
        """What a condition can be about; nothing where rows do not join at all."""
        if len(rows) == 1:
            return dict(zip(self.columns[0], rows[0], strict=True))
        found = {
            f"{side}.{column}": value
            for side, columns, row in zip("ab", self.columns, rows, strict=True)
            for column, value in zip(columns, row, strict=True)
        }
        if self.world.has_keys:
            if not joins(found["a.j"], found["b.j"]):
                return {}
            return found | {"gap": _size(minus(found.get("a.t"), found.get("b.t")))}
        gap = minus(found["a.x"], found["b.x"])
        return found | {"a-b": gap, "b-a": minus(found["b.x"], found["a.x"]), "abs": _size(gap)}

    def results(self) -> Result:
        """The whole result of every query over the living rows, from scratch."""
        found: Result = Counter()
        for rows in product(*(self.rows[name] for name in self.world.sides)):
            chosen = self._selected(rows)
            for query in self.affected(rows):
                found[query, *chosen] += 1
        return found

    def _selected(self, rows: Sequence[Row]) -> Row:
        return tuple(
            plain(rows[side][self.columns[side].index(column)])
            for side, column in self.world.outputs
        )

    def push(self, name: str, rows: Sequence[Row]) -> Expected:
        """Take in rows; which (row, query, change) are affected, and the counts."""
        if self.world.inputs[name] == "stream":
            used = self._in_time(name, rows)
            pairs = self._came(name, [rows[i] for i in used], used)
            return self._expected(pairs, len(used), len(rows) - len(used), 0)
        good = [i for i, row in enumerate(rows) if row[0] is not None]
        last = sorted({rows[i][0]: i for i in good}.values())
        stored = {row[0]: row for row in self.rows[name]}
        changed = [i for i in last if not same(stored.get(rows[i][0]), rows[i])]
        gone = [i for i in changed if rows[i][0] in stored]
        pairs = self._went(name, [stored[rows[i][0]] for i in gone], gone)
        pairs |= self._came(name, [rows[i] for i in changed], changed)
        return self._expected(pairs, len(good), 0, len(rows) - len(good))

    def delete(self, name: str, keys: Sequence[int]) -> Expected:
        """Forget the rows of these keys; unknown and repeated keys are rejected."""
        stored = {row[0]: row for row in self.rows[name]}
        places = [i for i, key in enumerate(keys) if key in stored and key not in keys[:i]]
        pairs = self._went(name, [stored[keys[i]] for i in places], places)
        return self._expected(pairs, len(places), 0, len(keys) - len(places))

    def _expected(self, pairs: set[Pair], used: int, late: int, rejected: int) -> Expected:
        """The answer to one action, with what it changed."""
        change = Counter({row: n for row, n in self._change.items() if n})
        self._change = Counter()
        return Expected(sorted(pairs), used, late, rejected, change)

    def _in_time(self, name: str, rows: Sequence[Row]) -> list[int]:
        """Rows that are not late: at most the lateness behind the latest time before them."""
        if not self.world.time:
            return list(range(len(rows)))
        used = []
        for i, row in enumerate(rows):
            latest = self.latest_us.get(name, row[-1])
            lateness = self.world.lateness_us
            if lateness is None or row[-1] >= latest - lateness:
                used.append(i)
            self.latest_us[name] = max(latest, row[-1])
        return used

    def _came(self, name: str, rows: list[Row], places: list[int]) -> set[Pair]:
        found = self._pairs(name, rows, places, 1, is_second=False)
        self.rows[name] = self.rows[name] + rows
        return found | self._pairs(name, rows, places, 1, is_second=True)

    def _went(self, name: str, rows: list[Row], places: list[int]) -> set[Pair]:
        found = self._pairs(name, rows, places, -1, is_second=False)
        keys = {row[0] for row in rows}
        self.rows[name] = [row for row in self.rows[name] if row[0] not in keys]
        return found | self._pairs(name, rows, places, -1, is_second=True)

    def _pairs(
        self, name: str, rows: list[Row], places: list[int], change: int, *, is_second: bool
    ) -> set[Pair]:
        """Whom the rows affect; the second side of a self join meets the rows as they are then."""
        sides = [i for i, side in enumerate(self.world.sides) if side == name]
        if is_second >= len(sides):
            return set()
        side = sides[is_second]
        others = [[]] if len(self.world.sides) == 1 else self.rows[self.world.sides[1 - side]]
        found = set()
        for row, place in zip(rows, places, strict=True):
            for other in others:
                met = [row] if len(self.world.sides) == 1 else [row, other][:: 1 - 2 * side]
                for query in self.affected(met):
                    found.add((place, query, change))
                    self._change[query, *self._selected(met)] += change
        return found


def same(one: Row | None, other: Row) -> bool:
    """Whether two rows of a table are equal; null equals null and NaN equals NaN."""
    return one is not None and [plain(v) for v in one] == [plain(v) for v in other]
