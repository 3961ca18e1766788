"""Codes for strings: inside, a string is a number, the same for queries, rows and join keys.

Queries and stored rows give a code to each string that is new; an event that is only looked at
never does. Codes ascend and are never used twice, so nothing kept elsewhere goes wrong when a
string is forgotten, which happens once most strings have no user left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from standfast.arrays import Int64s
from standfast.model.numbers import Keys, Mask

# Fewer strings than this are not worth looking for those without a user.
FEW = 1024

Users = Callable[[], Iterable[Int64s]]


class Strings:
    """The strings of one engine, each with its code."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.next_code = 0
        self._users: list[Users] = []
        self._many = FEW
        self._texts: dict[int, str] = {}
        self._texts_of = (0, 0)  # what `_texts` was made of: how many strings, and the next code

    def used_by(self, codes: Users) -> None:
        """From now on keep the strings whose codes this function gives."""
        self._users.append(codes)

    def intern(self, values: pa.Array) -> Keys:
        """The code of each string, a new one where it is new; -1 for null."""
        found = values.dictionary_encode()
        for text in found.dictionary.to_pylist():
            if text not in self.codes:
                self.codes[text] = self.next_code
                self.next_code += 1
        return self.keys(values)[0]

    def keys(self, values: pa.Array) -> tuple[Keys, Mask]:
        """The code of each string, or -1, and which have one.

        Costs a look-up for each different string, however many are known.
        """
        found = values.dictionary_encode()
        texts = found.dictionary.to_pylist()
        codes = np.array([self.codes.get(text, -1) for text in texts] + [-1], np.int64)
        keys: Keys = codes[found.indices.fill_null(codes.size - 1).to_numpy()]
        return keys, keys >= 0

    def texts(self, codes: Int64s) -> list[str]:
        """The strings that have these codes."""
        made_of = (len(self.codes), self.next_code)
        if self._texts_of != made_of:
            self._texts = {code: text for text, code in self.codes.items()}
            self._texts_of = made_of
        return [self._texts[code] for code in codes.tolist()]

    def some(self, codes: Int64s) -> Strings:
        """Only the strings of these codes, whatever is forgotten here later."""
        some, distinct = Strings(), np.unique(codes)
        some.codes = dict(zip(self.texts(distinct), distinct.tolist(), strict=True))
        return some

    def tidy(self) -> None:
        """Forget the strings that nobody uses, when there are twice as many as were left."""
        if len(self.codes) <= self._many:
            return
        used = {code for codes in self._users for some in codes() for code in some.tolist()}
        self.codes = {text: code for text, code in self.codes.items() if code in used}
        self._many = max(FEW, 2 * len(self.codes))
