"""A host keeps a shard between micro-batches and is believed only for the version it has."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.playing import chunks_of

from standfast.errors import StandfastError
from standfast.model.stream import Input
from standfast.spark import host, hosting
from standfast.spark.brief import name_of
from standfast.spark.host import Host
from standfast.spark.outputs import ANSWERS
from standfast.spark.spec import Spec
from standfast.spark.state import Meta
from standfast.spark.talk import Gone, receive, send
from standfast.spark.wire import Chunk, taken_apart

SPEC = Spec(
    {"s": Input.stream("s", {"v": "int64"}), "d": Input.stream("d", {"v": "int64"})},
    {"q": "SELECT * FROM s JOIN d ON s.v - d.v BETWEEN :lo AND :hi"},
    {}, "pairs", 1,
)  # fmt: skip


def batch(number: int) -> list[Chunk]:
    changes = pa.table({"template": ["q"], "id": [number], "lo": [-5], "hi": [5]})
    rng = np.random.default_rng(number)
    rows = {name: pa.table({"v": rng.integers(0, 50, 20)}) for name in ("s", "d")}
    return chunks_of(SPEC, number, changes, rows)[0]


class Client:
    """The worker's side, with the state that Spark would keep."""

    def __init__(self, talk: socket.socket) -> None:
        self.talk = talk
        self.meta = Meta(SPEC.digest, 1)
        self.entries: list[bytes] = []

    def is_ready(self, spec: Spec = SPEC) -> bool:
        asked = {"do": "ask", "job": name_of(spec.to_json()), "version": self.meta.version}
        send(self.talk, asked | {"nonce": self.meta.nonce})
        return bool(receive(self.talk)[0]["ready"])

    def build(self) -> None:
        request = {"do": "build", "spec": SPEC.to_json(), "shard": 0, "version": self.meta.version}
        send(self.talk, request | {"nonce": self.meta.nonce}, self.entries)
        assert receive(self.talk)[0] == {"ready": True}

    def apply(self, number: int, nonce: str, *, commit: bool = True) -> list[Any]:
        heads, bodies = taken_apart(batch(number))
        request = {"do": "apply", "nonce": nonce, "meta": asdict(self.meta), "chunks": heads}
        send(self.talk, request, bodies)
        found = []
        while True:
            head, blobs = receive(self.talk)
            if "tally" in head:
                break
            assert head["kind"] == ANSWERS
            found += SPEC.output.unpacked(blobs[0]).to_pylist()
        if commit:
            kept = [] if head["snapshot"] else self.entries
            self.entries = [*kept, blobs[0]]
            version = self.meta.version + 1
            self.meta = Meta(SPEC.digest, 1, version, nonce, 0, (1,) * len(self.entries), 10**9)
        return sorted(found, key=str)


