"""What the Spark figures share: streams that are fed one micro-batch at a time, and their clocks.

    columns -> files, aside -> a folder appears as a whole -> one micro-batch -> its report

Files are written before the clock starts. The time of a micro-batch is the one that Spark reports
for its trigger: offsets, planning, work, state and commit. Jobs that are compared run in the same
session and take turns, so that neither a warmer Java nor a busy neighbour favours one of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.band_case import BandCase
from benchmarks.engine_case import TEMPLATE
from benchmarks.peers import Int64s
from benchmarks.select_case import SelectCase
from standfast import Engine
from standfast.spark import attach
from standfast.spark.hosting import private_folder
from standfast.spark.packing import ROW_BITS
from standfast.spark.progress import Snapshot
from standfast.spark.session import session
from standfast.spark.shards import shard_keys

Columns = dict[str, Int64s]
Build = Callable[[DataFrame], DataFrame]
SELECT_TEMPLATE = (
    "SELECT * FROM supply s JOIN demand d ON s.k = d.k "
    "WHERE s.a BETWEEN :a_lo AND :a_hi AND d.c BETWEEN :c_lo AND :c_hi"
)
SETTINGS = {
    "spark.driver.memory": "6g",
    # Idle streams look for new files less often, so that they disturb the one at work less.
    "spark.sql.streaming.pollingDelay": "50ms",
    # A batch is a folder, and from 33 folders on each look for files would be a job of its own.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
}
TICKS = os.sysconf("SC_CLK_TCK")


@cache
def spark() -> SparkSession:
    """The session of all figures, with a Java that has already run a few micro-batches."""
    found = session("figures", conf=SETTINGS)
    few = np.arange(64)
    small = Work(TEMPLATE, {"id": few, "lo": few, "hi": few}, {"b": few}, {"b": few}, 4)
    with jobs(small) as (stream,):
        for _ in range(8):
            stream.take(small.events)
    return found


@dataclass(frozen=True, slots=True)
class Work:
    """Queries of one template, stored rows of `demand`, events of `supply`."""

    template: str
    queries: Columns
    stored: Columns
    events: Columns
    n_checked: int

    @property
    def checked(self) -> Columns:
        """The first events, whose answers are compared."""
        return {name: values[: self.n_checked] for name, values in self.events.items()}

    def batches(self, n_rows: int) -> Iterator[Columns]:
        """The events in batches, over and over."""
        n = next(iter(self.events.values())).size
        for i in count():
            place = (np.arange(n_rows) + i * n_rows) % n
            yield {name: values[place] for name, values in self.events.items()}


def band_work(case: BandCase) -> Work:
    queries = {"id": np.arange(case.n_queries), "lo": case.lows, "hi": case.highs}
    return Work(TEMPLATE, queries, {"b": case.stored}, {"b": case.events}, case.n_checked)


def select_work(case: SelectCase) -> Work:
    queries = {"id": np.arange(case.n_queries)}
    for i, name in enumerate("ac"):
        queries |= {f"{name}_lo": case.lows[i], f"{name}_hi": case.highs[i]}
    return Work(
        SELECT_TEMPLATE, queries, {"k": case.row_keys, "c": case.row_values},
        {"k": case.keys, "a": case.values}, case.n_checked,
    )  # fmt: skip


class Taken(NamedTuple):
    """What a micro-batch cost, and its answers if they were read."""

    n_rows: int
    seconds: float
    cpu_seconds: float
    report: Snapshot | None
    counts: Int64s | None


class Feed:
    """A folder that streams watch; batches appear in it as a whole."""

    def __init__(self, folder: Path, like: Columns) -> None:
        self._aside, self._come = folder / "aside", folder / "come"
        for place in (self._aside, self._come):
            place.mkdir(parents=True, exist_ok=True)
        self._kinds = ", ".join(f"{name} bigint" for name in like)

    def frame(self) -> DataFrame:
        """What comes, as a streaming frame."""
        files = spark_now().readStream.schema(self._kinds).option("recursiveFileLookup", "true")
        return files.parquet(str(self._come))

    def stage(self, columns: Columns, n_files: int) -> Callable[[], object]:
        """Write a batch where nobody looks; the result lets it come."""
        name = f"{len(list(self._come.iterdir())):06}"
        (self._aside / name).mkdir()
        parts = [np.array_split(values, n_files) for values in columns.values()]
        for i, arrays in enumerate(zip(*parts, strict=True)):
            file = self._aside / name / f"{i}.parquet"
            pq.write_table(pa.table(list(arrays), names=list(columns)), file)
        return lambda: (self._aside / name).rename(self._come / name)


class Stream:
    """A streaming query over a feed; a checkpoint that is there already is continued."""

    def __init__(self, folder: Path, build: Build, like: Columns) -> None:
        self.feed = Feed(folder, like)
        self._checkpoint = str(folder / "checkpoint")
        self._answers = build(self.feed.frame())
        self.reads, self._read = False, list[pa.Table]()

    def __enter__(self) -> Stream:
        writer = self._answers.writeStream.foreachBatch(self._take_answers)
        self.query = writer.option("checkpointLocation", self._checkpoint).start()
        return self

    def __exit__(self, *ended: object) -> None:
        self.query.stop()

    def take(self, columns: Columns, *, n_files: int = 2, reads: bool = False) -> Taken:
        """Let a batch come and wait until it is done; with `reads`, count its answers by event."""
        come, self.reads = self.feed.stage(columns, n_files), reads
        before = cpu_seconds()
        come()
        self.query.processAllAvailable()
        cpu = cpu_seconds() - before
        (*_, report) = (r for r in self.query.recentProgress if r["numInputRows"])
        n_rows = next(iter(columns.values())).size
        assert report["numInputRows"] == n_rows, f"{report['numInputRows']} rows, not {n_rows}"
        return Taken(
            n_rows, report["durationMs"]["triggerExecution"] / 1e3, cpu, Snapshot.of(report),
            self.counts(n_rows) if reads else None,
        )  # fmt: skip

    def counts(self, n_events: int) -> Int64s:
        """The answers that were read last, once they are there."""
        self.query.processAllAvailable()
        return counts_by_event(self._read.pop(), n_events)

    def _take_answers(self, frame: DataFrame, number: int) -> None:
        if self.reads:
            self._read.append(frame.toArrow())
        else:
            frame.write.format("noop").mode("append").save()


def counts_by_event(answers: pa.Table, n_events: int) -> Int64s:
    """How many queries each of the first events affected, if all came in one file."""
    event, queries = (answers[name].to_numpy() for name in ("event", "queries"))
    places = event & ((1 << ROW_BITS) - 1)
    counts = np.zeros(n_events, np.int64)
    is_first = places < n_events
    counts[places[is_first]] = queries[is_first]
    return counts


def spark_now() -> SparkSession:
    """The session that runs; `spark` starts it."""
    found = SparkSession.getActiveSession()
    assert found is not None, "the session has not been started"
    return found


def write(work: Work, folder: Path) -> None:
    """Queries and stored rows as files, which a job starts with."""
    names = pa.array(["queries"] * work.queries["id"].size)
    still = {
        "queries": pa.table(work.queries).append_column("template", names),
        "demand": pa.table(work.stored),
    }
    for name, table in still.items():
        (folder / name).mkdir(parents=True)
        pq.write_table(table, folder / name / "all.parquet")


def standing(template: str, folder: Path, shards: int | None = None) -> Build:
    """The queries of a folder over its stored rows and the events, counted by event."""

    def build(events: DataFrame) -> DataFrame:
        queries, demand = (
            events.sparkSession.read.parquet(str(folder / name)) for name in ("queries", "demand")
        )
        return attach(
            events.sparkSession, {"supply": events, "demand": demand}, {"queries": template},
            queries, output="counts", shards=shards,
        )  # fmt: skip

    return build


def empty(events: DataFrame) -> DataFrame:
    """A stateful job that does nothing, in as many parts as ours."""

    def init(self: object, handle: object) -> None:
        pass

    def rows_of(self: object, key: object, frames: Iterable[object], timers: object) -> list[Any]:
        assert list(frames), "a key without rows"
        return []

    # Made from functions, because Spark's names of the methods are not in this style.
    nothing = type("Nothing", (StatefulProcessor,), {"init": init, "handleInputRows": rows_of})
    n = events.sparkSession.sparkContext.defaultParallelism
    keys = functions.array(*(functions.lit(key) for key in shard_keys(n)))
    shard = functions.get(keys, functions.pmod(functions.col("b"), functions.lit(n)).cast("int"))
    return (
        events.withColumn("shard", shard)
        .groupBy("shard")
        .transformWithStateInPandas(nothing(), "event bigint, queries bigint", "Append", "None")
    )


@contextmanager
def jobs(*works: Work, shards: Sequence[int | None] = (None,)) -> Iterator[list[Stream]]:
    """A stream for each of the works and numbers of shards, all running side by side."""
    with TemporaryDirectory(prefix="figure-") as folder, ExitStack() as running:
        running.callback(end_hosts)
        streams = []
        for i, (work, n) in enumerate((work, n) for work in works for n in shards):
            place = Path(folder) / str(i)
            write(work, place)
            stream = Stream(place, standing(work.template, place, n), work.events)
            streams.append(running.enter_context(stream))
        yield streams


def in_turns(
    streams: Sequence[Stream], batches: Sequence[Iterator[Columns]], n_warm: int, n_timed: int,
    n_files: int = 2,
) -> list[list[Taken]]:  # fmt: skip
    """What each stream's batches cost after a warm-up; a round has one batch of each stream."""
    taken: list[list[Taken]] = [[] for _ in streams]
    for number in range(n_warm + n_timed):
        for i, stream in enumerate(streams):
            done = stream.take(next(batches[i]), n_files=n_files)
            if number >= n_warm:
                taken[i].append(done)
    return taken


