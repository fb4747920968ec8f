"""A unit of work and the receipt of it: what travels between the driver and the workers, never the rows."""

from __future__ import annotations

from typing import NamedTuple

from rat_ray.store import Part

PART = "part"  # a whole range: read it, call the worker, write its part
PIECE = "piece"  # some rows of a range whose whole killed its worker
LOST = "lost"  # a row that killed its worker alone: it gets an error
JOIN = "join"  # the pieces of a range, put together as its part


class Unit(NamedTuple):
    """Rows [low, high) of the range [start, stop) of a stage, by its index."""

    stage: int
    start: int
    stop: int
    low: int
    high: int
    kind: str = PART
    reason: str = ""
    pieces: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        return f"rows [{self.low}, {self.high})"

    @property
    def rows(self) -> int:
        return self.stop - self.start


class Receipt(NamedTuple):
    """What became of a unit. part: of a PART or JOIN. failure: the worker's own exception, which ends the stage."""

    unit: Unit
    part: Part | None = None
    errors: int = 0
    seconds: float = 0.0
    host: str = ""
    failure: str = ""
    bad_input: bool = False


def whole(stage: int, start: int, stop: int) -> Unit:
    """The unit of a whole range."""
    return Unit(stage, start, stop, start, stop)
