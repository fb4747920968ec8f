"""Which labels a replicate sees: the base, what the budget buys, and A everywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.allocate.population import Population
from rat_ray.allocate.settings import StudySettings
from rat_ray.allocate.strategies import STRATEGIES, Items
from rat_ray.model.patterns import MISSING
from rat_ray.tables import LABEL

_ROUNDING = 1e-9  # ten labels at .1 cost 1


class Bought(NamedTuple):
    """r, t: (items,) of booleans, labelled in the base or beyond. labels_r, labels_t, cost: beyond the base only."""

    r: np.ndarray
    t: np.ndarray
    labels_r: int
    labels_t: int
    cost: float


def buy(population: Population, order: np.ndarray, strategy: str, budget: float, settings: StudySettings) -> Bought:
    """Label the base, then go down the order with the strategy until the next item does not fit into the budget.

    order: (items,) indices into the population. A larger budget extends a smaller one; the cost never exceeds it.
    """
    base, rest = order[: settings.base], order[settings.base :]
    wanted = STRATEGIES[strategy](Items(population.r[rest], population.a[rest], population.t[rest]))
    want_t = wanted.t & (population.a[rest] == 0)
    spent = np.cumsum(settings.cost_r * wanted.r + settings.cost_t * want_t)
    reached = int(np.searchsorted(spent, budget + _ROUNDING, side="right"))
    bought_r, bought_t = rest[:reached][wanted.r[:reached]], rest[:reached][want_t[:reached]]
    answered = population.a == 0
    return Bought(
        r=_mask(len(order), base, bought_r),
        t=_mask(len(order), base, bought_t) & answered,
        labels_r=len(bought_r),
        labels_t=len(bought_t),
        cost=float(spent[reached - 1]) if reached else 0.0,
    )


def visible(population: Population, bought: Bought) -> pa.Table:
    """The labels that the fit gets: columns r, a, t; a is there for every item."""
    return pa.table(
        {
            "r": _labels(population.r, bought.r),
            "a": _labels(population.a, np.ones(len(population.a), dtype=bool)),
            "t": _labels(population.t, bought.t),
        }
    )


def _mask(items: int, *chosen: np.ndarray) -> np.ndarray:
    mask = np.zeros(items, dtype=bool)
    for indices in chosen:
        mask[indices] = True
    return mask


def _labels(values: np.ndarray, shown: np.ndarray) -> pa.Array:
    return pa.array(values, type=LABEL, mask=~shown | (values == MISSING))
