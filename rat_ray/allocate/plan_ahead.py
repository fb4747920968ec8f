"""Looking ahead: what the posterior would tell, per strategy and budget, in futures drawn from the posterior at hand.

Pre-posterior analysis (Raiffa, Schlaifer 1961; Lindley 1956): E[width | budget] is a mean over what is not known yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from rat_ray.allocate.costs import Costs
from rat_ray.allocate.plan_fill import fill, rate_names, state_probabilities, verdict_likelihood
from rat_ray.allocate.plan_goal import DECIDE, Goal
from rat_ray.allocate.plan_pool import Pool
from rat_ray.allocate.plan_walk import Book, Bought, Walk, walk, wanted
from rat_ray.model.engines import IMPORTANCE, NUTS, EngineSettings
from rat_ray.model.estimate import Estimates, Estimator
from rat_ray.model.policy import Policy
from rat_ray.model.priors import Prior
from rat_ray.model.states import PARAMETERS
from rat_ray.model.verdicts import PANEL
from rat_ray.seeds import seed_for

_NOW = "now"
_GRID_RATIO = 128  # between the largest and the smallest budget of a grid
_CAREFUL = 8  # times as many draws for the posterior at hand
_FIRST_LOOK = 4  # futures, to find out about where the goal is reached
_BY_FAR = 1.15
_NO_WIDTH = 1e-3
# Fits that importance sampling refuses (few labels and judges, as a rule) take NUTS half a second each: after so many,
# and so many futures, there is an answer, with a larger Monte Carlo error.
_MOST_BY_NUTS, _FEWEST = 80, 5
_AROUND = (0.3, 0.6, 0.85, 1.1, 1.5)  # budgets, in units of that


@dataclass(frozen=True)
class AheadSettings:
    """futures: how many are drawn; budgets: how many, from little to all that can be bought; at: one more of them."""

    goal: Goal
    costs: Costs = field(default_factory=Costs)
    strategies: tuple[str, ...] = ()
    futures: int = 100
    budgets: int = 8
    at: float | None = None
    seed: int = 1
    judge_model: str = PANEL
    prior: Prior = field(default_factory=Prior)
    policy: Policy = field(default_factory=Policy)
    engine: EngineSettings = EngineSettings(kind=IMPORTANCE, chains=2, warmup=300, samples=1000)


class Now(NamedTuple):
    """The posterior at hand of one configuration, and its draws of parameters and judges' rates."""

    estimates: Estimates
    draws: np.ndarray


class Ahead(NamedTuple):
    """budgets: (B,); widths: (S, B, K, sides); greater: (S, B, K), P(a > b), NaN unless the goal is to decide.

    costs, questions: (S, B, K), what was spent, and how far in the order it got. K: futures. Failed fits are NaN.
    """

    strategies: tuple[str, ...]
    budgets: np.ndarray
    widths: np.ndarray
    greater: np.ndarray
    costs: np.ndarray
    questions: np.ndarray
    fits: int
    failed: int
    by_nuts: int


