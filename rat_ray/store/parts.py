"""Parts: what they are named, how they are encoded, and the digests of their content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

ROW_GROUP = 8192  # rows; a worker whose range is a slice of a large part reads the groups that hold it
FOOTER = (b"rat_ray.key", b"rat_ray.range", b"rat_ray.rows", b"ARROW:schema")
ROWS, FILES = ".parquet", ".files"  # a part of rows; a part that is a list of files, which lie in a folder beside it
_PART = re.compile(r"^part-(\d{12})-(\d{12})-(\d+)-([0-9a-f]{16})\.(parquet|files)$")


class Part(NamedTuple):
    """One unit of a table: input rows [start, stop), the rows it holds, and the digest of its content."""

    name: str
    start: int
    stop: int
    rows: int
    digest: str


def part_name(start: int, stop: int, rows: int, digest: str, files: bool = False) -> str:
    """The file name of a part; `parse_part` reads it back."""
    return f"{range_name(start, stop)}{rows}-{digest}{FILES if files else ROWS}"


def range_name(start: int, stop: int) -> str:
    """What the names of all parts of input rows [start, stop) begin with."""
    return f"part-{start:012d}-{stop:012d}-"


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
    pq.write_table(
        stamped, sink, compression="zstd", row_group_size=ROW_GROUP, store_schema=True, write_page_checksum=True
    )
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


def table_digest(schema: pa.Schema | None, parts: Sequence[Part]) -> str:
    """The content digest of a table: its schema and its parts, wherever they lie."""
    digest = hashlib.sha256(str(schema).encode())
    for part in parts:
        digest.update(f"\n{part.start}-{part.stop}-{part.rows}-{part.digest}".encode())
    return digest.hexdigest()[:32]


def damaged(where: str, folder: str, why: str) -> str:
    """The message for an object that cannot be read."""
    return f"{where} is damaged ({why.strip().splitlines()[0]}); delete {folder} and run the same command again"
