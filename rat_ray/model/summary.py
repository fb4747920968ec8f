"""The summary table: per quantity its posterior, its convergence, and what the data could tell about it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from rat_ray.model.design import Design, Options
from rat_ray.model.diagnostics import (
    Convergence,
    DiagnosticsSettings,
    SamplerStats,
    Status,
    convergence,
    e_bfmi,
    judge_fit,
    varies,
)
from rat_ray.model.forward import prior_points, quantities
from rat_ray.model.identify import IDENTIFIED, Identification, identify
from rat_ray.model.posterior import design_for, draws_array, item_count, quantities_of, status_of_failure
from rat_ray.model.ppi import disagrees, prediction_powered
from rat_ray.model.priors import Prior, beta_moments, parameter_draws
from rat_ray.model.sensitivity import Sensitivity, power_scaling
from rat_ray.model.states import PARAMETERS, derive
from rat_ray.tables import SUMMARY

QUANTILES = {"q2.5": 0.025, "q5": 0.05, "q50": 0.5, "q95": 0.95, "q97.5": 0.975}
_PPI: dict[str, Literal["p_g", "p_t"]] = {"p_g": "p_g", "p_t": "p_t"}
_PRIOR_DRAWS = 10_000
_SEED = 20_260_101


def summarise(
    draws: pa.Table,
    counts: pa.Table,
    prior: Prior,
    diagnostics: DiagnosticsSettings,
    config: str,
    seconds: float | None = None,
    identification: Identification | None = None,
    options: Options | None = None,
    max_treedepth: int = 10,
    failure: str | None = None,
    sampler: str | None = None,
    pareto_k: float | None = None,
) -> pa.Table:
    """One row per quantity (schema `tables.SUMMARY`). seconds: of the sampling alone, if known.

    The status is the fit's, the same on each of its rows, and is judged on identified quantities only. failure: why
    there are no draws; then every estimate is null. sampler, pareto_k: see `posterior.Sampled`.
    """
    diagnostics.validate()
    options = options or Options()
    names = quantities_of(draws)
    values = draws_array(draws, names)
    known = (identification or identify(counts, options)).known
    stats = _sampler_stats(draws, values.shape[:2], max_treedepth)
    if failure is None:
        found = convergence(values)
        judged = [
            index
            for index, name in enumerate(names)
            if known[name].identified == IDENTIFIED and not name.startswith("finite[")
        ]
        status = judge_fit(
            [names[i] for i in judged], values[:, :, judged], [found[i] for i in judged], stats, diagnostics
        )
        log_prior, log_likelihood = (_chains(draws, name, stats.energy) for name in ("log_prior", "log_likelihood"))
        scaled = power_scaling(values, log_prior, log_likelihood)
    else:
        found = [Convergence(None, None, None, None)] * len(names)
        status = status_of_failure(failure)
        scaled = [Sensitivity(None, None, None)] * len(names)
    flat = values.reshape(-1, len(names))
    design = design_for({config: counts}, prior, options)
    priors = prior_moments(design, prior, names)
    shared: dict[str, Any] = {
        "config": config,
        "items": item_count(counts, config),
        "status": status.status,
        "reason": status.reason,
        "seconds": seconds,
        "sampler": sampler,
        "pareto_k": pareto_k,
    }
    if failure is None:
        shared |= {
            "divergences": int(stats.divergent.sum()),
            "e_bfmi": _finite(float(np.min(e_bfmi(stats.energy)))),
            "at_max_treedepth": int((stats.treedepth >= max_treedepth).sum()),
        }
    rows = []
    for index, name in enumerate(names):
        row = {**shared, "quantity": name, **_moments(flat[:, index]), **found[index]._asdict()}
        row |= {**known[name]._asdict(), **priors[name]}
        row |= {
            "prior_sensitivity": scaled[index].prior,
            "likelihood_sensitivity": scaled[index].likelihood,
            "sensitivity": scaled[index].diagnosis,
        }
        quantity = _PPI.get(name)
        if quantity is not None:
            row |= _ppi(counts, quantity, row)
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=SUMMARY)


def cell(table: pa.Table, quantity: str, column: str) -> float | str | None:
    """One cell of a table with a row per quantity. Raises KeyError for an unknown quantity."""
    names = table.column("quantity").to_pylist()
    if quantity not in names:
        raise KeyError(f"{quantity} is none of {', '.join(names)}")
    found: float | str | None = table.column(column)[names.index(quantity)].as_py()
    return found


def status_of(summary: pa.Table) -> Status:
    """The fit's status from its summary."""
    return Status(summary.column("status")[0].as_py(), summary.column("reason")[0].as_py())


