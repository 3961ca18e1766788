"""What comes out: answers in the form that was asked for, dead letters, and the tally.

    a shard  ->  compact rows: (kind, body, tally)     few, moved as bytes, observed
             ->  unpacked: a row for each answer       what the user's sink gets

Names that all answers of a piece share (template, input, registry version) travel once, in the
head of the piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from standfast.errors import BadInput
from standfast.model.names import did_you_mean
from standfast.spark.thrift import spare_modules
from standfast.spark.wire import framed, from_ipc, to_ipc, unframed

if TYPE_CHECKING:
    from standfast.engine.answer import Answer

Form = Literal["pairs", "rows", "counts", "spans"]
FORMS: tuple[str, ...] = get_args(Form)
TALLY, ANSWERS, LETTERS = 0, 1, 2  # kinds of compact rows
ANSWER, LETTER = "answers", "letters"  # kinds of unpacked ones
BATCH = "batch"  # numbers the folders of micro-batches
LETTER_FIELDS = ("source", "event", "reason", "column", "value")
LETTER_SCHEMA = pa.schema([(name, pa.string()) for name in LETTER_FIELDS])

_TAKEN = frozenset(["kind", "letter", "template", "query", "input", "event", "change", "registry"])

# Counted for each micro-batch and shard. Over the shards `WIDEST` are the largest, others summed.
COUNTS = (
    "received", "used", "late", "duplicate", "rejected", "added", "removed", "repeated", "refused",
    "answers", "affected", "registry", "queries", "stored", "state_bytes", "memory_bytes",
    "peak_bytes", "engine_us", "transfer_us", "state_us", "rebuilds",
)  # fmt: skip
WIDEST = frozenset(["registry", "queries", "peak_bytes", "engine_us", "transfer_us", "state_us"])
# Answers of one piece; a piece is moved as a whole.
PIECE = 1 << 18


@dataclass(frozen=True, slots=True)
class Output:
    """The form of the answers, and the columns that the templates select."""

    form: Form
    event: pa.DataType
    selected: Mapping[str, pa.DataType]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answers."""
        ids = [("query", pa.int64())] if self.form in ("pairs", "rows") else []
        event = [("input", pa.string()), ("event", self.event)]
        own: dict[str, list[Any]] = {
            "pairs": [*event, ("change", pa.int8())],
            "rows": [*self.selected.items(), *event, ("change", pa.int8())],
            "counts": [*event, ("queries", pa.int64())],
            "spans": [*event, ("queries", pa.list_(pa.int64())), ("change", pa.int8())],
        }
        head, tail = [("template", pa.string())], [("registry", pa.int64())]
        return pa.schema([*head, *ids, *own[self.form], *tail])

    @property
    def everything(self) -> pa.Schema:
        """The columns of answers and dead letters together."""
        letter = pa.struct(list(LETTER_SCHEMA))
        return pa.schema([("kind", pa.string()), *self.schema, ("letter", letter)])

    def written(self, answer: Answer, events: pa.Array) -> Iterator[pa.Table]:
        """An answer in this form, in pieces, without what all its rows share.

        Only a piece is enumerated at a time: at most `PIECE` answers, or the list of one event.
        """
        yield from (table for table in _FORMS[self.form](answer, events) if table.num_rows)

    def n_affected(self, rows: pa.Table) -> int:
        """How many times a query was affected, by a piece of answers."""
        if self.form == "counts":
            return int(pc.sum(rows["queries"]).as_py() or 0)
        if self.form == "spans":
            return int(pc.sum(pc.list_value_length(rows["queries"])).as_py() or 0)
        return int(rows.num_rows)

    def unpacked(self, body: bytes) -> pa.Table:
        """A piece of answers with all columns of the schema."""
        head, (data,) = unframed(body)
        table = from_ipc(data)
        columns = []
        for field in self.schema:
            if field.name in head:
                columns.append(pa.repeat(pa.scalar(head[field.name], field.type), table.num_rows))
            elif field.name in table.column_names:
                columns.append(table[field.name].cast(field.type))
            else:
                columns.append(pa.nulls(table.num_rows, field.type))
        return pa.table(columns, schema=self.schema)


def form_of(given: object) -> Form:
    """The form that was asked for, if there is one of that name."""
    if given not in FORMS:
        hint = did_you_mean(str(given), FORMS, what="outputs")
        raise BadInput(f"the output {given!r} is not known", hint=hint)
    return cast(Form, given)


def output_of(form: Form, results: Mapping[str, pa.Schema], ids: Iterable[pa.DataType]) -> Output:
    """The output of templates with these result columns, over inputs with ids of these types."""
    selected: dict[str, pa.DataType] = {}
    for template, schema in results.items():
        for field in schema:
            if field.name in ("query", "change"):
                continue
            if form == "rows":
                _check_selected(template, field, selected)
            selected.setdefault(field.name, field.type)
    event = pa.string() if pa.string() in set(ids) else pa.int64()
    return Output(form, event, selected)


