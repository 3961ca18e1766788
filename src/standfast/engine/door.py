"""The door of an input: every row that comes is used, late or rejected, and counted as such.

    received = used + late + rejected        exactly, at all times

Late is a row whose time is more than the stream's lateness behind the latest time before it, row
by row, so that cutting the rows into other batches changes nothing. A time too far ahead of the
clock is rejected, so that one wrong clock cannot make everybody else late. Rows that are not used
are kept as dead letters until they are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.model.rows import Rejection, read_rows
from standfast.model.stream import Input

DEAD_LETTERS = pa.schema(
    [
        ("input", pa.string()),
        ("batch", pa.int64()),
        ("row", pa.int64()),
        ("reason", pa.string()),
        ("column", pa.string()),
        ("value", pa.string()),
    ]
)
# Tables of dead letters held one by one before they are put together.
FEW_LETTERS = 64
# How far ahead of the clock a time may lie: five minutes.
AHEAD_US = 300_000_000


class Batch(NamedTuple):
    """Rows that passed the door: row i of `rows` was row `places[i]` of `n_rows` pushed ones."""

    rows: pa.Table
    places: Int64s
    n_rows: int


@dataclass(slots=True)
class Counters:
    """What became of the rows of one input."""

    batches: int = 0
    received: int = 0
    used: int = 0
    late: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        """The counts by name; `reasons` splits `rejected`."""
        return {
            "batches": self.batches,
            "received": self.received,
            "used": self.used,
            "late": self.late,
            "rejected": sum(self.rejected.values()),
            "reasons": dict(self.rejected),
        }


class Door:
    """Lets the rows of one input in, or keeps them as dead letters."""

    def __init__(self, source: Input) -> None:
        self.input = source
        self.keys = replace(source, columns={name: source.columns[name] for name in source.key})
        self.counters = Counters()
        self.latest_us: int | None = None
        self.letters: list[pa.Table] = []

    @property
    def ahead_us(self) -> int | None:
        """The time from which on rows will be let in; None if any time may still come."""
        if self.latest_us is None or self.input.lateness_us is None:
            return None
        return self.latest_us - self.input.lateness_us

    def dead_letters(self) -> pa.Table:
        """The rows that were not used, by batch and row."""
        tables = [DEAD_LETTERS.empty_table(), *self.letters]
        return pa.concat_tables(tables).sort_by([("batch", "ascending"), ("row", "ascending")])

    def admit(self, rows: object, now_us: int) -> Batch:
        """Read a batch; bad and late rows stay outside and are counted."""
        return self._admit(self.input, rows, now_us)

    def admit_keys(self, rows: object, now_us: int) -> Batch:
        """Read a batch that names rows of a table by their key columns only."""
        return self._admit(self.keys, rows, now_us)

    def _admit(self, declared: Input, rows: object, now_us: int) -> Batch:
        intake = read_rows(declared, rows)
        n_rows = intake.kept.size + len(intake.rejected)
        self.counters.batches += 1
        self.counters.received += n_rows
        together: dict[tuple[str, str], list[Rejection]] = {}
        for rejection in intake.rejected:
            together.setdefault((rejection.reason, rejection.column), []).append(rejection)
        for (reason, column), some in together.items():
            self._reject(
                np.array([r.position for r in some]), reason, column, [r.value for r in some]
            )
        table, places = self._in_time(intake.table, intake.kept, now_us)
        self.counters.used += places.size
        return Batch(table, places, n_rows)

    def reject(self, places: Int64s, reason: str, column: str, values: list[str]) -> None:
        """Take back rows that were let in but turned out to be of no use."""
        self.counters.used -= places.size
        self._reject(places, reason, column, values)

    def _reject(self, places: Int64s, reason: str, column: str, values: list[str]) -> None:
        self._write(places, reason, column, values)
        self.counters.rejected[reason] = self.counters.rejected.get(reason, 0) + places.size

    def _in_time(self, table: pa.Table, places: Int64s, now_us: int) -> tuple[pa.Table, Int64s]:
        name = self.input.time
        if name is None or places.size == 0:
            return table, places
        times = table[name].cast(pa.int64()).to_numpy()
        ahead = times > now_us + AHEAD_US
        if ahead.any():
            self._reject(places[ahead], "far future", name, _texts(table[name], ahead))
            table, places, times = table.filter(~ahead), places[~ahead], times[~ahead]
        if places.size == 0:
            return table, places
        latest = np.maximum.accumulate(times)
        if self.latest_us is not None:
            latest = np.maximum(latest, self.latest_us)
        before = np.concatenate(
            [[self.latest_us if self.latest_us is not None else 0], latest[:-1]]
        )
        self.latest_us = int(latest[-1])
        if self.input.lateness_us is None:
            return table, places
        late = times < before - self.input.lateness_us
        if late.any():
            self._write(places[late], "late", name, _texts(table[name], late))
            self.counters.late += int(np.count_nonzero(late))
            table, places = table.filter(~late), places[~late]
        return table, places

    def _write(self, places: Int64s, reason: str, column: str, values: list[str]) -> None:
        n = places.size
        columns = [
            pa.repeat(self.input.name, n), pa.repeat(self.counters.batches - 1, n),
            pa.array(places), pa.repeat(reason, n), pa.repeat(column, n),
            pa.array(values, pa.string()),
        ]  # fmt: skip
        self.letters.append(pa.Table.from_arrays(columns, schema=DEAD_LETTERS))
        if len(self.letters) > FEW_LETTERS:
            self.letters = [pa.concat_tables(self.letters).combine_chunks()]


def _texts(column: pa.ChunkedArray, mask: np.ndarray) -> list[str]:
    return [str(value) for value in column.filter(pa.array(mask)).to_pylist()]
