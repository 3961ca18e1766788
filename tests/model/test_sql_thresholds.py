"""Golden pairs of key thresholds: what templates become, and what is refused with which words.

`tests/fixtures/sql/thresholds.txt` has the cases, as its README says; this compares and never
writes.
"""

from __future__ import annotations

import pytest
from tests.model.golden import Case, cases

from standfast.errors import UnsupportedQuery
from standfast.model.query import Bound, Hole, KeyThreshold, Range
from standfast.model.stream import Input
from standfast.model.template import Template

COLUMNS = {"symbol": "string", "price": "float64", "shares": "int64", "ts": "timestamp"}
INPUTS = {
    "trades": Input.stream("trades", COLUMNS, time="ts"),
    "untimed": Input.stream("untimed", COLUMNS),
}


def outcome(sql: str) -> str:
    """The question as text, or the refusal."""
    try:
        question = Template.parse("t", sql, INPUTS).question
    except UnsupportedQuery as refused:
        return f"refused: {refused}"
    if not isinstance(question, KeyThreshold):
        return f"not a threshold: {type(question).__name__}"
    fixed = "".join(f"\nfixed {shown(wanted)}" for wanted in question.fixed)
    return (
        f"key_threshold {question.input} by {question.key} as {question.key_name}\n"
        f"{question.function} of {question.column}, {question.result}\n"
        f"window {shown(question.window)}\nbound {shown(question.bound)}{fixed}"
    )


def shown(wanted: Range) -> str:
    ends = [_end(">", bound) for bound in wanted.lows] + [
        _end("<", bound) for bound in wanted.highs
    ]
    return f"{wanted.column} {wanted.kind}: {', '.join(ends)}"


def _end(operator: str, bound: Bound) -> str:
    value = f":{bound.value.name}" if isinstance(bound.value, Hole) else repr(bound.value)
    return f"{operator}{'' if bound.strict else '='} {value}"


@pytest.mark.parametrize("case", cases("thresholds"), ids=lambda case: case.title)
def test_a_template_becomes_what_it_says(case: Case):
    assert outcome(case.sql) == case.expected
