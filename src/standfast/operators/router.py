"""The router: sends each event of a batch the way that is estimated to be cheapest for it.

    costs   way \\ event   0   1   2   3         a part of a batch costs a call, so a way is only
            groups        9   9   9   9         used when its events save more than that
            select_first  2  50   3  80
            join_first    7   1  40  90   ->    select_first 0 2, groups 1 3

Ways are *built* (they hold all queries) or not. An estimate is made for all of them; what an
unbuilt way would have saved is put to its credit, and it is built when the credit has reached what
building costs. What it costs to keep a built way up to date is its rent, which its savings pay; it
is dropped when the unpaid rent has reached what building it anew would cost. So at any time the
regret and the rent together are at most about what was spent on building, which is the ski-rental
argument: never much more than twice the cost of having known what comes (decision 011).

An estimate is only as good as its constants, so each way has a correction (`operators.ledger`), and
ways that are close are tried in turn.

Invariant  at least one way is built; every built way holds exactly the living queries.
Cost       O(ways) an event.
Paper      [hotspot] section 4; structures on demand and corrections are ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Hits, Int64s, Matches
from standfast.operators.base import Strategy
from standfast.operators.costs import Floats, Model
from standfast.operators.equality import BoxTable
from standfast.operators.ledger import NOISE_US, Ledger
from standfast.operators.split import Part, joined
from standfast.operators.watched import Watched

S = TypeVar("S", bound=Strategy)
Bools = npt.NDArray[np.bool_]

# Where choosing costs more than it saves and more than this share of the time (small batches, cheap
# events), all events go one way and only one batch in so many is looked at.
OVERHEAD = 0.01
LOOK_EVERY, LOOK_FIRST = 16, 4
# What such a batch took is written down where that costs less than the share above; when it shows
# that another way is cheaper than this part of the one in use, the next batch is looked at.
BOOKING_US, OVERTAKEN = 20.0, 0.95
# An event leaves the best single way only for one that costs less than this part of it: estimates
# are off by a fifth, and two ways in turn push each other out of the caches. The second number is
# for a way that is not built: once it is there, it may take all events.
MIXED, SURELY = 0.5, 0.9
# The least part of a batch's cost that taking in one more way must save.
WORTH = 0.05
# Credit, in costs of building, that builds a way.
PATIENCE = 1.0
# One batch in so many, and some of the first, find out whether estimates are right: in turn, each
# built way that is within RIVAL of the best takes all events, and one event in EXPLORE_EVENTS is
# dealt to those that are not far, so that a way that fell out of use is measured again.
EXPLORE_EVERY, EXPLORE_EVENTS, EXPLORE_WITHIN = 64, 32, 4.0
EXPLORE_FIRST, RIVAL = (8, 16, 32), 1.6


class Routing(Generic[S]):
    """Built ways, their books, and the choice: what the routed way of every question does."""

    def __init__(
        self, model: Model, make: Mapping[str, Callable[[], S]], n_attributes: int, first: str,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:  # fmt: skip
        assert set(model.ways) <= set(make), "a way cannot be made"
        self.model = model
        self.ledger = Ledger(len(model.ways), model.spans)
        self.n_built = self.n_dropped = self.n_batches = 0
        self.choosing = 0.0  # seconds
        self.estimates = np.zeros(len(model.ways))  # us of an event, each way, lately
        self._make = make
        self._first = first
        self._n_attributes = n_attributes
        self._clock = clock
        self._single = ""  # the best way for all events of the last batch that was looked at
        self._saved_us = self._each_us = 0.0  # by choosing, and estimated cost: an event, lately
        self.choosing_us = 0.0  # a batch, lately, without what was built in it
        self._building = 0.0  # seconds, in this batch
        self._n_looked = self._n_unseen = 0  # batches looked at; gone one way since the last
        self._n_explored = 0
        self._is_overtaken = False  # by what was measured since
        # What a call and an event cost, lately, by each way and without corrections.
        self._calls_us, self._events_us = np.zeros((2, len(model.ways)))
        self._start_over()

    def add(self, slots: Int64s, lows: Int64s, highs: Int64s) -> None:
        self.queries.add(slots, lows, highs)
        self._forward(lambda way: way.add(slots, lows, highs))

    def remove(self, slots: Int64s) -> None:
        self.queries.remove(slots)
        if len(self.queries):
            self._forward(lambda way: way.remove(slots))
        else:
            self._start_over()

    def answer(
        self, n_events: int, features: Callable[[], tuple[Mapping[str, float], Floats]],
        process: Callable[[S, Int64s], Hits],
    ) -> Hits:  # fmt: skip
        """Answer a batch in parts.

        `features` gives the stats of the batch and the traits of its events; `process` answers
        the events at these places, ascending, by one way.
        """
        if not n_events:
            return Matches.none(0)
        self.n_batches += 1
        if self._is_not_worth_it(n_events):
            return self._all_one_way(n_events, process)
        begin, self._building, self._is_overtaken = self._clock(), 0.0, False
        stats, traits = features()
        weights = self.model.weights(stats)
        calls, costs = weights[:, 0], weights[:, 1:] @ traits[1 : weights.shape[1]]
        self._calls_us, self._events_us = calls, costs.sum(axis=1) / n_events
        factors = self.ledger.corrections()
        choice = self.last = self._choose(costs * factors[:, None], calls * factors)
        ways = np.flatnonzero(np.bincount(choice, minlength=len(self.model.ways))).tolist()
        shares = [(w, np.flatnonzero(choice == w)) for w in ways]
        now = self._clock()
        self._note_choosing(1e6 * (now - begin - self._building))
        parts = []
        for w, places in shares:
            hits = process(self.built[self.model.ways[w]], places)
            before, now = now, self._clock()
            expected = float(calls[w] + costs[w, places].sum())
            self._book(w, places.size, now - before, expected)
            parts.append(Part(places, self._watched(hits, w, now - before)))
        self.ledger.forget(ways)
        return joined(n_events, parts)

    def drop(self, name: str) -> None:
        """Give up a built way, unless it is the only one."""
        if name in self.built and len(self.built) > 1:
            del self.built[name]
            self.ledger.rent[self.model.ways.index(name)] = 0.0
            self.n_dropped += 1

    def memory_bytes(self) -> int:
        built = sum(way.memory_bytes() for way in self.built.values())
        return built + self.queries.memory_bytes() + self.last.nbytes

    def check(self) -> None:
        assert self.built, "no way is built"
        self.queries.check()
        for way in self.built.values():
            way.check()

    def describe(self) -> dict[str, object]:
        """Shares, costs and corrections of the ways, as `explain` prints them."""
        book, total = self.ledger, max(1, int(self.ledger.events.sum()))
        parts = []
        for w, way in enumerate(self.model.ways):
            cost = "not measured yet"
            if book.measured[w]:
                cost = f"measured at {1e6 * book.seconds[w] / book.measured[w]:.2f} us each"
            estimate = f"{self.estimates[w]:.2f} us estimated" if self._n_looked else "no estimate"
            share = f"{book.events[w] / total:.0%} of events"
            by = f"corrected by {book.corrections()[w]:.2f}"
            parts.append(f"{way} {share}, {cost}, {estimate} lately, {by}")
        return {
            "routes": "; ".join(parts),
            "in use": ", ".join(self.built),
            "ways built on demand": self.n_built,
            "ways dropped": self.n_dropped,
            "us to choose in a batch, lately": self.choosing_us,
            "constants": self.model.source,
        }

    def _start_over(self) -> None:
        """Nobody is there: hold nothing but one empty way."""
        self.queries = BoxTable(self._n_attributes)
        self.built: dict[str, S] = {self._first: self._make[self._first]()}
        self.last = np.empty(0, np.int64)  # the way of each event of the last batch
        self._changed = {self._first}  # ways that may have to put themselves in order first
        self.ledger.credit[:] = self.ledger.rent[:] = 0.0

    def _is_not_worth_it(self, n_events: int) -> bool:
        """Whether choosing costs too much, and more than it has saved lately."""
        is_turn = self.n_batches % LOOK_EVERY == 0 or self._explores()
        is_known = self._single in self.built and self._n_looked >= LOOK_FIRST
        worth = n_events * max(self._saved_us, OVERHEAD * self._each_us)
        is_settled = is_known and not is_turn and not self._is_overtaken
        return is_settled and worth < self.choosing_us

    def _all_one_way(self, n_events: int, process: Callable[[S, Int64s], Hits]) -> Hits:
        w = self.model.ways.index(self._single)
        self.last = np.full(n_events, w)
        self._n_unseen += 1
        begin = self._clock()
        hits = process(self.built[self._single], np.arange(n_events))
        expected = float(self._calls_us[w] + n_events * self._events_us[w])
        if self._single in self._changed or OVERHEAD * expected < BOOKING_US:
            self.ledger.events[w] += n_events
            self._changed.discard(self._single)
            return hits
        took = self._clock() - begin
        self._book(w, n_events, took, expected)
        totals = self.ledger.corrections() * (self._calls_us + n_events * self._events_us)
        others = [totals[i] for i, way in enumerate(self.model.ways) if way in self.built]
        self._is_overtaken = min(others) < OVERTAKEN * totals[w]
        return self._watched(hits, w, took)

    def _watched(self, hits: Hits, w: int, took: float) -> Hits:
        """Hits that tell the books what slices cost, of a way where that is not nothing."""
        if not self.model.spans[w]:
            return hits
        return Watched(hits, self._clock, lambda more: self.ledger.note_spans(w, took, more))

    def _note_choosing(self, us: float) -> None:
        self._n_looked += 1
        if self._n_looked > 1:  # the first may compile
            self.choosing += 1e-6 * us
            # A busy machine, or something to be learned first, only ever makes it longer.
            known = self.choosing_us or us
            self.choosing_us = min(us, known + (us - known) / 8)

    def _book(self, w: int, n_events: int, seconds: float, expected_us: float) -> None:
        """Write down what a part of a batch took."""
        book, way = self.ledger, self.model.ways[w]
        expected_us *= 1 - book.spans[w]  # which nobody may ask for
        book.events[w] += n_events
        if way not in self._changed:
            book.measure(w, n_events, seconds, expected_us)
            return
        # The way put itself in order first, which belongs to its rent. Or it was compiled, which
        # nobody is to pay for: more than a new building it never is.
        rent = 1e6 * seconds - float(book.corrections()[w]) * expected_us
        book.rent[w] += min(max(0.0, rent), float(self._prices()[w]))
        self._changed.discard(way)

    def _choose(self, costs: Floats, calls: Floats) -> Int64s:
        """The way of each event, after ways were built and dropped as the books say."""
        choice = np.empty(costs.shape[1], np.int64)
        gains = np.empty(calls.size)
        usable = np.array([way in self.built for way in self.model.ways])
        single, saved = assign(costs, calls, usable, choice, gains)
        self._single, n = self.model.ways[single], choice.size
        self.estimates = (calls + costs.sum(axis=1)) / n
        self._saved_us += (saved / n - self._saved_us) / 2
        total = calls[single] + costs[single].sum() - saved
        self._each_us += (total / n - self._each_us) / 2
        book, gains = self.ledger, gains * (1 + self._n_unseen)
        self._n_unseen = 0
        book.credit[~usable] += np.maximum(gains[~usable], 0)
        book.rent[usable] = np.maximum(book.rent[usable] - gains[usable], 0)
        prices = self._prices()
        wanted = ~usable & (book.credit > PATIENCE * prices)
        if wanted.any():
            # One at a time: the best of them may leave the others nothing to save.
            best = int(np.argmax(np.where(wanted, book.credit - prices, -np.inf)))
            self.build(self.model.ways[best])
            book.credit[~usable] = 0.0
            return self._choose(costs, calls)
        turn = -1
        if self._explores():
            totals = self.estimates
            rivals = np.flatnonzero(usable & (totals <= RIVAL * totals[single]))
            rivals = rivals[rivals != single]
            at, self._n_explored = self._n_explored % (rivals.size + 1), self._n_explored + 1
            if at < rivals.size:
                choice[:] = rivals[at]
            else:
                turn = self.n_batches
        _deal(costs, usable, choice, EXPLORE_EVENTS, EXPLORE_WITHIN, turn)
        return choice

    def _explores(self) -> bool:
        """Whether this batch finds out whether the estimates are right."""
        return self.n_batches % EXPLORE_EVERY == 0 or self.n_batches in EXPLORE_FIRST

    def made(self, name: str) -> S:
        """A way with all queries in it."""
        way, slots = self._make[name](), self.queries.living()
        if slots.size:
            way.add(slots, *ranges_of(self.queries, slots))
        return way

    def build(self, name: str) -> None:
        """Have a way with all queries in it, whether it pays or not."""
        if name not in self.built:
            begin = self._clock()
            self.built[name] = self.made(name)
            self._building += self._clock() - begin
            self.ledger.rent[self.model.ways.index(name)] = 0.0
            self.n_built += 1
            self._changed.add(name)

    def _prices(self) -> Floats:
        """What it costs to build each way, in microseconds."""
        prices: Floats = len(self.queries) * self.model.builds
        return prices

    def _forward(self, change: Callable[[S], None]) -> None:
        """Apply a change to every built way; drop those whose rent is not paid."""
        book, begin = self.ledger, self._clock()
        for w, name in enumerate(self.model.ways):
            if name in self.built:
                change(self.built[name])
                self._changed.add(name)
                before, begin = begin, self._clock()
                book.rent[w] += 1e6 * (begin - before)
        prices = self._prices()
        for w in np.argsort(-book.rent).tolist():
            if book.rent[w] > NOISE_US + prices[w]:
                self.drop(self.model.ways[w])


def ranges_of(queries: BoxTable, slots: Int64s) -> tuple[Int64s, Int64s]:
    """The lows and the highs of slots, an attribute to each row."""
    bounds = queries.bounds.take(slots, axis=0).T
    return np.ascontiguousarray(bounds[0::2]), np.ascontiguousarray(bounds[1::2])


@kernel
def assign(
    costs: Floats, calls: Floats, usable: Bools, choice: Int64s, gains: Floats
) -> tuple[int, float]:
    """Choose a way for each event, as few ways as pay for their calls and save enough.

    `gains[w]` is what a usable way saves against the other usable ones, and what a way that is
    not usable would save. Returns the best way for all of them, and what choosing saves.
    """
    n_ways, n_events = costs.shape
    totals = np.full(n_ways, np.inf)
    for w in range(n_ways):
        if usable[w]:
            totals[w] = calls[w] + costs[w].sum()
    first = np.argmin(totals)
    least, used = costs[first].copy(), np.zeros(n_ways, np.bool_)
    used[first] = True
    choice[:] = first
    saved = 0.0
    while True:
        best = -1
        for w in range(n_ways):
            gains[w] = -calls[w]
            part = MIXED if usable[w] else SURELY
            for e in range(n_events):
                gains[w] += max(0.0, part * least[e] - costs[w, e])
            is_worth = usable[w] and not used[w] and gains[w] > WORTH * totals[first]
            if is_worth and (best < 0 or gains[w] > gains[best]):
                best = w
        if best < 0:
            break
        used[best] = True
        saved += gains[best]
        for e in range(n_events):
            if costs[best, e] < MIXED * least[e]:
                least[e], choice[e] = costs[best, e], best
    for w in range(n_ways):
        if usable[w]:
            gains[w] = 0.0
    if np.count_nonzero(usable) > 1:
        for e in range(n_events):
            other = np.inf
            for w in range(n_ways):
                if usable[w] and w != choice[e]:
                    other = min(other, costs[w, e])
            gains[choice[e]] += other - least[e]
    return int(first), saved


@kernel
def _deal(
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
