"""What Spark keeps of a shard: a snapshot, a log of the micro-batches after it, and a meta row.

    entries   0 .. 11          12        13        14            numbers only ever grow
              snapshot         log       log       log
              (pieces of 1 MB)  of one micro-batch each
    meta      version 15, nonce, base 0, first log entry 12, next 15, sizes, digest of the job

Each entry and the meta row are sealed: a damaged one is refused, whatever Spark's own files say.

A shard alive in a host is used when its version and nonce are those of the meta row. The nonce
tells apart two attempts at the same version: only the one that Spark committed counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from standfast.errors import StandfastError
from standfast.spark.brief import Brief
from standfast.spark.wire import AFRESH, sealed, unsealed

PIECE = 1 << 20
# The log may grow to this part of the snapshot, and to this many entries, before a new snapshot.
LOG_SHARE, LOG_LEAST, LOG_ENTRIES = 2, 4 << 20, 1000


class Cells(Protocol):
    """What Spark's state offers, by key."""

    def meta(self) -> bytes | None: ...
    def write_meta(self, data: bytes) -> None: ...
    def entry(self, number: int, piece: int) -> bytes: ...
    def write_entry(self, number: int, piece: int, data: bytes) -> None: ...
    def remove_entry(self, number: int, piece: int) -> None: ...


class WrongState(StandfastError):
    """A checkpoint that belongs to another job."""


@dataclass(frozen=True, slots=True)
class Meta:
    """The meta row. `pieces` has the number of pieces of every entry, the snapshot's first."""

    digest: str
    n_shards: int
    version: int = 0
    nonce: str = ""
    first: int = 0  # number of the snapshot's entry
    pieces: tuple[int, ...] = ()
    base_bytes: int = 0
    log_bytes: int = 0


def read_meta(cells: Cells, brief: Brief) -> Meta:
    """The meta row of a shard; that of a new one if there is none yet."""
    data = cells.meta()
    if data is None:
        return Meta(brief.digest, brief.n_shards)
    known = json.loads(unsealed(data, "the meta row of a shard"))
    meta = Meta(**known | {"pieces": tuple(known["pieces"])})
    if meta.n_shards != brief.n_shards:
        raise WrongState(
            f"the checkpoint was written with {meta.n_shards} shards, the job has {brief.n_shards}",
            hint=f"go on with shards = {meta.n_shards}, or {AFRESH}",
        )
    if meta.digest != brief.digest:
        raise WrongState(
            "the checkpoint was written by a job with other inputs or templates, or another "
            "watermark, or by an earlier version that dealt its rows otherwise",
            hint="go on with the same inputs and templates in the same order, the same watermark, "
            f"and with windows in the same form of output, or {AFRESH}",
        )
    return meta


def entries(cells: Cells, meta: Meta) -> Iterator[bytes]:
    """The snapshot, then the log, one micro-batch after the other."""
    for i, n_pieces in enumerate(meta.pieces):
        number = meta.first + i
        data = b"".join(cells.entry(number, piece) for piece in range(n_pieces))
        yield unsealed(data, f"entry {number} in the state of a shard")


def is_snapshot_due(meta: Meta, n_bytes: int) -> bool:
    """Whether a snapshot should be written instead of one more log entry of this size."""
    grown = meta.log_bytes + n_bytes > max(LOG_LEAST, meta.base_bytes // LOG_SHARE)
    return not meta.pieces or grown or len(meta.pieces) > LOG_ENTRIES


def write_log(cells: Cells, meta: Meta, data: bytes, nonce: str) -> Meta:
    """Append a micro-batch to the log, if it left anything behind."""
    pieces = meta.pieces
    if data:
        pieces += (_write(cells, meta.first + len(meta.pieces), data),)
    new = replace(
        meta, version=meta.version + 1, nonce=nonce, pieces=pieces,
        log_bytes=meta.log_bytes + len(data),
    )  # fmt: skip
    _write_meta(cells, new)
    return new


def write_snapshot(cells: Cells, meta: Meta, data: bytes, nonce: str) -> Meta:
    """Put a snapshot in place of everything before."""
    for i, n_pieces in enumerate(meta.pieces):
        for piece in range(n_pieces):
            cells.remove_entry(meta.first + i, piece)
    number = meta.first + len(meta.pieces)
    n_pieces = _write(cells, number, data)
    new = replace(
        meta, version=meta.version + 1, nonce=nonce, first=number, pieces=(n_pieces,),
        base_bytes=len(data), log_bytes=0,
    )  # fmt: skip
    _write_meta(cells, new)
    return new


def _write_meta(cells: Cells, meta: Meta) -> None:
    cells.write_meta(sealed(json.dumps(asdict(meta)).encode()))


def _write(cells: Cells, number: int, data: bytes) -> int:
    data = sealed(data)
    n_pieces = -(-len(data) // PIECE)
    for piece in range(n_pieces):
        cells.write_entry(number, piece, data[piece * PIECE : (piece + 1) * PIECE])
    return n_pieces
