"""Tasks that cost little: what modules brought is kept out of the garbage collection.

Spark's Python processes collect garbage after every task. With the engine and its compilers loaded
that takes 65 ms, several times what a task with a few rows does; frozen objects are not looked at.
"""

from __future__ import annotations

import gc
import sys

_seen = [0]  # how many modules there were when objects were frozen last


def spare_modules() -> None:
    """Freeze what lives now, if modules came since the last time."""
    if len(sys.modules) != _seen[0]:
        gc.collect()
        gc.freeze()
        _seen[0] = len(sys.modules)
