"""Inputs from DataFrames: which columns are taken, as which kinds, and what they mean.

Columns are matched by name. Whole numbers become int64, floats float64, dates and timestamps
timestamp, text string; columns of other types cannot be asked about and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeGuard

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions, types

from standfast.errors import BadInput
from standfast.model.names import alike, did_you_mean, is_identifier, shown
from standfast.model.query import Kind
from standfast.model.stream import Input
from standfast.spark.arriving import FILE, TEXT

KINDS: dict[type[types.DataType], Kind] = {
    types.ByteType: "int64",
    types.ShortType: "int64",
    types.IntegerType: "int64",
    types.LongType: "int64",
    types.FloatType: "float64",
    types.DoubleType: "float64",
    types.DateType: "timestamp",
    types.TimestampType: "timestamp",
    types.TimestampNTZType: "timestamp",
    types.StringType: "string",
}
SPARK_TYPES: dict[Kind, types.DataType] = {
    "int64": types.LongType(),
    "float64": types.DoubleType(),
    "timestamp": types.TimestampType(),
    "string": types.StringType(),
}
USABLE = "whole numbers, floats, text, dates and timestamps can be used, under plain names; cast it"
NO_NAME = "under a name that templates cannot ask for"
PLAIN = "rename it: letters of English, digits and underscores, beginning with none of the digits"
MAKE = "spark.createDataFrame makes one of rows, pandas or Arrow"
TIME = (
    "name the column: Source(frame, time=...); with a watermark, a single timestamp is taken by "
    "itself"
)
# Characters of a row that cannot be read: where a whole file is one record, it comes with each row.
MOST_TEXT = 4000
_ZONELESS = (types.DateType, types.TimestampNTZType)
_UNITS = {"microsecond": 1, "millisecond": 1_000, "second": 10**6, "minute": 60 * 10**6,
          "hour": 3600 * 10**6, "day": 86400 * 10**6}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A DataFrame and what its columns mean.

    `key` makes it a table whose rows replace each other; `time` is the event time; `id` tells
    events apart, so that one that comes again is counted and not answered again. `text` is the
    column in which the reader put the text of rows that it could not read: they are dead letters.
    """

    frame: DataFrame
    key: str | Sequence[str] | None = None
    time: str | None = None
    id: str | None = None
    text: str | None = None


def read(
    inputs: Mapping[str, DataFrame | Source], watermark: str | timedelta | None
) -> tuple[dict[str, Source], dict[str, Input]]:
    """The sources by name, and the inputs that the engine is told about."""
    if not isinstance(inputs, Mapping) or not inputs:
        raise BadInput(
            f"inputs are a mapping of name to DataFrame, got {shown(inputs)}",
            hint='for example {"trades": trades_df}',
        )
    lateness = None if watermark is None else microseconds(watermark)
    sources = {name: _source(name, given) for name, given in inputs.items()}
    declared = {name: _declared(name, source, lateness) for name, source in sources.items()}
    if lateness is not None and not any(found.time for found in declared.values()):
        raise BadInput(
            "a watermark needs an input that has a time",
            hint=TIME,
        )
    return sources, declared


def taken(source: Source, declared: Input) -> DataFrame:
    """The columns of a source that are declared.

    Rows of a table replace each other, so they also say which files they come from, if it is files.
    """
    frame = source.frame
    files = files_of(frame) if declared.key else []
    columns = (typed(frame, name) for name in declared.columns)
    return frame.select(*columns, *files, *text_of(source))


def text_of(source: Source) -> list[Column]:
    """The texts of rows that could not be read, if the source has them; see `packing`."""
    if source.text is None:
        return []
    column = functions.col(quoted(source.text))
    return [functions.substring(column, 1, MOST_TEXT).alias(TEXT)]


def quoted(name: str) -> str:
    """A name as Spark takes it for that of one column, whatever it is made of."""
    return "`" + name.replace("`", "``") + "`"


def check_text(where: str, source: Source, used: Iterable[object]) -> None:
    """Refuse a column that cannot have the text of rows which could not be read."""
    column, schema = source.text, source.frame.schema
    if column is None:
        return
    if column not in schema.names:
        hint = did_you_mean(str(column), schema.names, what="columns")
        raise BadInput(f"{where}: there is no text column {shown(column)}", hint=hint)
    found = schema[column].dataType
    if not isinstance(found, types.StringType):
        raise BadInput(
            f"{where}: the text column {column!r} is {found.simpleString()}",
            hint="name the column that columnNameOfCorruptRecord names to Spark's reader",
        )
    if column in used:
        raise BadInput(
            f"{where}: the column {column!r} has the text of rows that cannot be read, and is used"
            " otherwise too",
            hint="let the reader put the text into a column of its own",
        )


