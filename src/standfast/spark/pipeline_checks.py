"""What sections of a pipeline file must say together, and what is at the paths that they name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from standfast.errors import BadInput, StandfastError
from standfast.model.names import shown
from standfast.model.query import Filter, KeyThreshold, WindowAggregate
from standfast.model.stream import Input
from standfast.model.template import Template
from standfast.spark.outputs import check_folders, form_of, output_of
from standfast.spark.spec import Spec
from standfast.spark.toml_text import Section

if TYPE_CHECKING:
    from standfast.spark.pipeline_file import Pipeline, Rows

ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
PATTERN = re.compile(r"[*?\[\]{}\\]")  # what Spark takes for more than a name
NO_PATTERN = "Spark takes * ? [ ] { } and \\ for patterns when it reads; name another folder"
TIME_HINT = (
    "name the column in the section of its input: time = ...; with a watermark in [job], the only "
    "timestamp is taken by itself"
)
LET_IN = "name another folder, or have its owner let you in"
PARSED_FORMATS = ("csv", "json")  # formats in which a row may be there and not be readable
CORRUPT = "columnNameOfCorruptRecord"
_MODES = ("permissive", "failfast")


def check_path(section: Section, key: str, text: str, base: Path) -> str:
    """A path as Spark takes it; what it would take for something else is noted."""
    if not text or ADDRESS.match(text):
        return text
    path, what, hint = os.path.abspath(base / text), "", NO_PATTERN
    if text.startswith("~"):
        what, hint = f"begins with ~, which is no home here: {text}", "write the folder out"
    elif PATTERN.search(str(base)) and not os.path.isabs(text):
        what = f"is in a folder with a character of patterns: {base}"
    elif ":" in path:
        what, hint = f"has a colon: {path}", "Spark reads no such path; name another folder"
    else:
        what, hint = _out_of_reach(path)
    if what:
        section.wrong(key, f"{section.title} {key} {what}", hint)
        return ""
    return path


def _out_of_reach(path: str) -> tuple[str, str]:
    """Why nobody, or not this user, can look at a path, and what to do; nothing if one can."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "", ""
    except PermissionError:
        return f"cannot be looked at: you may not enter its folder: {path}", LET_IN
    except (OSError, ValueError) as error:  # too long, in a circle of links, or with a NUL
        why = error.strerror if isinstance(error, OSError) else error
        return f"leads nowhere ({why}): {shown(path)}", "name another folder"
    return "", ""


def check_source(section: Section, path: str, *, stream: bool) -> None:
    """Note a path where there is nothing, or nothing that a stream can be read from."""
    if not path or ADDRESS.match(path) or PATTERN.search(path):
        return
    if not os.path.exists(path):
        hint = "paths are relative to the folder of the pipeline file"
        section.wrong("path", f"{section.title} there is nothing at {path}", hint)
    elif stream and not os.path.isdir(path):
        hint = "name the folder that it stands in, or add stream = false"
        section.wrong("path", f"{section.title} is a stream, and {path} is a file", hint)
    elif not os.access(path, os.R_OK):
        section.wrong("path", f"{section.title} cannot be read: you may not read {path}", LET_IN)


def check_options(section: Section, title: str, format: str, options: Mapping[str, str]) -> None:
    """Note options of a reader that say what another key says, or that let rows vanish."""
    for option, value in options.items():
        name = option.casefold()  # as Spark reads them
        if name == "path":
            section.wrong(option, f"{title} names a path among its options", "use the key path")
        if name == "maxfilespertrigger" and not re.fullmatch("0*[1-9][0-9]*", value):
            hint = "give a number of files, 1 or more"
            section.wrong(option, f"{title} {option} is {shown(value)}", hint)
        if format not in PARSED_FORMATS:
            continue
        if name == CORRUPT.casefold():
            what = f"{title} names a column for rows that cannot be read"
            section.wrong(
                option, what, "leave it out: they are dead letters, which have their text"
            )
        if name == "mode" and value.casefold() not in _MODES:
            hint = "leave it out: rows that cannot be read are dead letters; FAILFAST ends the job"
            section.wrong(option, f"{title} cannot read in the mode {value!r}", hint)


def check_read(section: Section, templates: Mapping[str, Template]) -> None:
    """Note inputs that no template reads."""
    read: set[str] = set()
    for template in templates.values():
        question = template.question
        if isinstance(question, Filter | WindowAggregate | KeyThreshold):
            read.add(question.input)
        else:
            read |= {side.input for side in question.sides}
    for name in section.tables():
        if name not in read:
            section.wrong(name, f"no template reads the input {name!r}", "leave it out")


