"""The laws of the contract for window aggregates: every aggregate, every way that answers it."""

from __future__ import annotations

from collections import Counter
from random import Random

import numba
import pytest
from tests.contract.window_worlds import (
    FUNCTIONS,
    Add,
    Advance,
    Draft,
    Model,
    Player,
    Push,
    Remove,
    World,
    draw_world,
    users,
)

from standfast import Engine

SEEDS, FEW = (3, 1) if numba.config.DISABLE_JIT else (4, 2)

every_function = pytest.mark.parametrize("function", FUNCTIONS)


def play(world: World, rng: Random, n: int, *, follows: bool = False) -> tuple[Player, Model]:
    """A history played by every way and by the model, compared after every action."""
    player, model = Player(world, [*world.ways, "auto"], follows=follows), Model(world)
    for action in Draft(world, rng).actions(n):
        player.play(action)
        is_reported = model.play(action)
        expected = model.answers()
        for way in player.ways:
            assert player.found(way) == expected, (way, action)
            if is_reported:
                assert player.sums[way] == expected, (way, action)
        player.engine.check()
    return player, model


@every_function
def test_every_way_answers_what_brute_force_answers(function):
    for seed in range(SEEDS):
        rng = Random(f"{function} {seed}")
        world = draw_world(rng, function)
        play(world, rng, 14)


@every_function
def test_how_rows_are_cut_into_batches_is_invisible(function):
    for seed in range(FEW):
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
        assert whole.engine.metrics()["inputs"]["s"]["used"] > 0


def _cut(action, rng):
    if not isinstance(action, Push):
        return [action]
    places = sorted(rng.randint(0, len(action.rows)) for _ in range(3))
    return [
        Push(action.rows[i:j])
        for i, j in zip([0, *places], [*places, len(action.rows)], strict=True)
    ]


@every_function
def test_the_order_of_rows_within_the_lateness_is_invisible(function):
    """Rows of a batch arrive in any order: ties and late rows leave no trace."""
    n_found = 0
    for seed in range(2):
        rng = Random(f"order {function} {seed}")
        world = draw_world(rng, function)._replace(is_qualified=False)
        draft = Draft(world, rng)
        add, rows = draft.add(4), []
        for _ in range(20):
            draft.now += rng.choice([0, 1])
            rows.append((draft.now, draft.value(), draft.key(), 1))
        one, other = Player(world, world.ways), Player(world, world.ways)
        for player in (one, other):
            player.play(add)
            for i in range(0, len(rows), 5):
                player.play(Push(rows[i : i + 5]))
            rng.shuffle(rows)
        for way in world.ways:
            assert one.found(way) == other.found(way)
            n_found += len(one.found(way))
    assert n_found


@every_function
def test_queries_that_come_and_go_leave_no_trace(function):
    for seed in range(FEW):
        rng = Random(f"trace {function} {seed}")
        world = draw_world(rng, function)
        player, alone = Player(world, world.ways), Player(world, world.ways)
        draft = Draft(world, rng)
        for action in draft.actions(8):
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
    for seed in range(FEW):
        rng = Random(f"snapshot {function} {seed}")
        world = draw_world(rng, function)
        player, model = Player(world, world.ways), Model(world)
        for action in Draft(world, rng).actions(12):
            player.play(action)
            is_reported = model.play(action)
            data = player.engine.to_bytes()
            player.engine = Engine.from_bytes(data, clock=lambda: 2**50, aggregates=users())
            assert player.engine.to_bytes() == data
            for way in world.ways:
                assert player.found(way) == model.answers()
                assert not is_reported or player.sums[way] == model.answers()
        player.engine.check()


@every_function
def test_switching_the_strategy_is_invisible(function):
    for seed in range(FEW):
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


def test_lookup_of_some_ids_is_that_part_of_all():
    rng = Random(7)
    world = World("SUM", "int64", "RANGE", "string", True, False)
    player = Player(world, ["auto"])
    for action in Draft(world, rng).actions(10):
        player.play(action)
    everything = player.found("auto")
    ids = sorted({row[0] for row in everything})[1:]
    assert player.found("auto", ids) == Counter(
        {r: n for r, n in everything.items() if r[0] in ids}
    )
    assert len(ids) > 1


@pytest.mark.parametrize("unit", ["ROWS", "RANGE"])
@pytest.mark.parametrize("key", [None, "int64"])
def test_rows_that_no_window_reaches_are_let_go(unit, key):
    """Memory follows what windows reach, not what was pushed; strings of gone keys go too."""
    world = World("MAX", "int64", unit, key, False, False)
    player = Player(world, world.ways)
    player.play(Add([0], {"left": [20], "id": [0]}))
    sizes = []
    for step in range(30):
        rows = [(10**6 + 100 * step + i, i, (step + i) % 7, 1) for i in range(100)]
        player.play(Push(rows))
        sizes.append(player.engine.metrics()["groups"]["base_intervals"]["memory_bytes"])
        lanes = player.engine.groups["base_intervals"].reader.lanes
        assert lanes.size <= 4096
    assert max(sizes[15:]) <= 2 * max(sizes[:15])
    player.play(Remove([0]))
    player.play(Push([(10**6 + 3000, 1, 1, 1)]))
    assert len(player.engine.groups["base_intervals"].reader.lanes) == 0


def test_a_wider_window_sees_what_was_kept_when_it_came():
    world = World("COUNT(*)", "int64", "ROWS", None, False, False)
    for cuts in (1, 5):
        player = Player(world, world.ways)
        player.play(Add([0], {"left": [4], "id": [0]}))
        for i in range(cuts):
            player.play(
                Push([(10**6 + j, 1, None, 1) for j in range(20 * i // cuts, 20 * (i + 1) // cuts)])
            )
        player.play(Add([1], {"left": [100], "id": [1]}))
        for way in world.ways:
            assert player.found(way) == Counter({(0, None, 5): 1, (1, None, 5): 1})
        player.play(Push([(10**6 + 20, 1, None, 1)]))
        for way in world.ways:
            assert player.found(way) == Counter({(0, None, 5): 1, (1, None, 6): 1})


def test_time_that_is_told_moves_windows_of_an_engine_that_follows():
    world = World("SUM", "int64", "RANGE", None, False, False)
    player = Player(world, world.ways, follows=True)
    player.play(Add([0], {"left": [10], "id": [0]}))
    player.play(Push([(10**6, 5, None, 1), (10**6 + 4, 2, None, 1)]))
    assert {player.found(way)[0, None, 7] for way in world.ways} == {1}
    player.play(Advance(10**6 + 12))
    assert {player.found(way)[0, None, 2] for way in world.ways} == {1}