class Looker:
    """The fits of one pool: now, and in futures."""

    def __init__(self, pool: Pool, settings: AheadSettings) -> None:
        self.pool, self.settings = pool, settings
        self.books = [Book(side) for side in pool.sides]
        self._correlation = 0.0
        goal = settings.goal
        self._ahead = {side.config: self._estimator([goal.quantity], side.judges) for side in pool.sides}
        # Whether to stop must not hang on the chance of the draws: a width of 2,000 draws has an error of 2 %.
        careful = replace(settings.engine, samples=_CAREFUL * settings.engine.samples)
        self._careful = {config: one.with_engine(careful) for config, one in self._ahead.items()}

    def now(self) -> dict[str, Now]:
        """The posterior of each configuration from the labels that are there. Raises RuntimeError where a fit fails."""
        found = {}
        for side, book in zip(self.pool.sides, self.books, strict=True):
            seed = seed_for(self.settings.seed, "plan", _NOW, side.config)
            code = book.code(book.now)
            names = [*PARAMETERS, *rate_names(side.judges, self.settings.judge_model)]
            estimates = self._careful[side.config].estimate(code, seed)
            found[side.config] = Now(estimates, self._estimator(names, side.judges).draws(code, seed))
        return found

    def look(
        self, now: Mapping[str, Now], correlation: float = 0.0, progress: Callable[[int], None] = lambda _: None
    ) -> Ahead:
        """Fill in each future, go down the order with every strategy, and fit what each budget would see.

        correlation: between a's and b's quantity, for a decision.
        """
        settings = self.settings
        self._correlation = correlation
        budgets = self._budgets(now)
        hopeless = self._hopeless(now, budgets[-1:])
        return self._table(now, settings.strategies, budgets, range(settings.futures), hopeless, progress)

    def _table(
        self,
        now: Mapping[str, Now],
        strategies: tuple[str, ...],
        budgets: np.ndarray,
        futures: Sequence[int],
        hopeless: frozenset[str] = frozenset(),
        progress: Callable[[int], None] = lambda _: None,
    ) -> Ahead:
        """hopeless: strategies of which only the largest budget is looked at."""
        shape = (len(strategies), len(budgets), len(futures))
        widths = np.full((*shape, len(self.pool.sides)), np.nan)
        greater, costs, questions = (np.full(shape, np.nan) for _ in range(3))
        counted = _Counted()
        for index, k in enumerate(futures):
            filled = self._future(now, k)
            seen: dict[bytes, tuple[list[float], float]] = {}
            for s, strategy in enumerate(strategies):
                path = self._walk(strategy, filled)
                reached = [path.reached(budget) for budget in budgets.tolist()]
                counts = [
                    book.counts(mine, labels, reached)
                    for book, mine, labels in zip(self.books, path.bought, filled, strict=True)
                ]
                for b, m in enumerate(reached):
                    if strategy in hopeless and b < len(reached) - 1:
                        continue
                    n = [of[b] for of in counts]
                    name = b"".join(one.tobytes() for one in n)
                    if name not in seen:
                        seen[name] = self._fit(n, k, counted)
                    widths[s, b, index], greater[s, b, index] = seen[name]
                    costs[s, b, index], questions[s, b, index] = path.cost(m), m
            progress(1)
            if counted.by_nuts >= _MOST_BY_NUTS and index + 1 >= _FEWEST:
                done = slice(0, index + 1)
                widths, greater = widths[:, :, done], greater[:, :, done]
                costs, questions = costs[:, :, done], questions[:, :, done]
                break
        return Ahead(
            strategies, budgets, widths, greater, costs, questions, counted.fits, counted.failed, counted.by_nuts
        )

    def _budgets(self, now: Mapping[str, Now]) -> np.ndarray:
        """The grid: about where `joint` reaches the width in a first look, else evenly on the log scale; and the most
        that can be spent.
        """
        everything = walk(self.pool, self._all_labels(), self.settings.costs).cost(self.pool.questions)
        least = min(everything, max(everything / _GRID_RATIO, 5 * (self.settings.costs.r + self.settings.costs.t)))
        grid = np.geomspace(least, everything, self.settings.budgets) if least < everything else np.array([everything])
        if self.settings.at is not None:
            return np.unique(np.concatenate([grid, [self.settings.at]]))
        if self.settings.goal.kind == DECIDE or len(grid) < len(_AROUND):
            return grid
        first = self._table(now, ("joint",), grid, self._first_futures)
        rough = np.nanmean(precision(first.widths), axis=2)[0]
        wanted_precision = self.settings.goal.width**-2.0
        if not rough[-1] >= wanted_precision:
            return grid
        widths = np.array([width_of(one.estimates, self.settings.goal) for one in now.values()])
        precisions = np.concatenate([[precision(widths)], rough])
        spent = np.concatenate([[0.0], grid])
        near = float(np.interp(wanted_precision, np.maximum.accumulate(precisions), spent))
        return np.unique(np.minimum(np.concatenate([near * np.array(_AROUND), [everything]]), everything))

    def _hopeless(self, now: Mapping[str, Now], everything: np.ndarray) -> frozenset[str]:
        """Strategies that miss the width by far with all that they can buy, by a first look; none without a width."""
        goal, names = self.settings.goal, tuple(name for name in self.settings.strategies if name in ("all_r", "all_t"))
        if goal.kind == DECIDE or self.settings.at is not None or not names:
            return frozenset()
        first = self._table(now, names, everything, self._first_futures)
        widths = np.nanmean(first.widths.max(axis=3), axis=2)[:, 0]
        return frozenset(name for name, width in zip(names, widths, strict=True) if width > _BY_FAR * goal.width)

    @property
    def _first_futures(self) -> range:
        return range(0, self.settings.futures, max(1, self.settings.futures // _FIRST_LOOK))

    def _all_labels(self) -> tuple[Bought, ...]:
        """Every label that can be bought."""
        return tuple(Bought(side.open_r, side.open_t) for side in self.pool.sides)

    def _future(self, now: Mapping[str, Now], k: int) -> list[np.ndarray]:
        settings = self.settings
        rng = np.random.default_rng(seed_for(settings.seed, "plan", "future", k))
        thetas, likelihoods = [], []
        for side, book in zip(self.pool.sides, self.books, strict=True):
            draws = now[side.config].draws
            drawn = draws[(k * len(draws)) // settings.futures]
            thetas.append(state_probabilities(drawn))
            likelihoods.append(verdict_likelihood(book, side.judges, settings.judge_model, settings.prior, drawn, rng))
        return fill(self.pool, self.books, np.stack(thetas), likelihoods, rng)

    def _walk(self, strategy: str, filled: Sequence[np.ndarray]) -> Walk:
        return walk(self.pool, wanted(self.pool, strategy, filled), self.settings.costs)

    def _fit(self, n: Sequence[np.ndarray], k: int, counted: _Counted) -> tuple[list[float], float]:
        """The width of each side's interval, and P(a > b)."""
        found: dict[str, Estimates] = {}
        for side, book, counts in zip(self.pool.sides, self.books, n, strict=True):
            seed = seed_for(self.settings.seed, "plan", "ahead", side.config, k)
            found[side.config] = one = self._ahead[side.config].estimate(book.code(counts), seed)
            counted.fits += 1
            counted.failed += not np.isfinite(one.mean[0])
            counted.by_nuts += one.sampler == NUTS
        goal = self.settings.goal
        widths = [width_of(one, goal) for one in found.values()]
        greater = greater_of(found[goal.a], found[goal.b], self._correlation) if goal.kind == DECIDE else float("nan")
        return widths, greater

    def _estimator(self, quantities: Sequence[str], judges: Sequence[str]) -> Estimator:
        settings = self.settings
        return Estimator(
            quantities,
            judges,
            settings.judge_model,
            settings.prior,
            settings.engine,
            finite=settings.goal.finite,
            policy=settings.policy,
        )


@dataclass
class _Counted:
    fits: int = 0
    failed: int = 0
    by_nuts: int = 0


def greater_of(first: Estimates, second: Estimates, correlation: float) -> float:
    """P(first > second) where the two are about normal."""
    spread = first.sd[0] ** 2 + second.sd[0] ** 2 - 2 * correlation * first.sd[0] * second.sd[0]
    return float(ndtr((first.mean[0] - second.mean[0]) / np.sqrt(spread)))


def precision(widths: np.ndarray) -> np.ndarray:
    """(..., sides) to (...): 1 / width^2 of the widest. Among the items of a table a width may be 0."""
    return np.asarray(np.maximum(widths.max(axis=-1), _NO_WIDTH) ** -2.0)


def width_of(one: Estimates, goal: Goal) -> float:
    """Of the interval that the goal is about; NaN for a failed fit."""
    low, high = (one.finite_low, one.finite_high) if goal.finite else (one.low, one.high)
    return float(high[0] - low[0])
