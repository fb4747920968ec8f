"""Pieces: rows of a range that were made apart from each other, because the range as a whole killed its worker.

They lie beside the parts until they are joined to one. The first that was written for the same rows stays.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.errors import StageError
from rat_ray.store.parts import FOOTER, encode_part
from rat_ray.store.store import Store
from rat_ray.tables import check_table

PIECE = "piece-"


def write_piece(
    store: Store,
    folder: tuple[str, str],
    bounds: tuple[int, int],
    inner: tuple[int, int],
    rows: pa.Table,
    schema: pa.Schema,
) -> None:
    """Keep rows `inner` of the range `bounds` of a table, given by its name and key."""
    check_table(rows, schema, f"{folder[0]} rows [{inner[0]}, {inner[1]})")
    data, _ = encode_part(rows.cast(schema).replace_schema_metadata(rows.schema.metadata), {})
    store.objects.create(_name(folder, bounds, inner), data)


def has_piece(store: Store, folder: tuple[str, str], bounds: tuple[int, int], inner: tuple[int, int]) -> bool:
    """Whether it was written before."""
    name = _name(folder, bounds, inner)
    return any(entry.name == name for entry in store.objects.walk(name))


def read_pieces(
    store: Store, folder: tuple[str, str], bounds: tuple[int, int], inner: tuple[tuple[int, int], ...]
) -> pa.Table:
    """The pieces of a range in the order of `inner`, as one table."""
    tables = []
    for piece in inner:
        with pq.ParquetFile(store.objects.open(_name(folder, bounds, piece)), page_checksum_verification=True) as file:
            tables.append(file.read())
        if tables[-1].num_rows == 0 and piece[0] < piece[1]:
            raise StageError(f"{_name(folder, bounds, piece)} is empty")
    own = {n: v for n, v in (tables[0].schema.metadata or {}).items() if n not in FOOTER}
    return pa.concat_tables(tables).combine_chunks().replace_schema_metadata(own or None)


def remove_pieces(store: Store, folder: tuple[str, str], bounds: tuple[int, int]) -> None:
    """Remove the pieces of a range, which its part has replaced."""
    store.objects.delete([entry.name for entry in store.objects.walk(_beginning(folder, bounds))])


def _beginning(folder: tuple[str, str], bounds: tuple[int, int]) -> str:
    return f"{folder[0]}/{folder[1]}/{PIECE}{bounds[0]:012d}-{bounds[1]:012d}-"


def _name(folder: tuple[str, str], bounds: tuple[int, int], inner: tuple[int, int]) -> str:
    return f"{_beginning(folder, bounds)}{inner[0]:012d}-{inner[1]:012d}.parquet"
