"""The registration bars: a million queries in one call, their memory, and their restart."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, Reading, Size, Table, Verdict

QUESTIONS = ("band_join", "filter")
SECONDS, BYTES = "seconds", "bytes per query beyond its parameters"
Measured = dict[str, dict[str, float]]


def prepare(n: float, size: Size) -> Measured:
    """Each question in a process of its own, once timed and once with its memory traced."""
    measured = {}
    for question in QUESTIONS:
        measured[f"{question} trace"] = traced = _child(question, int(n), "trace")
        # A smoke run shows that it works; one process per question is enough for that.
        timed = traced if size == "smoke" else _child(question, int(n), "time")
        measured[f"{question} time"] = timed
    return measured


def _child(question: str, n: int, how: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.register_child", question, str(n), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed\n{done.stderr}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def took(question: str, *steps: str) -> Callable[[Measured], Iterator[Reading]]:
    """Seconds of these steps together."""

    def measure(measured: Measured) -> Iterator[Reading]:
        yield Reading(sum(measured[f"{question} time"][s] for s in steps), panel=SECONDS)

    return measure


def held(question: str, how: str) -> Callable[[Measured], Iterator[Reading]]:
    """Bytes per query, by the process's size or by the allocators' books."""

    def measure(measured: Measured) -> Iterator[Reading]:
        yield Reading(measured[f"{question} {how}"]["bytes"], panel=BYTES)

    return measure


def holds(table: Table) -> Verdict:
    (x,) = table.curve("filter: register", SECONDS)
    parts, fine = [], True
    for question in QUESTIONS:
        registered = table.value(f"{question}: register", x, SECONDS)
        ready = table.value(f"{question}: register, first answer", x, SECONDS)
        restored = table.value(f"{question}: restore", x, SECONDS)
        held = [table.value(f"{question}: {how}", x, BYTES) for how in ("process size", "books")]
        fine &= ready <= 3 and restored <= 3 and max(held) <= 120
        parts.append(
            f"{question}: {x:,.0f} queries registered in {registered:.2f} s "
            f"({ready:.2f} s with the first answer), {max(held):.0f} bytes each beyond the "
            f"parameters, restored in {restored:.2f} s"
        )
    return Verdict(fine, "; ".join(parts) + ".")


FIGURE = Figure(
    name="bar_register",
    source="project bar",
    claim="1,000,000 queries are registered in one call in at most 3 s after compilation, take at "
    "most 120 bytes each beyond their parameters, and a snapshot of them restores in at most 3 s.",
    x_label="standing queries",
    y_label="",
    sweep={"smoke": (20_000,), "full": (1_000_000,)},
    prepare=prepare,
    series={
        name: series
        for question in QUESTIONS
        for name, series in {
            f"{question}: register": took(question, "registered"),
            f"{question}: register, first answer": took(question, "registered", "answered"),
            f"{question}: save": took(question, "saved"),
            f"{question}: restore": took(question, "restored"),
            f"{question}: restore, first answer": took(question, "restored", "reanswered"),
            f"{question}: process size": held(question, "time"),
            f"{question}: books": held(question, "trace"),
        }.items()
    },
    holds=holds,
    notes="Through the engine. The index may put work off to the first answer, so the time with it "
    "decides. Bytes are the growth of the process, free memory given back, and in another run of "
    "what NumPy and Arrow say they hold; the larger one decides.",
)
