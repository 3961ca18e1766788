"""Tiny capacities: the sizes at which structures split, merge, renumber and defer, made small.

The histories of the laws are short, so that they can be shrunk and read. With tiny capacities a
history of ten queries walks through everything that a million would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from standfast.engine import answer, joins, registry, store, strings
from standfast.indexes import skylines
from standfast.indexes.box_index import BoxIndex
from standfast.indexes.changed_codes import ChangedCodes
from standfast.indexes.interval_index import IntervalIndex
from standfast.indexes.maxima_tree import MaximaTree
from standfast.indexes.rectangle_index import RectangleIndex
from standfast.indexes.sorted_runs import SortedRuns
from standfast.operators import joined, router, traits
from standfast.operators.band_join import groups, marks
from standfast.operators.band_join.hotspot import Hotspot
from standfast.operators.key_threshold import keyed
from standfast.operators.key_threshold.totals import IndexedTotals
from standfast.operators.select_join import groups as select_groups
from standfast.operators.select_join import select_first
from standfast.operators.select_join.hotspot import Hotspot as SelectHotspot
from standfast.operators.window_join import groups as window_groups
from standfast.operators.window_join import select_first as window_select_first
from standfast.operators.window_join.hotspot import Hotspot as WindowHotspot

# Constants that Python code reads; those that kernels read are compiled into them.
CONSTANTS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (registry, {"FEW": 4}),
    (store, {"RATIO": 2, "LOOK_AGAIN": 10**9}),
    (strings, {"FEW": 2}),
    (answer, {"PAIRS_AT_ONCE": 5}),
    (joins, {"PAIRS_AT_ONCE": 6}),
    (skylines, {"SLACK": 2}),
    (groups, {"CELLS_AT_ONCE": 8}),
    (marks, {"MARKS_AT_ONCE": 6}),
    (keyed, {"FEW": 3}),
    (joined, {"POINTS_AT_ONCE": 3, "CANDIDATES_AT_ONCE": 4}),
    (select_first, {"CANDIDATES_AT_ONCE": 4}),
    (select_groups, {"CELLS_AT_ONCE": 6, "MERGE_PER_SEARCH": 1}),
    (window_select_first, {"CANDIDATES_AT_ONCE": 4}),
    (window_groups, {"SMALL": 2, "RATIO": 1.5, "AT_ONCE": 8, "MOST_EVENTS": 2}),
    # Every way is built at once and gets its share of the events.
    (router, {"PATIENCE": 0.0, "EXPLORE_EVERY": 1, "EXPLORE_EVENTS": 2, "EXPLORE_WITHIN": 1e9}),
    (traits, {"ENOUGH": 1, "SAMPLE": 2}),
)
# Arguments of constructors that nobody gives.
RECTANGLES = {"block": 2, "fanout_bits": 1, "long": 1, "ratio": 1.5, "small": 2}
ARGUMENTS: tuple[tuple[Callable[..., None], dict[str, Any]], ...] = (
    (Hotspot.__init__, {"alpha": 0.3}),
    (SelectHotspot.__init__, {"alpha": 0.3}),
    (WindowHotspot.__init__, {"alpha": 0.3}),
    (IntervalIndex.__init__, {"bucket": 2, "ratio": 1.5, "small": 3}),
    (BoxIndex.__init__, {"leaf": 1, "long": 2, "ratio": 1.5, "small": 3, "chunk": 2}),
    (RectangleIndex.__init__, RECTANGLES),
    (MaximaTree.__init__, {"leaf": 2, "few": 4}),
    (IndexedTotals.__init__, {"per_size": 2}),
    (select_groups.ByGroups.__init__, RECTANGLES),
)
# The same for arguments that may be given by position.
BY_POSITION: tuple[tuple[Callable[..., None], tuple[Any, ...]], ...] = (
    (SortedRuns.__init__, (2,)),
    (ChangedCodes.__init__, (4,)),
)


@contextmanager
def tiny_capacities() -> Iterator[None]:
    """Make every capacity tiny while this lasts."""
    found: list[tuple[dict[str, Any], dict[str, Any]]] = []
    wanted = [(vars(module), values) for module, values in CONSTANTS]
    wanted += [(function.__kwdefaults__, values) for function, values in ARGUMENTS]
    defaults = [(function, function.__defaults__) for function, _ in BY_POSITION]
    try:
        for function, values in BY_POSITION:
            function.__defaults__ = values
        for names, values in wanted:
            found.append((names, {name: names[name] for name in values}))
            names.update(values)
        yield
    finally:
        for function, before in defaults:
            function.__defaults__ = before
        for names, values in found:
            names.update(values)
