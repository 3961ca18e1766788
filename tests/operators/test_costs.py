"""Constants are kept in a file that is believed only if it is whole and of this version."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from standfast.operators.band_join.routed import Routed
from standfast.operators.costs import (
    FORMAT,
    TERMS,
    VARIABLE,
    VERSION,
    BadCosts,
    Model,
    Term,
    current,
    defaults,
    make_ready,
    parse,
    read,
    user_file,
    write,
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of this machine's constants, not there yet."""
    path = tmp_path / "costs.json"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def test_the_defaults_have_every_term_of_every_way() -> None:
    known = defaults()
    assert set(known.ways) == set(TERMS)
    for question, ways in TERMS.items():
        model = Model(question, known)
        assert model.ways == tuple(ways)
        assert (model.builds > 0).all()
        weights = model.weights(dict.fromkeys(model.stats, 1.0))
        assert (weights[:, 0] > 0).all(), "a call costs something"
        assert (weights[:, 1:].sum(axis=1) > 0).all()


def test_what_was_written_is_read_again(path: Path) -> None:
    write(defaults(), path, "some machine")
    again = read(path)
    assert again.ways == defaults().ways
    assert again.source == str(path)
    assert json.loads(path.read_text())["machine"] == "some machine"
    assert [p.name for p in path.parent.iterdir()] == [path.name], "nothing is left beside it"


def test_the_file_of_the_machine_is_used_when_it_is_there(path: Path) -> None:
    assert current() == (defaults(), f"{VARIABLE} names {str(path)!r}, which is not there")
    write(defaults(), path, "some machine")
    known, warning = current()
    assert (known.source, warning) == (str(path), "")


def test_a_changed_file_is_read_anew(path: Path) -> None:
    write(defaults(), path, "some machine")
    assert current()[1] == ""
    path.write_text("{")
    os.utime(path, ns=(1, 1))
    assert "is not JSON" in current()[1]


def test_without_a_variable_the_file_is_in_the_folder_for_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert user_file() == tmp_path / "standfast" / "costs.json"
    assert current() == (defaults(), ""), "no file is no mistake"


def test_who_has_no_home_has_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    assert current() == (defaults(), "")


def whole() -> dict[str, object]:
    ways = {q: {w: c._asdict() for w, c in ws.items()} for q, ws in defaults().ways.items()}
    return {"format": FORMAT, "version": VERSION, "machine": "m", "microseconds": ways}


def changed(way: dict[str, object], *keys: str) -> dict[str, object]:
    made = json.loads(json.dumps(whole()))
    made["microseconds"]["band_join"]["merge"].update(way)
    for key in keys:
        del made["microseconds"]["band_join"]["merge"][key]
    return made


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([], "x is not a file of costs"),
        ({"format": "other"}, "x is not a file of costs"),
        ({"format": FORMAT, "version": 0}, f"x has version 0, this is version {VERSION}"),
        ({"format": FORMAT, "version": VERSION}, "x: .* lacks a constant"),
        (changed({}, "terms"), "x: band_join merge lacks a constant"),
        (changed({}, "build"), "x: band_join merge lacks a constant"),
        (changed({"terms": {"event": 1.0}}), "x: band_join merge lacks a constant"),
        (changed({"terms": 3}), "x: band_join merge lacks a constant"),
        (changed({"build": -1.0}), "x: band_join merge has -1.0 as a constant"),
        (changed({"build": True}), "x: band_join merge has True as a constant"),
        (changed({"build": "1"}), "x: band_join merge has '1' as a constant"),
        (changed({"build": float("nan")}), "x: band_join merge has nan as a constant"),
        (changed({"spans": 1.5}), "x: band_join merge has 1.5 as a share"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused_by_name(found: object, message: str) -> None:
    with pytest.raises(BadCosts, match=message):
        parse(json.dumps(found), "x")


def test_brackets_without_end_are_not_json() -> None:
    with pytest.raises(BadCosts, match="x is not JSON"):
        parse("[" * 100_000, "x")


def test_where_costs_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadCosts, match=r"file/costs.json cannot be written: "):
        make_ready(tmp_path / "file" / "costs.json")
    make_ready(tmp_path / "new" / "costs.json")
    assert list((tmp_path / "new").iterdir()) == [], "nothing is left there"


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCosts, match=r"cannot be read: .*nothing"):
        read(tmp_path / "nothing")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadCosts, match="bytes cannot be read"):
        read(tmp_path / "bytes")


def test_a_way_with_a_bad_file_works_and_says_so(path: Path) -> None:
    path.write_text("not costs")
    described = Routed(is_float=False).describe()
    assert "is not JSON" in str(described["warning"])
    assert described["constants"] == "defaults"


def test_a_term_is_named_by_its_factors() -> None:
    assert Term("groups", "search").name == "groups x search"
    assert Term("one", "stabbed").name == "stabbed"
    assert Term("one", "one").name == "event"
