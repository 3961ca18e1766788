"""What the figures of key thresholds share: keyed streams, queries of a wanted answer size, clocks.

    synthetic(n)     n keys, rows by Zipf's law over three hours, values by chance
    price_levels()   real trades: which price levels of a market traded often lately
    volumes()        S&P 500, daily volumes by symbol       if the folder STANDFAST_DATA has them
    alarms()         NAB, values above a stream's usual     if the folder STANDFAST_DATA has them

A step is a batch of rows and as many lookups, as the paper interleaves them; a lookup asks for all
keys of one query. Ways take turns, and each keeps its best steps.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.clock import budget, seconds
from benchmarks.peers import Int64s
from standfast.indexes.lanes import Lanes
from standfast.model.numbers import FAR, LEAST
from standfast.operators.base import ThresholdStrategy
from standfast.operators.catalog import KEY_THRESHOLDS
from standfast.workloads import trades

Function = Literal["COUNT", "SUM", "MIN", "MAX"]
HOUR = 3_600_000_000
N_WINDOWS = 24
N_CHECKED = 40


class Stream(NamedTuple):
    """Rows in order of time; windows of queries lie between the two widths."""

    codes: Int64s
    times: Int64s
    values: Int64s
    narrowest: int
    widest: int

    @property
    def n_keys(self) -> int:
        return int(np.unique(self.codes).size)


@dataclass(frozen=True, slots=True)
class KeyedCase:
    """A stream, of which the first `n_before` rows are there before the clock, and queries."""

    stream: Stream
    function: Function
    n_before: int
    windows: Int64s
    lows: Int64s
    highs: Int64s
    step: int

    def strategy(self, way: str, **sizes: Any) -> ThresholdStrategy:
        """A way that holds the queries and the first rows; `sizes` go to its index."""
        lanes = Lanes("range", is_float=False, is_keyed=True, reach=self.stream.widest)
        made = KEY_THRESHOLDS[way](self.function, lanes, is_float=False, **sizes)
        self._append(made, 0, self.n_before)
        n = self.windows.size
        lows = np.stack([np.zeros(n, np.int64), self.lows])
        made.add(np.arange(n), lows, np.stack([self.windows, self.highs]))
        made.lookup(np.arange(1))
        return made

    def _append(self, made: ThresholdStrategy, first: int, last: int) -> None:
        codes, times, values, *_ = self.stream
        made.append(codes[first:last], times[first:last], values[first:last])
        made.advance(int(times[last - 1]))

    def timed(
        self, made: ThresholdStrategy, n_lookups: int | None = None
    ) -> tuple[float, float, Int64s]:
        """Seconds a row and a lookup take at best, over steps; what the first lookups answer.

        A way whose lookups cost the same in any number may be asked for fewer of them.
        """
        update = lookup = np.inf
        spent, at, n, answer = 0.0, self.n_before, self.windows.size, None
        rng = np.random.default_rng(7)
        while at + self.step <= self.stream.times.size and (answer is None or spent < budget()):
            slots = np.sort(rng.permutation(n)[: self.step])[:n_lookups]
            took, _ = seconds(self._append, made, at, at + self.step)
            asked, found = seconds(made.lookup, slots)
            if answer is None:
                answer = _entries(found[0][: N_CHECKED + 1], found[1])
            update = min(update, took / self.step)
            lookup = min(lookup, asked / slots.size)
            spent, at = spent + took + asked, at + self.step
        assert answer is not None, "the stream is shorter than a step"
        return float(update), float(lookup), answer


def _entries(offsets: Int64s, codes: Int64s) -> Int64s:
    """What some lookups found, in a form that can be compared."""
    parts = [np.sort(codes[offsets[i] : offsets[i + 1]]) for i in range(offsets.size - 1)]
    return np.concatenate([np.array([part.size, *part], np.int64) for part in parts])


def case_of(
    stream: Stream, function: Function, n_before: int, n_queries: int, step: int, *,
    least: float, most: float, seed: int,
) -> KeyedCase:  # fmt: skip
    """Queries whose answers hold `least` to `most` of the keys when the clock starts."""
    rng = np.random.default_rng(seed)
    widths = np.linspace(stream.narrowest, stream.widest, N_WINDOWS).astype(np.int64)
    chosen = rng.integers(0, N_WINDOWS, n_queries)
    bounds = np.empty(n_queries, np.int64)
    _, numbers = np.unique(stream.codes[:n_before], return_inverse=True)
    for i, width in enumerate(widths.tolist()):
        now = stream.times[n_before - 1]
        inside = np.flatnonzero(stream.times[:n_before] >= now - width)
        found = aggregates(function, numbers[inside], stream.values[inside], stream.n_keys)
        found = np.sort(found)[:: 1 if function == "MIN" else -1]
        mine = np.flatnonzero(chosen == i)
        wanted = np.maximum(rng.uniform(least, most, mine.size) * found.size, 1).astype(np.int64)
        bounds[mine] = found[np.minimum(wanted, found.size) - 1]
    endless = np.full(n_queries, LEAST if function == "MIN" else FAR)
    lows, highs = (endless, bounds) if function == "MIN" else (bounds, endless)
    return KeyedCase(stream, function, n_before, widths[chosen], lows, highs, step)


def aggregates(function: Function, numbers: Int64s, values: Int64s, n: int) -> Int64s:
    """The aggregate of each key that has rows here."""
    has = np.bincount(numbers, minlength=n) > 0
    if function == "COUNT":
        return np.bincount(numbers, minlength=n)[has]
    start = {"SUM": 0, "MAX": LEAST, "MIN": FAR}[function]
    found = np.full(n, start, np.int64)
    {"SUM": np.add, "MAX": np.maximum, "MIN": np.minimum}[function].at(found, numbers, values)
    return found[has]


def synthetic(n_keys: int, n_rows: int, seed: int) -> Stream:
    """Rows of keys by Zipf's law (exponent 0.8) over three and a half hours, in order of time."""
    rng = np.random.default_rng(seed)
    share = np.cumsum(1 / np.arange(1, n_keys + 1) ** 0.8)
    codes = np.searchsorted(share / share[-1], rng.random(n_rows))
    times = np.sort(rng.integers(0, 7 * HOUR // 2, n_rows))
    return Stream(codes, times, rng.integers(1, 1_000_000, n_rows), HOUR // 4, 3 * HOUR)


def price_levels() -> Stream:
    """Real trades by market, symbol and price: thousands of price levels, in order of time."""
    table = trades()
    name = pc.binary_join_element_wise(
        table["market"], table["symbol"], table["price"].cast(pa.string()), " "
    )
    times = table["time"].cast(pa.int64()).to_numpy()
    order = np.argsort(times, kind="stable")
    codes = name.combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    lots = np.round(table["qty"].to_numpy() * 1000).astype(np.int64)
    minute = 60_000_000
    return Stream(codes[order], times[order], lots[order], minute // 2, 5 * minute)


def volumes() -> Stream | None:
    """Daily volumes of the symbols of the S&P 500, if they are at hand."""
    path = _data("sp500-all_stocks_5yr.csv.gz")
    if path is None:
        return None
    table = pa.csv.read_csv(BytesIO(gzip.decompress(path.read_bytes())))
    day = table["date"].cast(pa.date32()).cast(pa.int32()).to_numpy().astype(np.int64)
    codes = table["Name"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.argsort(day, kind="stable")
    times = day[order] * 24 * HOUR
    return Stream(
        codes[order].astype(np.int64), times, table["volume"].to_numpy()[order].astype(np.int64),
        10 * 24 * HOUR, 250 * 24 * HOUR,
    )  # fmt: skip


def alarms() -> Stream | None:
    """NAB, if at hand: values above the 90th percentile of their stream, times from its start."""
    path = _data("nab-real-streams.tar.gz")
    if path is None:
        return None
    codes, times, values = [], [], []
    with tarfile.open(path) as archive:
        names = sorted(name for name in archive.getnames() if name.endswith(".csv"))
        for code, name in enumerate(names):
            file = archive.extractfile(name)
            assert file is not None, "a name of the archive is no file"
            table = pa.csv.read_csv(BytesIO(file.read()))
            stamps = table["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
            value = table["value"].to_numpy().astype(np.float64)
            high = np.flatnonzero(value > np.quantile(value, 0.9))
            times.append(stamps[high] - stamps[0])
            codes.append(np.full(high.size, code))
            values.append(np.ones(high.size, np.int64))
    flat: list[npt.NDArray[np.int64]] = [np.concatenate(c) for c in (codes, times, values)]
    order = np.argsort(flat[1], kind="stable")
    return Stream(*(column[order] for column in flat), 6 * HOUR, 240 * HOUR)


def _data(name: str) -> Path | None:
    folder = os.environ.get("STANDFAST_DATA")
    path = Path(folder or ".") / name
    return path if folder and path.exists() else None
