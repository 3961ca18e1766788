"""Row intake: whatever was pushed becomes one Arrow table with exactly the declared columns.

Bad rows never raise: each is left out and reported once, with the first column (in declared
order) that is wrong. Judging is vectorised for columns of one type; a column of mixed Python values
is judged value by value.

    int64       any integer within int64, a float without fraction
    float64     any float; an integer that float64 holds exactly
    timestamp   a timestamp or date of any unit and zone (without a zone it is UTC), or an integer
                as microseconds; finer than a microsecond is rounded down; 1970 to 2262 only
    string      text

Text is never read as a number, and a bool is not a number. Null is fine, except in a table's key
and in a stream's time; NaN is fine, except in a table's key. -0.0 becomes 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from standfast.errors import BadInput
from standfast.model.columns import (
    MISSING,
    Raw,
    is_float,
    is_integer,
    is_text,
    is_words,
    read_frame,
)
from standfast.model.names import shown
from standfast.model.query import Kind
from standfast.model.stream import Input

Mask = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]
Reason = Literal[
    "missing column", "column named twice", "wrong type", "out of range", "not exact",
    "null key", "null time", "time out of range",
]  # fmt: skip
Faults = list[tuple[Mask, Reason]]

ARROW_TYPES: dict[Kind, Any] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "string": pa.string(),
}
MAX_TIME_US = (2**63 - 1) // 1000  # the last microsecond that nanosecond clocks can show, in 2262
# How far ahead of the clock a time may lie: five minutes.
AHEAD_US = 300_000_000
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Rejection(NamedTuple):
    """A row that was left out: where it stood, why, and the value that was wrong."""

    position: int
    reason: Reason
    column: str
    value: str


class Intake(NamedTuple):
    """Good rows as a table, where they stood in the batch, and the rows left out."""

    table: Any  # pa.Table
    kept: Int64s
    rejected: list[Rejection]


def read_rows(declared: Input, rows: object) -> Intake:
    """Read a batch for an input; only an argument that is no set of columns raises."""
    frame = read_frame(rows, BadInput, f"rows of {declared.name!r}")
    arrays = []
    blame = np.full(frame.n_rows, -1, np.int16)
    findings: list[tuple[Reason, str]] = []
    for name, kind in declared.columns.items():
        array, faults = _judged(frame.columns.get(name), frame.n_rows, kind)
        if name in frame.doubled:
            faults = [(np.ones(frame.n_rows, np.bool_), "column named twice")]
        faults += _null_faults(declared, name, array)
        arrays.append(array)
        for mask, reason in faults:
            blame[mask & (blame < 0)] = len(findings)
            findings.append((reason, name))
    table = pa.table(arrays, names=list(declared.columns))
    good = blame < 0
    if good.all():
        return Intake(table, np.arange(frame.n_rows), [])
    bad = np.flatnonzero(~good)
    rejected = []
    for position, finding in zip(bad.tolist(), blame[bad].tolist(), strict=True):
        reason, name = findings[finding]
        value = _shown_at(frame.columns.get(name), position)
        rejected.append(Rejection(position, reason, name, value))
    return Intake(table.filter(pa.array(good)), np.flatnonzero(good), rejected)


def _shown_at(column: Raw, position: int) -> str:
    if column is None:
        return ""
    value = column[position]
    if value is MISSING:
        return ""
    try:
        return shown(_plain(value) if isinstance(value, pa.Scalar) else value)
    except Exception:  # a value that cannot even be shown is still reported
        return shown(type(value).__name__)


def _plain(value: Any) -> object:
    """The value in Python; where Python has none, the number of a far time, or bytes as such."""
    try:
        return value.as_py()
    except (OverflowError, UnicodeDecodeError):
        return value.cast(pa.binary() if is_text(value.type) else pa.int64()).as_py()


def _null_faults(declared: Input, name: str, array: Any) -> Faults:
    """Null where the input cannot do without: a table's key, a stream's time."""
    if name in declared.key:
        missing = pc.is_null(array, nan_is_null=pa.types.is_floating(array.type))
        return [(as_mask(missing), "null key")] if pc.any(missing).as_py() else []
    if name == declared.time and array.null_count:
        return [(as_mask(array.is_null()), "null time")]
    return []


def _judged(column: Raw, n_rows: int, kind: Kind) -> tuple[Any, Faults]:
    """The column in its declared type, and which rows are wrong; those are null in it."""
    if column is None:
        missing: Faults = [(np.ones(n_rows, np.bool_), "missing column")]
        return pa.nulls(n_rows, ARROW_TYPES[kind]), missing
    if isinstance(column, list):
        return _judged_one_by_one(column, kind)
    if pa.types.is_null(column.type):
        return pa.nulls(n_rows, ARROW_TYPES[kind]), []
    judged = _JUDGES[kind](column)
    if judged is None:
        wrong = as_mask(column.is_valid())
        return pa.nulls(n_rows, ARROW_TYPES[kind]), [(wrong, "wrong type")]
    return judged


def _integers(column: Any) -> tuple[Any, Faults] | None:
    if pa.types.is_integer(column.type):
        if column.type != pa.uint64():
            return column.cast(pa.int64()), []
        values, valid = numbers_of(column)
        return _rebuilt(values.astype(np.int64), valid, [(values > 2**63 - 1, "out of range")])
    if pa.types.is_floating(column.type):
        values, valid = numbers_of(column)
        values = values.astype(np.float64)
        inside = (values >= -(2.0**63)) & (values < 2.0**63)
        whole = np.where(inside, values, 0.0).astype(np.int64)
        exact = ~np.isfinite(values) | (values == np.floor(values))
        faults: Faults = [(~exact, "not exact"), (~inside, "out of range")]
        return _rebuilt(whole, valid, faults)
    return None


def _floats(column: Any) -> tuple[Any, Faults] | None:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    values, valid = numbers_of(column)
    near = values.astype(np.float64) + 0.0
    if values.dtype.kind == "f" or values.dtype.itemsize < 8:
        return _rebuilt(near, valid, [])
    limit = 2.0**63 if values.dtype.kind == "i" else 2.0**64
    inside = near < limit
    back = np.where(inside, near, 0.0).astype(values.dtype)
    return _rebuilt(near, valid, [(~inside | (back != values), "not exact")])


def _timestamps(column: Any) -> tuple[Any, Faults] | None:
    if pa.types.is_integer(column.type):
        values, valid = numbers_of(column)
    elif (ticks := ticks_of(column)) is not None and not pa.types.is_duration(column.type):
        values, per_second, valid = ticks
        if per_second > 1_000_000:
            values = values // (per_second // 1_000_000)
        elif per_second < 1_000_000:
            factor = 1_000_000 // per_second
            values = np.clip(values, -1, MAX_TIME_US // factor + 1) * factor
    else:
        return None
    outside = (values < 0) | (values > MAX_TIME_US)
    faults: Faults = [(outside, "time out of range")]
    array, faults = _rebuilt(values.astype(np.int64, copy=False), valid, faults)
    return array.cast(ARROW_TYPES["timestamp"]), faults


def _strings(column: Any) -> tuple[Any, Faults] | None:
    if not is_text(column.type):
        return None
    array = column.cast(pa.string())
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        damaged = column.cast(pa.binary()).to_pylist()
        return _judged_one_by_one([_decoded(value) for value in damaged], "string")
    return array, []


def _decoded(value: bytes | None) -> str | bytes | None:
    """Text where the bytes are text; the bytes themselves, which are no text, where not."""
    try:
        return value if value is None else value.decode()
    except UnicodeDecodeError:
        return value


_JUDGES: dict[Kind, Callable[[Any], tuple[Any, Faults] | None]] = {
    "int64": _integers,
    "float64": _floats,
    "timestamp": _timestamps,
    "string": _strings,
}


def numbers_of(column: Any) -> tuple[npt.NDArray[Any], Mask | None]:
    """The values of a numeric Arrow array (0 where null), and which are not null if some are."""
    if not column.null_count:
        return column.to_numpy(zero_copy_only=False), None
    filled = column.fill_null(pa.scalar(0).cast(column.type))
    return filled.to_numpy(zero_copy_only=False), as_mask(column.is_valid())


def ticks_of(column: Any) -> tuple[Int64s, int, Mask | None] | None:
    """A time-like Arrow array as int64 ticks since 1970 UTC, with its ticks per second."""
    kind = column.type
    if pa.types.is_date32(kind):
        days, valid = numbers_of(column.view(pa.int32()))
        return days.astype(np.int64) * 86_400, 1, valid
    if pa.types.is_date64(kind):
        values, valid = numbers_of(column.view(pa.int64()))
        return values, 1_000, valid
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        values, valid = numbers_of(column.view(pa.int64()))
        return values, PER_SECOND[kind.unit], valid
    return None


def as_mask(booleans: Any) -> Mask:
    """An Arrow boolean array without nulls as a NumPy mask."""
    mask: Mask = booleans.to_numpy(zero_copy_only=False)
    return mask


def _rebuilt(values: npt.NDArray[Any], valid: Mask | None, faults: Faults) -> tuple[Any, Faults]:
    """Values and faults as an Arrow array that is null where a value is bad or was null."""
    usable = valid
    kept: Faults = []
    for mask, reason in faults:
        mask = mask if valid is None else mask & valid
        if mask.any():
            kept.append((mask, reason))
            usable = ~mask if usable is None else usable & ~mask
    return pa.array(values, mask=None if usable is None else ~usable), kept


def _judged_one_by_one(column: list[Any], kind: Kind) -> tuple[Any, Faults]:
    """The slow way, for mixed Python values."""
    values: list[Any] = []
    faults: dict[Reason, Mask] = {}
    for position, value in enumerate(column):
        reason: Reason | None = None
        if value is MISSING:
            value, reason = None, "missing column"
        elif value is not None:
            value, reason = _judged_value(value, kind)
        if reason is not None:
            faults.setdefault(reason, np.zeros(len(column), np.bool_))[position] = True
        values.append(value)
    array = pa.array(values, type=ARROW_TYPES[kind])
    return array, [(mask, reason) for reason, mask in faults.items()]


def _judged_value(value: Any, kind: Kind) -> tuple[Any, Reason | None]:
    """One Python value in its declared type, or the reason why it is none."""
    if kind == "string":
        return (str(value), None) if is_words(value) else (None, "wrong type")
    if kind == "timestamp":
        return _judged_time(value)
    if is_integer(value):
        value = int(value)
        if kind == "int64":
            return (value, None) if -(2**63) <= value < 2**63 else (None, "out of range")
        try:
            return (float(value), None) if int(float(value)) == value else (None, "not exact")
        except OverflowError:
            return None, "not exact"
    if is_float(value):
        value = float(value) + 0.0
        if kind == "float64":
            return value, None
        if not math.isfinite(value) or not -(2.0**63) <= value < 2.0**63:
            return None, "out of range"
        return (int(value), None) if value.is_integer() else (None, "not exact")
    return None, "wrong type"


def _judged_time(value: Any) -> tuple[Any, Reason | None]:
    """Microseconds of a datetime, a date, a NumPy datetime or an integer."""
    try:
        if isinstance(value, np.datetime64):
            value = (
                None if np.isnat(value) else int(value.astype("datetime64[us]").astype(np.int64))
            )
        elif isinstance(value, datetime):
            value = value.replace(tzinfo=UTC) if value.tzinfo is None else value
            value = (value - _EPOCH) // timedelta(microseconds=1)
        elif isinstance(value, date):
            value = (value - _EPOCH.date()).days * 86_400_000_000
    except (OverflowError, ValueError):
        return None, "time out of range"
    if value is None:
        return None, None
    if not is_integer(value):
        return None, "wrong type"
    if not 0 <= int(value) <= MAX_TIME_US:
        return None, "time out of range"
    return int(value), None
