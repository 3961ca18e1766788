"""What a running job says about itself: the progress of each micro-batch, read, added up, shown.

Spark reports a progress after every micro-batch; the counters of the shards ride in its observed
metrics. Whatever came in is accounted for: received = used + late + duplicate + rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Group
from rich.table import Table

METRICS = "standfast"
FATES = ("used", "late", "duplicate", "rejected")
LEVELS = ("queries", "registry", "stored", "state_bytes", "memory_bytes", "peak_bytes")
PARTS = ("transfer", "engine", "state")
# Counters that are added up over a run; levels tell how things stand after a batch.
SUMMED = (
    "received", *FATES, "added", "removed", "repeated", "refused", "answers", "affected",
    "rebuilds",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One micro-batch: its rates, where its time went, and what it left behind.

    Transfer, engine and state are the times of the slowest shard; Spark has the rest of the batch.
    """

    batch: int
    input_rate: float
    processing_rate: float
    batch_ms: float
    spark_ms: float
    transfer_ms: float
    engine_ms: float
    state_ms: float
    levels: Mapping[str, int]
    counts: Mapping[str, int]

    @staticmethod
    def of(progress: Mapping[str, Any]) -> Snapshot | None:
        """Read a `StreamingQueryProgress`; None when no micro-batch ran."""
        observed = (progress.get("observedMetrics") or {}).get(METRICS)
        if observed is None:
            return None
        found = observed if isinstance(observed, Mapping) else observed.asDict()
        metrics = {name: int(value or 0) for name, value in found.items()}
        counts = {name: metrics.get(name, 0) for name in SUMMED}
        check(counts)
        batch_ms = float(progress.get("batchDuration") or 0)
        transfer, engine, state = (metrics.get(f"{p}_us", 0) / 1e3 for p in PARTS)
        return Snapshot(
            batch=int(progress["batchId"]),
            input_rate=_rate(progress.get("inputRowsPerSecond")),
            processing_rate=1e3 * counts["received"] / batch_ms if batch_ms else 0.0,
            batch_ms=batch_ms,
            spark_ms=max(batch_ms - transfer - engine - state, 0.0),
            transfer_ms=transfer,
            engine_ms=engine,
            state_ms=state,
            levels={name: metrics.get(name, 0) for name in LEVELS},
            counts=counts,
        )


@dataclass(frozen=True, slots=True)
class Totals:
    """A run so far."""

    n_batches: int = 0
    last: Snapshot | None = None
    batch_ms: float = 0.0
    spark_ms: float = 0.0
    transfer_ms: float = 0.0
    engine_ms: float = 0.0
    state_ms: float = 0.0
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(SUMMED, 0))

    def plus(self, snapshot: Snapshot) -> Totals:
        """With one more micro-batch."""
        counts = {name: self.counts[name] + snapshot.counts[name] for name in SUMMED}
        check(counts)
        times = {
            f"{part}_ms": getattr(self, f"{part}_ms") + getattr(snapshot, f"{part}_ms")
            for part in ("batch", "spark", *PARTS)
        }
        return replace(self, n_batches=self.n_batches + 1, last=snapshot, counts=counts, **times)

    def news(self, progress: Iterable[Mapping[str, Any]]) -> list[Snapshot]:
        """The micro-batches among recent reports that came after the last one."""
        after = -1 if self.last is None else self.last.batch
        found = [Snapshot.of(report) for report in progress if int(report["batchId"]) > after]
        return [snapshot for snapshot in found if snapshot]


def check(counts: Mapping[str, int]) -> None:
    """Assert that every row that came in is accounted for once."""
    fates = {name: counts[name] for name in FATES}
    assert counts["received"] == sum(fates.values()), f"{counts['received']} received, {fates}"


def live(totals: Totals) -> Group:
    """The figures of the last micro-batch, for a screen that is drawn again and again.

    The line of nothing below is for the ^C that a terminal puts where it stands: behind figures
    that fill their line it would move them all.
    """
    return Group(_figures(totals), "")


