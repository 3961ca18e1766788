"""The demo's standing queries: what they ask, how they are drawn, what brute force says of them.

    trades ----+----------------> price_watch   filter on symbol and price
               +----------------> big_trades    filter on quantity
               +----------------> highs         window aggregate: highest prices of late, in a range
               +----------------> busy_prices   key threshold: prices with much traded of late
               +--> spot    --+-> basis         band join: how far a spot trade lies from a price
               +--> futures --+                 at which a future has traded
                              +-> echoes        select-join: a spot trade of some size, and a
                              |                 future of that symbol that traded in some range
                              +-> bursts        window join: sizes on both markets, close in time

Traders like round numbers, so the queries crowd around them: these are the hotspots.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from standfast import workloads
from standfast.indexes.stabbing_partition import canonical
from standfast.model.numbers import float_keys, floats_of

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int64]
Parameters = dict[str, npt.NDArray[Any]]
Said = dict[Any, float | None]  # the current answer of a query over windows, by key

COLUMNS = {"symbol": "string", "price": "float64", "qty": "float64", "time": "timestamp"}
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
    "highs": """SELECT symbol, MAX(price) OVER (PARTITION BY symbol ORDER BY time
                RANGE BETWEEN :within PRECEDING AND CURRENT ROW) AS high FROM trades
                QUALIFY high BETWEEN :lo AND :hi""",
    "busy_prices": """SELECT price FROM trades WHERE symbol = 'BTCUSDT'
                      QUALIFY SUM(qty) OVER (PARTITION BY price ORDER BY time
                      RANGE BETWEEN :within PRECEDING AND CURRENT ROW) >= :size""",
}
SHARES = {
    "price_watch": 0.2, "big_trades": 0.1, "basis": 0.3, "echoes": 0.1, "bursts": 0.1,
    "highs": 0.1, "busy_prices": 0.1,
}  # fmt: skip
JOINS = ("basis", "echoes", "bursts")
WINDOWS = ("highs", "busy_prices")
WINDOW_STEP_US, N_WINDOWS = 500_000, 120  # the windows that are asked for: up to a minute
CHANGED_SHARE = 0.01
CHECKED_ROWS = 4
HOT_SHARE = 0.002  # a stabbing group with this share of the bands is shown as a hotspot


class Hotspots(NamedTuple):
    """Stabbing groups that hold many bands: where they are, in dollars, and how many they hold."""

    points: Floats
    sizes: Counts
    n_groups: int


class Asked:
    """The standing queries of a replay, as brute force knows them: parameters by template.

    Queries are drawn around the prices of the moment and come with their ids.
    """

    def __init__(self, trades: pa.Table, seed: int) -> None:
        self.queries: dict[str, Parameters] = {}
        self._n_drawn = dict.fromkeys(TEMPLATES, 0)
        self._n_new = dict.fromkeys(TEMPLATES, 0)  # queries that no batch has come to yet
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
        """A batch came: from now on its prices are those of the moment, and no query is new."""
        self._prices.update(_last_prices(batch))
        self._n_new = dict.fromkeys(TEMPLATES, 0)

    def brute_force(self, batch: pa.Table, earlier: pa.Table) -> dict[str, list[int]]:
        """How many queries the first rows of a batch affect, each compared with all of them.

        Rows of a filter are the first trades; those of a join the first spot trades, which meet
        every future among the earlier trades. Windows are affected by the batch as a whole.
        """
        found = {name: list[int]() for name in TEMPLATES}
        for row in batch.slice(0, CHECKED_ROWS).to_pylist():
            for name, n in self._of_trade(row).items():
                found[name].append(n)
        futures = market(earlier, "futures")
        for row in market(batch, "spot").slice(0, CHECKED_ROWS).to_pylist():
            for name, n in self._of_spot(row, futures).items():
                found[name].append(n)
        for name in WINDOWS:
            found[name].append(self._n_changed(name, batch, earlier))
        return found

    def hotspots(self) -> Hotspots:
        """The largest stabbing groups of the band joins."""
        return hotspots(self.queries["basis"]["lo"], self.queries["basis"]["hi"])

    def _add(self, name: str, n: int) -> Parameters:
        first = self._n_drawn[name]
        self._n_drawn[name] += n
        self._n_new[name] += n
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

    def _n_changed(self, name: str, batch: pa.Table, earlier: pa.Table) -> int:
        """How many queries over windows say something else after a batch than before it."""
        queries = self.queries[name]
        before = said(name, queries, earlier)
        n_old = len(before) - self._n_new[name]
        before[n_old:] = [{}] * self._n_new[name]  # a new query has said nothing yet
        after = said(name, queries, pa.concat_tables([earlier, batch]))
        return sum(old != new for old, new in zip(before, after, strict=True))


def said(name: str, queries: Parameters, rows: pa.Table) -> list[Said]:
    """What each query over windows answers when these rows have come, by brute force."""
    times = rows["time"].cast(pa.int64()).to_numpy()
    ages, is_high = times.max(initial=0) - times, name == "highs"
    asked = ages <= queries["within"].max(initial=0)
    if not is_high:
        asked &= pc.equal(rows["symbol"], "BTCUSDT").to_numpy()
    key, value = ("symbol", "price") if is_high else ("price", "qty")
    keys, codes = np.unique(rows[key].to_numpy()[asked], return_inverse=True)
    values, ages = rows[value].to_numpy()[asked], ages[asked]
    found: list[Said] = [{}] * queries["within"].size
    for within in np.unique(queries["within"]):
        inside = ages <= within
        totals = np.full(keys.size, -np.inf if is_high else 0.0)
        (np.maximum if is_high else np.add).at(totals, codes[inside], values[inside])
        for i in np.flatnonzero(queries["within"] == within):
            if is_high:
                holds = (queries["lo"][i] <= totals) & (totals <= queries["hi"][i])
                found[i] = dict(zip(keys[holds].tolist(), totals[holds].tolist(), strict=True))
            else:
                found[i] = dict.fromkeys(keys[totals >= queries["size"][i]].tolist())
    return found


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


def _draw(name: str, n: int, prices: dict[str, float], rng: np.random.Generator) -> Parameters:
    """Parameters of n new queries around the prices of the moment."""
    if name == "big_trades":
        return {"size": np.round(np.exp(rng.normal(2, 2, n)), 3)}
    if name == "busy_prices":
        return {"within": _windows(n, rng), "size": np.exp(rng.normal(1, 1, n))}
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
    if name == "highs":
        return {"within": _windows(n, rng), "lo": levels - 20 * width, "hi": levels + 20 * width}
    return {"symbol": symbols, "lo": levels - width, "hi": levels + width}


def _windows(n: int, rng: np.random.Generator) -> Ids:
    """Lengths of windows, of which the last is the longest.

    The last of those that are drawn leaves last. So the longest window never leaves, and no query
    comes that sees fewer rows than brute force does: those that were kept for others.
    """
    within = WINDOW_STEP_US * rng.integers(1, N_WINDOWS + 1, n)
    within[-1:] = WINDOW_STEP_US * N_WINDOWS
    return within


def _first_prices(trades: pa.Table) -> dict[str, float]:
    return _last_prices(trades.take(np.arange(trades.num_rows)[::-1]))


def _last_prices(batch: pa.Table) -> dict[str, float]:
    return dict(zip(batch["symbol"].to_pylist(), batch["price"].to_pylist(), strict=True))


def _some_within(values: Floats, lows: Floats, highs: Floats) -> int:
    """How many ranges hold at least one of the values."""
    ascending = np.sort(values)
    inside = np.searchsorted(ascending, lows) < np.searchsorted(ascending, highs, "right")
    return int(inside.sum())