def prior_moments(design: Design, prior: Prior, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """prior_mean, prior_sd, prior_q2.5 and prior_q97.5 of each quantity: exact for a parameter's own Beta, by 10,000
    fixed draws for the others. A share among the table's items has the prior of the quantity itself.
    """
    key = (
        design.splits.tobytes(),
        design.layout.prior.tobytes(),
        tuple((side.judges, side.own, side.panel, side.splits) for side in design.sides),
        design.groups.share_n.tobytes() if len(design.groups.output_of) > 1 else b"",
        tuple((name, top.tobytes()) for name, (top, _) in design.ratios.items()),
    )
    found = dict(_prior_moments(_Keyed(key, design)))
    if len(design.groups.output_of) == 1:
        betas = dict(zip(PARAMETERS, prior.splits, strict=True)) | {"p_g[r=0]": prior.alpha0}
        found |= {name: beta_moments(beta) for name, beta in betas.items()}
    return {
        name: found[name.removeprefix("finite[").removesuffix("]") if name.startswith("finite[") else name]
        for name in names
    }


def prior_predictive(prior: Prior | None = None, quantity: str = "p_g") -> dict[str, float]:
    """What a prior implies for a base quantity before any label: prior_mean, prior_sd, prior_q2.5 and prior_q97.5.

    Uniform priors imply a mean of P(G=1) of .375 and a 95 % interval of [.04, .84]. Raises KeyError for an unknown
    quantity, InputError for an impossible prior.
    """
    prior = prior or Prior()
    prior.validate()
    values = derive(dict(zip(PARAMETERS, parameter_draws(prior), strict=True)))[quantity]
    return _moments_of(values)


class _Keyed:
    """A design that the cache tells from others by what its prior depends on."""

    def __init__(self, key: tuple[Any, ...], design: Design) -> None:
        self.key, self.design = key, design

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.key == other.key


# A study fits thousands of tables under one prior.
@lru_cache(maxsize=64)
def _prior_moments(keyed: _Keyed) -> dict[str, dict[str, float]]:
    point = prior_points(keyed.design, _PRIOR_DRAWS, np.random.default_rng(_SEED))
    return {name: _moments_of(values) for name, values in quantities(keyed.design, point).items()}


def _moments_of(values: np.ndarray) -> dict[str, float]:
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, [0.025, 0.975])
    numbers = {"prior_mean": values.mean(), "prior_sd": values.std(), "prior_q2.5": low, "prior_q97.5": high}
    return {name: float(number) for name, number in numbers.items()}


def _ppi(counts: pa.Table, quantity: Literal["p_g", "p_t"], row: dict[str, Any]) -> dict[str, Any]:
    found = prediction_powered(counts, quantity)
    if found is None or row["mean"] is None:
        return {}
    flag = disagrees(found, row["mean"], row["q2.5"], row["q97.5"])
    return {"ppi_mean": found.mean, "ppi_low": found.low, "ppi_high": found.high, "ppi_disagrees": int(flag)}


def _sampler_stats(draws: pa.Table, shape: tuple[int, ...], max_treedepth: int) -> SamplerStats:
    divergent, treedepth, energy = (
        draws_array(draws, [f"{name}__"]).reshape(shape) for name in ("divergent", "treedepth", "energy")
    )
    return SamplerStats(divergent, treedepth, energy, max_treedepth)


def _chains(draws: pa.Table, name: str, like: np.ndarray) -> np.ndarray:
    return draws_array(draws, [name]).reshape(like.shape)


def _moments(values: np.ndarray) -> dict[str, float | None]:
    """mean, sd and quantiles; all missing where a draw is not finite."""
    names = ["mean", "sd", *QUANTILES]
    if not np.isfinite(values).all():
        return dict.fromkeys(names)
    quantiles = np.quantile(values, list(QUANTILES.values()))
    constant = not varies(values[None, :, None])[0]
    numbers = [values.mean(), 0.0 if constant else values.std(ddof=1), *quantiles]
    return {name: float(number) for name, number in zip(names, numbers, strict=True)}


def _finite(number: float) -> float | None:
    return number if np.isfinite(number) else None
