"""Tables that come from outside the store: files, a task list, rows at hand."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from rat_ray.errors import StageError
from rat_ray.keys import digest_of
from rat_ray.stage.batch import describe
from rat_ray.stage.waiting import Waiting
from rat_ray.store import Lease, Part, Store, Table, encode_part

POLL_SECONDS = 1.0  # how often a table that another job is importing is looked for


def import_table(
    store: Store,
    table: str,
    key: str,
    label: str,
    schema: pa.Schema,
    batches: Callable[[], Iterator[pa.Table]],
    expected_rows: int | None = None,
    origin: Mapping[str, Any] | None = None,
) -> Table:
    """Commit rows that come from outside the store (files, a task list), one part per batch, or find them there.

    Where another job is importing the same, its table is waited for. origin: where the rows come from, for the
    manifest; JSON.

    Raises: StageError unless there are `expected_rows` rows, where that is known.
    """
    waiting = Waiting(f"import {label}")
    while True:
        found = store.find(table, key)
        if found is not None:
            _check_count(label, table, expected_rows, found.num_rows)
            return found
        lease = store.lease(table, key, f"import {label}")
        if isinstance(lease, Lease):
            began = datetime.now(UTC).isoformat()
            with lease:
                found = store.find(table, key)
                if found is None:
                    parts = _write_parts(store, table, key, schema, batches)
                    _check_count(label, table, expected_rows, sum(part.rows for part in parts))
                    about = {"origin": dict(origin or {}), "started": began, "hosts": [socket.gethostname()]}
                    manifest = {**describe(table, key, label, schema, parts), **about}
                    found = store.commit(table, key, manifest)
                return found
        waiting.holders[key] = f"{table} of {label} are being imported by {lease}"
        waiting.say([key])
        time.sleep(POLL_SECONDS)


def _write_parts(
    store: Store, table: str, key: str, schema: pa.Schema, batches: Callable[[], Iterator[pa.Table]]
) -> list[Part]:
    """One part per batch; an empty one where there is none."""
    parts: list[Part] = []
    start = 0
    for batch in batches():
        parts.append(store.write_part(table, key, start, start + batch.num_rows, batch, schema))
        start += batch.num_rows
    return parts or [store.write_part(table, key, 0, 0, schema.empty_table(), schema)]


def _check_count(label: str, table: str, expected: int | None, rows: int) -> None:
    if expected is not None and rows != expected:
        raise StageError(f"{label}: {expected} {table} were read, {rows} are in the store")


def import_rows(store: Store, table: str, label: str, rows: pa.Table, origin: Mapping[str, Any] | None = None) -> Table:
    """Commit a table that is at hand, keyed by its content, or find it there."""
    key = digest_of({table: encode_part(rows, {})[1]})
    return import_table(store, table, key, label, rows.schema, lambda: iter([rows]), origin=origin)
