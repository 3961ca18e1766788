"""The demo: real trades, replayed against standing queries of every question while these change.

    trades ----+----------------> price_watch   filter on symbol and price
               +----------------> big_trades    filter on quantity
               +--> spot    --+-> basis         band join: how far a spot trade lies from a price
               +--> futures --+                 at which a future has traded
                              +-> echoes        select-join: a spot trade of some size, and a
                              |                 future of that symbol that traded in some range
                              +-> bursts        window join: sizes on both markets, close in time

Traders like round numbers, so the queries crowd around them: these are the hotspots. On the way
some queries leave and others come, around the prices of the moment, and a few rows are checked
against comparing everything with everything.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from standfast import workloads
from standfast.engine.answer import Answer
from standfast.engine.engine import Engine
from standfast.indexes.stabbing_partition import canonical
from standfast.model.numbers import float_keys, floats_of

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int64]
Parameters = dict[str, npt.NDArray[Any]]

COLUMNS = {"symbol": "string", "price": "float64", "qty": "float64", "time": "timestamp"}
LATENESS_US = 2_000_000
TEMPLATES = {
    "price_watch": "SELECT * FROM trades WHERE symbol = :symbol AND price BETWEEN :lo AND :hi",
    "big_trades": "SELECT * FROM trades WHERE qty >= :size",
    "basis": """SELECT s.symbol, s.price, f.price AS future FROM spot AS s JOIN futures AS f
                ON f.price - s.price BETWEEN :lo AND :hi""",
    "echoes": """SELECT s.symbol, s.qty, f.price FROM spot AS s JOIN futures AS f
                 ON s.symbol = f.symbol
                 WHERE s.qty BETWEEN :small AND :large AND f.price BETWEEN :lo AND :hi""",
    "bursts": """SELECT s.symbol, s.qty, f.qty AS future FROM spot AS s JOIN futures AS f
                 ON s.symbol = f.symbol AND ABS(s.time - f.time) < :within
                 WHERE s.qty >= :spot AND f.qty BETWEEN :small AND :large""",
}
SHARES = {"price_watch": 0.2, "big_trades": 0.1, "basis": 0.3, "echoes": 0.2, "bursts": 0.2}
JOINS = ("basis", "echoes", "bursts")
STEP_SECONDS = 5  # of market time
STEPS_BETWEEN_CHANGES = 10
CHANGED_SHARE = 0.01
CHECKED_ROWS = 4
HOT_SHARE = 0.002  # a stabbing group with this share of the bands is shown as a hotspot


class Hotspots(NamedTuple):
    """Stabbing groups that hold many bands: where they are, in dollars, and how many they hold."""

    points: Floats
    sizes: Counts
    n_groups: int


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


class Asked:
    """The standing queries of a replay, as brute force knows them: parameters by template.

    Queries are drawn around the prices of the moment and come with their ids.
    """

    def __init__(self, trades: pa.Table, seed: int) -> None:
        self.queries: dict[str, Parameters] = {}
        self._n_drawn = dict.fromkeys(TEMPLATES, 0)
        self._rng = np.random.default_rng(seed)
        self._prices = _first_prices(trades)

    def __len__(self) -> int:
        return sum(each["id"].size for each in self.queries.values())

    def first(self, n_queries: int) -> Iterator[tuple[str, Parameters]]:
        """The queries that a replay begins with, template by template."""
        for name, share in SHARES.items():
            yield name, self._add(name, round(n_queries * share))

    def change(self) -> Iterator[tuple[str, Ids, Parameters]]:
        """The oldest queries of each template leave and as many come: who leaves, what comes."""
        for name, known in self.queries.items():
            n = round(CHANGED_SHARE * known["id"].size)
            self.queries[name] = {hole: values[n:] for hole, values in known.items()}
            yield name, known["id"][:n], self._add(name, n)

    def see(self, batch: pa.Table) -> None:
        """From now on these are the prices of the moment."""
        self._prices.update(_last_prices(batch))

    def brute_force(self, batch: pa.Table, earlier: pa.Table) -> dict[str, list[int]]:
        """How many queries the first rows of a batch affect, each compared with all of them.

        Rows of a filter are the first trades; those of a join the first spot trades, which meet
        every future among the earlier trades.
        """
        found = {name: list[int]() for name in TEMPLATES}
        for row in batch.slice(0, CHECKED_ROWS).to_pylist():
            for name, n in self._of_trade(row).items():
                found[name].append(n)
        futures = market(earlier, "futures")
        for row in market(batch, "spot").slice(0, CHECKED_ROWS).to_pylist():
            for name, n in self._of_spot(row, futures).items():
                found[name].append(n)
        return found

    def hotspots(self) -> Hotspots:
        """The largest stabbing groups of the band joins."""
        return hotspots(self.queries["basis"]["lo"], self.queries["basis"]["hi"])

    def _add(self, name: str, n: int) -> Parameters:
        first = self._n_drawn[name]
        self._n_drawn[name] += n
        drawn = _draw(name, n, self._prices, self._rng)
        fresh: Parameters = {"id": np.arange(first, first + n)} | drawn
        known = self.queries.get(name)
        self.queries[name] = (
            {hole: np.concatenate([known[hole], fresh[hole]]) for hole in fresh} if known else fresh
        )
        return fresh

    def _of_trade(self, row: dict[str, Any]) -> dict[str, int]:
        watch, big = self.queries["price_watch"], self.queries["big_trades"]
        held = (watch["lo"] <= row["price"]) & (row["price"] <= watch["hi"])
        return {
            "price_watch": int((held & (watch["symbol"] == row["symbol"])).sum()),
            "big_trades": int((row["qty"] >= big["size"]).sum()),
        }

    def _of_spot(self, row: dict[str, Any], futures: pa.Table) -> dict[str, int]:
        basis, echoes, bursts = (self.queries[name] for name in JOINS)
        gaps = futures["price"].to_numpy() - row["price"]
        found = {"basis": _some_within(gaps, basis["lo"], basis["hi"])}
        same = futures.filter(pc.equal(futures["symbol"], row["symbol"]))
        chosen = (echoes["small"] <= row["qty"]) & (row["qty"] <= echoes["large"])
        lows, highs = echoes["lo"][chosen], echoes["hi"][chosen]
        found["echoes"] = _some_within(same["price"].to_numpy(), lows, highs)
        now = pa.scalar(row["time"], same["time"].type).cast(pa.int64()).as_py()
        apart = np.abs(same["time"].cast(pa.int64()).to_numpy() - now)
        found["bursts"] = 0
        for within in np.unique(bursts["within"]):  # a few different ones
            chosen = (bursts["within"] == within) & (bursts["spot"] <= row["qty"])
            near = same["qty"].to_numpy()[apart < within]
            smalls, larges = bursts["small"][chosen], bursts["large"][chosen]
            found["bursts"] += _some_within(near, smalls, larges)
        return found


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
        for name, fresh in self._asked.first(n_queries):
            self.groups[name].add(fresh)
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
            if is_changed:
                self._check(batch, counts, before=start)
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
        """The first rows of a step again, by brute force."""
        found = self._asked.brute_force(batch, self.trades.slice(0, before))
        for name, expected in found.items():
            for n, counted in zip(expected, counts[name], strict=False):
                expect(name, n, int(counted))
        self.n_checked += len(found["price_watch"]) + len(found["basis"])


def warm_up(seed: int) -> None:
    """Compile all that a replay calls, by the beginning of a small one."""
    for _ in islice(Replay(1000, seed).steps(), STEPS_BETWEEN_CHANGES + 2):
        pass


def market(trades: pa.Table, name: str) -> pa.Table:
    """The trades of the spot market, or those of both markets of futures."""
    is_spot = pc.equal(trades["market"], "spot")
    return trades.filter(is_spot if name == "spot" else pc.invert(is_spot))


def expect(name: str, expected: int, counted: int) -> None:
    """Assert that as many queries were found affected as brute force finds."""
    assert expected == counted, f"{name}: {counted} affected queries, brute force finds {expected}"


def hotspots(lows: Floats, highs: Floats) -> Hotspots:
    """The largest stabbing groups of some bands."""
    groups, points = canonical(float_keys(lows), float_keys(highs))
    sizes = np.bincount(groups, minlength=points.size)
    hot = sizes >= HOT_SHARE * lows.size
    return Hotspots(floats_of(points[hot]), sizes[hot], points.size)


def draw(steps: list[Step], n_queries: int, path: Path) -> None:
    """The picture of a replay: throughput, affected queries, hotspots."""
    from matplotlib.figure import Figure

    minutes = np.array([step.market_seconds for step in steps]) / 60
    n_trades = np.array([step.n_trades for step in steps])
    figure = Figure(figsize=(11, 9), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1)
    title = f"{n_trades.sum():,} real trades against {n_queries:,} standing queries"
    figure.suptitle(title, fontsize=15)
    rates = np.array([step.rate for step in steps])
    top.fill_between(minutes, rates, color="#4c78a8", alpha=0.25)
    top.plot(minutes, rates, color="#4c78a8")
    typical = float(np.median(rates))
    top.axhline(typical, color="#4c78a8", linestyle=":", label=f"median {typical:,.0f}")
    top.set(ylabel="trades per second", ylim=(0, None))
    top.set_title("Throughput", loc="left")
    for name, colour in zip(
        TEMPLATES, ("#f58518", "#54a24b", "#b279a2", "#4c78a8", "#9d755d"), strict=True
    ):
        each = np.array([step.affected[name] for step in steps]) / np.maximum(n_trades, 1)
        middle.plot(minutes, np.maximum(each, 1), color=colour, label=name)
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
        axes.yaxis.set_major_formatter("{x:,.0f}")
    for axes in (top, middle):
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=5, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _draw(name: str, n: int, prices: dict[str, float], rng: np.random.Generator) -> Parameters:
    """Parameters of n new queries around the prices of the moment."""
    if name == "big_trades":
        return {"size": np.round(np.exp(rng.normal(2, 2, n)), 3)}
    if name == "basis":
        dollars = np.array([1, 2, 5, 10, 20, 25, 50, 75, 100, 150, 200, 250, 300])
        popular = workloads.zipf_groups(n + dollars.size, dollars.size, 0.8, rng)[:n]
        centres = dollars[popular] * rng.choice([-1, 1], n)
        odd = rng.random(n) < 0.005
        centres = np.where(odd, rng.uniform(-350, 350, n), centres)
        reach = np.where(odd, 0.05, 0.02 * dollars[popular])
        return {"lo": centres - rng.exponential(reach), "hi": centres + rng.exponential(reach)}
    if name == "bursts":
        small = 10.0 ** rng.integers(-3, 2, n) * rng.choice([1, 2, 5], n)
        within = rng.choice([100_000, 500_000, 1_000_000, 5_000_000, 10_000_000], n)
        large = small * rng.uniform(1, 20, n)
        return {"spot": np.exp(rng.normal(0, 2, n)), "small": small, "large": large,
                "within": within}  # fmt: skip
    symbols = rng.choice(np.array(list(prices)), n)
    now = np.array([prices[symbol] for symbol in symbols])
    tick = np.where(now > 10_000, 10.0, 0.5)
    levels = np.round(now / tick + rng.normal(0, 6, n)) * tick
    width = rng.exponential(0.2, n) * tick
    if name == "echoes":
        small = np.exp(rng.normal(-3, 2, n))
        return {"small": small, "large": small * rng.uniform(1, 50, n),
                "lo": levels - width, "hi": levels + width}  # fmt: skip
    return {"symbol": symbols, "lo": levels - width, "hi": levels + width}


def _first_prices(trades: pa.Table) -> dict[str, float]:
    return _last_prices(trades.take(np.arange(trades.num_rows)[::-1]))


def _last_prices(batch: pa.Table) -> dict[str, float]:
    return dict(zip(batch["symbol"].to_pylist(), batch["price"].to_pylist(), strict=True))


def _counts(answer: Answer) -> Counts:
    counts: Counts = answer.counts()["queries"].to_numpy()
    return counts


def _some_within(values: Floats, lows: Floats, highs: Floats) -> int:
    """How many ranges hold at least one of the values."""
    ascending = np.sort(values)
    inside = np.searchsorted(ascending, lows) < np.searchsorted(ascending, highs, "right")
    return int(inside.sum())
