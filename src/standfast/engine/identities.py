"""The ids of rows that were used, so that none is used twice.

    ids    | 3 9 12 40 77 ... | 5 8 90 | 41 |     whole numbers: sorted runs, largest first
    times  | 7 7 31  9 12 ... | 30 31 33 | 34 |   each id's time beside it

An id is remembered while its time is at least the oldest one that a row may still have: the same
row, come again later, is late. Whether forgotten ids are already gone or not makes no difference,
because an id is only known if its time is not too old at the moment of asking.

Invariant  ids strictly ascend in a run; of the entries of an id in all runs at most one is
           remembered.
Cost       n rows with m ids known: O(n log m) for each of O(log m) runs; 16 bytes an id. Text is
           kept in a dict, because no number of fixed size stands for it exactly.
"""

from __future__ import annotations

import sys
from itertools import compress, pairwise
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from standfast.arrays import Int64s

Mask = npt.NDArray[np.bool_]
Names = Int64s | list[str]  # different ids; numbers ascend

# The time of an id that is not known, and the oldest time where nothing is ever too old.
UNKNOWN = -(2**63)
EVER = UNKNOWN + 1
# A run is merged into the one before it unless that is so many times longer.
RATIO = 4
# Fewer texts than this are not worth looking for those that are too old.
FEW = 1024


class Identities:
    """Which ids of one stream were used, and when."""

    def __init__(self, kind: str) -> None:
        self._known: Known = Numbers() if kind == "int64" else Texts()
        self._oldest = EVER

    def __len__(self) -> int:
        """How many ids take room, remembered or not yet gone."""
        return len(self._known)

    def first_uses(self, ids: pa.ChunkedArray, times: Int64s, oldest: Int64s) -> Mask:
        """Which rows are not yet known by their id; from now on they are.

        `oldest` is the oldest time that is not late at each row; it never falls.
        """
        groups, names = self._known.grouped(ids.combine_chunks())
        new = _first_in_groups(groups, self._known.times_of(names), times, oldest)
        in_order = new[groups.order]
        used = np.repeat(np.arange(len(names)), groups.stops - groups.starts)[in_order]
        # Where an id was used, forgotten and used again, the last time stays.
        at = np.full(len(names), UNKNOWN)
        at[used] = times[groups.order[in_order]]
        self._remember(names, at, int(oldest[-1]))
        return new

    def first_among(self, own: Noted, others: Noted, oldest: int) -> Mask:
        """As `first_uses` of own rows, among which others stand that are used elsewhere.

        `befores` of the own ones are their places; nothing is older than `oldest`.
        """
        places = np.concatenate([2 * own.befores + 1, 2 * others.befores])
        new, order = np.empty(places.size, np.bool_), np.argsort(places, kind="stable")
        if order.size:
            ids = pa.chunked_array([*own.ids.chunks, others.ids], type=own.ids.type)
            times = np.concatenate([own.times, others.times])[order]
            ids = ids.take(pa.array(order))
            new[order] = self.first_uses(ids, times, np.full(order.size, oldest))
        return new[: own.befores.size]

    def forget(self, oldest: int) -> None:
        """Ids with an earlier time than this are not needed any more."""
        self._oldest = max(self._oldest, oldest)
        self._known.forget(self._oldest)

    def table(self) -> pa.Table:
        """The remembered ids with their times."""
        names, times = self._known.entries()
        kept = pa.array(times >= self._oldest)
        return pa.table({"id": names, "time": times}).filter(kept)

    def restore(self, table: pa.Table, oldest: int) -> None:
        """Remember what `table` gave."""
        groups, names = self._known.grouped(table["id"].combine_chunks())
        self._remember(names, table["time"].to_numpy()[groups.order], oldest)

    def memory_bytes(self) -> int:
        return self._known.memory_bytes()

    def check(self) -> None:
        self._known.check()
        ids = self.table()["id"]
        assert len(ids.unique()) == len(ids), "an id is remembered twice"

    def _remember(self, names: Names, times: Int64s, oldest: int) -> None:
        self._oldest = max(self._oldest, oldest)
        self._known.add(names, times, self._oldest)


