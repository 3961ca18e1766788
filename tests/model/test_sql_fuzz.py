"""Whatever text comes as a template: it becomes a question or is refused, nothing else."""

from __future__ import annotations

import logging

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model.golden import QUESTIONS, cases, inputs, outcome
from standfast.errors import UnsupportedQuery
from standfast.model.sql import parse

KEYWORDS = """
    SELECT * FROM WHERE AND OR NOT BETWEEN JOIN ON AS ABS IN IS NULL LIKE CASE WHEN THEN END USING
    DISTINCT GROUP BY ORDER LIMIT UNION OVER PARTITION LEFT CROSS LATERAL VALUES WITH INTERVAL
    TIMESTAMP DATE CAST EXISTS ALL ANY UNNEST PIVOT TABLE trades unit target u t price pos grid
    seen ts symbol shares :lo :hi :w :id ? @x $y ( ) [ ] { } , . ; : :: - + / % < <= > >= = <>
    <=> -> ->> || | & ^ ~ ! 0 1 -1 1.5 1e400 .5 'a' '2024-01-01' "price" `x` -- /* */ # \\
"""
WORDS = [*KEYWORDS.split(), "\n"]


def outcome_is_a_question_or_a_refusal(sql: str) -> None:
    text = outcome(sql)
    assert text.startswith(QUESTIONS) or "\nhint: " in text


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(max_size=200))
@example("\x00")
@example("\ud800")
@example("SELECT \u0661 FROM trades")
def test_random_text_is_refused(text):
    outcome_is_a_question_or_a_refusal(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(max_size=60), st.text(max_size=60))
@example("trades WHERE price < ", "AND price < 1e99999999999999999999999")
def test_random_text_inside_a_statement_is_refused(first, second):
    outcome_is_a_question_or_a_refusal(f"SELECT * FROM {first} :p {second}")


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join))
def test_random_words_of_sql_are_read_or_refused(text):
    outcome_is_a_question_or_a_refusal(f"SELECT {text}")


@settings(max_examples=250, deadline=None, derandomize=True)
@given(
    st.sampled_from([case.sql for case in cases("accepted")]),
    st.lists(st.tuples(st.integers(0, 40), st.sampled_from(WORDS)), min_size=1, max_size=4),
)
def test_a_good_template_with_words_exchanged_is_read_or_refused(sql, changes):
    words = sql.split(" ")
    for place, word in changes:
        words[place % len(words)] = word
    outcome_is_a_question_or_a_refusal(" ".join(words))


def test_refusing_writes_nothing_to_the_log(caplog):
    with caplog.at_level(logging.DEBUG):
        for case in cases("refused"):
            with pytest.raises(UnsupportedQuery):
                parse(case.sql, inputs())
    assert not caplog.records
