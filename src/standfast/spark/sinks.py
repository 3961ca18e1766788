"""A sink that writes each micro-batch once, however often Spark hands it over.

    path/batch=17/kind=answers/*.parquet       columns of the answers
    path/batch=17/kind=letters/*.parquet       the column `letter`
    path/batch=17/_SUCCESS                     written last: the micro-batch is whole
    path/_standfast/7be0...                    the id of the streaming query, made first
    path/_standfast/form-pairs                 the form of its answers

A micro-batch that comes again, after a crash between the sink and Spark's commit, replaces what it
wrote before; its answers are the same, because they follow from the checkpoint and the input. Those
of another checkpoint are not: its micro-batches are other ones under the same numbers, so a folder
belongs to one checkpoint, whose streaming query has the same id however often it is started.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from standfast.errors import BadInput
from standfast.spark.outputs import ANSWER, BATCH, LETTER, LETTER_FIELDS, check_folders
from standfast.spark.pipeline import Job
from standfast.spark.pipeline_checks import NO_PATTERN, PATTERN
from standfast.spark.sources import quoted
from standfast.spark.state import WrongState

MARK, FORM = "_standfast", "form-"
QUERY = "sql.streaming.queryId"  # Spark's name of the property
STATIC = "static"  # in place of an id, where nothing streams
# A folder is replaced as a whole and then marked as whole, whatever the session says.
WHOLE = {
    "partitionOverwriteMode": "static",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
}


def once(job: Job, path: str | PathLike[str]) -> Callable[[DataFrame, int], None]:
    """For `job.everything.writeStream.foreachBatch`: answers and dead letters, each batch once."""
    if PATTERN.search(fspath(path)):
        raise BadInput(f"the folder {fspath(path)} could not be read again", hint=NO_PATTERN)
    check_folders(job.spec.output, job.spec.results)
    names, known = job.everything.columns, set[str]()

    def write(frame: DataFrame, batch: int) -> None:
        if frame.columns != names:
            hint = "write job.everything, which has the dead letters too"
            raise BadInput("this sink does not take job.answers or job.letters", hint=hint)
        query = frame.sparkSession.sparkContext.getLocalProperty(QUERY) or STATIC
        if query not in known:
            _claim(frame.sparkSession, fspath(path), query, batch, job.spec.form)
            known.add(query)
        target = f"{fspath(path)}/{BATCH}={batch}"
        writer = frame.write.mode("overwrite").options(**WHOLE).partitionBy("kind")
        writer.parquet(target)

    return write


def _claim(spark: SparkSession, path: str, query: str, batch: int, form: str) -> None:
    """Mark the folder as that of a streaming query, unless another one has written to it.

    Before 0.6.2 there was no mark. Then what lies there is the query's own, or will be replaced by
    it, unless some of it is later than the micro-batch that the query is at. Of the form there was
    none before 0.9.
    """
    system, at = files(spark, path)
    marks, batches = (
        [status.getPath().getName() for status in system.globStatus(at(pattern)) or []]
        for pattern in (f"{MARK}/*", "batch=[0-9]*")
    )
    forms = [mark.removeprefix(FORM) for mark in marks if mark.startswith(FORM)]
    owners = [mark for mark in marks if not mark.startswith(FORM)]
    numbers = [int(name.partition("=")[2]) for name in batches]
    latest = max(numbers, default=-1)
    if latest >= 0 and (query not in owners if owners else latest > batch):
        raise WrongState(
            f"the folder {path} has the answers of another checkpoint",
            hint="go on with that checkpoint; a new checkpoint needs a new output folder, or this "
            "one emptied",
        )
    if forms and form not in forms and set(numbers) - {batch}:  # the batch itself is replaced
        raise WrongState(
            f"the folder {path} has answers that are {forms[0]}, and the job writes {form}",
            hint="name another output folder; the checkpoint may stay",
        )
    if query not in owners:
        system.delete(at(MARK), True)
        system.mkdirs(at(f"{MARK}/{query}"))
    for other in forms:
        if other != form:  # of answers that somebody has removed
            system.delete(at(f"{MARK}/{FORM}{other}"), True)
    system.mkdirs(at(f"{MARK}/{FORM}{form}"))


def answers(spark: SparkSession, job: Job, path: str | PathLike[str]) -> DataFrame:
    """The answers that `once` has written, of whole micro-batches only."""
    names = map(quoted, job.schema.names)  # of a join, SELECT * gives names with dots
    return _written(spark, job, path, ANSWER).select(BATCH, *names)


def letters(spark: SparkSession, job: Job, path: str | PathLike[str]) -> DataFrame:
    """The dead letters that `once` has written, of whole micro-batches only."""
    found = _written(spark, job, path, LETTER)
    return found.select(BATCH, *(f"letter.{name}" for name in LETTER_FIELDS))


def _written(spark: SparkSession, job: Job, path: str | PathLike[str], kind: str) -> DataFrame:
    schema = from_arrow_schema(job.spec.output.everything).add(BATCH, "long")
    reader = spark.read.schema(schema).option("basePath", fspath(path))
    whole = _whole_batches(spark, fspath(path))
    frame = reader.parquet(*whole) if whole else spark.createDataFrame([], schema)
    return frame.where(frame["kind"] == kind)


def _whole_batches(spark: SparkSession, path: str) -> list[str]:
    """The folders of micro-batches that were written to their end, wherever the path leads."""
    system, at = files(spark, path)
    found = system.globStatus(at("batch=*/_SUCCESS")) or []
    return [str(status.getPath().getParent()) for status in found]


def files(spark: SparkSession, path: str) -> tuple[Any, Callable[[str], Any]]:
    """The file system that a folder is in, and what its files are called there."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "the session has ended"
    paths = jvm.org.apache.hadoop.fs.Path
    folder = paths(path)
    system = folder.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    return system, lambda name: paths(folder, name)
