"""A folder of answers belongs to one checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from standfast.errors import BadInput
from standfast.spark import Source, attached
from standfast.spark.pipeline import FORMAT
from standfast.spark.run import told
from standfast.spark.sinks import MARK, STATIC, WHOLE, answers, letters, once
from standfast.spark.state import WrongState

FILTER = "SELECT * FROM live WHERE v BETWEEN :lo AND :hi"
QUERIES = "template string, id bigint, lo double, hi double"


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Callable[..., list[int]]:
    """Runs the job on one more row with a checkpoint of this name; tells which rows are answered.

    The output folder is the same where no other is named.
    """
    (tmp_path / "in").mkdir()

    def started(checkpoint: str, form: str = "pairs", out: str = "out") -> list[int]:
        i = len(list((tmp_path / "in").iterdir()))
        (tmp_path / "in" / f"{i}.json").write_text(json.dumps({"id": i, "v": 1.0}))
        reader = spark.readStream.schema("id bigint, v double").option("maxFilesPerTrigger", 1)
        inputs = {"live": Source(reader.json(str(tmp_path / "in")), id="id")}
        queries = spark.createDataFrame([("f", 1, 0.0, 9.0)], QUERIES)
        job = attached(spark, inputs, {"f": FILTER}, queries, shards=1, output=form)
        writer = job.everything.writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.foreachBatch(once(job, tmp_path / out)).start().awaitTermination()
        found = answers(spark, job, tmp_path / out).collect()
        return sorted(row["event"] for row in found)

    return started


@pytest.fixture
def unmarked(spark: SparkSession) -> Iterator[None]:
    """A session that replaces partitions one by one and marks no folder as whole."""
    mode, mark = "spark.sql.sources.partitionOverwriteMode", tuple(WHOLE)[1]
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    spark.conf.set(mode, "dynamic")
    hadoop.set(mark, "false")
    yield
    spark.conf.unset(mode)
    hadoop.unset(mark)


@pytest.mark.usefixtures("unmarked")
def test_a_micro_batch_replaces_itself_and_is_read_whatever_the_session_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No answer was ever found, as none was known to be whole, and old letters stayed."""
    rows, queries = [(7, 1.0), (None, 1.0)], spark.createDataFrame([("f", 1, 0.0, 9.0)], QUERIES)
    for n_letters in (1, 0):
        live = spark.createDataFrame(rows[: 1 + n_letters], "id bigint, v double")
        job = attached(spark, {"live": Source(live, id="id")}, {"f": FILTER}, queries, shards=1)
        once(job, tmp_path / "out")(job.everything, 0)
        assert [row["event"] for row in answers(spark, job, tmp_path / "out").collect()] == [7]
        assert letters(spark, job, tmp_path / "out").count() == n_letters


def test_a_folder_is_refused_to_another_checkpoint_and_open_to_its_own(
    start: Callable[[str], list[int]], tmp_path: Path
) -> None:
    """A new checkpoint wrote its first micro-batches over the old ones and left the later ones."""
    out = tmp_path / "out"
    assert start("one") == [0]
    assert start("one") == [0, 1]
    with pytest.raises(StreamingQueryException) as refused:
        start("two")
    what, hint = told(refused.value)
    assert what == f"the folder {out} has the answers of another checkpoint"
    assert hint.startswith("go on with that checkpoint; a new checkpoint needs a new output folder")
    shutil.rmtree(out / MARK)  # as the release before has left it
    with pytest.raises(StreamingQueryException, match="has the answers of another checkpoint"):
        start("three")
    assert start("one") == [0, 1, 2, 3, 4], "also rows that came while others were refused"
    for folder in out.glob("batch=*"):
        shutil.rmtree(folder)
    assert start("two") == [0, 1, 2, 3, 4, 5], "nothing is left of the other one"


