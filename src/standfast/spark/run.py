"""Running a pipeline file: session, frames, job, progress while it runs, and a clean stop.

A job that is stopped, by a signal or worse, goes on from its checkpoint at the next start.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, from_json, lit, when
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import DateType, StringType, StructField, StructType
from rich.console import Console
from rich.live import Live

from standfast.errors import StandfastError
from standfast.model.query import Kind
from standfast.spark.arriving import TEXT
from standfast.spark.described import Found, found_columns
from standfast.spark.pipeline import Job, attached
from standfast.spark.pipeline_checks import CORRUPT, PARSED_FORMATS
from standfast.spark.pipeline_file import (
    AVAILABLE_NOW,
    FILE_FORMATS,
    Pipeline,
    Rows,
    read_pipeline,
)
from standfast.spark.progress import METRICS, Snapshot, Totals, line, live, summary
from standfast.spark.session import polite, session, unbroken, untraced
from standfast.spark.sinks import files, once
from standfast.spark.sources import SPARK_TYPES, Source

LOOK_EVERY_S = 0.5
# Spark leaves out files that are a week older than the newest; one that is moved keeps its age.
EVER = "36500d"
STOPPING = "Stopping; Ctrl-C once more ends it at once, and the next start goes on all the same."
TRY_AGAIN = (
    "the next start does this micro-batch again, from the checkpoint; if a file or a setting is "
    "wrong, mend it first"
)
ONE_AT_A_TIME = (
    "another job is at this checkpoint: let it run on, or stop it and start again; for a job "
    "beside it name another checkpoint and another output folder"
)
KAFKA = (
    'add "spark.jars.packages" = "org.apache.spark:spark-sql-kafka-0-10_2.13:{0}" to [session.conf]'
)
GONE = "look whether memory was short; the next start goes on from the checkpoint"
# Errors that only say that there was another one.
_WRAPPERS = ("py4j.", "pyspark.errors.exceptions.captured.PythonException")


class JobFailed(StandfastError):
    """A job that Spark could not build, or that it gave up."""


def run(
    path: str | os.PathLike[str], *, console: Console, dry_run: bool = False,
    spark: SparkSession | None = None,
) -> Totals:  # fmt: skip
    """Run a pipeline file until it ends or is stopped; returns what was counted.

    A dry run tells the plan and reads no rows. A session that is passed in is left running.
    """
    pipeline = read_pipeline(path)
    with untraced(), polite():
        return _run(pipeline, console, dry_run=dry_run, spark=spark)


def _run(
    pipeline: Pipeline, console: Console, *, dry_run: bool, spark: SparkSession | None
) -> Totals:
    with console.status("starting Spark"):
        used = spark or session(pipeline.job.name, pipeline.master, pipeline.conf)
    try:
        with console.status("looking at what is to be read"):
            job = build(used, pipeline)
        if dry_run:
            _print(console, job.explain())
            return Totals()
        totals = _stream(job, pipeline, console) if pipeline.streams else _batch(job, pipeline)
        _print(console, *summary(totals))
        _print(console, f"Answers: {pipeline.output.path}")
        return totals
    except (PySparkException, Py4JError, ConnectionError) as error:
        if _is_gone(error):
            raise JobFailed(f"Spark's Java is gone: {error}", hint=GONE) from error
        what, hint = told(error)
        if "KAFKA_DATA_SOURCE_NOT_ENABLED" in what:
            hint = KAFKA.format(used.version)
        raise JobFailed(what, hint=hint or "look at the pipeline file") from error
    finally:
        if spark is None:
            with unbroken(), suppress(Py4JNetworkError, ConnectionError):  # it may be gone
                used.stop()


def _is_gone(error: Exception) -> bool:
    """Whether nobody answers any more; of a call under way Py4J says only which one it was."""
    is_bare = re.fullmatch(r"An error occurred while calling \S+", str(error)) is not None
    is_cut = type(error) is Py4JError and is_bare
    return is_cut or isinstance(error, Py4JNetworkError | ConnectionError)


def build(spark: SparkSession, pipeline: Pipeline) -> Job:
    """The job that a pipeline file describes, on frames that nobody has read yet."""
    columns = found_columns(spark, pipeline)
    inputs = {}
    for name, spec in pipeline.inputs.items():
        found = frame(spark, spec.rows, columns[f"[inputs.{name}]"])
        inputs[name] = Source(found, spec.key or None, spec.time, spec.id, _text_in(found))
    queries = frame(spark, pipeline.queries, columns["[queries]"])
    if "op" in queries.columns:  # a file need not say that it adds
        queries = queries.withColumn("op", coalesce(col("op"), lit("add")))
    return attached(
        spark,
        inputs,
        {name: spec.sql for name, spec in pipeline.templates.items()},
        Source(queries, text=_text_in(queries)),
        output=pipeline.output.form,
        shards=pipeline.job.shards,
        watermark=pipeline.job.watermark,
        strategies={name: spec.strategy for name, spec in pipeline.templates.items()},
    )


def frame(spark: SparkSession, rows: Rows, found: Found) -> DataFrame:
    """The rows of a file, a topic or a generator; nothing that was written becomes SQL."""
    reader = spark.readStream if rows.stream else spark.read
    reader = reader.format(rows.format)
    if rows.stream and rows.format in FILE_FORMATS:
        reader = reader.option("maxFileAge", EVER)
    reader = reader.options(**rows.options)
    if rows.format in PARSED_FORMATS:
        # The fields of a line are counted only where all of them are looked at.
        reader = reader.options(**{CORRUPT: TEXT, "columnPruning": "false"})
        return reader.schema(with_text(rows.schema)).load(rows.path)
    if rows.format in FILE_FORMATS:
        return reader.schema(struct(rows.schema, found)).load(rows.path)
    return decoded(reader.load(), rows.schema) if rows.format == "kafka" else reader.load()


def _text_in(found: DataFrame) -> str | None:
    """The column that has the texts of rows which cannot be read, if there may be any."""
    return TEXT if TEXT in found.columns else None


def decoded(messages: DataFrame, schema: Mapping[str, Kind]) -> DataFrame:
    """The columns of messages whose `value` is JSON; one without a value cannot be read either."""
    value = col("value").cast("string")
    row = from_json(value, with_text(schema), {CORRUPT: TEXT})
    found = messages.select(row.alias("row"), value.alias("value"))
    nothing = when(col("row").isNull(), coalesce(col("value"), lit("")))
    text = coalesce(col("row")[TEXT], nothing).alias(TEXT)
    return found.select(*(col("row")[name].alias(name) for name in schema), text)


def with_text(schema: Mapping[str, Kind]) -> StructType:
    """Declared columns, and the text of a row that does not have them; see `packing`."""
    return struct(schema).add(TEXT, StringType())


def struct(schema: Mapping[str, Kind], found: Found | None = None) -> StructType:
    """Declared columns as Spark calls them; a date that files have is read as one."""
    fields = []
    for name, kind in schema.items():
        is_date = isinstance((found or {}).get(name.casefold()), DateType)
        fields.append(StructField(name, DateType() if is_date else SPARK_TYPES[kind]))
    return StructType(fields)


def private_folder(path: str) -> None:
    """Make a folder that only its owner may enter, unless it is there or somewhere else."""
    folder = Path(path)
    if folder.is_absolute() and not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)


def _batch(job: Job, pipeline: Pipeline) -> Totals:
    """Everything is there already: one pass."""
    begin = time.perf_counter()
    once(job, pipeline.output.path)(job.everything, 0)
    assert job.counted is not None, "a job of static frames counts"
    took = {"batchId": 0, "batchDuration": round(1e3 * (time.perf_counter() - begin))}
    snapshot = Snapshot.of(took | {"observedMetrics": {METRICS: job.counted.get}})
    assert snapshot is not None, "Spark has not told what was counted"
    return Totals().plus(snapshot)


def _stream(job: Job, pipeline: Pipeline, console: Console) -> Totals:
    checkpoint = pipeline.job.checkpoint or ""
    try:
        private_folder(checkpoint)
    except OSError as error:
        hint = "name another folder as checkpoint = in [job]"
        raise JobFailed(f"no checkpoint can be made: {error}", hint=hint) from error
    still = [f"[inputs.{n}]" for n, spec in pipeline.inputs.items() if not spec.rows.stream]
    still += [] if pipeline.queries.stream else ["[queries]"]
    if still and _goes_on(job.compact.sparkSession, checkpoint):
        what = ", ".join(still)
        _print(console, f"Going on from the checkpoint; not read again, being no stream: {what}")
    trigger: dict[str, Any] = {"processingTime": pipeline.job.trigger}
    if pipeline.job.trigger == AVAILABLE_NOW:
        trigger = {"availableNow": True}
    writer = job.everything.writeStream.queryName(pipeline.job.name)
    writer = writer.option("checkpointLocation", checkpoint)
    with _asked_to_stop() as stop:
        query = writer.foreachBatch(once(job, pipeline.output.path)).trigger(**trigger).start()
        totals = _watch(query, stop, console)
    _tell_end(query, totals, console, was_asked=stop.is_set())
    return totals


def _tell_end(query: StreamingQuery, totals: Totals, console: Console, *, was_asked: bool) -> None:
    """Say why a query ended before there was nothing more to do, if it did."""
    failure = query.exception()
    if was_asked:
        _print(console, "Stopped; the next start goes on from here.")
    elif failure:
        if totals.n_batches:
            _print(console, *summary(totals))
        what, hint = told(failure)
        is_second = re.search("Multiple streaming (queries|jobs)", what)
        hint = hint or (ONE_AT_A_TIME if is_second else TRY_AGAIN)
        raise JobFailed(f"the job stopped: {what}", hint=hint)


def _goes_on(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a micro-batch is done; what is no stream was taken in by the first one."""
    system, at = files(spark, checkpoint)
    return bool(system.globStatus(at("commits/[0-9]*")))


