"""`attach`: standing queries over DataFrames, as one DataFrame of answers.

    inputs  -> packed -\\
                        shuffle by shard -> stateful operator -> observed -> unpacked answers
    queries -> packed -/

Static frames among streaming ones are the first state of the shards. With static frames only, the
same plan without state gives the answer once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial, reduce

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession, functions, types
from pyspark.sql.pandas.types import from_arrow_schema

from standfast.errors import BadInput, BadParameters, UnsupportedQuery
from standfast.model.names import alike, shown
from standfast.model.parameters import read_parameters
from standfast.model.stream import Input
from standfast.model.windows import NO_TIME
from standfast.spark import outputs, packing
from standfast.spark.arriving import arriving
from standfast.spark.once import in_one_go
from standfast.spark.outputs import COUNTS, LETTER_SCHEMA, WIDEST
from standfast.spark.processor import COMPACT_DDL, ShardProcessor
from standfast.spark.shards import MOST_SHARDS, shard_keys
from standfast.spark.sources import (
    KINDS,
    MAKE,
    TIME,
    Source,
    check_text,
    files_of,
    read,
    taken,
    text_of,
    typed,
    unusable,
)
from standfast.spark.spec import Spec
from standfast.spark.wire import CHUNK_DDL

METRICS = "standfast"  # the name of the observed counts
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@dataclass(frozen=True)
class Job:
    """Standing queries attached to frames. Its frames are views of one plan."""

    spec: Spec
    compact: DataFrame
    counted: Observation | None = None  # by a job of static frames; a stream has it as progress

    @cached_property
    def answers(self) -> DataFrame:
        """A row for each answer, in the form that was asked for."""
        return self._unpacked(partial(outputs.unpack_answers, self.spec.output), self.schema)

    @cached_property
    def letters(self) -> DataFrame:
        """A row for each input row and each change that was not used, with the reason."""
        return self._unpacked(outputs.unpack_letters, LETTER_SCHEMA)

    @cached_property
    def everything(self) -> DataFrame:
        """Answers and dead letters in one frame, told apart by `kind`."""
        output = self.spec.output
        return self._unpacked(partial(outputs.unpack_all, output), output.everything)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the answers."""
        return self.spec.output.schema

    def explain(self) -> str:
        """The questions, how they are answered, and who of the shards does what."""
        lines = []
        for part in self.spec.plan.parts:
            groups = self.spec.engine(part).groups
            lines += [groups[name].explain() for name in part.templates]
        return "\n\n".join([*lines, "\n".join(self.spec.plan.lines())])

    def _unpacked(
        self, unpack: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> DataFrame:  # fmt: skip
        return self.compact.select("kind", "body").mapInArrow(unpack, from_arrow_schema(schema))


def attach(
    spark: SparkSession, inputs: Mapping[str, DataFrame | Source], templates: Mapping[str, str],
    queries: DataFrame | Source | None = None, *, output: str = "pairs", shards: int | None = None,
    watermark: str | timedelta | None = None, strategies: Mapping[str, str] | None = None,
) -> DataFrame:  # fmt: skip
    """The answers of standing queries over these inputs, as a DataFrame.

    `queries` has the columns template, op ("add" or "remove"; without the column all are added),
    id, and one for each hole; a `Source` of them names nothing but a `text`. `watermark` says how
    late rows may come. Answers of windows come at the end of a micro-batch and have no event. See
    `attached` for the dead letters.
    """
    job = attached(
        spark, inputs, templates, queries, output=output, shards=shards, watermark=watermark,
        strategies=strategies,
    )  # fmt: skip
    return job.answers


def attached(
    spark: SparkSession, inputs: Mapping[str, DataFrame | Source], templates: Mapping[str, str],
    queries: DataFrame | Source | None = None, *, output: str = "pairs", shards: int | None = None,
    watermark: str | timedelta | None = None, strategies: Mapping[str, str] | None = None,
) -> Job:  # fmt: skip
    """The same as `attach`, as a `Job` that has the dead letters and the plan as well."""
    if not issubclass(type(spark), SparkSession):
        hint = "standfast.spark.session.session() starts one"
        raise BadInput(f"spark is a SparkSession, got {shown(spark)}", hint=hint)
    sources, declared = _still_first(*read(inputs, watermark))
    n_shards = _n_shards(spark, shards)
    _check_templates(templates, strategies)
    is_live = {name: source.frame.isStreaming for name, source in sources.items()}
    still = tuple(name for name, live in is_live.items() if any(is_live.values()) and not live)
    spec = Spec(
        declared, dict(templates), dict(strategies or {}), outputs.form_of(output), n_shards, still
    )
    _check_asked(spec, sources)
    keys = shard_keys(n_shards)
    brief = spec.brief.to_json()
    packed = [
        _packed(taken(source, declared[name]), partial(packing.rows_packer, brief, keys, i))
        for i, (name, source) in enumerate(sources.items())
    ]
    if queries is not None:
        packed.append(_packed(_changes(queries, spec), partial(packing.changes_packer, keys)))
    if any(frame.isStreaming for frame in packed):
        return Job(spec, _streamed(spark, packed, spec))
    counted = Observation()  # under a name of its own: answers of two jobs can be put together
    return Job(spec, _once(packed, spec).observe(counted, *_counts()), counted)


def _still_first(
    sources: dict[str, Source], declared: dict[str, Input]
) -> tuple[dict[str, Source], dict[str, Input]]:
    """Static inputs before streams: they are there when the first rows come."""
    names = sorted(sources, key=lambda name: sources[name].frame.isStreaming)
    return {n: sources[n] for n in names}, {n: declared[n] for n in names}


def _once(packed: Iterable[DataFrame], spec: Spec) -> DataFrame:
    """The compact rows of shards that see everything once; a task has the chunks of one."""
    chunks = reduce(DataFrame.union, packed).repartition(spec.n_shards, "shard")
    return chunks.mapInArrow(partial(in_one_go, spec.to_json()), COMPACT_DDL)


def _streamed(spark: SparkSession, packed: Collection[DataFrame], spec: Spec) -> DataFrame:
    """The compact rows of shards that Spark keeps the state of."""
    live = [frame for frame in packed if frame.isStreaming]
    still = [frame for frame in packed if not frame.isStreaming]
    for name, value in state_settings(spark.conf.get("spark.speculation", "false")).items():
        if spark.conf.get(name, None) != value:
            spark.conf.set(name, value)
    first = reduce(DataFrame.union, still).groupBy("shard") if still else None
    found = (
        reduce(DataFrame.union, live)
        .groupBy("shard")
        .transformWithStateInPandas(
            statefulProcessor=ShardProcessor(spec.to_json(), spec.brief.to_json()),
            outputStructType=COMPACT_DDL,
            outputMode="Append", timeMode="None", initialState=first,
        )
    )  # fmt: skip
    return found.observe(METRICS, *_counts())


def state_settings(speculation: str | None) -> dict[str, str]:
    """How Spark has to keep the state.

    Of two attempts that run at once both write it. In the first format the last one's stays, though
    Spark may have taken the answers of the other, and sums of floats may differ in their last bits;
    in the second each attempt has its own, and Spark goes on with that of the attempt it took.
    """
    own = {FORMAT: "2"} if (speculation or "").strip().lower() == "true" else {}
    return {PROVIDER: ROCKSDB} | own


def _counts() -> list[Column]:
    """What is counted over the shards."""
    return [(functions.max if c in WIDEST else functions.sum)(c).alias(c) for c in COUNTS]


def _packed(frame: DataFrame, pack: Callable[..., Iterator[pa.RecordBatch]]) -> DataFrame:
    """The chunks of a frame, which carry the time of their micro-batch."""
    arrived = functions.current_timestamp().cast(types.TimestampType()).alias(packing.ARRIVED)
    return frame.select("*", arrived).mapInArrow(partial(arriving, pack), CHUNK_DDL)


def _changes(given: DataFrame | Source, spec: Spec) -> DataFrame:
    """The columns of changes that the templates need, checked as far as types tell."""
    source = given if isinstance(given, Source) else Source(given)
    queries = source.frame
    if not isinstance(queries, DataFrame):
        raise BadInput(f"queries are {shown(queries)}, not a DataFrame of Spark", hint=MAKE)
    if (source.key, source.time, source.id) != (None, None, None):
        hint = "a Source of queries names nothing but a text: Source(frame, text=...)"
        raise BadInput("queries have a key, a time or an id named", hint=hint)
    holes = dict.fromkeys(hole.name for t in spec.parsed.values() for hole in t.holes)
    for name in ("template", "op"):
        if name in holes:
            what = f"the hole :{name} has the name of another column of queries"
            raise BadParameters(what, hint="give the hole a new name")
    have = queries.columns
    hint = "columns are template, op, id, and one for each hole: "
    hint += ", ".join(f":{hole}" for hole in holes)
    for name in ("template", "id", *holes):
        if name not in have:
            raise BadParameters(f"queries lack the column {name!r}", hint=hint)
    used = ["template", "op", "id", *holes]
    check_text("queries", source, used)
    for name in [*used, *([source.text] if source.text else [])]:
        same = alike(column for column in have if column.casefold() == name.casefold())
        if same:
            first, second = same
            what = f"have the columns {first!r} and {second!r}, which Spark does not tell apart"
            what = what if first != second else f"have twice the column {name!r}"
            raise BadParameters(f"queries {what}", hint=hint)
    wanted = ["template", *(["op"] if "op" in have else []), "id", *holes]
    columns = []
    for name in wanted:
        found = queries.schema[name].dataType
        kind = KINDS.get(type(found))
        expected = "int64" if name == "id" else "string" if name in ("template", "op") else kind
        if kind is None or kind != expected:
            raise BadParameters(
                f"the column {name!r} of queries is {found.simpleString()}",
                hint=f"make it {expected or 'int64, float64, text or a timestamp'}",
            )
        columns.append(typed(queries, name))
    frame = queries.select(*columns, *files_of(queries), *text_of(source))
    _check_holes(spec, frame)
    return frame


def _check_asked(spec: Spec, sources: Mapping[str, Source]) -> None:
    """Refuse what cannot be asked; of a column that was left out or is no time yet say so."""
    try:
        _ = spec.output.schema
    except UnsupportedQuery as error:
        if NO_TIME in error.message:
            raise UnsupportedQuery(error.message, hint=TIME) from None
        asked = re.search(r': an unknown column: (?:\w+\.)?(?:"([^"]+)"|(\w+))', error.message)
        name = (asked[1] or asked[2]) if asked else ""
        found = unusable(sources).get(name.casefold())
        if asked is None or found is None:
            raise
        where = error.message[: asked.start()]
        what = f"{where}: the column {name!r} of input {found[0]!r} is {found[1]}"
        raise UnsupportedQuery(what, hint=found[2]) from None


def _check_holes(spec: Spec, frame: DataFrame) -> None:
    """Have the engine judge the types, with one query that is never registered."""
    examples = {"int64": 0, "float64": 1.0, "string": "", "timestamp": pd.Timestamp(0, tz="UTC")}
    for template in spec.parsed.values():
        row = {"id": [0]}
        for hole in template.holes:
            kind = KINDS[type(frame.schema[hole.name].dataType)]
            row[hole.name] = [examples[kind]]
        read_parameters(template, pa.table(row))


def _n_shards(spark: SparkSession, shards: int | None) -> int:
    if shards is None:
        return max(1, min(spark.sparkContext.defaultParallelism, 64))
    if type(shards) is not int or not 1 <= shards <= MOST_SHARDS:
        hint = "or leave it out"
        raise BadInput(
            f"shards is a number from 1 to {MOST_SHARDS}, got {shown(shards)}", hint=hint
        )
    return shards


def _check_templates(templates: object, strategies: Mapping[str, str] | None) -> None:
    if not isinstance(templates, Mapping) or not templates:
        raise BadInput(
            f"templates are a mapping of name to SQL, got {shown(templates)}",
            hint='for example {"alerts": "SELECT * FROM trades WHERE price > :limit"}',
        )
    for name in templates:
        if type(name) is not str or not name:
            raise BadInput(f"a template cannot be called {shown(name)}", hint="take a text")
    if strategies is not None and not isinstance(strategies, Mapping):
        raise BadInput(f"strategies are a mapping of template to strategy, got {shown(strategies)}")
    for name in strategies or {}:
        if name not in templates:
            raise BadInput(f"there is a strategy for {name!r}, which is no template")
