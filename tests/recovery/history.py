"""What the killed job works on, and what must be in its sink in the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.homes import committed, read_everything
from tests.spark.reference import Played, embedded
from tests.spark.world import DELICATE, Batch, World, draw_history, whole_world

# Every question, and every way in which rows are dealt to shards.
WORLD: World = whole_world().only(
    "filter_interval_tree", "band_routed", "select_routed", "window_routed", "word",
    "string_key", "self_select", "table_filter", "table_band",
)  # fmt: skip


def history_of(seed: int, n_batches: int) -> list[Batch]:
    """The micro-batches of a run."""
    return draw_history(WORLD, seed, n_batches=n_batches, n_rows=30, n_queries=5)


def expected(history: Sequence[Batch], shards: int) -> Played:
    """What the embedded engine says; two shards cut the rows of a micro-batch in two."""
    assert shards in (1, 2), "rows are cut into as many pieces only if there are at most two"
    return embedded(WORLD, history, pieces=dict.fromkeys(DELICATE, shards))


def found(out: Path) -> Played:
    """What a reader of the sink's folder gets, whichever of the two sinks has written it."""
    has_log = (out / "_spark_metadata").exists()
    return read_everything(WORLD, committed(out) if has_log else _whole_batches(out))


def _whole_batches(out: Path) -> pa.Table:
    """What `sinks.once` has written to its end."""
    tables = []
    for mark in sorted(out.glob("batch=*/_SUCCESS")):
        for path in sorted(mark.parent.glob("kind=*/*.parquet")):
            table = pq.ParquetFile(path).read()
            kind = path.parent.name.removeprefix("kind=")
            tables.append(table.append_column("kind", pa.repeat(kind, table.num_rows)))
    return pa.concat_tables(tables)
