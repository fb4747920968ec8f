"""Beta priors of the model's parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from rat_ray.errors import InputError

Beta = tuple[float, float]
BETAS = ("rho", "alpha0", "alpha1", "tau0", "tau1", "tpr", "fpr", "yes_abstained")
_DRAWS = 20_000
_LEAST, _MOST = 1e-6, 1e9  # of a and b: beyond them, numbers overflow
_PANEL = (("panel_floor", 0.5, _MOST), ("panel_lean", 0.0, _MOST), ("panel_right", 0.5, 1 - 1e-6))
_SEED = 20_260_101


@dataclass(frozen=True)
class Prior:
    """(a, b) of a Beta for each parameter.

    alpha0, tau0: given R = 0; alpha1, tau1: given R = 1. tpr and fpr hold for every judge, jointly restricted to
    tpr > fpr. yes_abstained: a T judge's rate of 1 on abstentions, used only where it judged items whose A is unknown.
    These three are for `independent` judges. A panel has a Dirichlet per state over the combinations of verdicts:
    panel_floor for each, and panel_lean more, shared out as if every verdict were right with probability panel_right.
    """

    rho: Beta = (1.0, 1.0)
    alpha0: Beta = (1.0, 1.0)
    alpha1: Beta = (1.0, 1.0)
    tau0: Beta = (1.0, 1.0)
    tau1: Beta = (1.0, 1.0)
    tpr: Beta = (1.0, 1.0)
    fpr: Beta = (1.0, 1.0)
    yes_abstained: Beta = (1.0, 1.0)
    panel_floor: float = 0.5
    panel_lean: float = 1.0
    panel_right: float = 0.8

    def validate(self) -> None:
        """Raise InputError unless every prior is two positive numbers, neither tiny nor huge."""
        for name in BETAS:
            value = getattr(self, name)
            if not _is_beta(value):
                raise InputError(
                    f"prior.{name} = {value!r}: give two positive numbers, the a and b of a Beta "
                    f"(from {_LEAST:g} to {_MOST:g})"
                )
        # Below 0.5 the sampler has a hard time with combinations that hardly occur.
        for name, low, high in (
            ("panel_floor", 0.5, _MOST),
            ("panel_lean", 0.0, _MOST),
            ("panel_right", 0.5, 1 - 1e-6),
        ):
            value = getattr(self, name)
            if not (_is_number(value) and low <= value <= high):
                raise InputError(f"prior.{name} = {value!r}: give a number from {low:g} to {high:g}")

    @property
    def splits(self) -> list[Beta]:
        """The priors of rho, alpha[0], alpha[1], tau[0], tau[1]."""
        return [tuple(beta) for beta in (self.rho, self.alpha0, self.alpha1, self.tau0, self.tau1)]  # type: ignore[misc]


def beta_moments(beta: Beta) -> dict[str, float]:
    """prior_mean, prior_sd, prior_q2.5 and prior_q97.5 of Beta(a, b)."""
    a, b = beta
    low, high = betaincinv(a, b, [0.025, 0.975]).tolist()
    sd = math.sqrt(a * b / ((a + b) ** 2 * (a + b + 1)))
    return {"prior_mean": a / (a + b), "prior_sd": sd, "prior_q2.5": low, "prior_q97.5": high}


def parameter_draws(prior: Prior, draws: int = _DRAWS) -> tuple[np.ndarray, ...]:
    """Prior draws of rho, alpha0, alpha1, tau0 and tau1, (draws,) each, by numpy with a fixed seed."""
    rng = np.random.default_rng(_SEED)
    return tuple(_draw(rng, beta, draws) for beta in (prior.rho, prior.alpha0, prior.alpha1, prior.tau0, prior.tau1))


def judge_draws(prior: Prior, draws: int = _DRAWS) -> tuple[np.ndarray, np.ndarray]:
    """Prior draws of a judge's (tpr, fpr) given tpr > fpr, by rejection: at most `draws` of them.

    Raises InputError when the prior leaves hardly any.
    """
    rng = np.random.default_rng(_SEED + 1)
    tpr, fpr = _draw(rng, prior.tpr, 10 * draws), _draw(rng, prior.fpr, 10 * draws)
    kept = np.flatnonzero(tpr > fpr)[:draws]
    if len(kept) < draws // 20:
        raise InputError(
            f"prior.tpr {prior.tpr} and prior.fpr {prior.fpr} make a judge that is better than chance (tpr > fpr) "
            "all but impossible; give tpr a larger mean than fpr"
        )
    return tpr[kept], fpr[kept]


def _draw(rng: np.random.Generator, beta: Beta, draws: int) -> np.ndarray:
    a, b = beta
    return rng.beta(a, b, draws)


def _is_beta(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return all(_is_number(x) and _LEAST <= x <= _MOST for x in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
