"""How many of the items whose state is not known count: sums of binomials, drawn for many draws of the parameters."""

from __future__ import annotations

import numpy as np

# From this variance on, the error of Cornish and Fisher's (1938) quantile is below 1/100 standard deviation.
_NORMAL = 25.0


def successes(n: np.ndarray, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(draws,) of sum over rows of Binomial(n, p). n: (rows,); p: (rows, draws).

    Where the sum's variance is at least 25 it is a normal one with the skewness of the sum, rounded to whole items.
    """
    spread = p * (1 - p)
    variance = n @ spread
    many = variance >= _NORMAL
    z = rng.standard_normal(p.shape[1])
    if not many.any():
        return np.asarray(rng.binomial(n[:, None], p).sum(axis=0), dtype=float)
    mean, third = n @ p, n @ (spread * (1 - 2 * p))
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.rint(mean + np.sqrt(variance) * z + third / (6 * variance) * (z * z - 1))
    found = np.clip(drawn, 0.0, float(n.sum()))
    few = np.flatnonzero(~many)
    if len(few):
        found[few] = rng.binomial(n[:, None], p[:, few]).sum(axis=0)
    return np.asarray(found)
