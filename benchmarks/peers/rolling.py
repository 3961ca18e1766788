"""Rolling aggregates of other libraries: every window on its own, over all rows, after every row.

Windows hold the rows of age `lows[i]` to `highs[i]`. pandas: `rolling(width).sum()`, by Cython on
one core; Polars: a lazy frame of one `rolling_sum` expression a window, which it spreads over its
threads; DuckDB: one statement with a window function a window, all over one order, at most 100 of
them at a time. A window that does not end at the newest row is the same one of older rows. NumPy
adds up the slice of each window, which is the least work for answers that are asked for once.
"""

from __future__ import annotations

from typing import Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pyarrow as pa

from benchmarks.peers import Int64s

Floats = npt.NDArray[np.float64]
MOST_COLUMNS = 100


class RollingPeer(Protocol):
    """Sums of windows, after the last of the rows or after each of the last few."""

    def __init__(self, lows: Int64s, highs: Int64s) -> None: ...

    def sums(self, values: Floats, n: int) -> Floats:
        """The sums after each of the last n rows: a row for each, a column for each window."""


class PandasRolling:
    """`rolling` of a series, window by window."""

    def __init__(self, lows: Int64s, highs: Int64s) -> None:
        self.lows, self.highs = lows.tolist(), highs.tolist()

    def sums(self, values: Floats, n: int) -> Floats:
        series, size = pd.Series(values), values.size
        found = np.empty((n, len(self.lows)))
        for i, (low, high) in enumerate(zip(self.lows, self.highs, strict=True)):
            # No more rows than the window needs for the answers that are wanted.
            rows = series.iloc[max(0, size - n - high) : size - low]
            found[:, i] = rows.rolling(high - low + 1).sum().to_numpy()[-n:]
        return found


class PolarsRolling:
    """One expression a window in one lazy frame."""

    def __init__(self, lows: Int64s, highs: Int64s) -> None:
        self.lows, self.highs = lows.tolist(), highs.tolist()

    def sums(self, values: Floats, n: int) -> Floats:
        size, columns = values.size, []
        for i, (low, high) in enumerate(zip(self.lows, self.highs, strict=True)):
            rows = pl.col("value").slice(max(0, size - n - high), min(size, n + high) - low)
            columns.append(rows.rolling_sum(high - low + 1).tail(n).alias(str(i)))
        return pl.LazyFrame({"value": values}).select(columns).collect().to_numpy()


class DuckdbWindows:
    """One window function a window, over one order of the rows."""

    def __init__(self, lows: Int64s, highs: Int64s) -> None:
        self.connection = duckdb.connect()
        frames = [
            f"SUM(value) OVER (ORDER BY place ROWS BETWEEN {high} PRECEDING AND {low} PRECEDING)"
            f" AS w{i}"
            for i, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True))
        ]
        parts = [frames[i : i + MOST_COLUMNS] for i in range(0, len(frames), MOST_COLUMNS)]
        self.statements = [
            f"SELECT * EXCLUDE (place) FROM (SELECT place, {', '.join(part)} FROM rows)"
            " WHERE place >= $first ORDER BY place"
            for part in parts
        ]

    def sums(self, values: Floats, n: int) -> Floats:
        table = pa.table({"place": np.arange(values.size), "value": values})
        self.connection.register("rows", table)
        columns = [
            column
            for statement in self.statements
            for column in self._columns(statement, values.size - n)
        ]
        return np.stack(columns, axis=1)

    def _columns(self, statement: str, first: int) -> list[Floats]:
        found = self.connection.execute(statement, {"first": first}).fetchnumpy()
        return [np.asarray(column, np.float64) for column in found.values()]


class NumpySlices:
    """The sum of a slice for each window and row."""

    def __init__(self, lows: Int64s, highs: Int64s) -> None:
        self.lows, self.highs = lows.tolist(), highs.tolist()

    def sums(self, values: Floats, n: int) -> Floats:
        ends = range(values.size - n, values.size)
        return np.array(
            [
                [
                    values[end - high : end - low + 1].sum()
                    for low, high in zip(self.lows, self.highs, strict=True)
                ]
                for end in ends
            ]
        )
