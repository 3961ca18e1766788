"""The books of a router: what each way has cost, what it would have saved, how wrong estimates are.

Each way has a correction: measured over estimated time, smoothed. What the corrections have in
common is the speed of the machine. Only what a way takes to answer is always measured; what writing
the answer as slices takes is known when somebody asks for them, and a share of the time until then.
"""

from __future__ import annotations

import math

import numpy as np

from standfast.operators.costs import Floats

# A measurement moves a correction up or down by these shares, by less if the part was shorter than
# NOISE_US. A busy machine makes everything slower now and then and never faster, so what is fast is
# believed sooner; and so are the first measurements, by the share FIRST.
RISING, FALLING, FIRST = 0.2, 0.3, 0.5
NOISE_US = 200.0
# A measurement that is so many times what was expected is believed when the next one says the same.
STRANGE = math.log(3.0)
# The part of a correction that is forgotten in a batch that does not measure it, so that a way that
# once looked bad is tried again.
FORGOTTEN = 1 / 64


class Ledger:
    """What each way has cost and saved: the books of a router."""

    def __init__(self, n_ways: int, spans: Floats | None = None) -> None:
        """`spans` is the share of each way's time that slices are thought to take."""
        self.spans = np.zeros(n_ways) if spans is None else spans.copy()
        self.events = np.zeros(n_ways, np.int64)
        self.measured = np.zeros(n_ways, np.int64)  # events of the seconds below
        self.seconds = np.zeros(n_ways)
        self.credit = np.zeros(n_ways)  # microseconds, as all below
        self.rent = np.zeros(n_ways)
        self.patience = np.ones(n_ways)  # factors on the credit that builds a way
        self._log = np.zeros(n_ways)
        self._weight = np.zeros(n_ways)
        self._strange = np.zeros(n_ways, np.bool_)
        # Logs of corrections as contests have compared them, the mixture's behind those of ways.
        self._fair = np.zeros(n_ways + 1)
        self._compared = np.zeros(n_ways + 1, np.bool_)

    def corrections(self) -> Floats:
        """Factors on the estimates.

        What all measured ways have in common is the speed of the machine, which holds for the
        others too; that it is as it was when the constants were fitted counts as one measured way.
        """
        trust = self._weight / (self._weight + 0.1)
        speed = float(trust @ self._log) / (1 + float(trust.sum()))
        factors: Floats = np.exp(trust * self._log + (1 - trust) * speed)
        return factors

    def fair(self, single: int) -> Floats:
        """Factors on estimates that do not tell apart what was not measured side by side.

        Ways that contests have compared with the single one follow its correction. The last factor
        is that of the mixture, or not a number if it was not compared.
        """
        factors = np.append(self.corrections(), np.nan)
        if single >= 0 and self._compared[single]:
            known = self._compared
            factors[known] = factors[single] * np.exp(self._fair[known] - self._fair[single])
        return factors

    def compare(self, holder: int, challenger: int, lead: float) -> None:
        """A contest found the log of the holder's correction over the challenger's."""
        if not self._compared[holder]:
            self._compared[:] = False
        self._compared[[holder, challenger]] = True
        self._fair[challenger] = self._fair[holder] - lead

    def forget_mixture(self) -> None:
        """The mixture is another one now."""
        self._compared[-1] = False

    def measure(self, way: int, n_events: int, seconds: float, expected_us: float) -> None:
        """A part of a batch took so long; `expected_us` is the estimate without correction."""
        self.measured[way] += n_events
        self.seconds[way] += seconds
        if expected_us <= 0 or seconds <= 0:
            return
        if not self._weight[way]:
            self._log[way] = math.log(self.corrections()[way])  # as fast as the others
        step = math.log(1e6 * seconds / expected_us) - self._log[way]
        was_strange, self._strange[way] = self._strange[way], abs(step) > STRANGE
        if self._strange[way] and not was_strange:
            return
        certain = expected_us / (expected_us + NOISE_US)
        share = max(RISING if step > 0 else FALLING, FIRST * (1 - self._weight[way]))
        self._log[way] += step * certain * share
        self._weight[way] = min(1.0, self._weight[way] + certain * FALLING)

    def note_spans(self, way: int, took: float, more: float) -> None:
        """Slices were asked for and took so much more."""
        if took + more > 1e-6 * NOISE_US:
            self.spans[way] += RISING * (min(more / (took + more), 0.9) - self.spans[way])

    def forget(self, measured: list[int]) -> None:
        """A batch has gone by in which only these ways were measured."""
        kept = self._weight[measured]
        self._weight *= 1 - FORGOTTEN
        self._weight[measured] = kept

    def describe(self, estimates: Floats | None) -> list[str]:
        """Share, costs and correction of each way; estimates are those of an event lately."""
        total, corrections, parts = max(1, int(self.events.sum())), self.corrections(), list[str]()
        for w in range(self.events.size):
            cost = "not measured yet"
            if self.measured[w]:
                cost = f"measured at {1e6 * self.seconds[w] / self.measured[w]:.2f} us each"
            estimate = "no estimate" if estimates is None else f"{estimates[w]:.2f} us estimated"
            share, by = f"{self.events[w] / total:.0%} of events", f"{corrections[w]:.2f}"
            parts.append(f"{share}, {cost}, {estimate} lately, corrected by {by}")
        return parts
