"""The exact posterior of a small table with missing labels: a sum over every completion, each one conjugate.

A completion assigns each item one of the six states; completions with the same counts are added up. Given the counts,
the five parameters are independent Betas, and so are a panel's rates of one judge in each state; an independent judge's
tpr and fpr are Betas restricted to tpr > fpr. Written apart from the product: it shares no code with it but `Prior`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaln

from rat_ray.model import Prior
from tests.model.tables import Row

STATES = [(0, 1, None), (0, 0, 0), (0, 0, 1), (1, 1, None), (1, 0, 0), (1, 0, 1)]
GOOD = np.array([1, 0, 0, 0, 0, 1])  # G = 1: abstained where retrieval failed, or right where it did not
RIGHT = np.array([0, 0, 1, 0, 0, 1])
NO, YES, NONE = range(3)  # a verdict
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(300)
_ANGLE = (_NODES + 1) * np.pi / 4
# x = sin^2(angle): densities with x^-0.5 at the ends are smooth in the angle.
_X, _DX = np.sin(_ANGLE) ** 2, _WEIGHTS * np.pi / 4 * 2 * np.sin(_ANGLE) * np.cos(_ANGLE)

Moments = tuple[float, float]  # mean, sd


class Posterior(NamedTuple):
    """A mixture. weights: (M,), sum 1; cells: (M, 6, 3) items per state and verdict; betas: (M, 2) per parameter.

    rates: (M, 2) of a panel's Beta per state (in the order of the states; None where there is no verdict).
    """

    weights: np.ndarray
    cells: np.ndarray
    betas: dict[str, np.ndarray]
    judge: str | None
    independent: bool
    rates: list[np.ndarray | None]
    prior: Prior


def completions(rows: Sequence[Row]) -> dict[tuple[int, ...], int]:
    """How many completions give each vector of counts: (state, verdict) with verdict 0, 1 or none, 18 cells."""
    found: Counter[tuple[int, ...]] = Counter({(0,) * 18: 1})
    for r, a, t, *verdicts in rows:
        verdict = verdicts[0] if verdicts else None
        cells = [
            3 * index + (NONE if verdict is None else verdict)
            for index, state in enumerate(STATES)
            if all(label is None or label == value for label, value in zip((r, a, t), state, strict=True))
        ]
        grown: Counter[tuple[int, ...]] = Counter()
        for counts, ways in found.items():
            for cell in cells:
                grown[(*counts[:cell], counts[cell] + 1, *counts[cell + 1 :])] += ways
        found = grown
    return found


def exact_posterior(rows: Sequence[Row], prior: Prior, judge: str | None = None, model: str = "panel") -> Posterior:
    """judge: `r@x`, `a@x` or `t@x`, whose verdicts are the rows' fourth entries."""
    found = completions(rows)
    cells = np.array(list(found)).reshape(-1, 6, 3)
    n = cells.sum(axis=2)
    betas = {
        "rho": _beta(prior.rho, n[:, 3:].sum(axis=1), n[:, :3].sum(axis=1)),
        "alpha[0]": _beta(prior.alpha0, n[:, 0], n[:, 1] + n[:, 2]),
        "alpha[1]": _beta(prior.alpha1, n[:, 3], n[:, 4] + n[:, 5]),
        "tau[0]": _beta(prior.tau0, n[:, 2], n[:, 1]),
        "tau[1]": _beta(prior.tau1, n[:, 5], n[:, 4]),
    }
    logs = np.log(np.array(list(found.values()), dtype=float)) + sum(betaln(*ab.T) for ab in betas.values())
    rates: list[np.ndarray | None] = [None] * 6
    if judge and model == "panel":
        for states, (one, zero) in _panel(rows, judge, prior):
            ab = _beta((one, zero), cells[:, states, YES].sum(axis=1), cells[:, states, NO].sum(axis=1))
            logs = logs + betaln(*ab.T)
            for state in states:
                rates[state] = ab
    elif judge:
        logs = logs + _independent_mass(cells, judge, prior)
    weights = np.exp(logs - logs.max())
    return Posterior(weights / weights.sum(), cells, betas, judge, model != "panel", rates, prior)


def _beta(prior: tuple[float, float], ones: np.ndarray, zeros: np.ndarray) -> np.ndarray:
    return np.stack([prior[0] + ones, prior[1] + zeros], axis=1).astype(float)


def _panel(rows: Sequence[Row], judge: str, prior: Prior) -> list[tuple[list[int], tuple[float, float]]]:
    """States that share a rate, and the Beta of its prior; states that no verdict can come from are left out."""
    variable = "rat".index(judge[0])
    observed = [i == variable or any(row[i] is not None for row in rows) for i in range(3)]
    own = any(row[1] is None and row[3] is not None for row in rows)
    groups: dict[tuple[int | None, ...], list[int]] = {}
    for index, state in enumerate(STATES):
        groups.setdefault(tuple(v for v, seen in zip(state, observed, strict=True) if seen), []).append(index)
    found = []
    for states in groups.values():
        truth = STATES[states[0]][variable]
        if truth is None and not own:
            continue
        right = {1: prior.panel_right, 0: 1 - prior.panel_right, None: 0.5}[truth]
        one, zero = (prior.panel_floor + prior.panel_lean * share for share in (right, 1 - right))
        found.append((states, (one, zero)))
    return found


