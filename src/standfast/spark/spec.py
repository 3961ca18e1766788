"""What a job is, as text: everything that a shard must know before the first row comes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property

import pyarrow as pa

from standfast.engine.engine import Engine, now_us
from standfast.model.query import Filter, KeyThreshold, WindowAggregate
from standfast.model.rows import ARROW_TYPES
from standfast.model.stream import Input
from standfast.model.template import Template
from standfast.spark.brief import Brief, name_of
from standfast.spark.outputs import Form, Output, output_of
from standfast.spark.planning import plan
from standfast.spark.shards import Part, Plan


@dataclass(frozen=True)
class Spec:
    """The inputs, templates, strategies, form of output and shards of a job."""

    inputs: Mapping[str, Input]
    templates: Mapping[str, str]
    strategies: Mapping[str, str]
    form: Form
    n_shards: int
    still: tuple[str, ...] = ()  # inputs that are there at first and do not grow

    @cached_property
    def parsed(self) -> dict[str, Template]:
        """The templates, read; one that cannot be answered is refused."""
        return {
            name: Template.parse(name, sql, self.inputs) for name, sql in self.templates.items()
        }

    @cached_property
    def plan(self) -> Plan:
        return plan(self.parsed, self.inputs, self.n_shards, self.form, self.still)

    @cached_property
    def output(self) -> Output:
        """The form of the answers, with the columns that the templates select."""
        ids = [ARROW_TYPES[i.columns[i.id]] for i in self.inputs.values() if i.id is not None]
        return output_of(self.form, self.results, ids)

    @cached_property
    def results(self) -> dict[str, pa.Schema]:
        """The columns of the results of each template."""
        results: dict[str, pa.Schema] = {}
        for part in self.plan.parts:
            results |= {n: group.schema for n, group in self.engine(part).groups.items()}
        return {name: results[name] for name in self.templates}

    @cached_property
    def names(self) -> list[str]:
        """The inputs, by number."""
        return list(self.inputs)

    def is_delicate(self, part: int) -> bool:
        """Whether cutting rows elsewhere may show: which row of a pair came last, what was between.

        That is so for self joins and for tables.
        """
        templates = self.plan.parts[part].templates
        questions = [self.parsed[name].question for name in templates]
        selves = any(
            not isinstance(q, Filter | WindowAggregate | KeyThreshold)
            and q.sides[0].input == q.sides[1].input
            for q in questions
        )
        return selves or any(self.inputs[n].key for n in self.plan.parts[part].inputs)

    def engine(self, part: Part, clock: Callable[[], int] = now_us) -> Engine:
        """A new engine for the templates of a part."""
        engine = Engine(clock=clock, follows=True)
        for name in part.inputs:
            source = self.inputs[name]
            if source.kind == "table":
                engine.table(name, source.columns, key=source.key)
            else:
                engine.stream(
                    name, source.columns, time=source.time, lateness_us=source.lateness_us,
                    id=source.id,
                )  # fmt: skip
        for name in part.templates:
            strategy = self.strategies.get(name, "auto")
            engine.register(self.templates[name], name=name, strategy=strategy)
        for name in part.forgone:
            engine.forgo(name)
        return engine

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    @cache
    def from_json(text: str) -> Spec:
        """What `to_json` wrote, read once in each process."""
        known = json.loads(text)
        inputs = {name: Input.of(entry) for name, entry in known["inputs"].items()}
        return Spec(**known | {"inputs": inputs, "still": tuple(known["still"])})

    @cached_property
    def digest(self) -> str:
        """Tells jobs apart whose state does not fit each other.

        The order of inputs and templates counts: the log of a shard has their numbers. So does how
        windows are dealt, which follows from the form of the output, what is not stored, and whose
        ids shards of other buckets were told.
        """
        known = json.loads(self.to_json())
        del known["strategies"], known["form"], known["n_shards"], known["still"]
        known["order"] = [list(self.inputs), list(self.templates)]
        windows = [part for part in self.plan.parts if part.deal == "windows"]
        if windows:
            known["windows"] = [[part.deal, part.templates, dict(part.keys)] for part in windows]
        forgone = [part.forgone for part in self.plan.parts]
        if any(forgone):
            known["forgone"] = forgone
        noted = [part.noted for part in self.plan.parts]
        if any(noted):
            known["noted"] = noted
        return name_of(json.dumps(known, sort_keys=True))

    @cached_property
    def brief(self) -> Brief:
        """What those must know who only move rows."""
        return Brief(self.inputs, self.plan, self.digest)