def typical(values: Iterator[float] | Sequence[float]) -> float:
    """The median."""
    return float(np.median(list(values)))


def rate(taken: Sequence[Taken]) -> float:
    """Events per second of the median batch."""
    return typical([done.n_rows / done.seconds for done in taken])


class Embedded:
    """The same work by the engine alone, in this process."""

    def __init__(self, work: Work) -> None:
        self.engine = Engine()
        for name, columns in (("supply", work.events), ("demand", work.stored)):
            self.engine.stream(name, dict.fromkeys(columns, "int64"))
        self.engine.register(work.template, name="queries").add(work.queries)
        self.engine.forgo("supply")  # as on Spark, where the stored rows do not grow either
        self.engine.push("demand", work.stored)

    def take(self, columns: Columns) -> Taken:
        """Push a batch and count whom each event affected."""
        cpu, begin = time.process_time(), time.perf_counter()
        counts = self.engine.push("supply", columns)["queries"].counts()["queries"].to_numpy()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        return Taken(counts.size, seconds, cpu, None, counts)

    def steady(self, work: Work, n_rows: int, n_warm: int, n_timed: int) -> list[Taken]:
        """What its batches cost after a warm-up."""
        batches = work.batches(n_rows)
        taken = [self.take(next(batches)) for _ in range(n_warm + n_timed)]
        return taken[n_warm:]


def java() -> int:
    """The process of Spark's Java."""
    jvm: Any = spark_now().sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())


def end_hosts() -> None:
    """End the processes of the shards: a host whose socket is gone ends."""
    for socket in private_folder(java()).iterdir():
        socket.unlink(missing_ok=True)


def cpu_seconds() -> float:
    """CPU time of Spark's Java, its Python workers and the hosts of the shards, until now."""
    top = str(java())
    parents, spent, ours = dict[str, str](), dict[str, float](), {top}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # processes come and go
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents[folder.name] = fields[1]
            spent[folder.name] = sum(int(ticks) for ticks in fields[11:15]) / TICKS
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if "standfast.spark.host" in words and top in words:
                ours.add(folder.name)
    return sum(spent[p] for p in spent if ours & set(_line(p, parents)))


def _line(process: str, parents: dict[str, str]) -> Iterator[str]:
    """A process and those above it."""
    while process in parents:
        yield process
        process = parents[process]
