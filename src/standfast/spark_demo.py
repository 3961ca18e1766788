"""The demo on Spark: the same trades and queries as files, and a pipeline file that reads them.

    folder/trades, spot, futures    a file of rows for each micro-batch
    folder/queries                  a file of changes for each: all adds, then some come and go
    folder/pipeline.toml            the job, also for `standfast run`
    folder/answers, checkpoint      what the job writes
    folder/demo.png                 the picture

A file of rows begins with the last rows of the one before, as a source does that sends at least
once, and now and then a change is bad: the first are counted as duplicates, the second refused, and
both are found among the dead letters. What brute force says about some rows, and about all queries
over windows after some micro-batches, is worked out while the files are written, and compared with
the answers in the end.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from standfast import workloads
from standfast.demo import Step, draw
from standfast.demo_queries import (
    COLUMNS,
    JOINS,
    TEMPLATES,
    WINDOWS,
    Asked,
    Parameters,
    expect,
    market,
)
from standfast.errors import StandfastError
from standfast.spark.progress import FATES, Totals
from standfast.spark.run import run

N_BATCHES = 12
BATCHES_BETWEEN_CHANGES = 3
REPEATED_ROWS = 5
MOST_SHARDS = 4  # more would only hold the same queries once more
INPUTS = ("trades", "spot", "futures")
MARKER = ".standfast-demo"  # a folder with this file was made here
WRITTEN = (*INPUTS, "queries", "answers", "checkpoint", "pipeline.toml", "demo.png")
Place = tuple[str, int]  # a template and the id of a row; of windows, the number of a micro-batch

_HEAD = """\
# The demo's job, written by `standfast demo`; `standfast run` runs it, too.
# It goes on from its checkpoint: remove the folders checkpoint and answers to begin anew.

[session]
master = "local[*]"
conf = {{ "spark.sql.shuffle.partitions" = {shards} }}
"""
_INPUT = """
[inputs.{name}]
format = "parquet"
path = "{name}"
time = "time"
id = "id"
options = {{ maxFilesPerTrigger = 1 }}
schema = {{ {schema} }}
"""
_TEMPLATE = """
[templates.{name}]
sql = {sql}
"""
_TAIL = """
[queries]
format = "parquet"
path = "queries"
options = {{ maxFilesPerTrigger = 1 }}

[output]
form = "counts"
path = "answers"

