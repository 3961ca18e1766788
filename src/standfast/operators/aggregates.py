"""Aggregates: what is kept of a set of rows, and how two such synopses become one.

    class          aggregates                                  what ways may do
    subtractable   COUNT SUM AVG VARIANCE STDDEV, and users'   merge synopses, take one away
                   with an inverse
    mergeable      MIN MAX FIRST LAST, and users' others       merge synopses of neighbours
    holistic       PERCENTILE_DISC COUNT(DISTINCT)             look at all values

A synopsis is a few 8-byte fields, the first always the number of values. Sums of int64 have 128
bits; sums of float64 are pairs, the rounded sum and the sum of what rounding left out (decision
014). Rows without a value (null, NaN) count for COUNT(*) and as a first or last row, else not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from standfast.errors import BadInput

Fields = npt.NDArray[np.float64]
Class = Literal["subtractable", "mergeable", "holistic"]

# What kernels do with a synopsis.
COUNT, COUNT_ALL, SUM_INT, SUM_FLOAT, POWERS_INT, POWERS_FLOAT = range(6)
LEAST_INT, LEAST_FLOAT, MOST_INT, MOST_FLOAT, FIRST, LAST, USER = range(6, 13)
_WIDTHS = {
    COUNT: 1, COUNT_ALL: 1, SUM_INT: 3, SUM_FLOAT: 3, POWERS_INT: 5, POWERS_FLOAT: 5,
    LEAST_INT: 2, LEAST_FLOAT: 2, MOST_INT: 2, MOST_FLOAT: 2, FIRST: 3, LAST: 3,
}  # fmt: skip
_SUBTRACTABLE = (COUNT, COUNT_ALL, SUM_INT, SUM_FLOAT, POWERS_INT, POWERS_FLOAT)
# By name: the kind over int64 and over float64.
_KINDS = {
    "COUNT": (COUNT, COUNT), "SUM": (SUM_INT, SUM_FLOAT), "AVG": (SUM_INT, SUM_FLOAT),
    "VARIANCE": (POWERS_INT, POWERS_FLOAT), "VAR_POP": (POWERS_INT, POWERS_FLOAT),
    "STDDEV": (POWERS_INT, POWERS_FLOAT), "STDDEV_POP": (POWERS_INT, POWERS_FLOAT),
    "MIN": (LEAST_INT, LEAST_FLOAT), "MAX": (MOST_INT, MOST_FLOAT),
    "FIRST": (FIRST, FIRST), "LAST": (LAST, LAST),
}  # fmt: skip
HOLISTIC = ("PERCENTILE_DISC", "COUNT_DISTINCT")


@dataclass(frozen=True, slots=True)
class UserAggregate:
    """An aggregate of the user's own, by functions of NumPy arrays that know nothing of queries.

    `lift(values)` makes a synopsis of each float64 value: an array of n rows and d columns.
    `combine(left, right)` merges synopses row by row, the left ones being of earlier rows; it is
    associative. `lower(synopses)` gives the n answers. `inverse(total, part)`, if there is one,
    takes the earlier part away again.

    A function that raises does not stop a batch: rows and queries are kept, other templates are
    answered, and `FailedAggregate` is raised where this template's answers are asked for, by
    `Group.lookup` and by the `Answer` of a push. It is tried again each time; the first report
    that does not fail tells all that changed since the last one that did not.
    """

    lift: Callable[[Fields], Fields]
    combine: Callable[[Fields, Fields], Fields]
    lower: Callable[[Fields], Fields]
    inverse: Callable[[Fields, Fields], Fields] | None = None

    def width(self) -> int:
        """How many columns a synopsis has."""
        try:
            lifted = np.asarray(self.lift(np.zeros(2)), np.float64)
            answers = np.asarray(self.lower(self.combine(lifted, lifted)), np.float64)
            good = lifted.ndim == 2 and len(lifted) == 2 and answers.shape == (2,)
            if self.inverse is not None:
                left = np.asarray(self.inverse(self.combine(lifted, lifted), lifted), np.float64)
                good = good and left.shape == lifted.shape
        except Exception as error:
            raise BadInput(f"an aggregate fails on two zeros: {error}", hint=_USER_HINT) from error
        if not good:
            raise BadInput(
                f"an aggregate makes synopses of shape {lifted.shape} and answers of shape"
                f" {answers.shape} of 2 values",
                hint=_USER_HINT,
            )
        return int(lifted.shape[1])


_USER_HINT = (
    "lift: (n,) -> (n, d), combine and inverse: (n, d), (n, d) -> (n, d), lower: (n, d) -> (n,)"
)


def check_made_of_functions(name: object, functions: object) -> None:
    """Refuse what is no aggregate of a user."""
    if not issubclass(type(functions), UserAggregate):
        hint = "pass UserAggregate(lift, combine, lower)"
        raise BadInput(f"aggregate {name!r} is not a UserAggregate", hint=hint)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate over int64 or float64 values."""

    name: str
    kind: int
    is_float: bool
    width: int  # fields of a synopsis; 0 where there is none of fixed size
    user: UserAggregate | None = None

    @property
    def belongs_to(self) -> Class:
        """The class that decides which ways can answer it."""
        if self.name in HOLISTIC:
            return "holistic"
        has_inverse = self.user is not None and self.user.inverse is not None
        return "subtractable" if self.kind in _SUBTRACTABLE or has_inverse else "mergeable"

    @property
    def takes_share(self) -> bool:
        return self.name == "PERCENTILE_DISC"

    @property
    def is_stable(self) -> bool:
        """Whether an answer follows from the rows to the last bit, whatever places they have."""
        return self.kind not in (SUM_FLOAT, POWERS_INT, POWERS_FLOAT, USER)

    @property
    def minds_large(self) -> bool:
        """Whether large floats must be kept out of its running sums."""
        return self.kind in (SUM_FLOAT, POWERS_FLOAT)


def aggregate_of(
    name: str, *, is_float: bool, counts_rows: bool = False,
    users: Mapping[str, UserAggregate] | None = None,
) -> Aggregate:  # fmt: skip
    """The aggregate of this name; `counts_rows` for COUNT(*)."""
    user = (users or {}).get(name)
    if user is not None:
        return Aggregate(name, USER, is_float, 1 + user.width(), user)
    if name in HOLISTIC:
        return Aggregate(name, -1, is_float, 0)
    kind = COUNT_ALL if counts_rows else _KINDS[name][is_float]
    return Aggregate(name, kind, is_float, _WIDTHS[kind])


def serves(needs: str, belongs_to: Class) -> bool:
    """Whether a way that needs one class of aggregates takes another."""
    if not needs or needs == belongs_to:
        return True
    return needs == "mergeable" and belongs_to == "subtractable"


def class_of(name: str, users: Mapping[str, UserAggregate]) -> Class:
    """The class of the aggregate of this name."""
    if name in users:
        return "mergeable" if users[name].inverse is None else "subtractable"
    if name in HOLISTIC:
        return "holistic"
    return "subtractable" if _KINDS[name][0] in _SUBTRACTABLE else "mergeable"
