"""A group: all standing queries of one template, with the strategy that answers them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from standfast._numba import Stopwatch
from standfast.arrays import Int64s, expand
from standfast.engine.aggregates import AggregateReader
from standfast.engine.answer import Outcome, Part
from standfast.engine.door import Batch
from standfast.engine.joins import JoinReader
from standfast.engine.questions import reader_of, result_schema
from standfast.engine.registry import Registry
from standfast.engine.sharing import ALL, Share
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.engine.thresholds import ThresholdReader
from standfast.engine.windows import WindowReader
from standfast.errors import BadInput, BadParameters, FailedAggregate
from standfast.model.key_ranges import key_ranges
from standfast.model.parameters import Parameters, read_ids, read_parameters
from standfast.model.template import Template, hole_ranges
from standfast.operators.aggregates import UserAggregate
from standfast.operators.catalog import CATALOG, choose, question_name


class Group:
    """The standing queries of one template. Made by `Engine.register`."""

    def __init__(
        self, template: Template, strategy: str, stores: Mapping[str, Store], strings: Strings,
        users: Mapping[str, UserAggregate] | None = None,
    ) -> None:  # fmt: skip
        self.template = template
        self.strings = strings
        self.registry = Registry(len(hole_ranges(template.question)), template.name)
        self.users = users or {}
        self.way = choose(template.question, strategy, self.users)
        self.wanted = strategy
        self.reader = reader_of(template.question, self.strings, stores, self.users)
        self.reader.use(self.way)
        self.inputs = self.reader.inputs
        self.schema = result_schema(template.question, stores)
        # Results of tables and of windows can go as well as come.
        self.signed = isinstance(self.reader, WindowReader) or any(
            stores[name].input.kind == "table" for name in self.inputs
        )
        self._events = self._unmatched = self._measured = 0
        self._seconds = 0.0
        strings.used_by(self._string_codes)

    def __len__(self) -> int:
        return len(self.registry)

    def __repr__(self) -> str:
        return f"Group({self.name!r}, {len(self):,} queries, {self.way})"

    @property
    def name(self) -> str:
        return self.template.name

    def add(self, params: Any) -> pa.Array:
        """Register standing queries, one per row of `params`; returns their ids.

        `params` has a column for every hole and may have a column `id`. On any mistake a
        `BadParameters` is raised and nothing of the call is applied.
        """
        parameters = read_parameters(self.template, params)
        # Before the ranges are made, because that gives codes to strings that are new.
        self.registry.refuse_taken(parameters.ids, parameters.n_queries)
        return pa.array(self.enter(parameters.ids, *self._ranges(parameters)))

    def asked(self, params: Any) -> npt.NDArray[np.bool_]:
        """Which of these queries, all with ids of living ones, ask what the living ones ask."""
        parameters = read_parameters(self.template, params)
        assert parameters.ids is not None, "queries without ids are nobody yet"
        slots, bounds = self.registry.slots_of(parameters.ids), self._ranges(parameters)
        living = (self.registry.lows[:, slots], self.registry.highs[:, slots])
        same: npt.NDArray[np.bool_] = np.all(
            [np.all(a == b, axis=0) for a, b in zip(bounds, living, strict=True)], axis=0
        )
        return same

    def reaches(self, params: Any) -> Int64s:
        """How far back each of these queries over windows would look."""
        assert isinstance(self.reader, WindowReader), "only windows reach back"
        reaches: Int64s = self._ranges(read_parameters(self.template, params))[1][0]
        return reaches

    def holding(self, reach: int) -> AbstractContextManager[None]:
        """While queries over windows come and go, rows within this reach stay."""
        assert isinstance(self.reader, WindowReader), "only windows reach back"
        return self.reader.holding(reach)

    def _ranges(self, parameters: Parameters) -> tuple[Int64s, Int64s]:
        return key_ranges(
            self.template.question, parameters,
            lambda _, texts: self.strings.intern(pa.array(texts, pa.string())),
        )  # fmt: skip

    def enter(self, ids: Int64s | None, lows: Int64s, highs: Int64s) -> Int64s:
        """Register queries given by key ranges; returns their ids."""
        self.reader.enter(self.registry, highs)
        slots = self.registry.add(ids, lows, highs)
        self._index(slots)
        return self.registry.ids[slots]

    def remove(self, ids: Any) -> None:
        """Forget standing queries by id. An unknown or repeated id refuses the whole call."""
        slots = self.registry.remove(read_ids(self.template, ids))
        self.reader.leave(self.registry, slots)
        self.reader.strategy.remove(slots[self._holds_something(slots)])
        if self.registry.sparse():
            if isinstance(self.reader, WindowReader):
                self.reader.renumber(self.registry.living())
            self.registry.renumber()
            self.switch(self.wanted)
        self.strings.tidy()

    def switch(self, strategy: str) -> None:
        """Index all living queries anew by this strategy; answers stay the same."""
        self.way = choose(self.template.question, strategy, self.users)
        self.wanted = strategy
        if isinstance(self.reader, WindowReader):
            self.reader.settle(self.registry)  # the way takes in what windows still reach
        self.reader.use(self.way)
        self._index(self.registry.living())
        if isinstance(self.reader, ThresholdReader):
            self.reader.settled()

    def lookup(self, ids: Any = None, *, exact: bool = True) -> pa.Table:
        """The current answers of window queries, of all or of these ids, in the order of the ids.

        The columns are query, the key if there is one, and the value if it is selected; a query
        over keys has a row for each key with a row in its window, any other has one row.
        With `exact=False` thresholds may also name keys that miss their bound by a few percent
        (decision 015), which saves looking at the rows of those; all other answers are exact.
        """
        if not isinstance(exact, bool):
            raise BadParameters(
                f"template {self.name!r}: exact must be True or False, got {exact!r}",
                hint="exact=False lets thresholds name keys that miss their bound by a few percent",
            )
        if not isinstance(self.reader, WindowReader):
            raise BadInput(
                f"template {self.name!r} has no current answers to look up",
                hint="aggregates over windows have; others answer what a push changes",
            )
        if ids is None:
            slots = self.registry.living()
            # Ids mostly ascend with the slots already, and a stable sort notices.
            slots = slots[np.argsort(self.registry.ids[slots], kind="stable")]
        else:
            wanted = read_ids(self.template, ids)
            slots = self.registry.slots_of(wanted)
            if np.any(slots < 0):
                raise BadParameters(
                    f"template {self.name!r}: id {wanted[slots < 0][0]} is not a living query"
                )
        try:
            found = self.reader.answers(slots, self.registry, exact=exact)
        except FailedAggregate as error:
            raise self._named(error) from error.__cause__
        places = expand(*found.slices(slots))
        found = found.take(places)
        query = pa.array(self.registry.ids[found.slots] if places.size else found.slots)
        columns = [query, *self.reader.columns().of(found)]
        return pa.table(columns, schema=pa.schema(list(self.schema)[:-1]))

    def take_in(self, batch: Batch, latest_us: int | None) -> None:
        """Rows that were stored, for windows; `latest_us` is the latest time of their input."""
        if not isinstance(self.reader, WindowReader) or not batch.rows.num_rows:
            return
        watch = Stopwatch()
        used = self.reader.take_in(batch.rows, latest_us, self.registry)
        self._note(watch, batch.rows.num_rows, batch.rows.num_rows - used)

    def advance(self, latest_us: int) -> None:
        """The latest time of its input is at least this one."""
        if isinstance(self.reader, WindowReader):
            self.reader.advance(latest_us)

    def horizon(self, name: str, ahead: Mapping[str, int | None]) -> int | None:
        """The time before which no row of this input is needed, or None if all are.

        `ahead` tells for each input from which time on its rows will come, None if from any.
        """
        assert isinstance(self.reader, JoinReader), "only joins keep rows"
        needed = [
            self.reader.horizon(i, self.registry, ahead[self.inputs[1 - i]])
            for i, side in enumerate(self.inputs)
            if side == name
        ]
        known = [time for time in needed if time is not None]
        return min(known) if len(known) == len(needed) else None

    @property
    def keeps_rows(self) -> bool:
        """Whether the rows of its inputs are kept for it."""
        return isinstance(self.reader, JoinReader)

    @property
    def keeps_lanes(self) -> bool:
        """Whether it keeps rows of its input by itself, for windows."""
        return isinstance(self.reader, WindowReader)

    def side_of(self, name: str, *, stored: bool) -> int | None:
        """The side that rows of this input arrive on, before or after they are stored."""
        if isinstance(self.reader, WindowReader):
            return 0 if stored and name in self.inputs else None
        sides = [i for i, side in enumerate(self.inputs) if side == name]
        return sides[stored] if stored < len(sides) else None

    def process(self, batch: Batch, side: int, change: Literal[1, -1]) -> Outcome:
        """What rows that came (or went, if `change` is -1) on one side do to the queries.

        Of windows: the answers that went and those that came, by the last row of the batch.
        """
        watch = Stopwatch()
        try:
            found = self.reader.process(batch.rows, side, self.registry)
        except FailedAggregate as error:
            return self._named(error)
        if isinstance(self.reader, WindowReader):
            changes: tuple[Literal[1, -1], ...] = (-1, 1)
            self._seconds += watch.seconds() or 0.0
        else:
            changes = (change,)
            self._note(watch, batch.rows.num_rows, batch.rows.num_rows - found[0].rows.size)
        return [
            Part(sign, batch.places[part.rows], part.hits, self.registry.ids, part.results)
            for sign, part in zip(changes, found, strict=True)
        ]

    def report(self, share: Share = ALL) -> Outcome:
        """What changed in the answers of windows since they were last told, as if by a row 0."""
        assert isinstance(self.reader, WindowReader), "only windows have answers that stay"
        watch = Stopwatch()
        try:
            found = self.reader.report(share, self.registry)
        except FailedAggregate as error:
            return self._named(error)
        self._seconds += watch.seconds() or 0.0
        signs: tuple[Literal[-1, 1], ...] = (-1, 1)
        return [
            Part(sign, part.rows, part.hits, self.registry.ids, part.results)
            for sign, part in zip(signs, found, strict=True)
        ]

    @property
    def is_stable(self) -> bool:
        """Whether answers of windows follow from the rows to the last bit."""
        return not isinstance(self.reader, AggregateReader) or self.reader.aggregate.is_stable

    def told(self) -> pa.Table:
        """What the last report of an aggregate said, for `retell` of the same group elsewhere."""
        assert isinstance(self.reader, AggregateReader), "only aggregates have values to tell"
        return self.reader.told(self.registry)

    def retell(self, told: pa.Table) -> None:
        """Go on from a report that was made elsewhere, of the same rows and queries."""
        assert isinstance(self.reader, AggregateReader), "only aggregates have values to tell"
        self.reader.retell(told, self.registry)

    def _named(self, error: FailedAggregate) -> FailedAggregate:
        """The error with the template that it is about."""
        named = FailedAggregate(f"template {self.name!r}: {error.message}", hint=error.hint)
        named.__cause__ = error.__cause__
        return named

    def _note(self, watch: Stopwatch, n_rows: int, n_unmatched: int) -> None:
        # The first batch is left out of the cost, as are those in which something was compiled.
        seconds = watch.seconds()
        if seconds is not None and self._events:
            self._seconds += seconds
            self._measured += n_rows
        self._events += n_rows
        self._unmatched += n_unmatched

    def explain(self) -> str:
        """The question, the way it is answered and why, its inside, its cost so far."""
        question = question_name(self.template.question)
        spec = CATALOG[question][self.way].spec
        why = "chosen as the best known way" if self.wanted == "auto" else "as asked"
        lines = {
            "template": f"{self.name}: {question} over {', '.join(dict.fromkeys(self.inputs))}",
            "holes": ", ".join(f":{hole.name} {hole.kind}" for hole in self.template.holes),
            "queries": f"{len(self):,}",
            "strategy": f"{self.way} ({spec.paper}), {why}",
            "promise": f"{spec.promise}; {spec.time}; {spec.space} space",
            "conditions": self.reader.conditions(),
            "inside": ", ".join(_shown(*item) for item in self.reader.strategy.describe().items()),
            "push": self.reader.telling() if isinstance(self.reader, AggregateReader) else "",
            "memory": f"{self.memory_bytes() / 1e6:,.1f} MB beyond the parameters",
            "measured": f"{self._events:,} events, {self._cost()}",
        }
        return "\n".join(f"{what:>10}  {text}" for what, text in lines.items() if text)

    def metrics(self) -> dict[str, int | float | str]:
        """Counts so far; `unmatched` rows had a null, a NaN or a literal condition against them.

        Of windows `unmatched` are rows without a key or against a literal condition, and
        `overflowed` are answers that int64 could not hold, `reread` windows that the last report
        read.
        """
        counted: dict[str, int | float | str] = {
            "queries": len(self),
            "strategy": self.way,
            "events": self._events,
            "unmatched": self._unmatched,
            "seconds": self._seconds,
            "memory_bytes": self.memory_bytes(),
        }
        if isinstance(self.reader, AggregateReader):
            counted["overflowed"] = self.reader.n_overflowed
            counted["reread"] = self.reader.n_reread
        return counted

    def memory_bytes(self) -> int:
        """Bytes held beyond the parameters of the queries."""
        rows = self.reader.memory_bytes() if isinstance(self.reader, WindowReader) else 0
        return self.registry.memory_bytes() + self.reader.strategy.memory_bytes() + rows

    def check(self) -> None:
        """Assert the invariants of registry and strategy; for tests."""
        self.registry.check()
        self.reader.strategy.check()
        if isinstance(self.reader, WindowReader):
            self.reader.check()

    def _string_codes(self) -> Iterator[Int64s]:
        """The codes of the strings that living queries compare with."""
        for low, wanted in zip(
            self.registry.lows, hole_ranges(self.template.question), strict=True
        ):
            if wanted.kind == "string":
                yield np.unique(low[self.registry.living()])

    def _index(self, slots: Int64s) -> None:
        slots = slots[self._holds_something(slots)]
        if slots.size:
            self.reader.strategy.add(slots, *self.reader.boxes(slots, self.registry))

    def _holds_something(self, slots: Int64s) -> npt.NDArray[np.bool_]:
        lows, highs = self.registry.lows[:, slots], self.registry.highs[:, slots]
        holds: npt.NDArray[np.bool_] = np.all(lows <= highs, axis=0)
        return holds

    def _cost(self) -> str:
        if not self._measured:
            return "too few to tell what one costs"
        return f"{1e6 * self._seconds / self._measured:,.2f} us each, compiling apart"


def _shown(what: str, value: object) -> str:
    """One entry of a strategy's description."""
    if isinstance(value, int):
        return f"{value:,} {what}"
    return f"{what} {value:.3g}" if isinstance(value, float) else f"{what} {value}"
