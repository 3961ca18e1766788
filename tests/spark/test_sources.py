"""What the columns of a frame mean, as far as its schema tells: no Spark is started for that."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from standfast.errors import BadInput
from standfast.spark import Source
from standfast.spark.sources import check_text, quoted, read, unusable

SCHEMA = StructType([
    StructField("id", LongType()), StructField("x", DoubleType()), StructField("s", StringType()),
    StructField("odd", BooleanType()), StructField("_corrupt_record", StringType()),
])  # fmt: skip


class Bare(DataFrame):
    """A frame of which nothing is known but its columns."""

    def __new__(cls, *_: Any) -> Bare:
        return object.__new__(cls)

    def __init__(self, schema: StructType) -> None:
        self._known = schema

    @property
    def schema(self) -> StructType:
        return self._known

    @property
    def columns(self) -> list[str]:
        return self._known.names


def source(**meaning: Any) -> Source:
    return Source(Bare(SCHEMA), **meaning)


def test_the_text_of_rows_that_cannot_be_read_is_no_column_of_an_input() -> None:
    plain, named = source(), source(text="_corrupt_record")
    _, declared = read({"a": plain, "b": named}, None)
    assert list(declared["a"].columns) == ["id", "x", "s", "_corrupt_record"]
    assert list(declared["b"].columns) == ["id", "x", "s"]
    what = ("b", "the text of rows that cannot be read", "only dead letters have it")
    assert unusable({"b": named})["_corrupt_record"] == what
    assert "_corrupt_record" not in unusable({"a": plain})


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        (
            {"text": "corrupt_record"},
            "input 'a': there is no text column 'corrupt_record'\n"
            "  hint: did you mean '_corrupt_record'?",
        ),
        ({"text": 5}, "input 'a': there is no text column 5\n  hint: columns: id, x, s, odd"),
        (
            {"text": "x"},
            "input 'a': the text column 'x' is double\n"
            "  hint: name the column that columnNameOfCorruptRecord names to Spark's reader",
        ),
        (
            {"text": "s", "id": "s"},
            "input 'a': the column 's' has the text of rows that cannot be read, and is used "
            "otherwise too\n  hint: let the reader put the text into a column of its own",
        ),
        ({"text": "s", "key": ["id", "s"]}, "input 'a': the column 's' has the text of rows"),
        ({"text": "s", "key": "s"}, "input 'a': the column 's' has the text of rows"),
    ],
)
def test_a_column_that_cannot_have_such_texts_is_refused(
    meaning: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        read({"a": source(**meaning)}, None)
    assert str(refused.value).startswith(said)


def test_a_column_that_changes_of_queries_have_cannot_have_such_texts() -> None:
    with pytest.raises(BadInput, match=r"^queries: the column 's' has the text of rows that"):
        check_text("queries", source(text="s"), ["template", "op", "id", "s"])
    check_text("queries", source(text="s"), ["template", "op", "id"])


def test_a_name_with_dots_and_backticks_is_that_of_one_column() -> None:
    assert quoted("a.b`c") == "`a.b``c`"
