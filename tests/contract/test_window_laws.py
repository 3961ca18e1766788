"""The laws of the contract for window aggregates: every aggregate, every way that answers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest
from tests.contract.laws import SMALL
from tests.contract.window_worlds import (
    FUNCTIONS,
    LATENESS,
    START,
    WIDEST,
    Action,
    Add,
    Advance,
    Draft,
    Model,
    Player,
    Push,
    Remove,
    Row,
    World,
    answer,
    draw_world,
    users,
)

from standfast import Engine

SEEDS, FEW = 2 if SMALL else 3, 1
# What each law over histories takes: how many seeds, and how long a history.
LAWS = {
    "match": (SEEDS, 14),
    "cut": (FEW, 10),
    "trace": (FEW, 8),
    "snapshot": (FEW, 12),
    "switch": (FEW, 14),
}

# What histories must hold for laws to be worth something.
CONTENTS = {"late", "too late", "tied", "after a gap", "empty", "emptied", "empty and answered"}

every_function = pytest.mark.parametrize("function", FUNCTIONS)


def seeded(law: str, function: str) -> Iterator[tuple[World, Random, int]]:
    """The worlds of a law, what their histories are drawn by, and how long these are.

    One world of each function is by time, without keys and bounds: there windows that lose all
    rows have an answer.
    """
    n_seeds, n = LAWS[law]
    for seed in range(n_seeds):
        rng = Random(f"{law} {function} {seed}")
        world = draw_world(rng, function)
        if law == "match" and not seed:
            world = world._replace(unit="RANGE", key=None, is_qualified=False)
        yield world, rng, n


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
    for world, rng, n in seeded("match", function):
        play(world, rng, n)


def test_histories_hold_what_the_laws_are_about():
    """Else they say little: every law, and every function, meets all of it, and gaps every time."""
    held: dict[str, Counter[str]] = {name: Counter() for name in (*LAWS, *FUNCTIONS)}
    for law, function in product(LAWS, FUNCTIONS):
        for world, rng, n in seeded(law, function):
            found = contents(world, Draft(world, rng).actions(n))
            assert found["after a gap"]
            held[law] += found
            held[function] += found
    for name, found in held.items():
        assert found.keys() == CONTENTS, name


def contents(world: World, actions: list[Action]) -> Counter[str]:
    """How many rows, as they came, and how many windows, after each action, are what.

    A window is empty when it holds no row though rows have come, emptied when it held some before.
    With keys, and where NULL does not qualify, it is left out of the answer.
    """
    held: Counter[str] = Counter()
    model, filled = Model(world), set()
    for action in actions:
        rows = action.rows if isinstance(action, Push) else []
        for row in rows:
            held.update(_said_of(row, model) if model.sees(row) else [])
            model.play(Push([row]))
        if not rows:
            model.play(action)
        for query, key, inside in model.windows():
            if inside:
                filled.add((query, key))
            elif model.rows:
                holes = model.queries[query]
                held["empty"] += 1
                held["emptied"] += (query, key) in filled
                if not world.key and model.qualifies(answer(world, [], holes), holes):
                    held["empty and answered"] += 1
    return held


def _said_of(row: Row, model: Model) -> list[str]:
    """What a row is, seen from the rows that came before it."""
    if row[0] < model.now - LATENESS:
        return ["too late"]
    before = [other for other in model.rows if model.sees(other)]
    beside = [other for other in before if other[0] == row[0]]
    said = {
        "late": row[0] < model.now,
        "tied": any(other[2] == row[2] or not model.world.key for other in beside),
        "after a gap": bool(before) and row[0] - max(other[0] for other in before) > WIDEST,
    }
    return [what for what, is_so in said.items() if is_so]


@every_function
@pytest.mark.parametrize(
    ("unit", "empty"), [("ROWS", [(30, 16), (9, 2)]), ("RANGE", [(30, 16), (14, 1)])]
)
def test_an_empty_window_is_null_and_counts_0(function, unit, empty):
    """Before any row, between rows and older than all, where no row can be, after time went on."""
    world = World(function, "int64", unit, None, True, False)
    player = Player(world, [*world.ways, "auto"])
    lefts, rights = zip((40, 0), *empty, (-1, 0), (2, 3), strict=True)
    params = {"left": list(lefts), "right": list(rights), "id": list(range(5))}
    if function == "PERCENTILE_DISC":
        params["phi"] = [0.5] * 5
    player.play(Add(params["id"], params))
    nothing = 0 if function.startswith("COUNT") else None
    every = Counter({(i, None, nothing): 1 for i in range(5)})
    for way in player.ways:
        assert player.found(way) == every
    player.play(Push([(START, 3, None, 1), (START + 15, 8, None, 1)]))
    for way in player.ways:
        for _ in range(2):  # the second time answers may have been written down
            found = player.found(way)
            assert every - found == Counter({(0, None, nothing): 1}), way
            assert found.total() == 5
        assert player.sums[way] == found
    player.play(Advance(START + 100))
    for way in player.ways:
        assert (player.found(way) == every) == (unit == "RANGE")


@pytest.mark.large
@every_function
def test_how_rows_are_cut_into_batches_is_invisible(function):
    for world, rng, n in seeded("cut", function):
        whole, cut = Player(world, world.ways), Player(world, world.ways)
        for action in Draft(world, rng).actions(n):
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


@pytest.mark.large
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
    for world, rng, n in seeded("trace", function):
        player, alone = Player(world, world.ways), Player(world, world.ways)
        draft = Draft(world, rng)
        for action in draft.actions(n):
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


@pytest.mark.large
@every_function
def test_a_snapshot_goes_on_where_it_was_taken(function):
    for world, rng, n in seeded("snapshot", function):
        player, model = Player(world, world.ways), Model(world)
        for action in Draft(world, rng).actions(n):
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
    for world, rng, n in seeded("switch", function):
        player, model = Player(world, ["naive"]), Model(world)
        for action in Draft(world, rng).actions(n):
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
    player, draft = Player(world, ["auto"]), Draft(world, rng)
    for action in [*draft.actions(10), draft.add(5), draft.push(30)]:
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
