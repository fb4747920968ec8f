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
# Prior's a plus known false positives. With none, an independent judge's fpr may be 0, and its lower tail, far from the
# mode and tied to all other rates, is sampled too thinly, which Pareto k does not notice: of 40 study tables, the two
# with interval ends that disagreed with NUTS by more than 3.6 Monte Carlo errors were such (the rule was made after
# looking at these tables).
_LEAST_FALSE = 1.5
_COMFORTABLE_K = 0.5  # the variance of the weights exists
_MORE = 4  # times as many proposals in the second round
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

    Where the weights of the first round will not do there is a second one, with more draws: from the same proposal
    where too few of its draws are effective, from one that is made of the first round's draws where k is too large.
    With independent judges k is wanted below 0.5 at first: the margins of their verdicts are known so well that the
    posterior lies along a thin curved surface, which the second proposal follows.
    """
    false = counts.powers[structure.fpr : structure.fpr + structure.judges]
    if len(false) and float(false.min()) < _LEAST_FALSE:
        return Refused("an independent judge was never known to say 1 where the truth is 0")
    at = laplace(structure, counts)
    if at is None:
        return Refused("no mode was found")
    proposal = proposal_at(at, structure, counts)
    if structure.judges:
        found = _draw(proposal, structure, counts, draws, rng, keep)
        if not (found.smoothed.pareto_k <= _COMFORTABLE_K and found.smoothed.kish >= least):
            found = _from(found, structure, counts, draws, rng, keep)
        if not _usable(found, least):
            found = _from(found, structure, counts, _MORE * draws, rng, keep)
    else:
        found = _draw(proposal, structure, counts, draws, rng, keep)
        if not found.smoothed.pareto_k <= MOST_K:
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
    """A round whose proposal is made of another round's draws, where these are enough."""
    if first.smoothed.kish < _LEAST_TO_LEARN * structure.parameters:
        return first
    kernels = kernels_at(first.u, first.smoothed.weights, rng)
    return _draw(kernels, structure, counts, draws, rng, keep)


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
