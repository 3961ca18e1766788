"""Query parameters: columns of bounds, checked, become arrays.

    {"lo": [...], "hi": [...], "id": [...]}  ->  Parameters

Parameters are all right or refused as a whole. A numeric hole takes int64 or float64 and keeps
which it got, so that `model.numbers` compares exactly; a timestamp hole takes timestamps or int64
microseconds; a duration hole takes durations or microseconds as int64 or float64. An infinite
float is no limit; null and NaN are refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from standfast.errors import BadParameters
from standfast.model.columns import (
    MISSING,
    Frame,
    Raw,
    is_float,
    is_integer,
    is_text,
    is_words,
    read_frame,
)
from standfast.model.names import did_you_mean, shown
from standfast.model.numbers import (
    FAR,
    LEAST,
    Keys,
)
from standfast.model.query import (
    Hole,
    HoleKind,
    WindowAggregate,
)
from standfast.model.rows import as_mask, numbers_of, ticks_of
from standfast.model.template import Template, difference_of

_AS_FLOAT = "pass a float, or leave the bound out of the template"

_TAKES: dict[HoleKind, str] = {
    "int64": "numbers",
    "float64": "numbers",
    "timestamp": "timestamps or integers (microseconds UTC)",
    "duration": "durations or numbers (microseconds)",
    "string": "text",
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """One row per standing query: an array per hole (text as objects), and the ids if given."""

    ids: Keys | None
    columns: dict[str, npt.NDArray[Any]]
    n_queries: int


def read_parameters(template: Template, params: object) -> Parameters:
    """Read and check the parameters of a template's queries; all of them or an error."""
    where = f"template {template.name!r}"
    if isinstance(params, list) and not params:  # of dicts, none of which could name a column
        params = {hole.name: [] for hole in template.holes}
    frame = read_frame(params, BadParameters, where)
    _check_names(template, frame, where)
    columns = {hole.name: _hole_values(hole, frame.columns[hole.name], where)
               for hole in template.holes}  # fmt: skip
    question = template.question
    phi = question.phi if isinstance(question, WindowAggregate) else None
    for hole in template.holes:
        check = _check_share if phi is not None and hole in phi.holes else _refuse_nan
        check(hole.name, columns[hole.name], where)
    difference = difference_of(question)
    if difference is not None and difference.kind != "float64":
        for hole in difference.holes:
            _check_difference(hole.name, columns[hole.name], where)
    ids = frame.columns.get("id")
    return Parameters(None if ids is None else _ids(ids, where), columns, frame.n_rows)


def read_ids(template: Template, ids: object) -> Keys:
    """Ids of queries, each at most once: one integer, a list, an array or a column of them."""
    where = f"template {template.name!r}"
    hint = "pass the ids of living queries, each once"
    return _ids(read_frame({"id": ids}, BadParameters, where).columns["id"], where, hint)


def _check_names(template: Template, frame: Frame, where: str) -> None:
    holes = [hole.name for hole in template.holes]
    for name in frame.columns:
        if name not in holes and name != "id":
            hint = did_you_mean(name, [*holes, "id"], what="parameters")
            raise BadParameters(f"{where}: unknown parameter {name!r}", hint=hint)
        if name in frame.doubled:
            raise BadParameters(f"{where}: parameter {name!r} is given twice", hint="keep one")
    for name in holes:
        if name not in frame.columns:
            raise BadParameters(
                f"{where}: parameter {name!r} is missing",
                hint=f"pass one column for each of: {', '.join(holes)}",
            )


def _ids(column: Raw, where: str, hint: str = "leave it out to have ids assigned") -> Keys:
    if not isinstance(column, list) and not len(column):
        return np.empty(0, np.int64)
    for row, value in enumerate(column if isinstance(column, list) else []):
        if value is None or value is MISSING:
            raise _null("id", row, where)
        if is_integer(value) and not LEAST <= int(value) <= FAR:
            raise _beyond_int64("id", row, value, where, hint)
    if isinstance(column, list) or not pa.types.is_integer(column.type):
        got = _type_of(column)
        raise BadParameters(f"{where}: parameter 'id' takes integers, got {got}", hint=hint)
    _refuse_null("id", column, where)
    ids = _int64s("id", column, where, hint).copy()
    if ids.size and not (ids[:-1] < ids[1:]).all():
        ascending = np.sort(ids)
        twice = ascending[1:][ascending[1:] == ascending[:-1]]
        if twice.size:
            raise BadParameters(f"{where}: id {twice[0]} appears twice", hint=hint)
    return ids


def _hole_values(hole: Hole, column: Raw, where: str) -> npt.NDArray[Any]:
    """The values of one hole, in int64, float64 or (text) objects."""
    if isinstance(column, list):
        column = _one_type(hole, column, where)
    _refuse_null(hole.name, column, where)
    kind = column.type
    if hole.kind == "string":
        if is_text(kind):
            return np.asarray(column.to_numpy(zero_copy_only=False), dtype=object)
    elif pa.types.is_integer(kind):
        return _int64s(hole.name, column, where)
    elif hole.kind == "timestamp":
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return _microseconds(hole.name, column, where)
    elif pa.types.is_floating(kind):
        floats: npt.NDArray[Any] = numbers_of(column)[0].astype(np.float64, copy=False)
        return floats
    elif hole.kind == "duration" and pa.types.is_duration(kind):
        return _microseconds(hole.name, column, where)
    if len(column) == 0:
        return np.empty(0, object if hole.kind == "string" else np.int64)
    raise _wrong_type(hole, _type_of(column), where)


