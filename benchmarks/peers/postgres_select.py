"""PostgreSQL: the stored queries as range columns under a GiST index.

A statement gathers the rows of the event's key into one multirange of points and asks for the
queries whose range on the event holds it (the index) and whose range on the rows overlaps the
multirange (a binary search). It is prepared once; each of two connections takes every other event,
because the server answers a connection on one core.

The server is our own: it lives in a temporary folder, listens on a socket in there and on no
network, and stops with the program. It does not run as root, so root lends it another user.

Plans tried at 100,000 queries and 1,000 joining rows on two busy cores, in events per second of one
connection: this one 150; with the multirange of each key stored beforehand 110; EXISTS over an
index on (key, value) 16 to 25; the first row at or above the low end by that index 16; all joining
rows probed against a GiST index on both ranges, each query once, 1.7; many events in a statement
90 to 140.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv

from benchmarks.peers import Int64s

N_CONNECTIONS = 2
USER = "standfast"
USUAL = Path("/usr/lib/postgresql")
LENDERS = ("postgres", "nobody")
SETTINGS = {
    "listen_addresses": "", "fsync": "off", "autovacuum": "off", "jit": "off",
    "shared_buffers": "512MB", "work_mem": "256MB",
}  # fmt: skip
# The input ends with us, however we end; an interrupt disconnects everybody and stops at once.
UNTIL_WE_END = '"$@" & read -r _; kill -INT $!; wait $!; cd / && rm -r "$0"'
SCHEMA = """
    DROP TABLE IF EXISTS raw, stored, queries;
    CREATE UNLOGGED TABLE raw (id int, low_a int8, high_a int8, low_c int8, high_c int8);
    CREATE UNLOGGED TABLE stored (key int8, value int8);
"""
INDEXES = """
    CREATE UNLOGGED TABLE queries AS
        SELECT id, int8range(low_a, high_a, '[]') AS a, int8range(low_c, high_c, '[]') AS c
        FROM raw ORDER BY low_c;
    CREATE INDEX ON queries USING gist (a);
    CREATE INDEX ON queries USING gist (a, c);
    CREATE INDEX in_order ON stored (key, value);
    CLUSTER stored USING in_order;
"""
AFFECTED = """
    SELECT array_agg(id) FROM queries
    WHERE a @> %s::int8
    AND c && (SELECT range_agg(int8range(value, value, '[]')) FROM stored WHERE key = %s)
"""


def binaries() -> Path | None:
    """The folder of the server's programs, if there is one."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(USUAL.glob("*/bin"), reverse=True)
    return next((f for f in folders if (f / "initdb").exists() and (f / "postgres").exists()), None)


class GistRanges:
    """One prepared statement per event; the tables are those of the one made last."""

    batch = 1

    def __init__(self, lows: Int64s, highs: Int64s, row_keys: Int64s, row_values: Int64s) -> None:
        self.connections = connections()
        first = self.connections[0]
        first.execute(SCHEMA)
        _load(first, "raw", np.arange(lows.shape[1]), lows[0], highs[0], lows[1], highs[1])
        _load(first, "stored", row_keys, row_values)
        first.execute(INDEXES)
        first.execute("VACUUM ANALYZE")

    def affected(self, keys: Int64s, values: Int64s) -> list[list[int]]:
        events = list(zip(values.tolist(), keys.tolist(), strict=True))
        found: list[list[int]] = [[]] * len(events)

        def ask(connection: psycopg.Connection[Any], first: int) -> None:
            cursor = connection.cursor(binary=True)
            for e in range(first, len(events), N_CONNECTIONS):
                row = cursor.execute(AFFECTED, events[e], prepare=True).fetchone()
                found[e] = (row and row[0]) or []

        with ThreadPoolExecutor(N_CONNECTIONS) as pool:
            list(pool.map(ask, self.connections, range(N_CONNECTIONS)))
        return found

    def ids(self, output: list[list[int]], event: int) -> Int64s:
        return np.asarray(output[event], np.int64)


@cache
def connections() -> list[psycopg.Connection[Any]]:
    """Connections to our server, open until the program ends."""
    folder = server()
    made = [
        psycopg.connect(host=folder, user=USER, dbname="postgres", autocommit=True)
        for _ in range(N_CONNECTIONS)
    ]
    for connection in made:
        atexit.register(connection.close)
    return made


@cache
def server() -> str:
    """Start a server of our own; returns the folder of its socket. It stops with the program."""
    programs = binaries()
    assert programs is not None, "no PostgreSQL server is installed"
    folder = tempfile.mkdtemp(prefix="standfast-")
    lent: dict[str, Any] = {}
    if os.geteuid() == 0:
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        user = next(known[name] for name in LENDERS if name in known)
        os.chown(folder, user.pw_uid, user.pw_gid)
        lent = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data = f"{folder}/data"
    with open(f"{folder}/log", "w") as log:
        made = ["-D", data, "-U", USER, "-E", "UTF8", "--auth=trust", "--no-locale", "--no-sync"]
        subprocess.run(
            [programs / "initdb", *made], check=True, cwd=folder, stdout=log, stderr=log, **lent
        )
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [programs / "postgres", "-D", data, "-k", folder, *settings]
        process = subprocess.Popen(
            ["/bin/sh", "-c", UNTIL_WE_END, folder, *command],
            cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            **lent,
        )  # fmt: skip
    atexit.register(process.communicate)  # closes its input, waits
    _wait_for(process, folder)
    return folder


def _wait_for(process: subprocess.Popen[bytes], folder: str) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(host=folder, user=USER, dbname="postgres").close()
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def _load(connection: psycopg.Connection[Any], name: str, *columns: Int64s) -> None:
    lines = BytesIO()
    table = pa.table({str(i): column for i, column in enumerate(columns)})
    pyarrow.csv.write_csv(table, lines, pyarrow.csv.WriteOptions(include_header=False))
    with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
        copy.write(lines.getvalue())
