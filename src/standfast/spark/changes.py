"""Changes of the standing queries: adds and removes that come as rows, good or bad.

A batch of changes is applied in runs of one template and one operation, in the order in which the
rows stand. A run that is refused is halved until the bad rows stand alone, so one bad bound costs a
few tries and stops nothing. The same query added again changes nothing and is counted as repeated;
another query under a taken id is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from standfast.engine.group import Group
from standfast.errors import StandfastError
from standfast.model.names import did_you_mean, shown

ADD, REMOVE = "add", "remove"


class Refusal(NamedTuple):
    """A change that was not applied: which, and why."""

    template: str
    id: str
    reason: str


@dataclass
class Outcome:
    """What became of a batch of changes."""

    added: int = 0
    removed: int = 0
    repeated: int = 0
    refused: list[Refusal] = field(default_factory=list)


def apply(groups: dict[str, Group], changes: pa.Table) -> Outcome:
    """Apply rows of (template, op, id, parameters) in their order."""
    outcome = Outcome()
    for template, op, rows in _runs(changes):
        group = groups.get(template or "")
        if group is None:
            hint = did_you_mean(str(template), groups, what="templates")
            _refuse(outcome, template, rows, f"there is no template {shown(template)}; {hint}")
        elif op == ADD:
            _add(group, rows, outcome)
        elif op == REMOVE:
            _remove(group, rows, outcome)
        else:
            _refuse(outcome, template, rows, f"the operation {shown(op)} is neither add nor remove")
    return outcome


def _runs(changes: pa.Table) -> Iterator[tuple[str | None, str | None, pa.Table]]:
    """Rows that stand together and have one template and one operation."""
    n = changes.num_rows
    if "op" not in changes.column_names:
        changes = changes.append_column("op", pa.array([ADD] * n, pa.string()))
    codes = [
        pc.dictionary_encode(pc.fill_null(changes[name], "")).combine_chunks().indices.to_numpy()
        for name in ("template", "op")
    ]
    is_edge = np.ones(n, np.bool_)
    is_edge[1:] = (np.diff(codes[0]) != 0) | (np.diff(codes[1]) != 0)
    edges = [*np.flatnonzero(is_edge).tolist(), n]
    for first, last in pairwise(edges):
        rows = changes.slice(first, last - first)
        yield rows["template"][0].as_py(), rows["op"][0].as_py(), rows


def _add(group: Group, rows: pa.Table, outcome: Outcome) -> None:
    """Register queries; those that are there already are only counted, if they ask the same."""
    rows = _named(group, rows, outcome)
    ids = rows["id"].to_numpy()
    # A second row of one id is judged after the first, when the id is taken.
    order, first = np.arange(ids.size), np.unique(ids, return_index=True)[1]
    for some in (np.sort(first), np.setdiff1d(order, first)):
        part = rows.take(pa.array(some)).select(["id", *(h.name for h in group.template.holes)])
        taken = group.registry.slots_of(part["id"].to_numpy()) >= 0
        for same in _tried(group, part.filter(pa.array(taken)), group.asked, outcome):
            outcome.repeated += int(np.count_nonzero(same.result))
            others = same.part.filter(pa.array(~same.result))
            _refuse(outcome, group.name, others, "another query has this id; remove it first")
        for done in _tried(group, part.filter(pa.array(~taken)), group.add, outcome):
            outcome.added += done.part.num_rows


def _remove(group: Group, rows: pa.Table, outcome: Outcome) -> None:
    rows = _named(group, rows, outcome)
    ids = rows["id"].to_numpy()
    known = np.zeros(ids.size, np.bool_)
    known[np.unique(ids, return_index=True)[1]] = True
    known &= group.registry.slots_of(ids) >= 0
    if known.any():
        group.remove(ids[known])
    outcome.removed += int(np.count_nonzero(known))
    _refuse(
        outcome, group.name, rows.filter(pa.array(~known)),
        "no query has this id: it was removed before, or never added",
    )  # fmt: skip


class _Done(NamedTuple):
    part: pa.Table
    result: Any


def _tried(
    group: Group, params: pa.Table, call: Callable[[pa.Table], Any], outcome: Outcome
) -> Iterator[_Done]:
    """Call with as many rows at once as go together; rows that are refused alone are written down.

    Yields what was accepted.
    """
    waiting = [params] if params.num_rows else []
    while waiting:
        part = waiting.pop()
        try:
            result = call(part)
        except StandfastError as error:
            if part.num_rows == 1:
                _refuse(outcome, group.name, part, error.message)
            else:
                half = part.num_rows // 2
                waiting += [part.slice(half), part.slice(0, half)]
        else:
            yield _Done(part, result)


def _named(group: Group, rows: pa.Table, outcome: Outcome) -> pa.Table:
    """The rows that have an id; the others are refused."""
    nameless = rows["id"].is_null()
    if not rows["id"].null_count:
        return rows
    _refuse(outcome, group.name, rows.filter(nameless), "the id is null")
    return rows.filter(pc.invert(nameless))


def _refuse(outcome: Outcome, template: str | None, rows: pa.Table, reason: str) -> None:
    outcome.refused += [
        Refusal(str(template), str(identity), reason) for identity in rows["id"].to_pylist()
    ]
