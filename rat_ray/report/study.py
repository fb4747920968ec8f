"""The allocation table condensed to a point per configuration, strategy and budget, and to a best strategy each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.summary import configs_of, paired, pooled_name, reference_of, summarise


class StudyPoint(NamedTuple):
    """Over the replicates of one cell: errors and interval widths of one quantity, with Monte Carlo standard errors.

    cost: what was spent beyond the base, on average. replicates: those that count; failed: those without an estimate.
    A standard error of one replicate is None.
    """

    config: str
    strategy: str
    budget: float
    cost: float | None
    replicates: int
    failed: int
    rmse: float
    rmse_se: float | None
    width: float | None
    width_se: float | None
    covered: float | None
    covered_se: float | None


class Best(NamedTuple):
    """One configuration at its largest budget: the strategy with the least error, and how it fares against another.

    rmse, against_rmse: of the best, and of `against`. difference, difference_se: in mean squared error, paired by
    replicate; None where `against` is the best, or was not studied.
    """

    config: str
    budget: float
    best: StudyPoint
    against: StudyPoint | None
    difference: float | None
    difference_se: float | None

    @property
    def beyond_error(self) -> bool:
        """Whether the best is better than `against` by two standard errors or more."""
        return (
            self.difference is not None and self.difference_se is not None and self.difference < -2 * self.difference_se
        )


def study_points(allocation: pa.Table, quantity: str = "p_g") -> list[StudyPoint]:
    """A point per configuration, strategy and budget of a table with the `tables.ALLOCATION` schema.

    Where there are several configurations, points over all of them follow. Cells in which every replicate failed are
    left out. The numbers are those of `allocate.summarise`.
    """
    found = summarise(allocation.filter(pc.field("quantity") == quantity)).to_pylist()
    return [
        StudyPoint(
            config=cell["config"],
            strategy=cell["strategy"],
            budget=cell["budget"],
            cost=cell["cost"],
            replicates=cell["replicates"],
            failed=cell["failed"],
            rmse=cell["rmse"],
            rmse_se=cell["rmse_se"],
            width=cell["width"],
            width_se=cell["width_se"],
            covered=cell["coverage"],
            covered_se=cell["coverage_se"],
        )
        for cell in found
        if cell["rmse"] is not None
    ]


def points_of(points: Sequence[StudyPoint], config: str) -> list[StudyPoint]:
    """Those of one configuration."""
    return [point for point in points if point.config == config]


def pooled_config(allocation: pa.Table) -> str | None:
    """The name of the points over all configurations; None where there is only one."""
    return pooled_name(configs_of(allocation))


def best_strategies(allocation: pa.Table, quantity: str = "p_g") -> list[Best]:
    """A Best per configuration, then over all of them; none where nothing was estimated."""
    rows = allocation.filter(pc.field("quantity") == quantity)
    against = reference_of(rows)
    differences = {
        (row["config"], row["strategy"], row["budget"]): (row["mse_difference"], row["mse_difference_se"])
        for row in paired(rows, against).to_pylist()
    }
    points = study_points(rows, quantity)
    found = []
    for config in dict.fromkeys(point.config for point in points):
        mine = points_of(points, config)
        budget = max(point.budget for point in mine)
        last = [point for point in mine if point.budget == budget]
        best = min(last, key=lambda point: point.rmse)
        other = next((point for point in last if point.strategy == against), None)
        difference, error = differences.get((config, best.strategy, budget), (None, None))
        found.append(Best(config, budget, best, other, difference, error))
    return found
