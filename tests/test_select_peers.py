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


def test_the_server_listens_on_no_network() -> None:
    if not postgres_select.binaries():
        return
    connection = postgres_select.connections()[0]
    assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
