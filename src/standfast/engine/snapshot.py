"""One file with everything: inputs, rows, standing queries. Whole and genuine, or refused.

    magic 8 | version 4 | length 8 | sha256 32 | body
    body    Arrow IPC stream after Arrow IPC stream, each with its length before it:
            the manifest (one JSON text), dead letters and rows of each input, queries of each group

The file is written beside its place, flushed, and renamed into it, so a crash leaves the old one.
Indexes are not written: they are built anew from the ranges, which is faster than reading them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from standfast.engine.door import Counters, Door
from standfast.engine.group import Group
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.errors import BadSnapshot
from standfast.model.stream import Input
from standfast.model.template import Template

MAGIC = b"STNDFAST"
VERSION = 2
HEADER = struct.Struct(">8sIQ32s")


class State(NamedTuple):
    """Everything an engine is made of, by name."""

    doors: dict[str, Door]
    stores: dict[str, Store]
    groups: dict[str, Group]
    strings: Strings


def save(path: str | PathLike[str], state: State) -> None:
    """Write the state of an engine to one file, all or nothing."""
    manifest = {
        "inputs": [_input_entry(state.doors[n], state.stores[n]) for n in state.stores],
        "groups": [_group_entry(group) for group in state.groups.values()],
        "strings": state.strings.codes,
        "next_code": state.strings.next_code,
    }
    tables = [pa.table({"manifest": [json.dumps(manifest)]})]
    for name, store in state.stores.items():
        tables += [state.doors[name].dead_letters(), store.living()]
    write_file(path, tables + [_group_table(group) for group in state.groups.values()])


def load(path: str | PathLike[str]) -> State:
    """The state that `save` wrote; rows are stored and queries indexed anew."""
    body = read_file(path)
    try:
        return _state_of(_tables(body))
    except Exception as error:
        # The file is as it was written, but not by this release or not by `save`.
        raise BadSnapshot(
            f"{os.fspath(path)}: does not hold an engine that this release knows: {error}",
            hint="restore it with the release that wrote it",
        ) from error


def _state_of(tables: list[pa.Table]) -> State:
    first, *rest = tables
    manifest = json.loads(first["manifest"][0].as_py())
    state = State({}, {}, {}, Strings())
    state.strings.codes, state.strings.next_code = manifest["strings"], manifest["next_code"]
    parts = iter(rest)
    for entry in manifest["inputs"]:
        source = Input(**entry["input"] | {"key": tuple(entry["input"]["key"])})
        door, store = Door(source), Store(source, state.strings)
        door.counters, door.latest_us = Counters(**entry["counters"]), entry["latest_us"]
        door.letters = [next(parts)]
        rows = next(parts)
        store.keeps = entry["keeps"]
        store.append(rows)
        store.next_id, store.horizon = entry["next_id"], entry["horizon"]
        state.doors[source.name], state.stores[source.name] = door, store
    inputs = {name: store.input for name, store in state.stores.items()}
    for entry in manifest["groups"]:
        template = Template.parse(entry["name"], entry["sql"], inputs)
        group = Group(template, entry["strategy"], state.stores, state.strings)
        table = next(parts)
        n = group.registry.n_attributes
        bounds = np.array([column.to_numpy() for column in table.columns[1:]], np.int64)
        bounds = bounds.reshape(2 * n, table.num_rows)
        group.enter(table["id"].to_numpy(), bounds[:n], bounds[n:])
        group.registry.next_id = entry["next_id"]
        state.groups[group.name] = group
    return state


def _input_entry(door: Door, store: Store) -> dict[str, Any]:
    return {
        "input": asdict(store.input),
        "counters": asdict(door.counters),
        "latest_us": door.latest_us,
        "keeps": store.keeps,
        "next_id": store.next_id,
        "horizon": store.horizon,
    }


def _group_entry(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "sql": group.template.sql,
        "strategy": group.wanted,
        "next_id": group.registry.next_id,
    }


def _group_table(group: Group) -> pa.Table:
    registry, slots = group.registry, group.registry.living()
    columns = {"id": registry.ids[slots]}
    columns |= {f"low_{a}": low[slots] for a, low in enumerate(registry.lows)}
    columns |= {f"high_{a}": high[slots] for a, high in enumerate(registry.highs)}
    return pa.table(columns)


def write_file(path: str | PathLike[str], tables: list[pa.Table]) -> None:
    """Write tables as one checked file, all or nothing."""
    body = io.BytesIO()
    for table in tables:
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        part = stream.getvalue()
        body.write(struct.pack(">Q", part.size))
        body.write(part)
    data = body.getbuffer()
    header = HEADER.pack(MAGIC, VERSION, len(data), hashlib.sha256(data).digest())
    try:
        _replace(Path(path), header, data)
    except OSError as error:
        raise BadSnapshot(f"{os.fspath(path)}: cannot be written: {error.strerror}") from error


def _replace(target: Path, header: bytes, data: memoryview) -> None:
    """Put a whole new file in place of `target`, or leave that as it was."""
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with open(beside, "wb") as file:
            file.write(header)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_file(path: str | PathLike[str]) -> memoryview:
    """The body that `write_file` wrote, whole, or refuse the file by name."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadSnapshot(f"{os.fspath(path)}: cannot be read: {error.strerror}") from None
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise BadSnapshot(f"{os.fspath(path)}: not a Standfast snapshot")
    _, version, length, digest = HEADER.unpack_from(data)
    if version != VERSION:
        raise BadSnapshot(
            f"{os.fspath(path)}: has snapshot version {version}, this is version {VERSION}",
            hint="restore it with the release that wrote it",
        )
    body = memoryview(data)[HEADER.size :]
    if len(body) != length or hashlib.sha256(body).digest() != digest:
        raise BadSnapshot(f"{os.fspath(path)}: is damaged (length or checksum differ)")
    return body


def _tables(body: memoryview) -> list[pa.Table]:
    """The tables of a body, one after the other."""
    tables, at = [], 0
    while at < len(body):
        (size,) = struct.unpack_from(">Q", body, at)
        tables.append(pa.ipc.open_stream(pa.py_buffer(body[at + 8 : at + 8 + size])).read_all())
        at += 8 + size
    return tables
