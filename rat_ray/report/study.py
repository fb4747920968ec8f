"""The allocation table condensed to a point per configuration, strategy and budget."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate import summarise


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

    Cells in which every replicate failed are left out. The numbers are those of `allocate.summarise`.
    """
    cells = summarise(allocation.filter(pc.field("quantity") == quantity)).to_pylist()
    return [
        StudyPoint(
            config=cell["config"],
            strategy=cell["strategy"],
            budget=cell["budget"],
            replicates=cell["replicates"],
            failed=cell["failed"],
            rmse=cell["rmse"],
            rmse_se=cell["rmse_se"],
            width=cell["width"],
            width_se=cell["width_se"],
            covered=cell["coverage"],
        )
        for cell in cells
        if cell["rmse"] is not None
    ]
