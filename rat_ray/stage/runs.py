"""Runs stages against a store and a cluster: what is there is reused, what is missing is made, once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from rat_ray.cluster import Cluster
from rat_ray.errors import InputError, StageError
from rat_ray.progress import StageProgress, console
from rat_ray.stage.batch import Batch
from rat_ray.stage.stage import Stage, StageFailure, StageRecord
from rat_ray.stage.waiting import Waiting
from rat_ray.store import Lease, Store, Table

POLL_SECONDS = 1.0  # how often a stage that another job is making is looked for


class Runs:
    """Runs stages, and keeps the record of what was reused and what was made."""

    def __init__(self, store: Store, cluster: Cluster, seed: int = 0, quiet: bool = False) -> None:
        self.store = store
        self.cluster = cluster
        self.seed = seed
        self.records: list[StageRecord] = []
        self._quiet = quiet

    def run(self, stages: Sequence[Stage], title: str, small: bool = False) -> list[Table]:
        """Make the tables of these stages, or find them; one table per stage, in their order.

        small: cheap enough for this process (unless `cluster.use=always`). Stages with one key run once.

        Raises: StageError or InputError of the first stage that failed, when the others are done; completed parts
        stay and a rerun reuses them.
        """
        made = self.attempt(stages, title, small)
        tables = [table for table in made if isinstance(table, Table)]
        for failure in made:
            if isinstance(failure, StageFailure):
                raise (InputError if failure.bad_input else StageError)(failure.message)
        return tables

    def attempt(self, stages: Sequence[Stage], title: str, small: bool = False) -> list[Table | StageFailure]:
        """As `run`, but a stage that fails does not stop the others: its place holds why.

        Raises: StageError where the cluster or the store is lost, which concerns all of them.
        """
        keys = [stage.key for stage in stages]
        unique = {key: index for index, key in reversed(list(enumerate(keys)))}
        found: dict[str, Table | StageFailure] = {}
        todo: dict[str, Stage] = {}
        for key, index in sorted(unique.items(), key=lambda item: item[1]):
            there = self._find(stages[index], key)
            if there is None:
                todo[key] = stages[index]
            else:
                found[key] = there
        if todo:
            found.update(self._share(todo, title, small))
        return [found[key] for key in keys]

    def _find(self, stage: Stage, key: str) -> Table | StageFailure | None:
        """The committed table, why it cannot be read, or None where there is none."""
        try:
            table = self.store.find(stage.table, key)
        except StageError as error:
            return StageFailure(stage.label, str(error), False)
        return None if table is None else self._reused(stage, table)

    def _reused(self, stage: Stage, table: Table) -> Table:
        rows = int(table.manifest.get("rows_in", table.num_rows))
        errors = int(table.manifest.get("errors") or 0)
        self.records.append(StageRecord(stage.label, stage.table, table.key, rows, rows, 0, errors, 0.0))
        return table

    def _share(self, todo: dict[str, Stage], title: str, small: bool) -> dict[str, Table | StageFailure]:
        """Make what no other job is making, then wait for the rest, or make it when its maker has died."""
        found: dict[str, Table | StageFailure] = {}
        waiting = Waiting(title, self._quiet)
        while todo:
            leases: dict[str, Lease] = {}
            try:
                for key, stage in list(todo.items()):
                    lease = self.store.lease(stage.table, key, stage.label)
                    if isinstance(lease, Lease):
                        leases[key] = lease
                    else:
                        waiting.holders[key] = f"{stage.label} is being made by {lease}"
                    there = self._find(stage, key)  # its maker may have finished a moment ago
                    if there is not None:
                        found[key] = there
                        del todo[key]
                mine = {key: stage for key, stage in todo.items() if key in leases}
                if mine:
                    found.update(self._make(mine, title, small))
            finally:
                for lease in leases.values():
                    lease.release()
            todo = {key: stage for key, stage in todo.items() if key not in found}
            if todo and not mine:
                waiting.say(list(todo))
                time.sleep(POLL_SECONDS)
        return found

    def _make(self, todo: dict[str, Stage], title: str, small: bool) -> dict[str, Table | StageFailure]:
        batch = Batch(self.store, todo)
        began = datetime.now(UTC)
        screen = console()
        screen.quiet = self._quiet
        with StageProgress(title, batch.total, batch.total - batch.waiting, screen, batch.unit) as progress:
            for done in batch.run(self.cluster, title, small):
                progress.advance(done)
        made = batch.commit(self.seed, began)
        self.records += batch.records
        return made
