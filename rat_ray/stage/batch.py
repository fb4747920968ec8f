"""The stages of one level that are made together: their units, what came of them, and their manifests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from rat_ray.cluster import Cluster
from rat_ray.errors import InputError, StageError
from rat_ray.pool import Pool, PoolSettings
from rat_ray.stage.recovery import Recovery
from rat_ray.stage.runner import StageRunner, errors_in
from rat_ray.stage.stage import Stage, StageFailure, StageRecord
from rat_ray.stage.units import Receipt, Unit, whole
from rat_ray.store import Part, Store, Table, table_digest
from rat_ray.versions import provenance

READERS = 16  # threads that read the error column of reused parts


@dataclass
class _Progress:
    """One stage on its way: its ranges, the parts that are there, and what was counted."""

    key: str
    stage: Stage
    ranges: list[tuple[int, int]]
    parts: dict[tuple[int, int], Part]
    reused: list[Part]
    fresh_rows: int = 0
    errors: int = 0
    seconds: float = 0.0
    hosts: set[str] = field(default_factory=set)
    failure: StageFailure | None = None


class Batch:
    """Stages by their keys. total and waiting count rows, or tables where each is one piece of work (`whole`).

    unit: what these are called.
    """

    def __init__(self, store: Store, todo: Mapping[str, Stage]) -> None:
        self._store = store
        self._all = [self._begin(key, stage) for key, stage in todo.items()]
        self._units = [
            whole(index, *bounds)
            for index, one in enumerate(self._all)
            for bounds in one.ranges
            if bounds not in one.parts
        ]
        self.whole = all(one.stage.rows == "whole" for one in self._all)
        units = {"fits" if one.stage.rows == "whole" else one.stage.unit for one in self._all}
        self.unit = units.pop() if len(units) == 1 else "rows"
        self.total = len(self._all) if self.whole else sum(one.stage.num_rows for one in self._all)
        self.waiting = sum(1 if self.whole else unit.rows for unit in self._units)
        self.records: list[StageRecord] = []

    def _begin(self, key: str, stage: Stage) -> _Progress:
        try:
            ranges = self._ranges(stage, key)
        except StageError as error:
            return _Progress(key, stage, [], {}, [], failure=StageFailure(stage.label, str(error), False))
        parts = {(p.start, p.stop): p for p in self._store.parts(stage.table, key)}
        return _Progress(key, stage, ranges, parts, [parts[bounds] for bounds in ranges if bounds in parts])

    def _ranges(self, stage: Stage, key: str) -> list[tuple[int, int]]:
        rows = stage.num_rows
        unequal = {name: table.num_rows for name, table in stage.over.items() if table.num_rows != rows}
        if unequal:
            raise StageError(f"{stage.label}: inputs of {rows} rows and of {unequal} cannot be row-aligned")
        found = self._store.fix_ranges(stage.table, key, stage.ranges)
        ends = [0, *(stop for _, stop in found)]
        if ends[-1] != rows or any(start != end for (start, _), end in zip(found, ends[:-1], strict=True)):
            where = self._store.where(stage.table, key)
            raise StageError(f"{where}/ranges.json does not cover its {rows} rows; delete {where} and run again")
        return found

    # --- doing --------------------------------------------------------------------------------------------------

    def run(self, cluster: Cluster, title: str, small: bool) -> Iterator[int]:
        """Do the units; yields how much is done of `waiting`, as it is done. A failed stage's other units are left."""
        if not self._units:
            return
        make_runner = _MakeRunner(
            tuple(one.stage for one in self._all), tuple(one.key for one in self._all), self._store
        )
        use = cluster.settings.use
        if use == "never" or (use == "auto" and small):
            yield from self._run_here(make_runner())
            return
        if self._store.local and not self._store.storage.shared:
            cluster.check_shared(self._store.root)
        recovery = Recovery(
            make_runner.stages, cluster.settings.tries, {i for i, one in enumerate(self._all) if one.reused}
        )
        # One pool for all whose workers are of one size, whatever their ranges are.
        sizes = [(dataclasses.replace(one.stage.resources, range_rows=0), one.stage.together) for one in self._all]
        for size in dict.fromkeys(sizes):
            units = [unit for unit in self._units if sizes[unit.stage] == size]
            if units:
                yield from self._run_there(cluster, title, units, make_runner, recovery, cluster.workers(*size))

    def _run_here(self, runner: StageRunner) -> Iterator[int]:
        for unit in self._units:
            if self._all[unit.stage].failure is None:
                yield from self._take(runner(unit))

    def _run_there(
        self,
        cluster: Cluster,
        title: str,
        units: Sequence[Unit],
        make_runner: _MakeRunner,
        recovery: Recovery,
        workers: PoolSettings,
    ) -> Iterator[int]:
        groups = [one.stage.affinity_or_default for one in self._all]
        pool: Pool[Unit, Receipt] = Pool(title, units, lambda unit: groups[unit.stage], make_runner, recovery, workers)
        stopped = ""
        try:
            for receipt in pool.receipts():
                yield from self._take(receipt)
                if receipt.failure:
                    pool.drop(lambda unit: self._all[unit.stage].failure is not None)
        except StageError as error:  # stalled, or the cluster is lost: what is whole is committed all the same
            stopped = str(error)
        for index, message in recovery.given_up.items():
            self._fail(index, message, False)
        for index in {unit.stage for unit in units} if stopped else ():
            if any(bounds not in self._all[index].parts for bounds in self._all[index].ranges):
                self._fail(index, stopped, False)

    def _take(self, receipt: Receipt) -> Iterator[int]:
        one = self._all[receipt.unit.stage]
        one.seconds += receipt.seconds
        if receipt.failure:
            self._fail(receipt.unit.stage, receipt.failure, receipt.bad_input)
            return
        if receipt.part is None:
            return
        one.parts[(receipt.part.start, receipt.part.stop)] = receipt.part
        one.hosts.add(receipt.host)
        one.errors += receipt.errors
        one.fresh_rows += receipt.unit.rows
        yield 1 if self.whole else receipt.unit.rows

    def _fail(self, index: int, message: str, bad_input: bool) -> None:
        one = self._all[index]
        if one.failure is None:
            one.failure = StageFailure(one.stage.label, message, bad_input)

    # --- committing ---------------------------------------------------------------------------------------------

    def commit(self, seed: int, began: datetime) -> dict[str, Table | StageFailure]:
        """Write the manifest of every stage that is whole; what failed is told."""
        return {one.key: one.failure or self._commit(one, seed, began) for one in self._all}

    def _commit(self, one: _Progress, seed: int, began: datetime) -> Table | StageFailure:
        stage = one.stage
        try:
            parts = _covering(one)
            with ThreadPoolExecutor(READERS) as readers:
                found = readers.map(lambda part: errors_in(self._store, stage, one.key, part), one.reused)
                errors = one.errors + sum(found)
            table = self._store.commit(stage.table, one.key, self._manifest(one, parts, errors, seed, began))
        except StageError as error:
            return StageFailure(stage.label, str(error), isinstance(error, InputError))
        rows, fresh = stage.num_rows, one.fresh_rows
        self.records.append(
            StageRecord(stage.label, stage.table, one.key, rows, rows - fresh, fresh, errors, one.seconds)
        )
        return table

    def _manifest(self, one: _Progress, parts: list[Part], errors: int, seed: int, began: datetime) -> dict[str, Any]:
        stage = one.stage
        inputs = {**stage.over, **stage.inputs}
        return {
            **describe(stage.table, one.key, stage.label, stage.schema, parts),
            "settings": stage.settings_for_key,
            "version": stage.version,
            "inputs": {n: {"table": t.table, "key": t.key, "digest": t.digest} for n, t in inputs.items()},
            "rows_in": stage.num_rows,
            "reused_rows": stage.num_rows - one.fresh_rows,
            "errors": errors if stage.has_errors else None,
            "seed": getattr(stage.settings, "seed", seed),
            "started": began.isoformat(),
            "hosts": sorted(one.hosts),
            "worker_seconds": round(one.seconds, 3),
        }


@dataclass(frozen=True)
class _MakeRunner:
    """Travels to the workers and makes their runner there."""

    stages: tuple[Stage, ...]
    keys: tuple[str, ...]
    store: Store

    def __call__(self) -> StageRunner:
        return StageRunner(self.stages, self.keys, self.store)


def _covering(one: _Progress) -> list[Part]:
    """The parts of a table, one per range; rows in = rows out over the whole table."""
    stage = one.stage
    missing = [bounds for bounds in one.ranges if bounds not in one.parts]
    if missing:
        raise StageError(f"{stage.label}: {len(missing)} ranges have no part, the first is {missing[0]}; run again")
    chosen = [one.parts[bounds] for bounds in one.ranges]
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
        **provenance(),
        "finished": datetime.now(UTC).isoformat(),
    }
