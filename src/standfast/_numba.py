"""The `kernel` decorator: compiled once, cached on disk, free of the interpreter lock.

The cache folder carries a hash of every module of the package that holds kernels, because numba
notices a change in a kernel's own file but not in a kernel that it calls from another file.
`NUMBA_DISABLE_JIT=1` turns every kernel back into plain Python (the suite runs that way too).
"""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

# Kernels run without the interpreter lock, so plain threads share their work.
THREADS = int(os.environ.get("STANDFAST_THREADS") or os.cpu_count() or 1)

F = TypeVar("F", bound=Callable[..., object])


def _cache_folder() -> Path:
    """Where compiled kernels of exactly this source are kept."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        text = path.read_bytes()
        if any(mark in text for mark in (b"@kernel", b"@inlined", b"@in_place")):
            digest.update(path.name.encode() + b"\0" + text)
    base = os.environ.get("STANDFAST_CACHE") or Path.home() / ".cache" / "standfast"
    return Path(base) / f"kernels-{digest.hexdigest()[:16]}"


if "NUMBA_CACHE_DIR" not in os.environ:
    vars(numba.config)["CACHE_DIR"] = str(_cache_folder())


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
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))


def inlined(function: F) -> F:
    """A kernel that is compiled into its callers: for the few steps inside a hot loop."""
    compiled = numba.njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
    return cast(F, compiled(function))


def in_place(function: F) -> F:
    """An inlined kernel that neither makes an array nor gives one back.

    Numba counts who refers to an array at every call, at several times the price of a small step;
    here nobody needs to, since the caller holds on to all of them. A function that gave an array
    back would be wrong: nobody would have counted it.
    """
    uncounted: dict[str, Any] = {"_nrt": False}
    compiled = numba.njit(
        cache=True, nogil=True, error_model="numpy", forceinline=True, **uncounted
    )
    return cast(F, compiled(function))
