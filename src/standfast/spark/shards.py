"""Who answers what: templates fall into parts, and each part deals its rows to the shards.

    deal      questions                        a row is stored on     and answered on
    rows      filters of streams               none                   one shard
    keys      equality joins, tables by key    the slices of a bucket one of them
    events    band joins, everything else      all shards             one of them
    windows   aggregates, thresholds per key   the slices of a bucket all, each for its queries

Shards form a grid of buckets and slices. The bucket of a row follows from its key, the slice from
where it stands, so a key that has most of the rows still keeps all slices of its bucket busy.
Queries are on every shard: a shard that holds a tenth of them needs nearly as long for an event,
because the groups are as many (decision 013). Windows are answered once, at the end of a
micro-batch, and there a tenth of the queries is a tenth of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from standfast.engine.sharing import Share
from standfast.model.query import Kind
from standfast.model.stream import Input

Deal = Literal["rows", "keys", "events", "windows"]
Int64s = npt.NDArray[np.int64]
_MIX = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
MOST_SHARDS = 4096
# Of Murmur3, as Spark uses it.
_SEED, _MASK = 42, 0xFFFFFFFF
_ROUND, _FINAL = (0xCC9E2D51, 0x1B873593, 0xE6546B64), (0x85EBCA6B, 0xC2B2AE35)


@dataclass(frozen=True, slots=True)
class Part:
    """Templates whose rows are dealt the same way; `keys` are the columns that make the bucket.

    Rows of `forgone` inputs are stored nowhere: all that they join with was there before them.
    Of `noted` inputs each shard is told the ids of rows in other buckets: one that comes again with
    another key is known there.
    """

    deal: Deal
    templates: tuple[str, ...]
    inputs: tuple[str, ...]
    keys: Mapping[str, tuple[str, ...]]
    forgone: tuple[str, ...] = ()
    noted: tuple[str, ...] = ()

    def stores(self, name: str) -> bool:
        """Whether rows of an input are kept on all slices of their bucket."""
        return self.deal != "rows" and name not in self.forgone


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a job and its grid of shards."""

    n_shards: int
    parts: tuple[Part, ...]

    def grid(self, part: Part) -> tuple[int, int]:
        """How many buckets and slices a part has."""
        slices = _slices(self.n_shards) if part.keys else self.n_shards
        return self.n_shards // slices, slices

    def share(self, part: Part, shard: int) -> Share:
        """The queries that a shard tells of, of windows."""
        slices = self.grid(part)[1]
        return Share(shard % slices, slices)

    def counter(self, name: str) -> int:
        """The part that counts the rows of an input: the first that reads it."""
        return next(i for i, part in enumerate(self.parts) if name in part.inputs)

    def lines(self) -> Iterator[str]:
        """What `explain` says about it."""
        yield _many(self.n_shards, "shard")
        for part in self.parts:
            buckets, slices = self.grid(part)
            keys = ", ".join(f"{name}.{'+'.join(key)}" for name, key in part.keys.items())
            cut = f"{_many(buckets, 'bucket')} by {keys}, {_many(slices, 'slice')} each"
            how = {
                "rows": "each row on one shard, nothing stored",
                "keys": f"{cut}; stored on all slices of a bucket, answered on one",
                "events": "stored on every shard, answered on one",
                "windows": f"{cut}; stored on all slices of a bucket, each answers for its share "
                "of the queries"
                if keys
                else "stored on every shard, each answers for its share of the queries",
            }[part.deal]
            if part.forgone:
                how += f"; of {', '.join(part.forgone)} nothing, as the other side does not grow"
            if part.noted:
                how += f"; ids of {', '.join(part.noted)} told to all buckets"
            yield f"{', '.join(part.templates)}: {how}; all queries on every shard"


