"""How many trusted labels a judge's labels are worth: read off the curve of fits without a judge."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rat_ray.seeds import seed_for

BOOTSTRAPS = 200
_INTERVAL = (0.025, 0.975)
_PRIOR = 2.0  # a uniform prior is worth two labels; keeps no labels at all on the scale


class Worth(NamedTuple):
    """Trusted labels without a judge that do as well, minus those used. None: outside what was tried.

    low, high: 95 % by the bootstrap over replicates, None where that end lies outside.
    """

    labels: float | None
    low: float | None
    high: float | None


NOTHING = Worth(None, None, None)


@lru_cache(maxsize=4)
def resample(replicates: int) -> np.ndarray:
    """(BOOTSTRAPS, replicates): how often each replicate is drawn."""
    rng = np.random.default_rng(seed_for(0, "judge_worth", replicates))
    return rng.multinomial(replicates, np.full(replicates, 1 / replicates), size=BOOTSTRAPS)


def worth_of(curve: Mapping[int, np.ndarray], with_judge: np.ndarray, used: int) -> Worth:
    """Where the curve has the judge's value.

    curve: by number of trusted labels, the value of each replicate without a judge, NaN where the fit failed: squared
    width or squared error; with_judge: (replicates,) the same with `used` trusted labels and the judge. Squares of
    both are about linear in 1/n - 1/N for a share among N items, so that is how they are interpolated. Replicates are
    drawn together for curve and judge, since both have the same labels in each.
    """
    numbers = np.array(sorted(curve))
    values = np.stack([curve[number] for number in numbers.tolist()], axis=1)
    everything = np.concatenate([values, with_judge[:, None]], axis=1)
    counts = np.concatenate([np.ones((1, len(with_judge)), dtype=np.int64), resample(len(with_judge))])
    means = _means(everything, counts)
    if len(numbers) < 2 or np.isnan(means[0]).any():
        return NOTHING
    found = np.array([_equivalent(numbers, one[:-1], one[-1]) for one in means[~np.isnan(means).any(axis=1)]]) - used
    if len(with_judge) < 2:
        return Worth(_finite(found[0]), None, None)
    # Ends of draws that lie outside are infinite; no average of two draws, which could be of two infinities.
    low, high = (np.quantile(found[1:], q, method="nearest") for q in _INTERVAL)
    return Worth(_finite(found[0]), _finite(low), _finite(high))


def _means(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(draws, cells): the mean over the replicates that did not fail; NaN without any."""
    there = ~np.isnan(values)
    total = counts @ there
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((counts @ np.where(there, values, 0.0)) / np.where(total == 0, np.nan, total))


def _equivalent(numbers: np.ndarray, curve: np.ndarray, value: float) -> float:
    falling = np.minimum.accumulate(curve)  # noise makes no label worth less than none
    if value > falling[0]:
        return -np.inf
    if value < falling[-1]:
        return np.inf
    inverse = np.interp(value, falling[::-1], 1 / (numbers[::-1] + _PRIOR))
    return float(1 / inverse - _PRIOR)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
