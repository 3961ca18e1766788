"""Every peer of the select-join figures answers what the definition says, in each of its plans."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.peers import (
    SelectPeer,
    duckdb_select,
    numpy_select,
    polars_select,
    postgres_select,
    rtree_select,
)
from benchmarks.select_case import peer, table_one

from standfast.workloads import bands_in_groups

KINDS: list[type[SelectPeer]] = [
    numpy_select.PerEvent,
    numpy_select.PerKey,
    duckdb_select.SelectFirst,
    duckdb_select.PerKey,
    polars_select.PerEvent,
    polars_select.PerKey,
    rtree_select.SelectFirst,
    rtree_select.JoinFirst,
]
if postgres_select.binaries():
    KINDS.append(postgres_select.GistRanges)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_peer_finds_what_the_definition_says(kind: type[SelectPeer]) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        lows = rng.integers(-20, 20, (2, 40))
        highs = lows + rng.integers(0, 9, (2, 40))
        row_keys, row_values = rng.integers(0, 4, 12), rng.integers(-20, 20, 12)
        keys, values = rng.integers(-1, 6, 15), rng.integers(-20, 20, 15)
        peer = kind(lows, highs, row_keys, row_values)
        output = peer.affected(keys, values)
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            rows = row_values[row_keys == key][:, None]
            joined = ((lows[1] <= rows) & (rows <= highs[1])).any(axis=0)
            hit = joined & (lows[0] <= value) & (value <= highs[0])
            found = np.sort(peer.ids(output, i)).tolist()
            assert found == np.flatnonzero(hit).tolist(), f"seed {seed}, event {i}"


@pytest.mark.parametrize("name", ["initdb", "postgres"])
def test_a_server_without_all_its_programs_is_no_server(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).touch()
    monkeypatch.setattr(postgres_select.shutil, "which", lambda _: str(tmp_path / "initdb"))
    monkeypatch.setattr(postgres_select, "USUAL", tmp_path / "nowhere")
    assert postgres_select.binaries() is None


def test_without_a_server_postgresql_is_left_out_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_select, "binaries", lambda: None)
    case = table_one(bands_in_groups(50, 5, seed=1), "smoke", seed=2)
    with pytest.warns(UserWarning, match="PostgreSQL is left out: no initdb and postgres were"):
        assert list(peer(postgres_select.GistRanges)(case)) == []


@pytest.mark.parametrize("n_joining", [20, 200])
def test_the_checked_events_of_a_case_are_like_all_events(n_joining: int) -> None:
    case = table_one(bands_in_groups(500, 10, seed=3), "smoke", seed=4, n_joining=n_joining)
    sizes = np.bincount(case.row_keys, minlength=case.keys.max() + 1)
    joining, checked = sizes[case.keys].mean(), sizes[case.keys[: case.n_checked]].mean()
    assert joining == pytest.approx(n_joining, rel=0.2)
    assert checked == pytest.approx(n_joining, rel=0.4)


def test_the_server_listens_on_no_network() -> None:
    if not postgres_select.binaries():
        return
    connection = postgres_select.connections()[0]
    assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
