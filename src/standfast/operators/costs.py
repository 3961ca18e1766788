"""What a way costs: fitted microseconds for each term, and the file that keeps them.

A cost is linear in its constants. A term is a *stat* of the whole batch times a *trait* of the
event, so that a batch needs one small product of matrices:

    cost(way, event) =  sum over terms of   us  x  stat(batch)   x  trait(event)
      groups                                       groups           search = log2(1 + m')
      select_first                                 one              stabbed = n'
    cost(way, part of a batch) = the terms of the trait call, and the sum over its events

The constants are fitted by `standfast calibrate`. Nobody needs it: defaults come with the package,
and the router corrects every way by what it measures while it runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from standfast.errors import StandfastError

Floats = npt.NDArray[np.float64]

FORMAT, VERSION = "standfast costs", 2
VARIABLE = "STANDFAST_COSTS"


class BadCosts(StandfastError):
    """A file of constants that cannot be used."""


class Term(NamedTuple):
    """One product of the model."""

    stat: str
    trait: str

    @property
    def name(self) -> str:
        factors = [word for word in self if word != "one"]
        return " x ".join(factors) or "event"


def _terms(*texts: str) -> tuple[Term, ...]:
    """Terms from texts like "groups * search"; a single word is a stat."""
    pairs = ([word.strip() for word in text.split("*")] for text in texts)
    return tuple(Term(*pair) if len(pair) == 2 else Term(pair[0], "one") for pair in pairs)


# Traits of an event, in the order in which `operators.traits` writes them. call is not one of them
# but of a part of a batch. joins is 1 if a row has the event's code and else 0; is_new is 1 at the
# first event of a code that joins; rows is m'; search is log2(1 + m'), new_search the same at the
# first event of a code; stabbed is n', own ranges that hold the event, scattered is n'', those of
# scattered queries; reach is the chance that a query whose own range holds the event is affected;
# depth is log2(1 + n' / groups) times the reach, hot_depth the same for hot queries and groups;
# new_rows is m' at the first event of a code; met is how many groups the n' queries are of at
# most, hot_met the same for hot ones.
TRAITS: dict[str, tuple[str, ...]] = {
    "band_join": ("call", "one"),
    "select_join": (
        "call", "one", "joins", "is_new", "search", "new_search", "rows", "rows_stabbed",
        "stabbed", "stabbed_search", "scattered", "scattered_search", "reach", "depth", "hot_depth",
    ),
    "window_join": (
        "call", "one", "joins", "is_new", "search", "new_search", "rows", "rows_stabbed",
        "stabbed", "stabbed_search", "scattered", "scattered_search", "reach", "depth", "hot_depth",
        "new_rows", "met", "hot_met",
    ),
}  # fmt: skip

# Stats of a batch: share is the part of the queries whose other range holds a stored row; sizes is
# the sum of log2 of the sizes of the groups, hot_sizes that of the hot ones; far is the part of the
# queries that does not fit into a fast cache, far_scattered the same of the scattered ones; near is
# the part of the rows within the largest window of an event, m_b / m', near_share that times share;
# skyline is the rows on a skyline for each stabbing point, hot_skyline the same for hot groups.
TERMS: dict[str, dict[str, tuple[Term, ...]]] = {
    "band_join": {
        "per_query": _terms("one * call", "one", "queries", "queries_search"),
        "per_tuple": _terms(
            "one * call", "stored * call", "one", "queries", "stored", "stored_search"
        ),
        "merge": _terms("one * call", "queries * call", "one", "queries", "stored"),
        "groups": _terms("one * call", "groups * call", "one", "groups", "sizes"),
        "hotspot": _terms(
            "one * call", "hot * call", "one", "hot", "hot_sizes", "scattered", "scattered_search"
        ),
    },
    "select_join": {
        "vanilla": _terms(
            "one * call", "queries * call", "one", "queries * joins", "one * stabbed",
            "one * stabbed_search", "far * stabbed",
        ),
        "join_first": _terms(
            "one * call", "queries * call", "one", "one * joins", "one * rows",
            "log_queries * rows", "far * rows", "share * rows_stabbed",
        ),
        "select_first": _terms(
            "one * call", "queries * call", "one", "log_queries * joins", "one * stabbed",
            "one * stabbed_search", "far * stabbed",
        ),
        "groups": _terms(
            "one * call", "groups * call", "one", "groups * is_new", "groups * new_search",
            "groups * joins", "groups * reach", "groups * depth",
        ),
        "hotspot": _terms(
            "one * call", "hot * call", "queries * call", "one", "hot * is_new",
            "hot * new_search", "hot * joins", "hot * reach", "hot * hot_depth",
            "log_scattered * joins", "one * scattered", "one * scattered_search",
            "far_scattered * scattered",
        ),
    },
    "window_join": {
        "join_first": _terms(
            "one * call", "queries * call", "one", "one * joins", "one * rows", "near * rows",
            "near_share * rows_stabbed",
        ),
        "select_first": _terms(
            "one * call", "queries * call", "one", "log_queries * joins", "one * new_rows",
            "one * stabbed", "one * stabbed_search", "far * stabbed",
        ),
        "groups": _terms(
            "one * call", "groups * call", "one", "log_queries * joins", "one * new_rows",
            "groups * is_new", "one * met", "skyline * met", "one * stabbed",
            "one * stabbed_search", "far * stabbed",
        ),
        "hotspot": _terms(
            "one * call", "hot * call", "queries * call", "one", "log_queries * joins",
            "one * new_rows", "hot * is_new", "one * hot_met", "hot_skyline * hot_met",
            "one * stabbed", "one * stabbed_search", "far * stabbed", "one * scattered",
            "one * scattered_search",
        ),
    },
}  # fmt: skip


class WayCosts(NamedTuple):
    """Constants of one way in microseconds: a query when built, a unit of each term.

    `spans` is the share of the time that `spans()` takes after `process()`.
    """

    build: float
    spans: float
    terms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of every way of every question, and where they come from."""

    source: str
    ways: Mapping[str, Mapping[str, WayCosts]]


