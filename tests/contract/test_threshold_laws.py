"""The laws of the contract for key thresholds: every aggregate, both ways, every kind of bound."""

from __future__ import annotations

from collections import Counter
from random import Random

import numba
import pytest
from tests.contract.capacities import tiny_capacities
from tests.contract.threshold_worlds import (
    BOUNDS,
    FUNCTIONS,
    Draft,
    Model,
    Player,
    World,
    draw_world,
)
from tests.contract.window_worlds import Add, Advance, Push, Remove

from standfast import Engine

SEEDS = 2 if numba.config.DISABLE_JIT else 5

every_function = pytest.mark.parametrize("function", FUNCTIONS)


def play(world: World, rng: Random, n: int) -> int:
    """A history played by every way and by the model, compared after every action."""
    player, model = Player(world, [*world.ways, "auto"]), Model(world)
    n_found = 0
    for action in Draft(world, rng).actions(n):
        player.play(action)
        is_reported = model.play(action)
        expected = model.answers()
        n_found += len(expected)
        for way in player.ways:
            assert player.found(way) == expected, (way, action)
            if is_reported:
                assert player.sums[way] == expected, (way, action)
        player.engine.check()
    return n_found


@every_function
def test_every_way_answers_what_brute_force_answers(function):
    n_found = 0
    for seed in range(SEEDS):
        rng = Random(f"{function} {seed}")
        n_found += play(draw_world(rng, function), rng, 14)
    assert n_found


