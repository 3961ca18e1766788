"""Snapshots: whole and genuine or refused by name, and a crash at any point leaves the old one."""

from __future__ import annotations

import builtins
import hashlib
import math
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import standfast as sf
from engine.reading import pairs_of, rows_of
from standfast.engine import snapshot
from standfast.engine.snapshot import HEADER, MAGIC, VERSION, framed

NOW_US = 1_000_000_000


def small_engine() -> sf.Engine:
    engine = sf.Engine(clock=lambda: NOW_US)
    engine.stream("s", {"x": "int64"})
    engine.register("SELECT * FROM s WHERE x > :lo", name="f").add({"lo": [1, 2]})
    return engine


def full_engine(*, follows: bool = False) -> sf.Engine:
    """Everything an engine can hold: streams, tables, both questions, strings, letters, gaps."""
    engine = sf.Engine(clock=lambda: NOW_US, follows=follows)
    engine.stream("ticks", {"ts": "timestamp", "x": "float64", "s": "string"},
                  time="ts", lateness_us=100)  # fmt: skip
    engine.table("stock", {"k": "int64", "g": "string", "x": "float64"}, key=["k", "g"])
    engine.stream("idle", {"x": "int64"}, id="x")
    named = engine.register("SELECT * FROM ticks WHERE s = :s", name="named")
    named.add({"s": ["a", "b", "a"], "id": [5, 3, 9]})
    named.remove(3)
    ranges = engine.register("SELECT x FROM ticks WHERE x BETWEEN :lo AND :hi", name="ranges",
                             strategy="naive")  # fmt: skip
    ranges.add({"lo": [0.0, 4.0, -math.inf], "hi": [9.0, 1.0, math.inf]})
    near = "SELECT t.x, s.k FROM ticks t JOIN stock s ON s.x - t.x BETWEEN :lo AND :hi"
    engine.register(near, name="near").add({"lo": [0.0, -5.0], "hi": [2.0, 5.0]})
    engine.push("ticks", {"ts": [500, 300, 600], "x": [1.0, 2.0, math.nan], "s": ["a", "b", None]})
    engine.push("stock", {"k": [1, 2, 3], "g": ["u", "v", "u"], "x": [1.5, 9.0, None]})
    engine.push("stock", {"k": [2], "g": ["v"], "x": [3.0]})
    engine.delete("stock", {"k": [3, 99], "g": ["u", "u"]})
    return engine


def state_of(engine: sf.Engine) -> tuple:
    metrics = engine.metrics()
    for counted in metrics["inputs"].values():
        counted.pop("memory_bytes")  # fewer runs after a restore
    return (
        engine.inputs, metrics["inputs"], engine.dead_letters().to_pylist(),
        {name: (len(g), g.way, g.wanted, g.template) for name, g in engine.groups.items()},
        {name: str(store.living().to_pylist()) for name, store in engine._stores.items()},
    )  # fmt: skip


def continued(engine: sf.Engine) -> list:
    """What the engine answers to a history, and what is left of it."""
    seen: list = []
    for name, call, rows in [
        ("ticks", engine.push, {"ts": [499, 601], "x": [2.5, 0.0], "s": ["a", "c"]}),
        ("stock", engine.push, {"k": [1, 7], "g": ["u", "u"], "x": [4.0, 2.0]}),
        ("stock", engine.delete, {"k": [2, 3], "g": ["v", "u"]}),
        ("ticks", engine.push, {"ts": [700], "x": [3.0], "s": ["b"]}),
    ]:
        answers = call(name, rows)
        seen.append({n: (pairs_of(a), rows_of(a)) for n, a in answers.items()})
    for name in ("named", "ranges", "near"):
        group = engine.groups[name]
        holes = {hole.name: ["c"] if hole.kind == "string" else [1.0]
                 for hole in group.template.holes}  # fmt: skip
        seen.append(group.add(holes).to_pylist())
    last = engine.push("ticks", {"ts": [701], "x": [1.0], "s": ["c"]})
    seen.append({n: (pairs_of(a), rows_of(a)) for n, a in last.items()})
    engine.check()
    return [*seen, state_of(engine)]


