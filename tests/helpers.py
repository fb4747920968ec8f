"""Small things that several tests need."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from rat_ray.hive import read_dataset
from rat_ray.output import OutFiles


class MemoryInput:
    """A table handed to a worker without a store."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def read(self, columns: list[str] | None = None) -> pa.Table:
        return self._table if columns is None else self._table.select(columns)


def read_partitions(folder: Path) -> dict[str, pa.Table]:
    """The partitions of a dataset in a local folder, by configuration; empty where there are none."""
    return read_dataset(OutFiles(folder.parent), folder.name)
