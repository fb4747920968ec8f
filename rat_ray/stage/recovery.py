"""What becomes of a unit whose process died: tried again, then halved down to the row that does it.

A row that kills its worker alone gets an error; the others of its range keep their results, as pieces that are joined
to the range's part.
"""

from __future__ import annotations

from collections.abc import Sequence

from rat_ray.stage.stage import Stage
from rat_ray.stage.units import JOIN, LOST, PART, PIECE, Receipt, Unit


class Recovery:
    """Decides for the units of one run. tries: how often a range, and at last a single row, may kill its process."""

    def __init__(self, stages: Sequence[Stage], tries: int) -> None:
        self._stages = stages
        self._tries = tries
        self._waiting: dict[tuple[int, int, int], set[tuple[int, int]]] = {}
        self._done: dict[tuple[int, int, int], set[tuple[int, int]]] = {}
        self.given_up: dict[int, str] = {}  # by stage: what cannot be done, where rows cannot carry an error

    def died(self, unit: Unit, deaths: int, reason: str) -> list[Unit] | None:
        """The units to run instead of one that has killed `deaths` processes; None: try it again.

        None are left, and `given_up` says why, where the stage's rows cannot carry an error.
        """
        # Rows of a range that was tried often enough are halved at once; only the last one is tried as often again.
        single = unit.high - unit.low <= 1
        enough = self._tries if unit.kind != PIECE or single else 1
        if deaths < enough:
            return None
        stage = self._stages[unit.stage]
        if unit.kind in (LOST, JOIN) or not stage.can_lose_rows:
            self.given_up.setdefault(unit.stage, self._gave_up(stage, unit, deaths, reason))
            return []
        if unit.kind == PART:
            self._waiting[_range(unit)] = {(unit.low, unit.high)}
            self._done[_range(unit)] = set()
        if single or stage.rows not in ("same", "groups"):
            why = f"killed its worker {deaths} times: {reason}"
            return [unit._replace(kind=LOST, reason=why)]
        middle = (unit.low + unit.high) // 2
        halves = [(unit.low, middle), (middle, unit.high)]
        waiting = self._waiting[_range(unit)]
        waiting.discard((unit.low, unit.high))
        waiting.update(halves)
        return [unit._replace(kind=PIECE, low=low, high=high) for low, high in halves]

    def finished(self, unit: Unit, receipt: Receipt) -> list[Unit]:
        """What follows a unit that was done: the join after the last piece of a range."""
        if unit.kind not in (PIECE, LOST) or receipt.failure:
            return []
        waiting, done = self._waiting[_range(unit)], self._done[_range(unit)]
        waiting.discard((unit.low, unit.high))
        done.add((unit.low, unit.high))
        if waiting:
            return []
        join = unit._replace(kind=JOIN, low=unit.start, high=unit.stop, reason="", pieces=tuple(sorted(done)))
        return [join]

    def _gave_up(self, stage: Stage, unit: Unit, deaths: int, reason: str) -> str:
        return (
            f"{stage.label}: rows [{unit.low}, {unit.high}) killed their worker {deaths} times ({reason}), and "
            f"rows of {stage.table} cannot carry an error; see what is special about these, or give the worker more "
            "memory (resources.*.memory_mb)"
        )


def _range(unit: Unit) -> tuple[int, int, int]:
    return unit.stage, unit.start, unit.stop
