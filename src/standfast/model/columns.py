"""Columns from outside: Arrow, pandas, polars, arrays or lists become named Arrow arrays.

A column whose values have one plain type becomes a typed Arrow array without touching its values;
a column of mixed Python values stays a list, and its readers judge it value by value. What a
column means (and which values are bad) is decided by `model.rows` and `model.parameters`.
pandas writes a missing value as NaN, so NaN in a pandas column is read as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from standfast.errors import StandfastError
from standfast.model.names import shown

Raw: TypeAlias = Any  # a pa.Array of one type, or a list of mixed Python values
MISSING = object()  # stands where a row given as a dict lacks the column
_HINT = "pass an Arrow table, a pandas or polars frame, or a dict of arrays"
_TYPES = {
    int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_(),
    datetime: pa.timestamp("us", "UTC"), date: pa.date32(), timedelta: pa.duration("us"),
}  # fmt: skip
# Arrow keeps values of these types as integers, which they are not.
_KEPT_AS_INTEGERS = ("pandas.period", "arrow.bool8")


class Frame(NamedTuple):
    """Columns of one length by name; `doubled` are names that stood for two columns."""

    columns: dict[str, Raw]
    n_rows: int
    doubled: frozenset[str]


def read_frame(data: object, error: type[StandfastError], where: str) -> Frame:
    """The columns of whatever the user passed, or an `error` when it has none."""
    try:
        named, n_rows = _named_columns(data)
    except _NotColumnar as problem:
        raise error(f"{where}: {problem}", hint=_HINT) from None
    columns: dict[str, Raw] = {}
    doubled: set[str] = set()
    for name, column in named:
        if name in columns:
            doubled.add(name)
        columns[name] = column
    lengths = {name: len(column) for name, column in columns.items()}
    n_rows = next(iter(lengths.values()), n_rows)
    for name, length in lengths.items():
        if length != n_rows:
            first = next(iter(lengths))
            raise error(
                f"{where}: columns of unequal length:"
                f" {first!r} has {n_rows}, {name!r} has {length}",
                hint="pass one value per row in every column",
            )
    return Frame(columns, n_rows, frozenset(doubled))


class _NotColumnar(Exception):
    """The argument is not a set of columns."""


def _named_columns(data: object) -> tuple[list[tuple[str, Raw]], int]:
    """The columns that have a text as their name, and how many rows there are without any."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        pairs = zip(data.schema.names, data.columns, strict=True)
        return [(name, _raw(column)) for name, column in pairs], data.num_rows
    library = type(data).__module__.partition(".")[0]
    if library in ("pandas", "polars") and type(data).__name__ == "DataFrame":
        frame: Any = data
        series = frame.items() if library == "pandas" else zip(frame.columns, frame, strict=True)
        named = [(name, _raw(column)) for name, column in series if isinstance(name, str)]
        return named, len(frame)
    if isinstance(data, Mapping):
        return _from_mapping(data)
    if isinstance(data, list):
        return _from_rows(data)
    if hasattr(data, "__arrow_c_stream__"):
        try:
            return _named_columns(pa.table(data))
        except (pa.ArrowException, TypeError, ValueError):
            pass
    raise _NotColumnar(f"not a set of columns: {shown(type(data).__name__)}")


def _from_mapping(data: Mapping[object, object]) -> tuple[list[tuple[str, Raw]], int]:
    """A dict of arrays; a dict of nothing but scalars is one row."""
    named = {name: value for name, value in data.items() if isinstance(name, str)}
    scalars = [name for name, value in named.items() if not _is_column(value)]
    if scalars and len(scalars) == len(named):
        named = {name: [value] for name, value in named.items()}
    elif scalars:
        value = shown(named[scalars[0]])
        raise _NotColumnar(f"column {scalars[0]!r} is a single value beside arrays: {value}")
    columns: list[Any] = [value for value in data.values() if _is_column(value)]
    n_rows = max(map(len, columns), default=min(1, len(data)))
    return [(name, _raw(value, name)) for name, value in named.items()], n_rows


