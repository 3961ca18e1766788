"""What a document names in backticks, and whether that exists."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import standfast

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
FILE_ENDINGS = (".py", ".md", ".toml", ".lock", ".csv", ".gz", ".png", ".txt", ".sql")
ABBREVIATED = {"np": "numpy", "pa": "pyarrow", "pc": "pyarrow.compute"}
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+(\(\))?")


def documents() -> list[Path]:
    """Every document that is written by hand or printed from the catalogue."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def quoted(text: str) -> list[str]:
    """The inline code of a document, outside of its code blocks."""
    return re.findall(r"`([^`\n]+)`", FENCE.sub("", text))


def blocks(text: str) -> list[tuple[str, str]]:
    """The code blocks of a document: language and text."""
    return FENCE.findall(text)


def missing(names: list[str], document: Path) -> list[str]:
    """Those of the names that promise a file, a function or a make target that is not there."""
    return [name for name in names if not _exists(name, document)]


def _exists(name: str, document: Path) -> bool:
    if name.startswith("make "):
        words = [word for word in name.split()[1:] if "=" not in word]
        makefile = (ROOT / "Makefile").read_text()
        return all(re.search(rf"^{re.escape(word)}:", makefile, re.M) for word in words)
    if PATH.fullmatch(name) and ("/" in name or name.endswith(FILE_ENDINGS)):
        bases = (ROOT, document.parent, ROOT / "src/standfast")
        if any((base / name).exists() for base in bases):
            return True
        return "/" not in name and any((ROOT / "src").rglob(name))
    if DOTTED.fullmatch(name) and not name.endswith(FILE_ENDINGS):
        return _resolves(name.removesuffix("()"))
    return True


def _resolves(name: str) -> bool:
    """Whether a dotted name is a module, something in one, or a member of one of our classes.

    A name that begins with neither a capital nor a module that we know is SQL, and not judged.
    """
    first, _, rest = name.partition(".")
    if first in ABBREVIATED:
        return _imports(f"{ABBREVIATED[first]}.{rest}")
    if any(_has(cls, rest) for cls in _classes() if cls.__name__ == first):
        return True
    is_ours = first in {"standfast", "benchmarks"} or _imports(f"standfast.{first}")
    if not is_ours and not first[0].isupper():
        return True
    return _imports(name) or _imports(f"standfast.{name}")


def _has(thing: object, path: str) -> bool:
    for part in path.split("."):
        is_field = part in getattr(thing, "__annotations__", {})
        if not hasattr(thing, part):
            return is_field
        thing = getattr(thing, part)
    return True


def _imports(name: str) -> bool:
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        return n == len(parts) or _has(module, ".".join(parts[n:]))
    return False


def _classes() -> list[type]:
    found = []
    for module in pkgutil.walk_packages(standfast.__path__, "standfast."):
        members = vars(importlib.import_module(module.name)).values()
        found += [m for m in members if inspect.isclass(m) and m.__module__ == module.name]
    return found