def _watch(query: StreamingQuery, stop: threading.Event, console: Console) -> Totals:
    """Show progress until the query ends or somebody asks to stop it."""
    totals = Totals()
    with _screen(console) as show:
        while query.isActive and not stop.wait(LOOK_EVERY_S):
            totals = _shown(query, totals, show)
        if stop.is_set():
            _print(console, STOPPING)
        query.stop()
        return _shown(query, totals, show)


def _shown(
    query: StreamingQuery, totals: Totals, show: Callable[[Totals, list[Snapshot]], None]
) -> Totals:
    news = totals.news(query.recentProgress)
    for snapshot in news:
        totals = totals.plus(snapshot)
    show(totals, news)
    return totals


@contextmanager
def _screen(console: Console) -> Iterator[Callable[[Totals, list[Snapshot]], None]]:
    """Figures that are drawn over, where a terminal can do so; else a line for each micro-batch."""
    if console.is_terminal and not console.is_dumb_terminal:
        with Live(live(Totals()), console=console, auto_refresh=False) as drawn:
            yield lambda totals, _: drawn.update(live(totals), refresh=True)
    else:
        yield lambda _, news: _print(console, *map(line, news))


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """Set by Ctrl-C or a polite kill; the second time it interrupts."""
    stop = threading.Event()

    def ask(number: int, where: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(console: Console, *texts: str) -> None:
    """Lines as they are: nothing in them is markup, and none is broken."""
    for text in texts:
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def told(error: BaseException) -> tuple[str, str]:
    """What an error says and what to do, dug out of the traces that Spark wraps it in.

    That is the last error of ours, else the last one of Python, else what Java says first and the
    deepest of its causes, else the first line.
    """
    text = str(error).strip()
    own = re.findall(r"^standfast\.[\w.]+: (.+)(?:\n  hint: (.+))?", text, re.M)
    if own:
        return own[-1][0], own[-1][1]
    other = re.findall(r"^([A-Za-z_]\w*(?:\.\w+)*(?:Error|Exception): .+)", text, re.M)
    other = [found for found in other if not found.startswith(_WRAPPERS)]
    if other:
        return other[-1], ""
    # A message ends where the stack begins; lines of it may be indented with a space.
    java = re.findall(r"^(?:Caused by)?: [\w.$]+: (.+(?:\n(?!\t|Caused by: |: ).+)*)", text, re.M)
    said = [re.sub(r"\s*SQLSTATE: \w+|\s*\n\s*", " ", found).strip() for found in java]
    if not said:
        return text.split("\n", 1)[0], ""
    return (said[0] if said[-1] in said[0] else f"{said[0].rstrip('.')}: {said[-1]}"), ""
