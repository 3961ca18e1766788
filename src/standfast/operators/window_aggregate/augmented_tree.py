"""An augmented tree: every inner node has the aggregate of the rows below it, now.

              0 .. 3                  4 .. 6
          0 .. 1   2 .. 3         4 .. 5   6 .. 6      nodes on the right edge are not full yet
          0    1   2    3         4    5   6

As base intervals, but nodes that are not full are kept up to date too: every row that comes
renews its whole path, and a window that ends at the last row needs one node a level at most.

Invariant  the node at every place is the merge of its halves, as far as there are rows.
Cost       update O(log N_max + b) for a batch of b rows, lookup O(log N_max).
Paper      PSoup, [shared-windows] section 3.1.3; positions lead to nodes without a search, and a
           batch renews a path once.
"""

from __future__ import annotations

from standfast.model.query import WindowAggregate
from standfast.operators.base import ROUNDED, Spec
from standfast.operators.window_aggregate.base_intervals import BaseIntervals


class AugmentedTree(BaseIntervals):
    """Keep every node of the tree up to date, those that are not full too."""

    spec = Spec(
        question=WindowAggregate, paper="PSoup [shared-windows] 3.1.3",
        time="O(log N_max) update, O(log N_max) lookup", space="O(N_max)", needs="mergeable",
        promise=ROUNDED,
    )  # fmt: skip

    unfinished = True
