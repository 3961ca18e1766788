"""A band case through the whole engine: doors, stores and Arrow answers included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.band_case import BandCase, Series
from benchmarks.clock import throughput
from benchmarks.figure import Reading
from benchmarks.peers import Int64s
from standfast import Engine

TEMPLATE = "SELECT * FROM supply s JOIN demand d ON d.b - s.b BETWEEN :lo AND :hi"


def engine_of(case: BandCase) -> Engine:
    """An engine with the stored rows and the bands of the case."""
    engine = Engine()
    for name in ("supply", "demand"):
        engine.stream(name, {"b": "int64"})
    bands = engine.register(TEMPLATE, name="bands", strategy="groups")
    engine.push("demand", {"b": case.stored})
    bands.add({"lo": case.lows, "hi": case.highs, "id": np.arange(case.n_queries)})
    return engine


def pushed() -> Series:
    """Events per second of `push`, until the compact answer is there."""

    def measure(case: BandCase) -> Iterator[Reading]:
        engine = engine_of(case)
        timed = throughput(
            lambda events: engine.push("supply", {"b": events})["bands"],
            case.events, case.n_checked,
        )  # fmt: skip
        yield Reading(timed.rate, case.answer(_ids_of_spans(timed.output.spans(), case.n_checked)))

    return measure


def pushed_pairs() -> Series:
    """Events per second of `push` and `pairs`, until the Arrow table is there."""

    def measure(case: BandCase) -> Iterator[Reading]:
        engine = engine_of(case)
        timed = throughput(
            lambda events: engine.push("supply", {"b": events})["bands"].pairs(),
            case.events, case.n_checked,
        )  # fmt: skip
        rows, queries = (timed.output[name].to_numpy() for name in ("row", "query"))
        yield Reading(timed.rate, case.answer(lambda e: queries[rows == e]))

    return measure


def _ids_of_spans(found: Any, n_checked: int) -> Callable[[int], Int64s]:
    """The queries of a row, read from the spans that the engine hands out."""
    order, rank = found.order.to_numpy(zero_copy_only=False), found.rank.to_numpy()
    row, start, stop, floor = (
        found.spans[name].to_numpy() for name in ("row", "start", "stop", "floor")
    )
    places = {e: np.flatnonzero(row == e) for e in range(n_checked)}

    def ids(event: int) -> Int64s:
        parts = [
            order[start[i] : stop[i]][rank[start[i] : stop[i]] >= floor[i]] for i in places[event]
        ]
        return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)

    return ids
