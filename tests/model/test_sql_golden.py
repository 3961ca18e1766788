"""Every golden pair of tests/fixtures/sql: a template becomes exactly what stands beside it."""

from __future__ import annotations

import pytest

from model.golden import QUESTIONS, cases, inputs, outcome
from standfast.errors import UnsupportedQuery
from standfast.model.predicates import MAX_CONDITIONS, MAX_HOLES
from standfast.model.query import BandJoin, Filter, Hole, SelectJoin, WindowJoin
from standfast.model.sql import MAX_DEPTH, MAX_LENGTH, parse
from standfast.model.template import Template

ACCEPTED, REFUSED = cases("accepted"), cases("refused")


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.title)
def test_an_accepted_template_becomes_its_question(case):
    assert outcome(case.sql) == case.expected


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.title)
def test_a_refused_template_gets_its_message(case):
    assert outcome(case.sql) == case.expected


@pytest.mark.parametrize("pairs", [ACCEPTED, REFUSED], ids=["accepted", "refused"])
def test_the_golden_pairs_are_many_and_their_titles_differ(pairs):
    assert len(pairs) >= 60
    assert len({case.title for case in pairs}) == len(pairs)


def test_accepted_pairs_are_accepted_and_refused_pairs_are_refused():
    assert all(case.expected.startswith(QUESTIONS) for case in ACCEPTED)
    assert all("\nhint: " in case.expected for case in REFUSED)


def test_a_template_keeps_its_name_its_text_and_its_holes_in_order():
    sql = "SELECT * FROM trades WHERE shares > :n AND price BETWEEN :lo AND :hi AND shares < :n"
    template = Template.parse("alerts", sql, inputs())
    assert (template.name, template.sql) == ("alerts", sql)
    assert isinstance(template.question, Filter)
    holes = (Hole("n", "int64"), Hole("lo", "float64"), Hole("hi", "float64"))
    assert template.holes == holes


@pytest.mark.parametrize(
    ("between", "shape"),
    [
        ("t.pos - u.pos < :d", BandJoin),
        ("u.grid = t.grid", SelectJoin),
        ("u.grid = t.grid AND ABS(u.seen - t.seen) < :d", WindowJoin),
    ],
)
def test_where_a_condition_of_a_join_stands_is_invisible(between, shape):
    local = "u.pos > :a AND t.pos < 5 AND t.type = :b"
    written = [
        f"unit u JOIN target t ON {between} WHERE {local}",
        f"unit u JOIN target t ON {local} WHERE {between}",
        f"unit u JOIN target t ON {between} AND {local}",
        f"unit u INNER JOIN target t ON ({local}) AND ({between})",
        f"unit u, target t WHERE {local} AND {between}",
        f"unit u CROSS JOIN target t WHERE {between} AND ({local})",
    ]
    first, *rest = [parse(f"SELECT u.pos FROM {sources}", inputs()) for sources in written]
    assert isinstance(first, shape)
    assert all(question == first for question in rest)


def test_a_side_orders_its_rows_by_its_first_range_that_is_not_of_text():
    sql = """SELECT u.pos FROM unit u JOIN target t ON u.grid = t.grid
             WHERE u.model = :m AND u.seen > :s AND u.pos < :p AND t.type = :t"""
    unit, target = parse(sql, inputs()).sides
    assert unit.selected.column == "seen"
    assert [r.column for r in unit.further] == ["model", "pos"]
    assert target.selected is None
    assert [r.column for r in target.further] == ["type"]


def test_a_refusal_names_the_template():
    with pytest.raises(UnsupportedQuery) as caught:
        Template.parse("alerts", "SELECT * FROM trades WHERE prise < :p", inputs())
    assert caught.value.message == "template 'alerts': an unknown column: prise"
    assert caught.value.hint == "did you mean 'price'?"


def refusal(sql: object) -> str:
    with pytest.raises(UnsupportedQuery) as caught:
        parse(sql, inputs())
    return caught.value.message


def test_a_template_is_text():
    assert refusal(None) == "a template is text, got None"
    assert refusal(b"SELECT") == "a template is text, got b'SELECT'"


def test_a_template_has_a_greatest_length():
    sql = "SELECT * FROM trades WHERE price < :p "
    parse(sql + " " * (MAX_LENGTH - len(sql)), inputs())
    expected = "a template of 10,001 characters; at most 10,000 are allowed"
    assert refusal(sql + " " * (MAX_LENGTH - len(sql) + 1)) == expected


def test_a_template_has_a_greatest_depth():
    sql = "SELECT * FROM trades WHERE {}price < :p{}"
    parse(sql.format("(" * MAX_DEPTH, ")" * MAX_DEPTH), inputs())
    expected = "a template nested deeper than 32 at line 1, column 60"
    assert refusal(sql.format("(" * 33, ")" * 33)) == expected
    assert refusal(sql.format("(" * 4_000, ")" * 4_000)) == expected


def test_a_template_has_a_greatest_number_of_holes():
    def sql(n_holes: int) -> str:
        conditions = " AND ".join(f"price < :h{i}" for i in range(n_holes))
        return f"SELECT * FROM trades WHERE {conditions}"

    question = parse(sql(MAX_HOLES), inputs())
    assert len(question.ranges[0].holes) == MAX_HOLES
    assert refusal(sql(MAX_HOLES + 1)) == "more than 64 holes: :h64"


def test_a_template_has_a_greatest_number_of_conditions():
    def sql(n_conditions: int) -> str:
        return "SELECT * FROM trades WHERE price > :p" + " AND price < 1" * (n_conditions - 1)

    parse(sql(MAX_CONDITIONS), inputs())
    assert refusal(sql(MAX_CONDITIONS + 1)) == "more than 256 conditions: price < 1"


@pytest.mark.parametrize("piece", ["NOT ", "- ", "~ ", "price < ", "CASE WHEN ", "price AND "])
def test_a_long_chain_is_refused_not_a_crash(piece):
    assert refusal(f"SELECT * FROM trades WHERE {piece * (9_900 // len(piece))}price < :p")
