"""Jobs of pipeline files on a Spark that runs already: what they refuse, and what they tell."""

from __future__ import annotations

import signal
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from tests.spark.jobs_in_files import console_of, example
from typer.testing import CliRunner

from standfast.cli import app
from standfast.spark import run as module
from standfast.spark.described import found_columns
from standfast.spark.pipeline_file import read_pipeline
from standfast.spark.progress import Totals
from standfast.spark.toml_text import BadPipeline


def test_a_dry_run_tells_the_plan_and_neither_reads_nor_writes(spark, tmp_path, monkeypatch):
    file = example(tmp_path / "prices")
    monkeypatch.setattr(module, "session", lambda *_: spark)
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # other tests go on with it
    before = sorted(tmp_path.rglob("*"))
    done = CliRunner().invoke(app, ["run", str(file), "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "template  cheap: filter over trades" in done.output
    assert "cheap: each row on one shard, nothing stored; all queries on every shard" in done.output
    assert "rows: " not in done.output
    assert sorted(tmp_path.rglob("*")) == before


PARQUET = """
[inputs.trades]
format = "parquet"
path = "trades"
stream = false
schema = { id = "int64", price = "float64", day = "int64" }
[templates.cheap]
sql = "SELECT id, price FROM trades WHERE price < :limit"
[queries]
format = "csv"
path = "queries"
stream = false
schema = { template = "string", id = "int64", limit = "float64" }
[output]
path = "out"
"""


def _parquet_job(folder: Path) -> Path:
    (folder / "trades" / "day=7").mkdir(parents=True)
    (folder / "queries").mkdir()
    (folder / "queries" / "all.csv").write_text("template,id,limit\ncheap,1,2.5\n")
    file = folder / "pipeline.toml"
    file.write_text(PARQUET)
    return file


def test_a_column_that_no_parquet_file_has_is_a_mistake(spark, tmp_path):
    """It was read as nulls, which counted as used and were in nobody's answer."""
    file, console = _parquet_job(tmp_path), console_of(terminal=False)
    old = tmp_path / "trades" / "day=7" / "old.parquet"
    pq.write_table(pa.table({"id": [1, 2], "prise": [1.0, 5.0]}), old)
    with pytest.raises(BadPipeline) as caught:
        module.run(file, console=console, dry_run=True, spark=spark)
    ((line, what, hint),) = [(m.line, m.what, m.hint) for m in caught.value.mistakes]
    assert PARQUET.splitlines()[line - 1].startswith("schema = { id")
    assert what == f"[inputs.trades] no file at {tmp_path / 'trades'} has the column 'price'"
    assert hint == "did you mean 'prise'?"
    new = tmp_path / "trades" / "day=7" / "new.parquet"
    pq.write_table(pa.table({"id": [3, 4], "PRICE": [1.0, 5.0]}), new)
    totals = module.run(file, console=console, spark=spark)
    assert (totals.counts["used"], totals.counts["affected"]) == (4, 1), "one file has it"


def _mistakes_of(spark: SparkSession, file: Path) -> list[tuple[int, str, str]]:
    with pytest.raises(BadPipeline) as caught:
        module.run(file, console=console_of(terminal=False), dry_run=True, spark=spark)
    return [(m.line, m.what, m.hint) for m in caught.value.mistakes]


OTHER_TYPES = [
    ([Decimal("0.12")], "decimal(2,2)", "float64", "have it written as one of bigint, double, "),
    ([Decimal("0.12")], "decimal(2,2)", "int64", "have it written as one of bigint, double, "),
    ([7], "bigint", "float64", 'declare x = "int64"'),
    ([0.5], "double", "int64", 'declare x = "float64"'),
    ([b"7"], "binary", "int64", "have it written as one of bigint, double, "),
    ([True], "boolean", "int64", "have it written as one of bigint, double, "),
    ([7], "bigint", "timestamp", "have it written as microseconds, if it is a timestamp of nano"),
    (["7"], "string", "int64", 'declare x = "string"'),
    ([date(2024, 5, 1)], "date", "int64", 'declare x = "timestamp"'),
    ([datetime(2024, 5, 1, tzinfo=UTC)], "timestamp", "int64", 'declare x = "timestamp"'),
]


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_a_column_that_files_have_as_another_type_is_a_mistake(spark, tmp_path, format):
    """Spark gave 0.12 as 12.0, cut fractions off, and made nulls of texts."""
    file = _parquet_job(tmp_path)
    folder = tmp_path / "trades" / "day=7"
    for values, type_, kind, advice in OTHER_TYPES:
        rows = pa.table({"x": values})
        if format == "parquet":
            times = [datetime(2024, 5, 1)]  # of nanoseconds; nobody asks for it
            rows = rows.append_column("unread", pa.array(times, pa.timestamp("ns")))
            # Spark, too, writes decimals of few digits as integers.
            pq.write_table(rows, folder / "all.parquet", store_decimal_as_integer=True)
        else:
            orc.write_table(rows, folder / "all.orc")
        text = PARQUET.replace('id = "int64", price = "float64", day', f'x = "{kind}", day')
        text = text.replace(
            "SELECT id, price FROM trades WHERE price", "SELECT x FROM trades WHERE day"
        )
        file.write_text(text.replace('format = "parquet"', f'format = "{format}"'))
        ((line, what, hint),) = _mistakes_of(spark, file)
        assert text.splitlines()[line - 1].startswith("schema = { x")
        at = tmp_path / "trades"
        assert what == f"[inputs.trades] the column 'x' is {type_} at {at}, not {kind}"
        assert hint.startswith(advice)


def test_queries_in_files_have_the_columns_and_the_types_that_they_need(spark, tmp_path):
    file = _parquet_job(tmp_path)
    text = PARQUET.replace('"csv"', '"parquet"')
    schema = next(x for x in text.splitlines() if x.startswith("schema = { template"))
    file.write_text(text.replace(schema, ""))
    (tmp_path / "queries" / "all.csv").unlink()
    bounds = pa.table({"template": ["cheap"], "name": [1], "limit": [2]})
    pq.write_table(bounds, tmp_path / "queries" / "all.parquet")
    at = tmp_path / "queries"
    assert [(what, hint) for _, what, hint in _mistakes_of(spark, file)] == [
        (f"[queries] no file at {at} has the column 'id'", "columns: template, name, limit"),
        (
            f"[queries] the column 'limit' is bigint at {at}, not float64",
            'declare limit = "int64"',
        ),
    ]


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_other_types_that_mean_the_same_are_read(spark, tmp_path, format):
    """Spark refused dates in Parquet. What stands in the names of folders is as declared."""
    file = _parquet_job(tmp_path)
    folder = (tmp_path / "trades" / "day=7").rename(tmp_path / "trades" / "day=007")
    columns = {
        "id": pa.array([1, 2], pa.int16()), "price": pa.array([1, 5], pa.int32()),
        "placed": [date(2024, 5, 1), date(1969, 1, 1)], "at": [datetime(2024, 5, 1)] * 2,
        "few": pa.array([0.5, 1.5], pa.float32()),
    }  # fmt: skip
    write = pq.write_table if format == "parquet" else orc.write_table
    write(pa.table(columns), folder / f"all.{format}")
    more = 'placed = "timestamp", at = "timestamp", few = "float64", day = "string"'
    text = PARQUET.replace('day = "int64"', more)
    text = text.replace("SELECT id, price FROM", "SELECT id, price, placed, at, few, day FROM")
    text = text.replace('path = "out"', 'form = "rows"\npath = "out"')
    file.write_text(text.replace('format = "parquet"', f'format = "{format}"'))
    totals = module.run(file, console=console_of(terminal=False), spark=spark)
    assert (totals.counts["used"], totals.counts["rejected"]) == (1, 1), "1969 is too early"
    (row,) = ds.dataset(tmp_path / "out" / "batch=0" / "kind=answers").to_table().to_pylist()
    may = datetime(2024, 5, 1)
    found = [row[name] for name in ("id", "price", "placed", "at", "few", "day")]
    assert set(found_columns(spark, read_pipeline(file))["[inputs.trades]"]) == set(columns)
    assert found == [1, 1.0, may, may, 0.5, "007"]


def test_a_parquet_input_that_has_no_file_yet_is_no_mistake(spark, tmp_path):
    file = _parquet_job(tmp_path)
    totals = module.run(file, console=console_of(terminal=False), spark=spark)
    assert (totals.counts["received"], totals.counts["added"]) == (0, 1)


def test_a_checkpoint_that_cannot_be_made_ends_the_job_with_what_to_do(spark, monkeypatch):
    """It ended in a trace of pathlib."""

    def refuse(_: str) -> None:
        raise PermissionError(13, "Permission denied", "/theirs")

    monkeypatch.setattr(module, "private_folder", refuse)
    job = SimpleNamespace(name="x", checkpoint="/theirs/checkpoint")
    pipeline = SimpleNamespace(job=job, streams=True)
    monkeypatch.setattr(module, "read_pipeline", lambda _: pipeline)
    monkeypatch.setattr(module, "build", lambda *_: None)
    said = (
        r"^no checkpoint can be made: .*Permission denied: '/theirs'\n  hint: name another folder"
    )
    with pytest.raises(module.JobFailed, match=said):
        module.run("x", console=console_of(terminal=False), spark=spark)


def test_kafka_without_its_package_is_told_with_the_setting_to_add(monkeypatch):
    def fail(*_: object) -> None:
        raise Py4JError("[KAFKA_DATA_SOURCE_NOT_ENABLED] Failed to find data source: kafka.")

    monkeypatch.setattr(module, "read_pipeline", lambda _: None)
    monkeypatch.setattr(module, "build", fail)
    said = r'hint: add "spark.jars.packages" = "org\.apache.*_2\.13:4\.3\.0" to \[session\.conf\]'
    with pytest.raises(module.JobFailed, match=said):
        module.run("x", console=console_of(terminal=False), spark=SimpleNamespace(version="4.3.0"))


@pytest.mark.parametrize(
    "said",
    [
        "Multiple streaming queries are concurrently using file:/c/sources/0.",
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs "
        "detected for 3.",
    ],
)
def test_a_second_job_at_a_checkpoint_is_told_that_it_is_one(said):
    """It was told that the next start does the micro-batch again."""
    query, totals = SimpleNamespace(exception=lambda: Exception(said)), Totals()
    with pytest.raises(module.JobFailed, match="hint: another job is at this checkpoint"):
        module._tell_end(query, totals, console_of(terminal=False), was_asked=False)


def test_a_terminal_that_cannot_draw_over_what_is_there_sees_lines(monkeypatch):
    """It saw nothing before the end."""
    monkeypatch.setenv("TERM", "dumb")
    console = console_of(terminal=True)
    metrics = {"standfast": {"received": 2, "used": 2}}
    news = Totals().news([{"batchId": 0, "observedMetrics": metrics}])
    with module._screen(console) as show:
        show(Totals(), news)
        assert console.file.getvalue().startswith("batch 0: 2 rows in")


def test_a_polite_kill_of_a_job_that_is_built_is_what_ctrl_c_is(monkeypatch):
    """It ended at once, and left the private folder of its session behind."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    killed = []

    def kill(*_: object) -> None:
        killed.append(signal.getsignal(signal.SIGTERM) != signal.SIG_DFL)
        if all(killed):
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(module, "read_pipeline", lambda _: None)
    monkeypatch.setattr(module, "build", kill)
    try:
        with pytest.raises(KeyboardInterrupt):
            module.run("x", console=console_of(terminal=False), spark=object(), dry_run=True)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert killed == [True]


MILLION = """
[inputs.trades]
format = "parquet"
path = "trades"
schema = { id = "int64", price = "int64" }
id = "id"
[templates.near]
sql = "SELECT id FROM trades WHERE price BETWEEN :lo AND :hi"
[queries]
format = "parquet"
path = "queries"
stream = false
[output]
form = "counts"
path = "out"
[job]
checkpoint = "checkpoint"
trigger = "available now"
"""


@pytest.mark.sweep
def test_a_million_queries_are_loaded_from_parquet_at_the_start(spark, tmp_path):
    n, rng = 1_000_000, np.random.default_rng(1)
    lo = rng.integers(0, 10_000, n)
    hi = lo + rng.integers(0, 10, n)
    prices = rng.integers(0, 10_000, 200)
    for name in ("trades", "queries"):
        (tmp_path / name).mkdir()
    names = pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), ["near"]).cast(pa.string())
    queries = pa.table({"template": names, "id": np.arange(n), "lo": lo, "hi": hi})
    pq.write_table(queries, tmp_path / "queries" / "all.parquet")
    trades = pa.table({"id": np.arange(prices.size), "price": prices})
    pq.write_table(trades, tmp_path / "trades" / "all.parquet")
    file = tmp_path / "pipeline.toml"
    file.write_text(MILLION)
    totals = module.run(file, console=console_of(terminal=False), spark=spark)
    assert totals.last is not None
    assert (totals.counts["added"], totals.last.levels["queries"]) == (n, n)
    by_event = Counter[int]()
    for row in ds.dataset(tmp_path / "out", partitioning="hive").to_table().to_pylist():
        by_event[row["event"]] += row["queries"]
    assert by_event == {i: np.sum((lo <= p) & (p <= hi)) for i, p in enumerate(prices)}
