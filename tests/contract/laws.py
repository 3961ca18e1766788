"""What every law needs: the cases of the catalogue, sizes, and a tally against empty victories.

A law is a function of a case, a source of chance and a tally. `hold_for_all` lets Hypothesis draw
the chance and shrink what fails; `python -m tests.contract.sweep` draws it from seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from random import Random

import numba
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.contract.capacities import tiny_capacities
from tests.contract.sights import WANTED, Tally
from tests.contract.worlds import CASES, Case, cases_of

# The kernels as plain Python are slow: fewer examples, smaller ones.
SMALL = bool(numba.config.DISABLE_JIT)

Law = Callable[[Case, Random, Tally], None]

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def every_case_of(*questions: str) -> pytest.MarkDecorator:
    """The cases of some questions."""
    return pytest.mark.parametrize("case", cases_of(*questions), ids=str)


def hold_for_all(
    law: Law, case: Case, *wanted: str, seeds: int = 3, examples: int = 2,
    shown: tuple[str, ...] | None = None,
) -> Tally:  # fmt: skip
    """Try the law on seeded histories, then let Hypothesis search; returns what was seen.

    Goes on for a while until everything that is `wanted` was seen, and all that its histories must
    show (what the question asks for, unless `shown` says); it fails when something was not.
    """
    wanted = (*wanted, *(WANTED[case.question] if shown is None else shown))
    tally: Tally = Counter()
    enough = max(2, seeds // 3) if SMALL else seeds
    for seed in range(5 * enough):
        if seed >= enough and all(tally[what] for what in wanted):
            break
        hold_for_seed(law, case, seed, tally)

    @settings(
        max_examples=max(2, examples // 5) if SMALL else examples,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example],
    )
    @given(st.randoms(use_true_random=False))
    def holds(rng: Random) -> None:
        attempt(law, case, rng, tally)

    holds()
    missing = [what for what in wanted if not tally[what]]
    assert not missing, f"{case} was never seen with {missing}: {tally}"
    return tally


def attempt(law: Law, case: Case, rng: Random, tally: Tally) -> None:
    """Try the law once, every other time with tiny capacities."""
    is_tiny = rng.random() < 0.5
    with tiny_capacities() if is_tiny else nullcontext():
        law(case, rng, tally)


def hold_for_seed(law: Law, case: Case, seed: int, tally: Tally) -> None:
    """Try the law on one seeded history; a failure says how to see it again."""
    try:
        attempt(law, case, Random(seed), tally)
    except BaseException as error:
        error.add_note(f"replay: {replay(law, case, seed)}")
        raise


def replay(law: Law, case: Case, seed: int) -> str:
    """The command that runs one seeded history again."""
    return f"python -m tests.contract.sweep --law {law.__name__} --case {case} --seed {seed}"
