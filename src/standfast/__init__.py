"""Standfast keeps millions of standing queries answered over streams of data."""

import typing as _typing

from standfast._lazy import lazy as _lazy
from standfast.errors import (
    BadInput,
    BadParameters,
    BadSnapshot,
    FailedAggregate,
    StandfastError,
    UnsupportedQuery,
)

if _typing.TYPE_CHECKING:
    from standfast.engine.answer import Answer, Spans
    from standfast.engine.engine import Engine
    from standfast.engine.group import Group
    from standfast.operators.aggregates import UserAggregate

__all__ = [
    "Answer",
    "BadInput",
    "BadParameters",
    "BadSnapshot",
    "Engine",
    "FailedAggregate",
    "Group",
    "Spans",
    "StandfastError",
    "UnsupportedQuery",
    "UserAggregate",
]

__getattr__ = _lazy(
    __name__,
    {
        "Answer": "standfast.engine.answer",
        "Spans": "standfast.engine.answer",
        "Engine": "standfast.engine.engine",
        "Group": "standfast.engine.group",
        "UserAggregate": "standfast.operators.aggregates",
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
