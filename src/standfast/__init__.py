"""Standfast keeps millions of standing queries answered over streams of data."""

from standfast.engine.answer import Answer, Spans
from standfast.engine.engine import Engine
from standfast.engine.group import Group
from standfast.errors import (
    BadInput,
    BadParameters,
    BadSnapshot,
    StandfastError,
    UnsupportedQuery,
)
from standfast.operators.aggregates import UserAggregate

__all__ = [
    "Answer",
    "BadInput",
    "BadParameters",
    "BadSnapshot",
    "Engine",
    "Group",
    "Spans",
    "StandfastError",
    "UnsupportedQuery",
    "UserAggregate",
]