def _from_rows(rows: list[object]) -> tuple[list[tuple[str, Raw]], int]:
    """A list of dicts; a key that one of them lacks is missing in that row only."""
    dicts = [row if isinstance(row, Mapping) else {} for row in rows]
    names = dict.fromkeys(name for row in dicts for name in row if isinstance(name, str))
    if rows and not any(isinstance(row, Mapping) for row in rows):
        raise _NotColumnar(f"not a list of dicts: {shown(rows)}")
    named = [(name, _typed([row.get(name, MISSING) for row in dicts])) for name in names]
    return named, len(rows)


def _is_column(value: object) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    if isinstance(value, list | tuple | range | pa.Array | pa.ChunkedArray):
        return True
    return hasattr(value, "__array__") and hasattr(value, "__len__")


def _raw(column: Any, name: str = "") -> Raw:
    """One column as a typed Arrow array, or as a list when its values are mixed."""
    if isinstance(column, pa.ChunkedArray):
        return _plain(column.combine_chunks())
    if isinstance(column, pa.Array):
        return _plain(column)
    if isinstance(column, list | tuple | range):
        return _typed(list(column))
    n_dimensions = len(getattr(column, "shape", ()))
    if n_dimensions > 1:
        raise _NotColumnar(f"column {name!r} has {n_dimensions} dimensions, not one")
    library = type(column).__module__.partition(".")[0]
    if library == "pandas" and hasattr(column, "isna"):
        if column.dtype == object or str(column.dtype).startswith("period"):
            return _typed([None if a else v for v, a in zip(column, column.isna(), strict=True)])
        # Arrow would share the memory of a frame or an array, which its owner may fill again.
        return _foreign(lambda: pa.Array.from_pandas(column.copy()), column)
    if library == "polars" and hasattr(column, "to_arrow"):
        return _foreign(column.to_arrow, column)
    return _from_numpy(np.ma.asanyarray(column))


def _from_numpy(values: np.ndarray[Any, Any]) -> Raw:
    if not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    if values.dtype.kind in "mM":
        unit = np.datetime_data(values.dtype)
        if unit[0] in ("W", "D", "h", "m") or unit[1] != 1:
            values = values.astype(f"{values.dtype.kind}8[s]")
    if values.dtype == object:
        return _typed(values.tolist())
    return _foreign(lambda: pa.array(values.copy()), values)


def _foreign(convert: Any, column: Any) -> Raw:
    """The column as Arrow when it converts, else as a list of its values."""
    try:
        array = convert()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return list(column)
    return _plain(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array)


def _typed(values: list[Any]) -> Raw:
    """A typed array when all values are of one plain type (None aside), else the list itself."""
    types = set(map(type, values))
    types.discard(type(None))
    if not types:
        return pa.nulls(len(values))
    kind = types.pop()
    try:
        if types:
            return values
        if kind in _TYPES:
            return pa.array(values, type=_TYPES[kind])
        if issubclass(kind, datetime):  # pandas has a finer one of its own, and so below
            return pa.array(values, type=pa.timestamp("ns", "UTC"))
        if issubclass(kind, timedelta):
            return pa.array(values, type=pa.duration("ns"))
        if issubclass(kind, np.generic) and None not in values:
            return pa.array(np.asarray(values))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    return values


def _plain(array: Any) -> Raw:
    """The array without wrappers: dictionary, run-end, extension."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType) and kind.extension_name in _KEPT_AS_INTEGERS:
        return [value if value.is_valid else None for value in array]
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(array.storage)
    if pa.types.is_dictionary(kind):
        return _plain(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(array))
    return array


def is_text(kind: Any) -> bool:
    """Whether an Arrow type holds text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_integer(value: object) -> bool:
    """A Python or NumPy integer; a bool is none, and neither is a NumPy duration."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_float(value: object) -> bool:
    """A float that float64 holds exactly."""
    return isinstance(value, float | np.float32 | np.float16)


def is_words(value: object) -> bool:
    """Text that can be written down: a string without half a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)
