"""Runs units of work in one process, in a Ray worker or in a plain loop, with the stage's worker kept alive."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rat_ray.errors import InputError, StageError
from rat_ray.stage.stage import Stage, check_rows, lost_rows, read_aligned, rows_with_error
from rat_ray.stage.units import JOIN, LOST, PIECE, Receipt, Unit
from rat_ray.store import Part, Store, Table
from rat_ray.store.local import disk_full, is_full
from rat_ray.store.pieces import has_piece, read_pieces, remove_pieces, write_piece

LONGEST = 20_000  # characters of an error's own words


@dataclass
class _Kept:
    """A stage's worker and how many units use it now."""

    stage: Stage
    worker: Any
    users: int = 0


class StageRunner:
    """Made once per process. A stage's worker is made at its first unit and kept while units ask for an equal one.

    Several threads may do units at once.
    """

    def __init__(self, stages: Sequence[Stage], keys: Sequence[str], store: Store) -> None:
        self._stages = stages
        self._keys = keys
        self._store = store
        self._lock = threading.Lock()
        self._kept: list[_Kept] = []

    def __call__(self, unit: Unit, again: bool = False) -> Receipt:
        """Do the unit. again: it was begun before and its answer was lost.

        What goes wrong in it is told in the receipt; the driver decides what ends.
        """
        began = time.monotonic()
        try:
            part, errors = self._run(unit, again)
        except (InputError, StageError) as error:
            return Receipt(unit, failure=str(error), bad_input=isinstance(error, InputError))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # libraries in Rust raise panics that are no Exception
            text = f"{self._where(unit)} failed: {type(error).__name__}: {str(error)[:LONGEST]}"
            return Receipt(unit, failure=f"{text}\n{traceback.format_exc()[-LONGEST:]}")
        return Receipt(unit, part, errors, time.monotonic() - began, socket.gethostname())

    def _where(self, unit: Unit) -> str:
        return f"{self._stages[unit.stage].label}, rows [{unit.low}, {unit.high})"

    def _run(self, unit: Unit, again: bool) -> tuple[Part | None, int]:
        stage, key = self._stages[unit.stage], self._keys[unit.stage]
        folder, bounds, inner = (stage.table, key), (unit.start, unit.stop), (unit.low, unit.high)
        if again or unit.kind == JOIN:  # it may have been made, and its answer lost: never make it twice
            done = self._store.find_part(stage.table, key, *bounds)
            if done is not None:
                return (None, 0) if unit.kind in (PIECE, LOST) else (done, errors_in(self._store, stage, key, done))
        if stage.schema is None:
            return self._write_files(stage, key, unit), 0
        if unit.kind in (PIECE, LOST):
            if not has_piece(self._store, folder, bounds, inner):
                write_piece(self._store, folder, bounds, inner, self._make(stage, unit), stage.schema)
            return None, 0
        try:
            made = self._joined(stage, key, unit) if unit.kind == JOIN else self._make(stage, unit)
        except FileNotFoundError:  # its pieces: joined a moment ago by a process that we had given up
            done = self._store.find_part(stage.table, key, *bounds)
            if done is None:
                raise
            return done, errors_in(self._store, stage, key, done)
        part = self._store.write_part(stage.table, key, unit.start, unit.stop, made, stage.schema)
        if unit.kind == JOIN:
            remove_pieces(self._store, folder, bounds)
        return part, rows_with_error(made) if stage.has_errors else 0

    def _make(self, stage: Stage, unit: Unit) -> pa.Table:
        rows = read_aligned(stage, unit.low, unit.high)
        if unit.kind == LOST:
            made = lost_rows(stage, rows, unit.reason)
        else:
            with self._worker_for(stage) as worker:
                made = worker(rows)
        check_rows(stage, rows, made, self._where(unit))
        return made

    def _joined(self, stage: Stage, key: str, unit: Unit) -> pa.Table:
        made = read_pieces(self._store, (stage.table, key), (unit.start, unit.stop), unit.pieces)
        check_rows(stage, read_aligned(stage, unit.start, unit.stop), made, self._where(unit))
        return made

    def _write_files(self, stage: Stage, key: str, unit: Unit) -> Part:
        rows = read_aligned(stage, unit.start, unit.stop)
        scratch = self._store.scratch_folder(stage.table, key)
        try:
            with self._worker_for(stage) as worker:
                taken = worker(rows, scratch)
            if taken != unit.rows:
                raise StageError(f"{self._where(unit)}: {unit.rows} rows in, {taken} accounted for")
            return self._store.write_folder(stage.table, key, unit.start, unit.stop, scratch)
        except (OSError, RuntimeError) as error:  # faiss raises a RuntimeError with the system's words
            if not is_full(error):
                raise
            raise StageError(disk_full(str(scratch))) from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)  # gone already where it became a part

    @contextlib.contextmanager
    def _worker_for(self, stage: Stage) -> Iterator[Any]:
        """The stage's worker: one at hand where it was made of equal settings and inputs."""
        with self._lock:
            kept = next((one for one in self._kept if stage.same_worker(one.stage)), None)
            if kept is None:
                self._free()  # before the next one is made, which may fail
                kept = _Kept(stage, stage.worker(stage.settings, dict(stage.inputs)))
                self._kept.append(kept)
            kept.users += 1
        try:
            yield kept.worker
        finally:
            with self._lock:
                kept.users -= 1

    def _free(self) -> None:
        """Close the workers that no unit uses."""
        idle = [one for one in self._kept if not one.users]
        self._kept = [one for one in self._kept if one.users]
        for one in idle:
            close = getattr(one.worker, "close", None)
            if close is not None:
                close()


def errors_in(store: Store, stage: Stage, key: str, part: Part) -> int:
    """How many rows of a part that lies in the store carry an error."""
    if not stage.has_errors:
        return 0
    table = Table(store.root, stage.table, key, "", part.rows, (part,), storage=store.storage)
    return rows_with_error(table.read_part(part, ["error"]))
