"""Names of a package that are imported when somebody asks for them.

A worker of Spark that only moves rows imports the package, but not the engine with its compilers:
that would cost each of them more than a second.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a package whose names live in these modules."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find
