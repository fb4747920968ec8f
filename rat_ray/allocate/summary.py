"""A study in short: error, width and coverage per strategy and budget, with their Monte Carlo standard errors."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.tables import ALLOCATION

_CELL = ["config", "strategy", "budget", "quantity"]

# replicates: those with an estimate; failed: those without. *_se is null where there are fewer than two replicates.
STUDY_SUMMARY = pa.schema(
    [
        *(ALLOCATION.field(name) for name in _CELL),
        pa.field("replicates", pa.int64(), nullable=False),
        pa.field("failed", pa.int64(), nullable=False),
        *(pa.field(name, pa.float64()) for name in ["cost", "rmse", "rmse_se", "width", "width_se"]),
        *(pa.field(name, pa.float64()) for name in ["coverage", "coverage_se"]),
    ]
)


def summarise(allocation: pa.Table) -> pa.Table:
    """One row (schema STUDY_SUMMARY) per configuration, strategy, budget and quantity, in the order of the table.

    RMSE = sqrt(mean(error^2)); its standard error by the delta method, sd(error^2) / sqrt(n) / (2 RMSE).
    Those of width and coverage are sd / sqrt(n). Cells in which every replicate failed have nulls; so have
    error and coverage of a quantity without a target (a share given R = 0 where retrieval never failed, say).
    """
    error = allocation.column("error")
    values = {
        "square": pc.multiply(error, error),
        "width": pc.subtract(allocation.column("q97.5"), allocation.column("q2.5")),
        "covered": allocation.column("covered").cast(pa.float64()),
        "cost": allocation.column("cost"),
    }
    # Arrow promises no order of the groups.
    row = pa.array(range(allocation.num_rows), pa.int64())
    measured = pa.table({**{name: allocation.column(name) for name in _CELL}, **values, "row": row})
    spread = pc.VarianceOptions(ddof=1)
    statistics = [(name, "mean") for name in values] + [(name, "stddev", spread) for name in values]
    counts = [(name, "count") for name in values]
    cells = measured.group_by(_CELL).aggregate([*statistics, *counts, ([], "count_all"), ("row", "min")])
    cells = cells.sort_by("row_min")
    replicates = cells.column("width_count")
    rmse = pc.sqrt(cells.column("square_mean"))
    positive = pc.if_else(pc.greater(rmse, 0.0), rmse, None)
    columns = [
        *(cells.column(name) for name in _CELL),
        replicates,
        pc.subtract(cells.column("count_all"), replicates),
        cells.column("cost_mean"),
        rmse,
        pc.divide(_standard_error(cells, "square"), pc.multiply(positive, 2.0)),
        cells.column("width_mean"),
        _standard_error(cells, "width"),
        cells.column("covered_mean"),
        _standard_error(cells, "covered"),
    ]
    return pa.Table.from_arrays([column.combine_chunks() for column in columns], schema=STUDY_SUMMARY)


def _standard_error(cells: pa.Table, name: str) -> pa.ChunkedArray:
    count = pc.cast(cells.column(f"{name}_count"), pa.float64())
    spread = pc.if_else(pc.greater(count, 1.0), cells.column(f"{name}_stddev"), None)
    return pc.divide(spread, pc.sqrt(count))
