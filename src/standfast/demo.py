"""The demo: real trades, replayed against standing queries of every question while these change.

What they ask is in `demo_queries.py`. On the way some queries leave and others come, around the
prices of the moment, and a few rows are checked against comparing everything with everything. Of a
few queries over windows all that was told is added up, and compared with what they should say.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from standfast import workloads
from standfast.demo_queries import (
    COLUMNS,
    JOINS,
    TEMPLATES,
    WINDOWS,
    Asked,
    Hotspots,
    Parameters,
    expect,
    market,
    said,
)
from standfast.engine.answer import Answer
from standfast.engine.engine import Engine

Counts = npt.NDArray[np.int64]
Told = Counter[tuple[int, Any, float | None]]  # query, key, value: how often it came and not went

LATENESS_US = 2_000_000
STEP_SECONDS = 5  # of market time
STEPS_BETWEEN_CHANGES = 10
FOLLOWED = 4  # queries of each template over windows
COLOURS = ("#f58518", "#54a24b", "#b279a2", "#4c78a8", "#9d755d", "#e45756", "#72b7b2")


@dataclass(frozen=True, slots=True)
class Step:
    """What happened in a few seconds of market time."""

    market_seconds: float
    n_trades: int
    seconds: float
    affected: dict[str, int]
    hotspots: Hotspots

    @property
    def rate(self) -> float:
        """Trades per second of work."""
        return self.n_trades / self.seconds if self.seconds else 0.0


class Replay:
    """An engine with the demo's inputs and queries, and the trades still to come."""

    def __init__(self, n_queries: int, seed: int) -> None:
        self.trades = workloads.trades()
        self.engine = Engine()
        for name in ("trades", "spot", "futures"):
            self.engine.stream(name, COLUMNS, time="time", lateness_us=LATENESS_US)
        self.groups = {n: self.engine.register(sql, name=n) for n, sql in TEMPLATES.items()}
        self.n_changed = self.n_checked = 0
        self._asked = Asked(self.trades, seed)
        self._followed: dict[str, Parameters] = {}  # some queries over windows that do not leave
        self._told = {name: Told() for name in WINDOWS}
        for name, fresh in self._asked.first(n_queries):
            self.groups[name].add(fresh)
            if name in WINDOWS:
                self._followed[name] = {hole: values[-FOLLOWED:] for hole, values in fresh.items()}
        self._hotspots = self._asked.hotspots()

    @property
    def n_queries(self) -> int:
        return sum(map(len, self.groups.values()))

    @property
    def n_steps(self) -> int:
        return len(self._cuts()) - 1

    def steps(self) -> Iterator[Step]:
        """Push the trades in steps of market time, with changes of the queries in between."""
        cuts = self._cuts()
        for number, (start, stop) in enumerate(pairwise(cuts)):
            is_changed = number > 0 and number % STEPS_BETWEEN_CHANGES == 0
            if is_changed:
                self._change()
            batch = self.trades.slice(start, stop - start)
            parts = {name: market(batch, name) for name in ("spot", "futures")}
            begin = time.perf_counter()
            answers = self.engine.push("trades", batch)
            counts = {name: _counts(answer) for name, answer in answers.items()}
            joined = [self.engine.push(name, part) for name, part in parts.items()]
            for name in JOINS:
                counts[name] = np.concatenate([_counts(answers[name]) for answers in joined])
            seconds = time.perf_counter() - begin
            self._follow(answers)
            if is_changed or stop == cuts[-1]:
                self._check(batch, counts, before=start)
                self._check_followed(self.trades.slice(0, stop))
            self._asked.see(batch)
            affected = {name: int(count.sum()) for name, count in counts.items()}
            market_seconds = (number + 1.0) * STEP_SECONDS
            yield Step(market_seconds, batch.num_rows, seconds, affected, self._hotspots)

    def _cuts(self) -> list[int]:
        arrival = self.trades["arrival"].cast(pa.int64()).to_numpy()
        ends = np.arange(arrival[0], arrival[-1], STEP_SECONDS * 1_000_000)[1:-1]
        return [0, *np.searchsorted(arrival, ends).tolist(), arrival.size]

    def _change(self) -> None:
        for name, ids, fresh in self._asked.change():
            self.groups[name].remove(ids)
            self.groups[name].add(fresh)
            self.n_changed += 2 * ids.size
        self._hotspots = self._asked.hotspots()

    def _check(self, batch: pa.Table, counts: dict[str, Counts], *, before: int) -> None:
        """The first rows of a step again, by brute force, and all queries over windows."""
        found = self._asked.brute_force(batch, self.trades.slice(0, before))
        for name, expected in found.items():
            counted = [counts[name].sum()] if name in WINDOWS else counts[name][: len(expected)]
            for n, m in zip(expected, counted, strict=True):
                expect(name, n, int(m))
            self.n_checked += len(expected)

    def _follow(self, answers: Mapping[str, Answer]) -> None:
        """Add up what is told of a few queries over windows."""
        for name, queries in self._followed.items():
            rows = answers[name].rows()
            rows = rows.filter(pc.is_in(rows["query"], pa.array(queries["id"])))
            columns = [column.to_pylist() for column in rows.columns]
            values = columns[2] if name == "highs" else [None] * rows.num_rows
            for *told, change in zip(*columns[:2], values, columns[-1], strict=True):
                self._told[name][tuple(told)] += change

    def _check_followed(self, rows: pa.Table) -> None:
        """What was told of a few queries, all together, is what they say about all rows."""
        for name, queries in self._followed.items():
            each = zip(queries["id"].tolist(), said(name, queries, rows), strict=True)
            expected = {(query, *item): 1 for query, answer in each for item in answer.items()}
            told = {item: n for item, n in self._told[name].items() if n}
            assert told == expected, f"{name}: told {told}, brute force finds {expected}"
            self.n_checked += queries["id"].size


