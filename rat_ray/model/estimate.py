"""Thousands of fits: counts of patterns in, a few quantities' estimates out. No tables, no files, no draws kept.

What depends on the patterns alone is made once and cached: callers keep one list of patterns and change only `n`.
Importance sampling (`model.importance`) takes about two milliseconds per fit; a fit that it refuses goes to NUTS.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rat_ray.model.design import MOST_INT, Design, Options, design_of
from rat_ray.model.diagnostics import FAIL, OK, DiagnosticsSettings, SamplerStats, convergence, judge_fit
from rat_ray.model.engines import IMPORTANCE, NUTS, Draws, EngineSettings
from rat_ray.model.importance.pattern_list import PatternList
from rat_ray.model.importance.sampling import Sample, sample_weighted
from rat_ray.model.importance.structure import TooManyTerms
from rat_ray.model.importance.trees import Known, Order, known_by_prior, order_of
from rat_ray.model.importance.weights import summarise_weighted, systematic
from rat_ray.model.patterns import FAILED, MISSING, TRUSTED, Code
from rat_ray.model.policy import Policy
from rat_ray.model.posterior import draw_twice
from rat_ray.model.priors import Prior
from rat_ray.model.states import FINITE, finite_name
from rat_ray.model.verdicts import PANEL, observed_variables, own_rate_judges

INTERVAL = (0.025, 0.975)
_FINITE_DRAWS = 1000  # for the shares among the items
_PROPOSALS_PER_DRAW = 4  # where draws of equal weight are asked for
_LEAST = 400.0  # effective draws; below, interval ends have an error of a tenth of the standard deviation
_LISTS = 256  # lists of patterns that are remembered


class Estimates(NamedTuple):
    """One fit. Arrays: (quantities,), in the order that was asked for; NaN where there is nothing.

    low, high: the equal-tailed 95 % interval on new questions like these; finite_low, finite_high: among exactly these
    items. sampler: what made the draws. ess: effective draws of the worst quantity.
    """

    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    finite_low: np.ndarray
    finite_high: np.ndarray
    status: str
    reason: str | None
    sampler: str
    pareto_k: float | None
    ess: float


class Estimator:
    """Fits tables that have the same judges, prior and policy."""

    def __init__(
        self,
        quantities: Sequence[str],
        judges: Sequence[str] = (),
        judge_model: str = PANEL,
        prior: Prior | None = None,
        engine: EngineSettings | None = None,
        finite: bool = True,
        policy: Policy | None = None,
    ) -> None:
        self.quantities = tuple(quantities)
        self.judges = tuple(judges)
        self.engine = engine or EngineSettings(kind=IMPORTANCE, chains=2, samples=1000)
        self._prior = prior or Prior()
        self._finite = finite
        self._options = Options(judge_model, policy or Policy(), finite=finite, replicate=False)
        self._by_prior = known_by_prior(self._prior, len(self.judges) if judge_model == PANEL else 0)
        self._lists: OrderedDict[tuple[object, ...], PatternList | None] = OrderedDict()
        self._prior.validate()
        self.engine.validate()

    def with_engine(self, engine: EngineSettings) -> Estimator:
        """The same fits by another engine."""
        options = self._options
        return Estimator(
            self.quantities, self.judges, options.judge_model, self._prior, engine, self._finite, options.policy
        )

    def estimate(self, code: Code, seed: int) -> Estimates:
        """Fit one table. code: its patterns, resolved; those with n = 0 are as if they were not there.

        The result depends on the table, the settings and the seed only.
        """
        patterns = self._list(code) if self.engine.kind == IMPORTANCE else None
        if patterns is not None:
            rng = np.random.default_rng(seed)
            found = sample_weighted(patterns.structure, patterns.counts(code.n), self._draws, self._least, rng)
            if isinstance(found, Sample):
                return self._weighted(found, patterns, code.n, rng)
            return self._by_engine(code, seed, self._nuts(), found.pareto_k)
        return self._by_engine(code, seed, self.engine, None)

    def draws(self, code: Code, seed: int) -> np.ndarray:
        """(draws, quantities) of equal weight. Raises RuntimeError where the sampler failed."""
        engine = self.engine
        patterns = self._list(code) if self.engine.kind == IMPORTANCE else None
        if patterns is not None:
            rng = np.random.default_rng(seed)
            draws = _PROPOSALS_PER_DRAW * self._draws
            found = sample_weighted(patterns.structure, patterns.counts(code.n), draws, self._draws / 2, rng)
            if isinstance(found, Sample):
                rows = systematic(found.smoothed.weights, self._draws, rng)
                return np.ascontiguousarray(patterns.values(found.evaluated)[:, rows].T)
            engine = self._nuts()
        design = self._design(code)
        drawn, failure, _ = draw_twice(design, engine, seed, None)
        if drawn is None:
            raise RuntimeError(failure)
        values, _ = self._values(drawn, design)
        return values.reshape(-1, values.shape[2])

    @property
    def _draws(self) -> int:
        return self.engine.chains * self.engine.samples

    @property
    def _least(self) -> float:
        """Effective draws, by Kish: what the ends of a 95 % interval need."""
        return min(_LEAST, self._draws / 2)

    def _weighted(self, found: Sample, patterns: PatternList, n: np.ndarray, rng: np.random.Generator) -> Estimates:
        values = patterns.values(found.evaluated)
        weights = found.smoothed.weights
        said = summarise_weighted(values, weights, INTERVAL)
        finite = np.full((2, len(self.quantities)), np.nan)
        if patterns.shares:
            rows = systematic(weights, _FINITE_DRAWS, rng)
            drawn = patterns.finite(found.evaluated.products[:, rows], n, rng)
            finite[:, list(patterns.shares)] = np.quantile(drawn, INTERVAL, axis=1)
        ess = float(said.ess.min()) if len(said.ess) else found.smoothed.kish
        k = found.smoothed.pareto_k if np.isfinite(found.smoothed.pareto_k) else None
        (low, high), (finite_low, finite_high) = said.quantiles, finite
        return Estimates(said.mean, said.sd, low, high, finite_low, finite_high, OK, None, IMPORTANCE, k, ess)

    def _by_engine(self, code: Code, seed: int, engine: EngineSettings, pareto_k: float | None) -> Estimates:
        design = self._design(code)
        drawn, failure, _ = draw_twice(design, engine, seed, None)
        if drawn is None:
            return self._failed(failure, pareto_k)
        pareto_k = drawn.pareto_k if pareto_k is None else pareto_k
        values, finite = self._values(drawn, design)
        found = convergence(values)
        stats = SamplerStats(drawn.divergent, drawn.treedepth, drawn.energy, engine.max_treedepth)
        status = judge_fit(list(self.quantities), values, found, stats, DiagnosticsSettings())
        if status.status == FAIL:
            return self._failed(status.reason, pareto_k)
        flat = values.reshape(-1, values.shape[2])
        low, high = np.quantile(flat, INTERVAL, axis=0)
        finite_low, finite_high = np.quantile(finite.reshape(-1, finite.shape[2]), INTERVAL, axis=0)
        ess = min((one.ess_bulk for one in found if one.ess_bulk is not None), default=float(len(flat)))
        return Estimates(
            flat.mean(axis=0),
            flat.std(axis=0, ddof=1),
            low,
            high,
            finite_low,
            finite_high,
            status.status,
            status.reason,
            drawn.sampler,
            pareto_k,
            ess,
        )

    def _nuts(self) -> EngineSettings:
        return replace(self.engine, kind="stanli") if self.engine.kind == IMPORTANCE else self.engine

    def _list(self, code: Code) -> PatternList | None:
        """What depends on the patterns alone; None where it is not one system with one stratum of equal items."""
        if len(code.strata) > 1 or not np.array_equal(code.n, code.stands_for):
            return None
        labels, n = code.labels, np.where(code.use == FAILED, 0, code.n)
        some = labels if self._options.judge_model == PANEL else labels[:, : len(TRUSTED)]
        has = some != MISSING
        r, a = (float(n @ has[:, column]) for column in (0, 1))
        answered = (n * (labels[:, 1] == 0)) @ has.astype(float)
        answered[0] += self._by_prior[1]
        order = order_of(Known(r + self._by_prior[0], a, answered))
        countable = bool(n.sum() <= MOST_INT)
        key: tuple[object, ...] = (labels.tobytes(), code.use.tobytes(), order, countable)
        rows = np.flatnonzero(code.use != FAILED)
        if self.judges and self._model_of(code) != self._model_of(code._replace(n=np.ones_like(code.n))):
            rows = np.flatnonzero(n > 0)  # the judges' model depends on which patterns occur
            key = (*key, rows.tobytes())
        if key in self._lists:
            self._lists.move_to_end(key)
            return self._lists[key]
        found = self._lists[key] = self._make_list(code, rows, order, countable)
        if len(self._lists) > _LISTS:
            self._lists.popitem(last=False)
        return found

    def _model_of(self, code: Code) -> tuple[list[str], list[bool]]:
        return own_rate_judges(code, self.judges), observed_variables(code, self.judges)

    def _make_list(self, code: Code, rows: np.ndarray, order: Order | None, countable: bool) -> PatternList | None:
        some = code.take(rows)
        ones = np.ones(len(rows), dtype=np.int64)
        some = some._replace(n=ones, stands_for=ones.astype(float))
        options = self._options if countable else replace(self._options, finite=False)
        design = design_of({"all": some}, list(self.judges), self._prior, options)
        try:
            return PatternList(design, self.quantities, rows, order)
        except TooManyTerms:
            return None

    def _design(self, code: Code) -> Design:
        kept = code.take((code.use != FAILED) & (code.n > 0))
        return design_of({"all": kept}, list(self.judges), self._prior, self._options)

    def _values(self, drawn: Draws, design: Design) -> tuple[np.ndarray, np.ndarray]:
        """(chains, draws, quantities) of the quantities, and of their finite shares (NaN without one)."""
        position = {name: index for index, name in enumerate(drawn.names)}
        columns = design.columns
        values = drawn.values[:, :, [position[columns[name]] for name in self.quantities]]
        finite = np.full_like(values, np.nan)
        for index, name in enumerate(self.quantities):
            if name in FINITE and finite_name(name) in columns:
                finite[:, :, index] = drawn.values[:, :, position[columns[finite_name(name)]]]
        return values, finite

    def _failed(self, reason: str | None, pareto_k: float | None) -> Estimates:
        nothing = np.full(len(self.quantities), np.nan)
        ess = float("nan")
        return Estimates(nothing, nothing, nothing, nothing, nothing, nothing, FAIL, reason, NUTS, pareto_k, ess)
