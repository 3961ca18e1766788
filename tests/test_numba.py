"""Kernels are compiled by one process of those that start together."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from standfast import _numba

PROGRAM = """
import sys, time
from pathlib import Path
import numpy as np
from standfast.indexes.lane_kernels import is_sorted

here = Path(sys.argv[1])
(here / f"ready{sys.argv[2]}").touch()
while not (here / "go").exists():
    time.sleep(0.001)
three = np.zeros(3, np.int64)
is_sorted(three, three, three, three == 0)
print(sum(is_sorted.stats.cache_misses.values()), sum(is_sorted.stats.cache_hits.values()))
"""


def started(folder: Path, n: int) -> list[subprocess.Popen[str]]:
    """So many processes that need a kernel at the same moment and have an empty cache."""
    environment = os.environ | {"STANDFAST_CACHE": str(folder / "cache"), "NUMBA_DISABLE_JIT": "0"}
    environment.pop("NUMBA_CACHE_DIR", None)
    made = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), str(i)], env=environment, text=True,
            stdout=subprocess.PIPE,
        )
        for i in range(n)
    ]  # fmt: skip
    end = time.monotonic() + 60
    while len(list(folder.glob("ready*"))) < n and time.monotonic() < end:
        time.sleep(0.01)
    (folder / "go").touch()
    return made


def test_one_of_several_processes_compiles_a_kernel_and_the_others_read_it(tmp_path):
    said = [process.communicate(timeout=120)[0].split() for process in started(tmp_path, 3)]
    assert sorted(said) == [["0", "1"], ["0", "1"], ["1", "0"]]


KEPT = """
import numpy as np
from standfast._numba import kept_in
from standfast.indexes.lane_kernels import is_sorted

three = np.zeros(3, np.int64)
is_sorted(three, three, three, three == 0)
print(kept_in())
"""


def test_a_user_without_a_home_keeps_kernels_in_a_folder_that_nobody_else_may_enter(tmp_path):
    """Services have homes that are not there, or are not theirs: the import failed."""
    environment = os.environ | {"HOME": os.devnull, "TMPDIR": str(tmp_path)}
    environment |= {"NUMBA_DISABLE_JIT": "0"}
    for name in ("STANDFAST_CACHE", "NUMBA_CACHE_DIR"):
        environment.pop(name, None)

    def kept() -> Path:
        words = [sys.executable, "-c", KEPT]
        return Path(subprocess.check_output(words, env=environment, text=True).strip())

    own = tmp_path / f"standfast-kernels-{os.getuid()}"
    assert kept().parent == own == kept().parent
    assert own.stat().st_mode & 0o077 == 0
    assert list(own.rglob("*.nbc")), "nothing was kept"
    own.chmod(0o777)  # others may have written there
    strange = kept().parent
    assert strange != own
    assert strange.parent == tmp_path


def test_a_process_that_keeps_a_lock_for_ever_keeps_nobody_waiting_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(_numba.numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_numba, "LONGEST_WAIT_S", 0.2)
    (tmp_path / "locks").mkdir()
    keeper = subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(tmp_path / "locks" / "one")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert keeper.stdout is not None
    assert keeper.stdout.readline() == "kept\n"
    with open(tmp_path / "locks" / "one", "ab") as file:
        assert not _numba._is_locked(file.fileno())
    begin = time.monotonic()
    with _numba._alone("one"), _numba._alone("two"):
        assert time.monotonic() - begin >= 0.2
    keeper.communicate("")
    with open(tmp_path / "locks" / "one", "ab") as file:
        assert _numba._is_locked(file.fileno())


KEEPER = """
import fcntl, sys
file = open(sys.argv[1], "ab")
fcntl.lockf(file, fcntl.LOCK_EX)
print("kept", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("error", [OSError(45, "not supported"), BlockingIOError()])
def test_who_cannot_lock_does_without_and_who_is_late_waits(tmp_path, monkeypatch, error):
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(fcntl, "lockf", refuse)
    with open(tmp_path / "one", "ab") as file:
        assert _numba._is_locked(file.fileno()) is not isinstance(error, BlockingIOError)


def test_a_cache_that_cannot_be_written_stops_nobody(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(_numba.numba.config, "CACHE_DIR", str(tmp_path / "file"))
    with _numba._alone("one"):
        (tmp_path / "went on").touch()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "went on"]


def test_a_stopwatch_shows_nothing_while_kernels_are_made(monkeypatch):
    watch = _numba.Stopwatch()
    assert watch.seconds() is not None
    monkeypatch.setattr(_numba, "_n_made", _numba._n_made + 1)
    assert watch.seconds() is None
    assert _numba.Stopwatch().seconds() is not None


@pytest.mark.large
def test_a_kernel_that_is_made_is_counted(monkeypatch):
    before = _numba._n_made

    @_numba.kernel
    def twice(x: int) -> int:
        return 2 * x

    assert twice(21) == 42
    assert _numba._n_made == before + 1
    assert twice(21) == 42
    assert _numba._n_made == before + 1
