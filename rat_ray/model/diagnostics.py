"""Did the sampler work: rank-normalised R-hat, effective draws, divergences, and one status per fit.

R-hat, bulk and tail ESS and MCSE as in Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021), by `arviz-stats`.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rat_ray.errors import InputError

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True)
class DiagnosticsSettings:
    """Thresholds of a fit's status. divergences_*: shares of the draws after warmup; more than that."""

    r_hat_warn: float = 1.01
    r_hat_fail: float = 1.05
    ess_bulk_warn: float = 400.0
    ess_bulk_fail: float = 100.0
    divergences_warn: float = 0.0
    divergences_fail: float = 0.01

    def validate(self) -> None:
        """Raise InputError where failing would be easier than warning."""
        for name, sign in (("r_hat", 1), ("ess_bulk", -1), ("divergences", 1)):
            warn, fail = getattr(self, f"{name}_warn"), getattr(self, f"{name}_fail")
            if not sign * warn <= sign * fail:  # also where one is NaN
                raise InputError(
                    f"diagnostics.{name}_warn = {warn} and {name}_fail = {fail}: the warning must come first"
                )


class Convergence(NamedTuple):
    """One quantity's; None where it has none: it is constant, or not finite."""

    r_hat: float | None
    ess_bulk: float | None
    ess_tail: float | None
    mcse: float | None


class Status(NamedTuple):
    """status: OK, WARN or FAIL; reason: in words, None when OK."""

    status: str
    reason: str | None


def convergence(values: np.ndarray) -> list[Convergence]:
    """One per quantity. values: (chains, draws, quantities)."""
    stats = _array_stats()
    usable = np.isfinite(values).all(axis=(0, 1)) & (np.ptp(values, axis=(0, 1)) > 0)
    found = [Convergence(None, None, None, None)] * values.shape[2]
    axes = {"chain_axis": 0, "draw_axis": 1}
    for index in np.flatnonzero(usable).tolist():
        one = values[:, :, index]
        found[index] = Convergence(
            r_hat=_finite(stats.rhat(one, method="rank", **axes)),
            ess_bulk=_finite(stats.ess(one, method="bulk", **axes)),
            ess_tail=_finite(stats.ess(one, method="tail", prob=(0.05, 0.95), **axes)),
            mcse=_finite(stats.mcse(one, method="mean", **axes)),
        )
    return found


def judge_fit(
    names: list[str], values: np.ndarray, found: list[Convergence], divergent: np.ndarray, settings: DiagnosticsSettings
) -> Status:
    """The status of a fit from its identified quantities. The arguments have one entry per such quantity.

    names, found: (quantities,); values: (chains, draws, quantities); divergent: 0 or 1 per draw.
    """
    if not names:
        return Status(WARN, "no quantity is identified: the posterior says what the prior says")
    broken = [name for name, finite in zip(names, np.isfinite(values).all(axis=(0, 1)), strict=True) if not finite]
    if broken:
        return Status(FAIL, f"draws of {', '.join(broken)} are not finite")
    problems = [
        _worst("r_hat", names, [one.r_hat for one in found], 1, settings),
        _worst("ess_bulk", names, [one.ess_bulk for one in found], -1, settings),
        _divergences(divergent, settings),
    ]
    real = [problem for problem in problems if problem is not None]
    if not real:
        return Status(OK, None)
    status = FAIL if any(problem.status == FAIL for problem in real) else WARN
    return Status(status, "; ".join(problem.reason for problem in real if problem.reason))


def _worst(
    what: str, names: list[str], values: list[float | None], sign: int, settings: DiagnosticsSettings
) -> Status | None:
    present = [(sign * value, value, name) for name, value in zip(names, values, strict=True) if value is not None]
    if not present:
        return None
    worst, value, name = max(present)
    for status in (FAIL, WARN):
        limit = getattr(settings, f"{what}_{status}")
        if worst > sign * limit:
            side = "above" if sign > 0 else "below"
            return Status(status, f"{what} of {name} is {value:.4g}, {side} {limit:g}")
    return None


def _divergences(divergent: np.ndarray, settings: DiagnosticsSettings) -> Status | None:
    count, draws = int(divergent.sum()), divergent.size
    reason = f"{count} of {draws} draws diverged"
    if count > settings.divergences_fail * draws:
        return Status(FAIL, reason)
    return Status(WARN, reason) if count > settings.divergences_warn * draws else None


def _array_stats() -> Any:
    """The library's functions on plain arrays; they have no types. Imported late: it takes a second."""
    return importlib.import_module("arviz_stats.base").array_stats


def _finite(value: object) -> float | None:
    number = float(np.asarray(value).item())
    return number if math.isfinite(number) else None
