"""A stage: settings + input tables + a worker + the schema of its output; and rows in = rows out.

Its input rows are cut into fixed ranges; each range is one unit of work: read it, call the worker, write one part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.cluster import Resources
from rat_ray.errors import StageError
from rat_ray.keys import digest_of, key_of
from rat_ray.store import Table

# How rows in and rows out must agree, checked for every part and again for the table:
# same: the same ids in the same order; counts: column `n` sums to the rows in;
# groups: the same distinct ids, each with at least one row; subset: some of the ids, in the same order; whole:
# `expected_rows` rows from one range; files: the worker answers how many rows its folder accounts for, which must be
# all of them.
RULES = ("same", "counts", "groups", "subset", "whole", "files")
DEFAULT_RANGE_ROWS = 1024


@dataclass(frozen=True)
class Stage:
    """One table to be: see the module's docstring.

    over: row-aligned inputs, cut into the same ranges; where one of them is files, as that one is, and the worker gets
    the folders of its range, `only` these files of them (): all. inputs: tables that each worker gets whole.
    one_range: whether it is not cut at all. together: how many ranges a worker is called with at once on Ray, each by a
    thread of its own: an engine that batches requests by itself then never drains at the end of a range.
    settings: a dataclass; fields whose metadata say `{"key": False}` (threads, say) do not enter the key.
    """

    table: str
    label: str
    settings: Any
    worker: Callable[..., Any]
    over: Mapping[str, Table]
    schema: pa.Schema | None
    inputs: Mapping[str, Table] = field(default_factory=dict)
    rows: str = "same"
    ids: tuple[str, ...] = ("question_id",)
    expected_rows: int | None = None
    version: int = 1
    resources: Resources = Resources()
    key_settings: Any = None  # what of the settings enters the key; None: all of them
    one_range: bool = False
    only: tuple[str, ...] = ()
    together: int = 1
    unit: str = "rows"  # what a row of it is called where progress is shown
    affinity: str = ""  # units of equal affinity follow each other in a process, so that a model is loaded once

    def __post_init__(self) -> None:
        if self.rows not in RULES:
            raise ValueError(f"rows={self.rows!r} is none of {RULES}")

    @property
    def num_rows(self) -> int:
        return next(iter(self.over.values())).num_rows

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The bounds of its units of work, before a first writer has fixed others."""
        rows = self.num_rows
        if self.one_range or self.rows == "whole":
            return [(0, rows)]
        for table in self.over.values():
            if table.files:
                return [(part.start, part.stop) for part in table.parts]
        return cut(rows, self.resources.range_rows or DEFAULT_RANGE_ROWS)

    @property
    def settings_for_key(self) -> Any:
        return key_of(self.settings if self.key_settings is None else self.key_settings)

    @property
    def key(self) -> str:
        """What the table depends on: settings, version, schema and the inputs' content, never where it ran."""
        content = {
            "table": self.table,
            "version": self.version,
            "settings": self.settings_for_key,
            "schema": None if self.schema is None else {f.name: str(f.type) for f in self.schema},
            "over": {name: table.digest for name, table in self.over.items()},
            "inputs": {name: table.digest for name, table in self.inputs.items()},
        }
        return digest_of(content)

    @property
    def has_errors(self) -> bool:
        """Whether a row of it can carry an error."""
        return self.schema is not None and self.rows == "same" and "error" in self.schema.names

    @property
    def can_lose_rows(self) -> bool:
        """Whether there is a row to write for an input that killed its worker: see `lost_rows`."""
        if self.schema is None or self.rows == "files":
            return False
        return hasattr(self.worker, "lost") or (self.has_errors and not _required(self))

    @property
    def affinity_or_default(self) -> str:
        """`affinity`, or else what makes two stages want the same worker."""
        return self.affinity or digest_of([f"{self.worker!r}", self.settings_for_key, sorted(self.inputs)])

    def same_worker(self, other: Stage) -> bool:
        """Whether a worker that was made for the other stage does for this one."""
        return self is other or (
            self.worker is other.worker and self.settings == other.settings and dict(self.inputs) == dict(other.inputs)
        )


class StageFailure(NamedTuple):
    """A stage that could not be made, and why. bad_input: the user's data or settings are wrong."""

    label: str
    message: str
    bad_input: bool


