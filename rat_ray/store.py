"""Tables on disk: parts, manifests, and reading them back.

A table lives in `<root>/<table>/<key>/`. Its parts are written in one go and named by what they hold
(`part-<start>-<stop>-<rows>-<digest>`); the table exists when `manifest.json` exists, which is written last.
Readers follow the manifest, so what a killed job left behind is never taken for data.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.errors import InputError, StageError
from rat_ray.tables import check_table

MANIFEST = "manifest.json"
RANGES = "ranges.json"
_FOOTER = (b"rat_ray.key", b"rat_ray.range", b"rat_ray.rows", b"ARROW:schema")
_PART = re.compile(r"^part-(\d{12})-(\d{12})-(\d+)-([0-9a-f]{16})(\.parquet)?$")


class Part(NamedTuple):
    """One unit of a table: input rows [start, stop), the rows it holds, and the digest of its content."""

    name: str
    start: int
    stop: int
    rows: int
    digest: str


class Input(Protocol):
    """A committed table handed to a worker whole."""

    @property
    def num_rows(self) -> int: ...

    def read(self, columns: list[str] | None = None) -> pa.Table: ...

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.Table]: ...

    def folders(self) -> list[Path]: ...


def part_name(start: int, stop: int, rows: int, digest: str, files: bool = False) -> str:
    """The file (or folder) name of a part; `parse_part` reads it back."""
    return f"part-{start:012d}-{stop:012d}-{rows}-{digest}" + ("" if files else ".parquet")


def parse_part(name: str) -> Part | None:
    """The part that a file name stands for, or None for anything else in the folder."""
    match = _PART.match(name)
    if match is None:
        return None
    return Part(name, int(match[1]), int(match[2]), int(match[3]), match[4])


def encode_part(table: pa.Table, metadata: Mapping[str, str]) -> tuple[bytes, str]:
    """Parquet bytes of a part, and the digest of its content.

    The digest covers the schema and the encoded data pages but not the footer (where the table's own metadata go,
    such as the seconds that a fit took), so equal rows have equal digests whatever stage wrote them: that is what
    lets two generators with the same contexts share one judge.
    """
    plain = table.replace_schema_metadata(None).combine_chunks()
    own = {name.decode(): value.decode() for name, value in (table.schema.metadata or {}).items()}
    stamped = plain.replace_schema_metadata({**own, **metadata})
    sink = pa.BufferOutputStream()
    rows = max(1, plain.num_rows)
    pq.write_table(stamped, sink, compression="zstd", row_group_size=rows, store_schema=True, write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    footer = int.from_bytes(data[-8:-4], "little")
    digest = hashlib.sha256(str(plain.schema).encode())
    digest.update(data[: len(data) - footer - 8])
    return data, digest.hexdigest()[:16]


def folder_digest(folder: Path) -> str:
    """The digest of a folder's files: names and bytes."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(str(path.stat().st_size).encode() + b"\0")
            with path.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Table:
    """A committed table of a store. Picklable: a worker on another process opens it by path."""

    root: str
    table: str
    key: str
    digest: str
    num_rows: int
    parts: tuple[Part, ...]
    files: bool = False
    manifest: dict[str, Any] = field(default_factory=dict, compare=False, hash=False, repr=False)

    @property
    def folder(self) -> Path:
        return Path(self.root) / self.table / self.key

    @property
    def label(self) -> str:
        return str(self.manifest.get("label") or self.table)

    def folders(self) -> list[Path]:
        """A file table's parts as local folders, in the order of their ranges."""
        if not self.files:
            raise StageError(f"{self.table}/{self.key[:12]} holds rows, not files")
        folders = [self.folder / part.name for part in self.parts]
        for folder in folders:
            if not folder.is_dir():
                raise StageError(f"{folder} is named by a manifest and is missing; restore it or delete {self.folder}")
        return folders

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The rows, one part at a time, in input order."""
        for part in self.parts:
            yield self._read_part(part, columns)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """All rows, in input order."""
        return pa.concat_tables(list(self.batches(columns))).combine_chunks()

    def read_range(self, start: int, stop: int, columns: list[str] | None = None) -> pa.Table:
        """Rows [start, stop) of the table, counted over its parts in order."""
        pieces: list[pa.Table] = []
        offset = 0
        for part in self.parts:
            low, high = max(start, offset), min(stop, offset + part.rows)
            if low < high or (start == stop and not pieces):
                pieces.append(self._read_part(part, columns).slice(low - offset, max(0, high - low)))
            offset += part.rows
        if not pieces:
            raise StageError(f"{self.table}/{self.key[:12]} has {offset} rows, asked for [{start}, {stop})")
        found = pa.concat_tables(pieces).combine_chunks()
        if found.num_rows != stop - start:
            raise StageError(f"{self.table}/{self.key[:12]}: asked for rows [{start}, {stop}), got {found.num_rows}")
        return found

    def _read_part(self, part: Part, columns: list[str] | None) -> pa.Table:
        path = self.folder / part.name
        if not path.exists():
            raise StageError(f"{path} is named by a manifest and is missing; restore it or delete {self.folder}")
        # ParquetFile, not read_table: no guessing of partition columns from the folder names.
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read(columns=columns)
        except (pa.ArrowInvalid, OSError) as error:
            raise StageError(_damaged(path, self.folder, str(error))) from error
        if table.num_rows != part.rows:
            raise StageError(f"{path} holds {table.num_rows} rows, its manifest says {part.rows}")
        own = {n: v for n, v in (table.schema.metadata or {}).items() if n not in _FOOTER}
        return table.replace_schema_metadata(own or None)


class Store:
    """A folder of tables, shared by every run that names it."""

    def __init__(self, root: str | Path) -> None:
        text = str(root)
        if "://" in text:
            raise InputError(f"store={text}: only a local directory works in this version; give a path")
        self.root = Path(text).expanduser().resolve()

    def prepare(self) -> None:
        """Make the folder, or say why it cannot be written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / f".probe-{uuid.uuid4().hex}"
            probe.write_bytes(b"")
            probe.unlink()
        except OSError as error:
            raise InputError(
                f"store={self.root}: cannot write there ({error.strerror}); choose another store="
            ) from error

    def folder(self, table: str, key: str) -> Path:
        return self.root / table / key

    # --- reading ------------------------------------------------------------------------------------------------

    def find(self, table: str, key: str) -> Table | None:
        """The committed table, or None where there is no manifest."""
        try:
            text = (self.folder(table, key) / MANIFEST).read_text()
        except FileNotFoundError:
            return None
        folder = self.folder(table, key)
        try:
            manifest = json.loads(text)
            return Table(
                root=str(self.root),
                table=table,
                key=key,
                digest=manifest["digest"],
                num_rows=manifest["rows"],
                parts=tuple(Part(**part) for part in manifest["parts"]),
                files=manifest["files"],
                manifest=manifest,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise StageError(_damaged(folder / MANIFEST, folder, repr(error))) from error

    def parts(self, table: str, key: str) -> list[Part]:
        """The parts that lie in the folder, whether or not a manifest names them, in the order of their ranges.

        When two writers left a part for one range, the first by name counts, for everybody.
        """
        folder = self.folder(table, key)
        if not folder.is_dir():
            return []
        found: dict[tuple[int, int], Part] = {}
        for name in sorted(os.listdir(folder)):
            part = parse_part(name)
            if part is not None:
                found.setdefault((part.start, part.stop), part)
        return [found[bounds] for bounds in sorted(found)]

    def find_part(self, table: str, key: str, start: int, stop: int) -> Part | None:
        """The part of this range, where one is complete."""
        found = (part for part in self.parts(table, key) if (part.start, part.stop) == (start, stop))
        return next(found, None)

    # --- writing ------------------------------------------------------------------------------------------------

    def write_part(self, table: str, key: str, start: int, stop: int, rows: pa.Table, schema: pa.Schema) -> Part:
        """Check the rows against the schema and write them as the part of input rows [start, stop)."""
        check_table(rows, schema, f"{table} rows [{start}, {stop})")
        metadata = {"rat_ray.key": key, "rat_ray.range": f"{start}-{stop}", "rat_ray.rows": str(rows.num_rows)}
        data, digest = encode_part(rows.cast(schema).replace_schema_metadata(rows.schema.metadata), metadata)
        name = part_name(start, stop, rows.num_rows, digest)
        write_new(self.folder(table, key) / name, data)
        return Part(name, start, stop, rows.num_rows, digest)

    def scratch_folder(self, table: str, key: str) -> Path:
        """An empty folder beside the parts, for a worker that writes files."""
        folder = self.folder(table, key) / f".scratch-{uuid.uuid4().hex}"
        folder.mkdir(parents=True)
        return folder

    def write_folder(self, table: str, key: str, start: int, stop: int, scratch: Path) -> Part:
        """Turn a scratch folder into the part of input rows [start, stop), in one rename."""
        digest = folder_digest(scratch)
        name = part_name(start, stop, stop - start, digest, files=True)
        target = self.folder(table, key) / name
        try:
            os.rename(scratch, target)
        except OSError:
            if not target.is_dir():
                raise
            shutil.rmtree(scratch)  # another writer was first, with the same content
        return Part(name, start, stop, stop - start, digest)

    def fix_ranges(self, table: str, key: str, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The ranges of this table: those of its first writer, who may be us."""
        path = self.folder(table, key) / RANGES
        write_new(path, json.dumps([list(bounds) for bounds in ranges]).encode())
        try:
            found = [(int(start), int(stop)) for start, stop in json.loads(path.read_text())]
            if not found:
                raise ValueError("no ranges")
            return found
        except (ValueError, TypeError) as error:
            raise StageError(_damaged(path, path.parent, repr(error))) from error

    def commit(self, table: str, key: str, manifest: Mapping[str, Any]) -> Table:
        """Write the manifest, unless another writer was first: then his table is the result."""
        text = json.dumps(manifest, indent=1)
        write_new(self.folder(table, key) / MANIFEST, text.encode())
        committed = self.find(table, key)
        if committed is None:
            raise StageError(f"{table}/{key[:12]}: the manifest that was just written cannot be read")
        return committed


def _damaged(path: Path, folder: Path, why: str) -> str:
    return f"{path} is damaged ({why.strip().splitlines()[0]}); delete {folder} and run the same command again"


def table_digest(schema: pa.Schema | None, parts: Sequence[Part]) -> str:
    """The content digest of a table: its schema and its parts, wherever they lie."""
    digest = hashlib.sha256(str(schema).encode())
    for part in parts:
        digest.update(f"\n{part.start}-{part.stop}-{part.rows}-{part.digest}".encode())
    return digest.hexdigest()[:32]


def write_new(path: Path, data: bytes) -> bool:
    """Create a file whole or not at all; False (and nothing changed) when it exists already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.parent / f".tmp-{uuid.uuid4().hex}"
    try:
        with scratch.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        scratch.unlink(missing_ok=True)
    return True


def replace_file(path: Path, data: bytes) -> None:
    """Write a file in one step, so that a reader sees the old or the new content and never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.parent / f".tmp-{uuid.uuid4().hex}"
    scratch.write_bytes(data)
    os.replace(scratch, path)