def _figures(totals: Totals) -> Table:
    table = Table.grid(padding=(0, 3))
    now = totals.last
    if now is None:
        table.add_row("waiting for the first micro-batch")
        return table
    levels = now.levels
    table.add_row(
        "rows per second",
        f"[bold]{now.processing_rate:,.0f}[/bold]",
        f"{_come_in(now, '', '; ')}{totals.counts['received']:,} so far",
    )
    table.add_row("batch", f"[bold]{now.batch_ms:,.0f} ms[/bold]", f"#{now.batch}: {_split(now)}")
    table.add_row(
        "queries affected",
        f"[bold]{now.counts['affected']:,}[/bold]",
        f"times; {levels['queries']:,} queries in registry version {levels['registry']:,}",
    )
    table.add_row(
        "state",
        f"[bold]{size(levels['state_bytes'])}[/bold]",
        f"{levels['stored']:,} rows stored",
    )
    table.add_row(
        "memory",
        f"[bold]{size(levels['memory_bytes'])}[/bold]",
        f"in all shards; the largest process had {size(levels['peak_bytes'])}",
    )
    table.add_row("rows", _fates(totals.counts), _changes(totals.counts))
    return table


def line(snapshot: Snapshot) -> str:
    """One micro-batch in one line, for where there is no screen."""
    return (
        f"batch {snapshot.batch}: {snapshot.counts['received']:,} rows in "
        f"{snapshot.batch_ms:,.0f} ms ({_split(snapshot)}), "
        f"{snapshot.processing_rate:,.0f} rows/s{_come_in(snapshot, ' while ', '')}, "
        f"{snapshot.levels['queries']:,} queries (registry {snapshot.levels['registry']}) affected "
        f"{snapshot.counts['affected']:,} times, state {size(snapshot.levels['state_bytes'])}, "
        f"memory {size(snapshot.levels['memory_bytes'])}"
    )


def summary(totals: Totals) -> list[str]:
    """What the whole run did."""
    counts, seconds = totals.counts, totals.batch_ms / 1e3
    rate = counts["received"] / seconds if seconds else 0.0
    lines = [
        f"{totals.n_batches:,} micro-batches, {counts['received']:,} rows in {seconds:,.1f} s: "
        f"{rate:,.0f} rows/s, queries affected {counts['affected']:,} times",
        f"rows: {counts['received']:,} received = {_fates(counts)}",
        f"queries: {_changes(counts)}",
    ]
    if totals.last:
        levels = totals.last.levels
        lines.append(
            f"time: {_split(totals)}; {levels['queries']:,} queries at registry version "
            f"{levels['registry']:,}"
        )
        lines.append(
            f"memory: state {size(levels['state_bytes'])}, shards {size(levels['memory_bytes'])}, "
            f"the largest process {size(levels['peak_bytes'])}"
        )
    return lines


def size(n_bytes: int) -> str:
    """A number of bytes as people write it."""
    steps = min(int(math.log(max(n_bytes, 1), 1000)), 4)
    return f"{n_bytes:,} B" if not steps else f"{n_bytes / 1000**steps:.1f} {'kMGT'[steps - 1]}B"


def _split(times: Snapshot | Totals) -> str:
    return (
        f"Spark {times.spark_ms:,.0f}, transfer {times.transfer_ms:,.0f}, "
        f"engine {times.engine_ms:,.0f}, state {times.state_ms:,.0f} ms"
    )


def _fates(counts: Mapping[str, int]) -> str:
    return " + ".join(f"{counts[name]:,} {name}" for name in FATES)


def _changes(counts: Mapping[str, int]) -> str:
    names = ("added", "removed", "repeated", "refused")
    return ", ".join(f"{counts[name]:,} {name}" for name in names)


def _come_in(snapshot: Snapshot, before: str, after: str) -> str:
    """How fast rows come in; of the first micro-batch nobody knows."""
    rate = snapshot.input_rate
    return f"{before}{rate:,.0f} come in{after}" if rate else ""


def _rate(value: object) -> float:
    """A rate as Spark tells it, which may be missing or not a number."""
    rate = float(value) if isinstance(value, int | float) else 0.0
    return rate if math.isfinite(rate) else 0.0
