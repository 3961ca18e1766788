"""The router answers as every way does, chooses what its estimates say, and builds what pays."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from tests.operators.reading import slots_in_spans, slots_of
from tests.operators.routing import Fake, fill, matches, routing_of, run

from standfast.arrays import Int64s, Spans
from standfast.operators.assignment import STILL_WORTH, WORTH, assign
from standfast.operators.contest import Contests, Verdict
from standfast.operators.costs import Constants, Model, Term, WayCosts
from standfast.operators.group_stats import GroupStats, least_hot
from standfast.operators.split import Part, Split, joined


def spans(order: list[int], *cuts: tuple[int, int]) -> Spans:
    starts, stops = np.array(cuts, np.int32).reshape(-1, 2).T
    return Spans(np.arange(len(cuts) + 1), starts, stops, np.array(order, np.int32))


def test_parts_are_put_together_in_the_order_of_the_events() -> None:
    split = Split(
        4,
        (
            Part(np.array([0, 3]), matches([5, 6], [7])),
            Part(np.array([1, 2]), spans([9, -1, 8, 4], (0, 3), (3, 4))),
        ),
    )
    expected = [[5, 6], [8, 9], [4], [7]]
    assert split.counts().tolist() == [2, 2, 1, 1]
    assert slots_of(split) == expected
    assert slots_in_spans(split) == expected


def test_a_split_of_nothing_is_nothing() -> None:
    split = Split(0, ())
    assert split.counts().size == split.spans().events.size == 0
    assert slots_of(split) == []


def test_a_part_with_all_events_is_the_answer_itself() -> None:
    whole = matches([1], [2])
    assert joined(2, [Part(np.arange(2), whole)]) is whole
    assert isinstance(joined(3, [Part(np.arange(2), whole)]), Split)


@pytest.mark.parametrize("seed", range(5))
def test_a_random_split_equals_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lists = [rng.choice(50, rng.integers(0, 6), replace=False).tolist() for _ in range(30)]
    ways = rng.integers(0, 3, 30)
    parts = []
    for way in range(3):
        places = np.flatnonzero(ways == way)
        chosen = [lists[p] for p in places]
        if way == 1:
            order = [slot for slots in chosen for slot in slots]
            ends = np.cumsum([0] + [len(c) for c in chosen])
            cuts = list(pairwise(ends))
            parts.append(Part(places, spans(order, *cuts)))
        else:
            parts.append(Part(places, matches(*chosen)))
    split = joined(30, parts)
    assert slots_of(split) == slots_in_spans(split) == [sorted(slots) for slots in lists]


def best_choice(costs: np.ndarray, calls: np.ndarray) -> float:
    """The least cost over all sets of ways: what `assign` comes close to."""
    n, best = calls.size, np.inf
    for chosen in range(1, 2**n):
        ways = [w for w in range(n) if chosen >> w & 1]
        best = min(best, costs[ways].min(axis=0).sum() + calls[ways].sum())
    return float(best)


@pytest.mark.parametrize("seed", range(20))
def test_the_choice_is_close_to_the_best_set_of_ways(seed: int) -> None:
    rng = np.random.default_rng(seed)
    costs, calls = rng.uniform(0, 10, (4, 30)), rng.uniform(0, 40, 4)
    choice, gains = np.empty(30, np.int64), np.empty(4)
    first = int(np.argmin(calls + costs.sum(axis=1)))
    assign(costs, calls, np.ones(4, np.bool_), first, WORTH, choice, gains)
    cost = costs[choice, np.arange(30)].sum() + calls[np.unique(choice)].sum()
    assert cost <= 1.35 * best_choice(costs, calls), "an event moves for a clear gain only"
    assert cost <= (costs.sum(axis=1) + calls).min(), "choosing makes nothing worse"


def test_an_event_is_not_sent_alone_when_the_call_costs_more_than_it_saves() -> None:
    costs = np.array([[5.0, 5.0, 5.0], [1.0, 9.0, 9.0]])
    choice, gains = np.empty(3, np.int64), np.empty(2)
    assign(costs, np.array([1.0, 4.5]), np.ones(2, np.bool_), 0, WORTH, choice, gains)
    assert choice.tolist() == [0, 0, 0]
    assign(costs, np.array([1.0, 0.5]), np.ones(2, np.bool_), 0, WORTH, choice, gains)
    assert choice.tolist() == [1, 0, 0]


def test_a_way_that_is_not_built_is_told_what_it_would_save() -> None:
    costs = np.array([[5.0, 5.0, 5.0], [1.0, 9.0, 2.0]])
    choice, gains = np.empty(3, np.int64), np.empty(2)
    assign(costs, np.array([1.0, 2.0]), np.array([True, False]), 0, WORTH, choice, gains)
    assert choice.tolist() == [0, 0, 0]
    assert gains.tolist() == pytest.approx([0, 4 + 3 - 2])


def test_a_way_that_is_not_built_would_also_save_the_call_of_the_one_in_use() -> None:
    """Where calls are most of the cost, as in small batches, no other way was ever built."""
    costs = np.array([[2.0, 2.0], [2.0, 2.5]])
    choice, gains = np.empty(2, np.int64), np.empty(2)
    assign(costs, np.array([100.0, 1.0]), np.array([True, False]), 0, WORTH, choice, gains)
    assert choice.tolist() == [0, 0]
    assert gains.tolist() == pytest.approx([0, 104 - 5.5])
    assign(costs, np.array([2.0, 1.0]), np.array([True, False]), 0, WORTH, choice, gains)
    assert gains[1] <= 0, "too little to be sure of"


def test_a_mixture_that_is_on_trial_may_save_less_than_one_that_is_to_begin() -> None:
    """Estimates that wavered around the least gain ended every trial before it was decided."""
    costs = np.array([np.full(50, 10.0), np.full(50, 20.0)])
    costs[1, 0] = 1.0  # saves 9 of 500
    for worth, n_others in ((WORTH, 0), (STILL_WORTH, 1)):
        choice, gains = np.empty(50, np.int64), np.empty(2)
        assign(costs, np.array([1.0, 1.0]), np.ones(2, np.bool_), 0, worth, choice, gains)
        assert np.count_nonzero(choice) == n_others


def test_the_mixture_is_on_trial_in_its_contests_and_while_it_holds_the_place() -> None:
    contests = Contests(2)
    contests.single = 0
    seen, usable = np.array([10.0, 20.0, 9.0]), np.array([True, True, True])
    assert not contests.is_mixing
    contests.challenge(1, seen, seen, usable)
    assert contests.now is not None
    assert contests.now.challenger == contests.mixture
    assert contests.is_mixing
    contests.end(Verdict(contests.mixture, is_clear=True, lost=0.5), 9)
    assert contests.now is None
    assert contests.is_mixing


def test_a_way_is_built_when_its_credit_has_reached_the_price() -> None:
    routing, _ = routing_of("groups", "select_first")
    fill(routing, 3)  # so building costs 30 us
    for batch in range(3):
        assert list(routing.built) == ["groups"], f"too early, at batch {batch}"
        hits = run(routing, [[10.0, 10.0], [1.0, 7.0]])  # would save 8 + 2 - 1 us
    hits = run(routing, [[10.0, 10.0], [1.0, 30.0]])
    assert set(routing.built) == {"groups", "select_first"}
    assert routing.built["select_first"].slots == {0, 1, 2}
    assert routing.last.tolist() == [1, 0]
    assert slots_of(hits) == [[0, 1, 2], [0, 1, 2]]


def test_a_built_way_follows_what_comes_and_goes() -> None:
    routing, _ = routing_of("groups", "select_first", build=0.0)
    fill(routing, 3)
    run(routing, [[10.0, 10.0], [1.0, 20.0]])
    fill(routing, 2, first=7)
    routing.remove(np.array([1]))
    assert all(way.slots == {0, 2, 7, 8} for way in routing.built.values())
    assert len(routing.built) == 2
    assert len(routing.queries) == 4
    routing.check()


def test_a_way_whose_rent_nobody_pays_is_dropped() -> None:
    routing, clock = routing_of("groups", "select_first", build=0.0)
    fill(routing, 3)
    run(routing, [[10.0], [1.0]])
    assert len(routing.built) == 2

    class Slow(Fake):
        def remove(self, slots: Int64s) -> None:
            clock.now += 1e-3
            super().remove(slots)

    slow = Slow()
    slow.slots = {0, 1, 2}
    routing.built["groups"] = slow
    routing.remove(np.array([2]))
    assert list(routing.built) == ["select_first"]
    assert routing.n_dropped == 1
    assert slots_of(run(routing, [[20.0], [10.0]])) == [[0, 1]]
    routing.drop("select_first")
    assert list(routing.built) == ["select_first"], "the last way stays"


def test_a_router_that_lost_all_queries_holds_one_empty_way() -> None:
    routing, _ = routing_of("groups", "select_first", build=0.0)
    fill(routing, 500)
    run(routing, [[10.0, 10.0], [1.0, 20.0]])
    assert len(routing.built) == 2
    routing.remove(np.arange(500))
    assert list(routing.built) == ["groups"]
    assert routing.memory_bytes() < 100
    fill(routing, 2, first=500)
    assert slots_of(run(routing, [[1.0], [2.0]])) == [[500, 501]]


def test_a_batch_of_nothing_is_not_looked_at() -> None:
    routing, _ = routing_of("groups")
    assert run(routing, [[]]).n_events == 0
    assert routing.n_batches == 0


def test_a_description_names_shares_and_costs() -> None:
    routing, _ = routing_of("groups", "select_first")
    assert "groups 0% of events, not measured yet, no estimate" in routing.describe()["routes"]
    fill(routing, 2)
    run(routing, [[1.0], [2.0]])
    first, second = str(routing.describe()["routes"]).split("; ")
    assert first.startswith("groups 100% of events, not measured yet, 2.00 us estimated"), (
        "the first batch after a change puts the way in order"
    )
    assert second.startswith("select_first 0% of events, not measured yet, 3.00 us estimated")
    run(routing, [[1.0], [2.0]])
    text = str(routing.describe()["routes"])
    assert text.startswith("groups 100% of events, measured at ")
    routing.choosing, routing.choosing_us = 1.0, 20.0
    assert routing.describe()["us to choose in a batch, lately"] == 20, "compiling is left out"
    assert routing.memory_bytes() > 0


def test_weights_are_stats_times_constants() -> None:
    terms = {"call": 7.0, "event": 1.0, "queries": 0.5, "queries_search": 0.25}
    ways = dict.fromkeys(["per_tuple", "merge", "groups", "hotspot"])
    zero = {way: WayCosts(0, 0, _Zeros()) for way in ways}
    known = Constants("a test", {"band_join": zero | {"per_query": WayCosts(2, 0, terms)}})
    model = Model("band_join", known)
    stats = dict.fromkeys(model.stats, 0.0) | {"one": 1.0, "queries": 10, "queries_search": 40}
    weights = model.weights(stats)
    at = model.ways.index("per_query")
    assert weights[at].tolist() == [7, 1 + 5 + 10]
    assert model.builds[at] == 2
    assert weights.sum() == 7 + 16, "the others cost nothing"
    assert Term("one", "one").name == "event"


class _Zeros(dict[str, float]):
    def __missing__(self, key: str) -> float:
        return 0.0


def test_a_group_is_hot_where_it_costs_less_than_its_members() -> None:
    assert least_hot(10.0, 0.0, 1.0) == pytest.approx(10, rel=0.06)
    assert least_hot(10.0, 0.0, 100.0) == 1
    assert least_hot(1.0, 1.0, 0.0) >= 2**31, "members that cost nothing are never worth a group"
    size = least_hot(3.0, 2.0, 0.1)
    assert 3 + 2 * np.log2(1 + size) == pytest.approx(0.1 * size, rel=0.06)


def test_hot_and_scattered_follow_the_size_that_decides() -> None:
    groups = GroupStats()
    groups.learn(np.array([1, 3, 15, 63]))
    assert groups.decide(10.0, 0.0, 1.0), "drifted from 1 to 10"
    stats = groups.stats
    assert (stats["groups"], stats["hot"], stats["scattered"]) == (4, 2, 4)
    assert (stats["sizes"], stats["hot_sizes"]) == (1 + 2 + 4 + 6, 4 + 6)
    assert not groups.decide(15.0, 0.0, 1.0), "less than twice as much"
    assert groups.is_known
    assert groups.hot_share(1000) == pytest.approx(0.01, rel=0.06)
    groups.learn(np.array([1, 3, 15, 63]), np.array([63]), 19)
    assert (groups.stats["hot"], groups.stats["scattered"]) == (1, 19), "as somebody keeps them"
    groups.forget()
    assert not groups.is_known


def test_a_given_share_decides_what_is_hot() -> None:
    groups = GroupStats(alpha=0.1)
    groups.learn(np.array([5, 10, 85]))
    assert not groups.decide(1000.0, 0.0, 1.0)
    assert (groups.stats["hot"], groups.hot_share(100)) == (2, 0.1)
