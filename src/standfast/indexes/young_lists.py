"""Young lists: many sorted lists in one pool, whose newest entries stand unsorted at their end.

    list 3   | 2 4 4' 7 9 9 | 5 1 . . . |      4' is gone; 5 and 1 are young
               sorted         young

An entry goes to the young, and a sorted one that leaves is marked where it stands: nothing moves.
When a list has more of both than its limit, a few times the digits of its size, it is tidied: the
young are sorted in, the gone left out. So a search reads little in vain, and a list of n entries is
moved once in O(log n) changes. A plain list is never sorted and loses none; it holds each key once,
with the largest of the values that it came with.

Invariant  sorted parts ascend by (value, key), those gone included, with `~key` for a key that is
           gone; GONE counts these; a living key stands in a list once; young and gone are within
           the limit; lists do not overlap, and have room for one more.
Cost       search O(log n + found); a change O(log n) and O(n / log n) moves amortised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s
from standfast.indexes.keys import FAR

# Changes that wait, for each binary digit of the size of a list.
PATIENCE = 4
FEW = 4
MOST_YOUNG = PATIENCE * 66
BEGIN, ROOM, SIZE, YOUNG, GONE, LIMIT = range(6)
USED, IS_FULL = range(2)


class Lists(NamedTuple):
    """What kernels see: entry i of the pool is `values[i]` and `keys[i]`."""

    heads: Int64s  # [list]: where its ROOM BEGINs, SIZE of the sorted part, how many are YOUNG, ...
    values: Int64s
    keys: Int32s
    values_aside: Int64s  # where the young are sorted
    keys_aside: Int32s
    state: Int64s  # USED of the pool, IS_FULL: lists must be made again


def made(sizes: Int64s, *, spare: int, n_sorted: int) -> Lists:
    """Empty lists with room for so many entries and some more, and for `spare` in new lists.

    Those from `n_sorted` on are plain.
    """
    rooms = sizes + (sizes >> 1) + 2
    ends = np.cumsum(rooms)
    used = int(ends[-1])
    heads = np.zeros((sizes.size, 8), np.int64)  # 64 bytes, so that a list is one look
    heads[:, BEGIN], heads[:, ROOM] = ends - rooms, rooms
    digits = np.frexp(sizes.astype(np.float64))[1]
    heads[:, LIMIT] = PATIENCE * (digits + 1)
    heads[n_sorted:, LIMIT] = FAR
    size = 2 * used + spare
    return Lists(
        heads, np.empty(size, np.int64), np.empty(size, np.int32),
        np.empty(MOST_YOUNG, np.int64), np.empty(MOST_YOUNG, np.int32), np.array([used, 0]),
    )  # fmt: skip


def check_lists(lists: Lists) -> None:
    """Assert the invariant."""
    begins, rooms, sizes, young, gone, limits = lists.heads.T[:6]
    order = np.argsort(begins, kind="stable")
    order = order[rooms[order] > 0]
    assert np.all((begins + rooms)[order][:-1] <= begins[order][1:]), "lists overlap"
    assert np.all(sizes + young < rooms), "a list leaves its room"
    assert np.all(young + gone <= limits), "a list was not tidied"
    for i in order.tolist():
        first, middle = int(begins[i]), int(begins[i] + sizes[i])
        keys = lists.keys[first : middle + young[i]]
        is_gone = keys < 0
        rank = np.where(is_gone, ~keys, keys)[: sizes[i]].tolist()
        entries = list(zip(lists.values[first:middle].tolist(), rank, strict=True))
        assert entries == sorted(entries), f"list {i} is out of order"
        assert np.count_nonzero(is_gone) == gone[i], f"list {i}: the gone are miscounted"
        living = keys[~is_gone]
        assert np.unique(living).size == living.size, f"list {i} holds a key twice"


def entries_of(lists: Lists, i: int) -> list[tuple[int, int]]:
    """The living entries of a list as (value, key)."""
    begin, _, size, young = lists.heads[i, :4].tolist()
    span = slice(begin, begin + size + young)
    entries = zip(lists.values[span].tolist(), lists.keys[span].tolist(), strict=True)
    return [(value, k) for value, k in entries if k >= 0]


@inlined
def first_at_least(values: Int64s, begin: int, size: int, value: int) -> int:
    """The first of `size` ascending values from `begin` on that is not below this one.

    Every half is of the same size whichever it is, and the last few are counted, not halved: no
    step depends on what was found, so nothing can be guessed wrong.
    """
    low, n = begin, size
    while n > FEW:
        half = n >> 1
        low += half * (values[low + half - 1] < value)
        n -= half
    n_below = 0
    for i in range(low, low + n):
        n_below += values[i] < value
    return int(low + n_below)


@inlined
def _place_of(values: Int64s, keys: Int32s, begin: int, size: int, value: int, k: int) -> int:
    """Where an entry stands that the sorted part holds; equal values are in order of keys."""
    low, high = first_at_least(values, begin, size, value), begin + size
    if keys[low] == k:
        return low
    while low < high:
        middle = (low + high) >> 1
        if values[middle] == value and keys[middle] ^ (keys[middle] >> 31) < k:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def keys_within(
    heads: Int64s, values: Int64s, keys: Int32s, i: int, low: int, high: int, out: Int32s, n: int
) -> int:
    """Write the keys of a list whose values are `low` to `high`, from place n on."""
    begin, size = heads[i, BEGIN], heads[i, SIZE]
    end = begin + size
    first, last = first_at_least(values, begin, size, low), end
    if high < FAR:
        last = first_at_least(values, begin, size, high + 1)
    for at in range(first, last):
        out[n] = keys[at]
        n += keys[at] >= 0
    for at in range(end, end + heads[i, YOUNG]):
        out[n] = keys[at]
        n += low <= values[at] <= high
    return n


@kernel
def fill(lists: Lists, places: Int64s, values: Int64s, keys: Int64s) -> None:
    """Put entries, which ascend by (value, key), at the end of lists that have room for them."""
    for j in range(places.size):
        i, k = places[j], keys[j]
        is_plain = lists.heads[i, LIMIT] == FAR
        at = lists.heads[i, BEGIN]
        end = at + lists.heads[i, SIZE] + lists.heads[i, YOUNG]
        while is_plain and at < end and lists.keys[at] != k:
            at += 1
        if not is_plain or at == end:
            lists.values[end], lists.keys[end] = values[j], k
            lists.heads[i, YOUNG if is_plain else SIZE] += 1
        else:
            lists.values[at] = max(lists.values[at], values[j])


@kernel
def change(lists: Lists, places: Int64s, values: Int64s, keys: Int64s) -> None:
    """Add entries to lists, and take those out whose keys come as `~key`, one after the other.

    When the pool is full, what is left is not done.
    """
    done = 0
    while done < places.size and not lists.state[IS_FULL]:
        done = _change(lists.heads, lists.values, lists.keys, places, values, keys, done)
        i = places[done - 1]
        if lists.heads[i, YOUNG] + lists.heads[i, GONE] > lists.heads[i, LIMIT]:
            _tidy(lists, i)
        if lists.heads[i, SIZE] + lists.heads[i, YOUNG] == lists.heads[i, ROOM]:
            _make_room(lists, i)


@kernel
def _change(
    heads: Int64s, pool_values: Int64s, pool_keys: Int32s,
    places: Int64s, values: Int64s, keys: Int64s, done: int,
) -> int:  # fmt: skip
    """Do changes from `done` on until a list must be tidied or has no room left; how far.

    What a kernel calls inside a loop makes it count references there, so nothing is called here.
    """
    for j in range(done, places.size):
        i, value, k = places[j], values[j], max(keys[j], ~keys[j])
        begin, size = heads[i, BEGIN], heads[i, SIZE]
        at = last = begin + size + heads[i, YOUNG]
        if keys[j] < 0 or heads[i, LIMIT] == FAR:
            at = begin + size
            while at < last and pool_keys[at] != k:
                at += 1
        if keys[j] >= 0 and at == last:
            pool_values[last], pool_keys[last] = value, k
            heads[i, YOUNG] += 1
        elif keys[j] < 0 and at < last:
            pool_values[at], pool_keys[at] = pool_values[last - 1], pool_keys[last - 1]
            heads[i, YOUNG] -= 1
        elif keys[j] < 0:
            pool_keys[_place_of(pool_values, pool_keys, begin, size, value, k)] = ~k
            heads[i, GONE] += 1
        else:
            pool_values[at] = max(pool_values[at], value)
        size, young = heads[i, SIZE], heads[i, YOUNG]
        if young + heads[i, GONE] > heads[i, LIMIT] or size + young == heads[i, ROOM]:
            return j + 1
    return int(places.size)


@kernel
def _tidy(lists: Lists, i: int) -> None:
    """Sort the young in and leave those out that are gone."""
    head, values, keys = lists.heads[i], lists.values_aside, lists.keys_aside
    pool_values, pool_keys = lists.values, lists.keys
    begin, end, n_young = head[BEGIN], head[BEGIN] + head[SIZE], head[YOUNG]
    for j in range(n_young):
        value, k, at = pool_values[end + j], pool_keys[end + j], j
        while at > 0 and (values[at - 1] > value or (values[at - 1] == value and keys[at - 1] > k)):
            values[at], keys[at] = values[at - 1], keys[at - 1]
            at -= 1
        values[at], keys[at] = value, k
    kept = begin
    for at in range(begin, end):
        pool_values[kept], pool_keys[kept] = pool_values[at], pool_keys[at]
        kept += pool_keys[at] >= 0
    at = kept + n_young
    head[SIZE], head[YOUNG], head[GONE] = at - begin, 0, 0
    for j in range(n_young - 1, -1, -1):
        value, k = values[j], keys[j]
        at -= 1
        while kept > begin:
            found = pool_values[kept - 1]
            if found < value or (found == value and pool_keys[kept - 1] < k):
                break
            pool_values[at], pool_keys[at] = found, pool_keys[kept - 1]
            at, kept = at - 1, kept - 1
        pool_values[at], pool_keys[at] = value, k
    digits, n = 1, head[SIZE]
    while n > 0:
        digits, n = digits + 1, n >> 1
    head[LIMIT] = PATIENCE * digits


@kernel
def _make_room(lists: Lists, i: int) -> None:
    """Tidy a list, or give it twice its room at the end of the pool; not when that is full."""
    head, used = lists.heads[i], lists.state[USED]
    if 4 * head[GONE] > head[ROOM]:
        _tidy(lists, i)
        return
    room, begin = 2 * head[ROOM], head[BEGIN]
    if used + room > lists.values.size:
        lists.state[IS_FULL] = 1
        return
    for j in range(head[SIZE] + head[YOUNG]):
        lists.values[used + j] = lists.values[begin + j]
        lists.keys[used + j] = lists.keys[begin + j]
    head[BEGIN], head[ROOM], lists.state[USED] = used, room, used + room
