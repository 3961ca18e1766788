"""Which questions are dealt how: from templates to a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from standfast.errors import BadInput
from standfast.model.query import BandJoin, Filter, KeyThreshold, WindowAggregate
from standfast.model.stream import Input
from standfast.model.template import Template
from standfast.spark.shards import Deal, Part, Plan


def plan(
    templates: Mapping[str, Template], inputs: Mapping[str, Input], n_shards: int, form: str,
    still: Collection[str] = (),
) -> Plan:  # fmt: skip
    """Put templates that deal alike into one part; `still` inputs come first and do not grow."""
    parts: list[Part] = []
    for name, template in templates.items():
        deal, keys, read = _dealt(template, inputs, form)
        for i, part in enumerate(parts):
            agree = all(part.keys.get(n, key) == key for n, key in keys.items())
            if part.deal == deal and agree and bool(part.keys) == bool(keys):
                together = tuple(dict.fromkeys(part.inputs + read))
                parts[i] = Part(deal, (*part.templates, name), together, {**part.keys, **keys})
                break
        else:
            parts.append(Part(deal, (name,), read, keys))
    unread = [name for name in inputs if not any(name in part.inputs for part in parts)]
    if unread:
        raise BadInput(f"no template reads the input {unread[0]!r}", hint="leave it out")
    whole = Plan(n_shards, tuple(parts))
    parts = [
        replace(
            part, forgone=_forgone(part, templates, inputs, still),
            noted=tuple(n for n in part.inputs if inputs[n].id and whole.grid(part)[0] > 1),
        )
        for part in parts
    ]  # fmt: skip
    return Plan(n_shards, tuple(parts))


def _forgone(
    part: Part, templates: Mapping[str, Template], inputs: Mapping[str, Input],
    still: Collection[str],
) -> tuple[str, ...]:  # fmt: skip
    """The streams of a part whose rows meet only inputs that do not grow."""
    needed = set[str]()
    for name in part.templates:
        question = templates[name].question
        if isinstance(question, Filter | WindowAggregate | KeyThreshold):
            continue
        one, other = (side.input for side in question.sides)
        needed |= {a for a, b in ((one, other), (other, one)) if b not in still}
    plain = part.deal in ("keys", "events")
    return tuple(
        name for name in part.inputs
        if plain and inputs[name].kind == "stream" and name not in still and name not in needed
    )  # fmt: skip


def _dealt(
    template: Template, inputs: Mapping[str, Input], form: str
) -> tuple[Deal, dict[str, tuple[str, ...]], tuple[str, ...]]:
    question = template.question
    if isinstance(question, WindowAggregate | KeyThreshold):
        # In forms that name queries, not rows, each query has to be named by one shard.
        by: tuple[str, ...] = (question.key,) if question.key and form == "rows" else ()
        return "windows", {question.input: by} if by else {}, (question.input,)
    if isinstance(question, Filter):
        key = inputs[question.input].key
        only = (question.input,)
        return ("keys", {question.input: key}, only) if key else ("rows", {}, only)
    read = tuple(dict.fromkeys(side.input for side in question.sides))
    keys: dict[str, tuple[str, ...]] = {side.input: (side.column,) for side in question.sides}
    same = all(keys[side.input] == (side.column,) for side in question.sides)
    # A row of a table that changes its join column would have to leave its old bucket.
    follows = all(inputs[name].key in ((), key) for name, key in keys.items())
    if isinstance(question, BandJoin) or not same or not follows:
        return "events", {}, read
    return "keys", keys, read