class Noted(NamedTuple):
    """Rows that engines beside this one take in: of each its id, its time, and where it stands.

    `befores` ascend: each stands before that row of the batch, at its end if there is none.
    """

    ids: pa.Array | pa.ChunkedArray
    times: Int64s  # all the same if the stream has no time
    befores: Int64s

    def misfit(self, kind: str | None) -> str | None:
        """What keeps these rows from being noted by a stream whose ids are of this kind."""
        if kind is None:
            return "the stream has no id"
        if not len(self.ids) == self.times.size == self.befores.size:
            sizes = f"{len(self.ids)}, {self.times.size} and {self.befores.size}"
            return f"there are {sizes} ids, times and places"
        if (kind == "int64") != pa.types.is_int64(self.ids.type):
            return f"ids are {kind}, not {self.ids.type}"
        if self.ids.null_count:
            return "an id is null"
        return None if np.all(np.diff(self.befores) >= 0) else "places do not ascend"

    def since(self, oldest: int) -> Noted:
        """Those that are not older."""
        some = self.times >= oldest
        return Noted(self.ids.filter(pa.array(some)), self.times[some], self.befores[some])

    def cut(self, first: int, last: int) -> Noted:
        """Those that stand before rows `first` to `last - 1`, which are counted from 0 on."""
        low, high = np.searchsorted(self.befores, [first, last]).tolist()
        ids = self.ids.slice(low, high - low)
        return Noted(ids, self.times[low:high], self.befores[low:high] - first)


class Groups(NamedTuple):
    """Rows with the same id: `order[start:stop]` are those of a group, as they came."""

    order: Int64s
    starts: Int64s
    stops: Int64s


class Known(Protocol):
    """Ids of one kind, each with its time."""

    def __len__(self) -> int: ...

    def grouped(self, ids: pa.Array) -> tuple[Groups, Names]:
        """Rows by id, and the id of each group."""

    def times_of(self, names: Names) -> Int64s:
        """The time of each id, or UNKNOWN."""

    def add(self, names: Names, times: Int64s, oldest: int) -> None:
        """Keep those ids of `grouped` that are not too old."""

    def forget(self, oldest: int) -> None:
        """Let go what is older, if that is worth the work."""

    def entries(self) -> tuple[pa.Array, Int64s]:
        """All that is held."""

    def memory_bytes(self) -> int: ...

    def check(self) -> None: ...


class Run(NamedTuple):
    """Ids in ascending order, and when they were used."""

    ids: Int64s
    times: Int64s
    latest: int


