"""What the patterns present can tell, before sampling: a quantity is identified, bounded, or known by its prior only.

A quantity is identified where its gradient lies in the row space of the Jacobian of the log pattern probabilities, at
a random interior point (the usual rank condition for local identification, Rothenberg 1971). Where it is not, a linear
program over the six state probabilities that fit the observed labels equally well gives bounds; ratios of two linear
functions are bounded by the transformation of Charnes and Cooper (1962). The bounds are estimates from the observed
shares, without their sampling error, and use trusted labels only, never a judge's verdicts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.model.patterns import MISSING, TRUSTED, judges_of
from rat_ray.model.posterior import (
    BASE_QUANTITIES,
    PARAMETERS,
    STATES,
    agreement,
    derive,
    fitted,
    judged_states,
    own_rate_judges,
)

IDENTIFIED, BOUNDED, PRIOR_ONLY = "identified", "bounded", "prior only"

_R0, _R1 = STATES[:, 0] == 0, STATES[:, 0] == 1
_ANSWERED, _RIGHT = STATES[:, 1] == 0, STATES[:, 2] == 1
_ALL = np.ones(len(STATES), dtype=bool)
# Quantity: (numerator, denominator), sets of states.
_RATIOS = {
    "rho": (_R1, _ALL),
    "alpha[0]": (_R0 & ~_ANSWERED, _R0),
    "alpha[1]": (_R1 & ~_ANSWERED, _R1),
    "tau[0]": (_R0 & _RIGHT, _R0 & _ANSWERED),
    "tau[1]": (_R1 & _RIGHT, _R1 & _ANSWERED),
    "p_g": ((_R0 & ~_ANSWERED) | (_R1 & _RIGHT), _ALL),
    "p_t": (_RIGHT, _ALL),
    "p_a": (~_ANSWERED, _ALL),
    "accuracy": (_RIGHT, _ANSWERED),
    "p_g[r=0]": (_R0 & ~_ANSWERED, _R0),
    "p_g[r=1]": (_R1 & _RIGHT, _R1),
    "guess": (_R0 & _ANSWERED, _R0),
    "lucky": (_R0 & _RIGHT, _ALL),
}
_EM_STEPS = 5000
_NARROW = 1e-3  # bounds closer than this leave nothing open
_STEP = 1e-30  # of complex-step differentiation, exact to rounding


class Known(NamedTuple):
    """identified: IDENTIFIED, BOUNDED or PRIOR_ONLY; low and high: the bounds of a bounded quantity."""

    identified: str
    low: float | None = None
    high: float | None = None


class Identification(NamedTuple):
    """rank of `parameters` free parameters, and what is known of each quantity."""

    rank: int
    parameters: int
    known: dict[str, Known]


def identify(counts: pa.Table) -> Identification:
    """What can be known of every quantity from the patterns in the count table."""
    judges, own, code = judges_of(counts), own_rate_judges(counts), fitted(counts)
    start = _interior_point(len(judges), len(own))
    rows = _with_the_other_value(code.labels, judges)
    design = _jacobian(lambda point: np.log(_probabilities(point, rows, judges, own)), start)
    basis = _row_space(design)
    gradients = _jacobian(lambda point: _quantities(point, judges, own), start)
    estimate = _fit_states(code.labels, code.n)
    names = [*BASE_QUANTITIES, *(f"{rate}[{judge}]" for judge in judges for rate in ("tpr", "fpr"))]
    names += [f"yes[{judge},a=1]" for judge in own]
    known = {}
    for name, gradient in zip(names, gradients, strict=True):
        if not _has_items(name, code.labels, judges):
            known[name] = Known(PRIOR_ONLY)
        elif _lies_in(gradient, basis):
            known[name] = Known(IDENTIFIED)
        else:
            known[name] = _bounds(name, code.labels, estimate)
    return Identification(len(basis), len(start), known)


def _interior_point(judges: int, own: int) -> np.ndarray:
    rng = np.random.default_rng(20_260_102)
    return np.concatenate(
        [rng.uniform(0.25, 0.75, 5), rng.uniform(0.6, 0.9, judges), rng.uniform(0.1, 0.4, judges + own)]
    )


def _with_the_other_value(labels: np.ndarray, judges: list[str]) -> np.ndarray:
    """The patterns present, and for a column with one value only the same patterns with the other value.

    That a value never occurred, though it might have, is information too: all R = 1 says that rho is large.
    """
    for column in range(labels.shape[1]):
        seen = labels[:, column] != MISSING
        if len(set(labels[seen, column].tolist())) != 1:
            continue
        flipped = labels[seen].copy()
        flipped[:, column] = 1 - flipped[:, column]
        abstained = flipped[:, 1] == 1
        undefined = [2, *(i for i, judge in enumerate(judges, start=len(TRUSTED)) if judge.startswith("t@"))]
        flipped[np.ix_(abstained, undefined)] = MISSING
        labels = np.unique(np.concatenate([labels, flipped]), axis=0)
    return labels


def _probabilities(point: np.ndarray, labels: np.ndarray, judges: list[str], own: list[str]) -> np.ndarray:
    """(patterns,) probabilities, written as in `stan/rat.stan`; complex where the point is."""
    rho, a0, a1, t0, t1 = point[:5]
    left = {0: 1 - rho, 1: rho}
    alpha, tau = {0: a0, 1: a1}, {0: t0, 1: t1}
    theta = np.array(
        [
            left[r] * (alpha[r] if a == 1 else (1 - alpha[r]) * (tau[r] if t == 1 else 1 - tau[r]))
            for r, a, t in STATES.tolist()
        ]
    )
    weights = agreement(labels) * theta
    tpr, fpr, yes = np.split(point[5:], [len(judges), 2 * len(judges)])
    for j, (judge, judged) in enumerate(zip(judges, judged_states(judges), strict=True)):
        undefined = yes[own.index(judge)] if judge in own else 0.5
        rate = np.where(judged == 1, tpr[j], np.where(judged == 0, fpr[j], undefined))
        said = labels[:, len(TRUSTED) + j, None]
        weights = weights * np.where(said == MISSING, 1.0, np.where(said == 1, rate, 1 - rate))
    return np.asarray(weights.sum(axis=1))


def _quantities(point: np.ndarray, judges: list[str], own: list[str]) -> np.ndarray:
    base = derive(dict(zip(PARAMETERS, point[:5], strict=True)))
    tpr, fpr, yes = np.split(point[5:], [len(judges), 2 * len(judges)])
    rates: list[Any] = [rate for pair in zip(tpr, fpr, strict=True) for rate in pair]
    return np.array([*(base[name] for name in BASE_QUANTITIES), *rates, *yes])


def _jacobian(function: Callable[[np.ndarray], np.ndarray], point: np.ndarray) -> np.ndarray:
    """(values, parameters), by complex steps."""
    steps = 1j * _STEP * np.eye(len(point))
    return np.stack([function(point + step).imag / _STEP for step in steps], axis=1)


def _row_space(design: np.ndarray) -> np.ndarray:
    """(rank, parameters): an orthonormal basis."""
    _, values, basis = np.linalg.svd(design, full_matrices=False)
    return np.asarray(basis[: int((values > 1e-9 * max(values[0], 1.0)).sum())])


def _lies_in(gradient: np.ndarray, basis: np.ndarray) -> bool:
    rest = gradient - basis.T @ (basis @ gradient)
    return bool(np.linalg.norm(rest) < 1e-6 * np.linalg.norm(gradient))


def _has_items(name: str, labels: np.ndarray, judges: list[str]) -> bool:
    """Whether any item may be one of those that the quantity is a share of."""
    if name in _RATIOS:
        return bool(agreement(labels)[:, _RATIOS[name][1]].any())
    rate, _, judge = name.removesuffix("]").removesuffix(",a=1").partition("[")
    index = judges.index(judge)
    wanted = {"tpr": 1, "fpr": 0}
    judged = judged_states(judges)[index]
    states = judged == wanted[rate] if rate in wanted else ~_ANSWERED
    seen = labels[labels[:, len(TRUSTED) + index] != MISSING]
    return bool(agreement(seen)[:, states].any())


def _fit_states(labels: np.ndarray, n: np.ndarray) -> np.ndarray:
    """(6,): state probabilities of the greatest likelihood given the trusted labels, by EM from equal shares.

    Where several fit equally well this is one of them; the pattern probabilities are the same for all.
    """
    agree, inverse = np.unique(agreement(labels), axis=0, return_inverse=True)
    share = np.bincount(inverse.reshape(-1), weights=n) / n.sum()
    theta = np.full(len(STATES), 1 / len(STATES))
    for _ in range(_EM_STEPS):
        new = theta * ((share / (agree @ theta)) @ agree)
        if np.abs(new - theta).max() < 1e-12:
            return np.asarray(new)
        theta = new
    return theta


def _bounds(name: str, labels: np.ndarray, estimate: np.ndarray) -> Known:
    """The least and greatest value over all state probabilities that give the fitted pattern probabilities."""
    if name not in _RATIOS:
        return Known(PRIOR_ONLY)
    from scipy.optimize import linprog

    numerator, denominator = (states.astype(float) for states in _RATIOS[name])
    agree = np.unique(agreement(labels), axis=0).astype(float)
    # Variables: state probabilities y, scaled so that the denominator is 1, and the scale k.
    scaled = np.column_stack([agree, -agree @ estimate])
    total = np.append(np.ones(len(STATES)), -1.0)
    left = np.vstack([scaled, total, np.append(denominator, 0.0)])
    right = np.append(np.zeros(len(left) - 1), 1.0)
    ends = []
    for sign in (1, -1):
        found = linprog(np.append(sign * numerator, 0.0), A_eq=left, b_eq=right, bounds=(0, None), method="highs")
        if not found.success:
            return Known(PRIOR_ONLY)
        ends.append(sign * found.fun)
    low, high = (float(np.clip(end, 0.0, 1.0)) for end in ends)
    if high - low < _NARROW:
        return Known(IDENTIFIED)
    return Known(PRIOR_ONLY) if low < _NARROW and high > 1 - _NARROW else Known(BOUNDED, low, high)
