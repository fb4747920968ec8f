"""The one mechanism behind every stage: keys, ranges, workers, resume, and rows in = rows out.

A stage is settings + input tables + a worker + the schema of its output. Its input rows are cut into fixed ranges;
each range is one unit of work: read it, call the worker, write one part. Ranges travel through Ray Data (cluster.py);
rows go straight from Parquet to worker to Parquet.
"""

from __future__ import annotations

import json
import socket
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.cluster import Cluster, Resources
from rat_ray.errors import InputError, StageError
from rat_ray.keys import digest_of, key_of
from rat_ray.progress import StageProgress, console
from rat_ray.store import Part, Store, Table, encode_part, table_digest
from rat_ray.versions import versions

# How rows in and rows out must agree, checked for every part and again for the table:
# same: the same ids in the same order; counts: column `n` sums to the rows in;
# groups: the same distinct ids, each with at least one row; whole: `expected_rows` rows from one range;
# files: the worker answers how many rows its folder accounts for, which must be all of them.
RULES = ("same", "counts", "groups", "whole", "files")
DEFAULT_RANGE_ROWS = 1024


@dataclass(frozen=True)
class Stage:
    """One table to be: see the module's docstring.

    over: row-aligned inputs, cut into the same ranges. inputs: tables that each worker gets whole.
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

    def __post_init__(self) -> None:
        if self.rows not in RULES:
            raise ValueError(f"rows={self.rows!r} is none of {RULES}")

    @property
    def num_rows(self) -> int:
        return next(iter(self.over.values())).num_rows

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


class StageRunner:
    """Runs units of work in one process, in a Ray worker or in a plain loop, with the stage's worker kept alive."""

    def __init__(self, stages: Sequence[Stage], keys: Sequence[str], store: Store) -> None:
        self._stages = stages
        self._keys = keys
        self._store = store
        self._worker: Any = None
        self._worker_of = -1

    def __call__(self, unit: str) -> str:
        wanted = json.loads(unit)
        began = time.monotonic()
        try:
            part, errors = self._run(wanted["stage"], wanted["start"], wanted["stop"])
        except (InputError, StageError) as error:
            return json.dumps({**wanted, "failure": str(error), "kind": type(error).__name__})
        except Exception as error:  # told to the driver, which ends the job with it
            text = f"{type(error).__name__}: {error}"
            return json.dumps({**wanted, "failure": text, "kind": "Exception", "trace": traceback.format_exc()})
        seconds = time.monotonic() - began
        return json.dumps({**wanted, "part": part._asdict(), "errors": errors, "seconds": seconds})

    def _run(self, index: int, start: int, stop: int) -> tuple[Part, int]:
        stage, key = self._stages[index], self._keys[index]
        done = self._store.find_part(stage.table, key, start, stop)
        if done is not None:  # Ray ran this unit before and lost its answer: never make it twice
            return done, 0
        rows = read_aligned(stage, start, stop)
        worker = self._worker_for(index)
        if stage.schema is None:
            scratch = self._store.scratch_folder(stage.table, key)
            taken = worker(rows, scratch)
            if taken != stop - start:
                raise StageError(f"{stage.label} rows [{start}, {stop}): {stop - start} rows in, {taken} accounted for")
            return self._store.write_folder(stage.table, key, start, stop, scratch), 0
        made = worker(rows)
        check_rows(stage, rows, made, f"{stage.label} rows [{start}, {stop})")
        errors = stop - start - _without_error(made) if stage.rows == "same" else 0
        return self._store.write_part(stage.table, key, start, stop, made, stage.schema), errors

    def _worker_for(self, index: int) -> Any:
        if self._worker_of != index:
            close = getattr(self._worker, "close", None)
            if close is not None:
                close()
            stage = self._stages[index]
            self._worker = stage.worker(stage.settings, dict(stage.inputs))
            self._worker_of = index
        return self._worker


def _without_error(table: pa.Table) -> int:
    if "error" not in table.schema.names:
        return int(table.num_rows)
    return int(table.column("error").null_count)


def read_aligned(stage: Stage, start: int, stop: int) -> dict[str, pa.Table]:
    """The same range of every row-aligned input; their ids must agree row by row."""
    rows = {name: table.read_range(start, stop) for name, table in stage.over.items()}
    first_name, first = next(iter(rows.items()))
    for name, table in rows.items():
        for column in stage.ids:
            if column not in first.schema.names or column not in table.schema.names or stage.rows == "files":
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
    given, got = _ids(first, stage.ids), _ids(made, stage.ids)
    if stage.rows == "groups":
        given, got = sorted(set(given)), sorted(set(got))
    if given != got:
        lost = sorted(set(given) - set(got))[:5]
        raise StageError(f"{what}: {len(given)} ids in, {len(got)} out, or in another order; first missing: {lost}")


