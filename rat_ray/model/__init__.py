"""The statistics: from labels to patterns, posterior and summary. Runs without Ray and without a network."""

from __future__ import annotations

from rat_ray.model.compare import Comparison, compare
from rat_ray.model.diagnostics import DiagnosticsSettings
from rat_ray.model.engines import EngineSettings
from rat_ray.model.fit import Fit, fit, fit_together
from rat_ray.model.identify import identify
from rat_ray.model.labels import Columns, Labels, read_labels
from rat_ray.model.patterns import merge, patterns
from rat_ray.model.policy import Policy
from rat_ray.model.priors import Prior
from rat_ray.model.summary import prior_predictive

__all__ = [
    "Columns",
    "Comparison",
    "DiagnosticsSettings",
    "EngineSettings",
    "Fit",
    "Labels",
    "Policy",
    "Prior",
    "compare",
    "fit",
    "fit_together",
    "identify",
    "merge",
    "patterns",
    "prior_predictive",
    "read_labels",
]
