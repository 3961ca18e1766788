"""Step functions over keys, the density of events, and how wrong an estimate is.

    count            ____
                ____|    |__        starts    where a value begins to hold
           ____|            |___    values    0 before the first start; the last one holds for ever
    ______|                     |________

The exact number of ranges that hold a key is such a function, and so is every histogram of it.
How wrong a histogram h is about the exact f, for events of density phi, is

    E(h, f) = sqrt( integral of ((h - f) / max(f, 1))^2 phi )

the paper's relative error wherever some range holds the key; where none does, the paper divides by
zero and we count the absolute error, so that a histogram has to know the gaps as well.

Invariant  starts ascend strictly; as many values as starts.
Cost       estimate O(log n) a key, without a branch; error O((n + m) log(n + m)).
Paper      [hotspot] appendix B.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int64s
from standfast.indexes.keys import FAR

Floats = npt.NDArray[np.float64]
Density = Callable[[Int64s], Floats]  # the share of all events below each key
TOGETHER = 256  # keys searched for side by side: three times as fast as one by one


class Step(NamedTuple):
    """A step function: 0 at first, `values[i]` from key `starts[i]` on."""

    starts: Int64s
    values: Floats

    @property
    def n_buckets(self) -> int:
        """How many steps it has, without the zeros before the first and after the last."""
        return self.starts.size - int(self.values.size > 0 and self.values[-1] == 0)

    def estimate(self, keys: Int64s) -> Floats:
        """The value at each key."""
        size = 1 << self.starts.size.bit_length()
        starts, values = np.full(size - 1, FAR), np.zeros(size)
        starts[: self.starts.size] = self.starts
        values[1 : self.starts.size + 1] = self.values
        values[self.starts.size + 1 :] = self.values[-1] if self.values.size else 0.0
        found = np.empty(keys.size)
        _look_up(starts, values, keys, found)
        return found

    def check(self) -> None:
        """Assert the invariant."""
        assert self.starts.size == self.values.size, "one value per start"
        assert np.all(self.starts[1:] > self.starts[:-1]), "starts must ascend"
        assert np.isfinite(self.values).all(), "values must be numbers"


def counted(lows: Int64s, highs: Int64s) -> Step:
    """Exactly how many of the closed ranges hold a key; a step at every end, high or not."""
    ends = highs[highs < FAR] + 1
    keys = np.concatenate([lows, ends])
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    counts = np.cumsum(np.where(order < lows.size, 1.0, -1.0))
    is_last = np.append(keys[1:] != keys[:-1], True)[: keys.size]
    return Step(keys[is_last], counts[is_last])


def uniform(low: int, high: int) -> Density:
    """Events anywhere between two keys, ends included, alike."""
    span = float(int(high) - int(low) + 1)

    def below(keys: Int64s) -> Floats:
        inside = np.clip(keys, low, high).view(np.uint64) - np.int64(low).view(np.uint64)
        return np.where(keys > high, 1.0, inside.astype(np.float64) / span)

    return below


def sampled(events: Int64s) -> Density:
    """Events as they were in a sample."""
    ascending = np.sort(events)

    def below(keys: Int64s) -> Floats:
        return np.searchsorted(ascending, keys) / max(ascending.size, 1)

    return below


def blended(one: Density, other: Density) -> Density:
    """Half of the events of one density, half of the other."""

    def below(keys: Int64s) -> Floats:
        return (one(keys) + other(keys)) / 2

    return below


def density_or_uniform(density: Density | None, lows: Int64s, highs: Int64s) -> Density:
    """The density itself, or the uniform one between the outermost ends."""
    if density is not None or lows.size == 0:
        return density or uniform(0, 0)
    return uniform(int(lows.min()), int(highs.max()))


def masses(starts: Int64s, density: Density) -> Floats:
    """The share of events in each step."""
    return np.maximum(np.diff(density(starts), append=1.0), 0.0)


def error(step: Step, lows: Int64s, highs: Int64s, density: Density | None = None) -> float:
    """The root mean squared relative error of a histogram of these ranges."""
    exact = counted(lows, highs)
    starts = np.union1d(exact.starts, step.starts)
    mass = masses(starts, density_or_uniform(density, lows, highs))
    truth = exact.estimate(starts)
    relative = (step.estimate(starts) - truth) / np.maximum(truth, 1.0)
    return float(np.sqrt(np.sum(relative * relative * mass)))


@kernel
def _look_up(starts: Int64s, values: Floats, keys: Int64s, found: Floats) -> None:
    """The value at each key; the number of starts is one less than a power of two.

    Many keys take a step of the binary search together: their steps do not wait for each other.
    """
    places = np.empty(TOGETHER, np.int64)
    for first in range(0, keys.size, TOGETHER):
        n = min(TOGETHER, keys.size - first)
        places[:n] = 0
        stride = (starts.size + 1) // 2
        while stride > 0:
            for i in range(n):
                place = places[i]
                places[i] = place + stride * (starts[place + stride - 1] <= keys[first + i])
            stride //= 2
        for i in range(n):
            found[first + i] = values[places[i]]
