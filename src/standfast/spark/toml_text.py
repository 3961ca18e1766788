"""TOML with line numbers: every mistake in a file is noted at its line, and all are told at once.

tomllib decides what the file says; `lines_of` only finds the line on which each key stands.

    [inputs.trades]            ("inputs", "trades")            -> 1
    schema = { price = "f" }   ("inputs", "trades", "schema")  -> 2, and (..., "price") -> 2
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standfast.errors import StandfastError
from standfast.model.names import did_you_mean, shown

KeyPath = tuple[str, ...]

_TOKEN = re.compile(
    r"""(?P<text>\"{3}(?:\\.|[^\\])*?\"{3}(?!\")|'{3}.*?'{3}(?!')|"(?:\\.|[^"\\])*"|'[^']*')
    |(?P<comment>\#[^\n]*)
    |(?P<newline>\n)
    |(?P<space>[ \t\r]+)
    |(?P<mark>[\[\]{}=,.])
    |(?P<word>[^\s\[\]{}=,.\#"']+)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED = re.compile(r"'([^']*)'")
_NAMES: dict[type, str] = {
    str: "text", int: "an integer", float: "a number", bool: "true or false", dict: "a table",
    list: "an array",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong on a line of a file, and what to do."""

    line: int
    what: str
    hint: str


class BadPipeline(StandfastError):
    """A pipeline file that cannot be run; names every mistake with its line."""

    def __init__(self, file: str, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: mistake.line))
        *before, last = self.mistakes
        told = [f"{file}:{m.line}: {m.what}\n  hint: {m.hint}" for m in before]
        super().__init__("\n".join([*told, f"{file}:{last.line}: {last.what}"]), hint=last.hint)


@dataclass(slots=True)
class Document:
    """A parsed file, the lines of its keys, and the mistakes found so far."""

    file: str
    values: dict[str, Any]
    lines: dict[KeyPath, int]
    mistakes: list[Mistake] = field(default_factory=list)

    @staticmethod
    def read(path: Path) -> Document:
        """Read a file; one that is not TOML is an error with the line."""
        try:
            text = path.read_text(encoding="utf-8-sig")  # some editors put a mark before the text
        except UnicodeDecodeError as error:
            line = error.object[: error.start].count(b"\n") + 1
            wrong = Mistake(line, f"cannot be read as UTF-8: {error.reason}", "save it as UTF-8")
            raise BadPipeline(str(path), [wrong]) from None
        except (OSError, ValueError) as error:  # ValueError: a path with a NUL
            raise StandfastError(
                f"{path} cannot be read: {error}", hint="name a pipeline file in TOML"
            ) from None
        try:
            return Document(str(path), tomllib.loads(text), lines_of(text))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            found = re.search(r" ?\(at line (\d+), column \d+\)", str(error))
            line = int(found[1]) if found else text.count("\n") + 1
            what = str(error).replace(found[0], "") if found else str(error)
            raise BadPipeline(str(path), [Mistake(line, *_not_toml(what))]) from None

    def section(self) -> Section:
        """The whole file as a section."""
        return Section(self, (), self.values)

    def line_of(self, path: KeyPath) -> int:
        """The line of a key, or of the nearest table around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def finish(self) -> None:
        """Raise what was noted, if anything."""
        if self.mistakes:
            raise BadPipeline(self.file, self.mistakes)


def _not_toml(what: str) -> tuple[str, str]:
    """What tomllib says, and what to do."""
    if "Cannot" not in what and "Duplicate" not in what:
        hint = "a value is a number, true, false, [...], {...} or text in quotes"
        return f"not TOML: {what}", hint
    if re.fullmatch(r"Cannot declare \(.*\) twice", what):
        what = f"the section [{'.'.join(re.findall(_QUOTED, what))}] stands twice"
    return f"not TOML: {what}", "have each section, and each key of a section, once"


class Section:
    """One table of the file, read key by key; what is wrong is noted and a stand-in returned."""

    def __init__(
        self, document: Document, path: KeyPath, values: dict[str, Any], *, is_there: bool = True
    ) -> None:
        self._document, self._path, self._values = document, path, values
        self.is_there = is_there
        self._asked: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    @property
    def title(self) -> str:
        """The section as its header is written."""
        return f"[{'.'.join(self._path)}]" if self._path else "the file"

    def line(self, key: str) -> int:
        """The line of a key."""
        return self._document.line_of((*self._path, key))

    def wrong(self, key: str, what: str, hint: str) -> None:
        """Note a mistake at the line of a key."""
        self._document.mistakes.append(Mistake(self.line(key), what, hint))

    def text(self, key: str, default: str | None = None) -> str:
        """Text that is not empty; without a default it must be there."""
        value = self.optional(key)
        if value is None and key not in self._values:
            if default is None and self.is_there:
                self.wrong(key, f"{self.title} lacks the key {key!r}", f"add a line {key} = ...")
            return default or ""
        return value or ""

    def optional(self, key: str) -> str | None:
        """Text that may be missing."""
        value: str | None = self._value(key, str)
        if value == "":
            self.wrong(key, f"{self.title} {key} is empty", "write something, or leave it out")
        return value

    def choice(self, key: str, allowed: Iterable[str], default: str | None = None) -> str:
        """One of a few words; empty when it is none of them."""
        words = list(allowed)
        value = self.text(key, default)
        if not value or value in words:
            return value
        hint = did_you_mean(value, words, what="one of")
        self.wrong(key, f"{self.title} {key} cannot be {shown(value)}", hint)
        return ""

    def flag(self, key: str, *, default: bool) -> bool:
        """true or false."""
        value = self._value(key, bool)
        return default if value is None else value

    def number(self, key: str, *, least: int, most: int) -> int | None:
        """An integer that may be missing."""
        value: int | None = self._value(key, int)
        if value is not None and not least <= value <= most:
            self.wrong(key, f"{self.title} {key} is {value}", f"from {least} to {most}")
        return value

    def words(self, key: str) -> tuple[str, ...]:
        """One text or an array of texts, as a tuple; none when it is missing."""
        if isinstance(self._values.get(key), str):
            return (self.text(key),)
        found = self._value(key, list) or []
        for value in found:
            if not isinstance(value, str):
                self._mistyped(key, value, "text")
        return tuple(value for value in found if isinstance(value, str))

    def table(self, key: str, *, needed: str = "") -> Section:
        """A section inside this one; if it is needed, what to do when it is missing or empty."""
        values = self._value(key, dict)
        path = (*self._path, key)
        is_missing = bool(needed) and not self._values.get(key)
        if is_missing and self.is_there:
            self.wrong(key, f"the section [{'.'.join(path)}] is missing or empty", needed)
        # What a section lacks that is there as something else is no news.
        is_there = not is_missing and (values is not None or key not in self._values)
        return Section(self._document, path, values or {}, is_there=is_there)

    def tables(self) -> dict[str, Section]:
        """Every section inside this one, by name."""
        return {key: self.table(key) for key in self._values}

    def texts(self) -> dict[str, str]:
        """Every value of this section, which must be text."""
        return {key: self.text(key) for key in self._values}

    def settings(self) -> dict[str, str]:
        """Plain values as text, with dotted names: `a.b = 1` and `"a.b" = 1` are the same."""
        return dict(self._settings(self._values, ()))

    def done(self) -> None:
        """Note the keys that nobody asked for."""
        for key in self._values:
            if key not in self._asked:
                hint = did_you_mean(key, dict.fromkeys(self._asked), what="known keys")
                self.wrong(key, f"{self.title} has the unknown key {key!r}", hint)

    def _settings(self, values: dict[str, Any], path: KeyPath) -> Iterator[tuple[str, str]]:
        for key, value in values.items():
            name = ".".join((*path, key))
            if isinstance(value, dict):
                yield from self._settings(value, (*path, key))
            elif isinstance(value, bool):
                yield name, str(value).lower()
            elif isinstance(value, str | int | float):
                yield name, str(value)
            else:
                what = f"{self.title} {name} is {_NAMES.get(type(value), 'a date')}"
                line = self._document.line_of((*self._path, *path, key))
                hint = "use text, a number, true or false"
                self._document.mistakes.append(Mistake(line, what, hint))

    def _value(self, key: str, kind: type) -> Any:
        self._asked.append(key)
        value = self._values.get(key)
        if value is None or type(value) is kind:
            return value
        self._mistyped(key, value, _NAMES[kind])
        return None

    def _mistyped(self, key: str, value: object, wanted: str) -> None:
        what = f"{self.title} {key} takes {wanted}, got {shown(value)}"
        hint = f"give {wanted}"
        if wanted == _NAMES[bool]:
            hint = "write true or false without quotes"
        elif wanted == _NAMES[dict]:
            hint = f"begin a section [{'.'.join((*self._path, key))}]"
        self.wrong(key, what, hint)


def lines_of(text: str) -> dict[KeyPath, int]:
    """The line of every key and table of a text that tomllib accepts.

    Keys inside arrays are left out: they stand on the line of the array or below it.
    """
    return _Scan(text).lines


class _Scan:
    """One pass over the tokens of valid TOML."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._tokens = list(_tokens(text))
        self._at = 0
        table: KeyPath = ()
        while self._at < len(self._tokens):
            kind, word, line = self._next()
            if kind == "newline":
                continue
            if word == "[":
                while self._peek() == "[":
                    self._next()
                table = self._key()
                self._note(table, line)
                while self._peek() == "]":
                    self._next()
            else:
                self._at -= 1
                self._pair(table)

    def _pair(self, table: KeyPath) -> None:
        line = self._tokens[self._at][2]
        path = table + self._key()
        self._note(path, line)
        self._next()  # the sign =
        self._value(path)

    def _note(self, path: KeyPath, line: int) -> None:
        for n in range(1, len(path) + 1):
            self.lines.setdefault(path[:n], line)

    def _key(self) -> KeyPath:
        parts = [self._part()]
        while self._peek() == ".":
            self._next()
            parts.append(self._part())
        return tuple(parts)

    def _part(self) -> str:
        kind, word, _ = self._next()
        return next(iter(tomllib.loads(f"{word} = 0"))) if kind == "text" else word

    def _value(self, path: KeyPath | None) -> None:
        """Skip a value; the keys of an inline table are noted unless it is in an array."""
        _, word, _ = self._next()
        if word not in ("[", "{"):
            while self._peek() not in (",", "]", "}", "\n", ""):
                self._next()
            return
        while self._peek() not in ("]", "}"):
            if self._peek() in (",", "\n"):
                self._next()
            elif word == "[":
                self._value(None)
            elif path is not None:
                self._pair(path)
            else:
                self._key()
                self._next()
                self._value(None)
        self._next()

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, str, int]:
        self._at += 1
        return self._tokens[self._at - 1]


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Kind, text and line of every token but spaces and comments."""
    line = 1
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind not in ("space", "comment"):
            yield kind, found[0], line
        line += found[0].count("\n")
