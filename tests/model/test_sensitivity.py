"""Power-scaling sensitivity, where the posterior is known exactly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

from rat_ray.model.sensitivity import (
    CONFLICT,
    POWERS,
    STRONG_PRIOR,
    Sensitivity,
    diagnose,
    power_scaling,
)


class Posterior(NamedTuple):
    """Independent draws of a conjugate posterior: (chains, draws) each."""

    values: np.ndarray
    log_prior: np.ndarray
    log_likelihood: np.ndarray

    def sensitivity(self) -> Sensitivity:
        return power_scaling(self.values[:, :, None], self.log_prior, self.log_likelihood)[0]


def _normal(items: int, mean: float, prior_sd: float, seed: int = 1) -> Posterior:
    """A normal mean with prior N(0, prior_sd) after this many observations of sd 1."""
    precision = prior_sd**-2 + items
    x = items * mean / precision + np.random.default_rng(seed).normal(size=(4, 1000)) / np.sqrt(precision)
    return Posterior(x, -0.5 * (x / prior_sd) ** 2, -0.5 * items * (x - mean) ** 2)


def _beta(a: float, b: float, ones: int, zeros: int, seed: int = 1) -> Posterior:
    """A rate with prior Beta(a, b) after so many ones and zeros."""
    x = np.random.default_rng(seed).beta(a + ones, b + zeros, size=(4, 1000))
    logs = np.log(x), np.log1p(-x)
    return Posterior(x, (a - 1) * logs[0] + (b - 1) * logs[1], ones * logs[0] + zeros * logs[1])


def _exact(before: norm, after: norm, low: float, high: float) -> float:
    """The cumulative Jensen-Shannon distance between low and high, the larger of both directions."""
    x = np.linspace(low, high, 20001)
    return max(_cumulative(before.cdf(x), after.cdf(x), x), _cumulative(before.sf(x), after.sf(x), x))


def _cumulative(p: np.ndarray, q: np.ndarray, x: np.ndarray) -> float:
    middle = (p + q) / 2
    divergence = np.trapezoid(p * np.log2(p / middle) + q * np.log2(q / middle), x)
    return float(np.sqrt(divergence / np.trapezoid(p + q, x)))


@pytest.mark.parametrize(("items", "mean", "prior_sd"), [(5, 3.0, 1.0), (1, 0.0, 1.0), (4, -2.0, 0.5)])
def test_the_numbers_are_those_of_the_exactly_scaled_posteriors(items: int, mean: float, prior_sd: float) -> None:
    def scaled(prior_power: float, likelihood_power: float) -> norm:
        prior, data = prior_power * prior_sd**-2, likelihood_power * items
        return norm(data * mean / (prior + data), (prior + data) ** -0.5)

    posterior = _normal(items, mean, prior_sd)
    found = posterior.sensitivity()
    ends = posterior.values.min(), posterior.values.max()
    prior, likelihood = (
        np.mean([_exact(scaled(1, 1), scaled(*powers), *ends) / abs(np.log2(np.prod(powers))) for powers in pair])
        for pair in ([(power, 1) for power in POWERS], [(1, power) for power in POWERS])
    )
    assert found.prior == pytest.approx(prior, rel=0.1)
    assert found.likelihood == pytest.approx(likelihood, rel=0.1)


@pytest.mark.parametrize("posterior", [_normal(5, 3.0, 1.0), _beta(50, 2, 5, 45)], ids=["normal", "beta"])
def test_a_strong_wrong_prior_is_in_conflict_with_the_data(posterior: Posterior) -> None:
    assert posterior.sensitivity().diagnosis == CONFLICT


@pytest.mark.parametrize(
    "posterior",
    [_normal(1000, 0.3, 1.0), _normal(5, 0.2, 10.0), _beta(2, 2, 300, 700)],
    ids=["normal", "wide prior", "beta"],
)
def test_data_that_outweigh_the_prior_are_all_well(posterior: Posterior) -> None:
    found = posterior.sensitivity()
    assert (found.prior or 0) < 0.02
    assert (found.likelihood or 0) > 0.05
    assert found.diagnosis is None


def test_a_quantity_that_only_the_prior_informs() -> None:
    data, alone = _normal(100, 0.5, 1.0), _beta(5, 5, 0, 0, seed=2)
    values = np.stack([data.values, alone.values], axis=2)
    informed, uninformed = power_scaling(values, data.log_prior + alone.log_prior, data.log_likelihood)
    assert informed.diagnosis is None
    assert uninformed.diagnosis == STRONG_PRIOR
    assert (uninformed.likelihood or 1) < 0.02


def test_a_flat_prior_has_no_influence_and_no_data_have_none() -> None:
    flat = _beta(1, 1, 3, 7)
    assert np.ptp(flat.log_prior) == 0
    assert flat.sensitivity().prior == 0
    assert flat._replace(log_prior=flat.log_prior + 1e-12 * flat.values).sensitivity().prior == 0
    unseen = _beta(5, 5, 0, 0).sensitivity()
    assert unseen.likelihood == 0
    assert unseen.diagnosis == STRONG_PRIOR


def test_an_added_constant_changes_nothing() -> None:
    posterior = _beta(3, 2, 5, 9)
    moved = posterior._replace(log_likelihood=posterior.log_likelihood - 1e6, log_prior=posterior.log_prior + 50)
    assert moved.sensitivity()[:2] == pytest.approx(posterior.sensitivity()[:2], rel=1e-6)


def test_a_constant_quantity_and_one_that_is_not_finite_have_none() -> None:
    posterior = _normal(5, 1.0, 1.0)
    constant, broken = np.full((4, 1000), 0.5), posterior.values.copy()
    constant[0, 0] += 1e-16
    broken[1, 1] = np.nan
    values = np.stack([constant, posterior.values, broken], axis=2)
    found = power_scaling(values, posterior.log_prior, posterior.log_likelihood)
    assert found[0] == found[2] == Sensitivity(None, None, None)
    assert found[1] == posterior.sensitivity()


def test_a_density_that_is_not_finite_is_unknown_and_the_other_one_is_not() -> None:
    posterior = _normal(5, 3.0, 1.0)
    log_prior = posterior.log_prior.copy()
    log_prior[2, 3] = -np.inf
    found = posterior._replace(log_prior=log_prior).sensitivity()
    assert found == Sensitivity(None, posterior.sensitivity().likelihood, None)


def test_equal_weights_in_the_tail_need_no_smoothing() -> None:
    posterior = _normal(5, 1.0, 1.0)
    tied = np.clip(posterior.log_prior, np.quantile(posterior.log_prior, 0.3), np.quantile(posterior.log_prior, 0.6))
    found = posterior._replace(log_prior=tied).sensitivity()
    assert found.prior is not None
    assert 0 < found.prior < (posterior.sensitivity().prior or 0)


@pytest.mark.parametrize("shape", [(1, 4000), (2, 100), (4, 25)])
def test_few_draws_give_finite_numbers(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(4).normal(size=shape)
    found = Posterior(x, -0.5 * x**2, -2 * (x - 1) ** 2).sensitivity()
    assert None not in found[:2]
    assert np.isfinite([found.prior, found.likelihood]).all()


def test_no_quantity() -> None:
    assert power_scaling(np.zeros((4, 100, 0)), np.zeros((4, 100)), np.zeros((4, 100))) == []


def test_the_papers_reading() -> None:
    assert diagnose(0.06, 0.06) == CONFLICT
    assert diagnose(0.06, 0.04) == STRONG_PRIOR
    assert diagnose(0.04, 0.06) is None
    assert diagnose(0.04, 0.01) is None
    assert diagnose(None, 0.06) is None
    assert diagnose(0.06, None) is None
