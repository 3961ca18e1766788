"""Kill jobs and count: `python -m tests.recovery`, or one run with options of its own."""

from __future__ import annotations

import argparse
import sys
import time

from tests.recovery.harness import kills_of, run

# Home, sink, kills: all targets; ten of them are aimed at the time between state and commit.
PLAN = (
    ("local", "file", "driver@commit host@any worker@any driver@files host@state driver@any"),
    ("local", "once", "driver@sink host@plan worker@plan driver@state worker@commit driver@commit"),
    ("cluster", "file", "executor@any driver@commit host@any executor@state worker@any"),
    ("cluster", "once", "executor@plan driver@sink worker@plan executor@any host@state driver@any"),
)  # fmt: skip


def main() -> int:
    """Carry out one run, or all; 1 if anything was lost, came twice, or was not killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.recovery", description=__doc__)
    parser.add_argument("--home", choices=["local", "cluster"], default="local")
    parser.add_argument("--sink", choices=["file", "once"], default="file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", help="for example: driver@commit host@any; without it, all runs")
    given = parser.parse_args()
    plan = PLAN if given.kills is None else ((given.home, given.sink, given.kills),)
    failed, n_kills = 0, 0
    for home, sink, kills in plan:
        print(f'--home {home} --sink {sink} --seed {given.seed} --kills "{kills}"', flush=True)
        begin = time.monotonic()
        report = run(
            home, sink, given.seed, kills_of(kills, home), lambda one: print(f"  {one}", flush=True)
        )
        print(f"  {report.verdict()}, {time.monotonic() - begin:.0f} s", flush=True)
        failed += bool(report.faults())
        n_kills += sum(one.has_hit for one in report.landed)
    print(f"{n_kills} kills in {len(plan)} runs, {failed} runs failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
