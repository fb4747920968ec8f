"""Futures: what the labels that are not there may turn out to be, given what is observed of each item.

A future is one posterior draw of the parameters, and a state for every item drawn from P(state | its labels, its
verdicts, the parameters). Where configurations share a context its R is one, drawn from what is observed of all of
them, which are taken to be independent given R.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from rat_ray.allocate.plan_pool import A, Pool
from rat_ray.allocate.plan_walk import Book
from rat_ray.model.design import agreement
from rat_ray.model.patterns import FIT, MISSING, TRUSTED
from rat_ray.model.priors import Prior
from rat_ray.model.states import PARAMETERS, R0, R1, STATES, UNDEFINED
from rat_ray.model.verdicts import INDEPENDENT, judged_states

_SWEEPS = 8  # of Gibbs sampling for a panel's verdicts, given the parameters


def rate_names(judges: Sequence[str], judge_model: str) -> list[str]:
    """The quantities that a future needs of a fit, beside the parameters."""
    if judge_model != INDEPENDENT:
        return []
    return [f"{rate}[{judge}]" for judge in judges for rate in ("tpr", "fpr")]


def state_probabilities(parameters: np.ndarray) -> np.ndarray:
    """(6,) from rho, alpha[0], alpha[1], tau[0], tau[1]."""
    rho, a0, a1, t0, t1 = parameters[: len(PARAMETERS)]
    low, high = 1 - rho, rho
    answered, given = low * (1 - a0), high * (1 - a1)
    return np.array([low * a0, answered * (1 - t0), answered * t0, high * a1, given * (1 - t1), given * t1])


def verdict_likelihood(
    book: Book, judges: Sequence[str], judge_model: str, prior: Prior, drawn: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(patterns, 6): the probability of a pattern's verdicts in each state. drawn: parameters, then `rate_names`.

    For a panel one draw from its posterior given the parameters: states of the items and the verdicts' distributions
    in turn, beginning with the prior. Where A is unknown, what a judge of T said is not used.
    """
    verdicts = book.labels[:, len(TRUSTED) :]
    if not judges:
        return np.ones((len(verdicts), len(STATES)))
    if judge_model == INDEPENDENT:
        return _independent(verdicts, judges, drawn[len(PARAMETERS) :].reshape(-1, 2))
    return _panel(book, verdicts, judges, prior, state_probabilities(drawn), rng)


def _independent(verdicts: np.ndarray, judges: Sequence[str], rates: np.ndarray) -> np.ndarray:
    found = np.ones((len(verdicts), len(STATES)))
    for j, truth in enumerate(judged_states(judges)):
        says = np.where(truth == 1, rates[j, 0], np.where(truth == 0, rates[j, 1], 0.5))
        said = verdicts[:, j, None]
        found *= np.where(said == MISSING, 1.0, np.where(said == 1, says, 1 - says))
    return found


def _panel(
    book: Book, verdicts: np.ndarray, judges: Sequence[str], prior: Prior, theta: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    combinations = np.array(list(itertools.product((0, 1), repeat=len(judges))), dtype=np.int8)
    fits = (book.use == FIT) & (book.now > 0)
    said = verdicts[:, None, :]
    complete = ((said == MISSING) | (said == combinations)).all(axis=2).astype(float)  # (patterns, combinations)
    agree = agreement(book.labels).astype(float)
    weights = _prior_weights(judges, combinations, prior)
    shares = weights / weights.sum(axis=1, keepdims=True)  # (6, combinations)
    size = (len(STATES), len(combinations))
    for _ in range(_SWEEPS):
        cells = (theta * agree[fits])[:, :, None] * shares * complete[fits][:, None, :]
        flat = cells.reshape(len(cells), -1)
        counts = rng.multinomial(book.now[fits], flat / flat.sum(axis=1, keepdims=True)).sum(axis=0).reshape(size)
        drawn = rng.standard_gamma(weights + counts)
        shares = drawn / drawn.sum(axis=1, keepdims=True)
    return np.asarray(complete @ shares.T)


def _prior_weights(judges: Sequence[str], combinations: np.ndarray, prior: Prior) -> np.ndarray:
    """(6, combinations): the Dirichlet's concentrations, as in `model.verdicts`."""
    right = np.ones((len(STATES), len(combinations)))
    for j, truth in enumerate(judged_states(judges)):
        agrees = truth[:, None] == combinations[:, j]
        right *= np.where(truth[:, None] == UNDEFINED, 0.5, np.where(agrees, prior.panel_right, 1 - prior.panel_right))
    return prior.panel_floor + prior.panel_lean * right


def fill(
    pool: Pool, books: Sequence[Book], thetas: np.ndarray, likelihoods: Sequence[np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Per side (rows, 3): a state of every row, in 0, 1 and MISSING for T of an abstention. thetas: (sides, 6)."""
    tables = [
        theta * agreement(book.labels) * likelihood
        for theta, book, likelihood in zip(thetas, books, likelihoods, strict=True)
    ]
    ones = np.zeros((pool.contexts, 2))
    share, rows = np.zeros(pool.contexts), np.zeros(pool.contexts)
    for side, book, table, theta in zip(pool.sides, books, tables, thetas, strict=True):
        rho = theta[R1].sum()
        for r, states in enumerate((R0, R1)):
            with np.errstate(divide="ignore"):
                seen = np.log(table[:, states].sum(axis=1) / (rho if r else 1 - rho))
            ones[:, r] += np.bincount(side.context, np.maximum(seen, -700)[book.pattern], pool.contexts)
        share += np.bincount(side.context, minlength=pool.contexts) * rho
        rows += np.bincount(side.context, minlength=pool.contexts)
    mean = share / np.maximum(rows, 1)
    odds = (1 - mean) / mean * np.exp(np.clip(ones[:, 0] - ones[:, 1], -700, 700))
    r_of = rng.random(pool.contexts) < 1 / (1 + odds)
    return [
        _states(table, book, r_of[side.context], rng)
        for side, book, table in zip(pool.sides, books, tables, strict=True)
    ]


def _states(table: np.ndarray, book: Book, r: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """(rows, 3): A and T of each row, given its R."""
    masked = np.stack([np.where(R0, table, 0.0), np.where(R1, table, 0.0)])  # (R, patterns, 6)
    ends = np.cumsum(masked, axis=2)
    mine = ends[r.astype(int), book.pattern]
    state = (mine <= (rng.random(len(r)) * mine[:, -1])[:, None]).sum(axis=1)
    labels: np.ndarray = STATES[np.minimum(state, len(STATES) - 1)].copy()
    labels[labels[:, A] == 1, 2] = MISSING
    return labels