def _one_type(hole: Hole, values: list[Any], where: str) -> Any:
    """A list of mixed Python values: integers and floats go together, and kinds of strings."""
    for row, value in enumerate(values):
        if value is None or value is MISSING:
            raise _null(hole.name, row, where)
    if hole.kind == "timestamp":
        raise _wrong_type(hole, _type_of(values), where)
    for row, value in enumerate(values):
        good = is_words(value) if hole.kind == "string" else is_float(value) or is_integer(value)
        if not good:
            raise _wrong_type(hole, f"{shown(value)} in row {row}", where)
        if is_integer(value) and not LEAST <= int(value) <= FAR:
            raise _beyond_int64(hole.name, row, value, where, _AS_FLOAT)
        if is_integer(value) and int(float(value)) != int(value):
            raise BadParameters(
                f"{where}: parameter {hole.name!r} mixes floats with an integer that float64"
                f" cannot hold in row {row}: {value}",
                hint="pass integers only",
            )
    if hole.kind == "string":
        return pa.array([str(value) for value in values])
    return pa.array(np.array([float(value) for value in values]))


def _refuse_null(name: str, column: Any, where: str) -> None:
    if column.null_count:
        row = int(np.flatnonzero(as_mask(column.is_null()))[0])
        raise _null(name, row, where)


def _null(name: str, row: int, where: str) -> BadParameters:
    return BadParameters(
        f"{where}: parameter {name!r} is null in row {row}",
        hint="every query needs a value for every hole",
    )


def _wrong_type(hole: Hole, got: str, where: str) -> BadParameters:
    return BadParameters(
        f"{where}: parameter {hole.name!r} takes {_TAKES[hole.kind]}, got {got}",
        hint=f"the hole :{hole.name} meets a column or difference of kind {hole.kind}",
    )


def _beyond_int64(name: str, row: int, value: object, where: str, hint: str) -> BadParameters:
    return BadParameters(
        f"{where}: parameter {name!r} is beyond int64 in row {row}: {value}", hint=hint
    )


def _type_of(column: Raw) -> str:
    if not isinstance(column, list):
        return str(column.type)
    kinds = {type(value).__name__ for value in column if value is not None}
    return kinds.pop() if len(kinds) == 1 else "values of several types"


def _int64s(name: str, column: Any, where: str, hint: str = _AS_FLOAT) -> Keys:
    values, _ = numbers_of(column)
    if column.type == pa.uint64() and values.size and int(values.max()) > FAR:
        row = int(np.argmax(values > FAR))
        raise _beyond_int64(name, row, values[row], where, hint)
    return values.astype(np.int64, copy=False)


def _refuse_nan(name: str, values: npt.NDArray[Any], where: str) -> None:
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise BadParameters(
            f"{where}: parameter {name!r} is NaN in row {int(np.argmax(np.isnan(values)))}",
            hint="use -inf or +inf for no limit",
        )


def _microseconds(name: str, column: Any, where: str) -> Keys:
    """Time-like bounds as int64 microseconds; a bound must not lose anything on the way."""
    ticks = ticks_of(column)
    assert ticks is not None, "a time-like column has ticks"
    values, per_second, _ = ticks
    if per_second > 1_000_000:
        step = per_second // 1_000_000
        bad = values % step != 0
        whole = values // step
    else:
        factor = 1_000_000 // per_second
        bad = (values > FAR // factor) | (values < -(FAR // factor))
        whole = np.where(bad, 0, values) * factor
    if bad.any():
        raise BadParameters(
            f"{where}: parameter {name!r} is not a whole number of microseconds within int64"
            f" in row {int(np.argmax(bad))}",
            hint="round it to microseconds",
        )
    return whole


def _check_difference(name: str, bounds: npt.NDArray[Any], where: str) -> None:
    """Finite bounds on differences of int64 stay within 2^63 - 2; 2^64 and more is no limit."""
    if bounds.dtype.kind == "f":
        size = np.abs(bounds)
        bad = (size >= 2.0**63) & (size < 2.0**64)
    else:
        bad = (bounds > FAR - 1) | (bounds < 1 - FAR)
    if bad.any():
        row = int(np.argmax(bad))
        raise BadParameters(
            f"{where}: parameter {name!r} is beyond 2^63 - 2 in row {row}: {bounds[row]}",
            hint="a bound on a difference of int64 is smaller, or an infinite float for no limit",
        )


def _check_share(name: str, shares: npt.NDArray[Any], where: str) -> None:
    """A quantile is asked for by a share above 0 and up to 1."""
    bad = ~((shares > 0) & (shares <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        raise BadParameters(
            f"{where}: parameter {name!r} is not above 0 and up to 1 in row {row}: {shares[row]}",
            hint="0.5 asks for the median",
        )
