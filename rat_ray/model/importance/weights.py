"""Pareto-smoothed importance weights (Vehtari, Simpson, Gelman, Yao, Gabry 2024) and what is made of them."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np


class Smoothed(NamedTuple):
    """weights: (draws,), sum 1; pareto_k: the tail's shape, infinite where it cannot be fitted."""

    weights: np.ndarray
    pareto_k: float

    @property
    def kish(self) -> float:
        """Effective draws by Kish (1965): 1 / sum of squared weights."""
        return 1 / float(self.weights @ self.weights)


def smooth(log_ratios: np.ndarray) -> Smoothed:
    """The largest 3 sqrt(draws) ratios (a fifth of few draws) are replaced by quantiles of a Pareto fitted to them."""
    draws = len(log_ratios)
    log_ratios = np.where(np.isnan(log_ratios), -np.inf, log_ratios)
    largest = float(np.max(log_ratios))
    if not math.isfinite(largest):
        return Smoothed(np.full(draws, 1 / draws), math.inf)
    ratios = np.exp(log_ratios - largest)
    tail = min(draws // 5, math.ceil(3 * math.sqrt(draws)))
    place = np.argpartition(ratios, draws - tail - 1)[draws - tail - 1 :]
    place = place[np.argsort(ratios[place], kind="stable")]
    cut, place = float(ratios[place[0]]), place[1:]
    excess = ratios[place] - cut
    k = math.inf
    if tail >= 5 and excess[-1] > 1e-14 and excess[tail // 4] > 0:
        k, sigma = pareto(excess)
        if math.isfinite(k):
            ratios[place] = np.minimum(cut + _quantiles(tail, k, sigma), 1.0)
    elif tail >= 5 and excess[-1] <= 1e-10:
        k = -math.inf  # all ratios are alike: the proposal is the posterior
    return Smoothed(ratios / ratios.sum(), k)


def pareto(x: np.ndarray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution by Zhang and Stephens (2009), the shape drawn towards 0.5
    by a prior worth ten draws. x: (draws,), ascending, not negative.
    """
    n = len(x)
    grid = _grid(n)
    theta = 1 / x[-1] + grid / (3 * x[(n + 2) // 4 - 1])
    shape = np.log1p(-theta[:, None] * x).mean(axis=1)
    profile = n * (np.log(-theta / shape) - shape - 1)
    weight = np.exp(profile - profile.max())
    best = float(weight @ theta / weight.sum())
    k = float(np.log1p(-best * x).mean())
    sigma = -k / best
    return (n * k + 5) / (n + 10), sigma


@lru_cache(maxsize=16)
def _grid(n: int) -> np.ndarray:
    many = 30 + math.isqrt(n)
    return np.asarray(1 - np.sqrt(many / (np.arange(1, many + 1) - 0.5)))


@lru_cache(maxsize=16)
def _survival(tail: int) -> np.ndarray:
    return np.log1p(-(np.arange(1, tail + 1) - 0.5) / tail)


def _quantiles(tail: int, k: float, sigma: float) -> np.ndarray:
    if abs(k) < 1e-12:
        return np.asarray(-sigma * _survival(tail))
    return np.asarray(sigma * np.expm1(-k * _survival(tail)) / k)


class Weighted(NamedTuple):
    """Per quantity: mean, sd, quantiles (levels, quantities) and effective draws."""

    mean: np.ndarray
    sd: np.ndarray
    quantiles: np.ndarray
    ess: np.ndarray


def summarise_weighted(values: np.ndarray, weights: np.ndarray, levels: tuple[float, ...]) -> Weighted:
    """values: (quantities, draws). Effective draws: the posterior variance over the mean's Monte Carlo variance."""
    mean = values @ weights
    squared = (values - mean[:, None]) ** 2
    variance = squared @ weights
    error = squared @ (weights * weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = np.where(error > 0, variance / error, float(len(weights)))
    return Weighted(mean, np.sqrt(variance), weighted_quantiles(values, weights, levels), ess)


def weighted_quantiles(values: np.ndarray, weights: np.ndarray, levels: tuple[float, ...]) -> np.ndarray:
    """(levels, quantities): linear between the midpoints of the weights' steps. values: (quantities, draws)."""
    found = np.empty((len(levels), len(values)))
    for row, some in enumerate(values):
        order = np.argsort(some)
        ascending = weights[order]
        middle = np.cumsum(ascending)
        middle -= ascending / 2
        found[:, row] = np.interp(levels, middle, some[order])
    return found


def systematic(weights: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws,) ascending indices, each as often as its weight says up to one: systematic resampling (Kitagawa 1996)."""
    steps = np.cumsum(weights)
    places = (np.arange(draws) + rng.random()) * (steps[-1] / draws)
    return np.asarray(np.minimum(np.searchsorted(steps, places, side="right"), len(weights) - 1))
