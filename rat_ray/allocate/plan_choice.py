"""From what lies ahead to a decision: which strategy, how much, and may one stop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rat_ray.allocate.plan_ahead import Ahead, precision
from rat_ray.allocate.plan_goal import DECIDE, Goal
from rat_ray.allocate.plan_walk import JOINT

_CLEARLY = 2.0  # standard errors by which a strategy must beat `joint`


class Reach(NamedTuple):
    """cost: the expected cost at which a strategy reaches the goal, None where it does not; se: its Monte Carlo error.

    at_all: the mean width (or the chance of deciding) with everything that the strategy can buy.
    """

    strategy: str
    cost: float | None
    se: float | None
    at_all: float
    questions: float | None


class Choice(NamedTuple):
    """strategy: the best one; by: in words, why. reaches: per strategy."""

    strategy: str
    by: str
    reaches: dict[str, Reach]

    @property
    def best(self) -> Reach:
        return self.reaches[self.strategy]


def score(ahead: Ahead, goal: Goal) -> np.ndarray:
    """(S, B, K): the larger, the better. Precision 1 / width^2, which grows about linearly with the budget, of the
    widest configuration; or 1 where a future decides and 0 where not.
    """
    if goal.kind == DECIDE:
        decided = (ahead.greater >= goal.level) | (ahead.greater <= 1 - goal.level)
        return np.where(np.isnan(ahead.greater), np.nan, decided.astype(float))
    return precision(ahead.widths)


def wanted_score(goal: Goal) -> float:
    return goal.chance if goal.kind == DECIDE else goal.width**-2.0


def choose(ahead: Ahead, goal: Goal, now: float, at: float | None = None) -> Choice:
    """now: the score of the posterior at hand. at: a budget; the best strategy is then the one that tells most for it.

    `joint` is chosen unless another strategy beats it by more than two Monte Carlo errors, over the same futures.
    """
    scores = score(ahead, goal)
    reaches = {name: _reach(name, ahead, scores[s], s, goal, now) for s, name in enumerate(ahead.strategies)}
    others = [name for name in ahead.strategies if name != JOINT]
    if JOINT not in ahead.strategies:
        ranked = sorted(others, key=lambda name: _cost(reaches[name]))
        return Choice(ranked[0], "of those that were asked for", reaches)
    joint = ahead.strategies.index(JOINT)
    where = _where(ahead, reaches, at)
    gains = {}
    for name in others:
        s = ahead.strategies.index(name)
        gain = scores[s, where] - scores[joint, where]
        gain = gain[np.isfinite(gain)]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.inf
        if (
            gain.size
            and gain.mean() > _CLEARLY * error
            and (at is not None or _cost(reaches[name]) < _cost(reaches[JOINT]))
        ):
            gains[name] = float(gain.mean())
    if not gains:
        return Choice(JOINT, "no other strategy is clearly better", reaches)
    best = max(gains, key=lambda name: gains[name]) if at is not None else min(gains, key=lambda n: _cost(reaches[n]))
    return Choice(best, f"clearly better than {JOINT} over the same futures", reaches)


def _where(ahead: Ahead, reaches: dict[str, Reach], at: float | None) -> int:
    """The budget of the grid at which strategies are compared: the given one, or nearest to where one gets there."""
    if at is not None:
        return int(np.abs(ahead.budgets - at).argmin())
    costs = [one.cost for one in reaches.values() if one.cost is not None]
    # Where no strategy gets there, the middle of what can be bought.
    goal = min(costs) if costs else float(np.sqrt(ahead.budgets[0] * ahead.budgets[-1]))
    return int(np.abs(np.log(ahead.budgets / max(goal, 1e-9))).argmin())


def _cost(reach: Reach) -> float:
    return float("inf") if reach.cost is None else reach.cost


def _reach(name: str, ahead: Ahead, scores: np.ndarray, s: int, goal: Goal, now: float) -> Reach:
    """scores: (B, K). By linear interpolation of the mean score between what is there now and the budgets."""
    looked = np.isfinite(scores).any(axis=1)  # of a hopeless strategy only the largest budget was
    scores = scores[looked]
    means = np.nanmean(scores, axis=1)
    errors = np.nanstd(scores, axis=1, ddof=1) / np.sqrt(np.isfinite(scores).sum(axis=1))
    spent = np.concatenate([[0.0], np.nanmean(ahead.costs[s][looked], axis=1)])
    far = np.concatenate([[0.0], np.nanmean(ahead.questions[s][looked], axis=1)])
    values = np.concatenate([[now], means])
    at_all = float(means[-1] if goal.kind == DECIDE else np.nanmean(ahead.widths[s, -1].max(axis=1)))
    target = wanted_score(goal)
    above = np.flatnonzero(values >= target)
    if not len(above):
        return Reach(name, None, None, at_all, None)
    i = int(above[0])
    if i == 0:
        return Reach(name, 0.0, 0.0, at_all, 0.0)
    share = (target - values[i - 1]) / (values[i] - values[i - 1])
    cost = spent[i - 1] + share * (spent[i] - spent[i - 1])
    slope = (values[i] - values[i - 1]) / max(spent[i] - spent[i - 1], 1e-9)
    error = float(errors[i - 1] / slope) if np.isfinite(errors[i - 1]) else None
    return Reach(name, float(cost), error, at_all, float(far[i - 1] + share * (far[i] - far[i - 1])))
