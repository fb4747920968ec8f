"""How much a posterior depends on its prior and on its data: power-scaling sensitivity, without a second fit.

The prior (or the likelihood) is raised to a power near 1 by Pareto-smoothed importance weights on the draws. The
sensitivity is how fast the posterior's distribution moves away with that power: the cumulative Jensen-Shannon distance
per doubling, at 1 (Kallioinen, Paananen, Buerkner, Vehtari 2024, doi:10.1007/s11222-023-10366-5). By `arviz-stats`.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from rat_ray.model.diagnostics import array_stats, varies

# The default powers and threshold of the authors' `priorsense` and of ArviZ's `psense`.
POWERS = (0.99, 1.01)
THRESHOLD = 0.05
CONFLICT, STRONG_PRIOR = "prior-data conflict", "weak likelihood / strong prior"
# Raised to a power near 1, a density that varies less than this (in logs) gives equal weights but for rounding.
_FLAT = 1e-6


class Sensitivity(NamedTuple):
    """Of one quantity. None: unknown, as it is constant or something is not finite. diagnosis: None if all is well."""

    prior: float | None
    likelihood: float | None
    diagnosis: str | None


def power_scaling(
    values: np.ndarray,
    log_prior: np.ndarray,
    log_likelihood: np.ndarray,
    powers: tuple[float, float] = POWERS,
) -> list[Sensitivity]:
    """One per quantity. values: (chains, draws, quantities); log_*: (chains, draws), each up to a constant.

    log_prior is the prior's density of the parameters themselves, without the Jacobian of the sampler's scale. A flat
    prior to any power is the same prior: its sensitivity is 0, also where nothing else informs the quantity, and that
    of a Beta(2, 2) which nothing else informs is just below the threshold. What data inform is `identify`'s to say.
    """
    usable = np.flatnonzero(varies(values)).tolist()
    moved = np.moveaxis(values[:, :, usable], 2, 0)
    found = [Sensitivity(None, None, None)] * values.shape[2]
    pairs = zip(_sensitivity(moved, log_prior, powers), _sensitivity(moved, log_likelihood, powers), strict=True)
    for index, (prior, likelihood) in zip(usable, pairs, strict=True):
        found[index] = Sensitivity(prior, likelihood, diagnose(prior, likelihood))
    return found


def diagnose(prior: float | None, likelihood: float | None) -> str | None:
    """The paper's reading of the two sensitivities."""
    if prior is None or likelihood is None or prior <= THRESHOLD:
        return None
    return CONFLICT if likelihood > THRESHOLD else STRONG_PRIOR


def _sensitivity(values: np.ndarray, log_density: np.ndarray, powers: tuple[float, float]) -> list[float | None]:
    """To one component. values: (quantities, chains, draws)."""
    if not np.isfinite(log_density).all():
        return [None] * len(values)
    if np.ptp(log_density) < _FLAT:
        return [0.0] * len(values)
    lower, upper = (np.broadcast_to(_weights(log_density, power), values.shape) for power in powers)
    found = array_stats().power_scale_sense(values, lower, upper, *powers, chain_axis=-2, draw_axis=-1)
    return [float(one) if np.isfinite(one) else None for one in found]


def _weights(log_density: np.ndarray, power: float) -> np.ndarray:
    """(chains, draws): Pareto-smoothed importance weights that raise one component of the posterior to the power."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # about the length of a short tail
        try:
            return np.asarray(np.exp(array_stats().power_scale_lw(log_density, alpha=power, axis=(0, 1))))
        except ValueError:  # all weights of the tail are equal: there is nothing to smooth
            logs = (power - 1) * log_density
            return np.asarray(np.exp(logs - logs.max()))
