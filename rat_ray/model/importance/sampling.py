"""One fit: mode, proposal, draws, weights; or why importance sampling will not do."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rat_ray.model.importance.density import Evaluated, evaluate
from rat_ray.model.importance.laplace import laplace
from rat_ray.model.importance.proposal import Kernels, Proposal, kernels_at, proposal_at, propose
from rat_ray.model.importance.structure import Counts, Structure
from rat_ray.model.importance.weights import Smoothed, smooth

MOST_K = 0.7  # above it, the error of a weighted mean falls too slowly to be trusted (Vehtari et al. 2024)
_COMFORTABLE_K = 0.3  # wanted of independent judges
_MOST_ROUNDS = 4
_AGAIN = 2  # times as many proposals in further rounds
_MORE = 4  # times as many proposals in the second round
_HALVINGS = 5
_LEAST_TO_LEARN = 5  # effective draws per parameter that a second proposal is made from


class Sample(NamedTuple):
    """Draws with weights."""

    u: np.ndarray
    evaluated: Evaluated
    smoothed: Smoothed


class Refused(NamedTuple):
    """Why another sampler is needed. pareto_k: None where no draws were made."""

    reason: str
    pareto_k: float | None = None


def sample_weighted(
    structure: Structure,
    counts: Counts,
    draws: int,
    least: float,
    rng: np.random.Generator,
    keep: int | None = None,
) -> Sample | Refused:
    """draws: proposals; least: how many must be effective; keep: see `evaluate`.

    Where the weights of the first round will not do, another one has more draws: from the same proposal where too few
    are effective, from one that is made of the first round's draws where k is too large.

    With independent judges every fit has a second round, and more where its weights are not nearly even: in the first
    one's coordinates the posterior is a thin curved surface, whose far ends it may miss without k showing it.
    """
    at = laplace(structure, counts)
    if at is None:
        return Refused("no mode was found")
    proposal = proposal_at(at, structure, counts)
    found = _draw(proposal, structure, counts, draws, rng, keep)
    if structure.judges:
        for number in range(_MOST_ROUNDS):
            found = _from(found, structure, counts, draws if number == 0 else _AGAIN * draws, rng, keep)
            if found.smoothed.pareto_k <= _COMFORTABLE_K and found.smoothed.kish >= least:
                break
    elif not found.smoothed.pareto_k <= MOST_K:
        found = _from(found, structure, counts, _MORE * draws, rng, keep)
    elif found.smoothed.kish < least:
        found = _draw(proposal, structure, counts, _MORE * draws, rng, keep)
    if _usable(found, least):
        return found
    k = found.smoothed.pareto_k
    if k <= MOST_K:
        return Refused(f"{found.smoothed.kish:.0f} effective draws", k)
    return Refused(f"Pareto k is {k:.2f}, above {MOST_K}", k if np.isfinite(k) else None)


def _usable(found: Sample, least: float) -> bool:
    return found.smoothed.pareto_k <= MOST_K and found.smoothed.kish >= least


def _from(
    first: Sample, structure: Structure, counts: Counts, draws: int, rng: np.random.Generator, keep: int | None
) -> Sample:
    """A round whose proposal is made of another round's draws."""
    weights = _tempered(first.smoothed.weights, _LEAST_TO_LEARN * structure.parameters)
    if weights is None:
        return first
    kernels = kernels_at(first.u, weights, structure, rng)
    return _draw(kernels, structure, counts, draws, rng, keep)


def _tempered(weights: np.ndarray, least: float) -> np.ndarray | None:
    """The weights to a power of at most 1, so that `least` draws are effective; None where no power of them will do."""
    for _ in range(_HALVINGS):
        if 1 / float(weights @ weights) >= least:
            return weights
        weights = np.sqrt(weights)
        weights = weights / weights.sum()
    return None


def _draw(
    proposal: Proposal | Kernels,
    structure: Structure,
    counts: Counts,
    draws: int,
    rng: np.random.Generator,
    keep: int | None,
) -> Sample:
    proposed = propose(proposal, draws, rng)
    evaluated = evaluate(proposed.u, structure, counts, keep)
    return Sample(proposed.u, evaluated, smooth(evaluated.lp - proposed.log_q))
