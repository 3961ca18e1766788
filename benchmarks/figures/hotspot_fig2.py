"""[hotspot] Fig. 2: a tenth of the groups holds most of the queries when interest follows Zipf."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.data import SCALE
from benchmarks.figure import Figure, Reading, Size, Table, Verdict
from benchmarks.peers import Int64s
from standfast.indexes.stabbing_partition import StabbingPartition, canonical
from standfast.workloads import clustered_bands

N_GROUPS = 5000
BETAS = (1.0, 1.1, 1.2)
TOPS = (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2000, 3000, 4000, 5000)


Sizes = dict[float, Int64s]


def prepare(n_queries: float, size: Size) -> Sizes:
    """Queries drawn with Zipf's law, grouped by the dynamic partition: the groups' sizes."""
    sizes = {}
    for beta in BETAS:
        bands = clustered_bands(int(n_queries), N_GROUPS, seed=2, beta=beta).whole(SCALE)
        partition = StabbingPartition(1.0)
        partition.add(np.arange(len(bands)), bands.lows, bands.highs)
        sizes[beta] = np.sort(np.diff(partition.groups().offsets))[::-1]
        greedy = np.sort(np.bincount(canonical(bands.lows, bands.highs)[0]))[::-1]
        assert np.array_equal(sizes[beta], greedy), "the partition is not the smallest one"
    return sizes


def coverage(beta: float) -> Callable[[Sizes], Iterator[Reading]]:
    """Share of the queries in the k largest stabbing groups."""

    def measure(sizes: Sizes) -> Iterator[Reading]:
        shares = 100 * np.cumsum(sizes[beta]) / sizes[beta].sum()
        yield from (Reading(shares[k - 1], x=k) for k in TOPS)

    return measure


def formula(beta: float) -> Callable[[Sizes], Iterator[Reading]]:
    """The same share if group sizes followed Zipf's law exactly."""

    def measure(sizes: Sizes) -> Iterator[Reading]:
        shares = np.cumsum(np.arange(1, N_GROUPS + 1) ** -beta)
        yield from (Reading(100 * shares[k - 1] / shares[-1], x=k) for k in TOPS)

    return measure


def holds(table: Table) -> Verdict:
    shares = [table.value(f"beta {beta}", 500) for beta in BETAS]
    expected = [table.value(f"Zipf's law, beta {beta}", 500) for beta in BETAS]
    text = ", ".join(f"{s:.1f} % at beta {b}" for s, b in zip(shares, BETAS, strict=True))
    rises = shares == sorted(shares)
    text = f"the 500 largest of 5,000 groups cover {text} (the law: {expected[0]:.1f} % at 1.0)."
    return Verdict(65 <= shares[0] <= 80 and rises, text)


FIGURE = Figure(
    name="hotspot_fig2",
    source="[hotspot] Fig. 2",
    claim="With 5,000 stabbing groups whose sizes follow Zipf's law, the 500 largest cover about "
    "70 % of all queries at beta = 1, and more when beta is larger.",
    x_label="largest groups",
    y_label="queries covered, %",
    sweep={"smoke": (50_000,), "full": (1_000_000,)},
    prepare=prepare,
    series={f"beta {beta}": coverage(beta) for beta in BETAS}
    | {f"Zipf's law, beta {beta}": formula(beta) for beta in BETAS},
    holds=holds,
    dashed=frozenset(f"Zipf's law, beta {beta}" for beta in BETAS),
    notes="Queries are drawn with Zipf's law over 5,000 disjoint interests, grouped by the dynamic "
    "stabbing partition, and the groups' sizes are counted.",
)
