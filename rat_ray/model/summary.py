"""The summary table: per quantity its posterior, its convergence, and what the data could tell about it."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache

import numpy as np
import pyarrow as pa

from rat_ray.model.diagnostics import DiagnosticsSettings, Status, convergence, judge_fit
from rat_ray.model.identify import IDENTIFIED, Identification, identify
from rat_ray.model.posterior import (
    BASE_QUANTITIES,
    PARAMETERS,
    derive,
    draws_array,
    item_count,
    quantities_of,
)
from rat_ray.model.priors import Beta, Prior, beta_sd, judge_draws, parameter_draws
from rat_ray.tables import SUMMARY

_QUANTILES = {"q2.5": 0.025, "q5": 0.05, "q50": 0.5, "q95": 0.95, "q97.5": 0.975}


def summarise(
    draws: pa.Table,
    counts: pa.Table,
    prior: Prior,
    diagnostics: DiagnosticsSettings,
    config: str,
    seconds: float | None = None,
    identification: Identification | None = None,
) -> pa.Table:
    """One row per quantity (schema `tables.SUMMARY`). seconds: of the sampling alone, if known.

    The status is the fit's, the same on each of its rows, and is judged on identified quantities only.
    """
    diagnostics.validate()
    names = quantities_of(draws)
    values = draws_array(draws, names)
    known = (identification or identify(counts)).known
    found = convergence(values)
    divergent = draws.column("divergent__").to_numpy()
    judged = [index for index, name in enumerate(names) if known[name].identified == IDENTIFIED]
    status = judge_fit(
        [names[i] for i in judged], values[:, :, judged], [found[i] for i in judged], divergent, diagnostics
    )
    flat = values.reshape(-1, len(names))
    prior_sds = prior_sd(prior, names)
    shared = {
        "config": config,
        "items": item_count(counts, config),
        "divergences": int(divergent.sum()),
        "status": status.status,
        "reason": status.reason,
        "seconds": seconds,
    }
    rows = [
        {
            **shared,
            "quantity": name,
            **_moments(flat[:, index]),
            **found[index]._asdict(),
            **known[name]._asdict(),
            "prior_sd": prior_sds[name],
        }
        for index, name in enumerate(names)
    ]
    return pa.Table.from_pylist(rows, schema=SUMMARY)


def status_of(summary: pa.Table) -> Status:
    """The fit's status from its summary."""
    return Status(summary.column("status")[0].as_py(), summary.column("reason")[0].as_py())


def prior_sd(prior: Prior, quantities: list[str]) -> dict[str, float]:
    """Each quantity's prior standard deviation: exact for Betas, by 20,000 fixed draws for the others."""
    key = tuple(tuple(getattr(prior, field.name)) for field in fields(prior))
    sds = _base_prior_sds(key)
    rates = _judge_prior_sds(key) if any(name not in sds for name in quantities) else {}
    return {name: sds[name] if name in sds else rates[name.partition("[")[0]] for name in quantities}


# A study fits thousands of tables under one prior.
@lru_cache(maxsize=16)
def _base_prior_sds(key: tuple[Beta, ...]) -> dict[str, float]:
    prior = Prior(*key)
    base = derive(dict(zip(PARAMETERS, parameter_draws(prior), strict=True)))
    betas = (prior.rho, prior.alpha0, prior.alpha1, prior.tau0, prior.tau1)
    exact = {name: beta_sd(beta) for name, beta in zip(PARAMETERS, betas, strict=True)}
    exact |= {"p_g[r=0]": beta_sd(prior.alpha0), "guess": beta_sd(prior.alpha0)}
    return {name: exact[name] if name in exact else float(np.std(base[name])) for name in BASE_QUANTITIES}


@lru_cache(maxsize=16)
def _judge_prior_sds(key: tuple[Beta, ...]) -> dict[str, float]:
    prior = Prior(*key)
    tpr, fpr = judge_draws(prior)
    return {"tpr": float(np.std(tpr)), "fpr": float(np.std(fpr)), "yes": beta_sd(prior.yes_abstained)}


def _moments(values: np.ndarray) -> dict[str, float | None]:
    """mean, sd and quantiles; all missing where a draw is not finite."""
    names = ["mean", "sd", *_QUANTILES]
    if not np.isfinite(values).all():
        return dict.fromkeys(names)
    quantiles = np.quantile(values, list(_QUANTILES.values()))
    numbers = [values.mean(), values.std(ddof=1), *quantiles]
    return {name: float(number) for name, number in zip(names, numbers, strict=True)}
