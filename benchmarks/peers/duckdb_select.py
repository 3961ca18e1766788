"""DuckDB: an ASOF join finds for a query the first row of the key at or above its low end.

`SelectFirst` joins the events with the queries that select them (an IEJoin) and looks for the row
of each such pair. `PerKey` looks for the rows of all queries once for each join key of the batch
and joins the events, by key and range, with the queries that have one.

Plans tried at 100,000 queries and 1,000 joining rows on two busy cores, in events per second:
`SelectFirst` 420 for 256 events at once, 390 for 1,024, 110 as a prepared statement per event;
`PerKey` 1,200 for 8,192 events, 580 for 2,048 and for 20,000, 110 for 256; its last step as a
range join and a semi-join 220; EXISTS in place of the ASOF join 10; DISTINCT over the join with
all rows 7. Half the time of the best plans is spent on the range join of events and queries alone.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.peers import Int64s

SELECT_FIRST = """
    SELECT chosen.event, chosen.id
    FROM (
        SELECT events.event, events.key, queries.*
        FROM events JOIN queries ON low_a <= value AND value <= high_a
    ) AS chosen
    ASOF JOIN stored ON stored.key = chosen.key AND stored.value >= chosen.low_c
    WHERE stored.value <= chosen.high_c
"""
PER_KEY = """
    WITH hit AS MATERIALIZED (
        SELECT each.key, each.id, each.low_a, each.high_a
        FROM (SELECT * FROM (SELECT DISTINCT key FROM events) CROSS JOIN queries) AS each
        ASOF JOIN stored ON stored.key = each.key AND stored.value >= each.low_c
        WHERE stored.value <= each.high_c
    )
    SELECT events.event, hit.id
    FROM events JOIN hit ON events.key = hit.key AND value BETWEEN low_a AND high_a
"""
Pairs = dict[str, Int64s]


class SelectFirst:
    """One statement per batch over tables that are sorted already."""

    batch = 256
    statement = SELECT_FIRST

    def __init__(self, lows: Int64s, highs: Int64s, row_keys: Int64s, row_values: Int64s) -> None:
        self.connection = duckdb.connect()
        queries = pa.table(
            {
                "id": np.arange(lows.shape[1]),
                "low_a": lows[0], "high_a": highs[0], "low_c": lows[1], "high_c": highs[1],
            }
        )  # fmt: skip
        stored = pa.table({"key": row_keys, "value": row_values})
        self._create("queries", queries.sort_by("low_c"))
        self._create("stored", stored.sort_by([("key", "ascending"), ("value", "ascending")]))

    def affected(self, keys: Int64s, values: Int64s) -> Pairs:
        events = pa.table({"event": np.arange(keys.size), "key": keys, "value": values})
        self.connection.register("events", events)
        return self.connection.execute(self.statement).fetchnumpy()

    def ids(self, output: Pairs, event: int) -> Int64s:
        return np.asarray(output["id"][output["event"] == event], np.int64)

    def _create(self, name: str, table: pa.Table) -> None:
        self.connection.register("incoming", table)
        self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        self.connection.unregister("incoming")


class PerKey(SelectFirst):
    """The same with the rows of each key looked up once."""

    batch = 8_192
    statement = PER_KEY
