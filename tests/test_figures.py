"""Every figure runs small, with equal answers; the machinery around them does what it says.

Absolute times are never asserted here; ratios only where they are tens of times above the bar.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pytest
import typer
from benchmarks import __main__ as command
from benchmarks.figure import Figure, Reading, Row, Table, Verdict, WrongAnswer, load, save
from benchmarks.figures import NAMES, figures
from benchmarks.figures.shared_windows_fig10 import judged
from benchmarks.peers import BandPeer
from benchmarks.peers.duckdb_asof import DuckdbAsof
from benchmarks.peers.numpy_searchsorted import OneSearch, TwoSearches
from benchmarks.peers.polars_joins import PolarsAsof, PolarsJoinWhere
from benchmarks.peers.superintervals_batch import SuperintervalsBatch
from benchmarks.plot import mark_steps, plot
from benchmarks.report import report_text
from matplotlib import pyplot
from matplotlib.image import imread
from typer.testing import CliRunner

BENCHMARKS = Path(command.__file__).parent
BY_NAME = {figure.name: figure for figure in figures()}
# Claims about counts, not times: they hold at any size.
ALWAYS = {"hotspot_fig2", "hotspot_tracking"}
# (figure, faster series, slower series): measured at smoke size at 20 and more.
TWICE_AT_LEAST = {
    "hotspot_fig10i": [("groups", "per_tuple"), ("groups", "duckdb asof")],
    "hotspot_fig10ii": [("groups", "per_query"), ("groups", "per_tuple")],
    "bar_band_join": [("spans", "numpy, two searches"), ("pairs", "numpy, two searches")],
    "bar_select_join": [("spans", "duckdb, select first"), ("located", "numpy, per event")],
    "window_queries": [("groups", "naive")],
}


# Figures on Spark take minutes even when small: `make test-spark` runs them.
SMALL = [
    pytest.param(name, marks=pytest.mark.sweep) if name.startswith("spark_") else name
    for name in NAMES
]


@pytest.mark.parametrize("value", [0.0, inf])
@pytest.mark.parametrize("n_points", [1, 2])
def test_a_panel_without_a_value_that_has_a_place_is_drawn(
    tmp_path: Path, value: float, n_points: int
) -> None:
    """A race on a busy machine may end before its error is known: it is infinite then."""
    rows = tuple(Row("share", "all", x, value) for x in (1.0, 2.0)[:n_points])
    table = Table("hotspot_fig12", "smoke", "a machine", rows)
    with warnings.catch_warnings(action="error"):
        plot(replace(BY_NAME["hotspot_fig12"], log_y=True), table, tmp_path / "zeros.png")
    assert (tmp_path / "zeros.png").stat().st_size > 0


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ((10.0, 5_000.0), ["10", "100", "1,000"]),
        ((9_000.0, 110_000.0), ["10,000", "20,000", "50,000", "100,000"]),
        ((0.5, 0.7), ["0.5", "0.6", "0.7"]),
    ],
)
def test_a_logarithmic_axis_has_plain_numbers(values: tuple[float, ...], marks: list[str]) -> None:
    drawing, axis = pyplot.subplots()
    axis.set_yscale("log")
    axis.plot(values)
    mark_steps(axis)
    drawing.canvas.draw()
    low, high = axis.get_ylim()
    shown = [mark for mark in axis.yaxis.get_ticklabels() if low <= mark.get_position()[1] <= high]
    assert [mark.get_text() for mark in shown] == marks
    pyplot.close(drawing)


def test_panels_stand_in_rows_of_three(tmp_path: Path) -> None:
    heights = []
    for n_panels in (3, 4):
        rows = tuple(
            Row(f"panel {p}", "all", x, x) for p in range(n_panels) for x in (1.0, 2.0, 40.0)
        )
        table = Table("hotspot_fig12", "smoke", "a machine", rows)
        plot(BY_NAME["hotspot_fig12"], table, tmp_path / "panels.png")
        heights.append(imread(tmp_path / "panels.png").shape[0])
    assert heights[1] == 2 * heights[0]


@pytest.mark.parametrize("name", SMALL)
def test_a_figure_runs_small_with_equal_answers_and_draws_its_picture(
    name: str, tmp_path: Path
) -> None:
    figure, steps = BY_NAME[name], list[str]()
    table = figure.run("smoke", steps.append)
    assert len(steps) == figure.n_steps("smoke"), "every series reports that it is done"
    save(table, tmp_path / f"{name}.csv")
    again = load(tmp_path / f"{name}.csv")
    assert (again.figure, again.size, again.machine) == (name, "smoke", table.machine)
    assert {r[:3] for r in again.rows} == {r[:3] for r in table.rows}
    plot(figure, again, tmp_path / f"{name}.png")
    assert (tmp_path / f"{name}.png").read_bytes()[1:4] == b"PNG"
    verdict = figure.holds(again)
    assert verdict.text.endswith("."), "the verdict is a sentence"
    assert verdict.holds or name not in ALWAYS, verdict.text
    _faster(again, TWICE_AT_LEAST.get(name, []))


def _faster(table: Table, pairs: list[tuple[str, str]]) -> None:
    for fast, slow in pairs:
        most = max(table.curve(slow))
        ratio = table.value(fast, most) / table.value(slow, most)
        assert ratio > 2, f"{table.figure}: {fast} is only {ratio:.1f} times {slow} at {most:g}"


def test_every_figure_module_is_listed_and_named_like_its_file() -> None:
    files = {p.stem for p in (BENCHMARKS / "figures").glob("*.py")} - {"__init__"}
    assert files == set(NAMES)
    assert all(figure.name == name for name, figure in zip(NAMES, figures(), strict=True))


TINY = Figure(
    name="tiny",
    source="a test",
    claim="one is more than nothing",
    x_label="x",
    y_label="y",
    sweep={"smoke": (1, 2), "full": (1, 2, 3)},
    prepare=lambda point, size: point,
    series={
        "one": lambda point: [Reading(point, np.array([point]))],
        "other": lambda point: [Reading(2 * point, np.array([point]))],
    },
    holds=lambda table: Verdict(table.value("one", 1) > 0, "it is."),
)


def test_series_that_answer_differently_fail_the_run() -> None:
    wrong = replace(
        TINY, series=TINY.series | {"wrong": lambda point: [Reading(0, np.array([point + 1]))]}
    )
    expected = "tiny at 1: one and wrong answer differently, 1 and 1 entries, 2 only on one side"
    with pytest.raises(WrongAnswer, match=expected):
        wrong.run("smoke")


def test_rounds_keep_the_better_value() -> None:
    values = iter([3.0, 5.0, 4.0])
    figure = replace(
        TINY, sweep={"smoke": (1,)}, series={"s": lambda point: [Reading(next(values))]}, rounds=3
    )
    assert figure.run("smoke").value("s", 1) == 5
    values = iter([3.0, 5.0, 4.0])
    assert replace(figure, better=min).run("smoke").value("s", 1) == 3


def test_a_missing_value_is_named() -> None:
    with pytest.raises(KeyError, match="tiny: no value of 'one' at 7 in panel ''"):
        TINY.run("smoke").value("one", 7)


def test_the_report_has_picture_claim_verdict_and_names_what_was_not_measured(
    tmp_path: Path,
) -> None:
    save(TINY.run("smoke"), tmp_path / "tiny.csv")
    text = report_text([TINY, replace(TINY, name="unmeasured")], tmp_path, "results")
    assert "![tiny](results/tiny.png)" in text
    assert "- **Claim**: one is more than nothing" in text
    assert "- **Ours**: it is.\n- **Holds**, smoke size" in text
    assert "| [unmeasured](#unmeasured) | a test | not measured |" in text
    assert "`python -m benchmarks tiny`" in text


def test_values_of_an_older_version_of_a_figure_do_not_hold(tmp_path: Path) -> None:
    save(replace(TINY, series={}).run("smoke"), tmp_path / "tiny.csv")
    verdict = TINY.verdict(load(tmp_path / "tiny.csv"))
    expected = "measured before the figure changed: tiny: no value of 'one' at 1 in panel ''."
    assert verdict == (False, expected)


def test_the_committed_report_is_what_the_committed_values_say() -> None:
    text = report_text(figures(), BENCHMARKS / "results", "results")
    written = (BENCHMARKS / "REPORT.md").read_text()
    assert text == written, "run python -m benchmarks --report"


def test_the_command_lists_the_figures_and_refuses_unknown_ones() -> None:
    app = typer.Typer()
    app.command()(command.main)
    listed = CliRunner().invoke(app, [])
    assert listed.exit_code == 0
    assert all(name[:8] in listed.output for name in NAMES)
    refused = CliRunner().invoke(app, ["no_such_figure"])
    assert refused.exit_code == 2
    assert "no figure no_such_figure" in refused.output


@pytest.mark.parametrize("kind", [TwoSearches, OneSearch, DuckdbAsof, PolarsAsof, PolarsJoinWhere])
@pytest.mark.parametrize("seed", range(4))
def test_a_band_peer_finds_what_the_definition_says(kind: type[BandPeer], seed: int) -> None:
    rng = np.random.default_rng(seed)
    lows = rng.integers(-20, 20, 30)
    highs = lows + rng.integers(0, 5, 30)
    stored, events = rng.integers(-20, 20, 12), rng.integers(-20, 20, 8)
    peer = kind(lows, highs, stored)
    output = peer.affected(events)
    for i, event in enumerate(events):
        gaps = stored - event
        hit = ((gaps[:, None] >= lows) & (gaps[:, None] <= highs)).any(axis=0)
        assert np.sort(peer.ids(output, i)).tolist() == np.flatnonzero(hit).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_superintervals_finds_what_the_definition_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lows = rng.integers(-20, 20, 60)
    highs = lows + rng.integers(0, 9, 60)
    values = rng.integers(-20, 20, 15)
    peer = SuperintervalsBatch(lows, highs)
    output = peer.affected(values)
    for i, value in enumerate(values):
        hit = np.flatnonzero((lows <= value) & (value <= highs))
        assert peer.ids(output, i).tolist() == hit.tolist()


@pytest.mark.parametrize(
    ("rates", "is_constant", "said"),
    [
        ({100: 40.0, 1e4: 100.0, 1e6: 51.0}, True, (1.96, "reproduced")),
        ({100: 40.0, 1e4: 100.0, 1e6: 49.0}, True, (2.04, "worse than claimed")),
        ({100: 8.0, 1e4: 8.5, 1e6: 8.0}, False, (1.06, "better than claimed")),
        ({100: 9.0, 1e4: 5.0, 1e6: 3.0}, False, (3.0, "reproduced")),
        ({100: 9.0, 1e4: 9.5, 1e6: 3.0}, False, (3.17, "worse than claimed")),
    ],
)
def test_growing_costs_are_held_against_a_constant_or_a_logarithm(
    rates: dict[float, float], is_constant: bool, said: tuple[float, str]
) -> None:
    more, word = judged(rates, is_constant=is_constant)
    assert (round(more, 2), word) == said