def _many(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _slices(n_shards: int) -> int:
    """The fewest slices of a bucket, above one, that fill the grid."""
    return next((n for n in range(2, n_shards + 1) if n_shards % n == 0), 1)


def places(plan: Plan, part: Part, source: Input, rows: pa.Table) -> tuple[Int64s, Int64s]:
    """The bucket and the slice of each row."""
    buckets, slices = plan.grid(part)
    n = rows.num_rows
    bucket = np.zeros(n, np.int64)
    if buckets > 1:
        codes = np.zeros(n, np.uint64)
        for name in part.keys[source.name]:
            codes = mixed(codes ^ hashed(rows[name], source.columns[name]))
        bucket = (codes % np.uint64(buckets)).astype(np.int64)
    if not part.stores(source.name) and source.id is not None:
        # An event that comes again must meet the shard that knows it.
        slice_ = mixed(hashed(rows[source.id], source.columns[source.id])) % np.uint64(slices)
        return bucket, slice_.astype(np.int64)
    return bucket, np.arange(n) * slices // max(n, 1)


def hashed(column: pa.ChunkedArray, kind: Kind) -> npt.NDArray[np.uint64]:
    """A number for each value, the same for equal values on every machine; 0 for null."""
    if kind == "string":
        import pandas as pd  # here, because a host of a shard never needs it

        # As bytes, because not all that Spark calls a string is text; a door will say so.
        values = column.combine_chunks().cast(pa.binary()).fill_null(b"")
        values = values.to_numpy(zero_copy_only=False)
        return np.asarray(pd.util.hash_array(values.astype(object)), np.uint64)
    if kind == "float64":
        numbers = pc.fill_null(column, 0.0).to_numpy() + 0.0  # one zero
        numbers = np.where(np.isnan(numbers), 0.0, numbers)
        return np.ascontiguousarray(numbers).view(np.uint64)
    numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    return np.ascontiguousarray(numbers, np.int64).view(np.uint64)


def mixed(codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Spread numbers over all of uint64, neighbours far apart."""
    first, second, third = (np.uint64(m) for m in _MIX)
    codes = codes + first
    codes = (codes ^ (codes >> np.uint64(30))) * second
    codes = (codes ^ (codes >> np.uint64(27))) * third
    spread: npt.NDArray[np.uint64] = codes ^ (codes >> np.uint64(31))
    return spread


def shard_keys(n_shards: int) -> list[int]:
    """A number for each shard that Spark hashes to 0, 1, 2, ...

    So shards are spread evenly over partitions, however many there are, and a shard keeps its
    number when a job goes on with other partitions.
    """
    return [_hashed_to(i) for i in range(n_shards)]


def spark_hash(value: int) -> int:
    """How Spark hashes an int column: Murmur3 with 32 bits and the seed 42."""
    k = _turned(value * _ROUND[0], 15) * _ROUND[1] & _MASK
    h = (_turned(_SEED ^ k, 13) * 5 + _ROUND[2] & _MASK) ^ 4
    h = (h ^ h >> 16) * _FINAL[0] & _MASK
    h = (h ^ h >> 13) * _FINAL[1] & _MASK
    return _signed(h ^ h >> 16)


def _hashed_to(code: int) -> int:
    """The only int that `spark_hash` takes to this one: its steps backwards."""
    h = code & _MASK
    h = (h ^ h >> 16) * _inverse(_FINAL[1]) & _MASK
    h = (h ^ h >> 13 ^ h >> 26) * _inverse(_FINAL[0]) & _MASK
    h ^= h >> 16 ^ 4
    k = _SEED ^ _turned((h - _ROUND[2]) * _inverse(5), 32 - 13)
    return _signed(_turned(k * _inverse(_ROUND[1]), 32 - 15) * _inverse(_ROUND[0]) & _MASK)


def _turned(x: int, by: int) -> int:
    """The lowest 32 bits, turned to the left."""
    x &= _MASK
    return (x << by | x >> (32 - by)) & _MASK


def _inverse(factor: int) -> int:
    """What undoes multiplying with an odd number in 32 bits."""
    return pow(factor, -1, _MASK + 1)


def _signed(x: int) -> int:
    return x - (1 << 32) if x >= 1 << 31 else x
