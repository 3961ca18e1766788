"""One history on several homes: the embedded engine, Spark on this machine, a Spark cluster.

    history  ->  embedded engine                                ->  Played
             ->  files  ->  one streaming query  ->  file sink  ->  Played

As a program (`python -m tests.spark.homes`) it plays one history on a master and says what differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from tests.spark.reference import COUNTED, FORMS, Played, embedded, entry_of, plain_rows
from tests.spark.world import (
    CHANGE_COLUMNS,
    DELICATE,
    LATENESS_US,
    QUERIES,
    World,
    draw_history,
    table_of,
    whole_world,
    write_history,
)

from standfast.spark import Job, Source, attached
from standfast.spark.pipeline import METRICS
from standfast.spark.session import session

BATCH_SHIFT, ROW_MASK = 39, (1 << 25) - 1  # of the number of an event that has no id


def pieces_of(job: Job) -> dict[str, int]:
    """Into how many pieces the shards cut the rows of templates where that is visible."""
    plan = job.spec.plan
    return {n: plan.grid(part)[1] for part in plan.parts for n in part.templates if n in DELICATE}


def job_of(
    spark: SparkSession, world: World, folder: Path, *, form: str = "pairs", shards: int = 2,
    streaming: bool = True,
) -> Job:  # fmt: skip
    """The world attached to the files of a history, a file of each input in each micro-batch."""

    def frame(name: str, columns: Mapping[str, str]) -> DataFrame:
        schema = from_arrow_schema(table_of(columns, []).schema)
        if not streaming:
            return spark.read.schema(schema).parquet(str(folder / name))
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(folder / name))

    inputs = {
        name: Source(frame(name, d.columns), key=d.key, time=d.time, id=d.id)
        for name, d in world.inputs.items()
    }
    timed = any(declared.time for declared in world.inputs.values())
    watermark = f"{LATENESS_US // 1_000_000} seconds" if timed else None
    return attached(
        spark, inputs, world.templates, frame(QUERIES, CHANGE_COLUMNS), output=form, shards=shards,
        watermark=watermark, strategies=world.ways,
    )  # fmt: skip


def streamed(job: Job, world: World, folder: Path) -> Played:
    """A job on the files of a history, run to its end into the file sink."""
    out = folder / "out"
    query = (
        job.everything.writeStream.format("parquet").option("path", str(out))
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
        .start()
    )  # fmt: skip
    query.awaitTermination()
    played = read_everything(world, committed(out))
    for progress in query.recentProgress:
        metrics = progress["observedMetrics"].get(METRICS)
        if metrics is not None:
            played.counts.append({name: metrics[name] for name in COUNTED})
    return played


def committed(out: Path) -> pa.Table:
    """What the file sink has committed, by its own log."""
    paths: dict[str, None] = {}
    for log in (out / "_spark_metadata").iterdir():
        if not log.name.startswith("."):
            for line in log.read_text().splitlines()[1:]:
                paths[unquote(urlparse(json.loads(line)["path"]).path)] = None
    found = [pq.ParquetFile(path).read() for path in sorted(paths)]
    return pa.concat_tables(table for table in found if table.num_rows)


def read_everything(world: World, table: pa.Table) -> Played:
    """Answers and dead letters out of the rows of `Job.everything`."""
    played = Played()
    for row in plain_rows(table):
        if row.pop("kind") == "answers":
            row["event"] = _event(world, row["input"], row.get("event"))
            played.answers[entry_of(row)] += 1
        else:
            letter = row["letter"]
            reason = letter["reason"]
            if reason.startswith("there is no template"):
                reason = reason.partition(";")[0]
            event = letter["event"]
            if event is not None and letter["source"] in world.inputs:
                event = _event(world, letter["source"], event)
                event = event if isinstance(event, tuple) else str(event)
            rest = (reason, letter["column"], letter["value"])
            played.letters[letter["source"], event, *rest] += 1
    return played


def _event(world: World, name: str, event: Any) -> Any:
    """The id of an event as its column has it; micro-batch and row if it has none.

    Windows are answered by no event.
    """
    declared = world.inputs[name]
    if event is None:
        return None
    if declared.id is not None:
        return int(event) if declared.columns[declared.id] == "int64" else event
    return int(event) >> BATCH_SHIFT, int(event) & ROW_MASK


def told_alike(world: World, form: str) -> World:
    """What every home tells in the same rows: of windows each shard counts and lists its own."""
    whole = form in ("pairs", "rows")
    return world if whole else world.only(*(world.templates.keys() - world.windows()))


def compare(
    spark: SparkSession, world: World, seed: int, *, form: str, shards: int, **sizes: int
) -> tuple[Played, list[str]]:
    """Play a seed's history embedded and on Spark; what Spark gave, and what differs."""
    history = draw_history(world, seed, **sizes)
    with tempfile.TemporaryDirectory(prefix="standfast-homes-") as name:
        folder = Path(name)
        write_history(world, history, folder)
        job = job_of(spark, world, folder, form=form, shards=shards)
        played = streamed(job, world, folder)
    return played, embedded(world, history, form, pieces_of(job)).differences(played)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare two homes; says what differs, and gives 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.homes")
    parser.add_argument("--master", default="local[2,4]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--form", default="pairs", choices=list(FORMS))
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--rows", type=int, default=40, help="of an input in a micro-batch")
    parser.add_argument("--templates", default="", help="their names; all without it")
    parser.add_argument("--conf", action="append", default=[], help="key=value, for the session")
    given = parser.parse_args(arguments)
    conf = {"spark.executor.memory": "1g", "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    conf |= dict(pair.split("=", 1) for pair in given.conf)
    world = whole_world()
    world = world.only(*given.templates.split()) if given.templates else world
    world = told_alike(world, given.form)
    spark = session(master=given.master, conf=conf)
    try:
        played, differ = compare(
            spark, world, given.seed, form=given.form,
            shards=given.shards, n_batches=given.batches, n_rows=given.rows,
        )  # fmt: skip
    finally:
        spark.stop()
    for text in differ[:40]:
        print(text)
    print(
        f"{len(differ)} differences in {played.answers.total()} answers, "
        f"{played.letters.total()} dead letters, {len(played.counts)} micro-batches"
    )
    silent = world.templates.keys() - {dict(entry)["template"] for entry in played.answers}
    if silent:
        print(f"no answers of {', '.join(sorted(silent))}: that they are equal says nothing")
    return 1 if differ or silent else 0


if __name__ == "__main__":
    sys.exit(main())
