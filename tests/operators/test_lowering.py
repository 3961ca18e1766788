"""From synopses to answers: means of whole numbers that float64 does not hold."""

from __future__ import annotations

from random import Random

import numpy as np

from standfast.operators.lowering import quotients


def test_means_of_whole_numbers_are_rounded_once():
    """Sums beyond 2^53 are divided by digits of 32 bits; Python divides with one rounding."""
    rng, sums, counts = Random(13), list[int](), list[int]()
    for _ in range(5_000):
        n = rng.choice([1, 2, 3, rng.randrange(1, 100), 1 << rng.randrange(31)])
        n = rng.choice([n, rng.randrange(1, 2**31)])
        # Means next to powers of two, to halves of what float64 holds, and to the ends of int64.
        mean = rng.choice([2**63, 2**63 - 1, rng.randrange(2**63), 1 << rng.randrange(64)])
        mean = rng.choice([mean, (2**53 + rng.randrange(3)) << rng.randrange(10)])
        total = n * mean + rng.choice([0, n // 2, -(n // 2), rng.randrange(-3, 4)])
        total = rng.choice([-1, 1]) * min(total, n * (2**63 - 1))
        if abs(total) > 2**53:
            sums.append(total)
            counts.append(n)
    high = np.array([total >> 64 for total in sums])
    low = np.array([total % 2**64 for total in sums], np.uint64).view(np.int64)
    found = quotients(high, low, np.array(counts))
    assert len(sums) > 2_000
    assert found.tolist() == [total / n for total, n in zip(sums, counts, strict=True)]
