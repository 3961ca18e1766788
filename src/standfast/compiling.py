"""Kernels compiled ahead, on all cores: whoever starts later finds them in the cache.

    data/kernels.json      a kernel and the types of its arguments, the longest to compile first
          |
    a process on each core takes one after the other; kernels that several need are compiled by one

A process compiles one kernel at a time, so that a job that begins with an empty cache works on one
core for two minutes. A kernel that the list lacks is compiled when it is first called, as ever; one
that it has for nothing costs a second, once. `make kernels` writes the list.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import types as numba_types
from numba.np import numpy_support

types: Any = numba_types  # which says nothing of what it has

LIST = Path(__file__).parent / "data" / "kernels.json"
PACKAGE = "standfast"

Entry = dict[str, Any]  # "kernel": module and name; "takes": the types of its arguments
Progress = Callable[[int, int], None]  # kernels that are there, of how many


def entries() -> list[Entry]:
    """The kernels that jobs usually need."""
    listed: list[Entry] = json.loads(LIST.read_text())
    return listed


def compile_ahead(
    listed: list[Entry], processes: int, progress: Progress = lambda done, of: None
) -> list[str]:
    """Have these kernels in the cache; gives back what could not be compiled, and why."""
    failed = []
    # Not forked: Numba's locks and threads do not survive that.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, min(processes, len(listed))), context) as pool:
        waiting = {pool.submit(compile_one, entry): entry["kernel"] for entry in listed}
        for done, future in enumerate(as_completed(waiting), 1):
            if error := future.exception():
                why, _, _ = str(error).partition("\n")
                failed.append(f"{waiting[future]}: {why}")
            progress(done, len(listed))
    return failed


def compile_one(entry: Entry) -> None:
    """Compile a kernel for arguments of these types, or load it if somebody has."""
    found = find(entry["kernel"])
    if hasattr(found, "compile"):  # unless kernels run as plain Python
        found.compile(tuple(type_of(text) for text in entry["takes"]))


def find(path: str) -> Any:
    """What `module:name` of this package is."""
    module, _, name = path.partition(":")
    if module.partition(".")[0] != PACKAGE:
        raise ValueError(f"{path!r} is not of this package")
    return getattr(import_module(module), name)


def described(kernel: Any, arguments: tuple[Any, ...]) -> Entry | None:
    """The entry of a kernel that was called with such arguments; None for types of others."""
    function = kernel.py_func
    try:
        takes = [_text(argument) for argument in arguments]
    except ValueError:
        return None
    return {"kernel": f"{function.__module__}:{function.__qualname__}", "takes": takes}


def type_of(text: Any) -> Any:
    """The type that `_text` wrote."""
    if isinstance(text, dict):
        ((name, fields),) = text.items()
        members = [type_of(field) for field in fields]
        return types.BaseTuple.from_types(members, find(name) if name else None)
    words = text.split()
    plain = numba.from_dtype(np.dtype(words[0]))
    if len(words) == 1:
        return plain
    return types.Array(plain, int(words[1]), words[2], readonly="readonly" in words[3:])


def _text(kind: Any) -> Any:
    """A type as JSON: a number, an array of numbers, or a tuple of such."""
    if isinstance(kind, types.BaseNamedTuple):
        owner = kind.instance_class
        return {f"{owner.__module__}:{owner.__qualname__}": [_text(t) for t in kind.types]}
    if isinstance(kind, types.BaseTuple):
        return {"": [_text(t) for t in kind.types]}
    if isinstance(kind, types.Array) and kind.aligned:
        ending = "" if kind.mutable else " readonly"
        return f"{_text(kind.dtype)} {kind.ndim} {kind.layout}{ending}"
    if isinstance(kind, types.Number | types.Boolean) and not isinstance(kind, types.Literal):
        return str(numpy_support.as_dtype(kind))
    raise ValueError(f"no text for {kind}")


def main() -> None:
    """Compile ahead what is listed; for the set-up, which has no command line yet."""
    begin = time.perf_counter()

    def tell(done: int, of: int) -> None:
        if done % 20 == 0 or done == of:
            took = time.perf_counter() - begin
            sys.stderr.write(f"kernels compiled ahead: {done} of {of}, {took:.0f} s\n")

    if failed := compile_ahead(entries(), os.cpu_count() or 1, tell):
        sys.exit(f"{len(failed)} kernels cannot be compiled, the first of them {failed[0]}")


if __name__ == "__main__":
    main()
