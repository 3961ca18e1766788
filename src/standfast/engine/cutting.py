"""Cuts what is to be enumerated into pieces of bounded size, so that memory is bounded by a piece.

counts   3 1 0 5 2 2    at most 4 at once:   [3 1 0] [5] [2 2]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from standfast.arrays import Int32s, Int64s, SpanList, expand

# Bytes of text that are written out at once; one array of Arrow holds less than 2^31 of them, and
# a job on Spark moves each piece through Java, which has a gigabyte unless it is given more.
TEXT_AT_ONCE = 1 << 23


def cuts(counts: Int64s, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of places that hold at most so many together; one that holds more is alone."""
    ends, first, before = np.cumsum(counts), 0, 0
    while first < counts.size:
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, last
        first, before = last, int(ends[last - 1])


def text_cuts(sizes: Int64s) -> Iterator[tuple[int, int]]:
    """Ranges of rows that are written out together, by how much text each of them has."""
    return cuts(sizes, TEXT_AT_ONCE)


def fitting(widest: int) -> int:
    """How many rows are written out together that have at most so many bytes of text each."""
    return max(1, TEXT_AT_ONCE // max(1, widest))


def text_bytes(rows: pa.Table, places: Int64s) -> Int64s:
    """How many bytes of text the rows at these places have; a row may be named many times."""
    found = np.zeros(places.size, np.int64)
    for column in rows.columns:
        if not pa.types.is_string(column.type):
            continue
        first = 0
        for chunk in column.chunks:
            inside = (places >= first) & (places < first + len(chunk))
            if inside.any():
                ends = np.frombuffer(chunk.buffers()[1], np.int32)[chunk.offset :]
                at = places[inside] - first
                found[inside] += ends[at + 1] - ends[at]
            first += len(chunk)
    return found


def entries(starts: Int64s, counts: Int64s, most: int) -> Iterator[tuple[Int64s, Int64s]]:
    """The entries of slices, so many at a time: which slice each is of, and where it stands."""
    ends = np.cumsum(counts)
    for first in range(0, int(ends[-1]) if ends.size else 0, most):
        last = min(first + most, int(ends[-1]))
        of = np.arange(np.searchsorted(ends, first, "right"), np.searchsorted(ends, last) + 1)
        skipped = np.maximum(first - (ends[of] - counts[of]), 0)
        own = np.minimum(ends[of], last) - (ends[of] - counts[of]) - skipped
        yield np.repeat(of, own), expand(starts[of] + skipped, own)


def shorter(starts: Int64s, stops: Int64s, long: Int64s, most: int) -> tuple[Int64s, ...]:
    """Slices of which those at the places `long` are cut: which slice each is of, start, stop."""
    n_parts = np.ones(starts.size, np.int64)
    n_parts[long] = -(-(stops[long] - starts[long]) // most)
    of = np.repeat(np.arange(starts.size), n_parts)
    firsts = starts[of] + most * (
        np.arange(of.size) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    )
    return of, firsts, np.where(n_parts[of] > 1, np.minimum(stops[of], firsts + most), stops[of])


def slots_of(spans: SpanList, most: int) -> Iterator[Int32s]:
    """The living slots of all spans, at most so many at a time."""
    bases = np.cumsum([0, *(slots.size for slots, _ in spans.pieces)])
    waiting: list[Int32s] = []
    n_waiting = 0
    for start, stop, floor in zip(spans.starts, spans.stops, spans.floors, strict=True):
        piece = int(np.searchsorted(bases, start, side="right")) - 1
        slots, ranks = spans.pieces[min(piece, len(spans.pieces) - 1)]
        for first in range(start - bases[piece], stop - bases[piece], most):
            last = min(first + most, stop - bases[piece])
            some = slots[first:last]
            counts = some >= 0 if ranks is None else (some >= 0) & (ranks[first:last] >= floor)
            some = some[counts]
            if n_waiting + some.size > most:
                yield np.concatenate(waiting)
                waiting, n_waiting = [], 0
            waiting.append(some)
            n_waiting += some.size
    if n_waiting:
        yield np.concatenate(waiting)
