"""The goal of a plan: a width that an interval is to reach, or a pair of configurations to tell apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.states import BASE_QUANTITIES, FINITE

WIDTH, DECIDE = "width", "decide"
GOALS = (WIDTH, DECIDE)
NEW, FINITE_ITEMS = "new", "finite"
INTERVALS = (NEW, FINITE_ITEMS)
GRAMMAR = """\
a goal is one of
  goal=width quantity=p_g width=0.06           the 95 % interval of the quantity is at most that wide
  goal=decide a=CONFIG b=CONFIG level=0.95     P(quantity of a > that of b) is at least level, or at most 1 - level
width is between 0 and 1, level between 0.5 and 1; quantity is p_g unless it is given"""


@dataclass(frozen=True)
class GoalSettings:
    """The goal as it is typed. interval: of new questions, or finite: of exactly the items of the table.

    chance: a budget decides when the simulated future decides with this probability.
    """

    goal: str | None = None
    quantity: str = "p_g"
    width: float | str | None = None
    interval: str = NEW
    a: str | None = None
    b: str | None = None
    level: float | str | None = None
    chance: float = 0.8


class Goal(NamedTuple):
    """A goal that makes sense. width: for WIDTH; a, b, level, chance: for DECIDE."""

    kind: str
    quantity: str
    width: float
    finite: bool
    a: str
    b: str
    level: float
    chance: float

    def words(self) -> str:
        """For people."""
        if self.kind == DECIDE:
            return (
                f"decide whether {self.quantity} of {self.a} is larger than that of {self.b}, at level {self.level:g}"
            )
        where = " among exactly these items" if self.finite else ""
        return f"a 95 % interval of {self.quantity}{where} at most {self.width:g} wide"


def parse_goal(given: GoalSettings) -> Goal:
    """Raises InputError, with the grammar, for a goal that is none."""
    kind = given.goal
    if kind is None:
        raise InputError(f"goal: must be given; {GRAMMAR}")
    if kind not in GOALS:
        raise InputError(f"goal={kind}: unknown{did_you_mean(kind, GOALS)}; {GRAMMAR}")
    if given.quantity not in BASE_QUANTITIES:
        raise InputError(f"quantity={given.quantity}: unknown{did_you_mean(given.quantity, BASE_QUANTITIES)}")
    if given.interval not in INTERVALS:
        raise InputError(f"interval={given.interval}: unknown{did_you_mean(given.interval, INTERVALS)}")
    if given.interval == FINITE_ITEMS and given.quantity not in FINITE:
        raise InputError(
            f"interval=finite: {given.quantity} has no share among the items; these have: {', '.join(FINITE)}"
        )
    _number("chance", given.chance, 0.0, 1.0)
    if kind == WIDTH:
        return _width(given)
    return _decide(given)


def _width(given: GoalSettings) -> Goal:
    for name in ("a", "b", "level"):
        if getattr(given, name) is not None:
            raise InputError(f"{name}= goes with goal=decide; {GRAMMAR}")
    width = _number("width", given.width, 0.0, 1.0)
    return Goal(WIDTH, given.quantity, width, given.interval == FINITE_ITEMS, "", "", math.nan, math.nan)


def _decide(given: GoalSettings) -> Goal:
    if given.width is not None:
        raise InputError(f"width= goes with goal=width; {GRAMMAR}")
    if given.interval != NEW:
        raise InputError("interval= goes with goal=width")
    if not given.a or not given.b:
        raise InputError(f"goal=decide: give a= and b=, two configurations; {GRAMMAR}")
    if given.a == given.b:
        raise InputError(f"a={given.a} b={given.b}: give two different configurations")
    level = _number("level", 0.95 if given.level is None else given.level, 0.5, 1.0)
    return Goal(DECIDE, given.quantity, math.nan, False, given.a, given.b, level, given.chance)


def _number(name: str, value: float | str | None, low: float, high: float) -> float:
    try:
        number = float("nan" if value is None else value)
    except ValueError:
        number = math.nan
    if not low < number < high:
        said = "must be given" if value is None else f"give a number between {low:g} and {high:g}"
        raise InputError(f"{name}{'' if value is None else f'={value}'}: {said}; {GRAMMAR}")
    return number


def check_configurations(goal: Goal, known: list[str]) -> None:
    """Raise InputError for a configuration to decide about that there is not."""
    for setting, name in (("a", goal.a), ("b", goal.b)) if goal.kind == DECIDE else ():
        if name not in known:
            raise InputError(f"{setting}={name}: no such configuration{did_you_mean(name, known)}")