def test_a_folder_has_answers_of_one_form(start: Callable[..., list[int]], tmp_path: Path) -> None:
    """Those of the form before were read back with nulls in what they do not have."""
    assert start("one") == [0]
    with pytest.raises(StreamingQueryException) as refused:
        start("one", "rows")
    what, hint = told(refused.value)
    out = tmp_path / "out"
    assert what == f"the folder {out} has answers that are pairs, and the job writes rows"
    assert hint == "name another output folder; the checkpoint may stay"
    assert start("one", "rows", "more") == [1, 2]
    shutil.rmtree(out / MARK / "form-pairs")  # as releases before have left it
    assert start("one") == [0, 3], "what was written elsewhere stays there"
    shutil.rmtree(out / "batch=0")
    shutil.rmtree(out / "batch=3")
    assert start("one", "rows") == [4]
    assert (out / MARK / "form-rows").exists()
    assert not (out / MARK / "form-pairs").exists()


def test_a_pass_over_static_frames_can_be_repeated_but_not_into_the_folder_of_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = spark.createDataFrame([(7, 1.0)], "id bigint, v double")
    queries = spark.createDataFrame([("f", 1, 0.0, 9.0)], QUERIES)
    job = attached(spark, {"live": Source(live, id="id")}, {"f": FILTER}, queries, shards=1)
    other = attached(
        spark, {"live": Source(live, id="id")}, {"f": FILTER}, queries, shards=1, output="counts"
    )
    for some in (job, other, job):
        once(some, tmp_path / "out")(some.everything, 0)
        found = answers(spark, some, tmp_path / "out").collect()
        assert [row["event"] for row in found] == [7]
    (tmp_path / "out" / MARK / STATIC).rename(tmp_path / "out" / MARK / "id of a stream")
    with pytest.raises(WrongState, match="has the answers of another checkpoint"):
        once(job, tmp_path / "out")(job.everything, 0)


def test_answers_whose_columns_have_names_with_dots_are_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark looked for a field of a struct, and found none: all columns of a join are so called."""
    frames = (spark.createDataFrame([(7, 1.0)], "id bigint, v double") for _ in range(2))
    inputs = {name: Source(frame, id="id") for name, frame in zip("ab", frames, strict=True)}
    queries = spark.createDataFrame([("f", 1, 0.0, 9.0)], QUERIES)
    sql = (
        'SELECT *, a.v AS "the `value`" FROM a JOIN b ON a.id = b.id WHERE a.v BETWEEN :lo AND :hi'
    )
    job = attached(spark, inputs, {"f": sql}, queries, output="rows", shards=1)
    once(job, tmp_path / "out")(job.everything, 0)
    (row,) = answers(spark, job, tmp_path / "out").collect()
    assert (row["a.id"], row["b.v"], row["the `value`"]) == (7, 1.0, 1.0)


def test_what_this_sink_could_not_write_or_read_again_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Answers under a name that Spark takes for a pattern were written and never found again.

    A column called batch was read as the number of the micro-batch.
    """
    live = spark.createDataFrame([(7, 1.0)], "id bigint, v double")
    job = attached(spark, {"live": Source(live, id="id")}, {"f": FILTER}, shards=1)
    with pytest.raises(BadInput, match=r"the folder .*out\[1\] could not be read again"):
        once(job, tmp_path / "out[1]")
    with pytest.raises(BadInput, match=r"hint: write job\.everything"):
        once(job, tmp_path / "out")(job.answers, 0)
    sql = FILTER.replace("*", "id AS batch")
    job = attached(spark, {"live": Source(live, id="id")}, {"f": sql}, output="rows", shards=1)
    with pytest.raises(BadInput, match="a column called 'batch', as the folders of micro-batches"):
        once(job, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_commit_that_was_lost_is_made_up_for_where_every_attempt_has_its_own_state(
    spark: SparkSession, start: Callable[[str], list[int]], tmp_path: Path
) -> None:
    """As with speculation: there Spark cannot commit a micro-batch that a sink leaves out."""
    spark.conf.set(FORMAT, "2")
    try:
        assert start("one") == [0]
        assert start("one") == [0, 1]
        commit = tmp_path / "one" / "commits" / "1"
        assert "stateUniqueIds" in commit.read_text()
        commit.unlink()
        commit.with_name(".1.crc").unlink()
        assert start("one") == [0, 1, 2]
    finally:
        spark.conf.unset(FORMAT)