def warm_up(seed: int) -> None:
    """Compile all that a replay calls, by the beginning of a small one."""
    for _ in islice(Replay(1000, seed).steps(), STEPS_BETWEEN_CHANGES + 2):
        pass


def affected_each(steps: list[Step], name: str) -> npt.NDArray[np.float64]:
    """Queries that a trade affects, step by step; where it is none there is no logarithm of it."""
    each = np.array([step.affected[name] / max(step.n_trades, 1) for step in steps])
    return np.where(each > 0, each, np.nan)


def draw(steps: list[Step], n_queries: int, path: Path) -> None:
    """The picture of a replay: throughput, affected queries, hotspots."""
    from matplotlib.figure import Figure

    minutes = np.array([step.market_seconds for step in steps]) / 60
    n_trades = sum(step.n_trades for step in steps)
    figure = Figure(figsize=(11, 9), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1)
    title = f"{n_trades:,} real trades against {n_queries:,} standing queries"
    figure.suptitle(title, fontsize=15)
    rates = np.array([step.rate for step in steps])
    top.fill_between(minutes, rates, color="#4c78a8", alpha=0.25)
    top.plot(minutes, rates, color="#4c78a8")
    typical = float(np.median(rates))
    top.axhline(typical, color="#4c78a8", linestyle=":", label=f"median {typical:,.0f}")
    top.set(ylabel="trades per second", ylim=(0, None))
    top.set_title("Throughput", loc="left")
    for name, colour in zip(TEMPLATES, COLOURS, strict=True):
        middle.plot(minutes, affected_each(steps, name), color=colour, label=name)
    middle.set(ylabel="queries per trade", yscale="log", xlabel="minutes of market time")
    middle.set_title("Affected standing queries", loc="left")
    spots = steps[-1].hotspots
    bottom.vlines(spots.points, 0, spots.sizes, color="#e45756", linewidth=3)
    bottom.plot(spots.points, spots.sizes, "o", color="#e45756")
    bottom.set(ylabel="standing queries", xlabel="dollars between spot and future", ylim=(0, None))
    bottom.set_xlim(-400, 400)
    bottom.set_xscale("symlog", linthresh=1, linscale=0.3)
    ticks = [-300, -100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100, 300]
    bottom.set_xticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks])
    bottom.set_title(
        f"Hotspots of the band joins: {spots.points.size} of {spots.n_groups} stabbing groups "
        f"hold {spots.sizes.sum():,} queries",
        loc="left",
    )
    for axes in (top, middle, bottom):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.yaxis.set_major_formatter(lambda at, _: f"{at:,.0f}" if at >= 1 else f"{at:g}")
    for axes in (top, middle):
        axes.legend(
            loc="lower right", bbox_to_anchor=(1, 1), ncols=7, frameon=False, handlelength=1.2,
            columnspacing=1.2,
        )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _counts(answer: Answer) -> Counts:
    counts: Counts = answer.counts()["queries"].to_numpy()
    return counts
