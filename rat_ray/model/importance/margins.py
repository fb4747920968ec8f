"""Coordinates for independent judges in which the posterior is nearly normal.

Many verdicts tell the share m of a judge's ones, and not which of them are right: m = fpr + (tpr - fpr) pi, pi the
share of its variable's ones, is a thin curved surface in (pi, fpr, tpr). So fpr and `above` give way to m and to
s = min(fpr / m, (1 - tpr) / (1 - m)): how much of what can be wrong at this pi and m is wrong, from 0 (no false
positive, or no miss) to 1 (tpr = fpr).
"""

from __future__ import annotations

import numpy as np

from rat_ray.model.importance.density import logs_of, times
from rat_ray.model.importance.structure import Structure

_SMALLEST = 1e-300
_MOST = 600.0  # logit


def to_margins(u: np.ndarray, structure: Structure) -> np.ndarray:
    """(D, draws): the logits with those of m and s in the places of fpr's and above's."""
    if not structure.judges:
        return u
    found = u.copy()
    logs = logs_of(u, structure)
    one, zero = _shares(logs, structure)
    fpr, above = _places(structure)
    said_one, said_zero = _margins(logs, one, zero, structure)
    found[fpr] = said_one - said_zero
    found[above] = np.minimum(u[fpr] - logs[above] - one, -u[above] - zero)
    return found


def from_margins(w: np.ndarray, structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    """The logits, (D, draws), and the log of the determinant of dw / du, (draws,)."""
    if not structure.judges:
        return w, np.zeros(w.shape[1])
    size = structure.parameters
    fpr, above = _places(structure)
    u = w.copy()
    logs = logs_of(w, structure)
    one, zero = _shares(logs, structure)
    m, not_m, s, not_s = logs[fpr], logs[size:][fpr], logs[above], logs[size:][above]
    # Where m < pi, s = fpr / m; else the same with ones and zeros, hits and false positives in each other's places.
    low = m < one
    less = np.where(low, m, not_m)
    rest = np.where(low, zero, one)
    wrong = less + s
    right = np.log(-np.expm1(np.minimum(wrong, -_SMALLEST)))
    open_ = np.abs(np.exp(one) - np.exp(m)) + np.exp(less + rest + s)
    miss = np.log(np.maximum(open_, _SMALLEST))  # (1 - tpr) pi, or fpr (1 - pi)
    # tpr pi, or (1 - fpr) (1 - pi)
    hit = less + np.log(np.maximum(-np.expm1(np.minimum(rest + s, -_SMALLEST)), _SMALLEST))
    u[fpr] = np.where(low, wrong - right, miss - hit)
    u[above] = np.where(low, less + not_s - miss, not_s - s - zero)
    np.clip(u, -_MOST, _MOST, out=u)
    logs = logs_of(u, structure)
    said_one, said_zero = _margins(logs, one, zero, structure)
    not_tpr = logs[size:][fpr] + logs[size:][above]
    return u, np.maximum(logs[fpr] - said_one, not_tpr - said_zero).sum(axis=0)


def _places(structure: Structure) -> tuple[slice, slice]:
    first, many = structure.fpr, structure.judges
    return slice(first, first + many), slice(first + many, first + 2 * many)


def _shares(logs: np.ndarray, structure: Structure) -> tuple[np.ndarray, np.ndarray]:
    """(judges, draws) each: log pi and log(1 - pi), which depend on the splits alone."""
    states = structure.judged.shape[2]
    products = np.exp(times(structure.terms[:states], logs))
    one, zero = (np.log(np.maximum(times(side, products), _SMALLEST)) for side in structure.judged)
    whole = np.logaddexp(one, zero)
    return one - whole, zero - whole


def _margins(
    logs: np.ndarray, one: np.ndarray, zero: np.ndarray, structure: Structure
) -> tuple[np.ndarray, np.ndarray]:
    """(judges, draws) each: log m and log(1 - m)."""
    size = structure.parameters
    fpr, above = _places(structure)
    not_fpr = logs[size:][fpr]
    said_one = np.logaddexp(logs[2 * size :] + one, logs[fpr] + zero)
    return said_one, np.logaddexp(not_fpr + logs[size:][above] + one, not_fpr + zero)
