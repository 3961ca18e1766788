"""Files that say which columns they have: whether these are what a pipeline file declares.

Spark reads a column as the kind that it is told. Where the file has another one it may give a
number without its decimal point, cut a fraction off or make nothing of a text, and say nothing.
So types are compared before the job is built: with those of one file, and of all if that one lacks
a column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrameReader, SparkSession, types

from standfast.model.names import did_you_mean
from standfast.model.query import Kind
from standfast.spark.pipeline_file import DESCRIBED_FORMATS, Pipeline, Rows
from standfast.spark.sources import KINDS, SPARK_TYPES
from standfast.spark.toml_text import BadPipeline, Mistake

Found = Mapping[str, types.DataType]  # what files have, by names in lower case
# Whole numbers that every float64 holds.
_SMALL = (types.ByteType, types.ShortType, types.IntegerType)
KIND_NAMES = ", ".join(type_.simpleString() for type_ in SPARK_TYPES.values())
NANOSECONDS = "spark.sql.legacy.parquet.nanosAsLong"
_NEEDED_OF_QUERIES = ("template", "id")


def found_columns(spark: SparkSession, pipeline: Pipeline) -> dict[str, Found]:
    """Columns of the files of each section, where it matters of which type they are.

    Those that are not as declared are mistakes.
    """
    sections = {f"[inputs.{name}]": spec.rows for name, spec in pipeline.inputs.items()}
    sections["[queries]"] = pipeline.queries
    mistakes: list[Mistake] = []
    columns: dict[str, Found] = {}
    for title, rows in sections.items():
        names = _NEEDED_OF_QUERIES if rows is pipeline.queries else tuple(rows.schema)
        found = _found(spark, rows, names)
        columns[title] = _in_files(spark, rows, found)
        mistakes += _missing(title, rows, found, names) if found else ()
        mistakes += _of_other_types(title, rows, columns[title])
    if mistakes:
        raise BadPipeline(pipeline.file, mistakes)
    return columns


def _reader(spark: SparkSession, rows: Rows, **options: str) -> DataFrameReader:
    return spark.read.format(rows.format).options(**rows.options, **options)


def _found(spark: SparkSession, rows: Rows, needed: Sequence[str]) -> dict[str, types.DataType]:
    """The columns of files that say which they have; none, where there is no such file yet.

    One file is asked, and all of them only if that one lacks something that is needed.
    """
    found: dict[str, types.DataType] = {}
    for merge in ("false", "true") if rows.format in DESCRIBED_FORMATS else ():
        try:
            with _all_timestamps(spark):
                schema = _reader(spark, rows, mergeSchema=merge).load(rows.path).schema
        except AnalysisException:
            return {}
        found = {field.name.casefold(): field.dataType for field in schema}
        if {name.casefold() for name in needed} <= found.keys():
            break
    return found


@contextmanager
def _all_timestamps(spark: SparkSession) -> Iterator[None]:
    """Have Spark take timestamps of nanoseconds for bigint; else it refuses files that have any."""
    before = spark.conf.get(NANOSECONDS) or "false"
    spark.conf.set(NANOSECONDS, "true")
    try:
        yield
    finally:
        spark.conf.set(NANOSECONDS, before)


def _missing(title: str, rows: Rows, found: Found, names: Sequence[str]) -> Iterator[Mistake]:
    """Declared columns that no file has: Spark would read nulls."""
    for name in names:
        if name.casefold() not in found:
            what = f"{title} no file at {rows.path} has the column {name!r}"
            yield Mistake(rows.line, what, did_you_mean(name, found, what="columns"))


def _in_files(spark: SparkSession, rows: Rows, found: Found) -> Found:
    """Columns without those in names of folders, which Spark reads as whatever it is told.

    None, if all have the type that is declared.
    """
    declared = {name.casefold(): SPARK_TYPES[kind] for name, kind in rows.schema.items()}
    if all(found.get(name, type_) == type_ for name, type_ in declared.items()):
        return {}
    with _all_timestamps(spark):
        files = _reader(spark, rows, mergeSchema="false").load(rows.path).inputFiles()
    folders = [unquote(part).partition("=") for part in files[0].split("/")] if files else []
    above = {name.casefold() for name, sign, _ in folders if sign}
    return {name: type_ for name, type_ in found.items() if name not in above}


def _of_other_types(title: str, rows: Rows, found: Found) -> Iterator[Mistake]:
    """Columns whose type in the files is not that of their kind."""
    for name, kind in rows.schema.items():
        type_ = found.get(name.casefold())
        if type_ is not None and not _fits(type_, kind, rows.format):
            what = f"{title} the column {name!r} is {type_.simpleString()} at {rows.path}, "
            yield Mistake(
                rows.line, f"{what}not {kind}", _advice(name, kind, KINDS.get(type(type_)))
            )


def _fits(type_: types.DataType, kind: Kind, format: str) -> bool:
    """Whether Spark reads a column of this type as this kind without a change of what it says."""
    is_small = kind == "float64" and isinstance(type_, _SMALL)
    # There are Parquet files whose texts do not say that they are.
    is_text = kind == "string" and format == "parquet" and isinstance(type_, types.BinaryType)
    return KINDS.get(type(type_)) == kind or is_small or is_text


def _advice(name: str, wanted: Kind, found: Kind | None) -> str:
    if found is None:
        return f"have it written as one of {KIND_NAMES}"
    instead = f'declare {name} = "{found}"'
    if (wanted, found) == ("timestamp", "int64"):
        return (
            f"have it written as microseconds, if it is a timestamp of nanoseconds; else {instead}"
        )
    return instead
