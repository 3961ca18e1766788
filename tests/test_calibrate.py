"""Fitting finds the constants that were there, and the command keeps them where asked."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.figures import hotspot_table2
from typer.testing import CliRunner

from standfast import calibrate
from standfast.calibrate import SHAPES, Observation, alike, chosen, fit, n_steps
from standfast.cli import app
from standfast.operators.base import Arrivals
from standfast.operators.costs import TERMS, TRAITS, VARIABLE, VERSION, current, read

NAMES = ["call", "event", "groups"]


def observed(us: list[float], noise: float, seed: int) -> list[Observation]:
    """Runs whose times follow from the constants, up to noise; a fifth of them is spans."""
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(200):
        n = rng.integers(1, 1000)
        units = np.array([1.0, n, n * rng.integers(1, 100)])
        took = 1e-6 * float(units @ us) * float(np.exp(rng.normal(0, noise)))
        runs.append(Observation(units, 0.8 * took, 0.2 * took))
    return runs


@pytest.mark.parametrize("seed", range(5))
def test_a_fit_finds_the_constants_within_their_intervals(seed: int) -> None:
    us = [100.0, 2.0, 0.05]
    found = fit(NAMES, observed(us, 0.1, seed), [3.0, 1.0, 2.0])
    for name, value in zip(NAMES, us, strict=True):
        assert found.costs.terms[name] == pytest.approx(value, rel=0.2)
        assert abs(found.costs.terms[name] - value) < 2 * found.widths[name]
    assert found.costs.build == 2
    assert found.costs.spans == pytest.approx(0.2)
    assert (found.n_runs, found.error) == (200, pytest.approx(0.07, abs=0.03))


def test_a_constant_is_never_below_zero() -> None:
    found = fit(NAMES, observed([100.0, 0.0, 0.05], 0.3, 1), [1.0])
    assert min(found.costs.terms.values()) >= 0
    assert found.costs.terms["groups"] == pytest.approx(0.05, rel=0.2)


def test_a_term_that_never_occurs_costs_nothing() -> None:
    runs = [o._replace(units=o.units * [1, 1, 0]) for o in observed([50.0, 1.0, 0.0], 0.05, 2)]
    found = fit(NAMES, runs, [1.0])
    assert found.costs.terms["groups"] == 0
    assert "groups" not in found.widths


def test_like_events_are_put_together() -> None:
    rng = np.random.default_rng(4)
    traits = rng.uniform(0, 100, (len(TRAITS["select_join"]), 64))
    parts = alike(traits, 4)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(64))
    assert all(np.all(np.diff(part) > 0) for part in parts), "in the order of the events"
    rows = traits[TRAITS["select_join"].index("rows")]
    assert np.mean([np.ptp(rows[part]) for part in parts]) < 40


def test_some_events_are_taken_with_what_they_have() -> None:
    events = Arrivals(np.array([1, 2, 3]), np.array([4, 5, 6]), np.empty(0, np.int64))
    some = chosen(events, np.array([0, 2]))
    assert (some.codes.tolist(), some.values.tolist(), some.times.size) == ([1, 3], [4, 6], 0)


def test_the_command_keeps_what_it_fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "N_EVENTS", 64)
    monkeypatch.setattr(calibrate, "MOST_RUNS", 1)
    monkeypatch.setitem(SHAPES, "quick", (calibrate.Shape(60, 60, 0.9, 3, n_keys=4),))
    path = tmp_path / "folder" / "costs.json"
    monkeypatch.setenv(VARIABLE, str(path))
    done = CliRunner().invoke(app, ["calibrate", "--quick"])
    assert done.exit_code == 0, done.output
    assert "95 % interval" in done.output
    assert {question in done.output for question in TERMS} == {True}
    assert current() == (read(path), "")
    assert n_steps(SHAPES["quick"]) == sum(len(ways) for ways in TERMS.values())
    before = path.read_text()
    older = before.replace(f'"version": {VERSION}', '"version": 0')
    assert older != before
    path.write_text(older)
    again = CliRunner().invoke(app, ["calibrate", "--quick", "--output", str(path)])
    assert again.exit_code == 0, "a file of an older version is replaced"
    assert current()[1] == ""


def test_who_has_no_home_is_told_to_name_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was named was written, and then the command failed."""

    def nobody() -> Path:
        raise RuntimeError("could not determine home directory")

    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(calibrate, "calibrated", lambda shapes, on_step: {})
    refused = CliRunner().invoke(app, ["calibrate"])
    assert refused.exit_code == 2
    assert "no home to keep constants in" in re.sub(r"[\s│]+", " ", refused.output)
    done = CliRunner().invoke(app, ["calibrate", "--output", str(tmp_path / "costs.json")])
    assert done.exit_code == 0, done.output
    assert f"Engines use them where {VARIABLE} names this file." in done.output


def test_the_command_does_not_overwrite_a_foreign_file(tmp_path: Path) -> None:
    path = tmp_path / "poem.txt"
    path.write_text("roses")
    refused = CliRunner().invoke(app, ["calibrate", "--output", str(path)])
    assert refused.exit_code == 2
    assert "is not JSON" in re.sub(r"[\s│]+", " ", refused.output)
    assert path.read_text() == "roses"


def test_a_call_that_the_fit_left_out_has_a_price_and_no_interval() -> None:
    units = (10, 20, 40, 80, 160, 320, 640)
    runs = [Observation(np.array([1.0, n]), 1e-6 * n**1.3, 0.0) for n in units]
    found = fit(["call", "event"], runs, [1.0])
    assert (found.costs.terms["call"], list(found.widths)) == (1.0, ["event"])
    readings = list(hotspot_table2.constants("vanilla")({"vanilla": found}))
    assert [reading.x for reading in readings] == [0, 1, 1], "the error, and one constant"
