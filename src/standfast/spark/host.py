"""A host: the process in which one shard lives, asked by whichever Python worker has its task.

    worker (any of the pool)  -- version, nonce -->  host: is it the shard that you mean?
                              -- state entries ->    only if not: built anew
                              -- chunks -------->    answers, piece by piece; then what to keep

Spark hands a task to any idle worker, so a shard that lived in a worker would be elsewhere every
other time. A host ends when the executor that it belongs to is gone, or after a time without work.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from standfast.errors import StandfastError
from standfast.spark.brief import name_of
from standfast.spark.hosting import lives
from standfast.spark.shard import Shard
from standfast.spark.spec import Spec
from standfast.spark.state import Meta, is_snapshot_due
from standfast.spark.talk import Gone, receive, send
from standfast.spark.wire import put_together

IDLE_SECONDS = 600.0
LOOK_SECONDS = 0.5


class Host:
    """One shard, what job it works for, and what version of it this is."""

    def __init__(self) -> None:
        self.shard: Shard | None = None
        self.job = ""
        self.version = -1
        self.nonce = ""

    def serve(self, talk: socket.socket) -> None:
        """Answer the requests of one connection until it ends."""
        while True:
            head, blobs = receive(talk)
            try:
                self._do(talk, head, blobs)
            except StandfastError as error:
                self.shard = None
                send(talk, {"error": error.message, "hint": error.hint})
            except Gone:
                self.shard = None
                raise
            except Exception as error:
                self.shard = None
                send(talk, {"error": f"{type(error).__name__}: {error}", "hint": ""})
                raise

    def _do(self, talk: socket.socket, head: dict[str, Any], blobs: list[bytes]) -> None:
        if head["do"] == "ask":
            known = self.shard is not None
            wanted = (head["job"], head["version"], head["nonce"])
            send(talk, {"ready": known and (self.job, self.version, self.nonce) == wanted})
        elif head["do"] == "build":
            spec, self.job = Spec.from_json(head["spec"]), name_of(head["spec"])
            self.shard = build(spec, head["shard"], blobs)
            self.version, self.nonce = head["version"], head["nonce"]
            send(talk, {"ready": True})
        else:
            assert head["do"] == "apply", f"an unknown request {head['do']!r}"
            self._apply(talk, head, blobs)

    def _apply(self, talk: socket.socket, head: dict[str, Any], bodies: list[bytes]) -> None:
        shard = self.shard
        assert shard is not None, "asked before it was built"
        self.shard = None  # until it is known to be whole again
        chunks = put_together(head["chunks"], bodies)
        done = shard.apply(chunks, lambda kind, body: send(talk, {"kind": kind}, [body]))
        meta = Meta(**head["meta"])
        due = is_snapshot_due(meta, len(done.log))
        begin = time.perf_counter()
        kept = shard.to_bytes() if due else done.log
        done.tally["state_us"] = round(1e6 * (time.perf_counter() - begin))
        self.shard, self.version, self.nonce = shard, meta.version + 1, head["nonce"]
        send(talk, {"tally": done.tally, "snapshot": due}, [kept])


def build(spec: Spec, number: int, entries: list[bytes]) -> Shard:
    """A shard from its snapshot and its log, or a new one."""
    if not entries:
        return Shard(spec, number)
    shard = Shard.from_bytes(spec, entries[0], number)
    logs = [log for log in entries[1:] if log]
    for log in logs:
        shard.replay(log)
    if logs:
        shard.settle()
    return shard


def main(path: str, guardian: int) -> None:
    """Serve at this socket as long as the guardian, a process, lives."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    beside = f"{path}.{os.getpid()}"
    door.bind(beside)
    os.chmod(beside, 0o600)
    door.listen(8)
    os.rename(beside, path)
    mine = os.stat(path).st_ino
    door.settimeout(LOOK_SECONDS)
    host, worked = Host(), time.monotonic()
    try:
        while lives(guardian) and _has(path, mine) and time.monotonic() - worked < IDLE_SECONDS:
            try:
                talk, _ = door.accept()
            except TimeoutError:
                continue
            with talk:
                talk.settimeout(None)
                # The worker has what it wanted, or is gone: then its task is tried again.
                with suppress(Gone, OSError):
                    host.serve(talk)
            worked = time.monotonic()
    finally:
        if _has(path, mine):
            _tidy(Path(path), alone=not lives(guardian))


def _tidy(path: Path, *, alone: bool) -> None:
    """Remove the socket; when nobody can look for it any more, everything beside it too."""
    path.unlink(missing_ok=True)
    if alone:
        for beside in (".lock", ".log"):
            path.with_name(path.name + beside).unlink(missing_ok=True)
        with suppress(OSError):  # other hosts may still have to go
            path.parent.rmdir()


def _has(path: str, inode: int) -> bool:
    """Whether the file at the path is still this one."""
    try:
        return os.stat(path).st_ino == inode
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
