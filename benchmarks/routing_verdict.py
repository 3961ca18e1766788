"""What the routing figures conclude: the router against the oracle and against each static way."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.figure import Table, Verdict
from benchmarks.routing_case import CHOOSING, ERROR, MEAN, OPTIMUM, ORACLE, ROUTED, SHARE, WAYS

# The oracle is a static way where it is no faster than the fastest of them; values have six digits.
SAME = 1 + 1e-5


class Standing(NamedTuple):
    """The router's part of the oracle and of the best static way, by point."""

    of_oracle: dict[float, float]
    of_best: dict[float, float]
    best: dict[float, str]  # static way
    n_static: int  # points where the oracle is one

    def text(self, table: Table) -> str:
        """How often the oracle is one way, what means say of the router, and how sure that is."""
        text = f"the oracle is one static way at {self.n_static} of {len(self.best)} points"
        if any(row.panel == MEAN for row in table.rows):
            rates = {name: table.curve(name, MEAN) for name in (*WAYS, ROUTED)}
            parts = [rates[ROUTED][x] / rates[best][x] for x, best in self.best.items()]
            text += (
                ", and by the mean of all runs the router has "
                f"{min(parts):.2f} to {max(parts):.2f} times the best static way"
            )
        if any(row.panel == ERROR for row in table.rows):
            errors = table.curve(ROUTED, ERROR).values()
            text += f"; the error of these ratios is {max(errors):.1f} % at most"
        return text


def standing(table: Table) -> Standing:
    """Where the router stands."""
    xs = sorted(table.curve(ROUTED))
    rates = {name: table.curve(name) for name in (*WAYS, ROUTED, ORACLE)}
    best = {x: max(WAYS, key=lambda way: rates[way][x]) for x in xs}
    return Standing(
        {x: rates[ROUTED][x] / rates[ORACLE][x] for x in xs},
        {x: rates[ROUTED][x] / rates[best[x]][x] for x in xs},
        best,
        sum(rates[ORACLE][x] <= SAME * rates[best[x]][x] for x in xs),
    )


def routing_verdict(table: Table, also: Callable[[Callable[[str], float]], bool]) -> Verdict:
    """The router against the oracle and against each static way, at every point.

    `also` says whether the rest of the claim holds, given the share of each way in percent.
    """
    of_oracle, of_best, best, _ = found = standing(table)
    right = [table.value(ROUTED, x, OPTIMUM) for x in best]
    shares = {way: np.mean([table.value(way, x, SHARE) for x in best]) for way in WAYS}
    choosing = [table.value(ROUTED, x, CHOOSING) for x in best]
    text = (
        f"the router reaches {min(of_oracle.values()):.0%} to {max(of_oracle.values()):.0%} of the "
        f"oracle and {min(of_best.values()):.2f} to {max(of_best.values()):.2f} times the best "
        f"static way ({', '.join(dict.fromkeys(best.values()))}); {found.text(table)}. It sends "
        + ", ".join(f"{share:.0f} % {way}" for way, share in shares.items())
        + f", and {min(right):.0f} to {max(right):.0f} % of the events the fastest way of their "
        f"kind. Choosing takes {min(choosing):.1f} to {max(choosing):.1f} % of the time."
    )
    good = min(of_oracle.values()) >= 0.9 and min(of_best.values()) >= 0.95
    good = good and also(lambda way: float(shares[way]))
    return Verdict(good, text)
