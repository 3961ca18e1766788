"""A sink that writes each micro-batch once, however often Spark hands it over.

    path/batch=17/kind=answers/*.parquet       columns of the answers
    path/batch=17/kind=letters/*.parquet       the column `letter`
    path/batch=17/_SUCCESS                     written last: the micro-batch is whole

A micro-batch that comes again, after a crash between the sink and Spark's commit, replaces what it
wrote before; its answers are the same, because they follow from the checkpoint and the input.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from standfast.spark.outputs import ANSWER, LETTER, LETTER_FIELDS
from standfast.spark.pipeline import Job


def once(job: Job, path: str | PathLike[str]) -> Callable[[DataFrame, int], None]:
    """For `job.everything.writeStream.foreachBatch`: answers and dead letters, each batch once."""
    names = job.everything.columns

    def write(frame: DataFrame, batch: int) -> None:
        assert frame.columns == names, "this sink takes job.everything"
        target = f"{fspath(path)}/batch={batch}"
        frame.write.mode("overwrite").partitionBy("kind").parquet(target)

    return write


def answers(spark: SparkSession, job: Job, path: str | PathLike[str]) -> DataFrame:
    """The answers that `once` has written, of whole micro-batches only."""
    return _written(spark, job, path, ANSWER).select("batch", *job.schema.names)


def letters(spark: SparkSession, job: Job, path: str | PathLike[str]) -> DataFrame:
    """The dead letters that `once` has written, of whole micro-batches only."""
    found = _written(spark, job, path, LETTER)
    return found.select("batch", *(f"letter.{name}" for name in LETTER_FIELDS))


def _written(spark: SparkSession, job: Job, path: str | PathLike[str], kind: str) -> DataFrame:
    schema = from_arrow_schema(job.spec.output.everything).add("batch", "long")
    reader = spark.read.schema(schema).option("basePath", fspath(path))
    whole = _whole_batches(spark, fspath(path))
    frame = reader.parquet(*whole) if whole else spark.createDataFrame([], schema)
    return frame.where(frame["kind"] == kind)


def _whole_batches(spark: SparkSession, path: str) -> list[str]:
    """The folders of micro-batches that were written to their end, wherever the path leads."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None, "the session has ended"
    pattern = jvm.org.apache.hadoop.fs.Path(path, "batch=*/_SUCCESS")
    system = pattern.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    found = system.globStatus(pattern) or []
    return [str(status.getPath().getParent()) for status in found]
