"""The standing queries of one template as arrays: what they are called and what they ask.

    slot     0    1    2    3    4             counts up; never used twice before a renumbering
    ids      7    9    8   12   13             what the user calls the query
    lows     .    .    .    .    .             closed key ranges, a row per attribute;
    highs    .    .    .    .    .             low 1, high 0 is a range that holds nothing
    alive    x    x         x    x

Arrays only grow at their end, so a published prefix never changes. When most slots are dead the
living queries are renumbered into new arrays.

Invariant  `by_id` leads from every living id to its slot and holds no other; ids are unique.
Cost       add and remove O(log n) amortised a query; 17 + 16 d bytes a slot, 17 for the id order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from standfast._numba import kernel
from standfast.arrays import Int64s, with_room
from standfast.errors import BadParameters
from standfast.indexes.keys import FAR
from standfast.indexes.sorted_runs import Run, SortedRuns

# Fewer dead slots than this are not worth a renumbering.
FEW = 4096


class Registry:
    """Ids and key ranges of standing queries, by slot."""

    def __init__(self, n_attributes: int, name: str = "") -> None:
        """`name` is the template's, for messages."""
        self.n_attributes = n_attributes
        self.name = name
        self.next_id = 0
        self._start(0)

    def _start(self, room: int) -> None:
        self.n_slots = 0
        self._ids = np.empty(room, np.int64)
        self._lows = np.empty((self.n_attributes, room), np.int64)
        self._highs = np.empty((self.n_attributes, room), np.int64)
        self._alive = np.empty(room, np.bool_)
        self._by_id = SortedRuns()

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def ids(self) -> Int64s:
        """Id of every slot, living or dead."""
        return self._ids[: self.n_slots]

    @property
    def lows(self) -> Int64s:
        return self._lows[:, : self.n_slots]

    @property
    def highs(self) -> Int64s:
        return self._highs[:, : self.n_slots]

    def living(self, first: int = 0) -> Int64s:
        """Slots of the living queries, from one on."""
        return first + np.flatnonzero(self._alive[first : self.n_slots])

    def are_living(self, slots: Int64s) -> npt.NDArray[np.bool_]:
        """Which of these slots are of living queries."""
        return self._alive[slots]

    def add(self, ids: Int64s | None, lows: Int64s, highs: Int64s) -> Int64s:
        """Take in queries under ids that are free, or the next ones; returns their slots."""
        n = lows.shape[1]
        if ids is None:
            ids = np.arange(self.next_id, self.next_id + n)
        slots = np.arange(self.n_slots, self.n_slots + n)
        self._grow(n)
        self._ids[slots], self._alive[slots] = ids, True
        self._lows[:, slots], self._highs[:, slots] = lows, highs
        self._by_id.insert(ids, slots)
        if n:
            self.next_id = max(self.next_id, int(ids.max()) + 1)
        return slots

    def slots_of(self, ids: Int64s) -> Int64s:
        """The slot of each id, or -1 where no living query has it."""
        return self._find(ids)

    def refuse_taken(self, ids: Int64s | None, n: int) -> None:
        """Refuse ids of living queries, or to assign `n` ids when there are not so many left."""
        if ids is None:
            if n and self.next_id + n > FAR:
                raise BadParameters(
                    f"template {self.name!r}: cannot assign {n} ids above {self.next_id - 1}, "
                    "the largest so far",
                    hint="pass a column id",
                )
            return
        known = ids[self._find(ids) >= 0]
        if known.size:
            raise BadParameters(
                f"template {self.name!r}: id {known[0]} is taken by a living query",
                hint="remove it first, or leave the column id out to have ids assigned",
            )

    def remove(self, ids: Int64s) -> Int64s:
        """Forget queries; returns their slots. An unknown or repeated id refuses the whole call."""
        slots = self._find(ids)
        if np.any(slots < 0):
            raise BadParameters(
                f"template {self.name!r}: id {ids[slots < 0][0]} is not a living query",
                hint="nothing was removed",
            )
        if np.unique(ids).size < ids.size:
            raise BadParameters(
                f"template {self.name!r}: an id is named twice", hint="nothing was removed"
            )
        self._by_id.delete(ids, slots)
        self._alive[slots] = False
        return slots

    def sparse(self) -> bool:
        """Whether dead slots outnumber the living enough to be worth a renumbering."""
        return self.n_slots - len(self) > max(FEW, len(self))

    def renumber(self) -> None:
        """Give the living queries new slots in new arrays."""
        slots = self.living()
        ids, lows, highs = self._ids[slots], self._lows[:, slots], self._highs[:, slots]
        next_id = self.next_id
        self._start(slots.size)
        self.add(ids, lows, highs)
        self.next_id = next_id

    def memory_bytes(self) -> int:
        """Bytes beyond the ranges themselves."""
        return self._ids.nbytes + self._alive.nbytes + self._by_id.memory_bytes()

    def check(self) -> None:
        self._by_id.check()
        slots = self.living()
        assert slots.size == len(self), "living slots and living ids differ in number"
        assert np.array_equal(self._find(self._ids[slots]), slots), "an id leads to another slot"

    def _find(self, ids: Int64s) -> Int64s:
        """Slot of each id, or -1."""
        slots = np.full(ids.size, -1, np.int64)
        for run in self._by_id.runs:
            _find(run, ids, slots)
        return slots

    def _grow(self, n: int) -> None:
        self.n_slots += n
        self._ids = with_room(self._ids, self.n_slots)
        self._alive = with_room(self._alive, self.n_slots)
        self._lows = with_room(self._lows, self.n_slots)
        self._highs = with_room(self._highs, self.n_slots)


@kernel
def _find(run: Run, ids: Int64s, slots: Int64s) -> None:
    """Set the slot of every id that lives in this run (key: id, payload: slot)."""
    for i in range(ids.size):
        low, high = 0, run.keys.size
        while low < high:
            middle = (low + high) >> 1
            if run.keys[middle] < ids[i]:
                low = middle + 1
            else:
                high = middle
        while low < run.keys.size and run.keys[low] == ids[i]:
            if run.alive[low]:
                slots[i] = run.ids[low]
            low += 1
