"""Key numbers: small numbers for the keys of a stream, so that what is kept per key is an array.

    code     9041   17   -3                    a hash table with open addressing
    number      0    1    2   ...              freed numbers are given out again

Invariant  every living code stands in the table once, with its number; a number belongs to one
           living code or is free.
Cost       O(1) a code; freeing O(n), so it is done for many at once.
"""

from __future__ import annotations

import numpy as np

from standfast._numba import inlined, kernel
from standfast.arrays import Int32s, Int64s

NONE = -1
LEAST_ROOM = 16
# Odd numbers of 29 bits, so that no product leaves int64.
_STIR_LOW, _STIR_HIGH = 0x13C6EF37, 0x1B873593


class KeyNumbers:
    """Codes of keys, each with a number from 0 on."""

    def __init__(self) -> None:
        self._table = np.full(2 * LEAST_ROOM, NONE, np.int64)  # a number, or NONE
        self._codes = np.zeros(LEAST_ROOM, np.int64)  # by number
        self._is_living = np.zeros(LEAST_ROOM, np.bool_)
        self._free = np.arange(LEAST_ROOM)[::-1].copy()  # a stack; the first `_n_free` count
        self._n_free = LEAST_ROOM

    def __len__(self) -> int:
        return self.room - self._n_free

    @property
    def room(self) -> int:
        """Numbers are below this; arrays by number need so much room."""
        return self._codes.size

    @property
    def by_number(self) -> Int64s:
        """The code behind each number, of no meaning for numbers that are free."""
        return self._codes

    def numbers(self, codes: Int64s) -> Int64s:
        """The number of each code; codes that are new get one."""
        out = np.empty(codes.size, np.int64)
        done = 0
        while done < codes.size:
            if self._n_free == 0:
                self._grow()
            done, self._n_free = _give(
                self._table, self._codes, self._is_living, self._free, self._n_free,
                codes, done, out,
            )  # fmt: skip
        return out

    def codes(self, numbers: Int32s | Int64s) -> Int64s:
        """The code behind each number."""
        out = np.empty(numbers.size, np.int64)
        _take(self._codes, numbers, out)
        return out

    def living(self) -> Int64s:
        """All numbers that belong to a code, ascending."""
        return np.flatnonzero(self._is_living)

    def free(self, numbers: Int64s) -> None:
        """Forget the codes of these numbers."""
        if not numbers.size:
            return
        assert self._is_living[numbers].all(), "a number is freed that belongs to no code"
        self._is_living[numbers] = False
        self._free[self._n_free : self._n_free + numbers.size] = numbers
        self._n_free += numbers.size
        self._rehash()

    def memory_bytes(self) -> int:
        return self._table.nbytes + self._codes.nbytes + self._is_living.nbytes + self._free.nbytes

    def check(self) -> None:
        living = self.living()
        assert np.unique(self._codes[living]).size == living.size, "a code has two numbers"
        standing = np.sort(self._table[self._table != NONE])
        assert np.array_equal(standing, living), "the table differs from the living numbers"
        free = np.sort(self._free[: self._n_free])
        assert np.array_equal(free, np.flatnonzero(~self._is_living)), "free numbers differ"
        for number in living.tolist():
            place = _find(self._table, self._codes, self._codes[number])
            assert self._table[place] == number, "a code leads astray"

    def _grow(self) -> None:
        old = self.room
        self._codes = np.concatenate([self._codes, np.zeros(old, np.int64)])
        self._is_living = np.concatenate([self._is_living, np.zeros(old, np.bool_)])
        self._free = np.empty(2 * old, np.int64)
        self._free[:old] = np.arange(old, 2 * old)[::-1]
        self._n_free = old
        self._rehash()

    def _rehash(self) -> None:
        self._table = np.full(2 * self.room, NONE, np.int64)
        _enter(self._table, self._codes, self.living())


@inlined
def _find(table: Int64s, codes: Int64s, code: int) -> int:
    """Where the code stands in the table, or where it would; room is a power of two."""
    stirred = (code & 0xFFFFFFFF) * _STIR_LOW + ((code >> 32) & 0xFFFFFFFF) * _STIR_HIGH
    place = (stirred ^ (stirred >> 23)) & (table.size - 1)
    while table[place] != NONE and codes[table[place]] != code:
        place = (place + 1) & (table.size - 1)
    return int(place)


@kernel
def _give(
    table: Int64s, codes: Int64s, is_living: np.ndarray, free: Int64s, n_free: int,
    wanted: Int64s, done: int, out: Int64s,
) -> tuple[int, int]:  # fmt: skip
    """Number codes from `done` on until the free numbers are used up; how far, and what is left."""
    for i in range(done, wanted.size):
        place = _find(table, codes, wanted[i])
        if table[place] == NONE:
            if n_free == 0:
                return i, n_free
            n_free -= 1
            number = free[n_free]
            table[place], codes[number], is_living[number] = number, wanted[i], True
        out[i] = table[place]
    return wanted.size, n_free


@kernel
def _take(codes: Int64s, numbers: Int32s | Int64s, out: Int64s) -> None:
    for i in range(numbers.size):
        out[i] = codes[numbers[i]]


@kernel
def _enter(table: Int64s, codes: Int64s, numbers: Int64s) -> None:
    for i in range(numbers.size):
        table[_find(table, codes, codes[numbers[i]])] = numbers[i]
