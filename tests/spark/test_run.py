"""Running pipeline files: the example from end to end, stops and starts, and what is told."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pyarrow.dataset as ds
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from tests.spark.jobs_in_files import EXAMPLE, console_of, example
from typer.testing import CliRunner

import doc_names
from doc_names import ROOT
from standfast.cli import app
from standfast.spark import run as module
from standfast.spark.run import private_folder

LONGEST_S = 600  # a run that hangs is a failure, not a wait
# Which trade affects which query of the example, by hand.
PAIRS = {
    ("cheap", 1): [4, 8],
    ("cheap", 2): [2, 3, 4, 6, 7, 8],
    ("scarce", 1): [3, 7],
    ("scarce", 2): [4],
    ("scarce", 3): [2, 4, 6],
}
COUNTS = {
    "received": 12, "used": 10, "late": 0, "duplicate": 1, "rejected": 1, "added": 6, "removed": 1,
    "repeated": 0, "refused": 1, "times": 14,
}  # fmt: skip


class _Query:
    """Stands for a streaming query: reports a batch, and is active for so many looks."""

    def __init__(self, looks: int) -> None:
        metrics = {"received": 2, "used": 2}
        self.reports = [{"batchId": 0, "observedMetrics": {"standfast": metrics}}]
        self.looks, self.stops = looks, 0

    def __getattr__(self, name: str) -> object:
        if name == "isActive":
            self.looks -= 1
            return self.looks >= 0
        assert name == "recentProgress"
        return self.reports

    def stop(self) -> None:
        self.stops += 1


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.001)


def test_a_query_that_ends_is_watched_to_its_end(fast):
    query, console = _Query(3), console_of(terminal=False)
    with module._asked_to_stop() as stop:
        totals = module._watch(query, stop, console)
    assert (totals.n_batches, totals.counts["received"], query.stops) == (1, 2, 1)
    (line,) = console.file.getvalue().splitlines()
    assert line.startswith("batch 0: 2 rows in")


def test_a_terminal_sees_live_figures(fast):
    console = console_of(terminal=True)
    with module._asked_to_stop() as stop:
        module._watch(_Query(2), stop, console)
    assert "waiting for the first micro-batch" in console.file.getvalue()
    assert "2 used + 0 late" in console.file.getvalue()


@pytest.mark.parametrize("looks", [3, 0])
def test_a_query_that_fails_tells_what_it_did_before(fast, looks):
    """What was counted was told only by jobs that came to their end."""
    query, console = _Query(looks), console_of(terminal=False)
    query.reports = query.reports[: min(looks, 1)]
    query.exception = lambda: Exception(TRACE.format("standfast.errors.BadInput: too many"))
    with module._asked_to_stop() as stop:
        totals = module._watch(query, stop, console)
    with pytest.raises(module.JobFailed, match=r"^the job stopped: too many\n  hint: the next"):
        module._tell_end(query, totals, console, was_asked=False)
    told = "rows: 2 received = 2 used + 0 late + 0 duplicate + 0 rejected\n"
    assert (told in console.file.getvalue()) == (looks > 0)
    module._tell_end(query, totals, console, was_asked=True)
    assert console.file.getvalue().endswith("Stopped; the next start goes on from here.\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_asks_to_stop_and_the_second_interrupts(fast, number):
    before = signal.getsignal(number)
    query = _Query(10**9)
    with module._asked_to_stop() as stop:
        signal.raise_signal(number)
        assert stop.is_set()
        totals = module._watch(query, stop, console := console_of(terminal=False))
        assert (query.stops, totals.n_batches) == (1, 1)
        assert module.STOPPING in console.file.getvalue()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) is before


def test_a_folder_is_made_for_its_owner_only_and_left_alone_if_it_is_there(tmp_path):
    private_folder(str(tmp_path / "a" / "b"))
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    private_folder(str(tmp_path / "open"))
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o755
    private_folder("s3a://bucket/folder")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "open"]


def test_a_wrong_file_ends_the_command_with_what_and_where(tmp_path):
    file = tmp_path / "pipeline.toml"
    file.write_text('[inputs.trades]\nformat = "xls"\n')
    done = CliRunner().invoke(app, ["run", str(file)])
    assert done.exit_code == 2
    assert f"Error: {file}:1: the section [templates] is missing or empty" in done.output
    assert f"{file}:2: [inputs.trades] format cannot be 'xls'\n  hint: " in done.output
    assert CliRunner().invoke(app, ["run", str(tmp_path / "none.toml")]).exit_code == 2


TRACE = """[STREAM_FAILED] Query [id = 1] terminated with exception: An exception was raised by
Traceback (most recent call last):
  File "py4j/clientserver.py", line 636, in _call_proxy
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker
Traceback (most recent call last):
  File "state.py", line 61, in read_meta
{0}
SQLSTATE: 38000 SQLSTATE: XXKST
"""


JAVA = """An exception was raised by the Python Proxy. Return Message: Traceback
  File "py4j/protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o421.parquet.