@every_function
def test_tiny_capacities_change_no_answer(function):
    with tiny_capacities():
        for seed in range(SEEDS // 2):
            rng = Random(f"tiny {function} {seed}")
            play(draw_world(rng, function), rng, 14)


@pytest.mark.parametrize("bound", BOUNDS)
def test_every_kind_of_bound_is_kept(bound):
    for function in FUNCTIONS:
        rng = Random(f"{bound} {function}")
        play(draw_world(rng, function)._replace(bound=bound), rng, 8)


@every_function
def test_how_rows_are_cut_into_batches_is_invisible(function):
    n_found = 0
    for seed in range(max(4, SEEDS // 3)):
        rng = Random(f"cut {function} {seed}")
        world = draw_world(rng, function)
        whole, cut = Player(world, world.ways), Player(world, world.ways)
        for action in Draft(world, rng).actions(10):
            whole.play(action)
            for piece in _cut(action, rng):
                cut.play(piece)
        for way in world.ways:
            assert whole.found(way) == cut.found(way)
            assert whole.sums[way] == cut.sums[way]
            n_found += len(whole.sums[way])
    assert n_found


def _cut(action, rng):
    if not isinstance(action, Push):
        return [action]
    places = sorted(rng.randint(0, len(action.rows)) for _ in range(3))
    ends = [*places, len(action.rows)]
    return [Push(action.rows[i:j]) for i, j in zip([0, *places], ends, strict=True)]


@every_function
def test_the_order_of_rows_within_the_lateness_is_invisible(function):
    """Rows arrive in any order: ties and late rows leave no trace."""
    for seed in range(max(4, SEEDS // 3)):
        rng = Random(f"order {function} {seed}")
        world = draw_world(rng, function)._replace(bound=">= :low")
        draft = Draft(world, rng)
        add, rows = draft.add(4), []
        add.params["low"] = [-100, -5, 0, 3]
        for _ in range(24):
            draft.now += rng.choice([0, 1])
            rows.append((draft.now, draft.value(), draft.key(), 1))
        one, other = Player(world, world.ways), Player(world, world.ways)
        for player in (one, other):
            player.play(add)
            for i in range(0, len(rows), 5):
                player.play(Push(rows[i : i + 5]))
            rng.shuffle(rows)
        for way in world.ways:
            assert one.found(way) == other.found(way) != {}


@every_function
def test_queries_that_come_and_go_leave_no_trace(function):
    for seed in range(max(4, SEEDS // 3)):
        rng = Random(f"trace {function} {seed}")
        world = draw_world(rng, function)
        player, alone = Player(world, world.ways), Player(world, world.ways)
        for action in Draft(world, rng).actions(8):
            player.play(action)
            alone.play(action)
            more = Draft(world, rng)
            more.next_id = 1000
            guests = more.add(3)
            player.play(guests)
            player.play(Push([]))
            player.play(Remove(guests.ids))
        for way in world.ways:
            assert player.found(way) == alone.found(way)
            assert player.sums[way] == alone.sums[way]
        player.engine.check()


@every_function
def test_a_snapshot_goes_on_where_it_was_taken(function):
    for seed in range(max(4, SEEDS // 3)):
        rng = Random(f"snapshot {function} {seed}")
        world = draw_world(rng, function)
        player, model = Player(world, world.ways), Model(world)
        for action in Draft(world, rng).actions(12):
            player.play(action)
            is_reported = model.play(action)
            data = player.engine.to_bytes()
            player.engine = Engine.from_bytes(data, clock=lambda: 2**50)
            assert player.engine.to_bytes() == data
            for way in world.ways:
                assert player.found(way) == model.answers()
                assert not is_reported or player.sums[way] == model.answers()
        player.engine.check()


@every_function
def test_switching_the_strategy_is_invisible(function):
    for seed in range(max(4, SEEDS // 3)):
        rng = Random(f"switch {function} {seed}")
        world = draw_world(rng, function)
        player, model = Player(world, ["naive"]), Model(world)
        for action in Draft(world, rng).actions(14):
            player.play(action)
            is_reported = model.play(action)
            assert player.found("naive") == model.answers()
            assert not is_reported or player.sums["naive"] == model.answers()
            player.engine.groups["naive"].switch(rng.choice(world.ways))
            assert player.found("naive") == model.answers()
        player.engine.check()


@every_function
def test_published_answers_do_not_change(function):
    rng = Random(f"published {function}")
    world = draw_world(rng, function)._replace(bound=">= :low")
    engine, answers = world.engine(), []
    for way in world.ways:
        engine.register(world.sql, name=way, strategy=way).add({"left": [40, 3], "low": [-99, 0]})
    draft = Draft(world, rng)
    for _ in range(6):
        rows = draft.push(8).rows
        pushed = {name: [row[i] for row in rows] for i, name in enumerate(("ts", "v", "k", "o"))}
        answers += [
            (answer, answer.rows().to_pylist(), answer.pairs().to_pylist())
            for answer in engine.push("s", pushed).values()
        ]
    for answer, rows, pairs in answers:
        assert answer.rows().to_pylist() == rows
        assert answer.pairs().to_pylist() == pairs
    assert any(rows for _, rows, _ in answers)


@every_function
def test_ranges_split_into_disjoint_answers_that_add_up(function):
    """low .. middle and middle + 1 .. high make low .. high; above and not above make all keys."""
    rng = Random(f"split {function}")
    world = World(function, "int64", "string", "BETWEEN :low AND :high")
    player = Player(world, world.ways)
    most = 2**62
    lows, highs = [1, 1, 5, -most, -most, 1], [9, 4, 9, most, 0, most]
    player.play(Add([*range(6)], {"left": [40] * 6, "low": lows, "high": highs, "id": [*range(6)]}))
    draft = Draft(world, rng)
    for _ in range(8):
        player.play(draft.push(12))
        for way in world.ways:
            keys = {q: {k for query, k in player.found(way) if query == q} for q in range(6)}
            assert keys[0] == keys[1] | keys[2]
            assert not keys[1] & keys[2]
            assert keys[3] == keys[4] | keys[5]
            assert not keys[4] & keys[5]


def test_minima_are_maxima_of_negated_values_and_counts_are_sums_of_ones():
    rng, engine = Random(3), Engine(clock=lambda: 2**50)
    columns = {"ts": "timestamp", "v": "int64", "w": "int64", "one": "int64", "k": "int64"}
    engine.stream("s", columns, time="ts")
    over = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN :left PRECEDING AND CURRENT ROW)"
    low, window = [*range(-9, 10)], [rng.randint(0, 20) for _ in range(19)]
    turned = {"left": window, "t": [-t for t in low]}
    for name, condition, params in (
        ("MIN", f"MIN(v) {over} <= :t", {"left": window, "t": low}),
        ("MAX", f"MAX(w) {over} >= :t", turned),
        ("COUNT", f"COUNT(v) {over} >= :t", {"left": window, "t": low}),
        ("SUM", f"SUM(one) {over} >= :t", {"left": window, "t": low}),
    ):
        engine.register(f"SELECT k FROM s QUALIFY {condition}", name=name).add(params)
    for step in range(20):
        values = [rng.randint(-9, 9) for _ in range(6)]
        times = [10**6 + 3 * step + rng.randint(-4, 3) for _ in values]
        keys = [rng.randrange(5) for _ in values]
        rows = {"ts": times, "v": values, "w": [-v for v in values], "one": [1] * 6, "k": keys}
        engine.push("s", rows)
        found = {name: group.lookup().to_pylist() for name, group in engine.groups.items()}
        assert found["MIN"] == found["MAX"]
        assert found["COUNT"] == found["SUM"]
    assert all(found.values())


@every_function
def test_time_that_is_told_moves_windows(function):
    world = World(function, "int64", "string", ">= :low")
    engine = world.engine(follows=True)
    for way in world.ways:
        engine.register(world.sql, name=way, strategy=way).add({"left": [10], "low": [1]})
    row = {"ts": [10**6], "v": [5], "k": ["a"], "o": [0]}
    for answer in engine.push("s", row).values():
        assert answer.rows().to_pylist() == [{"query": 0, "k": "a", "change": 1}]
    engine.advance("s", 10**6 + 11)
    for group in engine.groups.values():
        assert group.lookup().num_rows == 0
    late = {"ts": [10**6 + 11], "v": [0], "k": ["b"], "o": [9]}
    for answer in engine.push("s", late).values():
        assert answer.rows().to_pylist() == [{"query": 0, "k": "a", "change": -1}]


@every_function
def test_rows_that_no_window_reaches_are_let_go(function):
    """Memory follows what windows reach, not what was pushed; strings of gone keys go too."""
    world = World(function, "int64", "string", ">= :low")
    player = Player(world, world.ways)
    player.play(Add([0], {"left": [20], "low": [1], "id": [0]}))
    sizes = []
    for step in range(30):
        rows = [(10**6 + 100 * step + i, i, f"{step} {i % 50}", 1) for i in range(400)]
        player.play(Push(rows))
        sizes.append(player.engine.memory_bytes())
    assert max(sizes[15:]) <= 2 * max(sizes[:15])
    player.play(Remove([0]))
    player.play(Push([(10**6 + 4000, 1, "a", 1)]))
    for way in world.ways:
        assert len(player.engine.groups[way].reader.lanes) == 0


def test_a_wider_window_sees_what_was_kept_when_it_came():
    world = World("COUNT(*)", "int64", "string", ">= :low")
    for cuts in (1, 5):
        player = Player(world, world.ways)
        player.play(Add([0], {"left": [4], "low": [5], "id": [0]}))
        for i in range(cuts):
            span = range(20 * i // cuts, 20 * (i + 1) // cuts)
            player.play(Push([(10**6 + j, 1, "a", 1) for j in span]))
        player.play(Add([1, 2], {"left": [100] * 2, "low": [5, 6], "id": [1, 2]}))
        for way in world.ways:
            assert player.found(way) == Counter({(0, "a"): 1, (1, "a"): 1})
        player.play(Push([(10**6 + 20, 1, "a", 1)]))
        for way in world.ways:
            assert player.found(way) == Counter({(i, "a"): 1 for i in range(3)})


def test_time_does_not_go_back():
    world = World("COUNT(*)", "int64", "string", ">= :low")
    player = Player(world, world.ways)
    player.play(Add([0], {"left": [10], "low": [1], "id": [0]}))
    player.play(Push([(10**6 + 20, 1, "a", 1)]))
    player.play(Advance(10**6))
    assert all(player.found(way) == Counter({(0, "a"): 1}) for way in world.ways)
