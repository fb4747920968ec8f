"""What a strategy buys of an item, by the state that the item is in."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.strategies import Items, strategy_of
from rat_ray.model.patterns import MISSING
from rat_ray.model.states import ABSTAINED, STATES

_CHANCES = 1000
_R = STATES[:, 0]
_T = np.where(ABSTAINED, MISSING, STATES[:, 2]).astype(np.int8)


class Behaviour(NamedTuple):
    """share: of items that are dealt with so; r, t: (6,) booleans, what is bought in each of the six states."""

    share: float
    r: np.ndarray
    t: np.ndarray

    def cost(self, theta: np.ndarray, costs: Costs) -> np.ndarray:
        """(...) what is paid per item on average. theta: (6, ...) shares of the states."""
        return np.asarray(costs.r * theta[self.r].sum(axis=0) + costs.t * theta[self.t].sum(axis=0))


@cache
def behaviours(strategy: str) -> tuple[Behaviour, ...]:
    """What a strategy does with items of each state; several where chance decides, each with its share."""
    # Every state once for each of many values of the item's own random number, spread evenly.
    chance = np.repeat((np.arange(_CHANCES) + 0.5) / _CHANCES, len(STATES))
    r, a, t = (np.tile(labels, _CHANCES) for labels in (_R, ABSTAINED.astype(np.int8), _T))
    wanted = strategy_of(strategy)(Items(r, a, t, chance))
    bought = np.concatenate([part.reshape(_CHANCES, -1) for part in (wanted.r, wanted.t & (a == 0))], axis=1)
    kinds, counts = np.unique(bought, axis=0, return_counts=True)
    width = len(STATES)
    return tuple(
        Behaviour(float(count / _CHANCES), kind[:width], kind[width:])
        for kind, count in zip(kinds, counts, strict=True)
    )


def seen(behaviour: Behaviour) -> list[np.ndarray]:
    """The states that look alike once A and what is bought are known: indices of each group."""
    groups: dict[tuple[bool, int, int], list[int]] = {}
    for state in range(len(STATES)):
        r = int(_R[state]) if behaviour.r[state] else -1
        t = int(_T[state]) if behaviour.t[state] else -1
        groups.setdefault((bool(ABSTAINED[state]), r, t), []).append(state)
    return [np.array(states) for states in groups.values()]
