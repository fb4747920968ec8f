"""Small label tables, real and simulated, for the tests of the statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pytest

from rat_ray.model import Fit
from rat_ray.tables import LABEL

Row = tuple[int | None, ...]


def table(rows: Sequence[Row], judges: tuple[str, ...] = ()) -> pa.Table:
    """Rows of (r, a, t, verdicts...), None where missing."""
    names = ["r", "a", "t", *judges]
    return pa.table({name: pa.array([row[i] for row in rows], type=LABEL) for i, name in enumerate(names)})


def fever(shared_data: Path) -> pa.Table:
    """The 321 SUPPORTS/REFUTES claims that a real system answered; t is missing where it abstained."""
    path = shared_data / "annotations" / "react_fever500_outcomes.jsonl"
    if not path.is_file():
        pytest.skip(f"shared data absent: {path}")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["gold_label"] in ("SUPPORTS", "REFUTES")]
    assert len(rows) == 321
    return table([(row["R_full_page"], row["abstained"], None if row["abstained"] else row["correct"]) for row in rows])


def hide(labels: pa.Table, share: float, seed: int, columns: tuple[str, ...] = ("r", "a", "t")) -> pa.Table:
    """The same table with this share of the cells hidden at random."""
    rng = np.random.default_rng(seed)
    for name in columns:
        hidden = pa.array(rng.random(labels.num_rows) < share)
        column = pa.compute.if_else(hidden, pa.scalar(None, LABEL), labels.column(name))
        labels = labels.set_column(labels.schema.get_field_index(name), name, column)
    return labels


def simulate(items: int, seed: int, rho: float, alpha: tuple[float, float], tau: tuple[float, float]) -> np.ndarray:
    """(items, 3) of r, a, t; t is -1 where a = 1."""
    rng = np.random.default_rng(seed)
    r = (rng.random(items) < rho).astype(int)
    a = (rng.random(items) < np.array(alpha)[r]).astype(int)
    t = (rng.random(items) < np.array(tau)[r]).astype(int)
    return np.column_stack([r, a, np.where(a == 1, -1, t)])


def row_of(fit: Fit, quantity: str) -> dict[str, Any]:
    """One row of the summary."""
    rows: list[dict[str, Any]] = fit.summary.filter(pa.compute.equal(fit.summary["quantity"], quantity)).to_pylist()
    assert len(rows) == 1, quantity
    return rows[0]
