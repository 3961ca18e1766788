"""Law: every strategy answers what the naive one answers, and both what the definition says.

Each way stands beside naive in one engine and sees the same history. After every action the two
answers are equal in all their forms, equal to what the oracle expects of this action, and all
changes so far add up to the results worked out from scratch.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.contract.histories import Draft
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.oracle import Expected, Model
from tests.contract.playing import Player, Seen, expect, nonzero, seen
from tests.contract.worlds import Case, draw_world


def matches_naive(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case, timed=0.2)
    player, model = Player(world, dict.fromkeys([case.way, "naive"])), Model(world)
    before = Counter()
    for action in Draft(world, rng, tally=tally).actions(rng.randint(2, 8)):
        answers = {way: seen(answer) for way, answer in player.play(action).items()}
        expected = expect(model, player, action)
        after = model.results()
        tally["actions"] += 1
        if expected is not None:
            assert answers[case.way] == answers["naive"], f"{case} differs from naive: {action}"
            check_forms(answers[case.way], expected, is_self_join=world.is_self_join)
            assert answers[case.way].change == expected.change == _difference(after, before), (
                f"the changes are not those of the results: {action}"
            )
            tally["pairs"] += len(expected.pairs)
            tally["rows"] += len(answers[case.way].rows)
            tally["results that went"] += sum(change < 0 for *_, change in expected.pairs)
        before = after


def _difference(after: Counter, before: Counter) -> Counter:
    total = after.copy()
    total.subtract(before)
    return nonzero(total)


def check_forms(answer: Seen, expected: Expected, *, is_self_join: bool) -> None:
    """Pairs, spans and counts say the same, namely what the oracle says."""
    assert answer.pairs == expected.pairs, "pairs differ from the definition"
    # A row of a self join has spans for each side, and both can name the same query.
    spans = sorted(set(answer.spans)) if is_self_join else answer.spans
    assert spans == expected.pairs, "spans differ from the pairs"
    # Whoever lost the old row and got the new one was affected once.
    affected = {(row, query) for row, query, _ in expected.pairs}
    by_row = Counter(row for row, _ in affected)
    assert answer.by_row == [(row, by_row[row]) for row in range(len(answer.by_row))]
    assert answer.by_query == sorted(Counter(query for _, query in affected).items())


@every_case
def test_every_strategy_matches_naive_and_the_definition(case: Case) -> None:
    assert hold_for_all(
        matches_naive, case, "pairs", "rows", "results that went", seeds=10, examples=3
    )
