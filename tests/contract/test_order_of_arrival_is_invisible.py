"""Law: rows of window joins may come in any order that makes no row late.

Each stream is read in two orders, in both of which every row is at most the lateness behind the
rows before it, and the two streams are interleaved in any way: by time, one after the other, at
random. However the rows come and are cut, the answers add up to the same, which is what the oracle
says of all rows together.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.contract.histories import Action, Draft, Push, cut
from tests.contract.laws import SMALL, Tally, every_case_of, hold_for_all
from tests.contract.oracle import Model, Result, Row
from tests.contract.playing import Player, expect, nonzero, seen
from tests.contract.worlds import Case, World, draw_expiring_world

N_ROWS = 12 if SMALL else 25
Rows = dict[str, list[Row]]


def order_of_arrival_is_invisible(case: Case, rng: Random, tally: Tally) -> None:
    world = draw_expiring_world(rng, case)
    draft = Draft(world, rng, tally=tally)
    queries = draft.first_add(8)
    rows = {name: [draft.row(name) for _ in range(N_ROWS)] for name in world.inputs}
    orders = [arrivals(rng, world, rows), arrivals(rng, world, rows)]
    model, totals = Model(world), []
    for order in orders:
        player = Player(world, [case.way])
        player.play(queries)
        totals.append(add_up(player, cut(rng, order), tally))
        for counters in player.counters().values():
            assert (counters["used"], counters["late"]) == (N_ROWS, 0)
        tally["dropped"] += sum(N_ROWS - stored for stored in player.stored().values())
    expect(model, player, queries)
    for name in rows:
        model.rows[name] = rows[name]
    truth = nonzero(model.results())
    assert totals == [truth, truth], f"{case}: {orders}"
    for name in rows:
        draft.sights.pushed(name, sorted(rows[name], key=lambda row: row[-1]))
    tally["results"] += truth.total()
    tally["moved"] += orders[0] != orders[1]


def arrivals(rng: Random, world: World, rows: Rows) -> list[Action]:
    """The rows of all streams in an order that makes none late, as pushes."""
    lateness = world.lateness_us or 0
    sorted_rows = {
        name: sorted(some, key=lambda row: row[-1] + rng.randint(0, lateness))
        for name, some in rows.items()
    }
    how = rng.choice(["by time", "at random", "one after the other"])
    names = [name for name in rows for _ in rows[name]]
    if how == "by time":
        times = [(row[-1], name) for name, some in rows.items() for row in some]
        names = [name for _, name in sorted(times)]
    elif how == "at random":
        rng.shuffle(names)
    elif rng.random() < 0.5:
        names.reverse()
    waiting = {name: iter(some) for name, some in sorted_rows.items()}
    pushes: list[tuple[str, list[Row]]] = []
    for name in names:
        if not pushes or pushes[-1][0] != name:
            pushes.append((name, []))
        pushes[-1][1].append(next(waiting[name]))
    return [Push(name, tuple(some)) for name, some in pushes]


def add_up(player: Player, actions: list[Action], tally: Tally) -> Result:
    """What the answers to these pushes add up to."""
    total: Result = Counter()
    for action in actions:
        (answer,) = player.play(action).values()
        total.update(seen(answer).change)
        tally["batches"] += 1
    player.engine.check()
    return nonzero(total)


@every_case_of("window_join")
def test_order_of_arrival_is_invisible(case: Case) -> None:
    shown = ("special numbers", "ties", "several rows of a key", "expired rows")
    wanted = ("results", "moved", "dropped")
    assert hold_for_all(order_of_arrival_is_invisible, case, *wanted, shown=shown)
