"""Names: what may be one, how a written name finds the declared one, and "did you mean".

A name in a template means the declared name that is spelled exactly so; failing that, an unquoted
name means the one declared name that differs in nothing but case. Two such names are ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def is_identifier(name: object) -> bool:
    """Letters, digits and underscores, not beginning with a digit, at most 128 characters."""
    return isinstance(name, str) and _IDENTIFIER.fullmatch(name) is not None


def find_names(name: str, declared: Iterable[str], *, quoted: bool) -> list[str]:
    """The declared names that `name` can mean: none, one, or several when it is ambiguous."""
    names = list(declared)
    if name in names:
        return [name]
    return [] if quoted else [n for n in names if n.casefold() == name.casefold()]


def alike(names: Iterable[str]) -> tuple[str, str] | None:
    """The first two names that differ in nothing but case, or in nothing at all."""
    known: dict[str, str] = {}
    for name in names:
        if name.casefold() in known:
            return known[name.casefold()], name
        known[name.casefold()] = name
    return None


def did_you_mean(name: str, declared: Iterable[str], *, what: str) -> str:
    """A hint for an unknown name: the closest declared one, or all of them."""
    names = list(declared)
    by_case = {n.casefold(): n for n in names}
    close = get_close_matches(name.casefold(), list(by_case), n=1)
    if close:
        return f"did you mean {by_case[close[0]]!r}?"
    return f"{what}: {', '.join(names) if names else 'none'}"


def shown(value: object, limit: int = 80) -> str:
    """`repr` of a value, cut to a readable length."""
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
