"""The pipeline file: a whole job in TOML, checked before Spark starts.

    [session]  [inputs.NAME]  [templates.NAME]  [queries]  [output]  [job]

Every mistake is named with its line, all of them at once; a template is read by the engine's own
parser, so its messages are the engine's. `docs/pipeline.md` lists the keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from standfast.errors import StandfastError
from standfast.model.names import alike, did_you_mean, is_identifier
from standfast.model.query import Hole, Kind
from standfast.model.stream import KINDS, Input
from standfast.model.template import Template
from standfast.model.windows import NO_TIME
from standfast.operators.catalog import choose
from standfast.spark.outputs import FORMS
from standfast.spark.pipeline_checks import (
    TIME_HINT,
    check_options,
    check_path,
    check_read,
    check_source,
    check_together,
)
from standfast.spark.shards import MOST_SHARDS
from standfast.spark.toml_text import Document, Section

FILE_FORMATS = ("parquet", "csv", "json", "orc")
DESCRIBED_FORMATS = ("parquet", "orc")  # formats of files that say which columns they have
_TICKS: dict[str, Kind] = {"timestamp": "timestamp", "value": "int64"}
# Formats whose columns are not ours to choose.
FIXED_SCHEMAS: dict[str, dict[str, Kind]] = {"rate": _TICKS, "rate-micro-batch": _TICKS}
FORMATS = (*FILE_FORMATS, "kafka", *FIXED_SCHEMAS)
AVAILABLE_NOW = "available now"

# The sections of a file, and what to do when one that is needed is missing.
_SECTIONS = {
    "session": "",
    "inputs": "add a section [inputs.NAME]",
    "templates": "add a section [templates.NAME]",
    "queries": "say where the standing queries come from: [queries]",
    "output": "say where the answers go: [output]",
    "job": "",
}

# Columns of a CSV file are found by their place; a header of other names is then an error.
_CSV_OPTIONS = {"header": "true", "enforceSchema": "false"}
_SCHEMA_HINT = 'name the columns in their order: schema = { id = "int64", price = "float64" }'
# As microseconds all of them fit into int64.
_DURATION = re.compile(r"[0-9]{1,9} (millisecond|second|minute|hour)s?|[0-9]{1,7} days?")
_HOLE_KINDS: dict[str, Kind] = {
    "int64": "int64", "float64": "float64", "timestamp": "timestamp", "string": "string",
    "duration": "int64",
}  # fmt: skip


# Settings that another key of the file makes.
_KEYS_OF_THEIR_OWN = {"spark.master": "master in [session]", "spark.app.name": "name in [job]"}


@dataclass(frozen=True, slots=True)
class Rows:
    """Where rows are read from. An empty path means that the options say it."""

    format: str
    path: str
    options: Mapping[str, str]
    schema: Mapping[str, Kind]
    stream: bool
    line: int = field(default=1, compare=False)  # of the schema


@dataclass(frozen=True, slots=True)
class InputSpec:
    """An input: its rows, and the columns that have a meaning of their own."""

    rows: Rows
    time: str | None
    id: str | None
    key: tuple[str, ...]
    is_watched: bool  # by a watermark

    @property
    def event_time(self) -> str | None:
        """The column that is the event time; where there is a watermark, the only timestamp is."""
        times = [column for column, kind in self.rows.schema.items() if kind == "timestamp"]
        is_clear = self.is_watched and len(times) == 1 and not self.key
        return self.time or (times[0] if is_clear else None)


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """A template's SQL and the strategy that is wanted."""

    sql: str
    strategy: str


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """What is written, and the folder that it is written to."""

    form: str
    path: str


