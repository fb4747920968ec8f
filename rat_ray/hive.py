"""Hive-partitioned datasets of an `out`: `annotations/config=NAME/part-00000.parquet`, one partition a configuration.

Every partition has the same columns and types, so that any tool reads the whole dataset from one path: a judge that
only some configurations have is a column of typed nulls in the others, whose metadata name the columns of their own.
The configuration's name stands in the path only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa

from rat_ray.errors import InputError
from rat_ray.output import OutFiles
from rat_ray.store import Table

CONFIG = "config"
COLUMNS = b"rat_ray.columns"  # metadata of a partition that was given columns of others: its own, one a line
_OURS = re.compile(r"^config=[^/]+/(part-\d+\.parquet|\.tmp-[0-9a-f]+)$")
_FILE = re.compile(r"^config=([^/]+)/[^./][^/]*\.parquet$")

Batches = Callable[[], Iterator[pa.Table]]


def write_tables(out: OutFiles, dataset: str, tables: Mapping[str, Table]) -> None:
    """Write committed tables as the partitions of a dataset, a file per part."""
    write_dataset(out, dataset, {name: table.batches for name, table in tables.items()})


def write_dataset(out: OutFiles, dataset: str, partitions: Mapping[str, Batches]) -> None:
    """Write a dataset whole: its partitions by configuration, and nothing of an earlier run beside them."""
    schema = _union(out.at(dataset), [_without_config(next(batches())).schema for batches in partitions.values()])
    written: set[str] = set()
    for name, batches in partitions.items():
        for index, rows in enumerate(batches()):
            file = f"{dataset}/{CONFIG}={name}/part-{index:05d}.parquet"
            out.write_table(file, _conformed(_without_config(rows), schema))
            written.add(file)
    ours = (name for name in out.files(dataset) if _OURS.match(name.removeprefix(f"{dataset}/")))
    out.delete([name for name in ours if name not in written])


def read_dataset(out: OutFiles, dataset: str) -> dict[str, pa.Table]:
    """The partitions by configuration, each with the columns of its own; empty where there is no such dataset."""
    return {name: pa.concat_tables(list(batches())) for name, batches in find_dataset(out, dataset).items()}


def find_dataset(out: OutFiles, dataset: str) -> dict[str, Batches]:
    """How to read each partition, a file at a time."""
    files: dict[str, list[str]] = {}
    for name in out.files(dataset):
        match = _FILE.match(name.removeprefix(f"{dataset}/"))
        if match is not None:
            files.setdefault(match[1], []).append(name)
    return {name: partial(_read, out, tuple(sorted(files[name]))) for name in sorted(files)}


def _read(out: OutFiles, names: Sequence[str]) -> Iterator[pa.Table]:
    for name in names:
        yield _own(out.read_table(name))


def _own(rows: pa.Table) -> pa.Table:
    """The rows as they were before the dataset gave all partitions the same columns."""
    metadata = dict(rows.schema.metadata or {})
    own = metadata.pop(COLUMNS, None)
    kept = rows.select(own.decode().split("\n")) if own is not None else rows
    return kept.replace_schema_metadata(metadata or None)


def _without_config(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([CONFIG]) if CONFIG in rows.schema.names else rows


def _union(where: str, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """All columns in the order in which they first occur. Raises InputError for one of two types."""
    fields: dict[str, pa.Field] = {}
    for schema in schemas:
        for field in schema:
            known = fields.setdefault(field.name, field)
            if known.type != field.type:
                raise InputError(
                    f"{where}: column {field.name!r} is {known.type} in one configuration and {field.type} in another: "
                    "they were written by different versions of rat-ray; run all of them again"
                )
    everywhere = {name for name in fields if all(name in schema.names for schema in schemas)}
    required = {name for name in everywhere if not any(schema.field(name).nullable for schema in schemas)}
    return pa.schema([field.with_nullable(name not in required) for name, field in fields.items()])


def _conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with exactly the schema's columns, those that are missing as nulls."""
    own = rows.schema.names
    columns = [
        rows.column(field.name) if field.name in own else pa.nulls(rows.num_rows, field.type) for field in schema
    ]
    metadata = dict(rows.schema.metadata or {})
    if own != schema.names:
        metadata[COLUMNS] = "\n".join(own).encode()
    return pa.Table.from_arrays(columns, schema=schema.with_metadata(metadata or None))
