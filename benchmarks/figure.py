"""A figure is a program with a claim: points to sweep, series to measure, `holds` to decide.

    sweep     50 ... 500,000                     prepare(point) makes the data, before any clock
    series    groups | merge | numpy ...         each returns readings, with its answer to check
    holds     groups >= 100 x merge at 100,000   true or not, and the sentence that says by how much

A run writes one CSV with the machine's line on top; the plot, the verdict and the report are made
from that file alone, so all of them can be redone without measuring again. All series of one point
that give an answer must give the same one, or the run fails: a fast wrong answer is no figure.
"""

from __future__ import annotations

import csv
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.clock import use_budget

Size = Literal["smoke", "full"]
PACKAGES = ("numpy", "numba", "duckdb", "polars", "rtree", "superintervals")


class WrongAnswer(Exception):
    """Two series of a figure answered the same question differently."""


class Reading(NamedTuple):
    """One measured value; `answer` is compared with those of the other series of the point."""

    value: float
    answer: npt.NDArray[np.int64] | None = None
    panel: str = ""
    x: float | None = None


class Answer(NamedTuple):
    """What a series answered, in a form that can be compared."""

    series: str
    entries: npt.NDArray[np.int64]


class Verdict(NamedTuple):
    """Whether the claim was reproduced, and the measured sentence."""

    holds: bool
    text: str


class Row(NamedTuple):
    """One line of the CSV. Figures with several pictures name the picture in `panel`."""

    panel: str
    series: str
    x: float
    value: float


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one run, with what produced them."""

    figure: str
    size: str
    machine: str
    rows: tuple[Row, ...]

    def curve(self, series: str, panel: str = "") -> dict[float, float]:
        """The values of one series by x."""
        return {r.x: r.value for r in self.rows if (r.panel, r.series) == (panel, series)}

    def value(self, series: str, x: float, panel: str = "") -> float:
        """One value; a missing one is an error that names it."""
        curve = self.curve(series, panel)
        if x not in curve:
            raise KeyError(f"{self.figure}: no value of {series!r} at {x:g} in panel {panel!r}")
        return curve[x]

    def panels(self) -> list[str]:
        return list(dict.fromkeys(r.panel for r in self.rows))

    def series(self, panel: str = "") -> list[str]:
        return list(dict.fromkeys(r.series for r in self.rows if r.panel == panel))


@dataclass(frozen=True, slots=True)
class Figure:
    """What is claimed, over which points, measured how, and when it holds.

    `sweep` has the points of a smoke run (seconds, in the test suite) and of a full one. `prepare`
    makes the data of a point; each series takes it and returns readings, or nothing where it is
    not measured (a way that would take minutes at that point). Where a ratio decides, the series
    take turns for several `rounds`, so that a noisy neighbour disturbs all of them alike, and the
    `better` value of each is kept.
    """

    name: str
    source: str
    claim: str
    x_label: str
    y_label: str
    sweep: Mapping[Size, Sequence[float]]
    prepare: Callable[[float, Size], Any]
    series: Mapping[str, Callable[[Any], Iterable[Reading]]]
    holds: Callable[[Table], Verdict]
    log_x: bool = False
    log_y: bool = False
    notes: str = ""
    rounds: int = 1
    better: Callable[[float, float], float] = max
    dashed: frozenset[str] = field(default_factory=frozenset)

    def n_steps(self, size: Size) -> int:
        return len(self.sweep[size]) * len(self.series) * self.rounds

    def run(self, size: Size, on_step: Callable[[str], None] = lambda text: None) -> Table:
        """Measure every series at every point; refuse to return unequal answers."""
        use_budget(size)
        best: dict[tuple[str, str, float], float] = {}
        for point in self.sweep[size]:
            case = self.prepare(point, size)
            answers: dict[tuple[str, float], Answer] = {}
            for name, measure in list(self.series.items()) * self.rounds:
                for reading in measure(case):
                    x = float(point if reading.x is None else reading.x)
                    if reading.answer is not None:
                        answer = Answer(name, reading.answer)
                        first = answers.setdefault((reading.panel, x), answer)
                        self._compare(x, first, answer)
                    key = (reading.panel, name, x)
                    best[key] = self.better(best.get(key, reading.value), reading.value)
                on_step(f"{self.name} {point:g} {name}")
        rows = tuple(Row(*key, float(value)) for key, value in best.items())
        return Table(self.name, size, machine_line(), rows)

    def verdict(self, table: Table) -> Verdict:
        """What `holds` says; values of an older version of the figure do not hold."""
        try:
            return self.holds(table)
        except KeyError as missing:
            return Verdict(False, f"measured before the figure changed: {missing.args[0]}.")

    def _compare(self, x: float, first: Answer, other: Answer) -> None:
        if not np.array_equal(first.entries, other.entries):
            n = np.setxor1d(first.entries, other.entries).size
            raise WrongAnswer(
                f"{self.name} at {x:g}: {first.series} and {other.series} answer differently, "
                f"{first.entries.size} and {other.entries.size} entries, {n} only on one side"
            )


# Powers of x that pass for linear.
LINEAR = (0.8, 1.25)


def exponent(curve: Mapping[float, float]) -> float:
    """The power of x that a curve follows, by least squares of logarithms; 1 is linear."""
    return float(np.polyfit(np.log(list(curve)), np.log(list(curve.values())), 1)[0])


def spread(curve: Mapping[float, float]) -> float:
    """How many times the least value the greatest one is; 1 does not depend on x."""
    return max(curve.values()) / min(curve.values())


def machine_line() -> str:
    """The machine and the versions that a figure was measured with."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [s for s in info.read_text().splitlines() if s.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    today = datetime.now(UTC).date().isoformat()
    return (
        f"{model}, {os.cpu_count()} cores, python {platform.python_version()}, {versions}, {today}"
    )


def save(table: Table, path: Path) -> None:
    """Write the CSV that plot, verdict and report are made from."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        for key in ("figure", "size", "machine"):
            file.write(f"# {key}: {getattr(table, key)}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows((r.panel, r.series, f"{r.x:.10g}", f"{r.value:.6g}") for r in table.rows)


def load(path: Path) -> Table:
    """Read what `save` wrote."""
    lines = path.read_text().splitlines()
    head = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    body = csv.DictReader(line for line in lines if not line.startswith("# "))
    rows = tuple(Row(r["panel"], r["series"], float(r["x"]), float(r["value"])) for r in body)
    return Table(head["figure"], head["size"], head["machine"], rows)
