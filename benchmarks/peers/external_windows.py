"""Windows answered by a program of somebody else's, built apart and named by `STANDFAST_SWAG`.

Structures for one window, such as those of IBM's sliding-window-aggregators, are C++ and no
package: nothing of them is here. A program that follows this protocol is measured in the run that
measures ours, and its answers are compared with ours.

    PROGRAM structure aggregate mode n_batch n_timed values windows answers

    structure   two_stacks_lite, daba_lite or fiba: one for each window;
                fiba_shared: one for all of them, asked for the range of each
    aggregate   sum or max
    mode        each: the answers of all windows are made after every row
                last: after the last row of every n_batch
    n_batch     rows that come together: within a batch a program may go window by window
    n_timed     the last so many rows are timed; those before fill the windows
    values      file of the rows, oldest first, float64
    windows     file of int64: the least age of rows in each window, then the greatest of each;
                the newest row has age 0
    answers     file to be written: the answer of each window after the last row, float64

Files are little-endian and nothing else is in them. At least twice as many rows as the widest
window reaches come before the timed ones. The program prints the seconds that the timed rows and
their answers took by a steady clock, so that neither its start nor its reading counts, and ends
with 0.
"""

from __future__ import annotations

import math
import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.peers import Int64s
from standfast.errors import StandfastError

Floats = npt.NDArray[np.float64]

VARIABLE = "STANDFAST_SWAG"
LONGEST = 300.0  # seconds that a call may take
# What the figures call the structures, and what the program does.
STRUCTURES = {
    "two-stacks lite (C++)": "two_stacks_lite",
    "DABA lite (C++)": "daba_lite",
    "FiBA (C++)": "fiba",
    "FiBA, one for all (C++)": "fiba_shared",
}


class ExternalFailed(StandfastError):
    """The program did not do what the protocol says."""


class Pushes(NamedTuple):
    """How rows come, and when the windows are asked."""

    mode: Literal["each", "last"]
    n_batch: int
    n_timed: int


class Outcome(NamedTuple):
    """What the program printed, and the answers after the last row."""

    seconds: float
    answers: Floats


def program() -> Path | None:
    """The program that the environment names, if it names one."""
    name = os.environ.get(VARIABLE)
    if not name:
        return None
    path = Path(name)
    if not path.is_file():
        raise ExternalFailed(f"{VARIABLE}: no file {name}", hint="name a program, or unset it")
    if not os.access(path, os.X_OK):
        raise ExternalFailed(
            f"{VARIABLE}: {name} cannot be executed", hint=f"chmod +x {name}, or name another"
        )
    return path.absolute()


class ExternalWindows:
    """One structure and one aggregate of the program."""

    def __init__(
        self, path: Path, structure: str, aggregate: str, longest: float = LONGEST
    ) -> None:
        self.path = path
        self.structure = structure
        self.aggregate = aggregate
        self.longest = longest

    def answers(self, lows: Int64s, highs: Int64s, values: Floats, how: Pushes) -> Outcome:
        """Give it the windows and the rows, and let it take its own time."""
        with TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("values", "windows", "answers")]
            values.astype("<f8").tofile(files[0])
            np.concatenate([lows, highs]).astype("<i8").tofile(files[1])
            took = self._took(how, files)
            if not files[2].is_file():
                raise self._failed("wrote no answers")
            found = np.fromfile(files[2], "<f8")
        if found.size != lows.size:
            raise self._failed(f"gave {found.size} answers of {lows.size} windows")
        return Outcome(took, found.astype(np.float64))

    def _took(self, how: Pushes, files: list[Path]) -> float:
        given = [self.structure, self.aggregate, how.mode, how.n_batch, how.n_timed, *files]
        try:
            done = subprocess.run(
                [self.path, *map(str, given)],
                capture_output=True, text=True, errors="replace", timeout=self.longest, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            raise self._failed(f"was not done after {self.longest:g} s") from late
        except OSError as error:
            raise self._failed(f"cannot be run: {error.strerror}") from error
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise self._failed(f"ended with {done.returncode}: {said[-1] if said else 'no word'}")
        try:
            took = float(done.stdout)
        except ValueError:
            took = math.nan
        if not 0 < took < math.inf:
            raise self._failed(f"printed {done.stdout[:40]!r}, no seconds")
        return took

    def _failed(self, what: str) -> ExternalFailed:
        return ExternalFailed(
            f"{self.path.name} {self.structure} {self.aggregate}: {what}",
            hint="the protocol stands in benchmarks/peers/external_windows.py",
        )
