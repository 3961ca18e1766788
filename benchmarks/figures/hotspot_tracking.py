"""[hotspot] section 2.2: the three properties of hotspot tracking while interests wander."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.data import SCALE
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from standfast.indexes.hotspot_tracker import HotspotTracker
from standfast.indexes.stabbing_partition import canonical
from standfast.workloads import Ranges, drifting_bands, table_one_bands

ALPHA, EPSILON = 0.01, 1.0
HOT, GROUPS, MOVES = "hotspots", "groups", "intervals moved per update"
CHECKPOINTS = 60


class Moment(NamedTuple):
    """What was true after so many updates."""

    updates: int
    n_hot: int
    n_groups: int
    least_groups: int
    moves_per_update: float
    hot_share: float


def prepare(n: float, size: Size) -> list[Moment]:
    """Replace the oldest query by a new one, one update a call, while the interests wander."""
    n = int(n)
    n_updates = 4 * n
    bands = wandering(n + n_updates // 2)
    tracker = HotspotTracker(ALPHA, EPSILON)
    moments, every = [], max(2, n_updates // CHECKPOINTS // 2 * 2)
    oldest = 0
    for slot in range(bands.lows.size):
        chosen = np.array([slot])
        tracker.add(chosen, bands.lows[chosen], bands.highs[chosen])
        if slot >= n:
            tracker.remove(np.array([oldest]))
            oldest += 1
        if tracker.updates_total % every == 0 and slot > 100:
            tracker.check()
            _, points = canonical(bands.lows[oldest : slot + 1], bands.highs[oldest : slot + 1])
            moments.append(
                Moment(
                    tracker.updates_total, tracker.n_hot, tracker.n_groups, points.size,
                    tracker.moves_total / tracker.updates_total,
                    1 - tracker.n_scattered / tracker.n_intervals,
                )
            )  # fmt: skip
    return moments


def wandering(n: int) -> Ranges:
    """Four of five bands near one of 30 interests that wander, the others short and anywhere."""
    n_steps = n // 10
    near = [*drifting_bands(n_steps, 8, 30, seed=120)]
    far = table_one_bands(2 * n_steps, 5.0, 1.0, seed=121)
    lows = [np.concatenate([b.lows, far.lows[2 * i : 2 * i + 2]]) for i, b in enumerate(near)]
    highs = [np.concatenate([b.highs, far.highs[2 * i : 2 * i + 2]]) for i, b in enumerate(near)]
    return Ranges(np.concatenate(lows), np.concatenate(highs)).whole(SCALE)


def curve(*panels: tuple[str, Callable[[Moment], float]]) -> Callable[..., Iterator[Reading]]:
    """One value per moment and panel."""

    def measure(moments: list[Moment]) -> Iterator[Reading]:
        for panel, value in panels:
            yield from (Reading(value(m), panel=panel, x=m.updates) for m in moments)

    return measure


def holds(table: Table) -> Verdict:
    worst = {
        panel: max(
            value / table.value("bound", x, panel)
            for x, value in table.curve("tracked", panel).items()
        )
        for panel in (HOT, GROUPS, MOVES)
    }
    moved = table.curve("tracked", MOVES)
    text = (
        f"over {max(moved):,.0f} updates at most {max(table.curve('tracked', HOT).values()):.0f} "
        f"hotspots (bound {2 / ALPHA:.0f}), never more than {worst[GROUPS]:.0%} of the groups "
        f"allowed, at most {max(moved.values()):.2f} intervals moved per update (bound 5)."
    )
    return Verdict(max(worst.values()) <= 1, text)


FIGURE = Figure(
    name="hotspot_tracking",
    source="[hotspot] section 2.2, Theorem 1",
    claim="At all times there are at most 2/alpha hotspots (I1), at most (1 + epsilon) tau + "
    "2/alpha groups (I2), and at most 5 intervals move per update, amortised (I3).",
    x_label="updates",
    y_label="",
    sweep={"smoke": (500,), "full": (20_000,)},
    prepare=prepare,
    series={
        "tracked": curve(
            (HOT, lambda m: m.n_hot),
            (GROUPS, lambda m: m.n_groups),
            (MOVES, lambda m: m.moves_per_update),
        ),
        "bound": curve(
            (HOT, lambda m: 2 / ALPHA),
            (GROUPS, lambda m: (1 + EPSILON) * m.least_groups + 2 / ALPHA),
            (MOVES, lambda m: 5.0),
        ),
        "fewest possible": curve((GROUPS, lambda m: m.least_groups)),
    },
    holds=holds,
    dashed=frozenset({"bound"}),
    notes=f"alpha = {ALPHA}, epsilon = {EPSILON:g}. The queries follow interests that wander; each "
    "new query replaces the oldest, one update a call, and all invariants are checked on the way.",
)