def typed(frame: DataFrame, name: str) -> Column:
    """A column in the type of its kind.

    Dates and times without a zone stay: Spark would read them in the zone of the session, and they
    are UTC everywhere else (`arriving.in_utc`).
    """
    found = type(frame.schema[name].dataType)
    column = functions.col(name)
    return column if found in _ZONELESS else column.cast(SPARK_TYPES[KINDS[found]])


def files_of(frame: DataFrame) -> list[Column]:
    """What is known about the files that rows come from: nothing, if it is not files."""
    try:
        file = frame.metadataColumn("_metadata")
        parts = (file.file_modification_time, file.file_path, file.file_block_start)
        found = [part.alias(name) for part, name in zip(parts, FILE, strict=True)]
        frame.select(*found)
    except AnalysisException:
        return []
    return found


def kinds_of(schema: types.StructType) -> dict[str, Kind]:
    """The columns that can be asked about, with their kinds."""
    found: dict[str, Kind] = {}
    for field in schema.fields:
        kind = KINDS.get(type(field.dataType))
        if kind is not None and is_identifier(field.name):
            found[field.name] = kind
    return found


def unusable(sources: Mapping[str, Source]) -> dict[str, tuple[str, str, str]]:
    """The columns that are left out, lower case: the input that has it, what it is, and a hint."""
    found = {}
    for name, source in sources.items():
        for field in source.frame.schema:
            if field.name == source.text:
                what, hint = "the text of rows that cannot be read", "only dead letters have it"
            elif type(field.dataType) not in KINDS:
                what, hint = field.dataType.simpleString(), USABLE
            elif not is_identifier(field.name):
                what, hint = NO_NAME, PLAIN
            else:
                continue
            found[field.name.casefold()] = (name, what, hint)
    return found


def microseconds(text: str | timedelta) -> int:
    """A length of time such as "10 minutes"."""
    if isinstance(text, timedelta):
        return text // timedelta(microseconds=1)
    words = text.split() if isinstance(text, str) else []
    unit = _UNITS.get(words[1].lower().removesuffix("s")) if len(words) == 2 else None
    if unit is None or not words[0].isdecimal():
        raise BadInput(
            f"{shown(text)} is no length of time", hint='for example "10 minutes" or "5 seconds"'
        )
    return int(words[0]) * unit


def _source(name: str, given: object) -> Source:
    source = Source(given) if _is_frame(given) else given
    if not isinstance(source, Source) or not _is_frame(source.frame):
        raise BadInput(
            f"input {name!r} is {shown(given)}, not a DataFrame of Spark or a Source", hint=MAKE
        )
    twice = alike(source.frame.columns)
    if twice:
        first, second = twice
        what = f"column {first!r} twice" if first == second else f"columns {first!r} and {second!r}"
        why = "" if first == second else ", which Spark does not tell apart"
        raise BadInput(f"input {name!r} has the {what}{why}", hint="rename or drop one")
    if source.key is not None and (source.id or source.time):
        raise BadInput(
            f"input {name!r} is a table, because it has a key; tables have neither id nor time",
            hint="leave out key, or leave out id and time",
        )
    return source


def _declared(name: str, source: Source, lateness: int | None) -> Input:
    key: object = source.key
    keys = list(key) if isinstance(key, Iterable) and not isinstance(key, str) else [key]
    check_text(f"input {name!r}", source, [source.time, source.id, *keys])
    fields = [field for field in source.frame.schema if field.name != source.text]
    kinds = kinds_of(types.StructType(fields))
    if not kinds:
        found = ", ".join(f"{f.name} is {f.dataType.simpleString()}" for f in fields)
        what = f"input {name!r} has no column that can be used: {found or 'it has none at all'}"
        raise BadInput(what, hint=USABLE)
    for what, column in (("time", source.time), ("id", source.id)):
        _refuse_unknown(name, what, column, source, kinds)
    if source.key is not None:
        for part in keys:
            _refuse_unknown(name, "key", part, source, kinds)
        return Input.table(name, kinds, key=source.key)
    times = [column for column, kind in kinds.items() if kind == "timestamp"]
    time = source.time or (times[0] if len(times) == 1 and lateness is not None else None)
    return Input.stream(
        name, kinds, time=time, lateness_us=lateness if time else None, id=source.id
    )


def _refuse_unknown(
    name: str, what: str, column: object, source: Source, kinds: Mapping[str, Kind]
) -> None:
    """Refuse a column that is there but of a type that cannot be used; others the engine judges."""
    if isinstance(column, str) and column in source.frame.columns and column not in kinds:
        found, hint = source.frame.schema[column].dataType.simpleString(), USABLE
        if not is_identifier(column):
            found, hint = NO_NAME, PLAIN
        raise BadInput(f"input {name!r}: the {what} column {column!r} is {found}", hint=hint)


def _is_frame(given: object) -> TypeGuard[DataFrame]:
    return isinstance(given, DataFrame)
