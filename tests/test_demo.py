"""The demo: what it replays, what it draws, what the command line prints."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from standfast import demo, demo_queries
from standfast.cli import app

PNG = b"\x89PNG\r\n\x1a\n"


def _made_up_steps(n):
    rng = np.random.default_rng(5)
    spots = demo_queries.Hotspots(np.array([-10.0, 5.0, 100.0]), np.array([40, 300, 70]), 20)
    return [
        demo.Step(
            market_seconds=5.0 * (i + 1),
            n_trades=int(rng.integers(1, 900)),
            seconds=float(rng.uniform(0.01, 0.02)),
            affected={name: int(rng.integers(0, 50_000)) for name in demo_queries.TEMPLATES},
            hotspots=spots,
        )
        for i in range(n)
    ]


def test_the_picture_is_a_png_even_of_a_single_step(tmp_path):
    for n in (1, 40):
        picture = tmp_path / "deep" / f"{n}.png"
        demo.draw(_made_up_steps(n), 1000, picture)
        assert picture.read_bytes().startswith(PNG)


def test_the_picture_draws_what_affects_less_than_one_query_as_what_it_is():
    """All of it was drawn as one query a trade, and so was nothing at all."""
    steps = [replace(step, n_trades=10) for step in _made_up_steps(3)]
    for step, n in zip(steps, (0, 1, 50), strict=True):
        step.affected["highs"] = n
    np.testing.assert_array_equal(demo.affected_each(steps, "highs"), [np.nan, 0.1, 5.0])


def test_a_step_without_work_has_no_rate():
    spots = demo_queries.Hotspots(np.empty(0), np.empty(0, np.int64), 0)
    assert demo.Step(5.0, 0, 0.0, {}, spots).rate == 0.0


@pytest.mark.large
def test_the_replay_changes_queries_and_agrees_with_brute_force():
    replay = demo.Replay(2000, seed=3)
    assert replay.n_queries == 2000
    assert {name: len(group) for name, group in replay.groups.items()} == {
        "price_watch": 400,
        "big_trades": 200,
        "basis": 600,
        "echoes": 200,
        "bursts": 200,
        "highs": 200,
        "busy_prices": 200,
    }
    steps = list(islice(replay.steps(), 2 * demo.STEPS_BETWEEN_CHANGES + 1))
    assert replay.n_queries == 2000
    assert replay.n_changed == 2 * 2 * 20
    n_rows = 5 * demo_queries.CHECKED_ROWS
    assert replay.n_checked == 2 * (n_rows + 2 + 2 * demo.FOLLOWED)
    for name in demo_queries.TEMPLATES:
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
def test_what_was_told_of_a_window_and_is_not_so_is_noticed(monkeypatch):
    follow = demo.Replay._follow

    def forgetful(replay, answers):
        follow(replay, answers)
        replay._told["busy_prices"].subtract([(0, 61_000.0, None)])

    monkeypatch.setattr(demo.Replay, "_follow", forgetful)
    replay = demo.Replay(500, seed=3)
    with pytest.raises(AssertionError, match="busy_prices: told"):
        list(islice(replay.steps(), demo.STEPS_BETWEEN_CHANGES + 1))


def test_brute_force_is_right_about_a_few_rows_by_hand():
    asked = demo_queries.Asked(_trades(("spot", 10.0, 1.0, 0)), seed=1)
    asked.queries = {
        "price_watch": {"symbol": np.array(["BTCUSDT", "BTCUSDT", "B"]),
                        "lo": np.array([9.0, 11.0, 9.0]), "hi": np.array([10.0, 12.0, 11.0])},
        "big_trades": {"size": np.array([0.5, 1.0, 2.0])},
        "basis": {"lo": np.array([1.0, 3.0]), "hi": np.array([2.0, 4.0])},
        "echoes": {"small": np.array([1.0, 1.0, 2.0]), "large": np.array([5.0, 5.0, 5.0]),
                   "lo": np.array([11.0, 13.0, 11.0]), "hi": np.array([12.0, 14.0, 12.0])},
        "bursts": {"spot": np.array([1.0, 1.0, 2.0]), "small": np.array([6.0, 6.0, 6.0]),
                   "large": np.array([7.0, 7.0, 7.0]), "within": np.array([101, 100, 101])},
        "highs": {"within": np.array([0, 0, 100, 100]), "lo": np.array([9.0, 13.0, 9.0, 9.0]),
                  "hi": np.array([20.0, 20.0, 20.0, 99.0])},
        "busy_prices": {"within": np.array([100, 200, 200, 10]),
                        "size": np.array([5.0, 5.0, 0.5, 100.0])},
    }  # fmt: skip
    earlier = _trades(("usdm", 12.0, 7.0, 100), ("spot", 14.0, 7.0, 0))
    batch = _trades(("cm", 50.0, 0.1, 150), ("spot", 10.0, 1.0, 200))
    assert asked.brute_force(batch, earlier) == {
        "price_watch": [0, 1],
        "big_trades": [0, 2],
        "basis": [1],
        "echoes": [1],
        "bursts": [1],
        "highs": [3],
        "busy_prices": [2],
    }


def test_brute_force_knows_what_windows_say():
    rows = _trades(("spot", 14.0, 7.0, 0), ("usdm", 12.0, 2.0, 100), ("cm", 12.0, 3.0, 150))
    rows = pa.concat_tables([rows, _trades(("spot", 10.0, 1.0, 200), symbol="ETHUSDT")])
    within = np.array([10, 50, 99, 100, 200, 200])
    bounds = {"lo": np.array([0, 0, 11, 0, 0, 12.5]), "hi": np.array([99, 99, 99, 11, 99, 14.0])}
    assert demo_queries.said("highs", {"within": within} | bounds, rows) == [
        {"ETHUSDT": 10.0}, {"BTCUSDT": 12.0, "ETHUSDT": 10.0}, {"BTCUSDT": 12.0},
        {"ETHUSDT": 10.0}, {"BTCUSDT": 14.0, "ETHUSDT": 10.0}, {"BTCUSDT": 14.0},
    ]  # fmt: skip
    size = np.array([0.5, 3.0, 3.5, 3.5, 0.5, 6.0])
    assert demo_queries.said("busy_prices", {"within": within, "size": size}, rows) == [
        {}, {12.0: None}, {}, {12.0: None}, {12.0: None, 14.0: None}, {14.0: None}
    ]  # fmt: skip
    nothing = rows.slice(0, 0)
    assert demo_queries.said("highs", {"within": within} | bounds, nothing) == [{}] * 6


def test_a_query_over_windows_is_new_until_a_batch_came():
    first = _trades(("spot", 10.0, 1000.0, 0))
    asked = demo_queries.Asked(first, seed=1)
    list(asked.first(1000))
    assert asked.brute_force(first, first.slice(0, 0))["busy_prices"] == [100]
    asked.see(first)
    same = _trades(("spot", 10.0, 1.0, 1))
    assert asked.brute_force(same, first)["busy_prices"] == [0]
    assert [fresh["id"].size for name, _, fresh in asked.change() if name == "busy_prices"] == [1]
    assert asked.brute_force(same, first)["busy_prices"] == [1]


def test_the_widest_window_never_leaves():
    asked = demo_queries.Asked(_trades(("spot", 10.0, 1.0, 0)), seed=1)
    list(asked.first(3000))
    for _ in range(200):
        list(asked.change())
        for name in demo_queries.WINDOWS:
            assert asked.queries[name]["within"].max() == 60_000_000


def test_queries_that_are_asked_leave_in_the_order_in_which_they_came():
    asked = demo_queries.Asked(_trades(("spot", 10.0, 1.0, 0)), seed=1)
    first = dict(asked.first(1000))
    assert {name: each["id"].size for name, each in first.items()} == {
        "price_watch": 200, "big_trades": 100, "basis": 300, "echoes": 100, "bursts": 100,
        "highs": 100, "busy_prices": 100,
    }  # fmt: skip
    for turn in range(3):
        for name, gone, fresh in asked.change():
            n = first[name]["id"].size // 100
            assert gone.tolist() == list(range(turn * n, turn * n + n))
            begin = first[name]["id"].size + turn * n
            assert fresh["id"].tolist() == list(range(begin, begin + n))
            assert asked.queries[name]["id"].tolist() == list(range(turn * n + n, begin + n))
        assert len(asked) == 1000


def _trades(*rows, symbol="BTCUSDT"):
    markets, prices, sizes, times = zip(*rows, strict=True)
    return pa.table(
        {
            "market": pa.array(markets),
            "symbol": pa.array([symbol] * len(rows)),
            "price": pa.array(prices),
            "qty": pa.array(sizes),
            "time": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.large
def test_every_trade_of_the_file_is_in_one_step():
    replay = demo.Replay(100, seed=3)
    cuts = replay._cuts()
    assert (cuts[0], cuts[-1]) == (0, replay.trades.num_rows)
    assert cuts == sorted(cuts)
    assert replay.n_steps == 130


@pytest.mark.large
def test_the_command_replays_all_and_names_the_picture(tmp_path):
    words = ["demo", "--engine", "embedded", "--queries", "1000", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "1,000 standing queries registered" in text
    assert "78,638 trades in" in text
    assert "all equal" in text
    assert (tmp_path / "demo.png").read_bytes().startswith(PNG)


def test_the_help_names_the_folder_that_is_written_to():
    """It was taken for markup, and not shown."""
    shown = CliRunner().invoke(app, ["demo", "--help"], env={"COLUMNS": "120"}).output
    assert "(demo-output/ENGINE)" in shown


@pytest.mark.parametrize("words", [["--queries", "5"], ["--seed", "-1"], ["--engine", "flink"]])
def test_options_out_of_range_are_refused(words):
    done = CliRunner().invoke(app, ["demo", *words])
    assert done.exit_code == 2


@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_a_folder_that_cannot_be_made_is_told_before_the_demo_begins(engine, tmp_path):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "out"
    done = CliRunner().invoke(app, ["demo", "--engine", engine, "--out", str(folder)])
    assert done.exit_code == 2
    assert f"Error: {folder} cannot be made: Not a directory" in done.output
    assert "name another folder with --out" in done.output


def test_without_spark_the_command_says_what_to_install_and_how_to_do_without(monkeypatch):
    monkeypatch.setitem(sys.modules, "standfast.spark_demo", None)
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 2
    assert "Error: the demo runs on Spark, which is not installed: " in done.output
    assert "pip install 'standfast[spark]'" in done.output
    assert "--engine embedded" in done.output


def test_the_command_prints_the_catalogue():
    done = CliRunner().invoke(app, ["strategies"])
    assert done.exit_code == 0
    assert done.output.startswith("# Strategies\n")
    assert "| `hotspot` |" in done.output


def test_without_spark_a_pipeline_file_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "standfast.spark.run", None)
    done = CliRunner().invoke(app, ["run", "any.toml"])
    assert done.exit_code == 2
    assert "Error: pipeline files run on Spark, which is not installed: " in done.output
