"""Runners that are compared to a percent on a machine whose speed differs by a fifth.

    turn      1    2    3   ...    in a turn everyone runs twice, one after the other, in an order
    routed    6    9    6          that is drawn anew; the better run counts. What the machine does
    hotspot   6    8    6          in a turn it does to all: what counts is the time over the
    lead      0  -.12   0          router's in the same turn, and its mean over the turns.

Medians of each runner by itself differ by up to 5 % for one and the same way, because they lie
where the machine goes from fast to slow. So turns go on until the mean of these ratios is known to
a percent, for the fastest runner that is compared. Ratios that are far off are pulled in. Who is
behind by more than can be chance leaves the race, but for that fastest one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.clock import budget, seconds

RUNS_A_TURN = 2
# Of the budget, for each second: in a full run 60 turns at least, and at most 600 of them or 90
# seconds; in a small run three at least.
LEAST_TURNS, MOST_TURNS, MOST_SECONDS = 100, 1000, 150
PRECISE = 0.01  # the error that ends a race
BEHIND = math.log(2)  # after the first turn
# Who is so many errors behind after so many turns has lost.
SURE, ENOUGH_TURNS = 4.0, 20
FAR = 3.0  # usual distances from the middle
USUAL = 1.4826  # standard deviations in a median distance


class Lead(NamedTuple):
    """Log of what one takes over what another takes, and the standard error of that."""

    log: float
    error: float


class Ran(NamedTuple):
    """Seconds of a runner: its turns, the better run of each, and all runs; what came out last."""

    turns: list[float]
    runs: list[float]
    last: list[Any]


def lead(some: list[float], others: list[float]) -> Lead:
    """How much longer some take than the others in the turns that both were in."""
    both = min(len(some), len(others))
    logs = np.log(np.array(some[:both]) / np.array(others[:both]))
    middle = np.median(logs)
    usual = USUAL * float(np.median(np.abs(logs - middle)))
    logs = np.clip(logs, middle - FAR * usual, middle + FAR * usual)
    error = float(np.std(logs, ddof=1)) / math.sqrt(both) if both > 1 else math.inf
    return Lead(float(np.mean(logs)), error)


def raced(
    runners: Mapping[str, Callable[[], Any]], first: str, compared: tuple[str, ...],
    also: Callable[[str], None] = lambda name: None,
) -> dict[str, Ran]:  # fmt: skip
    """Everybody against `first`, until that is told from the fastest of those `compared`.

    `also` is called after each run.
    """
    ran = {name: Ran([], [], [None]) for name in runners}
    draw, running, used = np.random.default_rng(0), list(runners), 0.0
    for turn in range(max(2, round(MOST_TURNS * budget()))):
        for name in draw.permutation(running).tolist():
            took = np.inf
            for _ in range(RUNS_A_TURN):
                once, ran[name].last[0] = seconds(runners[name])
                also(name)
                took = min(took, once)
                ran[name].runs.append(once)
                used += once * bool(turn)
            ran[name].turns.append(took)
        leads = {name: lead(ran[name].turns, ran[first].turns) for name in running}
        least = min(leads.values(), key=lambda lead: lead.log + min(lead.error, BEHIND))
        best = min((n for n in running if n in compared), key=lambda n: leads[n].log)
        running = [
            n for n in running if n in (first, best) or not _is_behind(leads[n], least, turn)
        ]
        if turn + 1 >= LEAST_TURNS * budget() and (
            leads[best].error < PRECISE or used > MOST_SECONDS * budget()
        ):
            break
    return ran


def _is_behind(lead: Lead, least: Lead, turn: int) -> bool:
    if turn == 0:
        return lead.log > least.log + BEHIND
    return turn >= ENOUGH_TURNS and lead.log - least.log > SURE * (lead.error + least.error)
