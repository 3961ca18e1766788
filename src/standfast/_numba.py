"""The `kernel` decorator: compiled once, cached on disk, free of the interpreter lock.

The cache folder carries a hash of every module of the package that holds kernels, because numba
notices a change in a kernel's own file but not in a kernel that it calls from another file.
`NUMBA_DISABLE_JIT=1` turns every kernel back into plain Python (the suite runs that way too).
"""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def _cache_folder() -> Path:
    """Where compiled kernels of exactly this source are kept."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        text = path.read_bytes()
        if b"@kernel" in text:
            digest.update(path.name.encode() + b"\0" + text)
    base = os.environ.get("STANDFAST_CACHE") or Path.home() / ".cache" / "standfast"
    return Path(base) / f"kernels-{digest.hexdigest()[:16]}"


if "NUMBA_CACHE_DIR" not in os.environ:
    vars(numba.config)["CACHE_DIR"] = str(_cache_folder())


def kernel(function: F) -> F:
    """Compile `function` on first use; no Python objects, no interpreter lock, cached on disk."""
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
