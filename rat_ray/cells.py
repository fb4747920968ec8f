"""Rows of quoted text files. The csv module's limit of a cell is the process's: here it holds for one row."""

from __future__ import annotations

import csv
from typing import Any, Final

USUAL: Final = 131_072  # characters of a cell: the csv module's own limit


def next_row(reader: Any, longest: int = USUAL) -> list[str] | None:
    """The next row of a `csv.reader`, None at the end. Raises csv.Error also for a cell of more characters."""
    before = csv.field_size_limit(longest)
    try:
        row: list[str] | None = next(reader, None)
        return row
    finally:
        csv.field_size_limit(before)
