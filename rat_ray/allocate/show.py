"""The study's summary on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rat_ray.allocate.summary import summarise

if TYPE_CHECKING:
    from rich.console import Console

_UNKNOWN = "-"


def print_study(allocation: pa.Table, screen: Console) -> None:
    """Print a row per configuration, strategy, budget and quantity of an allocation table."""
    from rich.table import Table

    shown = Table(title="Where labels tell most (± one Monte Carlo standard error)")
    for name in ("configuration", "quantity", "strategy"):
        shown.add_column(name)
    for name in ("budget", "spent", "RMSE", "95 % width", "covered", "replicates"):
        shown.add_column(name, justify="right")
    rows = summarise(allocation).to_pylist()
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    for row in sorted(rows, key=lambda row: (row["config"], quantities.index(row["quantity"]))):
        shown.add_row(*_cells(row))
    screen.print(shown)


def _cells(row: dict[str, Any]) -> list[str]:
    failed = f" ({row['failed']} failed)" if row["failed"] else ""
    return [
        row["config"],
        row["quantity"],
        row["strategy"],
        str(row["budget"]),
        _UNKNOWN if row["cost"] is None else f"{row['cost']:g}",
        _with_error(row["rmse"], row["rmse_se"]),
        _with_error(row["width"], row["width_se"]),
        _UNKNOWN if row["coverage"] is None else f"{100 * row['coverage']:.0f} %",
        f"{row['replicates']}{failed}",
    ]


def _with_error(value: float | None, error: float | None) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"
