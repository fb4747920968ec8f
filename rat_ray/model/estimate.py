"""Thousands of fits: counts of patterns in, a few quantities' estimates out. No tables, no files, no draws kept.

What depends on the patterns alone is made once and cached: callers keep one list of patterns and change only `n`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rat_ray.model.design import Design, Options, design_of
from rat_ray.model.diagnostics import FAIL, DiagnosticsSettings, SamplerStats, convergence, judge_fit
from rat_ray.model.engines import Draws, EngineSettings
from rat_ray.model.patterns import FAILED, Code
from rat_ray.model.policy import Policy
from rat_ray.model.posterior import draw_twice
from rat_ray.model.priors import Prior
from rat_ray.model.states import FINITE, finite_name
from rat_ray.model.verdicts import PANEL

INTERVAL = (0.025, 0.975)


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
        self.engine = engine or EngineSettings(kind="stanli", chains=2, warmup=300, samples=1000)
        self._prior = prior or Prior()
        self._finite = finite
        self._options = Options(judge_model, policy or Policy(), finite=finite, replicate=False)
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
        design = self._design(code)
        drawn, failure, _ = draw_twice(design, self.engine, seed, None)
        if drawn is None:
            return self._failed(failure)
        values, finite = self._values(drawn, design)
        found = convergence(values)
        stats = SamplerStats(drawn.divergent, drawn.treedepth, drawn.energy, self.engine.max_treedepth)
        status = judge_fit(list(self.quantities), values, found, stats, DiagnosticsSettings())
        if status.status == FAIL:
            return self._failed(status.reason)
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
            "nuts",
            None,
            ess,
        )

    def draws(self, code: Code, seed: int) -> np.ndarray:
        """(draws, quantities) of equal weight. Raises RuntimeError where the sampler failed."""
        design = self._design(code)
        drawn, failure, _ = draw_twice(design, self.engine, seed, None)
        if drawn is None:
            raise RuntimeError(failure)
        values, _ = self._values(drawn, design)
        return values.reshape(-1, values.shape[2])

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

    def _failed(self, reason: str | None) -> Estimates:
        nothing = np.full(len(self.quantities), np.nan)
        return Estimates(nothing, nothing, nothing, nothing, nothing, nothing, FAIL, reason, "nuts", None, float("nan"))
