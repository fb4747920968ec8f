"""Allocation tables with chosen numbers: no fits, every error and width as it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rat_ray.tables import ALLOCATION, check_table

Numbers = Callable[[str, float, int], tuple[float | None, float]]
TARGET = 0.5


def row(
    strategy: str, budget: float, replicate: int, error: float | None, width: float = 0.2, **more: Any
) -> dict[str, Any]:
    """One fit of p_g with this error and interval width; error None: it failed. more: other columns."""
    made: dict[str, Any] = {
        "config": "c", "strategy": strategy, "budget": float(budget), "replicate": replicate, "quantity": "p_g",
        "base": 50, "items": 1000, "resampling": "none", "target": "full_table", "target_value": TARGET,
        "cost_r": 1.0, "cost_t": 1.0, "labels_r": int(budget), "labels_t": 0, "cost": float(budget), "status": "fail",
    }  # fmt: skip
    if error is not None:
        mean, half = TARGET + error, width / 2
        made |= {
            "mean": mean, "sd": width / 4, "q2.5": mean - width, "q97.5": mean + width, "finite_q2.5": mean - half,
            "finite_q97.5": mean + half, "width": width, "error": error, "covered": int(abs(error) <= width),
            "finite_covered": int(abs(error) <= half), "sampler": "importance", "pareto_k": 0.1, "ess": 1800.0,
            "status": "ok",
        }  # fmt: skip
    return made | more


def table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """The rows with the schema of an allocation table."""
    made = pa.Table.from_pylist(list(rows), schema=ALLOCATION)
    check_table(made, ALLOCATION, "made-up allocation")
    return made


def study(
    numbers: Numbers, strategies: Sequence[str], budgets: Sequence[float], replicates: int, config: str = "c"
) -> pa.Table:
    """numbers: error and width by strategy, budget and replicate."""
    return table(
        [
            row(strategy, budget, replicate, *numbers(strategy, budget, replicate), config=config)
            for replicate in range(replicates)
            for strategy in strategies
            for budget in budgets
        ]
    )


def like_counts(worth: dict[str, float], seed: int = 1, noise: float = 0.05) -> Numbers:
    """Errors and widths that fall as if a unit of cost bought `worth[strategy]` labels beside a base of 50."""
    shared = np.random.default_rng(seed).normal(size=10_000)

    def numbers(strategy: str, budget: float, replicate: int) -> tuple[float, float]:
        sd = 0.5 / np.sqrt(50 + worth[strategy] * budget)
        drawn = np.random.default_rng([seed, replicate, int(budget), len(strategy)]).normal()
        error = sd * (0.8 * shared[replicate] + 0.6 * drawn)
        return float(error), float(3.92 * sd * (1 + noise * shared[replicate + 5000]))

    return numbers
