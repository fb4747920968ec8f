"""Answers that a system gave elsewhere: cleaned as a generator's own are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rat_ray import tables
from rat_ray.generate.clean import clean

_ROWS = 10_000


def as_answers(logged: pa.Table) -> Iterator[pa.Table]:
    """Batches of the same rows (tables.ANSWERS) with `answer` as the cleaned `raw`; one that is cut off in the middle
    of its reasoning gets an error, as it answers nothing.
    """
    for start in range(0, max(logged.num_rows, 1), _ROWS):
        rows = [_cleaned(row) for row in logged.slice(start, _ROWS).to_pylist()]
        yield pa.Table.from_pylist(rows, schema=tables.ANSWERS)


def _cleaned(row: dict[str, Any]) -> dict[str, Any]:
    if row["error"] or row["raw"] is None:
        return row
    cleaned = clean(row["raw"], (), row["reasoning"])
    return row | {"answer": cleaned.answer, "reasoning": cleaned.reasoning, "error": cleaned.error}
