"""Tiny capacities: the sizes at which structures split, merge, renumber and defer, made small.

The histories of the laws are short, so that they can be shrunk and read. With tiny capacities a
history of ten queries walks through everything that a million would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from standfast.engine import registry, store
from standfast.indexes.box_index import BoxIndex
from standfast.indexes.interval_index import IntervalIndex
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators.band_join import groups, marks
from standfast.operators.band_join.hotspot import Hotspot

# Constants that Python code reads; those that kernels read are compiled into them.
CONSTANTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (registry, {"FEW": 4}),
    (store, {"RATIO": 2}),
    (groups, {"CELLS_AT_ONCE": 8}),
    (marks, {"MARKS_AT_ONCE": 6}),
)
# Arguments of constructors that nobody gives.
ARGUMENTS: tuple[tuple[Callable[..., None], dict[str, Any]], ...] = (
    (Hotspot.__init__, {"alpha": 0.3}),
    (IntervalIndex.__init__, {"bucket": 2, "ratio": 1.5, "small": 3}),
    (BoxIndex.__init__, {"leaf": 1, "long": 2, "ratio": 1.5, "small": 3, "chunk": 2}),
)


@contextmanager
def tiny_capacities() -> Iterator[None]:
    """Make every capacity tiny while this lasts."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    wanted = [(vars(module), values) for module, values in CONSTANTS]
    wanted += [(function.__kwdefaults__, values) for function, values in ARGUMENTS]
    ratio = SortedRuns.__init__.__defaults__
    try:
        SortedRuns.__init__.__defaults__ = (2,)
        for names, values in wanted:
            found.append((names, {name: names[name] for name in values}))
            names.update(values)
        yield
    finally:
        SortedRuns.__init__.__defaults__ = ratio
        for names, values in found:
            names.update(values)
