"""The same questions answered by well-kept libraries, each with the best plan we found for it.

A peer takes the queries and the stored rows when it is made, before the clock starts. `affected`
is what is timed, in whatever form the library returns; `ids` reads that form, outside the clock.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


class BandPeer(Protocol):
    """Which bands `[low, high]` hold `row - event` for some stored row, per event."""

    def __init__(self, lows: Int64s, highs: Int64s, stored: Int64s) -> None: ...

    def affected(self, events: Int64s) -> Any:
        """The affected queries of each event: the timed part."""

    def ids(self, output: Any, event: int) -> Int64s:
        """From such an output the queries that the event at this place affected."""


class SelectPeer(Protocol):
    """Which queries select the event and some stored row of its join key, per event.

    `lows[0, i]` to `highs[0, i]` is the range of query i on the events, `lows[1, i]` to
    `highs[1, i]` the one on the rows. A plan that shares work between the events of one key needs
    many of them at a time: `batch` is how many it does well with.
    """

    batch: int

    def __init__(self, lows: Int64s, highs: Int64s, row_keys: Int64s, row_values: Int64s) -> None:
        """The queries; the join keys and the selected values of the stored rows."""

    def affected(self, keys: Int64s, values: Int64s) -> Any:
        """The affected queries of each event: the timed part."""

    def ids(self, output: Any, event: int) -> Int64s:
        """From such an output the queries that the event at this place affected."""
