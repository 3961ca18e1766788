"""The processes of a job, found below its driver, and how they are killed.

driver (python)  ->  java  ->  pyspark.daemon  ->  workers       local: java is the executor
cluster worker   ->  java (executor)  ->  pyspark.daemon  ->  workers
hosts of shards name their executor on their command line
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

LOOK_SECONDS = 0.03  # how long workers are watched to find the one that works
GONE_SECONDS = 10.0


class Process(NamedTuple):
    """A process, as the system tells about it."""

    id: int
    parent: int
    is_dead: bool
    ticks: int  # of the processor, used so far
    words: tuple[str, ...]

    def runs(self, word: str) -> bool:
        return word in self.words


def read(identity: int) -> Process | None:
    """What is known of a process; None if it is gone."""
    try:
        stat = Path(f"/proc/{identity}/stat").read_text()
        words = Path(f"/proc/{identity}/cmdline").read_bytes().split(b"\0")[:-1]
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    is_dead = fields[0] in "ZX"
    named = tuple(word.decode(errors="replace") for word in words)
    return Process(identity, int(fields[1]), is_dead, int(fields[11]) + int(fields[12]), named)


def living() -> list[Process]:
    """All processes that are not dead."""
    found = (read(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [process for process in found if process is not None and not process.is_dead]


def below(roots: Iterable[int], among: Iterable[Process]) -> list[Process]:
    """The processes that some roots have started, directly or not."""
    children: dict[int, list[Process]] = {}
    for process in among:
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = list(roots)
    while waiting:
        new = children.get(waiting.pop(), [])
        found += new
        waiting += [process.id for process in new]
    return found


def javas(roots: Iterable[int]) -> list[Process]:
    """The Java processes directly below these."""
    parents = set(roots)
    return [p for p in living() if p.parent in parents and p.words and p.words[0].endswith("java")]


def hosts(executors: Iterable[int]) -> list[Process]:
    """The hosts of shards that belong to some executors."""
    guardians = {str(executor) for executor in executors}
    return [p for p in living() if p.runs("standfast.spark.host") and p.words[-1] in guardians]


def python_workers(executors: Iterable[int]) -> list[Process]:
    """The Python workers of some executors, without the daemons that fork them."""
    found = [p for p in below(executors, living()) if p.runs("pyspark.daemon")]
    daemons = {process.id for process in found}
    return [process for process in found if process.parent in daemons]


def busiest(processes: list[Process], rng: Random) -> Process | None:
    """The process that works most just now, any of them if none does."""
    time.sleep(LOOK_SECONDS)
    found = [(now.ticks - p.ticks, rng.random(), now) for p in processes if (now := read(p.id))]
    alive = [entry for entry in found if not entry[2].is_dead]
    return max(alive)[2] if alive else None


def kill(processes: Iterable[Process]) -> bool:
    """Kill at once; tells whether all were alive before and are dead now."""
    chosen = list(processes)
    were_alive = all((now := read(p.id)) is not None and not now.is_dead for p in chosen)
    for process in chosen:
        with suppress(ProcessLookupError):
            os.kill(process.id, signal.SIGKILL)
    end = time.monotonic() + GONE_SECONDS
    while time.monotonic() < end:
        left = [now for p in chosen if (now := read(p.id)) is not None and not now.is_dead]
        if not left:
            return were_alive and bool(chosen)
        time.sleep(0.01)
    return False
