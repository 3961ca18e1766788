"""The job that gets killed: a history's files through one streaming query, until all are taken.

    python -m tests.recovery.driver FOLDER MASTER SINK SHARDS

It goes on from its checkpoint, however often it is started. A last stage that takes its time keeps
the moment between the state and the commit long enough to be hit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from tests.recovery.history import FORM, WORLD
from tests.spark.homes import job_of

from standfast.spark.session import session
from standfast.spark.sinks import once

PAUSE_SECONDS = 0.25
CONF = {
    "spark.executor.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.minBatchesToRetain": "1000",  # the checkpoint tells what was read when
}


def main(folder: Path, master: str, sink: str, shards: int) -> None:
    """Run the job to its end."""
    spark = session("recovery", master, CONF)
    job = job_of(spark, WORLD, folder, form=FORM, shards=shards)
    out = str(folder / "out")
    writer = _slow(job.everything).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if sink == "file":
        query = writer.format("parquet").option("path", out).start()
    else:
        write = once(job, out)

        def write_slowly(frame: DataFrame, batch: int) -> None:
            write(frame, batch)
            time.sleep(PAUSE_SECONDS)

        query = writer.foreachBatch(write_slowly).start()
    query.awaitTermination()
    spark.stop()


def _slow(frame: DataFrame) -> DataFrame:
    """The same frame out of one more stage, which waits first."""

    def slowly(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(PAUSE_SECONDS)
        yield from batches

    return frame.repartition(1).mapInArrow(slowly, frame.schema)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
