"""Law: an answer that is written in pieces says what it says in one, and no piece is too large.

Pairs, result rows and counts are read with a bound on what is enumerated at once. Rows are cut only
where that is asked for, and a query that a self join meets on both sides is named once.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
from tests.contract.histories import Draft
from tests.contract.laws import Tally, every_case, hold_for_all
from tests.contract.playing import Player, pairs_of, result_rows, seen
from tests.contract.worlds import Case, draw_world

from standfast import Answer


def cutting_answers_is_invisible(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_world(rng, case)
    player = Player(world, [case.way])
    for action in Draft(world, rng, tally=tally).actions(rng.randint(4, 10)):
        for answer in player.play(action).values():
            most = rng.choice([1, 2, 3, 7])
            check_pairs(answer, most, tally)
            check_rows(answer, most, tally)
            check_counts(answer, most)


def check_pairs(answer: Answer, most: int, tally: Tally) -> None:
    found = []
    for first, piece in answer.pieces(most, "pair"):
        pairs = pairs_of(piece.pairs())
        assert len(pairs) <= most
        found += [(first + row, query, change) for row, query, change in pairs]
    assert sorted(found) == seen(answer).pairs
    by_row = Counter(row for row, _, _ in found)
    tally["rows that were cut"] += sum(n > most for n in by_row.values())
    tally["answers that were cut"] += len(found) > most


def check_rows(answer: Answer, most: int, tally: Tally) -> None:
    table, pushed = answer.traced_rows()
    wanted = Counter(zip(map(repr, result_rows(table)), pushed.tolist(), strict=True))
    found: Counter[tuple[str, int]] = Counter()
    for rows, of in answer.traced_pieces(most):
        assert 0 < rows.num_rows <= most
        found.update(zip(map(repr, result_rows(rows)), of.tolist(), strict=True))
        tally["pieces of rows"] += 1
    assert found == wanted


def check_counts(answer: Answer, most: int) -> None:
    """Rows are whole unless cutting is asked for, so that they may be counted by piece."""
    counts = np.zeros(answer.n_rows, np.int64)
    for first, piece in answer.pieces(most):
        some = piece.counts()["queries"].to_numpy()
        assert piece.n_rows == 1 or piece.pairs().num_rows <= most
        counts[first : first + piece.n_rows] += some
    assert counts.tolist() == answer.counts()["queries"].to_pylist()


@every_case
def test_cutting_answers_is_invisible(case: Case) -> None:
    assert hold_for_all(
        cutting_answers_is_invisible, case, "rows that were cut", "answers that were cut",
        "pieces of rows",
    )  # fmt: skip
