"""The allocation table condensed to a point per configuration, strategy and budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa


class StudyPoint(NamedTuple):
    """Over the replicates of one cell: errors and interval widths of one quantity, with Monte Carlo standard errors.

    replicates: those that count; failed: those without an estimate. A standard error of one replicate is None.
    """

    config: str
    strategy: str
    budget: int
    replicates: int
    failed: int
    rmse: float
    rmse_se: float | None
    width: float | None
    width_se: float | None
    covered: float | None


def study_points(allocation: pa.Table, quantity: str = "p_g") -> list[StudyPoint]:
    """A point per configuration, strategy and budget of a table with the `tables.ALLOCATION` schema.

    RMSE = sqrt(mean(error^2)); its standard error by the delta method, sd(error^2) / sqrt(n) / (2 RMSE).
    Cells in which every replicate failed are left out.
    """
    cells: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    for row in allocation.to_pylist():
        if row["quantity"] == quantity:
            cells.setdefault((row["config"], row["strategy"], row["budget"]), []).append(row)
    return [point for cell, rows in cells.items() if (point := _point(cell, rows)) is not None]


def _point(cell: tuple[str, str, int], rows: list[dict[str, Any]]) -> StudyPoint | None:
    usable = [row for row in rows if row["error"] is not None]
    if not usable:
        return None
    squares = [row["error"] ** 2 for row in usable]
    widths = [row["q97.5"] - row["q2.5"] for row in usable if row["q2.5"] is not None and row["q97.5"] is not None]
    covered = [row["covered"] for row in usable if row["covered"] is not None]
    rmse = math.sqrt(sum(squares) / len(squares))
    square_se = _standard_error(squares)
    return StudyPoint(
        *cell,
        replicates=len(usable),
        failed=len(rows) - len(usable),
        rmse=rmse,
        rmse_se=None if square_se is None or rmse == 0 else square_se / (2 * rmse),
        width=_mean(widths),
        width_se=_standard_error(widths),
        covered=_mean(covered),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _standard_error(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