: org.apache.spark.SparkException: {0} SQLSTATE: KD001
\tat org.apache.spark.util.SparkErrorUtils.tryWithSafeFinally(SparkErrorUtils.scala:86)
\tSuppressed: java.io.IOException: Stream Closed
{1}\t... 1 more

=== Streaming Query ===
Identifier: p [id = 1, runId = 2]
Logical Plan:
~WriteToMicroBatchDataSourceV1 ForeachBatchSink: x
"""
READING = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.csv. "
HEADER = """\
Caused by: org.apache.spark.SparkIllegalArgumentException: CSV header does not conform.
 Header: id, when
Expected: at but found: when
\tat org.apache.spark.sql.catalyst.csv.CSVHeaderChecker.x(CSVHeaderChecker.scala:115)
"""
PARQUET = """\
Caused by: java.util.concurrent.ExecutionException: no
\tat java.base/x
Caused by: java.lang.RuntimeException: file:/in/a.parquet is not a Parquet file. Expected magic
\tat org.apache.parquet.x
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (JAVA.format(READING, HEADER), (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.csv: CSV "
            "header does not conform. Header: id, when Expected: at but found: when",
            "")),
        (JAVA.format(READING, PARQUET), (
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/a.csv: "
            "file:/in/a.parquet is not a Parquet file. Expected magic", "")),
        (JAVA.format("mkdir of file:/out/batch=0 failed", ""), (
            "mkdir of file:/out/batch=0 failed", "")),
        (JAVA.format("it", "Caused by: OSError: no\n") + "OSError: [Errno 28] No space", (
            "OSError: [Errno 28] No space", "")),
        (
            TRACE.format("standfast.spark.state.WrongState: 2 shards\n  hint: go on with 2"),
            ("2 shards", "go on with 2"),
        ),
        (TRACE.format("standfast.errors.BadInput: too many"), ("too many", "")),
        (TRACE.format("OSError: [Errno 28] No space"), ("OSError: [Errno 28] No space", "")),
        ("[PATH_NOT_FOUND] there is no such path\n at java.lang", (
            "[PATH_NOT_FOUND] there is no such path", "")),
    ],
)  # fmt: skip
def test_what_went_wrong_is_dug_out_of_the_traces_around_it(text, said):
    assert module.told(Exception(text)) == said


def test_what_java_throws_is_a_failure_of_the_job_too(monkeypatch):
    """Only errors that PySpark knows were told; others ended in a trace."""

    def fail(*_: object) -> None:
        raise Py4JError("An error occurred while calling o1.start.\n: java.io.IOException: not so")

    monkeypatch.setattr(module, "read_pipeline", lambda _: None)
    monkeypatch.setattr(module, "build", fail)
    with pytest.raises(module.JobFailed, match=r"^not so\n  hint: look at the pipeline file$"):
        module.run("x", console=console_of(terminal=False), spark=object())


