"""A contest: two close plans take batches in turn until it is clear which of them costs less.

A plan is a way that takes all events, or the *mixture*, which sends each event the way that is
estimated to be cheapest for it; its number is that behind the last way.

    holder      x x . . x x . .        rounds of two samples: the first one of a round finds the
    challenger  . . x x . . x x        caches full of what the other plan has read
    lead           l1      l2          of a pair of rounds, by the better sample of each

Estimates that are a fifth off cannot tell such plans apart, and what was measured at different
times was measured at different speeds of the machine. So the two are measured side by side. A
sample is measured over estimated time, of as many batches as take long enough to be timed. Whatever
disturbs a measurement makes it longer, so the better sample of a round counts, and what the machine
does meanwhile is nearly the same for the two rounds of a pair, so their ratio counts.

The leads of the pairs say who is ahead and how sure that is. From these two follows what is lost,
in the mean, if the one that is ahead is taken though it may be the other: a contest is over when
that is little. So plans that are far apart are told apart by few samples, and the longest contests
are those between plans that differ least, which is when trying costs least.

A challenger that has lost clearly rests, each time twice as long, unless what was measured since
says that it is cheaper now; one that is not known to be dearer is tried again soon. After a contest
there is none until what it has lost is a small part of the time since, but for the first one of
each plan, and unless the holder is far behind by what was measured.

Invariant  the challenger never has more samples than the holder, and never lacks more than a round.
Cost       O(MOST_ROUNDS log MOST_ROUNDS) a batch of a contest; at most 2 * MOST_ROUNDS rounds.
"""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from standfast.operators.costs import Floats

Bools = npt.NDArray[np.bool_]

# Samples of a round; rounds of each plan before a challenger can lose by a little or win, because
# a wrong winner stays for long; and before it is over.
ROUND, TO_LOSE, TO_WIN, MOST_ROUNDS = 2, 2, 3, 20
# A challenger that is so much dearer is given up after its first sample, which may be one that the
# machine made three times as long, or after its first round; and the lead that takes the place at
# the end of a contest that nobody has won before.
AT_ONCE, HOPELESS, ENOUGH = math.log(4), math.log(1.5), math.log(1.01)
# The part of the time that may be lost, in the mean, by taking the plan that is ahead. The smaller
# it is, the longer are contests; the numbers are in decision 011.
RISK = 0.0002
# How far the lead of a pair is thought to be off before there are some, which counts as so many
# pairs; and the leads that are further from the middle than so many usual distances are pulled in.
NOISE, SUPPOSED, FAR = 0.1, 2, 2.0
# A sample is expected to take so many microseconds at least.
SAMPLE_US = 1000.0
# Batches in a row that could not be measured, after which the contest is given up.
MOST_VOID = 4
# Plans within this factor of the best are close: their order is decided by contests alone.
RIVAL = 1.6
# What was measured says that another plan is cheaper, if it costs less than the first part; below
# the second one no contest that has cost much is waited for.
OVERTAKEN, LEFT_BEHIND = 0.95, 0.75
# The part of the time that contests may cost. Batches until a plan is tried again, and at most.
TRYING, RETRY, MOST_RETRY = 0.01, 64, 512


class Lead(NamedTuple):
    """Log of the holder's cost over the challenger's, and how far that may be off."""

    log: float
    error: float

    @property
    def risk(self) -> float:
        """What is lost in the mean, in logs, by taking the plan that is ahead."""
        z = abs(self.log) / self.error
        density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
        return self.error * (density - z * math.erfc(z / math.sqrt(2)) / 2)


class Verdict(NamedTuple):
    """How a contest has ended."""

    winner: int
    is_clear: bool  # or it may as well be the other one
    lost: float  # what trying has cost, in batches


class Contest:
    """The samples of two plans, and whose turn it is."""

    def __init__(self, holder: int, challenger: int, begun: int) -> None:
        """`begun` is the number of the batch that it begins with."""
        self.holder, self.challenger, self.begun = holder, challenger, begun
        self.plan = holder  # whose turn it is
        self._samples: dict[int, list[float]] = {holder: [], challenger: []}
        self._seconds = self._expected_us = 0.0  # of the sample that is being taken
        self._is_noted, self._n_void, self._n_tried = False, 0, 0

    def note(self, seconds: float, expected_us: float) -> None:
        """A batch was answered by the plan whose turn it is; the estimate has no correction."""
        self._seconds += seconds
        self._expected_us += expected_us
        self._is_noted = True

    def add(self, seconds: float) -> None:
        """Somebody asked for the answer of the last batch in some form, which took so long."""
        self._seconds += seconds

    def close(self) -> None:
        """The last batch is done with: a sample that is long enough is complete."""
        self._n_void = 0 if self._is_noted else self._n_void + 1
        self._n_tried += self.plan == self.challenger
        self._is_noted = False
        if self._expected_us < SAMPLE_US:
            return
        own = self._samples[self.plan]
        own.append(self._seconds / self._expected_us)
        self._seconds = self._expected_us = 0.0
        if len(own) % ROUND == 0:
            self.plan = self.challenger if self.plan == self.holder else self.holder

    def lead(self) -> Lead:
        """The holder's correction over the challenger's, as far as it is known."""
        least = [
            [min(own[i : i + ROUND]) for i in range(0, len(own), ROUND)]
            for own in (self._samples[self.holder], self._samples[self.challenger])
        ]
        pairs = [math.log(h / c) for h, c in zip(*least, strict=False) if h > 0 and c > 0]
        return typical(pairs) if pairs else Lead(0.0, NOISE)

    def verdict(self, dearer: float) -> Verdict | None:
        """Who costs less, if that is clear or the contest has lasted long enough.

        `dearer` is the log of the challenger's estimate over the holder's, without corrections.
        """
        known = self.lead()
        lead = Lead(known.log - dearer, known.error)
        lost = self._n_tried * (abs(lead.log) + lead.error)
        if self._n_void > MOST_VOID:
            return Verdict(self.holder, False, lost)
        if not self.is_measured:
            return None
        n_rounds, rest = divmod(len(self._samples[self.challenger]), ROUND)
        if lead.log < -AT_ONCE:
            return Verdict(self.holder, True, lost)
        if rest or self.plan != self.holder:
            return None
        n_needed = TO_WIN if lead.log > 0 else TO_LOSE if lead.log > -HOPELESS else 1
        is_clear = lead.risk < RISK and n_rounds >= n_needed
        if not is_clear and n_rounds < MOST_ROUNDS:
            return None
        winner = self.challenger if lead.log > ENOUGH else self.holder
        return Verdict(winner, is_clear, lost)

    @property
    def is_measured(self) -> bool:
        """Whether both have been measured."""
        return all(self._samples.values())


