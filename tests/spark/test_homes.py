"""The same history has the same answers in the embedded engine and on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.homes import compare, job_of, read_everything, streamed, told_alike
from tests.spark.reference import Played, embedded
from tests.spark.world import DELICATE, World, draw_history, whole_world, write_history

from standfast.operators.catalog import CATALOG
from standfast.spark import Source, attached

WORLD = whole_world()
SMALL = WORLD.only("filter_interval_tree", "band_groups", "select_groups")  # ids are numbers


def assert_is_full(played: Played, world: World = WORLD) -> None:
    """Every template was answered, and everything that can become of a row or a change did."""
    answered = {dict(entry)["template"] for entry in played.answers}
    assert answered == world.templates.keys()
    total = Counter()
    for counts in played.counts:
        total.update(counts)
    assert not [name for name, n in total.items() if not n], "something never happened"
    assert total["received"] == sum(total[n] for n in ("used", "late", "duplicate", "rejected"))


def test_every_way_of_the_catalogue_is_in_the_world():
    ways = Counter(WORLD.ways.values())
    assert ways == Counter(way for catalogue in CATALOG.values() for way in catalogue)


@pytest.mark.long
def test_every_way_answers_on_spark_like_in_the_embedded_engine(spark):
    played, differ = compare(spark, WORLD, 1, form="pairs", shards=2)
    assert differ == []
    assert_is_full(played)


@pytest.mark.sweep
def test_an_id_that_comes_again_with_another_key_is_known_on_every_shard(spark):
    """In rows windows are dealt by key too, and with four shards there are two buckets."""
    kept = "select_groups", "string_key", "aggregate_running_intervals", "window_groups", "recent"
    world = WORLD.only(*kept)
    played, differ = compare(spark, world, 8, form="rows", shards=4, n_rows=80)
    assert differ == []
    assert_is_full(played, world)
    assert sum(counts["duplicate"] for counts in played.counts) > 60


def test_static_frames_are_answered_as_one_batch(spark, tmp_path):
    history = draw_history(WORLD, 2, n_batches=1)
    write_history(WORLD, history, tmp_path)
    job = job_of(spark, WORLD, tmp_path, shards=1, streaming=False)
    found = read_everything(WORLD, job.everything.toArrow())
    wanted = embedded(WORLD, history)
    assert wanted.differences(found) == []
    assert found.answers.total() > 1000
    assert found.letters.total() > 10


def test_an_input_may_be_called_queries(spark):
    """The changes of queries were taken for it: no row of it was read, and nobody was told."""
    rows = spark.createDataFrame([(1, 5.0), (2, 50.0)], "id bigint, ms double")
    slow = spark.createDataFrame([("slow", 7, 10.0)], "template string, id bigint, least double")
    sql = "SELECT * FROM queries WHERE ms > :least"
    job = attached(spark, {"queries": Source(rows, id="id")}, {"slow": sql}, slow, shards=1)
    assert [(row.query, row.event) for row in job.answers.collect()] == [(7, 2)]
    assert job.counted.get["received"] == 2


def test_answers_of_two_jobs_of_static_frames_can_be_put_together(spark):
    """Spark refused: both counted under the same name."""
    rows = spark.createDataFrame([(1, 5.0), (2, 50.0)], "id bigint, x double")
    low = spark.createDataFrame([("low", 7, 9.0)], "template string, id bigint, most double")
    sqls = ("SELECT * FROM a WHERE x < :most", "SELECT * FROM a WHERE x <= :most AND x > 6")
    one, two = (attached(spark, {"a": rows}, {"low": sql}, low, shards=1) for sql in sqls)
    assert [row.query for row in one.answers.union(two.answers).collect()] == [7]
    assert (one.counted.get["answers"], two.counted.get["answers"]) == (1, 0)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("form", "shards"), [("pairs", 1), ("rows", 2), ("counts", 4), ("spans", 3), ("rows", 4)]
)
def test_every_form_of_answers_is_the_same_on_any_number_of_shards(spark, form, shards):
    world = told_alike(WORLD, form)
    played, differ = compare(spark, world, shards, form=form, shards=shards)
    assert differ == []
    assert_is_full(played, world)


@pytest.mark.sweep
def test_results_add_up_to_the_same_however_rows_are_cut(spark, tmp_path):
    world = WORLD.only(*sorted(DELICATE))
    history = draw_history(world, 5, n_batches=6)
    write_history(world, history, tmp_path)
    found = streamed(job_of(spark, world, tmp_path, form="rows", shards=4), world, tmp_path)
    wanted = embedded(world, history, "rows")
    assert _results(found) == _results(wanted)
    assert found.answers != wanted.answers, "no cut was visible"


def _results(played: Played) -> dict[tuple[object, ...], int]:
    """How often each row is in the result of each query in the end, counting all changes."""
    total: Counter[tuple[object, ...]] = Counter()
    for entry, n in played.answers.items():
        row = dict(entry)
        change = row.pop("change") * n
        for name in ("event", "input", "registry"):
            del row[name]
        total[tuple(sorted(row.items()))] += change
    return {row: n for row, n in total.items() if n}


@pytest.mark.sweep
def test_a_micro_batch_that_is_computed_twice_gives_the_same_answers(spark, tmp_path):
    history = draw_history(SMALL, 6, n_batches=4)
    write_history(SMALL, history, tmp_path)
    job, found = job_of(spark, SMALL, tmp_path), [Played(), Played()]

    def collect(frame, batch):
        for played in found:
            some = read_everything(SMALL, frame.toArrow())
            played.answers.update(some.answers)
            played.letters.update(some.letters)

    query = job.everything.writeStream.foreachBatch(collect).trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    wanted = embedded(SMALL, history)
    assert [wanted.differences(played) for played in found] == [[], []]


def _begun(spark, tmp_path: Path, n_batches: int = 4) -> None:
    """A job on two shards that has taken in the first half of a history."""
    history = draw_history(SMALL, 7, n_batches=n_batches)
    write_history(SMALL, history[: n_batches // 2], tmp_path)
    streamed(job_of(spark, SMALL, tmp_path, shards=2), SMALL, tmp_path)
    write_history(SMALL, history, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("shards", [1, 4])
def test_a_checkpoint_refuses_another_number_of_shards_and_says_what_to_do(spark, tmp_path, shards):
    _begun(spark, tmp_path)
    with pytest.raises(StreamingQueryException) as refused:
        streamed(job_of(spark, SMALL, tmp_path, shards=shards), SMALL, tmp_path)
    said = str(refused.value)
    assert f"the checkpoint was written with 2 shards, the job has {shards}" in said
    assert "go on with shards = 2, or start with a new checkpoint and a new output folder" in said


@pytest.mark.sweep
def test_a_checkpoint_refuses_other_templates(spark, tmp_path):
    _begun(spark, tmp_path)
    other = WORLD.only("filter_interval_tree", "band_groups", "select_hotspot", "string_key")
    with pytest.raises(StreamingQueryException) as refused:
        streamed(job_of(spark, other, tmp_path, shards=2), other, tmp_path)
    said = str(refused.value)
    assert "the checkpoint was written by a job with other inputs or templates" in said


@pytest.mark.sweep
def test_a_restart_with_another_number_of_partitions_goes_on_as_before(spark, tmp_path):
    _begun(spark, tmp_path)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    try:
        found = streamed(job_of(spark, SMALL, tmp_path, shards=2), SMALL, tmp_path)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    found.counts = []
    assert embedded(SMALL, draw_history(SMALL, 7, n_batches=4)).differences(found) == []
