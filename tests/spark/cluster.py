"""A Spark cluster of its own: a master and two workers with one core each, on loopback.

Ports are chosen by the system. Everything that the processes write goes to the given folder, and
they are stopped by their ids, whatever happens.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from standfast.spark.session import LOOPBACK, java_home

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
STOP_SECONDS = 15.0
_MASTER = r"Starting Spark master at (spark://\S+)"
_WORKER = r"Successfully registered with master (\S+)"


@dataclass(frozen=True)
class Cluster:
    """A running cluster: where to reach it, and the processes of its workers."""

    url: str
    workers: tuple[int, ...]


@contextmanager
def cluster(folder: Path, n_workers: int = 2, *, apart: bool = False) -> Iterator[Cluster]:
    """Start a cluster and wait until all its workers are registered; stop it in the end.

    Workers that are `apart` have an address each, so that Spark takes them for machines.
    """
    running: list[subprocess.Popen[bytes]] = []
    own = ["--port", "0", "--webui-port", "0"]
    try:
        running.append(_started(folder / "master", "master.Master", ["--host", LOOPBACK, *own]))
        url = _said(running[0], folder / "master", _MASTER)
        for number in range(n_workers):
            home = folder / f"worker{number}"
            address = f"127.0.0.{1 + number}" if apart else LOOPBACK
            limits = ["--host", address, "--cores", "1", "--memory", "2g", "--work-dir", str(home)]
            running.append(_started(home, "worker.Worker", [*own, *limits, url]))
        for number, worker in enumerate(running[1:]):
            _said(worker, folder / f"worker{number}", _WORKER)
        yield Cluster(url, tuple(worker.pid for worker in running[1:]))
    finally:
        _stop(running)


def environment() -> dict[str, str]:
    """What processes of Spark, and Python below them, must know."""
    paths = [str(ROOT / "src"), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.environ | {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "SPARK_LOCAL_IP": LOOPBACK,
    }


def _started(home: Path, name: str, options: list[str]) -> subprocess.Popen[bytes]:
    home.mkdir(parents=True)
    spark = Path(pyspark.__file__).parent
    own = {
        "SPARK_HOME": str(spark),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    }
    with open(home / "log", "wb") as log:
        return subprocess.Popen(
            [str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment() | own,
            cwd=home, start_new_session=True,
        )  # fmt: skip


def _said(process: subprocess.Popen[bytes], home: Path, pattern: str) -> str:
    """Wait until a process has logged something; the first group of the pattern."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        text = (home / "log").read_text(errors="replace")
        found = re.search(pattern, text)
        if found:
            return found[1]
        assert process.poll() is None, f"the cluster did not start: {text[-2000:]}"
        time.sleep(0.1)
    raise AssertionError(f"the cluster did not start in {START_SECONDS:.0f} s: {text[-2000:]}")


def _stop(running: list[subprocess.Popen[bytes]]) -> None:
    """Ask the processes to end, workers first; end what does not, and what they have started."""
    for process in reversed(running):
        process.terminate()
    end = time.monotonic() + STOP_SECONDS
    for process in running:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.1, end - time.monotonic()))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