@dataclass(frozen=True, slots=True)
class JobSpec:
    """How the job runs."""

    name: str
    checkpoint: str | None
    trigger: str
    shards: int | None
    watermark: str | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Everything that a pipeline file says."""

    file: str
    master: str
    conf: Mapping[str, str]
    inputs: Mapping[str, InputSpec]
    templates: Mapping[str, TemplateSpec]
    queries: Rows
    output: OutputSpec
    job: JobSpec

    @property
    def streams(self) -> bool:
        """Whether anything is read as a stream."""
        return self.queries.stream or any(i.rows.stream for i in self.inputs.values())


def read_pipeline(path: str | os.PathLike[str]) -> Pipeline:
    """Read and check a pipeline file; paths in it are relative to its folder."""
    file = Path(path)
    document = Document.read(file)
    whole, base = document.section(), file.absolute().parent
    sections = {name: whole.table(name, needed=needed) for name, needed in _SECTIONS.items()}
    whole.done()
    master, conf = _session(sections["session"])
    is_watched = "watermark" in sections["job"]
    inputs, declared = _inputs(sections["inputs"], base, is_watched=is_watched)
    known = None if document.mistakes else declared
    templates, parsed = _templates(sections["templates"], base, known)
    if known and len(parsed) == len(templates):
        check_read(sections["inputs"], parsed)
    queries = _queries(sections["queries"], base, parsed)
    output = _output(sections["output"], base)
    job = _job(sections["job"], base, file.stem)
    pipeline = Pipeline(document.file, master, conf, inputs, templates, queries, output, job)
    if not document.mistakes:
        check_together(sections, pipeline, declared)
    document.finish()
    return pipeline


def _session(section: Section) -> tuple[str, dict[str, str]]:
    master = section.text("master", "local[*]")
    table = section.table("conf")
    conf = table.settings()
    for name in conf:
        if not name.startswith("spark."):
            hint = 'for example "spark.executor.memory" = "2g"'
            table.wrong(name.split(".")[0], f"{name!r} is no setting of Spark", hint)
        if name in _KEYS_OF_THEIR_OWN:
            hint = f"use the key {_KEYS_OF_THEIR_OWN[name]}"
            section.wrong("conf", f"[session.conf] {name} has a key of its own", hint)
    section.done()
    return master, conf


def _rows(section: Section, base: Path, schema: Mapping[str, Kind] | None = None) -> Rows:
    """Where rows come from; `schema` is the one that holds when none is written."""
    format = section.choice("format", FORMATS)
    path = ""
    if format in FILE_FORMATS:
        path = _path(section, "path", base)
    elif not format:  # nobody knows whether there should be one
        section.optional("path")
    stream = section.flag("stream", default=True)
    check_source(section, path, stream=stream)
    chosen = section.table("options")
    options = chosen.settings()
    check_options(chosen, section.title, format, options)
    if format == "csv":
        options = _CSV_OPTIONS | options
    if not stream and format in FIXED_SCHEMAS:
        section.wrong("stream", f"{section.title} {format} is a stream only", "leave stream out")
    if format in FIXED_SCHEMAS:
        return Rows(format, path, options, FIXED_SCHEMAS[format], stream)
    is_needed = format == "csv" or schema is None
    columns = _schema(section.table("schema", needed=_SCHEMA_HINT if is_needed else ""))
    return Rows(format, path, options, columns or schema or {}, stream, section.line("schema"))


def _schema(section: Section) -> dict[str, Kind]:
    columns: dict[str, Kind] = {}
    for column, kind in section.texts().items():
        known = [k for k in KINDS if k == kind]
        if known:
            columns[column] = known[0]
        elif kind:
            hint = did_you_mean(kind, KINDS, what="kinds")
            section.wrong(column, f"column {column!r} has the unknown kind {kind!r}", hint)
    twice = alike(columns)
    if twice:
        what = f"{section.title} has the columns {twice[0]!r} and {twice[1]!r}"
        section.wrong(twice[1], f"{what}, which Spark does not tell apart", "rename one of them")
    return columns


def _inputs(
    section: Section, base: Path, *, is_watched: bool
) -> tuple[dict[str, InputSpec], dict[str, Input]]:
    specs: dict[str, InputSpec] = {}
    declared: dict[str, Input] = {}
    for name, table in section.tables().items():
        rows = _rows(table, base)
        time, id_, key = table.optional("time"), table.optional("id"), table.words("key")
        spec = InputSpec(rows, time, id_, key, is_watched)
        table.done()
        specs[name] = spec
        found = _declared(table, name, spec)
        if found:
            declared[name] = found
    return specs, declared


def _declared(section: Section, name: str, spec: InputSpec) -> Input | None:
    """The input as the engine knows it; each of its keys is tried alone, to name its line."""
    columns = spec.rows.schema
    if not columns:
        return None
    found = _tried(section, "schema", lambda: Input.stream(name, columns))
    if found and spec.time:
        found = _tried(section, "time", lambda: Input.stream(name, columns, time=spec.time))
    if found:
        found = Input.stream(name, columns, time=spec.event_time)
    if found and spec.id:
        found = _tried(
            section, "id", lambda: Input.stream(name, columns, time=spec.event_time, id=spec.id)
        )
    if found and spec.key:
        found = _tried(section, "key", lambda: Input.table(name, columns, key=spec.key))
        for key in ("time", "id"):
            if key in section:
                hint = "a table has a key; a stream has a time and an id"
                section.wrong(key, f"{section.title} has both a key and {key}", hint)
    return found


def _tried(section: Section, key: str, make: Callable[[], Input]) -> Input | None:
    try:
        return make()
    except StandfastError as error:
        section.wrong(key, error.message, error.hint)
        return None


def _templates(
    section: Section, base: Path, inputs: Mapping[str, Input] | None
) -> tuple[dict[str, TemplateSpec], dict[str, Template]]:
    """The templates, parsed too unless the inputs are not known."""
    specs: dict[str, TemplateSpec] = {}
    parsed: dict[str, Template] = {}
    for name, table in section.tables().items():
        if not is_identifier(name):
            hint = "use letters, digits and underscores, beginning with a letter or underscore"
            section.wrong(name, f"{name!r} cannot name a template", hint)
        sql = _sql(table, base)
        specs[name] = TemplateSpec(sql, table.text("strategy", "auto"))
        table.done()
        if sql and inputs is not None:
            try:
                parsed[name] = Template.parse(name, sql, inputs)
            except StandfastError as error:
                hint = TIME_HINT if NO_TIME in error.message else error.hint
                table.wrong("sql" if "sql" in table else "file", error.message, hint)
                continue
            try:
                choose(parsed[name].question, specs[name].strategy or "auto")
            except StandfastError as error:
                table.wrong("strategy", f"template {name!r}: {error.message}", error.hint)
    return specs, parsed


def _sql(section: Section, base: Path) -> str:
    sql, file = section.optional("sql"), section.optional("file")
    if section.is_there and ("sql" in section) == ("file" in section):
        what = "both sql and file" if "sql" in section else "neither sql nor file"
        section.wrong("file", f"{section.title} has {what}", "give one of them")
    if not file:
        return sql or ""
    file = os.path.abspath(base / file)
    try:
        return Path(file).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path with a NUL
        section.wrong("file", f"{file} cannot be read: {error}", "name a file with SQL in it")
        return ""


def _queries(section: Section, base: Path, templates: Mapping[str, Template]) -> Rows:
    """The table of standing queries; its columns follow from the templates."""
    rows = _rows(section, base, query_columns(templates))
    section.done()
    wanted = {"template": "string", "id": "int64"}
    for column, needed in wanted.items() if rows.schema else ():
        if rows.schema.get(column) != needed:
            hint = f'add {column} = "{needed}" to the schema'
            section.wrong("schema", f"[queries] has no column {column!r} of kind {needed}", hint)
    if rows.schema.get("op", "string") != "string":
        what = f"[queries] column 'op' is {rows.schema['op']}"
        section.table("schema").wrong("op", what, 'declare op = "string", or leave it out')
    twice = alike(rows.schema)
    if twice and "schema" not in section:
        what = f"[queries] would have the columns {twice[0]!r} and {twice[1]!r} for the holes"
        section.wrong("schema", f"{what}, which Spark does not tell apart", "rename one hole")
    holes = [(name, hole) for name, t in templates.items() for hole in t.holes if rows.schema]
    for name, hole in holes:
        kind = rows.schema.get(hole.name)
        if hole.name in ("template", "op"):
            what = f"the hole :{hole.name} of template {name!r} has the name of another column"
            section.wrong("schema", f"[queries] {what}", "give the hole a new name")
        elif not _takes(hole, kind):
            hole_text = f"the hole :{hole.name} of template {name!r}"
            what = f"column {hole.name!r} is {kind}, unfit for" if kind else "has no column for"
            hint = f'declare {hole.name} = "{_HOLE_KINDS[hole.kind]}", or give the hole a new name'
            section.wrong("schema", f"[queries] {what} {hole_text}", hint)
    return rows


def query_columns(templates: Mapping[str, Template]) -> dict[str, Kind]:
    """The columns of a table of standing queries: one for each hole, float64 if any wants it."""
    columns: dict[str, Kind] = {"template": "string", "op": "string", "id": "int64"}
    for template in templates.values():
        for hole in template.holes:
            kind = _HOLE_KINDS[hole.kind]
            known = columns.setdefault(hole.name, kind)
            if (known, kind) == ("int64", "float64"):
                columns[hole.name] = kind
    return columns


def _takes(hole: Hole, kind: Kind | None) -> bool:
    """Whether a column of this kind can fill the hole."""
    if hole.kind == "string":
        return kind == "string"
    if hole.kind == "timestamp":
        return kind in ("timestamp", "int64")
    return kind in ("int64", "float64")


def _output(section: Section, base: Path) -> OutputSpec:
    output = OutputSpec(section.choice("form", FORMS, "pairs"), _path(section, "path", base))
    section.done()
    return output


def _job(section: Section, base: Path, name: str) -> JobSpec:
    checkpoint = section.optional("checkpoint")
    checkpoint = check_path(section, "checkpoint", checkpoint, base) if checkpoint else None
    trigger = section.text("trigger", "1 second")
    watermark = section.optional("watermark")
    for key, value in (("trigger", trigger), ("watermark", watermark)):
        is_said = value == AVAILABLE_NOW and key == "trigger"
        if value and not is_said and not _DURATION.fullmatch(value):
            hint = 'for example "1 second" or "10 minutes"'
            hint += f', or "{AVAILABLE_NOW}"' if key == "trigger" else ""
            section.wrong(key, f"[job] {key} cannot be {value!r}", hint)
    job = JobSpec(
        section.text("name", name), checkpoint, trigger,
        section.number("shards", least=1, most=MOST_SHARDS), watermark,
    )  # fmt: skip
    section.done()
    return job


def _path(section: Section, key: str, base: Path) -> str:
    """A path as Spark takes it: absolute, unless it is an address such as s3a://bucket/key."""
    return check_path(section, key, section.text(key), base)
