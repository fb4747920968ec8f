"""Are ranks uniform? The simultaneous band of the empirical distribution function, as a p-value.

Saeilynoja, Buerkner, Vehtari (2022), "Graphical test for discrete uniformity and its applications in goodness-of-fit
evaluation and multiple sample comparison", Statistics and Computing 32: the band whose pointwise coverage is chosen so
that the whole function stays inside with the wanted probability. Here by their simulation (algorithm 1), for ranks
that are whole numbers: at each k the number of ranks below k is binomial, the statistic is the least two-sided tail
probability over all k, and its distribution is that of simulated uniform ranks. Outside the band at level alpha is the
same as a p-value below alpha.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

SIMULATIONS = 20_000


class Uniformity(NamedTuple):
    """p_value: of the simultaneous band; deviation: the largest distance of the ECDF from the diagonal."""

    p_value: float
    deviation: float
    ranks: int


def uniformity(ranks: np.ndarray, most: int) -> Uniformity:
    """ranks: (n,) of whole numbers from 0 to most."""
    n = len(ranks)
    below = np.cumsum(np.bincount(ranks, minlength=most + 1))[:-1]
    expected = np.arange(1, most + 1) / (most + 1)
    statistic = float(_tails(n, most)[np.arange(most), below].min())
    p = float((1 + np.searchsorted(_simulated(n, most), statistic * (1 + 1e-9), side="right")) / (1 + SIMULATIONS))
    return Uniformity(p, float(np.abs(below / n - expected).max()), n)


@lru_cache(maxsize=64)
def _tails(n: int, most: int) -> np.ndarray:
    """(most, n + 1): the two-sided tail probability of each count of ranks below k = 1, ..., most."""
    counts, share = np.arange(n + 1)[None, :], (np.arange(1, most + 1) / (most + 1))[:, None]
    lower, upper = binom.cdf(counts, n, share), binom.sf(counts - 1, n, share)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(lower, upper)))


@lru_cache(maxsize=64)
def _simulated(n: int, most: int) -> np.ndarray:
    """(SIMULATIONS,), ascending: the statistic of uniform ranks."""
    rng = np.random.default_rng([n, most])
    tails = _tails(n, most)
    found = []
    for _ in range(20):
        counts = rng.multinomial(n, np.full(most + 1, 1 / (most + 1)), SIMULATIONS // 20)
        below = np.cumsum(counts, axis=1)[:, :-1]
        found.append(tails[np.arange(most), below].min(axis=1))
    return np.sort(np.concatenate(found))