def check_together(
    sections: Mapping[str, Section], pipeline: Pipeline, declared: Mapping[str, Input]
) -> None:
    """Note what is wrong between the sections of a file that has no other mistakes."""
    _check_job(sections["job"], pipeline)
    _check_selected(sections["templates"], pipeline, declared)
    _check_folders(sections["output"], sections["job"], pipeline)


def _check_job(section: Section, pipeline: Pipeline) -> None:
    job = pipeline.job
    if pipeline.streams and not job.checkpoint:
        hint = 'add checkpoint = "folder" to [job]: the next start continues from there'
        section.wrong("checkpoint", "a job that reads a stream needs a checkpoint", hint)
    if job.watermark and not any(i.event_time for i in pipeline.inputs.values()):
        hint = "say which column is the time of an input: time = "
        section.wrong("watermark", "a watermark needs an input that has a time", hint)


def _check_selected(section: Section, pipeline: Pipeline, declared: Mapping[str, Input]) -> None:
    """Have the answers' columns judged as the job will, template by template."""
    form = form_of(pipeline.output.form)
    sqls = {name: template.sql for name, template in pipeline.templates.items()}
    strategies = {name: template.strategy for name, template in pipeline.templates.items()}
    try:
        results = Spec(declared, sqls, strategies, form, 1).results
    except StandfastError as error:
        section.wrong("", error.message, error.hint)
        return
    some: dict[str, pa.Schema] = {}
    for name, table in section.tables().items():
        some[name] = results[name]
        try:
            check_folders(output_of(form, some, []), some)
        except BadInput as error:
            table.wrong("sql" if "sql" in table else "file", error.message, error.hint)
            return


def _check_folders(output: Section, job: Section, pipeline: Pipeline) -> None:
    """Note folders that cannot be written to, or that something else is in."""
    read = {f"[inputs.{name}]": spec.rows for name, spec in pipeline.inputs.items()}
    read["[queries]"] = pipeline.queries
    written = [(output, "path", pipeline.output.path), (job, "checkpoint", pipeline.job.checkpoint)]
    for section, key, path in written:
        if not path:
            continue
        if key == "path" and PATTERN.search(path):
            what = f"{section.title} {key} has a character of patterns: {path}"
            section.wrong(key, what, NO_PATTERN)
        _check_folder(section, key, path)
        for title, rows in read.items():
            if _is_inside(path, rows):
                what = f"{section.title} {key} lies in the folder that {title} is read from"
                section.wrong(key, what, "name another folder: what is written would be read")
    checkpoint, answers = pipeline.job.checkpoint, pipeline.output.path
    if checkpoint and _lies_in(_plain(checkpoint), _plain(answers)):
        is_same = _plain(checkpoint) == _plain(answers)
        what = f"[job] checkpoint {'is' if is_same else 'lies in'} the folder that answers are"
        job.wrong("checkpoint", f"{what} written to", "name another folder")


def _check_folder(section: Section, key: str, path: str) -> None:
    """Note a folder of this machine that cannot be made, or that nobody may write into."""
    if ADDRESS.match(path):
        return
    nearest = next(p for p in (Path(path), *Path(path).parents) if p.exists())
    if not nearest.is_dir():
        what = f"{section.title} {key} cannot be a folder: {nearest} is a file"
        section.wrong(key, what, "name a folder; it is made if it is not there")
    elif not os.access(nearest, os.W_OK | os.X_OK):
        what = f"{section.title} {key} cannot be written to: you may not write into {nearest}"
        section.wrong(key, what, LET_IN)


def _is_inside(path: str, rows: Rows) -> bool:
    """Whether a path is a folder that rows are read from, or in one; Spark looks into folders."""
    return bool(rows.path) and any(
        _lies_in(_plain(path), folder) for folder in _alternatives(_plain(rows.path))
    )


def _lies_in(path: str, folder: str) -> bool:
    """Whether a path is the folder, or in it; the folder may be a pattern without braces."""
    names, wanted = path.split("/"), folder.split("/")
    # The names that are left over are within the folder.
    return len(names) >= len(wanted) and all(map(fnmatchcase, names, wanted))


def _alternatives(pattern: str) -> list[str]:
    """A pattern of Spark, once for each of the words between its braces, as Python writes it."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [re.sub(r"\\(.)", r"[\1]", pattern.replace("[^", "[!"))]
    start, end = pattern[: found.start()], pattern[found.end() :]
    return [each for word in found[1].split(",") for each in _alternatives(start + word + end)]


def _plain(path: str) -> str:
    return path.rstrip("/") if ADDRESS.match(path) else os.path.realpath(path)
