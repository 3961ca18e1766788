"""One step of spark_restart in a process of its own: `fill` a checkpoint, or start `again`.

`again` prints the seconds from start() to the first answer, once in this new process and once more
in its session after the hosts of the shards were ended.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import band_case
from benchmarks.engine_case import TEMPLATE
from benchmarks.spark_case import (
    SETTINGS,
    Columns,
    Stream,
    band_work,
    empty,
    end_hosts,
    standing,
    write,
)
from standfast.spark.session import session
from standfast.workloads import bands_in_groups

N_GROUPS = 70
EVENTS: Columns = {"b": np.arange(16) * 625_000}
OURS, EMPTY = "standfast", "empty"


def main(step: str, folder: Path, *rest: str) -> dict[str, Any]:
    spark = session("restart", conf=SETTINGS)
    try:
        return fill(folder, int(rest[0])) if step == "fill" else again(folder, rest[0])
    finally:
        spark.stop()


def fill(folder: Path, n: int) -> dict[str, Any]:
    """Checkpoints of both jobs; ours has n queries and n rows in state."""
    write(band_work(band_case(bands_in_groups(n, N_GROUPS, seed=460), n, 16, 461)), folder / OURS)
    found: dict[str, Any] = {}
    for which in (OURS, EMPTY):
        with _stream(folder, which) as stream:
            taken = stream.take(EVENTS, n_files=1, reads=True)
        assert taken.counts is not None
        found[which] = taken.counts.tolist()
    return found


def again(folder: Path, which: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for where in ("new process", "same session"):
        stream = _stream(folder, which)
        stream.reads = True
        stream.feed.stage(EVENTS, 1)()
        begin = time.perf_counter()
        with stream:
            counts = stream.counts(EVENTS["b"].size)
            found[where] = time.perf_counter() - begin
        found[f"{where}, counts"] = counts.tolist()
        end_hosts()
    return found


def _stream(folder: Path, which: str) -> Stream:
    build = standing(TEMPLATE, folder / which) if which == OURS else empty
    return Stream(folder / which, build, EVENTS)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])))
