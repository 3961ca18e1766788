"""Answers by others: recorded sqllogictest queries, answered by every way of filtering.

`tests/fixtures/slt` holds a part of the set; `python -m tests.contract.slt` runs whole files.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.laws import SMALL
from tests.contract.ranges import NoRange, Term, alternatives, text_of
from tests.contract.slt import Query, Script, is_recorded, read_script, run, standing
from tests.contract.worlds import CASES, Case

FOLDER = Path(__file__).parents[1] / "fixtures" / "slt"
FILES = sorted(FOLDER.glob("*.test.gz"))
FILTERS = [case for case in CASES if case.question == "filter"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
@pytest.mark.parametrize("case", FILTERS, ids=str)
def test_every_recorded_answer_is_given(case: Case, path: Path) -> None:
    script = read_script(path)
    # The slow ones answer a part of the part. Neighbours differ in form, so steps are odd.
    step = 5 if SMALL or case.way == "naive" else 3
    script = Script(script.tables, script.queries[::step])
    score = run(script, case.way)
    assert score.different == []
    assert score.conjunctions > 0
    assert score.rows_found > 0
    if case.max_attributes > 1:
        assert score.in_scope == score.n_queries >= 40, str(score)


def test_a_wrong_answer_is_noticed() -> None:
    script = read_script(FILES[0])
    wrong = [
        query._replace(expected=[*query.expected, "77"]) if i % 7 == 0 else query
        for i, query in enumerate(script.queries[:21])
    ]
    score = run(Script(script.tables, wrong), "naive")
    assert len(score.different) == 3


def test_values_are_compared_one_by_one_or_by_number_and_hash() -> None:
    values = [str(i) for i in range(9)]
    assert is_recorded(values, values)
    assert not is_recorded(values[1:], values)
    digest = "91ff90854a35e9226df03b9b06c2f9c8"  # of the three lines 1, 10, 2
    assert is_recorded(["1", "10", "2"], [f"3 values hashing to {digest}"])
    assert not is_recorded(["1", "2", "10"], [f"3 values hashing to {digest}"])
    assert not is_recorded(["1", "10"], [f"3 values hashing to {digest}"])
    assert is_recorded([], [])


def test_a_clause_becomes_alternatives_of_ranges() -> None:
    found = alternatives("a > 1 AND (b IN (2,2,3) OR (c BETWEEN 4 AND 5.5))")
    first = Term("a", ">", (1,))
    assert found == [
        [first, Term("b", "=", (2,))],
        [first, Term("b", "=", (3,))],
        [first, Term("c", "BETWEEN", (4, 5.5))],
    ]
    assert text_of(found[2]) == "a > 1 AND c BETWEEN 4 AND 5.5"


@pytest.mark.parametrize("where", ["a IS NULL", "a IN (SELECT b FROM c)", "a <> 3", "a > 1 b"])
def test_what_is_no_range_is_out_of_scope(where: str) -> None:
    with pytest.raises(NoRange):
        standing(Query("label", f"SELECT pk FROM t WHERE {where}", []))


def test_a_conjunction_keeps_its_text_and_its_literals_become_holes() -> None:
    sql = "SELECT pk FROM t WHERE ((a <= -4) AND b BETWEEN 1 AND 2.5)"
    (query,) = standing(Query("label-1", sql, []))
    assert query.template == "SELECT pk FROM t WHERE ((a <= :h0) AND b BETWEEN :h1 AND :h2)"
    assert query.literals == [-4, 1, 2.5]
