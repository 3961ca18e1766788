"""The peer that is a program: what it is given, what it must give, what is said if it fails."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.figure import Row, Table, WrongAnswer
from benchmarks.figures import bar_window_single, bar_window_suffixes
from benchmarks.peers.external_windows import (
    VARIABLE,
    ExternalFailed,
    ExternalWindows,
    Pushes,
    program,
)
from benchmarks.window_aggregate_case import BASE, RUNNING, Fed, uniform
from benchmarks.window_peers_case import COLUMNS, EACH, ONCE

# Follows the protocol, and answers by definition.
HONEST = """
import sys
import numpy as np
structure, aggregate, mode, n_batch, n_timed, values, windows, answers = sys.argv[1:]
rows, ages = np.fromfile(values, "<f8"), np.fromfile(windows, "<i8").reshape(2, -1)
assert structure in ("two_stacks_lite", "daba_lite", "fiba", "fiba_shared")
assert mode in ("each", "last") and int(n_timed) % int(n_batch) == 0
assert rows.size - int(n_timed) >= 2 * (ages[1].max() + 1), "too few rows before"
total = {"sum": np.sum, "max": np.max}[aggregate]
newest = rows.size - 1
found = [total(rows[newest - high : newest - low + 1]) for low, high in ages.T]
np.array(found, "<f8").tofile(answers)
print(0.25)
"""
LOWS, HIGHS = np.array([0, 2]), np.array([0, 3])
VALUES = np.arange(12.0)
HOW = Pushes("each", 2, 4)


def written(folder: Path, text: str) -> Path:
    """A program of this text."""
    path = folder / "windows"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("aggregate", "wanted"), [("sum", [11.0, 17.0]), ("max", [11.0, 9.0])])
def test_a_program_is_given_windows_and_rows_and_gives_time_and_answers(
    tmp_path: Path, aggregate: str, wanted: list[float]
) -> None:
    made = ExternalWindows(written(tmp_path, HONEST), "fiba", aggregate)
    took, found = made.answers(LOWS, HIGHS, VALUES, HOW)
    assert (took, found.tolist()) == (0.25, wanted)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys; sys.exit('no such structure')", "ended with 1: no such structure"),
        ("import sys; sys.exit(3)", "ended with 3: no word"),
        ("print(0.5)", "wrote no answers"),
        ("import sys; open(sys.argv[8], 'wb').write(bytes(8)); print(1)", "gave 1 answers of 2"),
        (HONEST.replace("0.25", "'soon'"), r"printed 'soon\\n', no seconds"),
        (HONEST.replace("0.25", "float('nan')"), r"printed 'nan\\n', no seconds"),
        (HONEST.replace("0.25", "0"), r"printed '0\\n', no seconds"),
        ("import time; time.sleep(60)", "was not done after 0.5 s"),
    ],
)
def test_a_program_that_fails_is_named_with_what_it_did(
    tmp_path: Path, text: str, said: str
) -> None:
    longest = 0.5 if "sleep" in text else 60
    made = ExternalWindows(written(tmp_path, text), "fiba", "sum", longest)
    with pytest.raises(ExternalFailed, match=f"windows fiba sum: {said}") as failed:
        made.answers(LOWS, HIGHS, VALUES, HOW)
    assert "benchmarks/peers/external_windows.py" in failed.value.hint


def test_a_program_that_the_system_cannot_run_is_named(tmp_path: Path) -> None:
    path = tmp_path / "windows"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    with pytest.raises(ExternalFailed, match="windows fiba sum: cannot be run: No such file"):
        ExternalWindows(path, "fiba", "sum").answers(LOWS, HIGHS, VALUES, HOW)


def test_the_environment_names_the_program_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert program() is None
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(ExternalFailed, match=f"{VARIABLE}: no file {tmp_path}/nothing"):
        program()
    path = written(tmp_path, HONEST)
    monkeypatch.setenv(VARIABLE, str(path))
    assert program() == path
    path.chmod(0o644)
    with pytest.raises(ExternalFailed, match=f"{VARIABLE}: {path} cannot be executed") as failed:
        program()
    assert failed.value.hint == f"chmod +x {path}, or name another"


def test_a_figure_with_the_program_has_its_series_and_refuses_wrong_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    panel, figure = "answers per second, MAX", bar_window_single.FIGURE
    monkeypatch.setenv(VARIABLE, str(written(tmp_path, HONEST)))
    names = ["base_intervals, a call a row", "FiBA (C++)"]
    some = {name: figure.series[name] for name in names}
    small = replace(figure, sweep={"smoke": (16,)}, series=some, rounds=1)
    table = small.run("smoke")
    assert table.series(panel) == names
    assert "C++ structures that took part: FiBA (C++)." in figure.holds(table).text
    written(tmp_path, HONEST.replace("np.array(found", "np.array(np.add(found, 1)"))
    with pytest.raises(WrongAnswer, match=r"a call a row and FiBA \(C\+\+\) answer differently"):
        small.run("smoke")


def test_without_the_program_the_verdict_says_so_and_does_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    for figure in (bar_window_single.FIGURE, bar_window_suffixes.FIGURE):
        verdict = figure.holds(figure.run("smoke"))
        assert not verdict.holds
        assert f"No C++ structure took part: {VARIABLE} named no program." in verdict.text


@pytest.mark.parametrize(
    ("once", "each", "holds"),
    [((1, 1, 9), (1, 1, 1), True), ((9, 9, 4), (1, 1, 1), False), ((9, 9, 9), (1, 1, 6), False)],
)
def test_many_windows_are_held_against_the_best_structure_for_one(
    once: tuple[int, ...], each: tuple[int, ...], holds: bool
) -> None:
    """Against a rate of 5: ahead with the most windows after a batch, behind after every row."""
    asked = {ONCE: once, COLUMNS: (1, 9, 1), EACH: each}
    rows = [Row(p, "FiBA (C++)", x, 5) for p in asked for x in (1, 10, 100)]
    rows += [Row(p, "DABA lite (C++)", x, 2) for p in asked for x in (1, 10, 100)]
    for panel, rates in asked.items():
        rows += [Row(panel, RUNNING, x, r) for x, r in zip((1, 10, 100), rates, strict=True)]
    table = Table("bar_window_suffixes", "full", "a machine", tuple(rows))
    assert bar_window_suffixes.FIGURE.holds(table).holds == holds


@pytest.mark.parametrize(("way", "aggregate"), [(RUNNING, "SUM"), (BASE, "SUM"), (BASE, "MAX")])
def test_columns_are_the_answers_after_each_row(way: str, aggregate: str) -> None:
    windows = uniform(20, 40, seed=7)
    at_once, one_by_one = (Fed(way, aggregate, windows, spare=30) for _ in range(2))
    for fed in (at_once, one_by_one):
        fed.fill()
    for n in (1, 30, 17):
        at_once.update(n)
        rows = []
        for _ in range(n):
            one_by_one.update(1)
            rows.append(one_by_one.lookup(np.arange(20)).values)
        assert np.array_equal(at_once.columns(n).values.reshape(20, n).T, rows)
