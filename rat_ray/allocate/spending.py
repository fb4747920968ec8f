"""Which labels a replicate sees: the base, what the budget buys, and A everywhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.population import Population, counts_of, drawn_from
from rat_ray.allocate.settings import BOOTSTRAP, StudySettings
from rat_ray.allocate.strategies import Items, strategy_of
from rat_ray.model.patterns import MISSING
from rat_ray.seeds import seed_for

_ROUNDING = 1e-9  # ten labels at .1 cost 1


class Replicate(NamedTuple):
    """The items of one replicate in the order in which money reaches them, the base first. (items,) each.

    r, a, t: of 0, 1 or MISSING; chance: each item's own random number; base: how many items have all their labels.
    """

    r: np.ndarray
    a: np.ndarray
    t: np.ndarray
    chance: np.ndarray
    base: int


class Spending(NamedTuple):
    """What a strategy buys beyond the base of a replicate, item by item, if money never ends.

    r, t: (items beyond the base,) of booleans; spent: what has been paid when an item is done with; needed: the budget
    that it takes to come to an item, which is what it and those before could have cost at most when they were begun.
    """

    r: np.ndarray
    t: np.ndarray
    spent: np.ndarray
    needed: np.ndarray


class Bought(NamedTuple):
    """What a budget buys. n: (patterns,), how often the fit sees each of `population.PATTERNS`; the rest: beyond the
    base only."""

    n: np.ndarray
    labels_r: int
    labels_t: int
    cost: float


def replicate_of(population: Population | None, settings: StudySettings, replicate: int) -> Replicate:
    """One replicate: its items, their order and its base. population: None where new items come from a truth.

    It depends on the seed, the configuration, the replicate and the items alone, never on the order of the table's rows
    or on what else is studied.
    """
    rng = np.random.default_rng(seed_for(settings.seed, "allocation", settings.config, replicate))
    if settings.truth is not None:
        population = drawn_from(settings.truth, settings.items, rng)
    assert population is not None
    items = len(population.a)
    order = rng.integers(0, items, items) if settings.resampling == BOOTSTRAP else rng.permutation(items)
    chance = rng.random(items)
    complete = population.complete[order]
    base = min(settings.base, int(complete.sum()))  # of a bootstrap some tables have fewer complete items
    first = np.zeros(items, dtype=bool)
    first[np.flatnonzero(complete)[:base]] = True
    place = np.argsort(~first, kind="stable")
    order = order[place]
    return Replicate(population.r[order], population.a[order], population.t[order], chance[place], base)


def spending_of(replicate: Replicate, strategy: str, costs: Costs) -> Spending:
    """Go down the items beyond the base with the strategy. A label that does not exist is not bought."""
    items = Items(*(part[replicate.base :] for part in replicate[:4]))
    buys_r, buys_t = _buys(items, strategy)
    cost = _cost(buys_r, buys_t, costs)
    spent = np.cumsum(cost)
    return Spending(buys_r, buys_t, spent, np.maximum.accumulate(spent - cost + _most(items, strategy, costs)))


def buy(replicate: Replicate, spending: Spending, budget: float) -> Bought:
    """Label the base, then go on until the next item might not fit into the budget, whatever its labels turn out to be.

    Where the last item's cost decided, an adaptive strategy would end with a cheap one (T = 0) and leave out a dear one
    (T = 1): which labels are missing would depend on labels that nobody sees. A larger budget extends a smaller one;
    the cost never exceeds it.
    """
    base = replicate.base
    reached = int(np.searchsorted(spending.needed, budget + _ROUNDING, side="right"))
    buys_r, buys_t = spending.r[:reached], spending.t[:reached]
    r, t = np.full(len(replicate.r), MISSING, dtype=np.int8), np.full(len(replicate.t), MISSING, dtype=np.int8)
    end = base + reached
    r[:base], t[:base] = replicate.r[:base], replicate.t[:base]
    r[base:end] = np.where(buys_r, replicate.r[base:end], MISSING)
    t[base:end] = np.where(buys_t, replicate.t[base:end], MISSING)
    return Bought(
        n=counts_of(r, replicate.a, t),
        labels_r=int(buys_r.sum()),
        labels_t=int(buys_t.sum()),
        cost=float(spending.spent[reached - 1]) if reached else 0.0,
    )


def _buys(items: Items, strategy: str) -> tuple[np.ndarray, np.ndarray]:
    """(items,) whether R, and whether T, is bought of each."""
    wanted = strategy_of(strategy)(items)
    return wanted.r & (items.r != MISSING), wanted.t & (items.a == 0) & (items.t != MISSING)


def _cost(buys_r: np.ndarray, buys_t: np.ndarray, costs: Costs) -> np.ndarray:
    return np.asarray(costs.r * buys_r + costs.t * buys_t)


def _most(items: Items, strategy: str, costs: Costs) -> np.ndarray:
    """(items,) what each can cost, as far as one knows before its labels."""
    possible = [
        items._replace(
            r=np.where(items.r == MISSING, MISSING, r).astype(np.int8),
            t=np.where(items.t == MISSING, MISSING, t).astype(np.int8),
        )
        for r in (0, 1)
        for t in (0, 1)
    ]
    return np.asarray(np.max([_cost(*_buys(one, strategy), costs) for one in possible], axis=0))
