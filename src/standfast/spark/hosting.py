"""Finding the host of a shard on this machine, or starting one.

A host listens at a socket in a folder that only this user may enter, named after the executor. Of
several workers that look for one at the same time, the first starts it and the others wait. Whoever
starts one removes what dead executors have left.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from standfast.errors import StandfastError
from standfast.spark.talk import Gone

START_SECONDS = 120.0
_STEP = 0.01


@contextmanager
def connected(query: str, shard: int, n_shards: int) -> Iterator[socket.socket]:
    """A connection to the host of a shard of a streaming query."""
    folder = private_folder(guardian())
    name = hashlib.sha256(f"{query} {shard}".encode()).hexdigest()[:24]
    with _reached(folder / name, n_shards) as talk:
        yield talk


def guardian() -> int:
    """The executor that this worker belongs to: the nearest Java above it, else its parent."""
    process = os.getppid()
    while process > 1:
        try:
            text = Path(f"/proc/{process}/stat").read_text()
        except OSError:
            break
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name == "java":
            return process
        process = int(rest.split()[1])
    return os.getppid()


def private_folder(process: int) -> Path:
    """A folder of this user's, for what belongs to a process."""
    folder = Path(tempfile.gettempdir()) / f"standfast-{os.getuid()}-{process}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or folder.is_symlink():
        raise StandfastError(
            f"{folder} does not belong to this user alone", hint="remove it, or set TMPDIR"
        )
    return folder


def _reached(path: Path, n_shards: int) -> socket.socket:
    talk = _try(path)
    if talk is not None:
        return talk
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        talk = _try(path)
        return talk if talk is not None else _started(path, n_shards)


def lives(process: int) -> bool:
    """Whether a process is there and more than a name that nobody has asked for yet."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's, or a system that has no such file
        return True
    return state not in "ZX"


def sweep(folders: Path) -> None:
    """Remove the folders of executors that are gone and of which no host answers."""
    for folder in folders.glob(f"standfast-{os.getuid()}-*"):
        number = folder.name.rpartition("-")[2]
        if not number.isdecimal() or lives(int(number)) or folder.is_symlink():
            continue
        with suppress(OSError):
            for path in folder.iterdir():
                talk = _try(path) if path.is_socket() else None
                if talk is not None:
                    talk.close()
                    break
            else:
                shutil.rmtree(folder, ignore_errors=True)


def _started(path: Path, n_shards: int) -> socket.socket:
    sweep(Path(tempfile.gettempdir()))
    threads = max(1, (os.cpu_count() or 1) // n_shards)
    environment = os.environ | {"STANDFAST_THREADS": str(threads), "NUMBA_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    path.unlink(missing_ok=True)
    with open(f"{path}.log", "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "standfast.spark.host", str(path), str(guardian())],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
            start_new_session=True, cwd="/",
        )  # fmt: skip
    begin = time.monotonic()
    while time.monotonic() - begin < START_SECONDS:
        talk = _try(path)
        if talk is not None:
            return talk
        if process.poll() is not None:
            text = Path(f"{path}.log").read_text(errors="replace")[-2000:]
            is_long = "AF_UNIX path too long" in text
            raise StandfastError(
                f"the host of a shard did not start: {text}",
                hint="set TMPDIR to a folder with a shorter path" if is_long else "",
            )
        time.sleep(_STEP)
    process.kill()
    raise Gone(f"the host of a shard was not there after {START_SECONDS:.0f} s")


def _try(path: Path) -> socket.socket | None:
    talk = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        talk.connect(str(path))
    except OSError:
        talk.close()
        return None
    return talk
