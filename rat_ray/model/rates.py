"""What is reported of the judges: their rates, and whether the errors of two of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_ray.model.states import UNDEFINED
from rat_ray.model.verdicts import Verdicts, judged_states


class Rate(NamedTuple):
    """A judge's rate of verdicts of 1 over some states. parameter: the column, or -1 where the panel gives it."""

    name: str
    side: int
    parameter: int
    cells: np.ndarray
    states: np.ndarray


class Pair(NamedTuple):
    """Two judges of a panel. sign: per state 1 or -1 (both variables have a value there), or 0."""

    name: str
    side: int
    first: np.ndarray
    second: np.ndarray
    sign: np.ndarray


def rates_of(sides: Sequence[Verdicts]) -> list[Rate]:
    """TPR and FPR of every judge, and its rate on abstentions where it has one."""
    return [rate for number, side in enumerate(sides) for rate in _rates(side, number)]


def _rates(side: Verdicts, number: int) -> list[Rate]:
    found = []
    states, many = judged_states(side.judges), len(side.judges)
    for j, judge in enumerate(side.judges):
        for name, value in (("tpr", 1), ("fpr", 0)):
            found.append(_rate(side, f"{name}[{judge}]", number, j, states[j] == value, many * value + j))
    for index, judge in enumerate(side.own):
        j = side.judges.index(judge)
        found.append(_rate(side, f"yes[{judge},a=1]", number, j, states[j] == UNDEFINED, 2 * many + index))
    return found


def _rate(side: Verdicts, name: str, number: int, judge: int, states: np.ndarray, parameter: int) -> Rate:
    return Rate(name, number, -1 if side.panel else parameter, side.combinations[:, judge] == 1, states)


def pairs_of(sides: Sequence[Verdicts]) -> list[Pair]:
    """Every two judges of a panel."""
    return [pair for number, side in enumerate(sides) if side.panel for pair in _pairs(side, number)]


def _pairs(side: Verdicts, number: int) -> list[Pair]:
    states = judged_states(side.judges)
    sign = np.where(states == UNDEFINED, 0, 2 * states - 1)
    return [
        Pair(
            f"cor[{side.judges[i]},{side.judges[j]}]",
            number,
            side.combinations[:, i] == 1,
            side.combinations[:, j] == 1,
            sign[i] * sign[j],
        )
        for i in range(len(side.judges))
        for j in range(i + 1, len(side.judges))
    ]


def as_columns(rows: list[np.ndarray], height: int) -> np.ndarray:
    """(height, rows) of floats, also where there are none."""
    return np.array(rows, dtype=float).reshape(len(rows), height).T
