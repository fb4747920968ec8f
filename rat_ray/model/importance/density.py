"""The log density of the logits, over many draws at once, and its gradient and Hessian at one point.

With c the exponents of all logs, those of open patterns shared out over their products as in an E step of EM (Dempster,
Laird, Rubin 1977), the gradient is J' c and the Hessian J' V J + sum_l c_l H_l: J and H_l are the logs' derivatives,
V = sum_p n_p Cov(exponents of p's products), weighted by the products' shares of the pattern (Louis 1982).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rat_ray.model.importance.structure import Counts, Structure

# Products of matrices of at most this many multiplications run on one thread in OpenBLAS: draws are cut accordingly, so
# that the number of threads never changes a sum, and what is worked on stays in the cache.
ONE_THREAD = 1 << 18
_MOST_DRAWS = 1024


class Evaluated(NamedTuple):
    """lp: (draws,), log density of the logits up to a constant; logs: (L, draws); products: (M, draws)."""

    lp: np.ndarray
    logs: np.ndarray
    products: np.ndarray


class Derivatives(NamedTuple):
    """At one point. expected: (L,) exponents as in an E step."""

    lp: float
    gradient: np.ndarray
    hessian: np.ndarray
    expected: np.ndarray


def logs_of(u: np.ndarray, structure: Structure) -> np.ndarray:
    """(L, draws) from logits (D, draws). Absolute errors are some 1e-16, whatever the logit."""
    size, many, fpr = structure.parameters, structure.judges, structure.fpr
    logs = np.empty((2 * size + many, *u.shape[1:]))
    yes, no = logs[:size], logs[size : 2 * size]
    np.abs(u, out=no)
    np.negative(no, out=no)
    np.exp(no, out=no)
    no += 1
    np.log(no, out=no)
    np.minimum(u, 0, out=yes)
    yes -= no
    np.subtract(yes, u, out=no)
    if many:
        above = fpr + many
        logs[2 * size :] = np.log(np.exp(yes[fpr:above]) + np.exp(no[fpr:above] + yes[above : above + many]))
    return logs


def evaluate(u: np.ndarray, structure: Structure, counts: Counts, keep: int | None = None) -> Evaluated:
    """u: (D, draws). keep: how many of the products are kept; None: all."""
    logs = logs_of(u, structure)
    draws = u.shape[1]
    kept = len(structure.terms) if keep is None else keep
    products = np.empty((kept, draws))
    lp = np.empty(draws)
    step = _block(structure)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for start in range(0, draws, step):
            block = slice(start, start + step)
            some = structure.terms @ logs[:, block]
            np.exp(some, out=some)
            products[:, block] = some[:kept]
            lp[block] = counts.powers @ logs[:, block]
            if len(counts.n):
                lp[block] += counts.n @ np.log(structure.sums @ some)
    return Evaluated(lp, logs, products)


def _block(structure: Structure) -> int:
    terms, logs = structure.terms.shape
    return _draws_at_once(terms * max(logs, len(structure.sums)))


def _draws_at_once(cost: int) -> int:
    return max(16, min(_MOST_DRAWS, ONE_THREAD // max(cost, 1)) // 16 * 16)


def times(matrix: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """matrix @ columns, a block of columns at a time."""
    step, draws = _draws_at_once(matrix.size), columns.shape[1]
    if draws <= step:
        return np.asarray(matrix @ columns)
    found = np.empty((len(matrix), draws))
    for start in range(0, draws, step):
        found[:, start : start + step] = matrix @ columns[:, start : start + step]
    return found


def log_density(u: np.ndarray, structure: Structure, counts: Counts) -> np.ndarray:
    """(draws,) of the log density alone."""
    return evaluate(u, structure, counts, 0).lp


def derivatives(u: np.ndarray, structure: Structure, counts: Counts) -> Derivatives:
    """u: (D,)."""
    size = structure.parameters
    logs = logs_of(u, structure)
    p, q = np.exp(logs[:size]), np.exp(logs[size : 2 * size])
    lp = float(counts.powers @ logs)
    expected = counts.powers
    jacobian = _jacobian(p, q, logs, structure)
    hessian = np.zeros((size, size))
    if len(counts.n):
        product = np.exp(structure.terms @ logs)
        pattern = structure.sums @ product
        with np.errstate(divide="ignore", invalid="ignore"):
            lp += float(counts.n @ np.log(pattern))
            share = structure.sums * product / pattern[:, None]
        means = share @ structure.terms  # (P, L)
        expected = expected + counts.n @ means
        slopes = structure.terms @ jacobian  # (M, D)
        of_pattern = means @ jacobian
        weight = counts.n @ share
        hessian = (slopes.T * weight) @ slopes - (of_pattern.T * counts.n) @ of_pattern
    gradient = expected @ jacobian
    bend = -(expected[:size] + expected[size : 2 * size]) * p * q
    hessian[np.arange(size), np.arange(size)] += bend
    for j in range(structure.judges):
        hessian[_pair(structure, j)] += expected[2 * size + j] * _bend_of_tpr(p, q, logs, structure, j)
    return Derivatives(lp, gradient, hessian, expected)


def _jacobian(p: np.ndarray, q: np.ndarray, logs: np.ndarray, structure: Structure) -> np.ndarray:
    """(L, D)."""
    size = structure.parameters
    jacobian = np.zeros((len(logs), size))
    every = np.arange(size)
    jacobian[every, every] = q
    jacobian[size + every, every] = -p
    for j in range(structure.judges):
        f, a = structure.fpr + j, structure.fpr + structure.judges + j
        tpr = np.exp(logs[2 * size + j])
        jacobian[2 * size + j, [f, a]] = p[f] * q[f] * q[a] / tpr, q[f] * p[a] * q[a] / tpr
    return jacobian


def _pair(structure: Structure, judge: int) -> tuple[np.ndarray, np.ndarray]:
    where = np.array([structure.fpr + judge, structure.fpr + structure.judges + judge])
    return where[:, None], where[None, :]


def _bend_of_tpr(p: np.ndarray, q: np.ndarray, logs: np.ndarray, structure: Structure, judge: int) -> np.ndarray:
    """(2, 2): second derivatives of log(fpr + (1 - fpr) above) by the logits of both."""
    f, a = structure.fpr + judge, structure.fpr + structure.judges + judge
    tpr = np.exp(logs[2 * structure.parameters + judge])
    first = np.array([p[f] * q[f] * q[a], q[f] * p[a] * q[a]]) / tpr
    cross = -p[f] * q[f] * p[a] * q[a]
    second = np.array(
        [[q[a] * p[f] * q[f] * (q[f] - p[f]), cross], [cross, q[f] * p[a] * q[a] * (q[a] - p[a])]],
    )
    return np.asarray(second / tpr - np.outer(first, first))
