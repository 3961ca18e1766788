"""Changed codes: which codes of a store were written to since a reader last looked.

    version   0       3     5    6
    log         a b c   c a   d         since(3) gives c a d; since(0) gives None once a b c is
                                        forgotten: then everything may have changed

Invariant  the pieces hold the last `version - first` codes that were noted, in that order; they
           are at most `limit`, or one piece.
Cost       a note O(1), since O(answer); nothing is held before somebody asks.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from standfast.arrays import Int64s

LIMIT = 1 << 16


class ChangedCodes:
    """A short memory of written codes; readers keep the version up to which they know."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.version = 0
        self._first = 0  # the version before the oldest piece
        self._pieces: deque[Int64s] = deque()
        self._is_watched = False

    def note(self, codes: Int64s) -> None:
        """Rows with these codes came or went."""
        if not codes.size:
            return
        self.version += codes.size
        if not self._is_watched:
            self._first = self.version
            return
        self._pieces.append(codes.copy())
        while self.version - self._first > self.limit and len(self._pieces) > 1:
            self._first += self._pieces.popleft().size

    def since(self, version: int) -> Int64s | None:
        """The codes noted after this version, with repeats; None if that is forgotten."""
        self._is_watched = True
        if version < self._first:
            return None
        wanted, newest = self.version - version, list[Int64s]()
        for piece in reversed(self._pieces):
            if wanted <= 0:
                break
            newest.append(piece[max(0, piece.size - wanted) :])
            wanted -= piece.size
        return np.concatenate([np.empty(0, np.int64), *reversed(newest)])

    def check(self) -> None:
        """Assert the invariant."""
        held = sum(piece.size for piece in self._pieces)
        assert held == self.version - self._first, "the log has a hole"
        assert held <= self.limit or len(self._pieces) == 1, "the log is too long"

    def memory_bytes(self) -> int:
        """Bytes of the log."""
        return sum(piece.nbytes for piece in self._pieces)
