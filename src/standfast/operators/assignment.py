"""Which way each event of a batch goes, by what all ways are estimated to cost it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.operators.costs import Floats

Bools = npt.NDArray[np.bool_]

# An event leaves the best single way only for one that costs less than this part of it: estimates
# are off by a fifth, and two ways in turn push each other out of the caches. Whether the mixture
# pays is then measured (`operators.contest`). The second number is for a way that is not built:
# once it is there, it may take all events.
MIXED, SURELY = 0.7, 0.9
# The least part of a batch's cost that taking in one more way must save; and while a mixture is in
# use or on trial, because estimates that waver would end it.
WORTH, STILL_WORTH = 0.03, 0.01


@kernel
def assign(
    costs: Floats, calls: Floats, usable: Bools, first: int, worth: float,
    choice: Int64s, gains: Floats,
) -> None:  # fmt: skip
    """Choose a way for each event, as few ways as pay for their calls and save enough.

    `first` is the way for all events that choosing starts from, `worth` the part of the cost that
    another one must save. `gains[w]` is what a usable way saves against the other usable ones, and
    what a way that is not usable would save: beside the ways that were chosen, or instead of them,
    whose calls are saved then too.
    """
    n_ways, n_events = costs.shape
    total = calls[first] + costs[first].sum()
    least, used = costs[first].copy(), np.zeros(n_ways, np.bool_)
    used[first] = True
    choice[:] = first
    while True:
        best = -1
        for w in range(n_ways):
            gains[w] = -calls[w]
            part = MIXED if usable[w] else SURELY
            for e in range(n_events):
                if costs[w, e] < part * least[e]:
                    gains[w] += least[e] - costs[w, e]
            is_worth = usable[w] and not used[w] and gains[w] > worth * total
            if is_worth and (best < 0 or gains[w] > gains[best]):
                best = w
        if best < 0:
            break
        used[best] = True
        for e in range(n_events):
            if costs[best, e] < MIXED * least[e]:
                least[e], choice[e] = costs[best, e], best
    total = least.sum() + (calls * used).sum()
    for w in range(n_ways):
        alone = calls[w] + costs[w].sum()
        if usable[w]:
            gains[w] = 0.0
        elif alone < SURELY * total:
            gains[w] = max(gains[w], total - alone)
    if np.count_nonzero(usable) > 1:
        for e in range(n_events):
            other = np.inf
            for w in range(n_ways):
                if usable[w] and w != choice[e]:
                    other = min(other, costs[w, e])
            gains[choice[e]] += other - least[e]


@kernel
def deal(
    costs: Floats, usable: Bools, choice: Int64s, every: int, within: float, turn: int
) -> None:
    """Give one event in `every` to a usable way in turn that is not far from the best.

    Not if `turn` is negative; asked all the same, so that it is compiled with the first batch.
    """
    n_ways = costs.shape[0]
    for e in range(turn % every if turn >= 0 else choice.size, choice.size, every):
        turn += 1
        w = turn % n_ways
        if usable[w] and costs[w, e] <= within * costs[choice[e], e]:
            choice[e] = w
