"""Annotations with known parameters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rat_ray.allocate import AllocationSettings, StudySettings, StudyWorker
from rat_ray.model import Prior
from rat_ray.tables import annotations_schema
from tests.helpers import MemoryInput

TRUSTED = {"r": ["evidence"], "a": ["phrase"], "t": ["match"]}
CONFIG = "bm25-planted"


def planted(
    items: int,
    rho: float = 0.4,
    alpha: tuple[float, float] = (0.6, 0.1),
    tau: tuple[float, float] = (0.2, 0.8),
    seed: int = 5,
) -> pa.Table:
    """Complete trusted sources; the columns r and t are hidden, as a pipeline with a label budget leaves them."""
    rng = np.random.default_rng(seed)
    r = (rng.random(items) < rho).astype(int)
    a = (rng.random(items) < np.array(alpha)[r]).astype(int)
    t = (rng.random(items) < np.array(tau)[r]).astype(int)
    rows = [
        {
            "config": CONFIG,
            "question_id": f"q{index}",
            "a": int(a[index]),
            "r@evidence": int(r[index]),
            "a@phrase": int(a[index]),
            "t@match": None if a[index] else int(t[index]),
        }
        for index in range(items)
    ]
    return pa.Table.from_pylist(rows, schema=annotations_schema(["r@evidence", "a@phrase", "t@match"]))


def with_column(table: pa.Table, name: str, values: list[int | None] | list[str | None]) -> pa.Table:
    """The table with a column's values replaced."""
    index = table.schema.get_field_index(name)
    field = table.schema.field(name)
    return table.set_column(index, field, pa.array(values, field.type))


def settings_of(allocation: AllocationSettings, seed: int = 3) -> StudySettings:
    return StudySettings.of(CONFIG, TRUSTED, allocation, Prior(), seed)


def worker_on(table: pa.Table, settings: StudySettings) -> StudyWorker:
    return StudyWorker(settings, {"annotations": MemoryInput(table)})
