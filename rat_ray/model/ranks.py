"""Many systems: ranks and the probability of being best, from each one's own fit and the pairs' joint fits.

A joint fit of K systems would have 6^K states. Instead each system's posterior of the quantity is its own fit's, and
the correlation of two systems' posteriors that of their joint fit; a Gaussian copula puts them together (Nelsen 2006).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtr, ndtri
from scipy.stats import rankdata

from rat_ray.tables import RANKS

DRAWS = 20_000
_SEED = 20_260_103
_LEAST_EIGENVALUE = 1e-6


def normal_scores(values: np.ndarray) -> np.ndarray:
    """(draws,) with the same order and a standard normal distribution."""
    return np.asarray(ndtri((rankdata(values) - 0.5) / len(values)))


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Of two quantities' draws in a joint fit, on the scale of the copula; 0 where one is constant."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(normal_scores(first), normal_scores(second))[0, 1])


def ranks(draws: Mapping[str, np.ndarray], correlations: Mapping[tuple[str, str], float], quantity: str) -> pa.Table:
    """The table `tables.RANKS`: per configuration mean, sd, rank (1: greatest) and P(best).

    draws: of the quantity by configuration; correlations: by pair of configurations, 0 where there is none.
    """
    names = list(draws)
    matrix = np.eye(len(names))
    for (first, second), value in correlations.items():
        i, j = names.index(first), names.index(second)
        matrix[i, j] = matrix[j, i] = value
    together = _copula(matrix, np.random.default_rng(_SEED))
    values = np.stack([np.quantile(draws[name], ndtr(together[:, i])) for i, name in enumerate(names)], axis=1)
    # Equal values share their ranks; who is best is then shared too.
    place = rankdata(-values, axis=1)
    best = values == values.max(axis=1, keepdims=True)
    share = best / best.sum(axis=1, keepdims=True)
    low, high = np.quantile(place, [0.05, 0.95], axis=0)
    rows: list[dict[str, Any]] = [
        {
            "config": name,
            "quantity": quantity,
            "mean": float(draws[name].mean()),
            "sd": float(draws[name].std(ddof=1)),
            "rank_mean": float(place[:, i].mean()),
            "rank_q5": float(low[i]),
            "rank_q95": float(high[i]),
            "p_best": float(share[:, i].mean()),
            "configurations": len(names),
        }
        for i, name in enumerate(names)
    ]
    return pa.Table.from_pylist(sorted(rows, key=lambda row: -row["mean"]), schema=RANKS)


def _copula(matrix: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(DRAWS, systems) of correlated standard normals; correlations of pairs need not fit together: the nearest do."""
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, _LEAST_EIGENVALUE))
    root /= np.sqrt((root**2).sum(axis=1, keepdims=True))
    return np.asarray(rng.normal(size=(DRAWS, len(matrix))) @ root.T)
