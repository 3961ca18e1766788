"""Everything in one file or one bytes: inputs, rows, queries. Whole and genuine, or refused.

    magic 8 | version 8 | length 8 | sha256 32 | body
    body    Arrow IPC stream after Arrow IPC stream, each with its length before it:
            the manifest (one JSON text), dead letters, rows and known ids of each input, queries
            of each group

All lengths are multiples of 8, so that numbers are read where they stand. A file is written beside
its place, flushed, and renamed into it, so a crash leaves the old one. Indexes are not written:
they are built anew from the ranges, which is faster than reading them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from standfast.engine.door import Counters, Door
from standfast.engine.group import Group
from standfast.engine.identities import EVER
from standfast.engine.joins import JoinReader
from standfast.engine.store import Store
from standfast.engine.strings import Strings
from standfast.engine.windows import WindowReader, kept_of, kept_table
from standfast.errors import BadInput, BadSnapshot, UnsupportedQuery
from standfast.model.names import shown
from standfast.model.stream import Input
from standfast.model.template import Template
from standfast.operators.aggregates import UserAggregate, check_made_of_functions

MAGIC = b"STNDFAST"
VERSION = 3
HEADER = struct.Struct(">8sQQ32s")
BYTES = "the bytes"  # what stands in messages where a file has its path


class State(NamedTuple):
    """Everything an engine is made of, by name."""

    doors: dict[str, Door]
    stores: dict[str, Store]
    groups: dict[str, Group]
    strings: Strings
    follows: bool
    users: dict[str, UserAggregate]


def save(path: str | PathLike[str], state: State) -> None:
    """Write the state of an engine to one file, all or nothing."""
    target, data = _place(path), pack(state)
    try:
        _replace(target, data)
    except OSError as error:
        raise BadSnapshot(f"{target}: cannot be written: {error.strerror}") from error


def load(path: str | PathLike[str], users: Mapping[str, UserAggregate] | None = None) -> State:
    """The state that `save` wrote; rows are stored and queries indexed anew."""
    source = _place(path)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise BadSnapshot(f"{source}: cannot be read: {error.strerror}") from None
    return unpack(data, str(source), users)


def _place(path: object) -> Path:
    """Where a snapshot is to be, or refuse what names no file."""
    if isinstance(path, str | PathLike):
        name = os.fspath(path)
        if isinstance(name, str) and Path(name).name and "\0" not in name:
            return Path(name)
    raise BadSnapshot(f"no file can be at {shown(path)}", hint="pass the path of a snapshot")


def pack(state: State) -> bytes:
    """The state of an engine as `save` writes it."""
    manifest = {
        "inputs": [_input_entry(state.doors[n], state.stores[n]) for n in state.stores],
        "groups": [_group_entry(group) for group in state.groups.values()],
        "strings": state.strings.codes,
        "next_code": state.strings.next_code,
        "follows": state.follows,
    }
    tables = [pa.table({"manifest": [json.dumps(manifest)]})]
    for name, store in state.stores.items():
        door = state.doors[name]
        tables += [door.dead_letters(), store.living()]
        tables += [] if door.identities is None else [door.identities.table()]
    for group in state.groups.values():
        tables.append(_group_table(group))
        if isinstance(group.reader, WindowReader):
            tables += [kept_table(group.reader), group.reader.unreported(group.registry)]
    return framed(tables)


def unpack(
    data: object, source: str = BYTES, users: Mapping[str, UserAggregate] | None = None
) -> State:
    """The state that `pack` was given; `source` is named when it is refused.

    `users` are the aggregates that templates may use beyond the built-in ones.
    """
    body, known = _body(data, source), _users(users or {})
    try:
        return _state_of(_tables(body), known)
    except Exception as error:
        # The bytes are as they were written, but not by this release or not by `pack`.
        hint = "restore it with the release that wrote it"
        if isinstance(error, UnsupportedQuery) and "aggregate" in error.message:
            hint = "pass aggregates={name: UserAggregate(...)}, which a snapshot does not hold"
        raise BadSnapshot(
            f"{source}: does not hold an engine that this release knows: {error}", hint=hint
        ) from error


def _users(users: object) -> dict[str, UserAggregate]:
    """Aggregates by name, or refuse them."""
    if not isinstance(users, Mapping):
        hint = "pass aggregates={name: UserAggregate(...)}"
        raise BadInput(f"aggregates are given by name, got a {type(users).__name__}", hint=hint)
    for name, functions in users.items():
        check_made_of_functions(name, functions)
    return dict(users)


def _state_of(tables: list[pa.Table], users: dict[str, UserAggregate]) -> State:
    first, *rest = tables
    manifest = json.loads(first["manifest"][0].as_py())
    state = State({}, {}, {}, Strings(), manifest["follows"], users)
    state.strings.codes, state.strings.next_code = manifest["strings"], manifest["next_code"]
    parts = iter(rest)
    for entry in manifest["inputs"]:
        source = Input.of(entry["input"])
        door, store = Door(source, follows=state.follows), Store(source, state.strings)
        door.counters, door.latest_us = Counters(**entry["counters"]), entry["latest_us"]
        door.letters = [next(parts)]
        rows = next(parts)
        store.keeps = entry["keeps"]
        store.append(rows)
        store.next_id, store.horizon = entry["next_id"], entry["horizon"]
        if door.identities is not None:
            door.identities.restore(next(parts), EVER if door.ahead_us is None else door.ahead_us)
        state.doors[source.name], state.stores[source.name] = door, store
    inputs = {name: store.input for name, store in state.stores.items()}
    for entry in manifest["groups"]:
        template = Template.parse(entry["name"], entry["sql"], inputs, users)
        group = Group(template, entry["strategy"], state.stores, state.strings, users)
        table = next(parts)
        n = group.registry.n_attributes
        bounds = np.array([column.to_numpy() for column in table.columns[1:]], np.int64)
        bounds = bounds.reshape(2 * n, table.num_rows)
        group.enter(table["id"].to_numpy(), bounds[:n], bounds[n:])
        group.registry.next_id = entry["next_id"]
        if isinstance(group.reader, JoinReader):
            group.reader.widest = entry.get("widest")  # which older snapshots do not tell
        if isinstance(group.reader, WindowReader):
            group.reader.restore(kept_of(next(parts), group.reader), entry["now_us"])
            group.reader.resume(next(parts), group.registry)
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
        "now_us": group.reader.lanes.now if isinstance(group.reader, WindowReader) else None,
        "widest": group.reader.widest if isinstance(group.reader, JoinReader) else None,
    }


def _group_table(group: Group) -> pa.Table:
    registry, slots = group.registry, group.registry.living()
    columns = {"id": registry.ids[slots]}
    columns |= {f"low_{a}": low[slots] for a, low in enumerate(registry.lows)}
    columns |= {f"high_{a}": high[slots] for a, high in enumerate(registry.highs)}
    return pa.table(columns)


def framed(tables: list[pa.Table]) -> bytes:
    """Tables as one checked piece."""
    out = io.BytesIO()
    out.write(bytes(HEADER.size))
    for table in tables:
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
        part = stream.getvalue()
        out.write(struct.pack(">Q", part.size))
        out.write(part)
    with out.getbuffer() as view, view[HEADER.size :] as body:
        HEADER.pack_into(view, 0, MAGIC, VERSION, len(body), hashlib.sha256(body).digest())
    return out.getvalue()


def _replace(target: Path, data: bytes) -> None:
    """Put a whole new file in place of `target`, or leave that as it was."""
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    try:
        with open(beside, "wb") as file:
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


def _body(data: object, source: str) -> memoryview:
    """What `framed` sealed, whole, or refuse it by name."""
    if isinstance(data, bytearray | memoryview):
        data = bytes(data)  # rows are read where they stand, so nobody may write there
    if not isinstance(data, bytes):
        raise BadSnapshot(f"{source}: got a {type(data).__name__}")
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise BadSnapshot(f"{source}: not a Standfast snapshot")
    _, version, length, digest = HEADER.unpack_from(data)
    if version != VERSION:
        raise BadSnapshot(
            f"{source}: snapshot version {version}, this is version {VERSION}",
            hint="restore it with the release that wrote it",
        )
    body = memoryview(data)[HEADER.size :]
    if len(body) != length or hashlib.sha256(body).digest() != digest:
        raise BadSnapshot(f"{source}: damaged (length or checksum differ)")
    return body


def _tables(body: memoryview) -> list[pa.Table]:
    """The tables of a body, one after the other."""
    tables, at = [], 0
    while at < len(body):
        (size,) = struct.unpack_from(">Q", body, at)
        tables.append(pa.ipc.open_stream(pa.py_buffer(body[at + 8 : at + 8 + size])).read_all())
        at += 8 + size
    return tables
