"""The exact posterior of a small table with missing labels: a sum over every completion, each one conjugate.

A completion assigns each item one of the six states; completions with the same counts are added up. Given the counts,
the five parameters are independent Betas, and a judge's tpr and fpr are Betas restricted to tpr > fpr.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import exp

import numpy as np
from scipy.special import betainc, betaln

from tests.model.tables import Row

STATES = [(0, 1, None), (0, 0, 0), (0, 0, 1), (1, 1, None), (1, 0, 0), (1, 0, 1)]
NODES, WEIGHTS = np.polynomial.legendre.leggauss(400)
X, W = (NODES + 1) / 2, WEIGHTS / 2


def completions(rows: Sequence[Row]) -> dict[tuple[int, ...], int]:
    """How many completions give each vector of counts: (state, verdict) with verdict 0, 1 or none, 18 cells."""
    found: Counter[tuple[int, ...]] = Counter({(0,) * 18: 1})
    for r, a, t, *verdicts in rows:
        verdict = verdicts[0] if verdicts else None
        cells = [
            3 * index + (2 if verdict is None else verdict)
            for index, state in enumerate(STATES)
            if all(label is None or label == value for label, value in zip((r, a, t), state, strict=True))
        ]
        grown: Counter[tuple[int, ...]] = Counter()
        for counts, ways in found.items():
            for cell in cells:
                grown[(*counts[:cell], counts[cell] + 1, *counts[cell + 1 :])] += ways
        found = grown
    return found


@cache
def _judge(hit: int, miss: int, false: int, true: int) -> tuple[float, float, float]:
    """Mass, mean of tpr, mean of fpr of uniform tpr > fpr, given how often verdicts were 1 and 0 on ones and zeros."""
    density = X**hit * (1 - X) ** miss
    below = betainc(false + 1, true + 1, X) * exp(betaln(false + 1, true + 1))
    first = betainc(false + 2, true + 1, X) * exp(betaln(false + 2, true + 1))
    mass = float((W * density * below).sum())
    return mass, float((W * X * density * below).sum()) / mass, float((W * density * first).sum()) / mass


def exact_moments(rows: Sequence[Row], judge: str | None = None) -> dict[str, tuple[float, float]]:
    """(mean, sd) of the parameters under uniform priors, the mean of p_g and of the judge's rates (their sd is nan)."""
    total, sums = 0.0, Counter[tuple[str, int]]()
    for counts, ways in completions(rows).items():
        cells = np.array(counts).reshape(6, 3)
        n = cells.sum(axis=1)
        betas = {
            "rho": (1 + n[3:].sum(), 1 + n[:3].sum()),
            "alpha[0]": (1 + n[0], 1 + n[1] + n[2]),
            "alpha[1]": (1 + n[3], 1 + n[4] + n[5]),
            "tau[0]": (1 + n[2], 1 + n[1]),
            "tau[1]": (1 + n[5], 1 + n[4]),
        }
        weight = ways * exp(sum(betaln(a, b) for a, b in betas.values()))
        means = {name: a / (a + b) for name, (a, b) in betas.items()}
        means["p_g"] = (1 - means["rho"]) * means["alpha[0]"] + means["rho"] * (1 - means["alpha[1]"]) * means["tau[1]"]
        if judge:
            variable = "rat".index(judge[0])
            ones = [i for i, state in enumerate(STATES) if state[variable] == 1]
            zeros = [i for i, state in enumerate(STATES) if state[variable] == 0]
            said = [int(cells[states, verdict].sum()) for states in (ones, zeros) for verdict in (1, 0)]
            mass, means[f"tpr[{judge}]"], means[f"fpr[{judge}]"] = _judge(*said)
            weight *= mass
            if variable == 2:  # a uniform rate of its own on abstentions
                weight *= exp(betaln(1 + cells[[0, 3], 1].sum(), 1 + cells[[0, 3], 0].sum()))
        total += weight
        for name, mean in means.items():
            sums[name, 1] += weight * mean
        for name, (a, b) in betas.items():
            sums[name, 2] += weight * a * (a + 1) / ((a + b) * (a + b + 1))
    moments = {}
    for name in {name for name, _ in sums}:
        mean = sums[name, 1] / total
        square = sums[name, 2] / total if (name, 2) in sums else np.nan
        moments[name] = (mean, float(np.sqrt(square - mean**2)))
    return moments