[job]
checkpoint = "checkpoint"
trigger = "available now"
shards = {shards}
watermark = "2 seconds"
"""


class DemoFailed(StandfastError):
    """A demo that could not be made or did not come to its end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out: by template, in each micro-batch and in all; what was not used, and why."""

    affected: list[dict[str, int]]
    answers: dict[str, int]
    seconds: list[float]
    letters: dict[str, int]


class Recording:
    """The files of a demo, and what is known of them."""

    def __init__(
        self, folder: Path, n_queries: int, seed: int, *, n_batches: int = N_BATCHES
    ) -> None:
        trades = workloads.trades()
        self.folder = folder
        self.trades = trades.append_column("id", pa.array(np.arange(trades.num_rows)))
        self.asked = Asked(trades, seed)
        self.expected: dict[Place, int] = {}
        self.n_added = self.n_removed = self.n_refused = self.n_versions = 0
        self._n_queries = n_queries
        arrival = trades["arrival"].cast(pa.int64()).to_numpy()
        ends = np.linspace(arrival[0], arrival[-1], n_batches + 1)
        self.cuts = [0, *np.searchsorted(arrival, ends[1:-1]).tolist(), arrival.size]
        self.market_seconds = ((ends[1:] - arrival[0]) / 1e6).tolist()

    @property
    def pipeline(self) -> Path:
        return self.folder / "pipeline.toml"

    @property
    def n_batches(self) -> int:
        return len(self.cuts) - 1

    @property
    def n_repeated(self) -> int:
        """Rows that come again, over all inputs."""
        return 2 * sum(min(REPEATED_ROWS, int(cut)) for cut in self.cuts[1:-1])

    def write(self) -> Iterator[int]:
        """Make the folder anew and write all files, those of one micro-batch after the other."""
        clear(self.folder)
        for name in (*INPUTS, "queries"):
            (self.folder / name).mkdir()
        self.pipeline.write_text(pipeline_text(), encoding="utf-8")
        nothing = pa.table({})
        for number, (start, stop) in enumerate(pairwise(self.cuts)):
            is_changed = number % BATCHES_BETWEEN_CHANGES == 0
            changes = self._changes(number) if is_changed else nothing
            nothing = changes.slice(0, 0)
            self._keep("queries", number, changes)
            first = max(start - REPEATED_ROWS, 0)
            rows = self.trades.slice(first, stop - first)
            for name in INPUTS:
                some = rows if name == "trades" else market(rows, name)
                self._keep(name, number, some.select(["id", *COLUMNS]))
            batch = self.trades.slice(start, stop - start)
            if is_changed:
                self._work_out(batch, number)
            self.asked.see(batch)
            yield number

    def _keep(self, name: str, number: int, rows: pa.Table) -> None:
        """Write a file; Spark takes files in the order of their times."""
        path = self.folder / name / f"{number:03}.parquet"
        pq.write_table(rows, path)
        at = int(time.time()) - self.n_batches + number
        os.utime(path, (at, at))

    def _changes(self, number: int) -> pa.Table:
        """All queries at first; later some leave, others come, and one change is bad."""
        tables = []
        if number == 0:
            for name, fresh in self.asked.first(self._n_queries):
                tables.append(_change(name, "add", fresh))
                self.n_added += fresh["id"].size
        else:
            for name, ids, fresh in self.asked.change():
                tables += [_change(name, "remove", {"id": ids}), _change(name, "add", fresh)]
                self.n_removed += ids.size
                self.n_added += fresh["id"].size
            # A range without an end, under an id that no query has.
            bad = {"id": np.array([-number]), "symbol": np.array(["BTCUSDT"]), "lo": np.ones(1)}
            tables.append(_change("price_watch", "add", bad))
            self.n_refused += 1
        self.n_versions += 1
        return pa.concat_tables(tables, promote_options="default").combine_chunks()

    def _work_out(self, batch: pa.Table, number: int) -> None:
        ids = dict.fromkeys(JOINS, market(batch, "spot")["id"])
        ids |= dict.fromkeys(WINDOWS, pa.chunked_array([[number]]))
        earlier = self.trades.slice(0, self.cuts[number])
        for name, counts in self.asked.brute_force(batch, earlier).items():
            places = ids.get(name, batch["id"]).slice(0, len(counts)).to_pylist()
            self.expected |= {(name, at): n for at, n in zip(places, counts, strict=True)}


def play(
    folder: Path, n_queries: int, seed: int, console: Console, *, n_batches: int = N_BATCHES
) -> None:
    """Write the files, run the job on Spark, check what came out, and tell and draw it."""
    recording = Recording(folder, n_queries, seed, n_batches=n_batches)
    about = f"writing trades and {n_queries:,} standing queries"
    for _ in track(recording.write(), about, n_batches, console=console):
        pass
    console.print(f"Pipeline file: [bold]{recording.pipeline}[/bold]")
    totals = run(recording.pipeline, console=console)
    if totals.n_batches < n_batches:
        raise DemoFailed(
            f"the demo was stopped after {totals.n_batches} of {n_batches} micro-batches",
            hint=f"let it go on: standfast run {recording.pipeline}",
        )
    with console.status("comparing with brute force"):
        outcome = read(recording)
        check(recording, totals)
    console.print(summary(recording, totals, outcome))
    picture = folder / "demo.png"
    draw(_steps(recording, outcome), len(recording.asked), picture)
    console.print(f"Picture: [bold]{picture}[/bold]")


def clear(folder: Path) -> None:
    """Make the folder, or remove what a demo wrote into it; that of somebody else is left alone."""
    mine = (folder / MARKER).is_file()
    if folder.exists() and not mine and (not folder.is_dir() or any(folder.iterdir())):
        raise DemoFailed(
            f"{folder} is there, and not made by the demo",
            hint="name another folder with --out, or remove this one",
        )
    for path in (folder / name for name in WRITTEN) if mine else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()


def pipeline_text() -> str:
    """The pipeline file, for folders beside it."""
    shards = min(os.cpu_count() or 1, MOST_SHARDS)
    schema = ", ".join(f'{c} = "{kind}"' for c, kind in {"id": "int64", **COLUMNS}.items())
    parts = [_HEAD.format(shards=shards)]
    parts += [_INPUT.format(name=name, schema=schema) for name in INPUTS]
    for name, sql in TEMPLATES.items():
        parts.append(_TEMPLATE.format(name=name, sql=json.dumps(" ".join(sql.split()))))
    return "".join([*parts, _TAIL.format(shards=shards)])


def read(recording: Recording) -> Outcome:
    """Read what the job wrote; the answers of some rows must be those of brute force."""
    written = ds.dataset(recording.folder / "answers", partitioning="hive").to_table()
    answers = written.filter(pc.field("kind") == "answers")
    sums = answers.group_by(["batch", "template"]).aggregate([("queries", "sum")])
    affected = [dict.fromkeys(TEMPLATES, 0) for _ in range(recording.n_batches)]
    for row in sums.to_pylist():
        affected[int(row["batch"])][row["template"]] = row["queries_sum"]
    _compare(recording.expected, answers, affected)
    n_answers = _tally(answers["template"])
    letters = written.filter(pc.field("kind") == "letters")["letter"].to_pylist()
    reasons = _tally(pa.array([letter["reason"] for letter in letters], pa.string()))
    return Outcome(affected, dict.fromkeys(TEMPLATES, 0) | n_answers, _seconds(recording), reasons)


def check(recording: Recording, totals: Totals) -> None:
    """Every row and every change that was written must be accounted for."""
    counted = {**totals.counts, "batches": totals.n_batches}
    assert totals.last is not None, "no micro-batch told what it did"
    n_rows = 2 * recording.trades.num_rows  # every trade is also one of spot or futures
    wanted = {
        "batches": recording.n_batches,
        "received": n_rows + recording.n_repeated,
        "used": n_rows,
        "duplicate": recording.n_repeated,
        "added": recording.n_added,
        "removed": recording.n_removed,
        "refused": recording.n_refused,
        "registry": recording.n_versions,
        "queries": len(recording.asked),
    }
    found = {name: (counted | dict(totals.last.levels))[name] for name in wanted}
    assert found == wanted, f"counted {found}, written {wanted}"


def summary(recording: Recording, totals: Totals, outcome: Outcome) -> Table:
    """What the standing queries saw, and what became of everything that came in."""
    table = Table(title="What the standing queries saw", title_justify="left", box=SIMPLE)
    table.add_column("template", no_wrap=True)
    for column in ("queries", "affected", "answers", "checked"):
        table.add_column(column, justify="right")
    for name in TEMPLATES:
        n_checked = sum(template == name for template, _ in recording.expected)
        each = sum(batch[name] for batch in outcome.affected)
        sizes = (recording.asked.queries[name]["id"].size, each, outcome.answers[name], n_checked)
        table.add_row(name, *(f"{n:,}" for n in sizes))
    counts, seconds = totals.counts, totals.batch_ms / 1e3
    n_trades, fates = recording.trades.num_rows, " + ".join(f"{counts[f]:,} {f}" for f in FATES)
    letters = ", ".join(f"{n} {reason}" for reason, n in outcome.letters.items())
    table.caption = Text("\n").join(
        Text(line)
        for line in [
            f"{n_trades:,} trades in {totals.n_batches} micro-batches and {seconds:.1f} s: "
            f"{n_trades / seconds:,.0f} trades per second",
            f"{counts['received']:,} rows received = {fates}",
            f"registry version {recording.n_versions}: {counts['added']:,} queries came, "
            f"{counts['removed']:,} went",
            f"dead letters: {letters}",
            f"{len(recording.expected)} answers compared with brute force: all equal",
        ]
    )
    table.caption_justify = "left"
    return table


def _change(template: str, op: str, parameters: Parameters) -> pa.Table:
    """Changes of one kind, as rows for the job."""
    n = parameters["id"].size
    return pa.table({"template": pa.repeat(template, n), "op": pa.repeat(op, n), **parameters})


def _compare(expected: dict[Place, int], answers: pa.Table, affected: list[dict[str, int]]) -> None:
    """Rows by their answers; windows by how many queries a micro-batch affected."""
    rows = pa.array(sorted({at for name, at in expected if name not in WINDOWS}), pa.int64())
    found = {(name, at): affected[at][name] for name, at in expected if name in WINDOWS}
    for answer in answers.filter(pc.is_in(answers["event"], rows)).to_pylist():
        place = answer["template"], answer["event"]
        assert place not in found, f"{place[0]}: row {place[1]} is answered twice"
        found[place] = answer["queries"]
    for place, n in expected.items():
        expect(place[0], n, found.get(place, 0))


def _tally(values: pa.Array) -> dict[str, int]:
    counted = pc.value_counts(values).to_pylist()
    return {entry["values"]: entry["counts"] for entry in counted}


def _seconds(recording: Recording) -> list[float]:
    """How long after the one before each micro-batch was whole; the first, after the start."""
    answers = recording.folder / "answers"
    whole = [answers / f"batch={n}" / "_SUCCESS" for n in range(recording.n_batches)]
    times = [path.stat().st_mtime for path in (recording.folder / "checkpoint/metadata", *whole)]
    return [after - before for before, after in pairwise(times)]


def _steps(recording: Recording, outcome: Outcome) -> list[Step]:
    sizes = np.diff(recording.cuts).tolist()
    each = zip(recording.market_seconds, sizes, outcome.seconds, outcome.affected, strict=True)
    spots = recording.asked.hotspots()
    return [Step(at, n, seconds, affected, spots) for at, n, seconds, affected in each]
