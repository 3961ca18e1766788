"""What `attach` refuses before anything runs, and the words that it does it with."""

from __future__ import annotations

import pytest

from standfast.errors import StandfastError
from standfast.spark import Source, attach, attached

FILTER = "SELECT * FROM a WHERE x BETWEEN :lo AND :hi"
A = "id bigint, x double, s string, at timestamp, odd boolean"
CHANGES = "template string, op string, id bigint, lo double, hi double"


@pytest.fixture
def frames(spark):
    """Frames without rows, by name."""
    ddl = {"a": A, "b": A, "queries": CHANGES}
    return {name: spark.createDataFrame([], text) for name, text in ddl.items()}


def refusal(spark, frames, **given) -> str:
    """What is said to a job that is right except for what is given."""
    right = {"inputs": {"a": frames["a"]}, "templates": {"f": FILTER}, "queries": frames["queries"]}
    with pytest.raises(StandfastError) as refused:
        attach(spark, **right | given)
    return str(refused.value)


def test_a_job_that_is_right_says_how_it_is_answered(spark, frames):
    job = attached(spark, {"a": frames["a"]}, {"f": FILTER}, frames["queries"], shards=3)
    assert job.answers.columns == ["template", "query", "input", "event", "change", "registry"]
    assert job.letters.columns == ["source", "event", "reason", "column", "value"]
    assert "f: each row on one shard, nothing stored; all queries on every shard" in job.explain()


def test_a_watermark_that_no_input_can_use_is_refused(spark, frames):
    """It was taken, and every row was kept for ever."""
    timeless = {"a": frames["a"].drop("at")}
    said = refusal(spark, frames, inputs=timeless, watermark="1 day")
    assert said.startswith("a watermark needs an input that has a time\n  hint: name the column")


def test_a_window_over_a_frame_whose_time_is_not_named_says_how_to_name_it(spark, frames):
    """It was said to declare a stream, which is what one does with an engine."""
    sql = "SELECT MAX(x) OVER (ORDER BY at ROWS BETWEEN :lo PRECEDING AND CURRENT ROW) AS m FROM a"
    queries = spark.createDataFrame([], "template string, id bigint, lo bigint")
    assert refusal(spark, frames, templates={"f": sql}, queries=queries) == (
        "template 'f': a window needs a stream with a time column: a\n  hint: name the column: "
        "Source(frame, time=...); with a watermark, a single timestamp is taken by itself"
    )
    inputs = {"a": Source(frames["a"], time="at")}
    assert attach(spark, inputs, {"f": sql}, queries, output="rows").columns[2] == "m"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shards": 0}, "shards is a number from 1 to 4096, got 0\n  hint: or leave it out"),
        ({"shards": "2"}, "shards is a number from 1 to 4096, got '2'"),
        ({"output": "pair"}, "the output 'pair' is not known\n  hint: did you mean 'pairs'?"),
        ({"watermark": "soon"}, "'soon' is no length of time\n  hint: for example \"10 minutes\""),
        ({"templates": {}}, "templates are a mapping of name to SQL, got {}"),
        ({"strategies": {"g": "boxes"}}, "there is a strategy for 'g', which is no template"),
        ({"strategies": {"f": "boxen"}}, "strategy 'boxen' does not answer filter"),
        ({"inputs": {}}, "inputs are a mapping of name to DataFrame, got {}"),
        (
            {"inputs": {"a": 5}},
            "input 'a' is 5, not a DataFrame of Spark or a Source\n  hint: spark.createDataFrame",
        ),
        (
            {"queries": "none"},
            "queries are 'none', not a DataFrame of Spark\n  hint: spark.createDataFrame makes",
        ),
        (
            {"templates": {"f": "SELECT * FROM a WHERE y > :lo"}},
            "template 'f': an unknown column: y",
        ),
        (
            {"templates": {"f": "SELECT * FROM a WHERE odd > :lo"}},
            "template 'f': the column 'odd' of input 'a' is boolean\n  hint: whole",
        ),
        (
            {"templates": {"f": "SELECT * FROM a AS b WHERE b.odd > :lo"}},
            "template 'f': the column 'odd' of input 'a' is boolean\n  hint: whole",
        ),
        (
            {"templates": {"f": "SELECT * FROM c WHERE x > :lo"}},
            "template 'f': an unknown input: c",
        ),
        (
            {"templates": {"f": "SELECT * FROM a WHERE s = :lo"}},
            "template 'f': parameter 'lo' takes text, got double",
        ),
        (
            {"templates": {"f": "SELECT * FROM a WHERE s = :op"}},
            "the hole :op has the name of another column of queries\n  hint: give the hole a new",
        ),
        (
            {"templates": {"f": "SELECT x AS event FROM a WHERE x > :lo"}, "output": "rows"},
            "template 'f' selects a column called 'event', which answers have already",
        ),
        (
            {"templates": {"f": "SELECT x AS Event FROM a WHERE x > :lo"}, "output": "rows"},
            "template 'f' selects a column called 'Event', which answers have already",
        ),
        (
            {"templates": {"f": "SELECT x, id AS X FROM a WHERE x > :lo"}, "output": "rows"},
            "template 'f' selects 'X', and 'x' is selected too: Spark does not tell them apart",
        ),
        (
            {"templates": {"f": FILTER, "g": "SELECT s AS x FROM a WHERE x > :lo"},
             "output": "rows"},
            "template 'g' selects 'x' as string, another one as double",
        ),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_refused_by_name(spark, frames, given, said):
    assert said in refusal(spark, frames, **given)


