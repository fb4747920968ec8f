"""The mode by EM steps and damped Newton, and the normal approximation around it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rat_ray.model.importance.density import Derivatives, derivatives
from rat_ray.model.importance.structure import Counts, Structure

_EM_STEPS, _NEWTON_STEPS, _HALVINGS = 2, 60, 25
_NEAR = 1e-4  # of the squared distance from the mode, in units of the posterior's own spread
_MOST_LOGIT = 600.0


class Laplace(NamedTuple):
    """mode: (D,); root: (D, D), lower triangular, root @ root' = inverse of minus the Hessian; lp: at the mode."""

    mode: np.ndarray
    root: np.ndarray
    lp: float


def laplace(structure: Structure, counts: Counts) -> Laplace | None:
    """None where no mode was found."""
    u = _start(structure, counts.powers)
    for _ in range(_EM_STEPS):
        u = _start(structure, derivatives(u, structure, counts).expected)
    here = derivatives(u, structure, counts)
    for _ in range(_NEWTON_STEPS):
        if not np.isfinite(here.lp):
            return None
        root, damped = _root(-here.hessian)
        if root is None:
            return None
        half = np.linalg.solve(root, here.gradient)
        step = np.linalg.solve(root.T, half)
        if not damped and float(half @ half) < _NEAR:
            inverse = np.linalg.inv(root)
            return Laplace(u + step, np.linalg.cholesky(inverse.T @ inverse), here.lp + 0.5 * float(half @ half))
        found = _climb(u, step, here.lp, structure, counts)
        if found is None:
            return None
        u, here = found
    return None


def _start(structure: Structure, expected: np.ndarray) -> np.ndarray:
    """The mode if each log had these exponents: of a Beta's logit log(a / b)."""
    size, many, fpr = structure.parameters, structure.judges, structure.fpr
    a, b = np.maximum(expected[:size], 1e-9), np.maximum(expected[size : 2 * size], 1e-9)
    u = np.log(a / b)
    if many:
        above = fpr + many
        not_tpr = b[above : above + many]
        false = a[fpr:above] / (a[fpr:above] + np.maximum(b[fpr:above] - not_tpr, 1e-3))
        hit = np.maximum(expected[2 * size :], 1e-3)
        rate = np.clip((hit / (hit + not_tpr) - false) / (1 - false), 0.02, 0.98)
        u[fpr:above] = np.log(false / (1 - false))
        u[above : above + many] = np.log(rate / (1 - rate))
    return np.asarray(np.clip(u, -_MOST_LOGIT, _MOST_LOGIT))


def _root(precision: np.ndarray) -> tuple[np.ndarray | None, bool]:
    """Cholesky factor; with a growing ridge where the matrix is not positive definite (then damped is True)."""
    if not np.isfinite(precision).all():
        return None, True
    ridge = 0.0
    for _ in range(30):
        try:
            return np.linalg.cholesky(precision + ridge * np.eye(len(precision))), ridge > 0
        except np.linalg.LinAlgError:
            smallest = float(np.abs(np.diag(precision)).max())
            ridge = max(10 * ridge, 1e-3 * max(smallest, 1e-6))
    return None, True


def _climb(
    u: np.ndarray, step: np.ndarray, lp: float, structure: Structure, counts: Counts
) -> tuple[np.ndarray, Derivatives] | None:
    """A step up, halved until it is one; at most 5 logits at once."""
    longest = float(np.abs(step).max())
    if longest == 0.0:  # on a saddle: labels that say nothing of R leave R = 0 and R = 1 exchangeable
        return None
    step = step * min(1.0, 5.0 / longest)
    slack = 1e-10 * abs(lp)
    for _ in range(_HALVINGS):
        at = derivatives(u + step, structure, counts)
        if np.isfinite(at.lp) and at.lp >= lp - slack:
            return u + step, at
        step = step / 2
    return None