@pytest.mark.parametrize("error", [Py4JNetworkError, ConnectionRefusedError, Py4JError])
def test_a_java_that_is_gone_is_told_and_need_not_be_stopped(monkeypatch, error):
    """A job whose Java was killed ended in a trace of its end, and of the try to stop it."""

    class Dead:
        def stop(self) -> None:
            raise ConnectionRefusedError(111, "Connection refused")

    def fail(*_: object) -> None:
        raise error("An error occurred while calling o1.x")

    pipeline = SimpleNamespace(job=SimpleNamespace(name="x"), master="local", conf={})
    monkeypatch.setattr(module, "read_pipeline", lambda _: pipeline)
    monkeypatch.setattr(module, "session", lambda *_: Dead())
    monkeypatch.setattr(module, "build", fail)
    said = (
        r"^Spark's Java is gone: An error occurred while calling o1.x\n  hint: look whether memory"
    )
    with pytest.raises(module.JobFailed, match=said):
        module.run("x", console=console_of(terminal=False))


def test_the_documented_example_is_the_one_that_runs():
    shown = dict(doc_names.blocks((ROOT / "docs" / "pipeline.md").read_text()))
    assert shown["toml"] == (EXAMPLE / "pipeline.toml").read_text()


def _command(*words: object) -> list[str]:
    return [sys.executable, "-m", "standfast.cli", *map(str, words)]


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def _counts(text: str) -> Counter[str]:
    """The counters in a summary: what became of rows and changes, and how many were affected."""
    lines = [x for x in text.splitlines() if x.startswith(("rows: ", "queries: "))]
    lines += [x.rpartition("affected ")[2] for x in text.splitlines() if "micro-batches, " in x]
    found = re.findall(r"(\d[\d,]*) (\w+)", " ".join(lines))
    total: Counter[str] = Counter()
    for number, name in found:
        total[name] += int(number.replace(",", ""))
    return total


def _written(folder: Path) -> tuple[dict[tuple[str, int], list[int]], list[str]]:
    """The answers by query, and the reasons of the dead letters."""
    table = ds.dataset(folder, partitioning="hive").to_table()
    rows = table.to_pylist()
    pairs: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        if row["kind"] == "answers":
            assert (row["input"], row["change"]) == ("trades", 1)
            pairs.setdefault((row["template"], row["query"]), []).append(row["event"])
    reasons = [row["letter"]["reason"] for row in rows if row["kind"] == "letters"]
    return {key: sorted(events) for key, events in sorted(pairs.items())}, sorted(reasons)


