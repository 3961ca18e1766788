"""Longer searches than the suite makes: every law on seeded histories, for a night or a minute.

    python -m tests.contract.sweep --seeds 1000                      all laws, all cases
    python -m tests.contract.sweep --law matches_naive --seeds 5000  one law
    python -m tests.contract.sweep --law matches_naive --case band_join-groups --seed 17

The last form replays one history; a failure prints the command that does so. The exit status is
1 when a law failed.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from random import Random

from tests.contract.laws import Law, Tally, attempt, replay
from tests.contract.test_add_then_remove_leaves_no_trace import add_then_remove_leaves_no_trace
from tests.contract.test_all_ways_agree import all_ways_agree
from tests.contract.test_cutting_answers_is_invisible import cutting_answers_is_invisible
from tests.contract.test_cutting_batches_is_invisible import cutting_is_invisible
from tests.contract.test_expiry_is_invisible import expiry_is_invisible
from tests.contract.test_invariants_hold import invariants_hold
from tests.contract.test_matches_naive import matches_naive
from tests.contract.test_metamorphic_joins import metamorphic_joins_hold
from tests.contract.test_metamorphic_relations import metamorphic_relations_hold
from tests.contract.test_order_of_arrival_is_invisible import order_of_arrival_is_invisible
from tests.contract.test_order_of_equal_times_is_invisible import order_of_equal_times_is_invisible
from tests.contract.test_published_answers_do_not_change import published_answers_do_not_change
from tests.contract.test_snapshot_round_trip import snapshot_round_trip
from tests.contract.test_switching_strategy_is_invisible import switching_is_invisible
from tests.contract.worlds import CASES, CHOICES, Case, cases_of

LAWS: dict[str, Law] = {
    law.__name__: law
    for law in (
        matches_naive,
        all_ways_agree,
        cutting_answers_is_invisible,
        cutting_is_invisible,
        order_of_equal_times_is_invisible,
        order_of_arrival_is_invisible,
        expiry_is_invisible,
        add_then_remove_leaves_no_trace,
        snapshot_round_trip,
        switching_is_invisible,
        invariants_hold,
        published_answers_do_not_change,
        metamorphic_relations_hold,
        metamorphic_joins_hold,
    )
}


# Laws that are not about every case.
CASES_OF: dict[Law, list[Case]] = {
    all_ways_agree: CHOICES,
    order_of_arrival_is_invisible: cases_of("window_join"),
    expiry_is_invisible: cases_of("window_join"),
    metamorphic_relations_hold: cases_of("filter", "band_join"),
    metamorphic_joins_hold: cases_of("select_join", "window_join"),
}


def main(arguments: list[str]) -> int:
    """Run the laws that were asked for; 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--law", choices=LAWS, help="only this law")
    parser.add_argument("--case", choices=[*map(str, CASES + CHOICES)], help="only this case")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (default 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seed", type=int, help="only this seed")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        seeds = range(options.seed, options.seed + 1)
    laws = [LAWS[options.law]] if options.law else list(LAWS.values())
    tried = [
        (law, case)
        for law in laws
        for case in CASES_OF.get(law, CASES)
        if options.case in (None, str(case))
    ]
    failures = sum(_sweep(law, case, seeds) for law, case in tried)
    print(f"{len(laws)} laws, {len(tried)} with a case, {len(seeds)} seeds: {failures} failures")
    return 1 if failures else 0


def _sweep(law: Law, case: Case, seeds: range) -> int:
    """Try one law on one case; how many seeds failed."""
    tally: Tally = Counter()
    failed = 0
    begin = time.perf_counter()
    for seed in seeds:
        if not _holds(law, case, seed, tally):
            failed += 1
    seconds = time.perf_counter() - begin
    print(f"{law.__name__:36} {case!s:24} {failed} failed, {dict(tally)}, {seconds:.1f} s")
    return failed


def _holds(law: Law, case: Case, seed: int, tally: Tally) -> bool:
    try:
        attempt(law, case, Random(seed), tally)
    except Exception:
        traceback.print_exc(limit=-2)
        print(f"FAILED; replay: {replay(law, case, seed)}", flush=True)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
