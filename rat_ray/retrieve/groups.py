"""The lists that groups of an index's shards gave, each searched by workers of its own, as one list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rat_ray.retrieve.hits import Hits, retrievals_table
from rat_ray.retrieve.merge import merge


@dataclass(frozen=True)
class GroupsSettings:
    """depth: how many passages to keep."""

    depth: int


class MergeGroups:
    """Retrievals of every group in, aligned; those of the whole index out. An error of one group is an error here."""

    def __init__(self, settings: GroupsSettings, inputs: Mapping[str, Any]) -> None:
        self._depth = settings.depth

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        tables = [table.to_pylist() for table in rows.values()]
        first = next(iter(rows.values()))
        hits: list[Hits | None] = []
        errors: list[str | None] = []
        for of_groups in zip(*tables, strict=True):
            found = sorted({row["error"] for row in of_groups if row["error"]})
            errors.append("; ".join(found) or None)
            lists = [Hits(row["passage_ids"] or [], row["scores"] or []) for row in of_groups]
            hits.append(None if found else merge(lists, self._depth))
        return retrievals_table(first.column("question_id"), hits, errors)