def _check_selected(template: str, field: pa.Field, selected: Mapping[str, pa.DataType]) -> None:
    """Refuse a column that cannot stand beside others; Spark does not look at upper case."""
    if field.name.casefold() in _TAKEN:
        raise BadInput(
            f"template {template!r} selects a column called {field.name!r}, which answers have "
            "already",
            hint=f"name it differently: SELECT {field.name} AS ...",
        )
    same = {name.casefold(): name for name in selected}.get(field.name.casefold(), field.name)
    if same != field.name:
        raise BadInput(
            f"template {template!r} selects {field.name!r}, and {same!r} is selected too: Spark "
            "does not tell them apart",
            hint="name one of them differently with AS",
        )
    if selected.get(field.name, field.type) != field.type:
        raise BadInput(
            f"template {template!r} selects {field.name!r} as {field.type}, another one "
            f"as {selected[field.name]}",
            hint="name one of them differently with AS, or attach the templates apart",
        )


def readable(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as text; bytes that are none, which Spark may have read, are replaced."""
    texts = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
    texts = texts.cast(pa.string()).combine_chunks()
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        found = texts.cast(pa.binary()).to_pylist()
        return pa.array([None if v is None else v.decode(errors="replace") for v in found])
    return texts


def check_folders(output: Output, results: Mapping[str, pa.Schema]) -> None:
    """Refuse a selected column that has the name of the folders which micro-batches are in.

    Who reads the folders gets their numbers for its values.
    """
    for template, schema in results.items() if output.form == "rows" else ():
        for name in schema.names:
            if name.casefold() == BATCH:
                raise BadInput(
                    f"template {template!r} selects a column called {name!r}, as the folders of "
                    "micro-batches are",
                    hint=f"name it differently: SELECT {name} AS ...",
                )


def packed(table: pa.Table, **shared: object) -> bytes:
    """A piece on its way: its rows, and what they share."""
    return framed(shared, [to_ipc(table)])


def unpack_answers(output: Output, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers out of compact rows."""
    for kind, body in _bodies(batches):
        if kind == ANSWERS:
            yield from output.unpacked(body).to_batches()


def unpack_letters(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Dead letters out of compact rows."""
    for kind, body in _bodies(batches):
        if kind == LETTERS:
            yield from from_ipc(unframed(body)[1][0]).to_batches()


def unpack_all(output: Output, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answers and dead letters out of compact rows."""
    schema = output.everything
    for kind, body in _bodies(batches):
        if kind == ANSWERS:
            table = output.unpacked(body)
            n = table.num_rows
            columns = [pa.repeat(ANSWER, n), *table.columns, pa.nulls(n, schema.types[-1])]
        elif kind == LETTERS:
            letters = from_ipc(unframed(body)[1][0]).combine_chunks()
            n = letters.num_rows
            empty = [pa.nulls(n, type_) for type_ in output.schema.types]
            struct = letters.to_struct_array().combine_chunks()
            columns = [pa.repeat(LETTER, n), *empty, struct]
        else:
            continue
        yield from pa.table(columns, schema=schema).to_batches()


def _bodies(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
    spare_modules()
    for batch in batches:
        kinds, bodies = batch.column("kind").to_pylist(), batch.column("body")
        for kind, body in zip(kinds, bodies, strict=True):
            if kind != TALLY:
                yield kind, body.as_py()


def _pairs(answer: Answer, events: pa.Array) -> Iterator[pa.Table]:
    for first, piece in answer.pieces(PIECE, "pair"):
        pairs = piece.pairs()
        named = events.slice(first).take(pairs["row"].combine_chunks())
        yield pa.table({"query": pairs["query"], "event": named, "change": _changes(pairs)})


def _rows(answer: Answer, events: pa.Array) -> Iterator[pa.Table]:
    for rows, pushed in answer.traced_pieces(PIECE):
        yield rows.append_column("event", events.take(pa.array(pushed)))


def _counts(answer: Answer, events: pa.Array) -> Iterator[pa.Table]:
    counts = answer.counts()["queries"].to_numpy()
    found = np.flatnonzero(counts)
    yield pa.table({"event": events.take(pa.array(found)), "queries": counts[found]})


def _spans(answer: Answer, events: pa.Array) -> Iterator[pa.Table]:
    """A list of queries for each event that affects any, apart for what came and what went."""
    for start, piece in answer.pieces(PIECE):
        pairs = piece.pairs()
        change = _changes(pairs).to_numpy()
        row, query = pairs["row"].to_numpy(), pairs["query"].to_numpy()
        order = np.lexsort((change, row)) if (change < 0).any() else np.arange(row.size)
        row, query, change = row[order], query[order], change[order]
        is_first = np.ones(row.size, np.bool_)
        is_first[1:] = (np.diff(row) != 0) | (np.diff(change) != 0)
        first = np.flatnonzero(is_first)
        offsets = pa.array(np.append(first, row.size), pa.int32())
        yield pa.table(
            {
                "event": events.take(pa.array(start + row[first])),
                "queries": pa.ListArray.from_arrays(offsets, pa.array(query)),
                "change": pa.array(change[first]),
            }
        )


def _changes(pairs: pa.Table) -> pa.Array:
    if "change" in pairs.column_names:
        return pairs["change"].combine_chunks()
    return pa.array(np.ones(pairs.num_rows, np.int8))


_FORMS = {"pairs": _pairs, "rows": _rows, "counts": _counts, "spans": _spans}