def test_a_restored_engine_is_the_same_and_continues_the_same(tmp_path):
    path = tmp_path / "engine.snapshot"
    engine = full_engine()
    engine.snapshot(path)
    restored = sf.Engine.restore(path, clock=lambda: NOW_US)
    restored.check()
    assert state_of(restored) == state_of(engine)
    assert continued(restored) == continued(engine)


@pytest.mark.parametrize("follows", [False, True])
def test_an_engine_lives_on_in_the_bytes_that_a_file_would_hold(follows, tmp_path):
    engine = full_engine(follows=follows)
    engine.advance("ticks", 599)
    data = engine.to_bytes()
    engine.snapshot(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == data
    for given in (data, bytearray(data), memoryview(data)):
        restored = sf.Engine.from_bytes(given, clock=lambda: NOW_US)
        restored.check()
        assert restored.to_bytes() == data
        assert continued(restored) == continued(
            sf.Engine.restore(tmp_path / "s", clock=engine._clock)
        )
        # 499 is in time after 599, which was told, and late after 600, which the rows had.
        assert restored.counters("ticks")["late"] == (0 if follows else 2)


def test_bytes_that_were_written_to_later_do_not_reach_the_engine():
    engine = full_engine()
    data = bytearray(engine.to_bytes())
    restored = sf.Engine.from_bytes(data, clock=lambda: NOW_US)
    data[:] = bytes(len(data))
    assert continued(restored) == continued(engine)


def test_taking_a_snapshot_changes_nothing_and_two_are_equal(tmp_path):
    engine = full_engine()
    for name in ("one", "two"):
        engine.snapshot(str(tmp_path / name))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert continued(engine) == continued(full_engine())
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_an_engine_without_anything_can_be_restored(tmp_path):
    sf.Engine().snapshot(tmp_path / "empty")
    restored = sf.Engine.restore(tmp_path / "empty")
    assert (restored.inputs, restored.groups) == ({}, {})


def test_a_stream_that_nobody_joins_keeps_no_rows_after_a_restore(tmp_path):
    engine = small_engine()
    engine.push("s", {"x": [1]})
    engine.snapshot(tmp_path / "s")
    restored = sf.Engine.restore(tmp_path / "s")
    restored.push("s", {"x": [2]})
    assert len(restored._stores["s"]) == 0
    assert restored.metrics()["inputs"]["s"]["used"] == 2


@pytest.fixture(scope="module")
def small_file(tmp_path_factory) -> bytes:
    path, engine = tmp_path_factory.mktemp("small") / "s", small_engine()
    engine.table("t", {"k": "int64"}, key="k")
    engine.push("t", {"k": [1, None]})
    engine.snapshot(path)
    return path.read_bytes()


def refusal(path: Path) -> str:
    with pytest.raises(sf.BadSnapshot) as error:
        sf.Engine.restore(path)
    assert str(error.value).startswith(f"{path}: ")
    return error.value.message.removeprefix(f"{path}: ")


def test_every_flipped_bit_of_a_file_is_noticed(small_file, tmp_path):
    path, messages = tmp_path / "s", []
    path.write_bytes(small_file)
    with open(path, "r+b", buffering=0) as file:
        for place, byte in enumerate(small_file):
            for bit in range(8):
                os.pwrite(file.fileno(), bytes([byte ^ (1 << bit)]), place)
                try:
                    sf.Engine.restore(path)
                except sf.BadSnapshot as error:
                    messages.append(error.message)
            os.pwrite(file.fileno(), bytes([byte]), place)
    assert len(messages) == 8 * len(small_file) > 20_000
    assert all(message.startswith(f"{path}: ") for message in messages)
    reasons = {message.removeprefix(f"{path}: ").split(" ")[0] for message in messages}
    assert reasons == {"not", "snapshot", "damaged"}
    assert sf.Engine.restore(path).groups["f"].name == "f"


def test_a_file_cut_short_or_grown_is_noticed(small_file, tmp_path):
    path = tmp_path / "s"
    for length in range(len(small_file)):
        path.write_bytes(small_file[:length])
        is_short = length < HEADER.size
        expected = "not a Standfast snapshot" if is_short else "damaged"
        assert refusal(path).startswith(expected), length
    path.write_bytes(small_file + b"\0")
    assert refusal(path) == "damaged (length or checksum differ)"


@pytest.mark.parametrize("text", [b"", b"PAR1", b"ARROW1\0\0" * 20, b"\0" * 100, b"{}" * 50])
def test_a_foreign_file_is_refused(text, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(text)
    assert refusal(path) == "not a Standfast snapshot"


def test_damaged_bytes_are_refused_as_such(small_file):
    messages = set()
    for place in range(0, len(small_file), 3):
        data = bytearray(small_file)
        data[place] ^= 1
        with pytest.raises(sf.BadSnapshot) as error:
            sf.Engine.from_bytes(data)
        messages.add(error.value.message)
    assert "the bytes: not a Standfast snapshot" in messages
    assert "the bytes: damaged (length or checksum differ)" in messages
    assert all(message.startswith("the bytes: ") for message in messages)


@pytest.mark.parametrize("data", [None, "text", 5, []])
def test_what_is_no_bytes_is_refused(data):
    with pytest.raises(sf.BadSnapshot) as error:
        sf.Engine.from_bytes(data)
    assert str(error.value) == f"the bytes: got a {type(data).__name__}"


def sealed(body: bytes, version: int = VERSION) -> bytes:
    """A body in a container that is in order."""
    return HEADER.pack(MAGIC, version, len(body), hashlib.sha256(body).digest()) + body


def test_another_version_is_refused_and_named(small_file, tmp_path):
    path = tmp_path / "newer"
    path.write_bytes(sealed(small_file[HEADER.size :], VERSION + 1))
    with pytest.raises(sf.BadSnapshot) as error:
        sf.Engine.restore(path)
    assert str(error.value) == (
        f"{path}: snapshot version {VERSION + 1}, this is version {VERSION}\n"
        "  hint: restore it with the release that wrote it"
    )


@pytest.mark.parametrize("body", [b"", b"abc", b"\0" * 8, b"\0" * 7 + b"\4junk", b"\xff" * 40])
def test_a_whole_file_with_something_else_inside_is_refused(body, tmp_path):
    path = tmp_path / "odd"
    path.write_bytes(sealed(body))
    assert refusal(path).startswith("does not hold an engine that this release knows: ")


@pytest.mark.parametrize(
    "manifest",
    [
        '{"inputs": []}',
        '{"inputs": [{}], "groups": []}',
        '{"inputs": [], "groups": [{"name": "f", "sql": "SELECT 1", "strategy": "auto"}]}',
        "[]",
        "not JSON",
    ],
)
def test_a_whole_file_with_another_manifest_is_refused(manifest, tmp_path):
    path = tmp_path / "odd"
    path.write_bytes(framed([pa.table({"manifest": [manifest]})]))
    assert refusal(path).startswith("does not hold an engine that this release knows: ")


def test_a_file_or_folder_that_is_not_there_is_named(tmp_path):
    assert refusal(tmp_path / "nothing") == "cannot be read: No such file or directory"
    assert refusal(tmp_path) == "cannot be read: Is a directory"
    path = tmp_path / "no" / "folder"
    with pytest.raises(sf.BadSnapshot) as error:
        small_engine().snapshot(path)
    assert str(error.value) == f"{path}: cannot be written: No such file or directory"
    assert os.listdir(tmp_path) == []


class Crash(BaseException):
    """Nothing in the code under test catches this."""


class Saboteur:
    """Counts every step of writing a file and stops at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stop_at: int, error: BaseException) -> None:
        self.steps: list[str] = []
        self.stop_at, self.error = stop_at, error
        for target, name in ((os, "fsync"), (os, "open"), (Path, "replace")):
            monkeypatch.setattr(target, name, self.sabotaged(name, getattr(target, name)))
        monkeypatch.setattr(snapshot, "open", self.open, raising=False)

    def step(self, name: str) -> None:
        self.steps.append(name)
        if len(self.steps) == self.stop_at:
            raise self.error

    def sabotaged(self, name: str, original):
        def wrapped(*arguments, **options):
            self.step(name)
            return original(*arguments, **options)

        return wrapped

    def open(self, path: Path, mode: str):
        self.step("create")
        return Sabotaged(builtins.open(path, mode), self)


class Sabotaged:
    """A file whose writes can stop half way."""

    def __init__(self, file, saboteur: Saboteur) -> None:
        self.file, self.saboteur = file, saboteur

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        self.file.close()

    def write(self, data) -> None:
        half = len(data) // 2
        self.file.write(data[:half])
        self.saboteur.step("write")
        self.file.write(data[half:])

    def flush(self) -> None:
        self.saboteur.step("flush")
        self.file.flush()

    def fileno(self) -> int:
        return self.file.fileno()


STEPS = ["create", "write", "flush", "fsync", "replace", "open", "fsync"]


def test_the_steps_of_writing_are_those_that_the_crash_test_stops_at(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        saboteur = Saboteur(patch, 0, Crash())
        small_engine().snapshot(tmp_path / "s")
    assert saboteur.steps == STEPS


@pytest.mark.parametrize("error", [Crash(), OSError(28, "No space left on device")])
@pytest.mark.parametrize("stop_at", range(1, len(STEPS) + 1))
def test_a_crash_at_any_step_leaves_the_old_file_or_the_new_one_whole(
    stop_at, error, tmp_path, monkeypatch
):
    path, engine = tmp_path / "s", small_engine()
    engine.snapshot(path)
    old = path.read_bytes()
    engine.groups["f"].add({"lo": [7]})
    with monkeypatch.context() as patch:
        Saboteur(patch, stop_at, error)
        with pytest.raises((Crash, sf.BadSnapshot)) as raised:
            engine.snapshot(path)
    if isinstance(error, OSError):
        assert str(raised.value) == f"{path}: cannot be written: No space left on device"
    assert os.listdir(tmp_path) == ["s"]
    is_replaced = stop_at > STEPS.index("replace") + 1
    assert (path.read_bytes() == old) != is_replaced
    assert len(sf.Engine.restore(path).groups["f"]) == 2 + is_replaced
    engine.snapshot(path)
    assert len(sf.Engine.restore(path).groups["f"]) == 3


def test_a_crash_before_the_first_file_is_whole_leaves_none(tmp_path, monkeypatch):
    with monkeypatch.context() as patch, suppress(Crash):
        Saboteur(patch, 2, Crash())
        small_engine().snapshot(tmp_path / "s")
    assert os.listdir(tmp_path) == []


def test_many_queries_and_rows_come_back_exactly(tmp_path):
    rng, engine = np.random.default_rng(2), sf.Engine()
    engine.stream("a", {"x": "int64"})
    engine.stream("b", {"x": "int64"})
    group = engine.register("SELECT * FROM a JOIN b ON b.x - a.x BETWEEN :lo AND :hi", name="j")
    lows = rng.integers(-(2**62), 2**62, 500)
    ids = rng.permutation(5000)[:500]
    group.add({"lo": lows, "hi": lows + rng.integers(-5, 2**60, 500), "id": ids})
    group.remove(ids[::7])
    engine.push("a", {"x": rng.integers(-(2**63), 2**63 - 1, 300)})
    engine.snapshot(tmp_path / "s")
    restored = sf.Engine.restore(tmp_path / "s")
    rows = {"x": rng.integers(-(2**63), 2**63 - 1, 50)}
    expected = engine.push("b", rows)["j"]
    found = restored.push("b", rows)["j"]
    assert pairs_of(found) == pairs_of(expected) != []
    assert rows_of(found) == rows_of(expected)
    restored.check()