def _said(cells: np.ndarray, judge: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(M, 2) each: verdicts of 1 and 0 where the judge's variable is 1, 0, undefined."""
    values = [state["rat".index(judge[0])] for state in STATES]
    parts = ([i for i, value in enumerate(values) if value == wanted] for wanted in (1, 0, None))
    one, zero, neither = (cells[:, states][:, :, [YES, NO]].sum(axis=1) for states in parts)
    return one, zero, neither


def _independent_mass(cells: np.ndarray, judge: str, prior: Prior) -> np.ndarray:
    one, zero, neither = _said(cells, judge)
    masses = [_restricted(*map(int, row), prior)[0] for row in np.hstack([one, zero]).tolist()]
    own = neither + np.array(prior.yes_abstained)
    return np.asarray(np.log(masses) + betaln(*own.T))


@cache
def _restricted(hit: int, miss: int, false: int, true: int, prior: Prior) -> tuple[float, float, float]:
    """Mass, mean of tpr, mean of fpr of tpr > fpr, given how often verdicts were 1 and 0 on ones and on zeros."""
    (a, b), (c, d) = prior.tpr, prior.fpr
    density = _X ** (a + hit - 1) * (1 - _X) ** (b + miss - 1)
    below = betainc(c + false, d + true, _X) * np.exp(betaln(c + false, d + true))
    first = betainc(c + false + 1, d + true, _X) * np.exp(betaln(c + false + 1, d + true))
    mass = float((_DX * density * below).sum())
    return mass, float((_DX * _X * density * below).sum()) / mass, float((_DX * density * first).sum()) / mass


def exact_moments(posterior: Posterior) -> dict[str, Moments]:
    """Mean and sd of the five parameters, p_g, the shares among the items, and an independent judge's mean rates.

    The sd of those rates is nan.
    """
    first = {name: ab[:, 0] / ab.sum(axis=1) for name, ab in posterior.betas.items()}
    second = {name: first[name] * (ab[:, 0] + 1) / (ab.sum(axis=1) + 1) for name, ab in posterior.betas.items()}
    known = {name: (first[name], second[name]) for name in first}
    known["p_g"] = _p_g(first, second)
    n = posterior.cells.sum(axis=2)
    for name, states in (("p_g", GOOD), ("p_t", RIGHT), ("rho", np.array([0, 0, 0, 1, 1, 1]))):
        share = n @ states / n.sum(axis=1)
        known[f"finite[{name}]"] = (share, share**2)
    moments = {name: _moments(posterior.weights, *both) for name, both in known.items()}
    if posterior.judge and posterior.independent:
        one, zero, _ = _said(posterior.cells, posterior.judge)
        rates = [_restricted(*map(int, row), posterior.prior)[1:] for row in np.hstack([one, zero]).tolist()]
        for name, means in zip(("tpr", "fpr"), np.array(rates).T, strict=True):
            moments[f"{name}[{posterior.judge}]"] = (float(posterior.weights @ means), float("nan"))
    return moments


def _p_g(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """First and second moment of (1 - rho) alpha0 + rho (1 - alpha1) tau1, the five independent."""
    rho, a0, a1, t1 = (first[name] for name in ("rho", "alpha[0]", "alpha[1]", "tau[1]"))
    rho2, a02, a12, t12 = (second[name] for name in ("rho", "alpha[0]", "alpha[1]", "tau[1]"))
    mean = (1 - rho) * a0 + rho * (1 - a1) * t1
    square = (1 - 2 * rho + rho2) * a02 + rho2 * (1 - 2 * a1 + a12) * t12
    return mean, square + 2 * (rho - rho2) * a0 * (1 - a1) * t1


def _moments(weights: np.ndarray, first: np.ndarray, second: np.ndarray) -> Moments:
    mean = float(weights @ first)
    return mean, float(np.sqrt(max(float(weights @ second) - mean**2, 0.0)))


def exact_draws(posterior: Posterior, draws: int, seed: int) -> dict[str, np.ndarray]:
    """Independent draws of what has no closed form: derived quantities, and a panel's rates of its judge."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(posterior.weights), draws, p=posterior.weights)
    rho, a0, a1, t0, t1 = (rng.beta(*ab[rows].T) for ab in posterior.betas.values())
    theta = np.stack(
        [
            (1 - rho) * a0,
            (1 - rho) * (1 - a0) * (1 - t0),
            (1 - rho) * (1 - a0) * t0,
            rho * a1,
            rho * (1 - a1) * (1 - t1),
            rho * (1 - a1) * t1,
        ]
    )
    found = {
        "p_g": theta[0] + theta[5],
        "p_t": theta[2] + theta[5],
        "p_a": theta[0] + theta[3],
        "accuracy": (theta[2] + theta[5]) / (1 - theta[0] - theta[3]),
        "p_g[r=1]": (1 - a1) * t1,
        "guess": 1 - a0,
        "lucky": theta[2],
        "resolved[r]": 1 - theta[4] - theta[5],
        "resolved[t]": theta[1] + theta[4],
    }
    if posterior.judge and not posterior.independent:
        found |= _panel_rates(posterior, posterior.judge, rows, theta, rng)
    return found


def _panel_rates(
    posterior: Posterior, judge: str, rows: np.ndarray, theta: np.ndarray, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    drawn: dict[int, np.ndarray] = {}  # states that share a Beta share its draws
    rates = np.zeros_like(theta)
    for state, ab in enumerate(posterior.rates):
        if ab is not None:
            if id(ab) not in drawn:
                drawn[id(ab)] = rng.beta(*ab[rows].T)
            rates[state] = drawn[id(ab)]
    values = [state["rat".index(judge[0])] for state in STATES]
    found = {}
    for name, wanted in (("tpr", 1), ("fpr", 0)):
        states = [i for i, value in enumerate(values) if value == wanted]
        found[f"{name}[{judge}]"] = (rates[states] * theta[states]).sum(axis=0) / theta[states].sum(axis=0)
    return found
