"""Sharing a number of replicas out among weights."""

from __future__ import annotations

import heapq
from fractions import Fraction


def shares(total: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    """`total` handed out one by one, each to whoever is furthest behind its weight.

    One more never takes a replica away from anybody, so a job that is scaled up keeps those
    it has. (The largest remainder would be a little closer to the weights, but isn't monotone.)
    The first entry gets the first one: it holds rank 0. Ties go to the earlier entry.
    """
    assert total >= 1
    assert weights
    assert all(weight >= 1 for weight in weights)
    out = [0] * len(weights)
    out[0] = 1
    behind = [(_claim(out[n], weight), n) for n, weight in enumerate(weights)]
    heapq.heapify(behind)
    for _ in range(total - 1):
        _, n = behind[0]
        out[n] += 1
        heapq.heapreplace(behind, (_claim(out[n], weights[n]), n))
    return tuple(out)


def _claim(has: int, weight: int) -> Fraction:
    """The smaller, the further behind: the divisors of Webster (1, 3, 5 …) over the weight."""
    return Fraction(2 * has + 1, weight)
