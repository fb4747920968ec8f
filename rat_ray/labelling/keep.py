"""Files of people's labels, here or on S3: read as judgements, written in one step."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from rat_ray.annotate.people import Judgement, join, judgements
from rat_ray.annotate.people_cells import protect
from rat_ray.annotate.people_files import SUFFIXES, PeopleFile, read_file
from rat_ray.errors import InputError, StageError
from rat_ray.fetching import local_copy
from rat_ray.output import OutFiles, parent_of
from rat_ray.store import StorageSettings

WRITTEN: Final = (".parquet", ".csv", ".jsonl")  # what a file of labels may be when we write it


def read_back(path: str, storage: StorageSettings, setting: str = "files") -> PeopleFile:
    """A file of labels. setting: the one that named it, for messages."""
    with _local(path, storage, setting) as local:
        return read_file(local, path)


class LabelsFile:
    """The file that keeps people's labels."""

    def __init__(self, path: str, storage: StorageSettings) -> None:
        """path: of a file that may not be there yet, or `s3://…`."""
        self._path, self._storage = path, storage
        self._out = OutFiles(parent_of(path), storage)
        self._name = path.rstrip("/").rpartition("/")[2]
        self._seen: bytes | None = None

    def read(self, must: bool = False) -> list[Judgement]:
        """Its judgements; none where it is not there.

        must: it is to be there, and only to be read. Raises InputError where it must be there and is not, and for a
        sheet of items that would be written over.
        """
        self._out.look()
        self._seen = self._content()
        if self._seen is None and not must:
            return []
        file = read_back(self._path, self._storage, "people")
        if not must and any("question" in row.cells for row in file.rows):
            raise InputError(
                f"people={self._path}: holds items to label, which would be written over; give a file of its own "
                "to keep the labels in"
            )
        return list(join(one for one in judgements(file) if one.answered).judgements.values())

    def write(self, table: pa.Table) -> None:
        """Replace what was read, in one step: a crash leaves the old file whole. table: with the schema tables.PEOPLE.

        Raises StageError where another process has written it since it was read.
        """
        if self._content() != self._seen:
            raise StageError(f"{self._path}: another process has written it meanwhile; run the same command again")
        if self._name.lower().endswith(".parquet"):
            self._out.write_table(self._name, table)
        else:
            self._out.write_text(self._name, _csv(table) if self._name.lower().endswith(".csv") else _jsonl(table))

    def _content(self) -> bytes | None:
        try:
            return self._out.objects.get(self._name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError as error:
            raise InputError(f"people={self._path}: is a folder; give a file") from error


def check_written(path: str) -> None:
    """Raise InputError for a file that `LabelsFile` cannot write."""
    if not path.lower().endswith(WRITTEN):
        raise InputError(f"people={path}: give a file that ends in {', '.join(WRITTEN)}")


@contextlib.contextmanager
def _local(path: str, storage: StorageSettings, setting: str) -> Iterator[str]:
    """As `local_copy`, whose errors speak of data=."""
    if not path.lower().removesuffix(".gz").endswith(SUFFIXES):
        raise InputError(f"{setting}: {path} ends in none of {', '.join(SUFFIXES)}")
    try:
        with local_copy(path, storage) as local:
            yield local
    except InputError as error:
        said = str(error).replace("; data= names the file with the labels", f"; {setting}= names it")
        raise InputError(f"{setting}{said.removeprefix('data')}" if said.startswith("data:") else said) from error


def _csv(table: pa.Table) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    writer.writerow(table.schema.names)
    for row in table.to_pylist():
        writer.writerow(protect("" if value is None else str(value)) for value in _named(row).values())
    return "\ufeff" + stream.getvalue()


def _jsonl(table: pa.Table) -> str:
    return "".join(json.dumps(_named(row), ensure_ascii=False) + "\n" for row in table.to_pylist())


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A missing label would be read back as one that nobody gave."""
    return {**row, "label": "unsure" if row["label"] is None else row["label"]}
