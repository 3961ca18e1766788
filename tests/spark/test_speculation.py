"""A task that stands still is started again elsewhere, and what it says is told once.

    executor on 127.0.0.1   shard 0: its host is stopped in mid-batch ......... killed, or too late
    executor on 127.0.0.2   shard 1, then a copy of shard 0: built from state -> the answer

Spark makes a copy of a slow task only on another machine, so the workers have an address each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.recovery.history import WORLD
from tests.recovery.processes import Process, hosts, javas, read
from tests.spark.cluster import ROOT, Cluster, cluster, environment

from standfast.spark.pipeline import FORMAT, state_settings

# A copy is made of what takes a little longer than the other task of its stage.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}
LOGGED = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
OPERATOR = "TransformWithState"
LOOK_SECONDS = 0.02
STOPPED_SECONDS, PAUSE_SECONDS = 4.0, 0.5


@contextmanager
def stopped(host: Process) -> Iterator[None]:
    """A process that stands still meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(host.id, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(host.id, signal.SIGCONT)


def hold_up(job: subprocess.Popen[str], running: Cluster, rng: Random) -> int:
    """Let hosts that work stand still, one after the other, until the job ends; how many did."""
    n_stopped = 0
    while job.poll() is None:
        before = hosts(java.id for java in javas(running.workers))
        time.sleep(LOOK_SECONDS)
        found = [(host, read(host.id)) for host in before]
        busy = [host for host, now in found if now is not None and now.ticks > host.ticks]
        if busy:
            with stopped(rng.choice(busy)):
                n_stopped += 1
                with suppress(subprocess.TimeoutExpired):
                    job.wait(STOPPED_SECONDS)
            time.sleep(PAUSE_SECONDS)
    return n_stopped


def told(folder: Path, event: str) -> Iterator[dict[str, Any]]:
    """The events of one kind out of Spark's own log."""
    for path in folder.rglob("events_*"):
        for line in path.read_text().splitlines():
            found = json.loads(line)
            if found["Event"] == event:
                yield found


def copies(folder: Path) -> list[dict[str, Any]]:
    """The attempts of stateful tasks that Spark started beside one that ran."""
    stateful = set()
    for found in told(folder, "SparkListenerStageSubmitted"):
        stage = found["Stage Info"]
        if any(OPERATOR in rdd.get("Scope", "") for rdd in stage["RDD Info"]):
            stateful.add(stage["Stage ID"])
    ends = told(folder, "SparkListenerTaskEnd")
    return [e for e in ends if e["Stage ID"] in stateful and e["Task Info"]["Speculative"]]


def test_with_speculation_every_attempt_has_a_state_of_its_own() -> None:
    """Without it, answers and state could be of different attempts."""
    assert FORMAT not in state_settings("false")
    for said in ("true", "True"):  # Java reads both
        assert state_settings(said) == state_settings("false") | {FORMAT: "2"}


@pytest.mark.sweep
def test_a_copy_of_a_slow_task_gives_what_the_task_would_have_given(tmp_path: Path) -> None:
    log = tmp_path / "events"
    log.mkdir()
    conf = SPECULATION | LOGGED | {"spark.eventLog.dir": log.as_uri()}
    words = ["--form", "rows", "--seed", "3", "--batches", "6", "--rows", "20"]
    words += ["--templates", " ".join(WORLD.templates)]
    for key, value in conf.items():
        words += ["--conf", f"{key}={value}"]
    with cluster(tmp_path / "cluster", apart=True) as running, subprocess.Popen(
        [sys.executable, "-m", "tests.spark.homes", "--master", running.url, *words],
        cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as job:  # fmt: skip
        n_stopped = hold_up(job, running, Random(3))
        said = job.communicate()[0]
    assert job.returncode == 0, said
    assert said.splitlines()[-1].startswith("0 differences in "), said
    ends = [end["Task End Reason"]["Reason"] for end in copies(log)]
    assert ends.count("Success") > 0, f"{n_stopped} hosts stood still, copies came to {ends}"
