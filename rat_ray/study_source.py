"""What `rat-ray allocate` studies: a label file, or the annotations of a finished run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate import AllocationSettings
from rat_ray.export import read_annotated
from rat_ray.fetching import local_copy
from rat_ray.keys import digest_of
from rat_ray.model import Columns, read_labels
from rat_ray.store import StorageSettings, encode_part


class Source(NamedTuple):
    """rows: annotations by configuration, with the column config. trusted: the source columns that fill r, a and t, or
    {}: r, a and t are the labels. notes: in words, how it was read. facts: for run.json. own: what must be equal for a
    rerun to call the results its own.
    """

    rows: dict[str, pa.Table]
    trusted: dict[str, list[str]]
    notes: list[str]
    facts: dict[str, Any]
    own: dict[str, Any]

    def choose(self, allocation: AllocationSettings) -> Source:
        """The configurations to study. Raises InputError for one that is not there."""
        allocation.check_configurations(list(self.rows))
        return self._replace(rows={name: self.rows[name] for name in allocation.configurations or self.rows})


def from_data(data: str, columns: Columns, by: Sequence[str], t_zero: str, storage: StorageSettings) -> Source:
    """A label file: its columns r, a and t are the trusted labels. Raises InputError for whatever is wrong with it."""
    with local_copy(data, storage) as path:
        labels = read_labels(path, columns, list(by), t_zero)
    own = {"data": data, "labels": encode_part(labels.table, {})[1]}
    table, notes = labels.table, labels.lines()
    if "use" in table.schema.names:
        kept = table.filter(pc.equal(pc.fill_null(table.column("use"), "fit"), "fit"))
        notes.append(f"rows that do not inform the fit (use) are left out: {table.num_rows - kept.num_rows}")
        table = kept
    return Source(labels._replace(table=table).by_config(), {}, notes, {"data": data}, own)


def from_run(run: str, storage: StorageSettings) -> Source:
    """The annotations of a finished evaluation; what it trusted is the truth. Raises InputError where it is not one."""
    finished, facts, annotations = read_annotated(run, storage)
    trusted: Mapping[str, Sequence[str]] = facts["trusted"]
    return Source(
        {name: _with_config(rows, name) for name, rows in annotations.items()},
        {variable: list(sources) for variable, sources in trusted.items()},
        [],
        {"run": finished.place},
        {"run": facts.get("settings_digest", "") or digest_of(finished.place)},
    )


def _with_config(rows: pa.Table, config: str) -> pa.Table:
    """The rows of a partition with the configuration's name as a column again."""
    names = pa.array([config] * rows.num_rows, pa.string())
    return rows.add_column(0, pa.field("config", pa.string(), nullable=False), names)
