"""Tables in a folder or an S3 prefix: parts, manifests, and reading them back.

A table lies under `<table>/<key>/`. Its parts are written in one go and named by what they hold
(`part-<start>-<stop>-<rows>-<digest>`); the table exists when `manifest.json` exists, which is written last.
Readers follow the manifest, so what a killed job left behind is never taken for data.
"""

from __future__ import annotations

import atexit
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from rat_ray.errors import InputError, StageError
from rat_ray.store.lease import LEASES, WRITERS, Holder, Lease, take
from rat_ray.store.names import check_address
from rat_ray.store.objects import Objects, UnreadableError, open_objects
from rat_ray.store.parts import FILES, Part, damaged, encode_part, folder_digest, parse_part, part_name, range_name
from rat_ray.store.settings import StorageSettings
from rat_ray.store.table import Table
from rat_ray.tables import check_table

MANIFEST = "manifest.json"
RANGES = "ranges.json"
_written_alone: dict[Store, Lease] = {}  # the places that this process alone may write


@dataclass(frozen=True, init=False)
class Store:
    """A place of tables, shared by every run that names it. Picklable; its connections are the process's own."""

    root: str
    storage: StorageSettings = field(default_factory=StorageSettings)

    def __init__(self, root: str | Path, storage: StorageSettings | None = None) -> None:
        check_address(str(root))
        text = str(root).rstrip("/") or "/"
        here = text if "://" in text else str(Path(text).expanduser().resolve())
        object.__setattr__(self, "root", here)
        object.__setattr__(self, "storage", storage or StorageSettings())

    @property
    def objects(self) -> Objects:
        return open_objects(self.root, self.storage)

    @property
    def local(self) -> bool:
        """Whether it is a folder of this machine, or of a disk that its hosts share."""
        return "://" not in self.root

    def prepare(self) -> None:
        """Make it, or raise InputError with why it cannot be written.

        Where the place does not honour conditional writes, this process becomes its only writer until it ends; where
        another one is, InputError names it.
        """
        self.objects.prepare()
        if self.objects.conditional or self in _written_alone:
            return
        lease = self.sole_writer("a job")
        if isinstance(lease, Holder):
            raise InputError(
                f"store={self.root}: {lease} writes here, and this server does not honour conditional writes "
                "(If-None-Match), so it takes one writer at a time: wait for that job, or give another store"
            )
        _written_alone[self] = lease
        atexit.register(lease.release)

    def where(self, table: str, key: str) -> str:
        """The folder or prefix of a table."""
        return f"{self.root}/{table}/{key}"

    def lease(self, table: str, key: str, what: str) -> Lease | Holder:
        """The right to make this table, or who has it. what: for the messages of others."""
        return take(self.root, self.storage, f"{table}/{key}/{LEASES}", what)

    def sole_writer(self, what: str) -> Lease | Holder:
        """The right to write here at all, for a place where `objects.conditional` is False."""
        return take(self.root, self.storage, WRITERS, what, sightings=4)

    # --- reading ------------------------------------------------------------------------------------------------

    def find(self, table: str, key: str) -> Table | None:
        """The committed table, or None where there is no manifest. Raises UnreadableError for a damaged one."""
        where = self.where(table, key)
        try:
            manifest = json.loads(self.objects.get(f"{table}/{key}/{MANIFEST}"))
            return Table(
                root=self.root,
                table=table,
                key=key,
                digest=_typed(manifest, "digest", str),
                num_rows=_typed(manifest, "rows", int),
                parts=tuple(_part(part) for part in _typed(manifest, "parts", list)),
                files=_typed(manifest, "files", bool),
                manifest={name: value for name, value in manifest.items() if name != "parts"},
                storage=self.storage,
            )
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise UnreadableError(f"{where}/{MANIFEST}: cannot be read ({error.strerror})") from error
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:  # OSError: such as a folder
            raise UnreadableError(damaged(f"{where}/{MANIFEST}", where, repr(error))) from error

    def parts(self, table: str, key: str) -> list[Part]:
        """The parts that lie there, whether or not a manifest names them, in the order of their ranges.

        When two writers left a part for one range, the first by name counts, for everybody.
        """
        return self._parts(table, key, "part-")

    def find_part(self, table: str, key: str, start: int, stop: int) -> Part | None:
        """The part of this range, where one is complete."""
        return next(iter(self._parts(table, key, range_name(start, stop))), None)

    def _parts(self, table: str, key: str, beginning: str) -> list[Part]:
        found: dict[tuple[int, int], Part] = {}
        before = f"{table}/{key}/"
        for entry in self.objects.walk(before + beginning):
            part = parse_part(entry.name.removeprefix(before))
            if part is not None:
                found.setdefault((part.start, part.stop), part)
        return [found[bounds] for bounds in sorted(found)]

    # --- writing ------------------------------------------------------------------------------------------------

    def write_part(self, table: str, key: str, start: int, stop: int, rows: pa.Table, schema: pa.Schema) -> Part:
        """Check the rows against the schema and write them as the part of input rows [start, stop)."""
        check_table(rows, schema, f"{table} rows [{start}, {stop})")
        metadata = {"rat_ray.key": key, "rat_ray.range": f"{start}-{stop}", "rat_ray.rows": str(rows.num_rows)}
        data, digest = encode_part(rows.cast(schema).replace_schema_metadata(rows.schema.metadata), metadata)
        name = part_name(start, stop, rows.num_rows, digest)
        self.objects.create(f"{table}/{key}/{name}", data)
        return Part(name, start, stop, rows.num_rows, digest)

    def scratch_folder(self, table: str, key: str) -> Path:
        """An empty local folder, for a worker that writes files."""
        return self.objects.scratch(f"{table}/{key}/part")

    def write_folder(self, table: str, key: str, start: int, stop: int, scratch: Path) -> Part:
        """Turn a scratch folder into the part of input rows [start, stop): its files first, then their list."""
        digest = folder_digest(scratch)
        name = part_name(start, stop, stop - start, digest, files=True)
        files = sorted(path for path in scratch.rglob("*") if path.is_file())
        listed = {path.relative_to(scratch).as_posix(): path.stat().st_size for path in files}
        self.objects.upload(scratch, f"{table}/{key}/{name.removesuffix(FILES)}")
        self.objects.create(f"{table}/{key}/{name}", json.dumps(listed).encode())
        return Part(name, start, stop, stop - start, digest)

    def fix_ranges(self, table: str, key: str, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The ranges of this table: those of its first writer, who may be us."""
        name = f"{table}/{key}/{RANGES}"
        self.objects.create(name, json.dumps([list(bounds) for bounds in ranges]).encode())
        try:
            found = [(int(start), int(stop)) for start, stop in json.loads(self.objects.get(name))]
            if not found:
                raise ValueError("no ranges")
            return found
        except (ValueError, TypeError) as error:
            raise StageError(damaged(f"{self.root}/{name}", self.where(table, key), repr(error))) from error

    def commit(self, table: str, key: str, manifest: Mapping[str, Any]) -> Table:
        """Write the manifest, unless another writer was first: then his table is the result."""
        alone = _written_alone.get(self)
        if alone is not None and alone.lost:
            raise StageError(
                f"{self.root}: another job took this one for dead and may be writing here, where conditional writes "
                "are not honoured; run the same command again when it is done: what is complete is kept"
            )
        text = json.dumps(manifest, indent=1)
        self.objects.create(f"{table}/{key}/{MANIFEST}", text.encode())
        committed = self.find(table, key)
        if committed is None:
            raise StageError(f"{table}/{key[:12]}: the manifest that was just written cannot be read")
        return committed


def _part(given: Mapping[str, Any]) -> Part:
    """A part as a manifest names it. Raises TypeError or KeyError for anything else."""
    kinds = {"name": str, "start": int, "stop": int, "rows": int, "digest": str}
    for name, kind in kinds.items():
        _typed(given, name, kind)
    return Part(**given)


def _typed(given: Mapping[str, Any], name: str, kind: type) -> Any:
    value = given[name]
    if type(value) is not kind:  # a bool is no number here
        raise TypeError(f"{name} is {value!r:.40}")
    return value
