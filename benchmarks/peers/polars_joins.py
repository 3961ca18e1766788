"""Polars: `join_asof`, its best plan for this question, and `join_where`, the direct one.

`join_asof` needs both sides sorted; bands sorted by low end stay sorted when an event moves them,
so sorting happens once, beforehand (a plan over all events at once has to sort: ten times slower).
`join_where` states the band as it is, but makes every joining (band, row) pair before any of them
can be dropped, so it is measured only where those fit into memory.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from benchmarks.peers import Int64s


class PolarsAsof:
    """For each band the first row at or above its low end, one join per event."""

    def __init__(self, lows: Int64s, highs: Int64s, stored: Int64s) -> None:
        bands = pl.DataFrame({"id": np.arange(lows.size), "low": lows, "high": highs})
        self.bands = bands.sort("low")
        self.stored = pl.DataFrame({"b": np.sort(stored)}).set_sorted("b")

    def affected(self, events: Int64s) -> list[pl.DataFrame]:
        return [self._one(int(event)) for event in events]

    def ids(self, output: list[pl.DataFrame], event: int) -> Int64s:
        return output[event]["id"].to_numpy()

    def _one(self, event: int) -> pl.DataFrame:
        moved = self.bands.select(
            "id", (pl.col("low") + event).set_sorted(), pl.col("high") + event
        )
        nearest = moved.join_asof(self.stored, left_on="low", right_on="b", strategy="forward")
        return nearest.filter(pl.col("b") <= pl.col("high")).select("id")


class PolarsJoinWhere:
    """All pairs of a band and a row in it, one join per event, then the bands once each."""

    def __init__(self, lows: Int64s, highs: Int64s, stored: Int64s) -> None:
        self.bands = pl.DataFrame({"id": np.arange(lows.size), "low": lows, "high": highs})
        self.stored = pl.DataFrame({"b": np.sort(stored)}).set_sorted("b")

    def affected(self, events: Int64s) -> list[pl.DataFrame]:
        return [self._one(int(event)) for event in events]

    def ids(self, output: list[pl.DataFrame], event: int) -> Int64s:
        return output[event]["id"].to_numpy()

    def _one(self, event: int) -> pl.DataFrame:
        moved = self.bands.select("id", pl.col("low") + event, pl.col("high") + event)
        pairs = moved.join_where(
            self.stored, pl.col("b") >= pl.col("low"), pl.col("b") <= pl.col("high")
        )
        return pairs.select(pl.col("id").unique())