@pytest.mark.long
def test_a_job_that_is_stopped_goes_on_at_the_next_start(tmp_path):
    """The first file, Ctrl-C, the second file: as if nothing had happened in between.

    The second file is a month older: Spark left files out that were a week older than the newest.
    The stock is named after the trades here; as it is no stream, it is there before them.
    """
    file = example(tmp_path / "prices")
    text = file.read_text()
    stock = text[text.index("[inputs.stock]") : text.index("[inputs.trades]")]
    file.write_text(
        text.replace(stock, "").replace("[templates.cheap]", f"{stock}[templates.cheap]")
    )
    second = file.parent / "trades" / "second.csv"
    second.rename(tmp_path / "second.csv")
    month_ago = second.parent.stat().st_mtime - 30 * 86_400
    os.utime(tmp_path / "second.csv", (month_ago, month_ago))
    text = file.read_text()
    file.write_text(text.replace('trigger = "available now"', 'trigger = "1 second"'))
    with subprocess.Popen(
        _command("run", file), env=_environment(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        killer = threading.Timer(LONGEST_S, running.kill)
        killer.start()
        before = ""
        for line in running.stdout:
            before += line
            if line.startswith("batch 0: "):
                running.send_signal(signal.SIGINT)
        killer.cancel()
        assert running.wait() == 0, before
    assert "Stopped; the next start goes on from here." in before
    file.write_text(text)
    shutil.move(tmp_path / "second.csv", second)
    done = subprocess.run(
        _command("run", file), env=_environment(), cwd=tmp_path, capture_output=True, text=True,
        timeout=LONGEST_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    going_on = "Going on from the checkpoint; not read again, being no stream: [inputs.stock]\n"
    assert (going_on in before, going_on in done.stdout) == (False, True)
    assert "batch 1: 4 rows in" in done.stdout
    assert _counts(before) + _counts(done.stdout) == Counter(COUNTS)
    pairs, reasons = _written(file.parent / "answers")
    assert pairs == PAIRS
    assert len(reasons) == 3
    assert stat.S_IMODE((file.parent / "checkpoint").stat().st_mode) == 0o700


PROGRAM = """
import sys
from rich.console import Console
from standfast.errors import StandfastError
from standfast.spark.run import decoded, run
from standfast.spark.session import session

spark, console = session(master="local[2]"), Console()
run(sys.argv[1], console=console, spark=spark, dry_run=True)
for _ in range(2):
    run(sys.argv[1], console=console, spark=spark)
run(sys.argv[3], console=console, spark=spark, dry_run=True)
run(sys.argv[3], console=console, spark=spark)
texts = [(b'{"a": 1, "b": "x", "c": 2}',), (b"broken",), (None,)]
messages = spark.createDataFrame(texts, "value binary")
print(decoded(messages, {"a": "int64", "b": "string", "at": "timestamp"}).collect())
try:
    run(sys.argv[2], console=console, spark=spark)
except StandfastError as error:
    print(type(error).__name__, error.message[:30])
spark.stop()
"""


SOLD = """
[templates.sold]
sql = '''
SELECT item, COUNT(*) OVER (PARTITION BY item ORDER BY at
RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) AS n FROM trades QUALIFY n >= :few
'''
"""


def _with_window(file: Path, folder: Path) -> Path:
    """The same job beside a query over windows: items with two trades or more."""
    shutil.copytree(file.parent, folder)
    changed = folder / "pipeline.toml"
    changed.write_text(file.read_text().replace('form = "pairs"', 'form = "rows"') + SOLD)
    with (folder / "queries" / "queries.csv").open("a") as queries:
        queries.write("sold,add,1,,,,2\n")
    return changed


@pytest.mark.sweep
def test_a_job_of_static_rows_is_one_pass_that_can_be_repeated(tmp_path):
    file = example(tmp_path / "prices")
    text = file.read_text().replace("stream = false", "")
    text = text.replace('path = "trades"', 'path = "trades"\nstream = false')
    text = re.sub(r'path = "(stock|queries)"', r'path = "\1"\nstream = false', text)
    file.write_text(re.sub(r"options = .*", "", text))
    window = _with_window(file, tmp_path / "window")
    kafka = tmp_path / "prices" / "kafka.toml"
    kafka.write_text(re.sub(r'"csv"\npath = "trades"', '"kafka"', file.read_text()))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(file), str(kafka), str(window)], env=_environment(),
        cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "template  cheap: filter over trades" in done.stdout
    assert done.stdout.count(f"Answers: {file.parent / 'answers'}") == 2
    repeated = Counter({name: 3 * n for name, n in COUNTS.items()})
    assert _counts(done.stdout) == repeated + Counter(added=1, times=2)
    assert re.findall(r"'?standfast text'?=([^)]*)", done.stdout) == ["None", "'broken'", "''"]
    assert "JobFailed" in done.stdout
    pairs, reasons = _written(file.parent / "answers")
    assert pairs == PAIRS
    assert len(reasons) == 3
    told = ds.dataset(window.parent / "answers", partitioning="hive").to_table().to_pylist()
    assert sorted(
        (row["event"], row["query"], row["item"], row["n"], row["change"])
        for row in told
        if row["template"] == "sold"
    ) == [(None, 1, 10, 3, 1), (None, 1, 20, 2, 1)]
    assert "sold: 1 bucket by trades.item, 2 slices each; stored on all slices" in done.stdout
