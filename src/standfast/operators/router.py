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
which of two close ways is cheaper is decided by measuring both in turn (`operators.contest`). The
way that has won such a contest *holds* the first place: events leave it for others one by one.

Invariant  at least one way is built; every built way holds exactly the living queries.
Cost       O(ways) an event.
Paper      [hotspot] section 4; structures on demand and corrections are ours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import numpy as np

from standfast._numba import Stopwatch
from standfast.arrays import Hits, Int64s, Matches
from standfast.operators.assignment import STILL_WORTH, WORTH, Bools, assign, deal
from standfast.operators.base import Strategy
from standfast.operators.changes import Changes
from standfast.operators.contest import OVERTAKEN, Contests
from standfast.operators.costs import Floats, Model
from standfast.operators.equality import BoxTable, ranges_of
from standfast.operators.ledger import NOISE_US, Ledger
from standfast.operators.split import Part, joined
from standfast.operators.watched import Watched

S = TypeVar("S", bound=Strategy)

# Where choosing costs more than it saves and more than this share of the time (small batches, cheap
# events), all events go one way and only one batch in so many is looked at.
OVERHEAD = 0.01
LOOK_EVERY, LOOK_FIRST = 16, 4
# What such a batch took is written down where that costs less than the share above; when it shows
# that another way may be cheaper than the one in use, the next batch is looked at. One batch in
# so many is compared.
BOOKING_US, COMPARE_EVERY = 20.0, 4
# Credit, in costs of building, that builds a way: twice as much each time that the way is dropped
# because it does not pay, at most so many times as much.
PATIENCE, MOST_PATIENCE = 1.0, 64.0
# What choosing takes in a batch follows measurements by these shares; what takes longer than so
# many times the usual counts as that.
RISING, FALLING, STRANGE = 1 / 8, 1 / 4, 4.0
# In one batch of so many, one event in EXPLORE_EVENTS is dealt to ways that are not far, so that a
# way that fell out of use is measured again; to those only whose call is that part of the batch.
EXPLORE_EVERY, EXPLORE_EVENTS, EXPLORE_WITHIN, EXPLORE_CALL = 64, 32, 4.0, 0.05


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
        self.choosing = self.worked = 0.0  # seconds, and those that answering took
        self.estimates = np.zeros(len(model.ways))  # us of an event, each way, lately
        self._make = make
        self._first = first
        self._n_attributes = n_attributes
        self.clock = clock
        self._raw = np.zeros(len(model.ways) + 1)  # us of the last batch looked at, by each plan
        self._saved_us = self._each_us = 0.0  # by choosing, and estimated cost: an event, lately
        self.choosing_us = 0.0  # a batch, lately, without what was built or refined in it
        self._building = self.refining = 0.0  # seconds, in this batch
        self._n_looked = self._n_unseen = 0  # batches looked at; gone one way since the last
        self._is_overtaken = False  # the holder, by what was measured since
        self._gains = np.zeros(len(model.ways))  # us that each way saved of the last such batch
        # What a call and an event cost, lately, by each way and without corrections.
        self._calls_us, self._events_us = np.zeros((2, len(model.ways)))
        self._changes = Changes()
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
        self._changes.begin()
        self._go_on()
        if self._is_not_worth_it(n_events):
            return self._all_one_way(n_events, process)
        begin, self._building, self.refining = self.clock(), 0.0, 0.0
        self._is_overtaken = False
        watch = Stopwatch()
        stats, traits = features()
        weights = self.model.weights(stats)
        calls, costs = weights[:, 0], weights[:, 1:] @ traits[1 : weights.shape[1]]
        self._calls_us, self._events_us = calls, costs.sum(axis=1) / n_events
        choice = self.last = self._choose(costs, calls)
        ways = np.flatnonzero(np.bincount(choice, minlength=len(self.model.ways))).tolist()
        shares = [(w, np.flatnonzero(choice == w)) for w in ways]
        now = self.clock()
        self._n_looked += 1
        if watch.seconds() is not None:
            self._note_choosing(1e6 * (now - begin - self._building - self.refining))
        parts, is_ready = [], self._is_ready(ways)
        for w, places in shares:
            hits = process(self.built[self.model.ways[w]], places)
            before, now = now, self.clock()
            expected = float(calls[w] + costs[w, places].sum())
            is_ready &= self._changes.is_usual(self.model.ways[w])
            whole = self._book(w, places.size, now - before, expected)
            parts.append(Part(places, self._watched(hits, w, now - before, is_ready)))
            if is_ready and self.contests.now:
                self.contests.now.note(whole, expected)
        self.ledger.forget(ways)
        return joined(n_events, parts)

    def drop(self, name: str) -> None:
        """Give up a built way, unless it is the only one."""
        if name in self.built and len(self.built) > 1:
            del self.built[name]
            w = self.model.ways.index(name)
            self.ledger.rent[w] = 0.0
            self.contests.forget(w)
            self.n_dropped += 1

    def give_up(self, name: str) -> None:
        """Drop a built way that is to be made otherwise; the only one is built anew at once."""
        if len(self.built) > 1:
            self.drop(name)
        elif name in self.built:
            del self.built[name]
            self.build(name)

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
        parts = self.ledger.describe(self.estimates if self._n_looked else None)
        return {
            "routes": "; ".join(map(" ".join, zip(self.model.ways, parts, strict=True))),
            "in use": ", ".join(self.built),
            "ways built on demand": self.n_built,
            "ways dropped": self.n_dropped,
            "contests of close ways": self.contests.n_held,
            "us to choose in a batch, lately": self.choosing_us,
            "choosing, % of the time": 100 * self.choosing / max(self.choosing + self.worked, 1e-9),
            "constants": self.model.source,
        }

    def _start_over(self) -> None:
        """Nobody is there: hold nothing but one empty way."""
        self.queries = BoxTable(self._n_attributes)
        self.contests = Contests(len(self.model.ways))
        self.built: dict[str, S] = {self._first: self._make[self._first]()}
        self.last = np.empty(0, np.int64)  # the way of each event of the last batch
        self._changes.make(self._first)
        self.ledger.credit[:] = self.ledger.rent[:] = 0.0

    def _is_not_worth_it(self, n_events: int) -> bool:
        """Whether choosing costs too much, and more than it has saved lately."""
        is_turn = self.n_batches % LOOK_EVERY == 0 or self.n_batches % EXPLORE_EVERY == 0
        is_known = self._n_looked >= LOOK_FIRST and self.model.ways[self._single()] in self.built
        contest = self.contests.now
        if contest and contest.plan == self.contests.mixture:
            return False
        worth = n_events * max(self._saved_us, OVERHEAD * self._each_us)
        is_settled = is_known and not is_turn and not self._is_overtaken
        return is_settled and worth < self.choosing_us

    def _single(self) -> int:
        """The way that all events go if they go one way: in a contest that whose turn it is."""
        plan = self.contests.plan
        return plan if plan != self.contests.mixture else self.contests.single

    def _all_one_way(self, n_events: int, process: Callable[[S, Int64s], Hits]) -> Hits:
        w = self._single()
        name = self.model.ways[w]
        self.last = np.full(n_events, w)
        self._n_unseen += 1
        begin = self.clock()
        hits = process(self.built[name], np.arange(n_events))
        took, is_ready = self.clock() - begin, self._is_ready([w])
        expected = float(self._calls_us[w] + n_events * self._events_us[w])
        is_booked = self._changes.is_usual(name) and expected * OVERHEAD >= BOOKING_US
        if is_booked:
            whole = self._book(w, n_events, took, expected)
        else:
            self.ledger.events[w] += n_events
            self.worked += took
            whole = took + self._changes.done(name)
        if is_ready and self.contests.now:
            self.contests.now.note(whole, expected)
        if not is_booked:
            return self._watched(hits, w, took, True) if self.contests.now and is_ready else hits
        if self.n_batches % COMPARE_EVERY == 0 and self.contests.is_free(self.n_batches):
            seen = self.ledger.corrections() * (self._calls_us + n_events * self._events_us)
            self._is_overtaken = bool(seen[self._usable()].min() < OVERTAKEN * seen[w])
        return self._watched(hits, w, took, is_ready)

    def _usable(self) -> Bools:
        return np.array([way in self.built for way in self.model.ways])

    def _is_ready(self, ways: list[int]) -> bool:
        """Whether what a batch takes by these ways says what the plan whose turn it is costs."""
        is_it = len(ways) > 1 if self.contests.plan == self.contests.mixture else len(ways) == 1
        return is_it and all(self._changes.is_usual(self.model.ways[w]) for w in ways)

    def _go_on(self) -> None:
        """The last batch is done with, so its part of a contest is known."""
        contest = self.contests.now
        if contest is None:
            return
        contest.close()
        h, c = contest.holder, contest.challenger
        verdict = contest.verdict(math.log(max(self._raw[c], 1e-9) / max(self._raw[h], 1e-9)))
        if verdict:
            if contest.is_measured:
                self.ledger.compare(h, c, contest.lead().log)
            self.contests.end(verdict, self.n_batches)

    def _watched(self, hits: Hits, w: int, took: float, is_ready: bool) -> Hits:
        """Hits that tell the books, and a contest, what writing them down takes."""
        contest, batch = self.contests.now if is_ready else None, self.n_batches
        if not contest and not self.model.spans[w]:
            return hits

        def note(seconds: float, is_spans: bool) -> None:
            self.worked += seconds
            if is_spans:
                self.ledger.note_spans(w, took, seconds)
            if contest and batch == self.n_batches:
                contest.add(seconds)

        return Watched(hits, self.clock, note)

    def _note_choosing(self, us: float) -> None:
        self.choosing += 1e-6 * us + self.refining
        if self._n_looked > 1:  # the first one learns what is there
            known = self.choosing_us or us
            step = min(us, STRANGE * known) - known
            self.choosing_us = known + step * (RISING if step > 0 else FALLING)

    def _book(self, w: int, n_events: int, seconds: float, expected_us: float) -> float:
        """Write down what a part of a batch took; gives it back with the changes before it."""
        book, way = self.ledger, self.model.ways[w]
        expected_us *= 1 - book.spans[w]  # which nobody may ask for
        book.events[w] += n_events
        self.worked += seconds
        is_usual = self._changes.is_usual(way)
        whole = seconds + self._changes.done(way)
        if is_usual:
            book.measure(w, n_events, whole, expected_us)
            return whole
        # The way put itself in order first, which belongs to its rent. Or it was compiled, which
        # nobody is to pay for: more than a new building it never is.
        rent = 1e6 * seconds - float(book.corrections()[w]) * expected_us
        book.rent[w] += min(max(0.0, rent), float(self._prices()[w]))
        return whole

    def _choose(self, costs: Floats, calls: Floats) -> Int64s:
        """The way of each event, after ways were built and dropped as the books say.

        Costs are estimates without corrections.
        """
        usable, raw, n = self._usable(), calls + costs.sum(axis=1), costs.shape[1]
        contests, book, before = self.contests, self.ledger, self.contests.single
        single = contests.settle_single(book.fair(before)[:-1] * raw, usable)
        if single != before:
            book.forget_mixture()
        factors = book.fair(single)
        fair, choice, gains = factors[:-1], np.empty(n, np.int64), np.empty(calls.size)
        fair_costs, fair_calls = costs * fair[:, None], calls * fair
        worth = STILL_WORTH if contests.is_mixing else WORTH
        assign(fair_costs, fair_calls, usable, single, worth, choice, gains)
        self.estimates = raw * fair / n
        if self._builds(gains, usable):
            return self._choose(costs, calls)
        alone, used, each = float(raw[single] * fair[single]), np.unique(choice), np.arange(n)
        mixed = float(calls[used].sum() + costs[choice, each].sum())
        total = float(fair_calls[used].sum() + fair_costs[choice, each].sum())
        if used.size > 1 and not np.isnan(factors[-1]):
            total = mixed * float(factors[-1])
        contests.settle_mixture(total, alone)
        self._raw = np.append(raw, mixed)
        if self._n_looked + 1 >= LOOK_FIRST:
            seen, known = raw * book.corrections(), np.append(raw * fair, total)
            can = np.append(usable, used.size > 1)
            contests.challenge(self.n_batches, np.append(seen, total), known, can)
        mixes = contests.mixture in (contests.plan, contests.holder)
        self._saved_us += ((alone - total) * mixes / n - self._saved_us) / 2
        self._each_us += ((total if mixes else alone) / n - self._each_us) / 2
        if contests.plan != contests.mixture:
            choice[:] = contests.plan
        is_turn = self.n_batches % EXPLORE_EVERY == 0 and contests.now is None
        cheap = usable & (fair_calls <= EXPLORE_CALL * alone)
        turn = self.n_batches if is_turn else -1
        deal(fair_costs, cheap, choice, EXPLORE_EVENTS, EXPLORE_WITHIN, turn)
        return choice

    def _builds(self, gains: Floats, usable: Bools) -> bool:
        """Put what ways save, or would save, into the books; tells whether one was built for it."""
        if not self.contests.mixes:  # so only the first way has saved something
            gains[usable & (np.arange(gains.size) != self.contests.single)] = 0.0
        self._gains = np.where(usable, np.maximum(gains, 0.0), 0.0)
        book, gains = self.ledger, gains * (1 + self._n_unseen)
        self._n_unseen = 0
        book.credit[~usable] += np.maximum(gains[~usable], 0)
        book.rent[usable] = np.maximum(book.rent[usable] - gains[usable], 0)
        prices = self._prices()
        wanted = ~usable & (book.credit > PATIENCE * book.patience * prices)
        if not wanted.any():
            return False
        # One at a time: the best of them may leave the others nothing to save.
        best = int(np.argmax(np.where(wanted, book.credit - prices, -np.inf)))
        self.build(self.model.ways[best])
        book.credit[~usable] = 0.0
        return True

    def made(self, name: str) -> S:
        """A way with all queries in it."""
        way, slots = self._make[name](), self.queries.living()
        if slots.size:
            way.add(slots, *ranges_of(self.queries, slots))
        return way

    def build(self, name: str) -> None:
        """Have a way with all queries in it, whether it pays or not."""
        if name not in self.built:
            begin = self.clock()
            self.built[name] = self.made(name)
            self._building += self.clock() - begin
            w = self.model.ways.index(name)
            self.ledger.rent[w] = 0.0
            self.contests.forget(w)
            self.n_built += 1
            self._changes.make(name)

    def _prices(self) -> Floats:
        """What it costs to build each way, in microseconds."""
        prices: Floats = len(self.queries) * self.model.builds
        return prices

    def _forward(self, change: Callable[[S], None]) -> None:
        """Apply a change to every built way; drop those whose rent is not paid."""
        book, begin = self.ledger, self.clock()
        for w, name in enumerate(self.model.ways):
            if name in self.built:
                change(self.built[name])
                before, begin = begin, self.clock()
                book.rent[w] += 1e6 * (begin - before)
                self._changes.note(name, begin - before)
        if len(self.built) == 1:
            book.rent[:] = 0.0  # somebody must be there
        prices, unpaid = self._prices(), book.rent - self._n_unseen * self._gains
        for w in np.argsort(-unpaid).tolist():
            is_due = unpaid[w] > NOISE_US + prices[w] and self.contests.can_spare(w)
            if is_due and len(self.built) > 1:
                self.drop(self.model.ways[w])
                book.patience[w] = min(2 * book.patience[w], MOST_PATIENCE)