@contextmanager
def served() -> Iterator[Client]:
    """A client of a host in a thread."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs, suppress(Gone):
            Host().serve(theirs)

    thread = threading.Thread(target=serve)
    thread.start()
    with ours:
        yield Client(ours)
    thread.join()


def expected(n: int) -> list[list[Any]]:
    with served() as client:
        client.build()
        return [client.apply(i, f"n{i}") for i in range(n)]


def test_a_host_goes_on_with_the_version_that_it_has() -> None:
    wanted = expected(4)
    assert sum(map(len, wanted)) > 50
    with served() as client:
        assert not client.is_ready(), "nothing is there yet"
        client.build()
        for i in range(4):
            assert client.is_ready()
            assert client.apply(i, f"other {i}") == wanted[i]


def test_an_attempt_that_was_not_committed_is_not_gone_on_with() -> None:
    wanted = expected(3)
    with served() as client:
        client.build()
        assert client.apply(0, "a") == wanted[0]
        assert client.apply(1, "b", commit=False) == wanted[1]
        assert not client.is_ready(), "its version is that of an attempt that Spark does not know"
        client.build()
        assert client.apply(1, "c") == wanted[1]
        assert client.apply(2, "d") == wanted[2]


def test_two_attempts_at_one_version_differ_by_their_nonce() -> None:
    with served() as client:
        client.build()
        client.apply(0, "a")
        before, entries = client.meta, client.entries
        client.apply(1, "mine")
        committed = client.meta
        client.meta, client.entries = before, entries
        client.build()
        client.apply(1, "speculative", commit=False)
        client.meta = committed
        assert not client.is_ready()


@pytest.mark.parametrize("winner", [0, 1])
def test_of_two_attempts_at_once_either_may_be_committed(winner: int) -> None:
    """Speculation: a copy of a slow task, on another machine, begins with the same state."""
    wanted = expected(3)
    with served() as first, served() as copy:
        first.build()
        assert first.apply(0, "a") == wanted[0]
        copy.meta, copy.entries = first.meta, first.entries
        assert not copy.is_ready()
        copy.build()
        for number, client in enumerate((first, copy)):
            assert client.apply(1, f"b{number}", commit=number == winner) == wanted[1]
        won, lost = (first, copy) if winner == 0 else (copy, first)
        lost.meta, lost.entries = won.meta, won.entries
        assert won.is_ready()
        assert not lost.is_ready(), "it has what Spark threw away"
        lost.build()
        assert won.apply(2, "c") == lost.apply(2, "d") == wanted[2]


def test_a_host_is_not_gone_on_with_by_a_job_that_wants_another_form() -> None:
    """A job that was stopped may go on, in the same Spark, with other answers asked for."""
    with served() as client:
        client.build()
        client.apply(0, "a")
        assert client.is_ready()
        assert not client.is_ready(replace(SPEC, form="counts"))


def test_a_mistake_is_told_and_the_shard_is_given_up() -> None:
    with served() as client:
        client.build()
        request = {"do": "build", "spec": SPEC.to_json(), "shard": 0, "version": 1, "nonce": "x"}
        send(client.talk, request, [b"\0\0\0\0\0\0\0\x09{}"])
        assert "cut off" in receive(client.talk)[0]["error"]
        assert not client.is_ready()


def test_a_process_is_started_once_found_again_and_replaced_when_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting, "private_folder", lambda process: tmp_path)
    monkeypatch.setattr(hosting, "guardian", os.getpid)
    wanted = expected(3)
    with hosting.connected("query", 0, 1) as talk:
        first = Client(talk)
        first.build()
        assert first.apply(0, "a") == wanted[0]
    with hosting.connected("query", 0, 1) as talk:
        again = Client(talk)
        again.meta, again.entries = first.meta, first.entries
        assert again.is_ready(), "another process was asked"
        assert again.apply(1, "b") == wanted[1]
    (sock,) = [path for path in tmp_path.iterdir() if path.is_socket()]
    _end(sock)
    with hosting.connected("query", 0, 1) as talk:
        third = Client(talk)
        third.meta, third.entries = again.meta, again.entries
        assert not third.is_ready()
        third.build()
        assert third.apply(2, "c") == wanted[2]
    _end(sock)


def _end(sock: Path) -> None:
    """Kill the host of a socket and wait until it is gone."""
    processes = _hosts(sock)
    assert len(processes) == 1
    os.kill(processes[0], signal.SIGKILL)
    while (talk := hosting._try(sock)) is not None:  # its last threads are on their way out
        talk.close()
        time.sleep(0.01)


def _hosts(sock: Path) -> list[int]:
    """The processes that were started for a socket."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if str(sock).encode() in words:
                    found.append(int(folder.name))
    return found


def test_a_folder_whose_name_is_too_long_for_a_socket_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    monkeypatch.setattr(hosting, "private_folder", lambda process: folder)
    with (
        pytest.raises(StandfastError, match="did not start") as refused,
        hosting.connected("query", 0, 1),
    ):
        pass
    assert refused.value.hint == "set TMPDIR to a folder with a shorter path"


def test_a_host_ends_after_a_time_without_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "IDLE_SECONDS", 0.5)
    monkeypatch.setattr(host, "LOOK_SECONDS", 0.05)
    path = tmp_path / "door"
    thread = threading.Thread(target=host.main, args=(str(path), os.getpid()))
    begin = time.monotonic()
    thread.start()
    for _ in range(3):  # what is asked puts the end off
        time.sleep(0.3)
        talk = hosting._try(path)
        assert talk is not None, "it did not wait"
        with talk:
            assert not Client(talk).is_ready()
    thread.join(timeout=60)
    assert time.monotonic() - begin > 1.2
    assert not thread.is_alive()
    assert not path.exists()


def test_a_host_ends_with_its_guardian(tmp_path: Path) -> None:
    guardian = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    path = tmp_path / "door"
    module = [sys.executable, "-m", "standfast.spark.host", str(path), str(guardian.pid)]
    with subprocess.Popen(module) as host:
        guardian.kill()
        guardian.wait()
        assert host.wait(timeout=120) == 0
    assert not path.exists()


def test_what_dead_executors_left_is_swept_away_and_nothing_else(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    while hosting.lives(ended.pid):  # nobody has waited for it: it is there by name only
        time.sleep(0.01)
    assert Path(f"/proc/{ended.pid}").exists()
    assert hosting.lives(os.getpid())
    user = os.getuid()
    dead, alive = (tmp_path / f"standfast-{user}-{n}" for n in (ended.pid, os.getpid()))
    kept = [alive, tmp_path / f"standfast-{user}-x", tmp_path / "standfast-other"]
    for folder in (dead, *kept):
        folder.mkdir()
        (folder / "0.lock").touch()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(dead / "0"))
        door.listen()
        hosting.sweep(tmp_path)
        assert dead.exists(), "a host answers there"
    hosting.sweep(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted(kept)
    ended.wait()
    assert not hosting.lives(ended.pid)


def test_a_folder_of_somebody_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosting.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = hosting.private_folder(12)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    with pytest.raises(StandfastError, match="does not belong to this user alone"):
        hosting.private_folder(12)
