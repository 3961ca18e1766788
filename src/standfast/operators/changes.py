"""Which ways have changes of queries to work in, and whether what they take then says something.

    queries   +-      +-                          +-  +-  +-  +-  +-  +-
    batches     1   2    3   4   5                  6   7   8   9  10
    counted     .   x    .   x   x                  .   .   .   x   x    changes are usual by now

A way that was changed puts itself in order when it is next asked. Where that is the exception, such
a batch says nothing about the next ones, and what it took more is rent. Where queries come and go
all the time it is what a batch costs, together with the changes themselves, and a router that
waited for a quiet one would never learn anything. Then only a way does not count that has the
changes of several batches to work in.

A batch for which a kernel had to be compiled or loaded never counts.
"""

from __future__ import annotations

from standfast._numba import Stopwatch

# A batch moves the share of batches that come after a change by one part in so many; from this
# share on changes are usual.
SMOOTH, USUAL = 8, 0.75
NEVER = -(1 << 60)


class Changes:
    """What has changed since each way was last asked."""

    def __init__(self) -> None:
        self._batch = 0
        self._lately = 0.0  # share of the batches that came after a change
        self._is_changed = False  # since the last batch
        self._since: dict[str, int] = {}  # the batch after which the first change came
        self._seconds: dict[str, float] = {}  # that changes took
        self._watch = Stopwatch()  # since the batch began

    def note(self, name: str, seconds: float) -> None:
        """The queries of a way changed, which took so long."""
        self._since.setdefault(name, self._batch)
        self._seconds[name] = self._seconds.get(name, 0.0) + seconds
        self._is_changed = True

    def make(self, name: str) -> None:
        """A way is new."""
        self._since[name] = NEVER

    def begin(self) -> None:
        """A batch begins."""
        self._batch += 1
        self._watch = Stopwatch()
        self._lately += (self._is_changed - self._lately) / SMOOTH
        self._is_changed = False

    def done(self, name: str) -> float:
        """A way has answered, so it is in order; gives back the seconds of changes before that.

        They are 0 where changes are the exception.
        """
        is_usual, seconds = self.is_usual(name), self._seconds.pop(name, 0.0)
        self._since.pop(name, None)
        return seconds if is_usual else 0.0

    def is_usual(self, name: str) -> bool:
        """Whether what a way takes for this batch is what it takes for others, too."""
        if self._watch.seconds() is None:
            return False
        if name not in self._since:
            return True
        return self._lately > USUAL and self._since[name] == self._batch - 1
