"""Small things that several tests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from rat_ray.hive import read_dataset
from rat_ray.output import OutFiles


class MemoryInput:
    """A table (or the folders of a file stage) handed to a worker without a store."""

    def __init__(self, table: pa.Table | None = None, folders: list[Path] | None = None) -> None:
        self._table = table
        self._folders = folders or []

    @property
    def num_rows(self) -> int:
        return 0 if self._table is None else self._table.num_rows

    def read(self, columns: list[str] | None = None) -> pa.Table:
        assert self._table is not None
        return self._table if columns is None else self._table.select(columns)

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        yield self.read(columns)

    def folders(self) -> list[Path]:
        return self._folders


def read_partitions(folder: Path) -> dict[str, pa.Table]:
    """The partitions of a dataset in a local folder, by configuration; empty where there are none."""
    return read_dataset(OutFiles(folder.parent), folder.name)