@pytest.mark.parametrize(
    ("ddl", "said"),
    [
        (
            "template string, id bigint, lo double",
            "queries lack the column 'hi'\n"
            "  hint: columns are template, op, id, and one for each hole: :lo, :hi",
        ),
        ("id bigint, lo double, hi double", "queries lack the column 'template'"),
        (CHANGES + ", lo double", "queries have twice the column 'lo'"),
        (
            CHANGES + ", LO double",
            "queries have the columns 'lo' and 'LO', which Spark does not tell apart",
        ),
        (
            CHANGES.replace("id bigint", "id double"),
            "the column 'id' of queries is double\n  hint: make it int64",
        ),
        (
            CHANGES.replace("lo double", "lo array<double>"),
            "the column 'lo' of queries is array<double>\n"
            "  hint: make it int64, float64, text or a timestamp",
        ),
        (
            CHANGES.replace("lo double", "lo string"),
            "template 'f': parameter 'lo' takes numbers, got string",
        ),
    ],
)
def test_changes_with_wrong_columns_are_refused_by_name(spark, frames, ddl, said):
    assert said in refusal(spark, frames, queries=spark.createDataFrame([], ddl))


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        ({"time": "odd"}, "input 'a': the time column 'odd' is boolean\n  hint: whole numbers"),
        ({"time": "x"}, "input 'a': the time column 'x' is float64, not timestamp"),
        ({"time": "when"}, "input 'a': the time column 'when' is not declared"),
        ({"id": "x"}, "input 'a': the id column 'x' is float64"),
        ({"id": "odd"}, "input 'a': the id column 'odd' is boolean"),
        ({"key": "k"}, "input 'a': the key column 'k' is not declared"),
        ({"key": 5}, "input 'a': 5 cannot be a key\n  hint: name one or more columns"),
        ({"key": "id", "time": "at"}, "input 'a' is a table, because it has a key; tables have"),
    ],
)
def test_columns_that_cannot_mean_what_they_should_are_refused(spark, frames, meaning, said):
    assert said in refusal(spark, frames, inputs={"a": Source(frames["a"], **meaning)})


def test_an_input_that_nobody_reads_is_refused(spark, frames):
    both = {"a": frames["a"], "b": frames["b"]}
    said = "no template reads the input 'b'\n  hint: leave it out"
    assert refusal(spark, frames, inputs=both) == said


def test_a_frame_that_has_a_column_twice_is_refused(spark, frames):
    doubled = frames["a"].select("*", "x")
    said = "input 'a' has the column 'x' twice\n  hint: rename or drop one"
    assert refusal(spark, frames, inputs={"a": doubled}) == said
    said = "input 'a' has the columns 'x' and 'X', which Spark does not tell apart"
    twice = spark.createDataFrame([], "id bigint, x double, X double")
    assert refusal(spark, frames, inputs={"a": twice}) == f"{said}\n  hint: rename or drop one"


def test_a_frame_without_a_column_that_can_be_used_is_refused_with_its_types(spark, frames):
    """It was said that columns are a mapping, which the user had not written."""
    odd = spark.createDataFrame([], "x decimal(10,2), y boolean")
    said = (
        "input 'a' has no column that can be used: x is decimal(10,2), y is boolean\n  hint: whole"
    )
    assert refusal(spark, frames, inputs={"a": odd}).startswith(said)


@pytest.mark.parametrize("column", ["größe", "two words"])
def test_a_column_whose_name_templates_cannot_ask_for_is_told(spark, frames, column):
    """It was said to be unknown, or of a type that can be used."""
    odd = spark.createDataFrame([], f"id bigint, `{column}` double")
    sql = f'SELECT * FROM a WHERE "{column}" BETWEEN :lo AND :hi'
    said = (
        f"the column {column!r} of input 'a' is under a name that templates cannot ask for\n"
        "  hint: rename it"
    )
    assert f"template 'f': {said}" in refusal(
        spark, frames, inputs={"a": odd}, templates={"f": sql}
    )
    said = f"input 'a': the key column {column!r} is under a name that templates cannot ask for"
    assert refusal(spark, frames, inputs={"a": Source(odd, key=column)}).startswith(said)


def test_the_text_of_rows_that_cannot_be_read_is_not_asked_about(spark, frames):
    inputs = {"a": Source(frames["a"], text="s")}
    said = refusal(spark, frames, inputs=inputs, templates={"f": "SELECT * FROM a WHERE s = :lo"})
    assert said == (
        "template 'f': the column 's' of input 'a' is the text of rows that cannot be read\n"
        "  hint: only dead letters have it"
    )


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        ({"id": "id"}, "queries have a key, a time or an id named\n  hint: a Source of queries"),
        ({"text": "bad"}, "queries: there is no text column 'bad'\n  hint: columns: template, op"),
        ({"text": "lo"}, "queries: the text column 'lo' is double"),
        ({"text": "op"}, "queries: the column 'op' has the text of rows that cannot be read"),
    ],
)
def test_a_source_of_queries_names_nothing_but_a_text(spark, frames, meaning, said):
    assert said in refusal(spark, frames, queries=Source(frames["queries"], **meaning))