@dataclass
class StageRecord:
    """What happened to one stage in this run."""

    label: str
    table: str
    key: str
    rows: int
    reused_rows: int
    new_rows: int
    row_errors: int
    seconds: float


def cut(rows: int, range_rows: int) -> list[tuple[int, int]]:
    """Bounds [start, stop) that cover `rows` rows. No rows: one empty range, so that an empty table exists too."""
    if rows == 0:
        return [(0, 0)]
    return [(start, min(start + range_rows, rows)) for start in range(0, rows, range_rows)]


def read_aligned(stage: Stage, start: int, stop: int) -> dict[str, Any]:
    """The same range of every row-aligned input; their ids must agree row by row. Of files: its folders, list[Path]."""
    rows: dict[str, Any] = {
        name: table.folders_of(start, stop, stage.only) if table.files else table.read_range(start, stop)
        for name, table in stage.over.items()
    }
    if stage.rows == "files":
        return rows
    first_name, first = next(iter(rows.items()))
    for name, table in rows.items():
        for column in stage.ids:
            if column not in first.schema.names or column not in table.schema.names:
                continue
            if not table.column(column).equals(first.column(column)):
                raise StageError(f"{stage.label}: rows [{start}, {stop}) of {name} and {first_name} differ in {column}")
    return rows


def check_rows(stage: Stage, rows: Mapping[str, pa.Table], made: pa.Table, what: str) -> None:
    """Rows in = rows out, by the stage's rule."""
    first = next(iter(rows.values()))
    if stage.rows == "counts":
        counted = pc.sum(made.column("n")).as_py() or 0
        if counted != first.num_rows:
            raise StageError(f"{what}: {first.num_rows} rows in, the counts add up to {counted}")
        return
    if stage.rows == "whole":
        if stage.expected_rows is not None and made.num_rows != stage.expected_rows:
            raise StageError(f"{what}: {made.num_rows} rows out, expected {stage.expected_rows}")
        return
    if stage.rows == "same" and _equal_ids(first, made, stage.ids):
        return
    if stage.rows == "subset":
        _check_subset(_ids(first, stage.ids), _ids(made, stage.ids), what)
        return
    given, got = _ids(first, stage.ids), _ids(made, stage.ids)
    if stage.rows == "groups":
        given, got = sorted(set(given)), sorted(set(got))
    if given != got:
        lost = sorted(set(given) - set(got))[:5]
        raise StageError(f"{what}: {len(given)} ids in, {len(got)} out, or in another order; first missing: {lost}")


def _check_subset(given: list[tuple[Any, ...]], got: list[tuple[Any, ...]], what: str) -> None:
    rest = iter(given)
    for one in got:
        if one not in rest:  # consumes `rest`, so that the order counts as well
            raise StageError(f"{what}: {one} came out, which did not come in, or in another order")


def _ids(table: pa.Table, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(column).to_pylist() for column in columns), strict=True))


def _equal_ids(first: pa.Table, made: pa.Table, columns: tuple[str, ...]) -> bool:
    return first.num_rows == made.num_rows and all(first.column(name).equals(made.column(name)) for name in columns)


def rows_with_error(table: pa.Table) -> int:
    """How many rows carry an error."""
    return int(table.num_rows - table.column("error").null_count)


def _required(stage: Stage) -> list[str]:
    """The columns that may not be null and for which nobody but the worker knows what to write."""
    assert stage.schema is not None
    known = (*stage.ids, "status")
    return [field.name for field in stage.schema if not field.nullable and field.name not in known]


def lost_rows(stage: Stage, rows: Mapping[str, pa.Table], reason: str) -> pa.Table:
    """The output for rows that killed their worker.

    By the worker class's own `lost(settings, rows, reason, schema)`; or else their ids, the reason as `error`, a
    `status` of "error" where there is that column, and all else missing.
    """
    assert stage.schema is not None
    own = getattr(stage.worker, "lost", None)
    if own is not None:
        made: pa.Table = own(stage.settings, rows, reason, stage.schema)
        return made
    first = next(iter(rows.values()))
    columns = {name: first.column(name) for name in stage.ids}
    columns["error"] = pa.array([reason] * first.num_rows, pa.string())
    columns["status"] = pa.array(["error"] * first.num_rows, pa.string())
    return pa.table(
        [columns.get(field.name, pa.nulls(first.num_rows, field.type)) for field in stage.schema], schema=stage.schema
    )
