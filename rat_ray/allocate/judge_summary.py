"""A judge study in short: error, width, coverage, and how many trusted labels a judge's labels are worth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from rat_ray.allocate.judge_worth import NOTHING, Worth, worth_of
from rat_ray.tables import JUDGE_STUDY

CELL = ("config", "judge", "judge_model", "judge_labels", "trusted_labels", "quantity")
_MEANS = ("rmse", "rmse_se", "width", "width_se", "coverage", "coverage_se")
_WORTH = ("worth", "worth_low", "worth_high", "worth_rmse", "worth_rmse_low", "worth_rmse_high")

# replicates: those with an estimate; failed: those without; nuts: those that NUTS sampled. *_se: of Monte Carlo, null
# with fewer than two replicates. width_alone: without a judge, with the same trusted labels. worth: by width,
# worth_rmse: by error; null where the curve without a judge does not reach (`judge_worth`).
JUDGE_SUMMARY = pa.schema(
    [
        *(JUDGE_STUDY.field(name) for name in CELL),
        JUDGE_STUDY.field("items"),
        JUDGE_STUDY.field("target_value"),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("replicates", "failed", "nuts")),
        *(pa.field(name, pa.float64()) for name in (*_MEANS, "width_alone", *_WORTH)),
    ]
)


def summarise(study: pa.Table) -> pa.Table:
    """One row (schema JUDGE_SUMMARY) per cell of the table (schema JUDGE_STUDY), in the order of the table.

    RMSE = sqrt(mean(error^2)); its standard error by the delta method, sd(error^2) / sqrt(n) / (2 RMSE).
    Those of width and coverage are sd / sqrt(n).
    """
    columns = {name: study.column(name).to_pylist() for name in study.schema.names}
    cells: dict[tuple[Any, ...], list[int]] = {}
    for row, cell in enumerate(zip(*(columns[name] for name in CELL), strict=True)):
        cells.setdefault(cell, []).append(row)
    alone: dict[tuple[Any, ...], dict[int, list[int]]] = defaultdict(dict)
    for cell, rows in cells.items():
        named = dict(zip(CELL, cell, strict=True))
        if named["judge_labels"] == 0:
            alone[_curve_of(named)][named["trusted_labels"]] = rows
    values = {name: np.array(columns[name], dtype=float) for name in ("error", "width", "covered")}
    made = []
    for cell, rows in cells.items():
        named = dict(zip(CELL, cell, strict=True))
        mine = {name: column[rows] for name, column in values.items()}
        failed = int(np.isnan(mine["width"]).sum())
        facts = {
            **named,
            "items": columns["items"][rows[0]],
            "target_value": columns["target_value"][rows[0]],
            "replicates": len(rows) - failed,
            "failed": failed,
            "nuts": sum(columns["sampler"][row] == "nuts" for row in rows),
        }
        compared = _compare(alone[_curve_of(named)], rows, named, columns["replicate"], values)
        made.append({**facts, **_moments(mine), **compared})
    return pa.Table.from_pylist(made, schema=JUDGE_SUMMARY)


def main_quantity(names: list[str]) -> str:
    """What a figure or a short table shows: P(G=1) where the labels settle it."""
    return next((name for name in ("p_g", "p_t", "rho") if name in names), names[0])


def _moments(values: Mapping[str, np.ndarray]) -> dict[str, float | None]:
    square, square_se = _mean(values["error"] ** 2)
    width, width_se = _mean(values["width"])
    coverage, coverage_se = _mean(values["covered"])
    rmse = None if square is None else float(np.sqrt(square))
    rmse_se = square_se / (2 * rmse) if rmse and square_se is not None else None
    return dict(zip(_MEANS, (rmse, rmse_se, width, width_se, coverage, coverage_se), strict=True))


def _mean(values: np.ndarray) -> tuple[float | None, float | None]:
    known = values[~np.isnan(values)]
    if not len(known):
        return None, None
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else None
    return float(known.mean()), error


def _curve_of(cell: Mapping[str, Any]) -> tuple[Any, ...]:
    """What cells must have in common to be compared."""
    return tuple(cell[name] for name in ("config", "judge", "judge_model", "quantity"))


def _compare(
    alone: Mapping[int, list[int]],
    own: list[int],
    cell: Mapping[str, Any],
    replicate: list[int],
    values: Mapping[str, np.ndarray],
) -> dict[str, float | None]:
    """The same trusted labels without a judge, and what the judge's labels are worth."""
    used = cell["trusted_labels"]
    width_alone = _mean(values["width"][alone[used]])[0] if used in alone else None
    found = {"width_alone": width_alone, **dict.fromkeys(_WORTH)}
    if cell["judge_labels"] == 0 or not alone:
        return found
    names = sorted({replicate[row] for row in own})
    worths = [
        _worth({n: _line(values[what], rows, replicate, names) for n, rows in alone.items()},
               _line(values[what], own, replicate, names), used)
        for what in ("width", "error")
    ]  # fmt: skip
    return found | dict(zip(_WORTH, (number for worth in worths for number in worth), strict=True))


def _line(values: np.ndarray, rows: list[int], replicate: list[int], names: list[int]) -> np.ndarray:
    """(replicates,) squares, NaN where a replicate is not there or has no estimate."""
    found = {replicate[row]: float(values[row]) ** 2 for row in rows}
    return np.array([found.get(name, np.nan) for name in names])


def _worth(curve: Mapping[int, np.ndarray], own: np.ndarray, used: int) -> Worth:
    return NOTHING if np.isnan(own).all() else worth_of(curve, own, used)