def typical(leads: list[float]) -> Lead:
    """The mean of the leads of pairs and its error, after those that are far off were pulled in."""
    middle = median(leads)
    usual = max(median([abs(lead - middle) for lead in leads]), NOISE / 4)
    low, high = middle - FAR * usual, middle + FAR * usual
    near = [min(max(lead, low), high) for lead in leads]
    mean = fmean(near)
    squares = SUPPOSED * NOISE**2 + sum((lead - mean) ** 2 for lead in near)
    return Lead(mean, math.sqrt(squares / (SUPPOSED + len(near) - 1) / len(near)))


class Contests:
    """Which plan holds the first place, and when another one may challenge it."""

    def __init__(self, n_ways: int) -> None:
        self.mixture = n_ways
        self.single = -1  # the first among the ways that take all events; nobody yet
        self.mixes = False  # whether the mixture holds the place instead
        self.now: Contest | None = None
        self.n_held = 0
        self._free_at = 0  # the next contest of plans that have had one may begin at this batch
        self._due = np.zeros(n_ways + 1, np.int64)  # the batch at which a plan is tried again
        self._rests = np.zeros(n_ways + 1, np.int64)  # batches that it rests next, 0 if never tried

    @property
    def holder(self) -> int:
        return self.mixture if self.mixes else self.single

    @property
    def plan(self) -> int:
        """What the next batch goes."""
        return self.now.plan if self.now else self.holder

    @property
    def is_mixing(self) -> bool:
        """Whether the mixture holds the place, or is in a contest."""
        return self.mixes or self.is_in(self.mixture)

    def is_in(self, plan: int) -> bool:
        """Whether a contest is on that the plan takes part in."""
        return self.now is not None and plan in (self.now.holder, self.now.challenger)

    def can_spare(self, way: int) -> bool:
        """Whether a way may be given up: none in a contest, nor the one that holds the place."""
        return self.now is None and (self.mixes or way != self.single)

    def is_free(self, batch: int) -> bool:
        """Whether another contest of plans that have had one may begin."""
        return self.now is None and batch >= self._free_at

    def settle_single(self, totals: Floats, usable: Bools) -> int:
        """The first among single ways, after one that is not close to the best lost its place."""
        best = int(np.argmin(np.where(usable, totals, np.inf)))
        first = self.single
        if first < 0 or not usable[first] or totals[first] > RIVAL * totals[best]:
            self.single, self.now = best, None
            self.forget(self.mixture)
        return self.single

    def settle_mixture(self, total: float, alone: float) -> None:
        """The same between the mixture, which costs `total`, and the first single way."""
        low, high = sorted((total, alone))
        if high > RIVAL * low:
            self.mixes, self.now = total < alone, None

    def challenge(self, batch: int, seen: Floats, fair: Floats, usable: Bools) -> None:
        """Begin a contest if one is due: `seen` and `fair` are costs of the batch by each plan.

        The first ones follow every measurement, the others contests alone.
        """
        if self.now:
            return
        h = self.holder
        near = usable & (np.minimum(seen, fair) <= RIVAL * fair[h])
        near[h] = False
        due = (self._rests == 0) | (seen < LEFT_BEHIND * seen[h])
        if batch >= self._free_at:
            due |= (seen < OVERTAKEN * seen[h]) | (batch >= self._due)
        near &= due
        if near.any():
            challenger = int(np.argmin(np.where(near, seen, np.inf)))
            self.now = Contest(h, challenger, batch)

    def end(self, verdict: Verdict, batch: int) -> None:
        """A contest is over: the winner holds the place, the other one rests.

        One that may be the better one all the same does not rest longer than the first time.
        """
        contest, winner = self.now, verdict.winner
        assert contest, "there is no contest"
        is_upset = winner != contest.holder
        loser = contest.holder if is_upset else contest.challenger
        is_new = is_upset or not verdict.is_clear
        rests = RETRY if is_new else max(RETRY, int(self._rests[loser]))
        self._rests[loser] = min(2 * rests, MOST_RETRY) if verdict.is_clear else RETRY
        self._due[loser] = batch + rests
        self._rests[winner] = self._rests[winner] or RETRY
        self._free_at = batch + math.ceil(verdict.lost / TRYING)
        self.mixes, self.now = winner == self.mixture, None
        if not self.mixes:
            self.single = winner
        self.n_held += 1

    def forget(self, plan: int) -> None:
        """A way was built or given up: what is known of it was about another one."""
        self._rests[plan] = 0
        if self.is_in(plan):
            self.now = None
        self.mixes &= plan != self.mixture
