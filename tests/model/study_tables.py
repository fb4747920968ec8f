"""Count tables as an allocation study fits them: everybody's A, some items' R or T, some verdicts."""

from __future__ import annotations

import numpy as np

from rat_ray.model.patterns import MISSING, Code

R_AND_T = ("r@x", "t@y")


def study_table(seed: int, judges: tuple[str, ...] = (), items: int = 1000) -> Code:
    """50 items with R and T, then R, T or both on 30 to 300 more; a true system and judges drawn by the seed."""
    rng = np.random.default_rng([seed, len(judges), 20_261])
    rho, alpha, tau = rng.uniform(0.2, 0.8), rng.uniform(0.05, 0.8, 2), (rng.uniform(0.05, 0.4), rng.uniform(0.4, 0.9))
    r = (rng.random(items) < rho).astype(int)
    a = (rng.random(items) < np.where(r, alpha[1], alpha[0])).astype(int)
    t = (rng.random(items) < np.where(r, tau[1], tau[0])).astype(int)
    base, more, kind = 50, int(rng.integers(30, 300)), seed % 3
    place = np.arange(items)
    has_r = (place < base) | ((place < base + more) & (kind != 1))
    has_t = (a == 0) & ((place < base) | ((place < base + more) & (kind != 0)))
    columns = [np.where(has_r, r, MISSING), a, np.where(has_t, t, MISSING)]
    for judge in judges:
        truth = {"r": r, "t": t}[judge[0]]
        said = (rng.random(items) < np.where(truth == 1, rng.uniform(0.7, 0.95), rng.uniform(0.05, 0.4))).astype(int)
        asked = rng.random(items) < rng.uniform(0.3, 1.0)
        columns.append(np.where(asked & ((judge[0] != "t") | (a == 0)), said, MISSING))
    labels, n = np.unique(np.stack(columns, axis=1).astype(np.int8), axis=0, return_counts=True)
    return code_of(labels, n)


def code_of(labels: np.ndarray, n: np.ndarray) -> Code:
    """Items that all inform the fit, in one stratum."""
    zeros = np.zeros(len(n), dtype=np.int32)
    return Code(labels, zeros, zeros, np.asarray(n), np.asarray(n, dtype=float))
