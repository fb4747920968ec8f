"""Importance sampling around the mode, with NUTS for the fits that it refuses: for thousands of small fits."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rat_ray.model.engines import IMPORTANCE, Draws, EngineSettings, StanData
from rat_ray.model.engines import stanli as nuts
from rat_ray.model.importance.columns import Columns
from rat_ray.model.importance.joint import Joint, joint_of
from rat_ray.model.importance.points import point_of
from rat_ray.model.importance.sampling import Refused, Sample, sample_weighted
from rat_ray.model.importance.structure import Builder, Counts, Structure, TooManyTerms, counts_of
from rat_ray.model.importance.trees import tree_for
from rat_ray.model.importance.weights import systematic

PROPOSALS_PER_DRAW = 4
LEAST_PER_DRAW = 0.5  # effective draws


def sample(program: Path, data: StanData, seed: int, settings: EngineSettings) -> Draws:
    """Draws of equal weight; by NUTS, with the same settings, where the weights are too uneven.

    Each chain is resampled from a block of proposals of its own, in their order, so that repeated draws stand next to
    each other and the ordinary diagnostics of chains count them. Raises RuntimeError as NUTS does.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    found = _weighted(data, settings, rng)
    if isinstance(found, Resampling):
        return _resampled(found, data, settings, rng, start)
    pareto_k = None if found is None else found.pareto_k
    drawn = nuts.sample(program, data, seed, replace(settings, kind="stanli"))
    return drawn._replace(pareto_k=pareto_k)


class Resampling(NamedTuple):
    """joint: where a panel is part of the tree."""

    sample: Sample
    structure: Structure
    counts: Counts
    joint: Joint | None


def _weighted(data: StanData, settings: EngineSettings, rng: np.random.Generator) -> Resampling | Refused | None:
    """None where the model has too many terms."""
    joint = joint_of(data)
    try:
        structure = (Builder(data, tree_for(data)) if joint is None else Builder(joint.data, joint.tree)).structure()
    except TooManyTerms:
        return None
    counts = counts_of(data if joint is None else joint.data, structure)
    kept = settings.chains * settings.samples
    found = sample_weighted(structure, counts, PROPOSALS_PER_DRAW * kept, LEAST_PER_DRAW * kept, rng, keep=0)
    return found if isinstance(found, Refused) else Resampling(found, structure, counts, joint)


def _resampled(
    found: Resampling, data: StanData, settings: EngineSettings, rng: np.random.Generator, start: float
) -> Draws:
    shape = (settings.chains, settings.samples)
    smoothed = found.sample.smoothed
    blocks = smoothed.weights.reshape(settings.chains, -1)
    rows = [chain * blocks.shape[1] + systematic(block, shape[1], rng) for chain, block in enumerate(blocks)]
    u = found.sample.u[:, np.concatenate(rows)]
    columns = Columns(data, point_of(data, found.structure, found.counts, found.joint, u), rng).all()
    by_name = dict(columns)
    lp = sum(by_name[name] for name in ("log_prior", "log_jacobian", "log_likelihood"))
    nothing = np.zeros(shape)
    k = smoothed.pareto_k
    return Draws(
        names=[name for name, _ in columns],
        values=np.stack([values for _, values in columns], axis=1).reshape(*shape, -1),
        lp=np.asarray(lp).reshape(shape),
        divergent=nothing,
        treedepth=nothing,
        energy=nothing,
        seconds=time.perf_counter() - start,
        sampler=IMPORTANCE,
        pareto_k=k if np.isfinite(k) else None,
    )
