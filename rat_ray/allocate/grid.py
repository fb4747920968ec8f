"""A study of one quantity as arrays, and its replicates drawn anew to see how far its findings would vary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.cells import values_of
from rat_ray.allocate.summary import configs_of
from rat_ray.seeds import seed_for

RESAMPLES = 1000
_SEED = 20260101  # resampling is part of how a result is described, not of the study: one seed for all


class Grid(NamedTuple):
    """One configuration's study of one quantity.

    cost, square, width: (strategies, budgets, replicates); squared errors and widths are NaN where a fit failed.
    """

    strategies: tuple[str, ...]
    budgets: tuple[float, ...]
    cost: np.ndarray
    square: np.ndarray
    width: np.ndarray


class Means(NamedTuple):
    """(resamples, strategies, budgets): means over the replicates; the first resample is the study itself."""

    cost: np.ndarray
    square: np.ndarray
    width: np.ndarray


def grids(allocation: pa.Table, quantity: str) -> dict[str, Grid]:
    """A Grid per configuration; budgets ascend."""
    rows = allocation.filter(pc.equal(allocation.column("quantity"), quantity))
    strategies = tuple(str(name) for name in pc.unique(rows.column("strategy")).to_pylist())
    budgets = tuple(sorted(float(budget) for budget in pc.unique(rows.column("budget")).to_pylist()))
    return {
        config: _grid(rows.filter(pc.equal(rows.column("config"), config)), strategies, budgets)
        for config in configs_of(rows)
    }


def resampled(config: str, grid: Grid, resamples: int = RESAMPLES) -> Means:
    """Means over the replicates, and over as many drawn with replacement, again and again.

    A replicate is drawn with all its strategies and budgets, which share its base and its order of items: what they
    have in common cancels where they are compared. One replicate says nothing of how others vary: it is not drawn anew.
    """
    replicates = grid.cost.shape[2]
    resamples = resamples if replicates > 1 else 0
    drawn = np.random.default_rng(seed_for(_SEED, "resampled", config, replicates))
    weights = drawn.multinomial(replicates, np.full(replicates, 1 / replicates), size=resamples).astype(float)
    weights = np.concatenate([np.ones((1, replicates)), weights])
    return Means(*(_means(values, weights) for values in (grid.cost, grid.square, grid.width)))


def pooled_means(found: Mapping[str, Means]) -> Means:
    """Means over the configurations, each drawn anew by itself."""
    return Means(*(np.mean([one[part] for one in found.values()], axis=0) for part in range(len(Means._fields))))


def _grid(rows: pa.Table, strategies: tuple[str, ...], budgets: tuple[float, ...]) -> Grid:
    replicates = rows.column("replicate").to_numpy()
    names, replicate = np.unique(replicates, return_inverse=True)
    strategy = pc.index_in(rows.column("strategy"), pa.array(strategies)).to_numpy()
    budget = np.searchsorted(np.array(budgets), values_of(rows, "budget"))
    parts = []
    for values in (values_of(rows, "cost"), values_of(rows, "error") ** 2, values_of(rows, "width")):
        grid = np.full((len(strategies), len(budgets), len(names)), np.nan)
        grid[strategy, budget, replicate] = values
        parts.append(grid)
    return Grid(strategies, budgets, *parts)


def _means(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(resamples, strategies, budgets) of (strategies, budgets, replicates) values, those that are NaN left out."""
    there = ~np.isnan(values)
    flat = np.where(there, values, 0.0).reshape(-1, values.shape[2])
    added = weights @ flat.T
    if there.all():
        count = np.broadcast_to(weights.sum(axis=1)[:, None], added.shape)
    else:
        count = weights @ there.astype(float).reshape(flat.shape).T
    means = np.divide(added, count, out=np.full(added.shape, np.nan), where=count > 0)
    return np.asarray(means.reshape(len(weights), *values.shape[:2]))
