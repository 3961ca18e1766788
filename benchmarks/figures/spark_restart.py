"""How long a job with very many queries and rows needs from its restart to its first answer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.figure import Figure, Reading, Size, Table, Verdict, WrongAnswer
from benchmarks.spark_child import EMPTY, OURS

NAMES = {OURS: "Standfast", EMPTY: "empty stateful job"}
NEW, SAME = "new process", "same session"
ROUNDS: dict[Size, int] = {"smoke": 1, "full": 2}
Case = dict[str, list[dict[str, Any]]]


def prepare(n: float, size: Size) -> Case:
    """Each restart in a process of its own, the two jobs in turn."""
    found: Case = {OURS: [], EMPTY: []}
    with TemporaryDirectory(prefix="figure-") as folder:
        filled = _child("fill", folder, str(int(n)))
        for _ in range(ROUNDS[size]):
            for which, some in found.items():
                some.append(_child("again", folder, which))
    for each in found[OURS]:
        for where in (NEW, SAME):
            if each[f"{where}, counts"] != filled[OURS]:
                raise WrongAnswer(f"other answers after the restart in the {where}")
    return found


def _child(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.spark_child", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def took(which: str) -> Callable[[Case], Iterator[Reading]]:
    def measure(case: Case) -> Iterator[Reading]:
        for where in (NEW, SAME):
            least = min(each[where] for each in case[which])
            yield Reading(least, panel=f"seconds, {where}")

    return measure


def holds(table: Table) -> Verdict:
    parts, fine = [], True
    for panel in table.panels():
        ((x, ours),) = table.curve(NAMES[OURS], panel).items()
        other = table.value(NAMES[EMPTY], x, panel)
        fine &= ours <= 1.5 * other + 5
        where = panel.removeprefix("seconds, ")
        parts.append(f"in the {where} {ours:.1f} s, an empty job {other:.1f} s")
    text = f"first answer with {x:,.0f} queries and as many rows: {'; '.join(parts)}."
    return Verdict(fine, text)


FIGURE = Figure(
    name="spark_restart",
    source="project bar",
    claim="From the restart of a job with 1,000,000 queries and 1,000,000 rows in state to its "
    "first answer at most 1.5 times as long as with an empty stateful job, plus 5 s.",
    x_label="standing queries, and stored rows",
    y_label="",
    sweep={"smoke": (1_000,), "full": (1_000_000,)},
    prepare=prepare,
    series={name: took(which) for which, name in NAMES.items()},
    holds=holds,
    better=min,
    notes="From start() until the first micro-batch is done. In a new process Java is cold, which "
    "costs both jobs most of their time; in the same session only the processes of the shards are "
    "gone, and the checkpoint is read by a Java that is warm.",
)
