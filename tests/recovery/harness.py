"""A job is killed again and again, started again, and in the end its sink is counted.

Each kill names a target and a moment: `driver@commit`, `host@any`. A kill waits until some more
micro-batches are committed, then for its moment, and then for a living target. A run in which a
kill did not land has proved nothing, and fails.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from tests.recovery import processes
from tests.recovery.history import WORLD, Files, expected_of, files_of, found, history_of
from tests.recovery.processes import Process
from tests.recovery.watching import MOMENTS, Watched
from tests.spark.cluster import ROOT, cluster, environment
from tests.spark.reference import Played
from tests.spark.world import write_history

SHARDS = 2
LOCAL = "local[2,4]"  # two cores, and a task may fail three times
TARGETS = ("driver", "executor", "host", "worker")
STEP_SECONDS, CLOSE_STEP_SECONDS = 0.05, 0.002  # the second for moments, which are short
PATIENCE_SECONDS = 300.0
GONE_SECONDS = 60.0


class Kill(NamedTuple):
    """What is killed, and when."""

    target: str
    moment: str

    def __str__(self) -> str:
        return f"{self.target}@{self.moment}"


def kills_of(text: str, home: str) -> list[Kill]:
    """Kills as they are written on the command line."""
    kills = [Kill(*word.partition("@")[::2]) for word in text.split()]
    for kill in kills:
        if kill.target not in TARGETS or kill.moment not in MOMENTS:
            raise ValueError(
                f"{kill} is no kill: one of {', '.join(TARGETS)} @ one of {', '.join(MOMENTS)}"
            )
        if kill.target == "executor" and home == "local":
            raise ValueError("a local job has no executor but its driver")
    return kills


class Landed(NamedTuple):
    """What came of a kill: whether it hit a living process, and at the moment it was aimed at.

    A kill at any time is aimed at no moment, and counts as in it.
    """

    kill: Kill
    batch: int
    has_hit: bool
    in_moment: bool

    def __str__(self) -> str:
        what = "killed" if self.has_hit else "MISSED"
        when = "in the moment" if self.in_moment else "after it"
        when = "at any time" if self.kill.moment == "any" else when
        return f"{self.kill!s:16} micro-batch {self.batch:3}  {what}, {when}"


@dataclass
class Report:
    """What a run was, and what it came to."""

    kills: Sequence[Kill]
    landed: list[Landed] = field(default_factory=list)
    trouble: str = ""
    n_checked: int = 0
    n_standing: int = 0  # of them, answers of windows in the end
    lost: int = 0
    twice: int = 0
    n_joined: int = 0  # files that came together, because a driver died while they were noted

    def judge(self, wanted: Played, got: Played) -> None:
        """Count what is missing and what is too much."""
        self._compare(wanted.answers, got.answers)
        self._compare(wanted.letters, got.letters)

    def judge_windows(self, wanted: Counter[Any], added_up: Counter[Any]) -> None:
        """All that was told of windows comes to what they say in the end."""
        self._compare(wanted, added_up)
        self.n_standing += wanted.total()

    def _compare(self, mine: Counter[Any], its: Counter[Any]) -> None:
        for entry in mine.keys() | its.keys():
            self.lost += max(0, mine[entry] - its[entry])
            self.twice += max(0, its[entry] - mine[entry])
        self.n_checked += mine.total()

    def faults(self) -> list[str]:
        """Why the run fails; nothing if it does not."""
        n_hit = sum(landed.has_hit for landed in self.landed)
        aimed = [one for one in self.landed if one.kill.moment != "any"]
        n_in_moment = sum(one.in_moment for one in aimed)
        wrong = {
            self.trouble: bool(self.trouble),
            "no kill was planned": not self.kills,
            f"{n_hit} of {len(self.kills)} kills landed": n_hit < len(self.kills),
            f"{n_in_moment} of {len(aimed)} aimed kills met their moment": 2 * n_in_moment
            < len(aimed),
            "nothing was checked": not self.n_checked,
            "no window had an answer in the end": self.n_checked > 0 and not self.n_standing,
            f"{self.lost} lost": self.lost > 0,
            f"{self.twice} twice or wrong": self.twice > 0,
        }
        return [text for text, is_so in wrong.items() if is_so]

    def verdict(self) -> str:
        n_hit = sum(landed.has_hit for landed in self.landed)
        counts = f"{n_hit} kills, {self.n_checked} answers and letters checked"
        counts += f" ({self.n_joined} times files came together)" if self.n_joined else ""
        said = "; ".join(self.faults())
        return f"FAIL: {said} ({counts})" if said else f"ok: {counts}, 0 lost, 0 twice"


class Stopped(Exception):
    """The job ended in a way that was not planned."""


class Run:
    """A job in a folder that is killed according to a plan."""

    def __init__(
        self, folder: Path, master: str, workers: Sequence[int], sink: str, seed: int
    ) -> None:
        self.folder, self.master, self.sink = folder, master, sink
        self.watched = Watched(folder / "checkpoint", folder / "out")
        self._workers = workers  # of the cluster; none if the driver is its own executor
        self._rng = Random(seed)
        self._starts = 0
        self._driver = self._started()

    def carry_out(self, kills: Sequence[Kill], note: Callable[[Landed], None]) -> None:
        """Kill as planned, then let the job come to its end."""
        for kill in kills:
            note(self._killed(kill))
            if kill.target == "driver":
                self._driver.wait()
                self._driver = self._started()
        self._wait_for(lambda: self._driver.poll() is not None, "the end")
        if self._driver.returncode != 0:
            raise Stopped(f"the driver ended by itself: {self._log()}")

    def stop(self) -> None:
        """Nothing of the job is left."""
        if self._driver.poll() is None:
            processes.kill(processes.javas([self._driver.pid]))
            self._driver.kill()
            self._driver.wait()

    def _killed(self, kill: Kill) -> Landed:
        least = self.watched.committed() + self._rng.choice([0, 1, 1, 2])
        delay = self._rng.random() if kill.moment == "any" else 0.0
        is_now = MOMENTS[kill.moment]
        self._wait_for(
            lambda: self.watched.committed() >= least, f"micro-batch {least}", alive=True
        )
        time.sleep(delay)
        chosen: list[Process] = []

        def is_ready() -> bool:
            if is_now(self.watched):
                chosen[:] = self._targets(kill.target)
            # To choose takes a while, in which the moment may have gone.
            return bool(chosen) and is_now(self.watched)

        self._wait_for(is_ready, f"the moment of {kill}", CLOSE_STEP_SECONDS, alive=True)
        return struck(kill, self.watched, chosen)

    def _targets(self, target: str) -> list[Process]:
        """The processes that such a kill ends; none if there are none just now."""
        own = processes.javas([self._driver.pid])
        if target == "driver":
            driver = processes.read(self._driver.pid)
            return [*own, driver] if own and driver is not None else []
        executors = [p.id for p in (processes.javas(self._workers) if self._workers else own)]
        if target == "executor":
            among = [p for p in processes.javas(self._workers) if p.id in executors]
        else:
            find = processes.hosts if target == "host" else processes.python_workers
            among = find(executors)
        chosen = processes.busiest(among, self._rng) if among else None
        return [] if chosen is None else [chosen]

    def _wait_for(
        self, is_so: Callable[[], bool], what: str, step: float = STEP_SECONDS, *,
        alive: bool = False,
    ) -> None:  # fmt: skip
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            if alive and self._driver.poll() is not None:
                code = self._driver.returncode
                done = "was done" if code == 0 else f"ended by itself: {self._log()}"
                raise Stopped(f"the job {done} before {what}")
            if time.monotonic() > end:
                raise Stopped(f"waited {PATIENCE_SECONDS:.0f} s for {what}: {self._log()}")
            time.sleep(step)

    def _started(self) -> subprocess.Popen[bytes]:
        self._starts += 1
        words = [str(self.folder), self.master, self.sink, str(SHARDS)]
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        with open(self.folder / f"driver{self._starts}.log", "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.recovery.driver", *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT,
                env=environment() | {"TMPDIR": str(temporary)},
            )  # fmt: skip

    def _log(self) -> str:
        path = self.folder / f"driver{self._starts}.log"
        return path.read_text(errors="replace")[-3000:]


def struck(kill: Kill, watched: Watched, chosen: Sequence[Process]) -> Landed:
    """Kill these processes, and judge whether that was in the moment."""
    is_now, batch = MOMENTS[kill.moment], watched.planned()
    was_now = is_now(watched)
    has_hit = processes.kill(chosen)
    # A driver that is dead leaves everything as it was. Without another process the job may go on
    # while that one dies, so there it is the time of the signal that is judged.
    in_moment = is_now(watched) if kill.target == "driver" else was_now
    return Landed(kill, batch, has_hit, in_moment)


def run(
    home: str, sink: str, seed: int, kills: Sequence[Kill], note: Callable[[Landed], None] = print
) -> Report:
    """Run the job of a seed, kill it as planned, and count what is in its sink."""
    report = Report(kills)
    history = history_of(seed, 3 * len(kills) + 2)

    def landed(one: Landed) -> None:
        report.landed.append(one)
        note(one)

    with ExitStack() as stack:
        # Sockets are in it, whose names must not be long.
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="sf-")))
        write_history(WORLD, history, folder)
        master, workers = LOCAL, ()
        if home == "cluster":
            started = stack.enter_context(cluster(folder / "cluster"))
            master, workers = started.url, started.workers
        try:
            with _running(Run(folder, master, workers, sink, seed)) as job:
                job.carry_out(kills, landed)
            files = files_of(folder / "checkpoint")
            _check_all_read(files, len(history))
            report.n_joined = sum(len(paths) > 1 for taken in files for paths in taken.values())
            home, got = expected_of(files, SHARDS), found(folder / "out")
            report.judge(home.played, got)
            report.judge_windows(home.standing(), home.added_up(got))
            if not _all_hosts_end(folder):
                report.trouble = "hosts of shards are left behind"
        except Stopped as error:
            report.trouble = str(error)
    return report


def _all_hosts_end(folder: Path) -> bool:
    """Whether no host lives on after its job; those of a local one have their sockets here."""
    end = time.monotonic() + GONE_SECONDS
    while time.monotonic() < end:
        alive = [p for p in processes.living() if p.runs("standfast.spark.host")]
        if not any(word.startswith(f"{folder}/") for p in alive for word in p.words):
            return True
        time.sleep(0.1)
    return False


def _check_all_read(files: Sequence[Files], n_files: int) -> None:
    """Every file of every input is in exactly one micro-batch."""
    for name in files[0]:
        numbers = sorted(int(path.stem) for taken in files for path in taken[name])
        assert numbers == list(range(n_files)), f"the files of {name} that were read: {numbers}"


@contextmanager
def _running(job: Run) -> Iterator[Run]:
    try:
        yield job
    finally:
        job.stop()
