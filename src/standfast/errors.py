"""What goes wrong for a user: each error says what, where, and what to do about it.

A user's mistake raises a `StandfastError`; a broken invariant is an `assert`.
"""


class StandfastError(Exception):
    """Base of every error that a user can cause. `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)
        self.message = message
        self.hint = hint


class UnsupportedQuery(StandfastError):
    """A template that Standfast does not answer."""


class BadParameters(StandfastError):
    """Query parameters that cannot be registered; nothing of the call was applied."""


class BadInput(StandfastError):
    """A call about an input (stream, table, rows) that cannot be served."""


class FailedAggregate(StandfastError):
    """An aggregate of the user's own raised an error; `__cause__` is what it raised."""


class BadSnapshot(StandfastError):
    """A snapshot file that is damaged, foreign, of another version, or out of reach."""