class Numbers:
    """Whole numbers as ids: sorted runs, each a few times longer than the next."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return sum(run.ids.size for run in self._runs)

    def grouped(self, ids: pa.Array) -> tuple[Groups, Names]:
        numbers = ids.to_numpy()
        groups = _groups(numbers)
        return groups, numbers[groups.order[groups.starts]]

    def times_of(self, names: Names) -> Int64s:
        ids = np.asarray(names)
        times = np.full(ids.size, UNKNOWN)
        for run in self._runs:
            at = np.minimum(np.searchsorted(run.ids, ids), run.ids.size - 1)
            found = run.ids[at] == ids
            times[found] = np.maximum(times[found], run.times[at[found]])
        return times

    def add(self, names: Names, times: Int64s, oldest: int) -> None:
        kept = times >= oldest
        if kept.any():
            self._runs.append(_run(np.asarray(names)[kept], times[kept]))
        self.forget(oldest)
        while len(self._runs) > 1 and (self._runs[-2].ids.size < RATIO * self._runs[-1].ids.size):
            newer, older = self._runs.pop(), self._runs.pop()
            self._runs += _merged(older, newer, oldest)

    def forget(self, oldest: int) -> None:
        """Runs go as a whole once nothing in them is needed; the rest goes in merges."""
        self._runs = [run for run in self._runs if run.latest >= oldest]

    def entries(self) -> tuple[pa.Array, Int64s]:
        nothing = np.empty(0, np.int64)
        ids = np.concatenate([nothing, *(run.ids for run in self._runs)])
        return pa.array(ids), np.concatenate([nothing, *(run.times for run in self._runs)])

    def memory_bytes(self) -> int:
        return 16 * len(self)

    def check(self) -> None:
        for run in self._runs:
            assert np.all(run.ids[:-1] < run.ids[1:]), "ids do not ascend in a run"
            assert run.latest == run.times.max(), "the latest time of a run is wrong"
        sizes = [run.ids.size for run in self._runs]
        assert all(a >= RATIO * b for a, b in pairwise(sizes)), "runs were not merged"


class Texts:
    """Texts as ids, each with its time."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._n_characters = 0
        self._many = FEW

    def __len__(self) -> int:
        return len(self._times)

    def grouped(self, ids: pa.Array) -> tuple[Groups, Names]:
        coded = ids.dictionary_encode()
        names: list[str] = coded.dictionary.to_numpy(zero_copy_only=False).tolist()
        return _groups(coded.indices.to_numpy()), names

    def times_of(self, names: Names) -> Int64s:
        return np.array([self._times.get(text, UNKNOWN) for text in names], np.int64)

    def add(self, names: Names, times: Int64s, oldest: int) -> None:
        kept = times >= oldest
        added = list(compress(names, kept.tolist()))
        self._n_characters += sum(map(len, added))
        self._times.update(zip(added, times[kept].tolist(), strict=True))
        self.forget(oldest)

    def forget(self, oldest: int) -> None:
        """Look at all when there are twice as many as were left the last time."""
        if oldest == EVER or len(self._times) <= self._many:
            return
        before = len(self._times)
        self._times = {text: time for text, time in self._times.items() if time >= oldest}
        self._n_characters = self._n_characters * len(self._times) // before
        self._many = max(FEW, 2 * len(self._times))

    def entries(self) -> tuple[pa.Array, Int64s]:
        times = np.array(list(self._times.values()), np.int64)
        return pa.array(list(self._times), pa.string()), times

    def memory_bytes(self) -> int:
        """The dict, and about what its texts and times take as objects."""
        return sys.getsizeof(self._times) + 80 * len(self) + self._n_characters

    def check(self) -> None:
        assert all(isinstance(text, str) for text in self._times), "an id is no text"


def _groups(codes: Int64s) -> Groups:
    order = np.argsort(codes)
    is_first = _first_of_equals(codes[order])
    if not is_first.all():
        order = np.argsort(codes, kind="stable")  # several times slower
    starts = np.flatnonzero(is_first)
    return Groups(order, starts, np.append(starts[1:], codes.size))


def _first_of_equals(ascending: Int64s) -> Mask:
    is_first = np.ones(ascending.size, np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return is_first


def _first_in_groups(groups: Groups, known: Int64s, times: Int64s, oldest: Int64s) -> Mask:
    """Which rows come before any remembered row of the same id."""
    firsts, lasts = groups.order[groups.starts], groups.order[groups.stops - 1]
    new = np.zeros(times.size, np.bool_)
    is_known = known >= oldest[lasts]
    is_simple = (known < oldest[firsts]) & (times[firsts] >= oldest[lasts])
    new[firsts[is_simple]] = True
    # What is left are ids that are forgotten while the batch goes on.
    for g in np.flatnonzero(~is_known & ~is_simple).tolist():
        time = int(known[g])
        for row in groups.order[groups.starts[g] : groups.stops[g]].tolist():
            if time < oldest[row]:
                new[row], time = True, int(times[row])
    return new


def _merged(older: Run, newer: Run, oldest: int) -> list[Run]:
    """Both runs as one without what is too old; none if nothing is left."""
    ids = np.concatenate([older.ids, newer.ids])
    times = np.concatenate([older.times, newer.times])
    kept = times >= oldest
    ids, times = ids[kept], times[kept]
    if not ids.size:
        return []
    order = np.argsort(ids, kind="stable")  # which is a merge of what is sorted already
    return [_run(ids[order], times[order])]


def _run(ids: Int64s, times: Int64s) -> Run:
    return Run(ids, times, int(times.max()))
