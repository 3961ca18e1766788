"""[hotspot] Fig. 11: what it costs to keep each structure up to date."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from sortedcontainers import SortedList

from benchmarks.band_case import BandCase, checked, in_order
from benchmarks.data import N_CHECKED, SCALE, rows_and_events
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import Int64s
from standfast.operators.band_join.groups import ByGroups
from standfast.operators.band_join.merge import Merge
from standfast.operators.band_join.per_tuple import PerTuple
from standfast.operators.base import BandStrategy
from standfast.workloads import table_one_bands

LENGTH = (1000.0, 235.0)  # as in Fig. 10(i)
EPSILON = 3.0
SECONDS = {"smoke": 0.1, "full": 2.5}
SORTED_LIST = "sorted list"
PROBED = "groups, an event after each call"


class Batch(NamedTuple):
    """Updates that arrive together: insertions, then deletions."""

    added: Int64s
    removed: Int64s

    @property
    def n_updates(self) -> int:
        return self.added.size + self.removed.size


WARM_UP = 100
NOBODY = np.empty(0, np.int64)
FEW = Batch(np.arange(WARM_UP, WARM_UP + 10), np.arange(10))


class Updates(NamedTuple):
    """The queries there are at first, the updates cut into batches, and who is left."""

    size: Size
    lows: Int64s
    highs: Int64s
    n_first: int
    batches: list[Batch]
    left: Int64s


def prepare(batch_size: float, size: Size) -> Updates:
    """100,000 queries of Table I, and as many updates, each a deletion with probability 0.5."""
    n = 100_000 if size == "full" else 2_000
    rng = np.random.default_rng(111)
    bands = table_one_bands(2 * n, *LENGTH, seed=112).whole(SCALE)
    living, next_slot, batches = list(range(n)), n, []
    for start in range(0, n, int(batch_size)):
        added, removed = [], []
        for coin, pick in rng.uniform(size=(min(int(batch_size), n - start), 2)):
            if coin < 0.5:
                living.append(next_slot)
                added.append(next_slot)
                next_slot += 1
            else:
                place = int(pick * len(living))
                living[place], living[-1] = living[-1], living[place]
                removed.append(living.pop())
        batches.append(Batch(np.array(added, np.int64), np.array(removed, np.int64)))
    return Updates(size, bands.lows, bands.highs, n, batches, np.sort(np.array(living)))


def maintain(make: Callable[[], BandStrategy], *, ready: bool = False) -> Callable[..., object]:
    """Microseconds per update; `ready` answers an event after each call, else only at the end.

    The event meets a small store, so that it costs next to nothing but what was put off until then.
    """

    def measure(updates: Updates) -> Iterator[Reading]:
        stored, events = rows_and_events(1_000, N_CHECKED, seed=113)
        case = BandCase(updates.lows, updates.highs, stored, events, N_CHECKED)
        rows = case.rows()
        for n, batches in ((WARM_UP, [FEW]), (updates.n_first, updates.batches)):
            # The first turn compiles, the second one counts.
            strategy = make()
            _apply(strategy, updates, Batch(np.arange(n), NOBODY))
            in_order(strategy, rows, events)
            used, n_done, n_batches = 0.0, 0, 0
            for batch in batches:
                start = time.perf_counter()
                _apply(strategy, updates, batch)
                last = used > SECONDS[updates.size] or n_batches + 1 == len(batches)
                if ready or last:
                    in_order(strategy, rows, events[:1])
                used += time.perf_counter() - start
                n_done, n_batches = n_done + batch.n_updates, n_batches + 1
                if last:
                    break
        for rest in _together(updates.batches[n_batches:]):
            _apply(strategy, updates, rest)
        yield Reading(1e6 * used / n_done, checked(case, in_order(strategy, rows, events)))

    return measure


def _together(batches: list[Batch]) -> list[Batch]:
    """The same updates in one batch, if there are any."""
    return [Batch(*map(np.concatenate, zip(*batches, strict=True)))] if batches else []


def _apply(strategy: BandStrategy, updates: Updates, batch: Batch) -> None:
    added, removed = batch
    if added.size:
        strategy.add(added, updates.lows[None, added], updates.highs[None, added])
    if removed.size:
        strategy.remove(removed)


def sorted_list(updates: Updates) -> Iterator[Reading]:
    """The plain sorted list of the bands' low ends, one update after the other."""
    lows = updates.lows.tolist()
    bands = SortedList((lows[slot], slot) for slot in range(updates.n_first))
    used = 0.0
    for added, removed in updates.batches:
        entries = [(lows[slot], slot) for slot in added.tolist()]
        gone = [(lows[slot], slot) for slot in removed.tolist()]
        start = time.perf_counter()
        for entry in entries:
            bands.add(entry)
        for entry in gone:
            bands.remove(entry)
        used += time.perf_counter() - start
    assert sorted(slot for _, slot in bands) == updates.left.tolist(), "the list lost a band"
    n = sum(batch.n_updates for batch in updates.batches)
    yield Reading(1e6 * used / n)


def nothing(updates: Updates) -> Iterator[Reading]:
    """Query by query needs no structure."""
    yield Reading(0.0)


def holds(table: Table) -> Verdict:
    plain = table.curve(SORTED_LIST)
    groups, probed = table.curve("groups"), table.curve(PROBED)
    at = 1_000 if 1_000 in groups else max(groups)
    ratio, ready = groups[at] / plain[at], probed[at] / plain[at]
    text = (
        f"in calls of {at:,.0f} updates an update of the groups costs {groups[at]:.2f} us, "
        f"{ratio:.2f} times the sorted list ({plain[at]:.2f} us) and "
        f"{groups[at] / table.value('merge', at):.2f} times merge's sorted runs; answering an "
        f"event after each call, {probed[at]:.2f} us, {ready:.2f} times the list. One update a "
        f"call: {groups[1]:.1f} us, {groups[1] / plain[1]:.1f} times the list, and "
        f"{probed[1]:,.0f} us with an event after each."
    )
    return Verdict(max(ratio, ready) <= 1.2, text)


FIGURE = Figure(
    name="hotspot_fig11",
    source="[hotspot] Fig. 11",
    claim="With 100,000 queries and 100,000 updates, half insertions and half deletions, keeping "
    "the dynamic partition (BJ-SSI, epsilon = 3) costs 20 % more than the sorted list of BJ-MJ; "
    "BJ-QOuter costs nothing, BJ-DOuter keeps a tree.",
    x_label="updates per call",
    y_label="microseconds per update",
    sweep={"smoke": (1, 100), "full": (1, 10, 100, 1_000, 10_000)},
    prepare=prepare,
    series={
        "groups": maintain(lambda: ByGroups(is_float=False, epsilon=EPSILON)),
        PROBED: maintain(lambda: ByGroups(is_float=False, epsilon=EPSILON), ready=True),
        SORTED_LIST: sorted_list,
        "merge": maintain(lambda: Merge(is_float=False)),
        "per_tuple": maintain(lambda: PerTuple(is_float=False)),
        "per_query": nothing,
    },
    holds=holds,
    log_x=True,
    log_y=True,
    better=min,
    dashed=frozenset({SORTED_LIST}),
    notes="The sorted list is sortedcontainers' SortedList, one update after the other. Our "
    "structures take a batch per call; a call costs the interpreter several microseconds. They "
    "put work off until an event asks: every series ends with an event inside the clock, and the "
    "second one has an event after each call. The claim is judged at 1,000 updates a call, both "
    "ways.",
)
