"""What the workers of Spark must know of a job: enough to move its rows, without its templates.

Whoever imports this module imports no engine and no compiler: Spark starts many workers, and each
would pay for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any

from standfast.model.stream import Input
from standfast.spark.shards import Part, Plan

EVENT = "standfast event"  # names each row in a chunk; no user's column is called so


@dataclass(frozen=True)
class Brief:
    """The inputs and the plan of a job; `digest` tells apart jobs whose state does not fit."""

    inputs: Mapping[str, Input]
    plan: Plan
    digest: str

    @property
    def n_shards(self) -> int:
        return self.plan.n_shards

    @cached_property
    def names(self) -> list[str]:
        """The inputs, by number."""
        return list(self.inputs)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    @cache
    def from_json(text: str) -> Brief:
        """What `to_json` wrote, read once in each process."""
        known = json.loads(text)
        inputs = {name: Input.of(entry) for name, entry in known["inputs"].items()}
        parts = tuple(_part_of(**entry) for entry in known["plan"]["parts"])
        return Brief(inputs, Plan(known["plan"]["n_shards"], parts), known["digest"])


def _part_of(**entry: Any) -> Part:
    keys = {name: tuple(columns) for name, columns in entry["keys"].items()}
    rest = (tuple(entry[name]) for name in ("forgone", "noted"))
    return Part(entry["deal"], tuple(entry["templates"]), tuple(entry["inputs"]), keys, *rest)


def name_of(text: str) -> str:
    """A short name for a job as `to_json` wrote it: another form of output has another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
