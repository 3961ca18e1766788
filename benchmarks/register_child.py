"""One registration measured in a process of its own, so that only its memory is seen.

python -m benchmarks.register_child QUESTION N time | trace

prints one line of JSON: seconds to register, answer the first event, save and restore, and bytes
per query, by the process's size or by the allocators' own books (which slows everything down).
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.clock import seconds
from standfast import Engine
from standfast.workloads import DOMAIN, Ranges, bands_in_groups, filters

TEMPLATES = {
    "band_join": "SELECT * FROM supply s JOIN demand d ON d.b - s.b BETWEEN :lo AND :hi",
    "filter": "SELECT * FROM supply WHERE b BETWEEN :lo AND :hi",
}
PARAMETER_BYTES = 16  # two float64 holes
EVENT = {"b": np.array([DOMAIN / 2])}


def bands(question: str, n: int) -> Ranges:
    """Queries of the size that the other bars have."""
    return bands_in_groups(n, 70, seed=140) if question == "band_join" else filters(n, 10, seed=141)


def prepared(question: str) -> Engine:
    """An engine with one stored row and the template, compiled by a few queries in another."""
    engine = Engine()
    for name in ("supply", "demand"):
        engine.stream(name, {"b": "float64"})
    engine.register(TEMPLATES[question], name="queries")
    engine.push("demand", EVENT)
    return engine


def warm_up(question: str, folder: Path) -> None:
    """Compile everything that the measured part runs."""
    engine, few = prepared(question), bands(question, 100)
    engine.groups["queries"].add({"lo": few.lows, "hi": few.highs})
    engine.push("supply", EVENT)["queries"].pairs()
    engine.snapshot(folder / "few")
    Engine.restore(folder / "few").push("supply", EVENT)["queries"].pairs()


def held_bytes(*, trace: bool) -> int:
    """What this process holds now, after the allocators gave back what is free."""
    gc.collect()
    if trace:
        return tracemalloc.get_traced_memory()[0] + int(pa.total_allocated_bytes())
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def measure(question: str, n: int, *, trace: bool) -> dict[str, float]:
    """Register n queries in one call, answer an event, save and restore."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        warm_up(question, folder)
        engine, many = prepared(question), bands(question, n)
        parameters = {"lo": many.lows, "hi": many.highs}
        if trace:
            tracemalloc.start()
        before = held_bytes(trace=trace)
        registered, ids = seconds(engine.groups["queries"].add, parameters)
        assert len(ids) == n, "a query was not registered"
        del ids
        answered, affected = seconds(_affected, engine)
        n_bytes = (held_bytes(trace=trace) - before) / n
        saved, _ = seconds(engine.snapshot, folder / "many")
        restored, again = seconds(Engine.restore, folder / "many")
        reanswered, affected_again = seconds(_affected, again)
        assert affected == affected_again, "the restored engine answers differently"
        return {
            "registered": registered, "answered": answered, "saved": saved, "restored": restored,
            "reanswered": reanswered, "bytes": n_bytes - PARAMETER_BYTES,
            "file_bytes": (folder / "many").stat().st_size / n, "affected": len(affected),
        }  # fmt: skip


def _affected(engine: Engine) -> list[int]:
    """The queries that one more event affects."""
    return sorted(engine.push("supply", EVENT)["queries"].pairs()["query"].to_pylist())


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), trace=sys.argv[3] == "trace")))
