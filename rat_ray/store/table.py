"""A committed table and how its rows are read."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.errors import StageError
from rat_ray.keys import digest_of
from rat_ray.store.names import check_name
from rat_ray.store.objects import Entry, Objects, open_objects
from rat_ray.store.parts import FILES, FOOTER, Part, damaged
from rat_ray.store.settings import StorageSettings


class Input(Protocol):
    """A committed table handed to a worker whole."""

    @property
    def num_rows(self) -> int: ...

    def read(self, columns: list[str] | None = None) -> pa.Table: ...

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.Table]: ...

    def folders(self) -> list[Path]: ...


@dataclass(frozen=True)
class Table:
    """A committed table of a store. Picklable: a worker in another process opens it by its root."""

    root: str
    table: str
    key: str
    digest: str
    num_rows: int
    parts: tuple[Part, ...]
    files: bool = False
    manifest: dict[str, Any] = field(default_factory=dict, compare=False, hash=False, repr=False)  # without its parts
    storage: StorageSettings = field(default_factory=StorageSettings, compare=False, repr=False)

    @property
    def label(self) -> str:
        return str(self.manifest.get("label") or self.table)

    @property
    def where(self) -> str:
        """The table's folder or prefix, for messages."""
        return f"{self.root}/{self.table}/{self.key}"

    def folders(self) -> list[Path]:
        """A file table's parts as local folders, in the order of their ranges."""
        self._check_files()
        return [self._folder(part) for part in self.parts]

    def folders_of(self, start: int, stop: int, only: Collection[str] = ()) -> list[Path]:
        """The folders of the parts that lie within rows [start, stop). only: the files that are wanted; (): all."""
        self._check_files()
        within = [part for part in self.parts if start <= part.start and part.stop <= stop]
        return [self._folder(part, only) for part in within]

    def group(self, index: int, groups: int) -> Table:
        """The table of the `index`-th of `groups` runs of neighbouring parts, as equal in number as can be."""
        if not 0 <= index < groups:
            raise ValueError(f"group {index} of {groups}")
        low, high = (len(self.parts) * i // groups for i in (index, index + 1))
        parts = self.parts[low:high]
        digest = digest_of([self.digest, *(part.name for part in parts)])
        return replace(self, parts=parts, num_rows=sum(part.rows for part in parts), digest=digest)

    def _check_files(self) -> None:
        if not self.files:
            raise StageError(f"{self.table}/{self.key[:12]} holds rows, not files")

    def _listed(self, part: Part) -> list[Entry]:
        try:
            listed = json.loads(self._objects.get(self._name(part)))
            files = [Entry(str(file), int(size), 0.0) for file, size in listed.items()]
        except FileNotFoundError as error:
            raise StageError(self._missing(part)) from error
        except (ValueError, TypeError, AttributeError) as error:
            raise StageError(damaged(f"{self.where}/{part.name}", self.where, repr(error))) from error
        for file in files:  # a list that somebody changed must not lead us elsewhere
            check_name(file.name, self.where)
        return files

    def _folder(self, part: Part, only: Collection[str] = ()) -> Path:
        name, listed = self._name(part), self._listed(part)
        files = [file for file in listed if file.name in only] if only else listed
        if len(files) < len(set(only)):
            missing = set(only) - {file.name for file in files}
            raise StageError(damaged(f"{self.where}/{part.name}", self.where, f"it lists no {sorted(missing)}"))
        try:
            folder = self._objects.download(name.removesuffix(FILES), files, whole=not only)
        except FileNotFoundError as error:
            raise StageError(self._missing(part)) from error
        for file in files:
            path = folder / file.name
            if not path.is_file():
                raise StageError(self._missing(part, f"/{file.name}"))
            if path.stat().st_size != file.size:
                raise StageError(damaged(f"{path}", self.where, f"{file.size} bytes are expected"))
        return folder

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The rows, one part at a time, in input order."""
        for part in self.parts:
            yield self.read_part(part, columns)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """All rows, in input order."""
        return pa.concat_tables(list(self.batches(columns))).combine_chunks()

    def read_range(self, start: int, stop: int, columns: list[str] | None = None) -> pa.Table:
        """Rows [start, stop) of the table, counted over its parts in order."""
        pieces: list[pa.Table] = []
        first = max(0, bisect_right(self._offsets, start) - 1)
        for part, offset in zip(self.parts[first:], self._offsets[first:], strict=True):
            low, high = max(start, offset), min(stop, offset + part.rows)
            if low < high or (start == stop and not pieces):
                pieces.append(self.read_part(part, columns, (low - offset, max(low, high) - offset)))
            if offset + part.rows >= stop:
                break
        if not pieces:
            raise StageError(f"{self.table}/{self.key[:12]} has {self.num_rows} rows, asked for [{start}, {stop})")
        found = pa.concat_tables(pieces).combine_chunks()
        if found.num_rows != stop - start:
            raise StageError(f"{self.table}/{self.key[:12]}: asked for rows [{start}, {stop}), got {found.num_rows}")
        return found

    @cached_property
    def _offsets(self) -> list[int]:
        """At which row of the table each part begins."""
        return list(accumulate((part.rows for part in self.parts[:-1]), initial=0))

    def read_part(self, part: Part, columns: list[str] | None = None, inner: tuple[int, int] | None = None) -> pa.Table:
        """The rows of one part, or `inner` of them. Only the row groups that hold them are read.

        Raises: StageError where the part is missing, damaged or not what the manifest says.
        """
        low, high = inner or (0, part.rows)
        some = columns is not None or high - low < part.rows
        try:
            source = self._objects.open(self._name(part), columns=some)
        except FileNotFoundError as error:
            raise StageError(self._missing(part)) from error
        where = f"{self.where}/{part.name}"
        # ParquetFile, not read_table: no guessing of partition columns from the folder names.
        try:
            with pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=some) as file:
                rows = file.metadata.num_rows
                table = _read_groups(file, low, high, columns) if rows == part.rows else None
        except (pa.ArrowInvalid, OSError) as error:
            raise StageError(damaged(where, self.where, str(error))) from error
        if table is None:
            raise StageError(f"{where} holds {rows} rows, its manifest says {part.rows}")
        own = {n: v for n, v in (table.schema.metadata or {}).items() if n not in FOOTER}
        return table.replace_schema_metadata(own or None)

    @property
    def _objects(self) -> Objects:
        return open_objects(self.root, self.storage)

    def _name(self, part: Part) -> str:
        return f"{self.table}/{self.key}/{part.name}"

    def _missing(self, part: Part, file: str = "") -> str:
        what = f"{self.where}/{part.name.removesuffix(FILES) if file else part.name}{file}"
        return f"{what} is named by a manifest and is missing; restore it or delete {self.where}"


def _read_groups(file: pq.ParquetFile, low: int, high: int, columns: list[str] | None) -> pa.Table:
    """Rows [low, high) of a Parquet file, from the row groups that hold them."""
    groups, skipped, offset = [], 0, 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if offset < high and offset + rows > low:
            groups.append(group)
        elif offset + rows <= low:
            skipped += rows
        offset += rows
    return file.read_row_groups(groups, columns=columns).slice(low - skipped if groups else 0, high - low)
