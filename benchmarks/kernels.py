"""`make kernels`: writes which kernels are worth compiling ahead, the longest to compile first.

Plays the demo, which asks every question, within this process and as the shards of a job do, and
lists what was called. With a cache that has them already the order says nothing; the Makefile gives
it an empty one.
"""

from __future__ import annotations

import json

from standfast import demo
from standfast._numba import asked
from standfast.compiling import LIST, Entry, described

N_QUERIES, SEED = 100_000, 1


def called() -> list[Entry]:
    """What this process has called so far, the longest first, each once."""
    listed: dict[str, Entry] = {}
    for kernel, arguments, _ in sorted(asked, key=lambda call: -call[2]):
        if entry := described(kernel, arguments):
            listed.setdefault(json.dumps(entry), entry)
    return list(listed.values())


def main() -> None:
    """Play, and write the list."""
    demo.warm_up(SEED)
    for _ in demo.Replay(N_QUERIES, SEED).steps():
        pass
    listed = called()
    LIST.write_text("[\n" + ",\n".join(json.dumps(entry) for entry in listed) + "\n]\n")
    print(f"{len(listed)} kernels, {sum(call[2] for call in asked):.0f} s")


if __name__ == "__main__":
    main()
