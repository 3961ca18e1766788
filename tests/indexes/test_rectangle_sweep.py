"""Counting by a sweep: against the definition, and where it is chosen instead of lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.indexes import rectangle_sweep
from standfast.indexes.rectangle_hits import A_CALLER, AN_END
from standfast.indexes.rectangle_sweep import swept, worth
from standfast.indexes.rectangle_tree import RectangleTree
from standfast.indexes.rectangle_visits import Callers, Limits

LEAST, FAR = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def some_callers(rng: np.random.Generator, n: int, n_codes: int, reach: int) -> Callers:
    values = rng.integers(-reach, reach, n)
    values[rng.random(n) < 0.1], values[rng.random(n) < 0.1] = LEAST, FAR
    codes = rng.integers(0, n_codes, n).astype(np.int32)
    return Callers(np.arange(n, dtype=np.int32), np.sort(values), codes)


def some_limits(rng: np.random.Generator, tree: RectangleTree, n_codes: int) -> Limits:
    most = tree.group_sizes()[:, None] + 1
    shape = most.size, n_codes
    return Limits(*(rng.integers(0, most, shape).astype(np.int32) for _ in range(2)))


def counted(tree: RectangleTree, callers: Callers, limits: Limits) -> list[int]:
    """How many living members each caller hits, one member after the other."""
    layout, counts = tree.rectangles, np.zeros(callers.values.size, np.int64)
    for g in range(tree.n_groups):
        for place in range(layout.offsets[g], layout.offsets[g + 1]):
            low, high = place - layout.offsets[g], layout.low_to_high[place]
            is_hit = (low < limits.lows[g]) | (high >= limits.highs[g])
            holds = (tree.axis.lows[place] <= callers.values) & (
                callers.values <= tree.axis.highs[place]
            )
            counts += holds & is_hit[callers.codes] & (tree.roll.slots[place] >= 0)
    return counts.tolist()


@given(st.integers(0, 1 << 30), st.integers(1, 40), st.integers(0, 30), st.integers(1, 9))
def test_a_sweep_counts_like_the_definition(seed, n, n_callers, at_once) -> None:
    rng, n_codes = np.random.default_rng(seed), 5
    reach = int(rng.choice([2, 20, 1000]))
    bounds = rng.integers(-reach, reach, (2, 2, n))
    bounds[rng.random(bounds.shape) < 0.1], bounds[rng.random(bounds.shape) < 0.1] = LEAST, FAR
    lows, highs = np.sort(bounds, axis=0)
    tree = RectangleTree(np.arange(n), lows, highs)
    codes = np.flatnonzero(rng.random(n_codes) < 0.6)
    callers = some_callers(rng, n_callers, n_codes, reach)
    callers, limits = callers.among(np.isin(callers.codes, codes)), some_limits(rng, tree, n_codes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rectangle_sweep, "AT_ONCE", at_once)
        for _ in range(2):
            ends = tree.roll.own_ends(tree.rectangles, tree.axis)
            assert swept(ends, callers, limits, codes).tolist() == counted(tree, callers, limits)
            tree.check()
            tree.bury(np.flatnonzero(tree.are_live(np.arange(n)) & (rng.random(n) < 0.4)))


def rectangles(n: int, n_groups: int, width: int) -> RectangleTree:
    """Own ranges of this width on a line of a million, other ranges around so many points."""
    rng = np.random.default_rng(7)
    own, point = rng.integers(0, 1_000_000, n), (np.arange(n) % n_groups + 1) * 1_000
    reach = rng.integers(1, 400, (2, n))
    lows, highs = np.array([own, point - reach[0]]), np.array([own + width, point + reach[1]])
    return RectangleTree(np.arange(n), lows, highs)


def is_worth(tree: RectangleTree, n_callers: int, share: float) -> bool:
    """Whether so many callers of a code are swept; of each group its rows hit this share."""
    values = np.sort(np.random.default_rng(8).integers(0, 1_000_000, n_callers))
    callers = Callers(np.arange(n_callers, dtype=np.int32), values, np.zeros(n_callers, np.int32))
    sizes = tree.group_sizes()[:, None]
    limits = Limits((share * sizes).astype(np.int32), sizes.astype(np.int32))
    (found,) = worth(tree.rectangles, tree.axis, callers, limits, an_end=AN_END, a_caller=A_CALLER)
    return bool(found)


@pytest.mark.parametrize(
    ("n_groups", "width", "share", "n_callers", "expected"),
    [
        (30, 100_000, 0.9, 200, True),
        (30, 100_000, 0.9, 10, False),
        (30, 500, 0.9, 200, False),  # hardly a range holds an event: its lists are short
        (30, 100_000, 0.0, 200, False),  # no row of the code is near: no list is read
        (1, 100_000, 1.0, 200, False),  # a group that is hit as a whole: its lists are not searched
        (1, 100_000, 0.5, 200, True),
        (10_000, 100_000, 0.9, 5, False),  # as many limits to turn as ends to pass
        (10_000, 100_000, 0.9, 200, True),
    ],
)
def test_a_sweep_is_chosen_where_lists_would_cost_more(
    n_groups, width, share, n_callers, expected
) -> None:
    assert is_worth(rectangles(10_000, n_groups, width), n_callers, share) is expected


def test_nobody_is_swept_where_nobody_calls() -> None:
    tree, nobody = rectangles(10, 2, 5), np.empty(0, np.int32)
    limits = Limits(*np.zeros((2, tree.n_groups, 0), np.int32))
    callers = Callers(nobody, np.empty(0, np.int64), nobody)
    found = worth(tree.rectangles, tree.axis, callers, limits, an_end=0.0, a_caller=0.0)
    assert found.tolist() == []


def test_a_wrong_end_is_noticed() -> None:
    tree = rectangles(50, 3, 5_000)
    tree.bury(np.arange(0, 50, 4))
    _, high = tree.roll.own_ends(tree.rectangles, tree.axis)
    tree.check()
    high.groups[7] = (high.groups[7] + 1) % (tree.n_groups + 1)
    with pytest.raises(AssertionError, match=r"who is gone|a wrong group"):
        tree.check()
    tree.axis.ends(tree.rectangles)[0].highs[3] += 1
    with pytest.raises(AssertionError, match="a wrong high rank"):
        tree.check()