def _ids(table: pa.Table, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return list(zip(*(table.column(column).to_pylist() for column in columns), strict=True))


class Runs:
    """Runs stages against a store and a cluster, and keeps the record of what was reused and what was made."""

    def __init__(self, store: Store, cluster: Cluster, seed: int = 0, quiet: bool = False) -> None:
        self.store = store
        self.cluster = cluster
        self.seed = seed
        self.records: list[StageRecord] = []
        self._quiet = quiet

    def run(self, stages: Sequence[Stage], title: str, small: bool = False) -> list[Table]:
        """Make the tables of these stages, or find them; one table per stage, in their order.

        small: cheap enough for this process (unless `cluster.use=always`). Stages with one key run once.

        Raises: StageError when a range fails or rows are lost; completed parts stay and a rerun reuses them.
        """
        keys = [stage.key for stage in stages]
        unique = {key: index for index, key in reversed(list(enumerate(keys)))}
        found = {key: self.store.find(stages[index].table, key) for key, index in unique.items()}
        for key, table in found.items():
            if table is not None:
                rows = int(table.manifest.get("rows_in", table.num_rows))
                self._record(stages[unique[key]], key, rows, rows, 0, 0.0)
        todo = [index for key, index in unique.items() if found[key] is None]
        if todo:
            made = self._make([stages[index] for index in sorted(todo)], title, small)
            found.update({table.key: table for table in made})
        tables = [found[key] for key in keys]
        assert all(table is not None for table in tables)
        return [table for table in tables if table is not None]

    def _make(self, stages: list[Stage], title: str, small: bool) -> list[Table]:
        keys = [stage.key for stage in stages]
        ranges = [self._ranges(stage, key) for stage, key in zip(stages, keys, strict=True)]
        parts: list[dict[tuple[int, int], Part]] = [
            {(p.start, p.stop): p for p in self.store.parts(stage.table, key)}
            for stage, key in zip(stages, keys, strict=True)
        ]
        units = [
            {"stage": index, "start": start, "stop": stop}
            for index, bounds in enumerate(ranges)
            for start, stop in bounds
            if (start, stop) not in parts[index]
        ]
        whole = all(stage.rows == "whole" for stage in stages)  # such as fits: one piece of work per table
        total = len(stages) if whole else sum(stage.num_rows for stage in stages)
        waiting = len(units) if whole else sum(unit["stop"] - unit["start"] for unit in units)
        fresh = [0] * len(stages)
        errors = [0] * len(stages)
        seconds = [0.0] * len(stages)
        began = datetime.now(UTC)
        screen = console()
        screen.quiet = self._quiet
        with StageProgress(title, total, total - waiting, screen, "fits" if whole else "rows") as progress:
            for receipt in self._receipts(stages, keys, units, small):
                index = receipt["stage"]
                _raise_failure(stages[index], receipt)
                part = Part(**receipt["part"])
                parts[index][(part.start, part.stop)] = part
                fresh[index] += part.stop - part.start
                errors[index] += receipt["errors"]
                seconds[index] += receipt["seconds"]
                progress.advance(1 if whole else part.stop - part.start)
        tables = []
        for index, (stage, key) in enumerate(zip(stages, keys, strict=True)):
            covering = _covering(stage, ranges[index], parts[index])
            table = self.store.commit(stage.table, key, self._manifest(stage, key, covering, began))
            self._record(stage, key, stage.num_rows, stage.num_rows - fresh[index], errors[index], seconds[index])
            tables.append(table)
        return tables

    def _receipts(
        self, stages: list[Stage], keys: list[str], units: list[dict[str, Any]], small: bool
    ) -> Iterator[dict[str, Any]]:
        if not units:
            return
        make_runner = _MakeRunner(tuple(stages), tuple(keys), self.store)
        use = self.cluster.settings.use
        if use == "never" or (use == "auto" and small):
            runner = make_runner()
            yield from (json.loads(runner(json.dumps(unit))) for unit in units)
            return
        for resources in dict.fromkeys(stage.resources for stage in stages):
            group = [unit for unit in units if stages[unit["stage"]].resources == resources]
            if group:
                yield from self.cluster.run(group, make_runner, resources)

    def _ranges(self, stage: Stage, key: str) -> list[tuple[int, int]]:
        rows = stage.num_rows
        unequal = {name: table.num_rows for name, table in stage.over.items() if table.num_rows != rows}
        if unequal:
            raise StageError(f"{stage.label}: inputs of {rows} rows and of {unequal} cannot be row-aligned")
        whole = stage.rows == "whole"
        wanted = max(rows, 1) if whole else stage.resources.range_rows or DEFAULT_RANGE_ROWS
        return self.store.fix_ranges(stage.table, key, cut(rows, wanted))

    def _manifest(self, stage: Stage, key: str, parts: list[Part], began: datetime) -> dict[str, Any]:
        inputs = {**stage.over, **stage.inputs}
        return {
            **describe(stage.table, key, stage.label, stage.schema, parts),
            "settings": stage.settings_for_key,
            "version": stage.version,
            "inputs": {n: {"table": t.table, "key": t.key, "digest": t.digest} for n, t in inputs.items()},
            "rows_in": stage.num_rows,
            "seed": self.seed,
            "started": began.isoformat(),
        }

    def _record(self, stage: Stage, key: str, rows: int, reused: int, errors: int, seconds: float) -> None:
        self.records.append(StageRecord(stage.label, stage.table, key, rows, reused, rows - reused, errors, seconds))


@dataclass(frozen=True)
class _MakeRunner:
    """Travels to the workers and makes their runner there."""

    stages: tuple[Stage, ...]
    keys: tuple[str, ...]
    store: Store

    def __call__(self) -> StageRunner:
        return StageRunner(self.stages, self.keys, self.store)


def _raise_failure(stage: Stage, receipt: dict[str, Any]) -> None:
    if "failure" not in receipt:
        return
    where = f"{stage.label}, rows [{receipt['start']}, {receipt['stop']})"
    if receipt["kind"] == "InputError":
        raise InputError(receipt["failure"])
    trace = "\n" + receipt["trace"] if "trace" in receipt else ""
    raise StageError(f"{where} failed: {receipt['failure']}{trace}")


def _covering(stage: Stage, ranges: list[tuple[int, int]], parts: dict[tuple[int, int], Part]) -> list[Part]:
    """The parts of a table, one per range; rows in = rows out over the whole table."""
    missing = [bounds for bounds in ranges if bounds not in parts]
    if missing:
        raise StageError(f"{stage.label}: {len(missing)} ranges have no part, the first is {missing[0]}; run again")
    chosen = [parts[bounds] for bounds in ranges]
    if stage.rows == "same" and sum(part.rows for part in chosen) != stage.num_rows:
        raise StageError(f"{stage.label}: {stage.num_rows} rows in, {sum(part.rows for part in chosen)} rows out")
    return chosen


def describe(table: str, key: str, label: str, schema: pa.Schema | None, parts: Sequence[Part]) -> dict[str, Any]:
    """The part of a manifest that every table has, however it was made."""
    return {
        "table": table,
        "key": key,
        "label": label,
        "files": schema is None,
        "schema": None if schema is None else {f.name: str(f.type) for f in schema},
        "rows": sum(part.rows for part in parts),
        "digest": table_digest(schema, parts),
        "parts": [part._asdict() for part in parts],
        "versions": versions(),
        "host": socket.gethostname(),
        "finished": datetime.now(UTC).isoformat(),
    }


def import_table(
    store: Store,
    table: str,
    key: str,
    label: str,
    schema: pa.Schema,
    batches: Callable[[], Iterator[pa.Table]],
    expected_rows: int | None = None,
) -> Table:
    """Commit rows that come from outside the store (files, a task list), one part per batch, or find them there.

    Raises: StageError unless there are `expected_rows` rows, where that is known.
    """
    found = store.find(table, key)
    if found is not None:
        _check_count(label, table, expected_rows, found.num_rows)
        return found
    parts: list[Part] = []
    start = 0
    for batch in batches():
        parts.append(store.write_part(table, key, start, start + batch.num_rows, batch, schema))
        start += batch.num_rows
    if not parts:
        parts.append(store.write_part(table, key, 0, 0, schema.empty_table(), schema))
    _check_count(label, table, expected_rows, sum(part.rows for part in parts))
    return store.commit(table, key, describe(table, key, label, schema, parts))


def _check_count(label: str, table: str, expected: int | None, rows: int) -> None:
    if expected is not None and rows != expected:
        raise StageError(f"{label}: {expected} {table} were read, {rows} are in the store")


def import_rows(store: Store, table: str, label: str, rows: pa.Table) -> Table:
    """Commit a table that is at hand, keyed by its content, or find it there."""
    key = digest_of({table: encode_part(rows, {})[1]})
    return import_table(store, table, key, label, rows.schema, lambda: iter([rows]))
