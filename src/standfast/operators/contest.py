"""A contest: two close plans take batches in turn until it is clear which of them costs less.

A plan is a way that takes all events, or the *mixture*, which sends each event the way that is
estimated to be cheapest for it; its number is that behind the last way.

    holder      x x . . x x . .        rounds of two samples: the first one of a round finds the
    challenger  . . x x . . x x        caches full of what the other plan has read

Estimates that are a fifth off cannot tell such plans apart, and what was measured at different
times was measured at different speeds of the machine. So the two are measured side by side. A
sample is measured over estimated time, of as many batches as take long enough to be timed. Whatever
disturbs a measurement makes it longer, so a plan is judged by a low quantile of its samples. The
longest contests are those between plans that differ least, which is when trying costs least.

A challenger that has lost rests, each time twice as long, unless what was measured since says that
it is cheaper now; and for each batch of a contest there are REST without one, but for the first
contest of each plan.

Invariant  the challenger never has more samples than the holder, and never lacks more than a round.
Cost       O(1) a batch; at most 2 * MOST_ROUNDS rounds.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from standfast.operators.costs import Floats

Bools = npt.NDArray[np.bool_]

# Samples of a round; rounds of each plan before a challenger can lose by a little or win, because
# a wrong winner stays for long; and before it is over.
ROUND, TO_LOSE, TO_WIN, MOST_ROUNDS = 2, 2, 3, 4
# A challenger that is so much dearer is given up after its first sample, or after its first round;
# a lead that decides before the last one; and a lead that is enough then.
AT_ONCE, HOPELESS, CLEAR, ENOUGH = math.log(2), math.log(1.25), math.log(1.1), math.log(1.03)
# One part in so many of the samples of a plan may be faster than what it is judged by.
QUANTILE = 4
# A sample is expected to take so many microseconds at least.
SAMPLE_US = 1000.0
# Batches in a row that could not be measured, after which the contest is given up.
MOST_VOID = 4
# Plans within this factor of the best are close: their order is decided by contests alone.
RIVAL = 1.6
# What was measured says that another plan is cheaper, if it costs less than this part.
OVERTAKEN = 0.95
# Batches without a contest for each one with it. Batches until a plan is tried again, and at most.
REST, RETRY, MOST_RETRY = 8, 64, 512


class Contest:
    """The samples of two plans, and whose turn it is."""

    def __init__(self, holder: int, challenger: int, begun: int) -> None:
        """`begun` is the number of the batch that it begins with."""
        self.holder, self.challenger, self.begun = holder, challenger, begun
        self.plan = holder  # whose turn it is
        self._samples: dict[int, list[float]] = {holder: [], challenger: []}
        self._seconds = self._expected_us = 0.0  # of the sample that is being taken
        self._is_noted, self._n_void = False, 0

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
        self._is_noted = False
        if self._expected_us < SAMPLE_US:
            return
        own = self._samples[self.plan]
        own.append(self._seconds / self._expected_us)
        self._seconds = self._expected_us = 0.0
        if len(own) % ROUND == 0:
            self.plan = self.challenger if self.plan == self.holder else self.holder

    def lead(self) -> float:
        """Log of the holder's correction over the challenger's, as far as it is known."""
        least = [sorted(own)[len(own) // QUANTILE] for own in self._samples.values() if own]
        if len(least) < 2 or min(least) <= 0:
            return 0.0
        return math.log(least[0] / least[1])

    def winner(self, dearer: float) -> int | None:
        """Who costs less, if that is clear.

        `dearer` is the log of the challenger's estimate over the holder's, without corrections.
        """
        if self._n_void > MOST_VOID:
            return self.holder
        if not self.is_measured:
            return None
        n_rounds, rest = divmod(len(self._samples[self.challenger]), ROUND)
        lead = self.lead() - dearer
        if lead < -AT_ONCE:
            return self.holder
        if rest or self.plan != self.holder:
            return None
        if lead < -HOPELESS or (n_rounds >= TO_LOSE and lead < -CLEAR):
            return self.holder
        if lead > CLEAR and n_rounds >= TO_WIN:
            return self.challenger
        if n_rounds < MOST_ROUNDS:
            return None
        return self.challenger if lead > ENOUGH else self.holder

    @property
    def is_measured(self) -> bool:
        """Whether both have been measured."""
        return all(self._samples.values())


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
        due = self._rests == 0
        if batch >= self._free_at:
            due |= (seen < OVERTAKEN * seen[h]) | (batch >= self._due)
        near &= due
        if near.any():
            challenger = int(np.argmin(np.where(near, seen, np.inf)))
            self.now = Contest(h, challenger, batch)

    def end(self, winner: int, batch: int) -> None:
        """A contest is over: the winner holds the place, the other one rests."""
        contest = self.now
        assert contest, "there is no contest"
        is_upset = winner != contest.holder
        loser = contest.holder if is_upset else contest.challenger
        rests = RETRY if is_upset else max(RETRY, int(self._rests[loser]))
        self._rests[loser] = min(2 * rests, MOST_RETRY)
        self._due[loser] = batch + rests
        self._rests[winner] = self._rests[winner] or RETRY
        self._free_at = batch + REST * (batch - contest.begun)
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
