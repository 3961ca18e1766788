"""What the killed job works on, and what must be in its sink in the end.

A driver that dies after its sources have noted new files, and before the micro-batch is planned,
leaves them to a micro-batch that takes the files after them, too. So what is expected follows from
the files that each micro-batch had in the end, as the checkpoint tells.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.homes import committed, read_everything
from tests.spark.reference import Embedded, Played, embedded
from tests.spark.world import DELICATE, QUERIES, Batch, World, draw_history, whole_world

# Every question, and every way in which rows are dealt to shards.
WORLD: World = whole_world().only(
    "filter_interval_tree", "band_routed", "select_routed", "window_routed", "word",
    "string_key", "self_select", "table_filter", "table_band", "aggregate_routed",
    "threshold_collective_index", "last_rows",
)  # fmt: skip
FORM = "rows"  # so that what is told of windows can be added up
OPEN_BYTES = 4 << 20  # what Spark reckons for opening a file
TASKS = 2  # that it has at once

Files = dict[str, list[Path]]


def history_of(seed: int, n_batches: int) -> list[Batch]:
    """The micro-batches of a run."""
    return draw_history(WORLD, seed, n_batches=n_batches, n_rows=30, n_queries=5)


def expected(history: Sequence[Batch], shards: int) -> Played:
    """What the embedded engine says to micro-batches as they were drawn."""
    return embedded(WORLD, history, FORM, _pieces(shards))


def expected_of(files: Sequence[Files], shards: int) -> Embedded:
    """The embedded engine, which has said what it says to the files of each micro-batch."""
    home = Embedded(WORLD, FORM, _pieces(shards))
    for number, taken in enumerate(files):
        found = {
            name: [pa.concat_tables(map(pq.read_table, task)) for task in tasks_of(paths)]
            for name, paths in taken.items()
        }
        changes = [row for table in found[QUERIES] for row in table.to_pylist()]
        home.play_tasks(changes, found, number)
    return home


def _pieces(shards: int) -> dict[str, int]:
    """Two shards cut the rows of a micro-batch in two."""
    assert shards in (1, 2), "rows are cut into as many pieces only if there are at most two"
    return dict.fromkeys(DELICATE, shards)


def files_of(checkpoint: Path) -> list[Files]:
    """The files that each micro-batch took, by the logs of the query and of its sources."""
    sources: list[dict[int, list[Path]]] = []
    for number in range(len(list((checkpoint / "sources").iterdir()))):
        noted = {
            (entry["batchId"], Path(unquote(urlparse(entry["path"]).path)))
            for log in (checkpoint / "sources" / f"{number}").iterdir()
            if not log.name.startswith(".")
            for entry in map(json.loads, log.read_text().splitlines()[1:])
        }
        sources.append({})
        for place, path in sorted(noted):
            sources[-1].setdefault(place, []).append(path)
    found: list[Files] = []
    before = [-1] * len(sources)
    for batch in range(len([p for p in (checkpoint / "offsets").iterdir() if p.name.isdecimal()])):
        ends = list(_offsets(checkpoint / "offsets" / str(batch), before))
        taken: Files = {name: [] for name in (*WORLD.inputs, QUERIES)}
        for noted_by, first, last in zip(sources, before, ends, strict=True):
            for place in range(first + 1, last + 1):
                for path in noted_by.get(place, []):
                    taken[path.parent.name].append(path)
        found.append(taken)
        before = ends
    return found


def _offsets(log: Path, before: Sequence[int]) -> Iterator[int]:
    """Up to where each source was read."""
    for line, known in zip(log.read_text().splitlines()[2:], before, strict=True):
        yield known if line == "-" else json.loads(line)["logOffset"]


def tasks_of(paths: Sequence[Path]) -> list[list[Path]]:
    """How Spark deals the files of a source to tasks: large ones first, as many as fit."""
    sizes = {path: path.stat().st_size for path in paths}
    most = max(OPEN_BYTES, sum(size + OPEN_BYTES for size in sizes.values()) // TASKS)
    tasks: list[list[Path]] = []
    filled = most
    for path in sorted(paths, key=lambda path: -sizes[path]):
        if filled + sizes[path] > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(path)
        filled += sizes[path] + OPEN_BYTES
    return tasks


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
