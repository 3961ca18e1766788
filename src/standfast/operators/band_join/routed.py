"""Band joins by the way that is cheapest now: all events of a batch go the same way.

What a band join costs depends on the queries and the stored rows, not on the event, so the choice
is made once for a batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from standfast.arrays import Hits, Int64s
from standfast.indexes.sorted_runs import SortedRuns
from standfast.model.query import BandJoin
from standfast.operators.band_join.groups import ByGroups
from standfast.operators.band_join.hotspot import Hotspot
from standfast.operators.band_join.merge import Merge
from standfast.operators.band_join.per_query import PerQuery
from standfast.operators.band_join.per_tuple import PerTuple
from standfast.operators.base import BandStrategy, Spec
from standfast.operators.costs import Constants, Floats, Model, current
from standfast.operators.equality import ranges_of
from standfast.operators.group_stats import GroupStats, sizes_of
from standfast.operators.router import Routing


class Routed(BandStrategy):
    """Estimate what each of the other ways costs, and go the cheapest for each batch."""

    spec = Spec(
        question=BandJoin,
        paper="[hotspot] 4.2",
        time="about that of the best other way",
        space="O(n) for each way in use",
    )

    def __init__(
        self, *, is_float: bool, constants: Constants | None = None, alpha: float | None = None
    ) -> None:
        """`alpha` is the share that makes a hotspot; the costs decide it if it is not given."""
        super().__init__(is_float=is_float)
        known, self._warning = (constants, "") if constants else current()
        make: dict[str, Callable[[], BandStrategy]] = {
            "per_query": partial(PerQuery, is_float=is_float),
            "per_tuple": partial(PerTuple, is_float=is_float),
            "merge": partial(Merge, is_float=is_float),
            "groups": partial(ByGroups, is_float=is_float),
            "hotspot": self._hotspot,
        }
        self.groups = GroupStats(alpha)
        self.routing: Routing[BandStrategy] = Routing(Model("band_join", known), make, 1, "groups")

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self.routing.add(slots, lows, highs)
        self.groups.forget(slots.size)

    def remove(self, slots: Int64s) -> None:
        self.routing.remove(slots)
        self.groups.forget(slots.size)

    def process(self, values: Int64s, stored: SortedRuns, *, minuend: bool) -> Hits:
        def features() -> tuple[dict[str, float], Floats]:
            return self.features(values, stored)

        def process(way: BandStrategy, places: Int64s) -> Hits:
            return way.process(values[places], stored, minuend=minuend)

        return self.routing.answer(values.size, features, process)

    def features(self, values: Int64s, stored: SortedRuns) -> tuple[dict[str, float], Floats]:
        """What the costs of a batch depend on: stats of the whole, one trait of each event."""
        return self._stats(len(stored)), np.ones((2, values.size))

    def check(self) -> None:
        self.routing.check()

    def memory_bytes(self) -> int:
        return self.routing.memory_bytes()

    def describe(self) -> dict[str, object]:
        warning = {"warning": self._warning} if self._warning else {}
        return self.routing.describe() | warning

    def _hotspot(self) -> Hotspot:
        alpha = self.groups.hot_share(len(self.routing.queries))
        return Hotspot(is_float=self.is_float, alpha=alpha)

    def _stats(self, n_stored: int) -> dict[str, float]:
        """The stats of a batch that the cost terms ask for."""
        n, log_stored = len(self.routing.queries), math.log2(2 + n_stored)
        if not self.groups.is_known:
            self._learn()
            self._decide(log_stored)
        return self.groups.stats | {
            "one": 1.0,
            "queries": float(n),
            "stored": float(n_stored),
            "queries_search": n * log_stored,
            "stored_search": n_stored * math.log2(2 + n),
            "scattered_search": self.groups.stats["scattered"] * log_stored,
        }

    def _learn(self) -> None:
        """Take the sizes of the groups from the ways that keep them."""
        groups, hotspot = (self.routing.built.get(way) for way in ("groups", "hotspot"))
        hot, n_scattered = None, 0
        if isinstance(hotspot, Hotspot):
            hot, scattered = hotspot.tracker.group_sizes()
            sizes, n_scattered = np.concatenate([hot, scattered]), hotspot.tracker.n_scattered
        if isinstance(groups, ByGroups):
            sizes = groups.partition.group_sizes()[1]
        elif hot is None and self.groups.is_stale:
            lows, highs = ranges_of(self.routing.queries, self.routing.queries.living())
            sizes = sizes_of(lows[0], highs[0])
        elif hot is None:
            self.groups.keep()
            return
        self.groups.learn(sizes, hot, n_scattered)

    def _decide(self, log_stored: float) -> None:
        """Hot or scattered: a hotspot way of another opinion is given up."""
        us, alone = (self.routing.model.constants[way] for way in ("hotspot", "per_query"))
        member = alone["queries"] + alone["queries_search"] * log_stored
        if self.groups.decide(us["hot"], us["hot_sizes"], member):
            self.routing.give_up("hotspot")
