"""What becomes of a unit whose process died: tried again, then halved down to the row that does it.

A row that kills its worker alone gets an error; the others of its range keep their results, as pieces that are joined
to the range's part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from rat_ray.stage.stage import Stage
from rat_ray.stage.units import JOIN, LOST, PART, PIECE, Receipt, Unit

_MEMORY = "give the worker more memory (resources.*.memory_mb) if it may lack that"
_NO_ROW = "no row of it could be done: every process died, so it is not these rows but the worker"
MOST_DEAD = 10  # ranges of a stage of which nothing was ever done
MOST_LOST = 100  # rows of one stage: more than that is no matter of single rows


class Recovery:
    """Decides for the units of one run.

    tries: how often a range, and at last a single row, may kill its process. begun: the stages of which parts were
    there before.
    """

    def __init__(self, stages: Sequence[Stage], tries: int, begun: Iterable[int] = ()) -> None:
        self._stages = stages
        self._tries = tries
        self._works = set(begun)  # stages whose worker was made and did something
        self._lost: Counter[int] = Counter()
        self._died: defaultdict[int, set[int]] = defaultdict(set)  # by stage: the ranges tried often enough in vain
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
        self._died[unit.stage].add(unit.start)
        if unit.stage not in self._works and len(self._died[unit.stage]) >= MOST_DEAD:
            return self._give_up(stage, unit, _NO_ROW, reason)
        if unit.kind in (LOST, JOIN) or not stage.can_lose_rows:
            self.given_up.setdefault(unit.stage, self._gave_up(stage, unit, deaths, reason))
            return []
        if unit.kind == PART:
            self._waiting[_range(unit)] = {(unit.low, unit.high)}
            self._done[_range(unit)] = set()
        if single or stage.rows not in ("same", "groups"):
            return self._lose(stage, unit, deaths, reason)
        middle = (unit.low + unit.high) // 2
        halves = [(unit.low, middle), (middle, unit.high)]
        waiting = self._waiting[_range(unit)]
        waiting.discard((unit.low, unit.high))
        waiting.update(halves)
        return [unit._replace(kind=PIECE, low=low, high=high) for low, high in halves]

    def _lose(self, stage: Stage, unit: Unit, deaths: int, reason: str) -> list[Unit]:
        """Give up these rows, unless the fault is not theirs."""
        rows = unit.high - unit.low
        self._lost[unit.stage] += rows
        if unit.stage not in self._works and rows < stage.num_rows:
            return self._give_up(stage, unit, _NO_ROW, reason)
        if self._lost[unit.stage] > max(rows, MOST_LOST):
            why = f"more than {MOST_LOST} rows killed their worker, which is no matter of single rows"
            return self._give_up(stage, unit, why, reason)
        return [unit._replace(kind=LOST, reason=f"killed its worker {deaths} times: {reason}")]

    def _give_up(self, stage: Stage, unit: Unit, why: str, reason: str) -> list[Unit]:
        self.given_up.setdefault(unit.stage, f"{stage.label}: {why} ({reason}); {_MEMORY}")
        return []

    def unwanted(self, unit: Unit) -> bool:
        """Whether its stage was given up."""
        return unit.stage in self.given_up

    def finished(self, unit: Unit, receipt: Receipt) -> list[Unit]:
        """What follows a unit that was done: the join after the last piece of a range."""
        if receipt.failure:
            return []
        if unit.kind != LOST:
            self._works.add(unit.stage)
        if unit.kind not in (PIECE, LOST):
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
            f"rows of {stage.table} cannot carry an error; see what is special about these, or {_MEMORY}"
        )


def _range(unit: Unit) -> tuple[int, int, int]:
    return unit.stage, unit.start, unit.stop
