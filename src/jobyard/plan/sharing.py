"""Sharing a number of replicas out among weights."""

from __future__ import annotations


def shares(total: int, weights: tuple[int, ...]) -> tuple[int, ...]:
    """`total` shared out by largest remainder, the first entry at least one.

    Ties go to the earlier entry. The first never goes without: it holds rank 0.
    """
    assert total >= 1
    assert weights
    assert all(weight >= 1 for weight in weights)
    whole = sum(weights)
    out = [total * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda n: -(total * weights[n] % whole))
    for n in by_remainder[: total - sum(out)]:
        out[n] += 1
    if out[0] == 0:
        out[max(range(len(out)), key=out.__getitem__)] -= 1
        out[0] = 1
    return tuple(out)
