"""The door of an input: every row that comes is used or not, and counted as what it is.

    received = used + late + duplicate + rejected        exactly, at all times

Late is a row whose time is more than the stream's lateness behind the latest time before it, row
by row, so that cutting the rows into other batches changes nothing. A door that *follows* takes the
latest time from `advance` alone. A time too far ahead of the clock is rejected, so that one wrong
clock cannot make everybody else late. Duplicate is a row in time whose id is that of a used row
which would not be late now. Rows that are not used are kept as dead letters until they are taken.

Where the rows of a stream are dealt to several engines, each is told of those that it does not get:
their ids count as used from where they stand among its own rows, and that is all (`Noted`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.engine.identities import EVER, Identities, Noted
from standfast.model.rows import AHEAD_US, Rejection, read_rows
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

Mask = npt.NDArray[np.bool_]


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
    duplicate: int = 0
    rejected: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, n: int) -> None:
        """Count rows that are not used."""
        if reason == "late":
            self.late += n
        elif reason == "duplicate":
            self.duplicate += n
        else:
            self.rejected[reason] = self.rejected.get(reason, 0) + n

    def rows(self) -> dict[str, int]:
        """What became of all rows: the first is the sum of the others."""
        return {
            "received": self.received,
            "used": self.used,
            "late": self.late,
            "duplicate": self.duplicate,
            "rejected": sum(self.rejected.values()),
        }

    def as_dict(self) -> dict[str, int | dict[str, int]]:
        """The counts by name; `reasons` splits `rejected`."""
        return {"batches": self.batches, **self.rows(), "reasons": dict(self.rejected)}


class Door:
    """Lets the rows of one input in, or keeps them as dead letters."""

    def __init__(self, source: Input, *, follows: bool = False) -> None:
        self.input = source
        self.keys = replace(source, columns={name: source.columns[name] for name in source.key})
        self.follows = follows
        self.counters = Counters()
        self.latest_us: int | None = None
        self.identities = Identities(source.columns[source.id]) if source.id else None
        self.letters: list[pa.Table] = []

    @property
    def ahead_us(self) -> int | None:
        """The time from which on rows will be let in; None if any time may still come."""
        if self.latest_us is None or self.input.lateness_us is None:
            return None
        return self.latest_us - self.input.lateness_us

    def advance(self, time_us: int) -> None:
        """The latest time is at least this one, whatever rows say."""
        self.latest_us = time_us if self.latest_us is None else max(self.latest_us, time_us)
        if self.identities is not None and self.ahead_us is not None:
            self.identities.forget(self.ahead_us)

    def dead_letters(self) -> pa.Table:
        """The rows that were not used, by batch and row."""
        tables = [DEAD_LETTERS.empty_table(), *self.letters]
        return pa.concat_tables(tables).sort_by([("batch", "ascending"), ("row", "ascending")])

    def admit(self, rows: object, now_us: int, noted: Noted | None = None) -> Batch:
        """Read a batch; rows that are bad, late or known stay outside and are counted.

        Of `noted` rows the ids are remembered, if they are in time.
        """
        batch = self._read(self.input, rows)
        if self.input.id and batch.rows.num_rows:
            missing = batch.rows[self.input.id].is_null().to_numpy()
            batch = self._keep_out(batch, missing, "null id", self.input.id)
        if self.input.time and batch.rows.num_rows:
            ahead = self._times(batch) > now_us + AHEAD_US
            batch = self._keep_out(batch, ahead, "far future", self.input.time)
        oldest = np.empty(0, np.int64)
        if batch.rows.num_rows:
            batch, oldest = self._in_time(batch)
        batch = self._once(batch, oldest, noted)
        self.counters.used += batch.places.size
        return batch

    def admit_keys(self, rows: object) -> Batch:
        """Read a batch that names rows of a table by their key columns only."""
        batch = self._read(self.keys, rows)
        self.counters.used += batch.places.size
        return batch

    def reject(self, places: Int64s, reason: str, column: str, values: list[str]) -> None:
        """Take back rows that were let in but turned out to be of no use."""
        self.counters.used -= places.size
        self._refuse(places, reason, column, values)

    def memory_bytes(self) -> int:
        """What the ids of used rows take."""
        return 0 if self.identities is None else self.identities.memory_bytes()

    def _read(self, declared: Input, rows: object) -> Batch:
        intake = read_rows(declared, rows)
        n_rows = intake.kept.size + len(intake.rejected)
        self.counters.batches += 1
        self.counters.received += n_rows
        together: dict[tuple[str, str], list[Rejection]] = {}
        for rejection in intake.rejected:
            together.setdefault((rejection.reason, rejection.column), []).append(rejection)
        for (reason, column), some in together.items():
            places = np.array([r.position for r in some])
            self._refuse(places, reason, column, [r.value for r in some])
        return Batch(intake.table, intake.kept, n_rows)

    def _in_time(self, batch: Batch) -> tuple[Batch, Int64s]:
        """The rows that are not late, and the oldest time that is not late at each of them."""
        name, lateness_us = self.input.time, self.input.lateness_us
        if name is None:
            return batch, np.full(batch.places.size, EVER)
        times = self._times(batch)
        before = self._latest_before(times)
        if lateness_us is None:
            return batch, np.full(batch.places.size, EVER)
        oldest = before - lateness_us
        late = times < oldest
        return self._keep_out(batch, late, "late", name), oldest[~late]

    def _latest_before(self, times: Int64s) -> Int64s:
        """The latest time before each row; rows move it on, unless the door follows."""
        known = 0 if self.latest_us is None else self.latest_us
        if self.follows:
            return np.full(times.size, known)
        latest = np.maximum(np.maximum.accumulate(times), known)
        self.latest_us = int(latest[-1])
        return np.concatenate([[known], latest[:-1]])

    def _once(self, batch: Batch, oldest: Int64s, noted: Noted | None) -> Batch:
        """The rows whose ids are new."""
        name, n = self.input.id, batch.places.size
        if self.identities is None or name is None or (noted is None and not n):
            return batch
        ids = batch.rows[name]
        times = self._times(batch) if self.input.time else np.zeros(n, np.int64)
        if noted is None:
            new = self.identities.first_uses(ids, times, oldest)
        else:
            least = EVER if self.ahead_us is None else self.ahead_us  # for all rows: it follows
            own = Noted(ids, times, batch.places)
            new = self.identities.first_among(own, noted.since(least), least)
        return self._keep_out(batch, ~new, "duplicate", name)

    def _times(self, batch: Batch) -> Int64s:
        times: Int64s = batch.rows[self.input.time].cast(pa.int64()).to_numpy()
        return times

    def _keep_out(self, batch: Batch, unwanted: Mask, reason: str, column: str) -> Batch:
        """The other rows; these are counted and become dead letters."""
        if not unwanted.any():
            return batch
        values = batch.rows[column].filter(pa.array(unwanted)).to_pylist()
        self._refuse(batch.places[unwanted], reason, column, [str(value) for value in values])
        wanted = ~unwanted
        return Batch(batch.rows.filter(pa.array(wanted)), batch.places[wanted], batch.n_rows)

    def _refuse(self, places: Int64s, reason: str, column: str, values: list[str]) -> None:
        self._write(places, reason, column, values)
        self.counters.add(reason, places.size)

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
