"""Changes of the standing queries: adds and removes that come as rows, good or bad.

    rows       low +1   named +1   low +2   low -1   named +2   low +1
    by turns   low +1 +2 | low -1 | low +1        named +1 +2

What becomes of the changes is what would become of them one by one, in the order in which the rows
stand. Only the order of each id of each template matters for that, so the first changes of all ids
of a template are applied together, then the second ones, and so on. Where the widest window of a
template goes, it also matters which rows queries find that come after it: see `_one_by_one`.

Rows that are refused together are halved until the bad ones stand alone, so one bad bound costs a
few tries and stops nothing. Rows that lack the same bound are refused together: a file without a
column costs one try. The same query added again changes nothing and is counted as repeated; another
query under a taken id is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from standfast.arrays import Int64s
from standfast.engine.group import Group
from standfast.engine.windows import NOTHING
from standfast.errors import StandfastError
from standfast.model.columns import is_text
from standfast.model.names import did_you_mean, shown
from standfast.model.query import WindowAggregate
from standfast.spark.outputs import readable

ADD, REMOVE = "add", "remove"
ROW = "standfast row"  # where a change stands; no user's column is called so
BEFORE = -1  # when a query came that was there before all changes


class Refusal(NamedTuple):
    """A change that was not applied: which, why, and in which row it stood."""

    template: str | None
    id: str | None
    reason: str
    row: int


@dataclass
class Outcome:
    """What became of a batch of changes."""

    added: int = 0
    removed: int = 0
    repeated: int = 0
    refused: list[Refusal] = field(default_factory=list)


def apply(groups: dict[str, Group], changes: pa.Table) -> Outcome:
    """Apply rows of (template, op, id, parameters) as if one by one."""
    outcome, n = Outcome(), changes.num_rows
    if "op" not in changes.column_names:
        changes = changes.append_column("op", pa.repeat(ADD, n))
    changes = changes.append_column(ROW, pa.array(np.arange(n)))
    for name in ("template", "op"):
        changes = _with_text(changes, name, f"the {name}", outcome)
    for template, rows in _by(changes, "template"):
        group = groups.get(template or "")
        if template is None:
            _refuse(outcome, None, rows, "the template is null")
        elif group is None:
            hint = did_you_mean(template, groups, what="templates")
            _refuse(outcome, template, rows, f"there is no template {shown(template)}; {hint}")
        else:
            _change(group, rows, outcome)
    outcome.refused.sort(key=lambda refusal: refusal.row)
    return outcome


def _change(group: Group, rows: pa.Table, outcome: Outcome) -> None:
    """Apply the changes of one template."""
    is_known = pc.is_in(rows["op"], pa.array([ADD, REMOVE]))
    for op, some in _by(rows.filter(pc.invert(is_known)), "op"):
        reason = f"the operation {shown(op)} is neither add nor remove"
        _refuse(outcome, group.name, some, reason)
    rows = rows.filter(is_known)
    _refuse(outcome, group.name, rows.filter(rows["id"].is_null()), "the id is null")
    rows = rows.filter(rows["id"].is_valid())
    if not _does_order_show(group, rows):
        _take_turns(group, rows, outcome)
        return
    reach, is_first = _one_by_one(group, rows)
    with group.holding(reach):
        _take_turns(group, rows.filter(pa.array(is_first)), outcome)
        _take_turns(group, rows.filter(pa.array(~is_first)), outcome)


def _take_turns(group: Group, rows: pa.Table, outcome: Outcome) -> None:
    """Apply the first changes of all ids, then the second ones, and so on."""
    for turn in _cut(rows, _ranks(rows["id"].to_numpy())):
        is_added = pc.equal(turn["op"], ADD)
        _remove(group, turn.filter(pc.invert(is_added)), outcome)
        _add(group, turn.filter(is_added), outcome)


def _does_order_show(group: Group, rows: pa.Table) -> bool:
    """Whether it shows how adds and removes of different ids follow each other.

    An add finds the rows that windows reach when it comes. Only where the widest window goes may
    that be less than before.
    """
    if not group.keeps_lanes or len(rows["op"].unique()) < 2:
        return False
    going = rows["id"].filter(pc.equal(rows["op"], REMOVE)).to_numpy()
    return _widest(group, besides=going) < _widest(group, besides=going[:0])


def _widest(group: Group, *, besides: Int64s) -> int:
    """How far the widest window reaches, not counting these ids."""
    registry, slots = group.registry, group.registry.slots_of(besides)
    is_counted = np.zeros(registry.n_slots, np.bool_)
    is_counted[registry.living()] = True
    is_counted[slots[slots >= 0]] = False
    return int(registry.highs[0, is_counted].max(initial=NOTHING))


def _one_by_one(group: Group, rows: pa.Table) -> tuple[int, npt.NDArray[np.bool_]]:
    """The least reach that an added query meets, and the changes about queries of before.

    Rows are let go when a query comes after the widest window went, and never what a living query
    reaches. So in the end each query finds the rows within the least reach that any added one met.
    Queries of before that are wider all go: the changes up to their going, which add nothing, are
    made first. Then rows are let go, once, and the others come.
    """
    registry, ids = group.registry, rows["id"].to_numpy()
    widths = _widths(group, rows).tolist()
    slots = np.unique(registry.slots_of(ids))
    slots = slots[slots >= 0]
    living = dict.fromkeys(registry.ids[slots].tolist(), BEFORE)
    heap = [
        (-width, BEFORE, identity)
        for width, identity in zip(registry.highs[0, slots].tolist(), living, strict=True)
    ]
    heapify(heap)
    others = _widest(group, besides=ids)
    least, is_first = max(others, -heap[0][0]), np.zeros(ids.size, np.bool_)
    is_added = pc.equal(rows["op"], ADD).to_pylist()
    for place, (identity, width) in enumerate(zip(ids.tolist(), widths, strict=True)):
        is_first[place] = living.get(identity) == BEFORE
        if not is_added[place]:
            living.pop(identity, None)
        elif width > NOTHING and identity not in living:
            while heap and living.get(heap[0][2]) != heap[0][1]:
                heappop(heap)
            least = min(least, max(others, -heap[0][0] if heap else NOTHING))
            living[identity] = place
            heappush(heap, (-width, place, identity))
    return least, is_first


def _widths(group: Group, rows: pa.Table) -> Int64s:
    """How far back the query of each row looks; nowhere, if it is a bad one or none is added."""
    widths, places = np.full(rows.num_rows, NOTHING), pa.array(np.arange(rows.num_rows))
    # Ids may come several times, which is no mistake here.
    rows = rows.set_column(rows.column_names.index("id"), "id", places)
    for read in _tried(group, rows.filter(pc.equal(rows["op"], ADD)), group.reaches, Outcome()):
        widths[read.part["id"].to_numpy()] = read.result
    return widths


def _with_text(rows: pa.Table, name: str, what: str, outcome: Outcome) -> pa.Table:
    """The rows in which a column has text; Spark also hands over bytes that are none."""
    if not is_text(rows[name].type):
        return rows
    texts = readable(rows[name])
    is_fine = pc.equal(texts.cast(pa.binary()), rows[name].cast(pa.binary())).fill_null(True)
    for row in np.flatnonzero(~is_fine.to_numpy()).tolist():
        text, bad = texts[row].as_py(), rows.slice(row, 1)
        template = text if name == "template" else bad["template"][0].as_py()
        _refuse(outcome, template, bad, f"{what} is no text: {shown(text)}")
    return rows.filter(is_fine)


def _by(rows: pa.Table, name: str) -> Iterator[tuple[str | None, pa.Table]]:
    """The rows of each text in a column."""
    codes = pc.dictionary_encode(rows[name], null_encoding="encode").combine_chunks().indices
    for some in _cut(rows, codes.to_numpy()):
        yield some[name][0].as_py(), some


def _cut(rows: pa.Table, codes: npt.NDArray[Any]) -> Iterator[pa.Table]:
    """The rows of each code, by the codes, in their order."""
    order = np.argsort(codes, kind="stable")
    if np.any(codes[:-1] > codes[1:]):
        rows = rows.take(pa.array(order))
    edges = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
    for first, last in pairwise(edges.tolist()):
        yield rows.slice(first, last - first)


def _ranks(ids: Int64s) -> Int64s:
    """How many rows with the same id stand before each."""
    order = np.argsort(ids, kind="stable")
    places, is_first = np.arange(ids.size), np.ones(ids.size, np.bool_)
    is_first[1:] = ids[order][1:] != ids[order][:-1]
    ranks = np.empty(ids.size, np.int64)
    ranks[order] = places - np.maximum.accumulate(np.where(is_first, places, 0))
    return ranks


def _add(group: Group, rows: pa.Table, outcome: Outcome) -> None:
    """Register queries; those that are there already are only counted, if they ask the same."""
    taken = group.registry.slots_of(rows["id"].to_numpy()) >= 0
    for same in _tried(group, rows.filter(pa.array(taken)), group.asked, outcome):
        outcome.repeated += int(np.count_nonzero(same.result))
        others = same.part.filter(pa.array(~same.result))
        _refuse(outcome, group.name, others, "another query has this id; remove it first")
    for done in _tried(group, rows.filter(pa.array(~taken)), group.add, outcome):
        outcome.added += done.part.num_rows


def _remove(group: Group, rows: pa.Table, outcome: Outcome) -> None:
    ids = rows["id"].to_numpy()
    known = group.registry.slots_of(ids) >= 0
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
    group: Group, rows: pa.Table, call: Callable[[pa.Table], Any], outcome: Outcome
) -> Iterator[_Done]:
    """Call with as many rows at once as go together; rows that are refused alone are written down.

    Yields what was accepted.
    """
    columns = ["id", *(hole.name for hole in group.template.holes)]
    for hole in group.template.holes:
        what = f"template {group.name!r}: parameter {hole.name!r}"
        rows = _with_text(rows, hole.name, what, outcome)
    lacks = _lacks(group, rows)
    waiting = [(part, True) for part in _cut(rows.filter(lacks > 0), lacks[lacks > 0])]
    whole = rows.filter(lacks == 0) if waiting else rows
    waiting += [(whole, False)] if whole.num_rows else []
    while waiting:
        part, is_lacking = waiting.pop()
        try:
            result = call(part.select(columns))
        except StandfastError as error:
            if part.num_rows == 1 or is_lacking:
                # The row of this call is none that anybody else knows.
                _refuse(outcome, group.name, part, error.message.replace(" in row 0", "", 1))
            else:
                half = part.num_rows // 2
                waiting += [(part.slice(half), False), (part.slice(0, half), False)]
        else:
            yield _Done(part, result)


def _lacks(group: Group, rows: pa.Table) -> Int64s:
    """Which bound each row lacks, 0 if none: of several the one that its refusal names.

    That is the first that is null, else the first that is NaN. Shares of quantiles are judged while
    NaN is looked for, so there NaN is left to the one that judges.
    """
    question, lacks = group.template.question, np.zeros(rows.num_rows, np.int64)
    columns = [rows[hole.name] for hole in group.template.holes]
    has_share = isinstance(question, WindowAggregate) and question.phi is not None
    tests = [pc.is_null] if has_share else [pc.is_null, pc.is_nan]
    for code, test in enumerate(tests):
        for i, column in enumerate(columns):
            if test is pc.is_null and not column.null_count:
                continue
            if test is pc.is_nan and not pa.types.is_floating(column.type):
                continue
            is_so = test(column).fill_null(False).to_numpy()
            lacks[is_so & (lacks == 0)] = 1 + i + code * len(columns)
    return lacks


def _refuse(outcome: Outcome, template: str | None, rows: pa.Table, reason: str) -> None:
    outcome.refused += [
        Refusal(template, None if identity is None else str(identity), reason, row)
        for identity, row in zip(rows["id"].to_pylist(), rows[ROW].to_pylist(), strict=True)
    ]
