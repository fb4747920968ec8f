"""A plan: from a pool of items and a goal to what is known now, what lies ahead, and what to label next."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.allocate.plan_ahead import Ahead, AheadSettings, Looker, Now, greater_of, precision, width_of
from rat_ray.allocate.plan_choice import Choice, choose
from rat_ray.allocate.plan_goal import DECIDE, Goal
from rat_ray.allocate.plan_next import MOST, NARROW, Ask, base_asks, missing_words, next_asks
from rat_ray.allocate.plan_pool import Pool
from rat_ray.allocate.plan_walk import JOINT, strategies_for
from rat_ray.errors import InputError, StageError
from rat_ray.model.design import Options

# One row per configuration (of a decision: one for the pair), strategy and budget. width, greater: means over the
# futures, *_se their Monte Carlo errors. chance: the share of futures that reach the goal.
AHEAD = pa.schema(
    [
        pa.field("strategy", pa.string(), nullable=False),
        pa.field("budget", pa.float64(), nullable=False),
        pa.field("config", pa.string(), nullable=False),
        *(pa.field(name, pa.float64()) for name in ("cost", "width", "width_se", "chance", "chance_se")),
        pa.field("futures", pa.int32()),
    ]
)


class PairNow(NamedTuple):
    """Of two configurations now: P(a > b), and the correlation of the quantity between them."""

    greater: float
    correlation: float


class Plan(NamedTuple):
    """why_base: why a base is to be labelled first; then nothing lies ahead. widths: now, by configuration.

    greater: P(a > b) now, for a decision. reached: one may stop. strategy: of the asks.
    """

    asks: list[Ask]
    strategy: str
    reached: bool
    why_base: str | None
    widths: dict[str, float]
    means: dict[str, float]
    greater: float | None
    ahead: Ahead | None
    choice: Choice | None

    @property
    def can_reach(self) -> bool | None:
        """Whether any strategy gets to the goal; None where that was not looked at."""
        if self.choice is None:
            return None
        return any(one.cost is not None for one in self.choice.reaches.values())


def plan(
    pool: Pool,
    settings: AheadSettings,
    base: int = 50,
    most: int | None = None,
    pair: Callable[[], PairNow] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Plan:
    """What to label next, in one round of at most `most` labels (None: what reaches the goal, at most 200).

    pair: gives P(a > b) now, by a joint fit; None: by two independent fits.

    Raises: InputError for a strategy that would spoil the fits. StageError where the fit of the pilot fails.
    """
    goal = settings.goal
    settings = replace(settings, strategies=strategies_for(pool, settings.strategies))
    narrow = NARROW if goal.kind == DECIDE else min(NARROW, goal.width / 2)
    why = missing_words(pool, goal.quantity, Options(settings.judge_model, finite=False, replicate=False), narrow)
    if why is not None:
        asks = base_asks(pool, base)
        if not asks:
            raise InputError(f"{why}; and no label of R or T is left to ask for")
        return Plan(asks[:most], JOINT, False, why, {}, {}, None, None, None)
    looker = Looker(pool, settings)
    try:
        now = looker.now()
    except RuntimeError as error:
        raise StageError(f"the fit of the labels that are there failed: {error}") from error
    _check_now(now)
    widths = {config: width_of(one.estimates, goal) for config, one in now.items()}
    means = {config: float(one.estimates.mean[0]) for config, one in now.items()}
    p, correlation = None, 0.0
    if goal.kind == DECIDE:
        p, correlation = _independent(now, goal) if pair is None else pair()
        reached = p >= goal.level or p <= 1 - goal.level
        score_now = float(reached)
    else:
        reached = max(widths.values()) <= goal.width
        score_now = float(precision(np.array(list(widths.values()))))
    if reached or not any((side.open_r | side.open_t).any() for side in pool.sides):
        return Plan([], JOINT, reached, None, widths, means, p, None, None)
    ahead = looker.look(now, correlation, progress)
    choice = choose(ahead, goal, score_now, settings.at)
    return Plan(
        _asks(pool, ahead, choice, settings.at, most), choice.strategy, False, None, widths, means, p, ahead, choice
    )


def _asks(pool: Pool, ahead: Ahead, choice: Choice, at: float | None, most: int | None) -> list[Ask]:
    if at is not None:
        s, b = ahead.strategies.index(choice.strategy), int(np.abs(ahead.budgets - at).argmin())
        questions = float(np.nanmean(ahead.questions[s, b]))
    else:
        questions = math.inf if choice.best.questions is None else choice.best.questions
    return next_asks(pool, choice.strategy, min(questions, pool.questions), MOST if most is None else most)


def _independent(now: dict[str, Now], goal: Goal) -> PairNow:
    return PairNow(greater_of(now[goal.a].estimates, now[goal.b].estimates, 0.0), 0.0)


def _check_now(now: dict[str, Now]) -> None:
    for config, one in now.items():
        if not np.isfinite(one.estimates.mean[0]):
            raise StageError(f"config {config!r}: the fit of the labels that are there failed: {one.estimates.reason}")


def ahead_table(ahead: Ahead, goal: Goal, configs: tuple[str, ...]) -> pa.Table:
    """With the schema AHEAD."""
    rows = []
    for s, strategy in enumerate(ahead.strategies):
        for b, budget in enumerate(ahead.budgets.tolist()):
            shared = {"strategy": strategy, "budget": budget, "cost": _mean(ahead.costs[s, b])[0]}
            if goal.kind == DECIDE:
                p = ahead.greater[s, b]
                hit = np.where(np.isnan(p), np.nan, (p >= goal.level) | (p <= 1 - goal.level))
                rows.append({**shared, "config": f"{goal.a} > {goal.b}", **_named("chance", hit)})
                continue
            for c, config in enumerate(configs):
                width = ahead.widths[s, b, :, c]
                hit = np.where(np.isnan(width), np.nan, width <= goal.width)
                rows.append({**shared, "config": config, **_named("width", width), **_named("chance", hit)})
    return pa.Table.from_pylist(rows, schema=AHEAD)


def _named(name: str, values: np.ndarray) -> dict[str, float | int | None]:
    mean, error, count = _mean(values)
    return {name: mean, f"{name}_se": error, "futures": count}


def _mean(values: np.ndarray) -> tuple[float | None, float | None, int]:
    kept = values[np.isfinite(values)]
    if not len(kept):
        return None, None, 0
    return float(kept.mean()), float(kept.std(ddof=1) / np.sqrt(len(kept))) if len(kept) > 1 else None, len(kept)
