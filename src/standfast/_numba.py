"""The `kernel` decorator: compiled once, cached on disk, free of the interpreter lock.

Processes that start together need the same kernels: one of them compiles each, the others wait for
it and read it from the cache (half the processor time of a Spark job's first start).

The cache folder carries a hash of every module of the package that holds kernels, because numba
notices a change in a kernel's own file but not in a kernel that it calls from another file.
`NUMBA_DISABLE_JIT=1` turns every kernel back into plain Python (the suite runs that way too).
"""

import getpass
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock

if sys.platform != "win32":
    import fcntl

# Kernels run without the interpreter lock, so plain threads share their work.
THREADS = int(os.environ.get("STANDFAST_THREADS") or os.cpu_count() or 1)

# Compiling takes seconds: who waits longer for another process goes on by himself.
LONGEST_WAIT_S = 120.0
LOOK_AGAIN_S = 0.02

F = TypeVar("F", bound=Callable[..., object])

_n_made = 0  # kernels that this process compiled, or loaded after somebody else had
_n_within = 0  # of these, how many are being made right now, each for the one before it
# What Python code called: the kernel, the types of its arguments, the seconds until it was there.
# Kernels that only other kernels call come with those.
asked: list[tuple[Any, tuple[Any, ...], float]] = []


class Stopwatch:
    """Runs from when it is made; shows nothing if a kernel was compiled or loaded meanwhile.

    That happens once, takes seconds, and says nothing about what work costs.
    """

    def __init__(self) -> None:
        self._n_made, self._begin = _n_made, time.perf_counter()

    def seconds(self) -> float | None:
        return time.perf_counter() - self._begin if self._n_made == _n_made else None


def _cache_folder() -> Path:
    """Where compiled kernels of exactly this source are kept."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        text = path.read_bytes()
        if any(mark in text for mark in (b"@kernel", b"@inlined", b"@in_place")):
            digest.update(path.name.encode() + b"\0" + text)
    return _cache_base() / f"kernels-{digest.hexdigest()[:16]}"


def _cache_base() -> Path:
    """As told, or in the user's home; a service may have none, or may not write there."""
    named = os.environ.get("STANDFAST_CACHE")
    if named:
        return Path(named)
    with suppress(RuntimeError):  # nobody knows a home
        home = Path.home() / ".cache" / "standfast"
        nearest = next(folder for folder in (home, *home.parents) if os.path.exists(folder))
        if nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK):
            return home
    # What is read from a cache is run, so nobody else may have written it.
    user = os.getuid() if sys.platform != "win32" else getpass.getuser()
    folder = Path(tempfile.gettempdir()) / f"standfast-kernels-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_own = sys.platform == "win32" or (found.st_uid == user and not found.st_mode & 0o077)
    if folder.is_symlink() or not is_own:
        return Path(tempfile.mkdtemp(prefix="standfast-kernels-"))
    return folder


if "NUMBA_CACHE_DIR" not in os.environ:
    vars(numba.config)["CACHE_DIR"] = str(_cache_folder())


def kept_in() -> Path:
    """The folder that compiled kernels are kept in."""
    return Path(vars(numba.config)["CACHE_DIR"] or _cache_folder())


@cache
def _pool(_process: int) -> ThreadPoolExecutor:
    """The threads of a process: a forked child has none of its parent's and would wait forever."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix="standfast")


def in_parts(work: Callable[[int, int], None], n: int, *, cost: int) -> None:
    """Call `work(first, last)` for parts of range(n), side by side when `cost` is worth it.

    `cost` is about the number of elementary steps of the whole; below a million the threads cost
    more than they bring.
    """
    parts = min(THREADS, n) if cost >= 1_000_000 else 1
    edges = [n * i // max(parts, 1) for i in range(parts + 1)]
    if parts <= 1:
        work(0, n)
        return
    pool = _pool(os.getpid())
    for done in [pool.submit(work, *edge) for edge in pairwise(edges)]:
        done.result()


def kernel(function: F) -> F:
    """Compile `function` on first use; no Python objects, no interpreter lock, cached on disk."""
    return _made(function)


def inlined(function: F) -> F:
    """A kernel that is compiled into its callers: for the few steps inside a hot loop."""
    return _made(function, forceinline=True)


def in_place(function: F) -> F:
    """An inlined kernel that neither makes an array nor gives one back.

    Numba counts who refers to an array at every call, at several times the price of a small step;
    here nobody needs to, since the caller holds on to all of them. A function that gave an array
    back would be wrong: nobody would have counted it.
    """
    return _made(function, forceinline=True, _nrt=False)


def _made(function: F, **options: Any) -> F:
    made = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    if hasattr(made, "compile"):  # unless kernels are to run as plain Python
        compile_now = made.compile
        name = f"{function.__module__}.{function.__qualname__}.lock"

        def compile_alone(signature: Any) -> Any:
            # Numba's own lock first: a thread that held ours and waited for Numba's could wait
            # for one that holds Numba's and waits for ours.
            global _n_made, _n_within
            begin = time.perf_counter()
            with global_compiler_lock, _alone(name):
                _n_made += 1
                _n_within += 1
                try:
                    return compile_now(signature)
                finally:
                    _n_within -= 1
                    if not _n_within and isinstance(signature, tuple):
                        asked.append((made, signature, time.perf_counter() - begin))

        made.compile = compile_alone
    return cast(F, made)


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """No other process is within the same lock of this cache, unless one was for very long.

    The lock is the process's own, so that it ends with it and no child inherits it.
    """
    folder = kept_in() / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        descriptor = None  # where nothing can be written nothing is cached either
    end = time.monotonic() + LONGEST_WAIT_S
    try:
        while not _is_locked(descriptor) and time.monotonic() < end:
            time.sleep(LOOK_AGAIN_S)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_locked(descriptor: int | None) -> bool:
    """Whether the lock is ours now; systems without such locks do without."""
    if sys.platform == "win32" or descriptor is None:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system that cannot lock
    return True