class Model:
    """The constants of one question's ways as matrices."""

    def __init__(self, question: str, constants: Constants) -> None:
        terms, known = TERMS[question], constants.ways[question]
        self.question, self.ways = question, tuple(terms)
        self.source = constants.source
        self.constants = {way: known[way].terms for way in terms}
        every = sorted({term for way in terms.values() for term in way})
        self.stats = sorted({term.stat for term in every})
        self.traits = TRAITS[question]
        self.builds = np.array([known[way].build for way in self.ways])
        self.spans = np.array([known[way].spans for way in self.ways])
        # us[w, s, t]: of way w for each unit of stat s times trait t.
        self._us = np.zeros((len(self.ways), len(self.stats), len(self.traits)))
        for w, way in enumerate(self.ways):
            for term in terms[way]:
                at = (w, self.stats.index(term.stat), self.traits.index(term.trait))
                self._us[at] = known[way].terms[term.name]

    def weights(self, stats: Mapping[str, float]) -> Floats:
        """Microseconds of each way for a unit of each trait, in a batch with these stats.

        Trait 0 is the call.
        """
        given = np.array([stats[name] for name in self.stats])
        weights: Floats = np.einsum("wst,s->wt", self._us, given)
        return weights


def current() -> tuple[Constants, str]:
    """The constants to use now, and what is wrong with the user's file if it is not used."""
    try:
        path = user_file()
        stamp = path.stat().st_mtime_ns
    except (OSError, BadCosts):  # no such file, or nobody's home to look in
        named = os.environ.get(VARIABLE)
        return defaults(), f"{VARIABLE} names {named!r}, which is not there" if named else ""
    return _read_once(path, stamp)


@cache
def defaults() -> Constants:
    """The constants that come with the package."""
    text = (files("standfast") / "data" / "costs.json").read_text()
    return parse(text, "defaults")


def user_file() -> Path:
    """Where `standfast calibrate` leaves the constants of this machine."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    try:
        base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:
        raise BadCosts("there is no home to keep constants in", hint="name a file") from None
    return Path(base) / "standfast" / "costs.json"


def read(path: Path) -> Constants:
    """The constants of a file; what is wrong with it is an error."""
    return parse(_text_of(path), str(path))


def write(constants: Constants, path: Path, machine: str) -> None:
    """Keep constants in a file; it appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    ways = {
        question: {way: costs._asdict() for way, costs in known.items()}
        for question, known in constants.ways.items()
    }
    whole = {"format": FORMAT, "version": VERSION, "machine": machine, "microseconds": ways}
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def make_ready(path: Path) -> None:
    """Raise unless `write` may and can write there; measuring takes minutes and comes first.

    A file that is there must be one of costs, of this version or another.
    """
    if path.exists():
        _read_frame(_text_of(path), str(path), hint="name another file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise BadCosts(f"{path} cannot be written: {error}", hint="name another file") from None


def parse(text: str, source: str) -> Constants:
    """Constants from text; every way must have exactly the terms of this version."""
    hint = "run standfast calibrate to make a new one"
    found = _read_frame(text, source, hint=hint)
    if found.get("version") != VERSION:
        raise BadCosts(
            f"{source} has version {found.get('version')!r}, this is version {VERSION}", hint=hint
        )
    ways = {
        question: {way: _way(found, source, question, way) for way in terms}
        for question, terms in TERMS.items()
    }
    return Constants(source, ways)


def _read_frame(text: str, source: str, *, hint: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadCosts(f"{source} is not JSON: {error}", hint=hint) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadCosts(f"{source} is not a file of costs", hint=hint)
    return found


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadCosts(f"{path} cannot be read: {error}", hint="run standfast calibrate") from None


def _way(found: dict[str, Any], source: str, question: str, way: str) -> WayCosts:
    where = f"{source}: {question} {way}"
    try:
        given = found["microseconds"][question][way]
        terms = {term.name: given["terms"][term.name] for term in TERMS[question][way]}
        costs = WayCosts(given["build"], given["spans"], terms)
    except (KeyError, TypeError):
        raise BadCosts(f"{where} lacks a constant", hint="run standfast calibrate") from None
    for value in (costs.build, costs.spans, *terms.values()):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < 1e12:
            raise BadCosts(f"{where} has {value!r} as a constant", hint="run standfast calibrate")
    if costs.spans > 1:
        raise BadCosts(f"{where} has {costs.spans!r} as a share", hint="run standfast calibrate")
    return costs


@cache
def _read_once(path: Path, stamp: int) -> tuple[Constants, str]:
    """The file as it was at this time of change."""
    try:
        return read(path), ""
    except BadCosts as error:
        return defaults(), error.message
