"""Inputs: what a stream or a table is called and which columns it has.

A stream is append-only and may name its event-time column and a column that identifies its rows; a
table has key columns, and pushing a row whose key is known replaces the old row. Kinds are int64,
float64, timestamp (microseconds UTC inside) and string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from standfast.errors import BadInput
from standfast.model.names import did_you_mean, is_identifier, shown
from standfast.model.query import Kind

KINDS: tuple[Kind, ...] = get_args(Kind)
_NAME_HINT = "use letters, digits and underscores, beginning with a letter or underscore"


@dataclass(frozen=True, slots=True)
class Input:
    """A declared stream or table. Made by `Input.stream` or `Input.table`, which check."""

    name: str
    kind: Literal["stream", "table"]
    columns: Mapping[str, Kind]
    key: tuple[str, ...] = field(default=())
    time: str | None = None
    lateness_us: int | None = None
    id: str | None = None

    @staticmethod
    def of(entry: Mapping[str, Any]) -> Input:
        """The input that was written down as a dict."""
        return Input(**{**entry, "key": tuple(entry["key"])})

    @staticmethod
    def stream(
        name: str,
        columns: Mapping[str, str],
        *,
        time: str | None = None,
        lateness_us: int | None = None,
        id: str | None = None,
    ) -> Input:
        """An append-only input; `time` names its event-time column, `id` what tells rows apart."""
        checked = _checked_columns(name, columns)
        if time is not None:
            _known_column(name, "time column", time, checked)
            if checked[time] != "timestamp":
                raise BadInput(
                    f"input {name!r}: the time column {time!r} is {checked[time]}, not timestamp",
                    hint="declare the column as timestamp",
                )
        _check_lateness(name, time, lateness_us)
        if id is not None:
            _known_column(name, "id column", id, checked)
            if checked[id] not in ("int64", "string"):
                raise BadInput(
                    f"input {name!r}: the id column {id!r} is {checked[id]}",
                    hint="declare the column as int64 or string",
                )
        return Input(name, "stream", checked, time=time, lateness_us=lateness_us, id=id)

    @staticmethod
    def table(name: str, columns: Mapping[str, str], *, key: str | Sequence[str]) -> Input:
        """A keyed input: pushing a row replaces the row that has the same key."""
        checked = _checked_columns(name, columns)
        if not isinstance(key, Iterable):
            raise BadInput(
                f"input {name!r}: {shown(key)} cannot be a key", hint="name one or more columns"
            )
        keys = (key,) if isinstance(key, str) else tuple(key)
        if not keys:
            raise BadInput(f"input {name!r}: a table needs a key", hint="name one or more columns")
        for column in keys:
            _known_column(name, "key column", column, checked)
        if len(set(keys)) < len(keys):
            raise BadInput(
                f"input {name!r}: a key column is named twice in {keys!r}",
                hint="name each column once",
            )
        return Input(name, "table", checked, key=keys)


def _checked_columns(name: str, columns: Mapping[str, str]) -> dict[str, Kind]:
    if not is_identifier(name):
        raise BadInput(f"{shown(name)} cannot name an input", hint=_NAME_HINT)
    if not isinstance(columns, Mapping) or not columns:
        raise BadInput(
            f"input {name!r}: columns are a mapping of name to kind, got {shown(columns)}",
            hint='for example {"price": "float64"}',
        )
    for column, kind in columns.items():
        if not is_identifier(column):
            raise BadInput(f"input {name!r}: {shown(column)} cannot name a column", hint=_NAME_HINT)
        if not isinstance(kind, str) or kind not in KINDS:  # an Arrow type equals its name
            raise BadInput(
                f"input {name!r}: column {column!r} has the unknown kind {shown(kind)}",
                hint=did_you_mean(str(kind), KINDS, what="kinds"),
            )
    return {column: cast(Kind, kind) for column, kind in columns.items()}


def _known_column(name: str, what: str, column: object, columns: Mapping[str, Kind]) -> None:
    if not isinstance(column, str) or column not in columns:
        raise BadInput(
            f"input {name!r}: the {what} {shown(column)} is not declared",
            hint=did_you_mean(str(column), columns, what="columns"),
        )


def _check_lateness(name: str, time: str | None, lateness_us: int | None) -> None:
    if lateness_us is None:
        return
    if time is None:
        raise BadInput(f"input {name!r}: lateness needs a time column", hint="pass time=")
    if type(lateness_us) is not int or not 0 <= lateness_us < 2**62:
        raise BadInput(
            f"input {name!r}: lateness is microseconds from 0, got {shown(lateness_us)}",
            hint="for example lateness_us=5_000_000 for five seconds",
        )
