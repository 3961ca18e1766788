"""The demo: what it replays, what it draws, what the command line prints."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from typer.testing import CliRunner

from standfast import demo
from standfast.cli import app

PNG = b"\x89PNG\r\n\x1a\n"


def _made_up_steps(n):
    rng = np.random.default_rng(5)
    spots = demo.Hotspots(np.array([-10.0, 5.0, 100.0]), np.array([40, 300, 70]), 20)
    return [
        demo.Step(
            market_seconds=5.0 * (i + 1),
            n_trades=int(rng.integers(1, 900)),
            seconds=float(rng.uniform(0.01, 0.02)),
            affected={name: int(rng.integers(0, 50_000)) for name in demo.TEMPLATES},
            hotspots=spots,
        )
        for i in range(n)
    ]


def test_the_picture_is_a_png_even_of_a_single_step(tmp_path):
    for n in (1, 40):
        picture = tmp_path / "deep" / f"{n}.png"
        demo.draw(_made_up_steps(n), 1000, picture)
        assert picture.read_bytes().startswith(PNG)


def test_a_step_without_work_has_no_rate():
    spots = demo.Hotspots(np.empty(0), np.empty(0, np.int64), 0)
    assert demo.Step(5.0, 0, 0.0, {}, spots).rate == 0.0


@pytest.mark.large
def test_the_replay_changes_queries_and_agrees_with_brute_force():
    replay = demo.Replay(2000, seed=3)
    assert replay.n_queries == 2000
    assert {name: len(group) for name, group in replay.groups.items()} == {
        "price_watch": 400,
        "big_trades": 200,
        "basis": 600,
        "echoes": 400,
        "bursts": 400,
    }
    steps = list(islice(replay.steps(), 2 * demo.STEPS_BETWEEN_CHANGES + 1))
    assert replay.n_queries == 2000
    assert replay.n_changed == 2 * 2 * 20
    assert replay.n_checked >= 2 * demo.CHECKED_ROWS
    for name in demo.TEMPLATES:
        assert sum(step.affected[name] for step in steps) > 0, name
    assert steps[-1].hotspots.sizes.sum() > 500
    replay.engine.check()


@pytest.mark.large
def test_a_wrong_count_is_noticed(monkeypatch):
    monkeypatch.setattr(demo, "_counts", lambda answer: _true_counts(answer) + 1)
    replay = demo.Replay(500, seed=3)
    with pytest.raises(AssertionError, match="brute force finds"):
        list(islice(replay.steps(), demo.STEPS_BETWEEN_CHANGES + 1))


_true_counts = demo._counts


@pytest.mark.large
def test_every_trade_of_the_file_is_in_one_step():
    replay = demo.Replay(100, seed=3)
    cuts = replay._cuts()
    assert (cuts[0], cuts[-1]) == (0, replay.trades.num_rows)
    assert cuts == sorted(cuts)
    assert replay.n_steps == 130


@pytest.mark.large
def test_the_command_replays_all_and_names_the_picture(tmp_path):
    done = CliRunner().invoke(app, ["demo", "--queries", "1000", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "1,000 standing queries registered" in text
    assert "78,638 trades in" in text
    assert "all equal" in text
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)


def test_too_few_queries_are_refused():
    done = CliRunner().invoke(app, ["demo", "--queries", "5"])
    assert done.exit_code == 2


def test_the_command_prints_the_catalogue():
    done = CliRunner().invoke(app, ["strategies"])
    assert done.exit_code == 0
    assert done.output.startswith("# Strategies\n")
    assert "| `hotspot` |" in done.output
