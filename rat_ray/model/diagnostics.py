"""Did the sampler work: R-hat, effective draws, divergences, energy, tree depth, and one status per fit.

Rank-normalised split R-hat, bulk and tail ESS and MCSE as in Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021),
computed for all quantities at once: about five times faster than `arviz-stats`' loop, and held equal to it by a test.
E-BFMI as in Betancourt (2016), by `arviz-stats`.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import fft
from scipy.special import ndtri

from rat_ray.errors import InputError

OK, WARN, FAIL = "ok", "warn", "fail"

_TAILS = (0.05, 0.95)
# A spread below this is rounding: relative to the largest value, and for differences of probabilities absolute.
_ROUNDING, _TINY = 1e-12, 1e-15


@dataclass(frozen=True)
class DiagnosticsSettings:
    """Thresholds of a fit's status.

    divergences_*, treedepth_*: shares of the draws after warmup that diverged or hit the maximum depth; more than that.
    e_bfmi_*: of the worst chain. Hitting the maximum depth costs effective draws and does not bias: its band is wide.
    """

    r_hat_warn: float = 1.01
    r_hat_fail: float = 1.05
    ess_bulk_warn: float = 400.0
    ess_bulk_fail: float = 100.0
    ess_tail_warn: float = 400.0
    ess_tail_fail: float = 100.0
    divergences_warn: float = 0.0
    divergences_fail: float = 0.01
    e_bfmi_warn: float = 0.3
    e_bfmi_fail: float = 0.1
    treedepth_warn: float = 0.01
    treedepth_fail: float = 0.5

    def validate(self) -> None:
        """Raise InputError where failing would be easier than warning."""
        signs = {"r_hat": 1, "ess_bulk": -1, "ess_tail": -1, "divergences": 1, "e_bfmi": -1, "treedepth": 1}
        for name, sign in signs.items():
            warn, fail = getattr(self, f"{name}_warn"), getattr(self, f"{name}_fail")
            if not sign * warn <= sign * fail:  # also where one is NaN
                raise InputError(
                    f"diagnostics.{name}_warn = {warn} and {name}_fail = {fail}: the warning must come first"
                )

    def failures_only(self) -> DiagnosticsSettings:
        """The same failures, and no warnings: what decides whether a fit is sampled again."""
        fails = {f.name: getattr(self, f.name) for f in fields(self) if f.name.endswith("_fail")}
        return replace(self, **{name.replace("_fail", "_warn"): value for name, value in fails.items()})


class Convergence(NamedTuple):
    """One quantity's; None where it has none: it is constant, or not finite.

    r_hat is infinite where each chain stands still at a value of its own.
    """

    r_hat: float | None
    ess_bulk: float | None
    ess_tail: float | None
    mcse: float | None


class SamplerStats(NamedTuple):
    """What the sampler says about its draws: (chains, draws) each. divergent: 0 or 1; treedepth: doublings."""

    divergent: np.ndarray
    treedepth: np.ndarray
    energy: np.ndarray
    max_treedepth: int


class Status(NamedTuple):
    """status: OK, WARN or FAIL; reason: in words, None when OK."""

    status: str
    reason: str | None


def varies(values: np.ndarray) -> np.ndarray:
    """(quantities,) of booleans: finite, and not constant up to rounding. values: (chains, draws, quantities)."""
    finite = np.isfinite(values).all(axis=(0, 1))
    safe = np.where(finite, values, 0.0)
    spread, size = np.ptp(safe, axis=(0, 1)), np.abs(safe).max(axis=(0, 1))
    return np.asarray(finite & (spread > np.maximum(_ROUNDING * size, _TINY)))


def convergence(values: np.ndarray) -> list[Convergence]:
    """One per quantity. values: (chains, draws, quantities), at least 4 draws; one chain is compared by its halves."""
    found = [Convergence(None, None, None, None)] * values.shape[2]
    usable = np.flatnonzero(varies(values)).tolist()
    if not usable:
        return found
    numbers = _convergence(np.ascontiguousarray(np.moveaxis(values[:, :, usable], 2, 0), dtype=float))
    for index, one in zip(usable, numbers.T.tolist(), strict=True):
        found[index] = Convergence(*one)
    return found


def judge_fit(
    names: list[str],
    values: np.ndarray,
    found: list[Convergence],
    sampler: SamplerStats,
    settings: DiagnosticsSettings,
) -> Status:
    """The status of a fit from its identified quantities and its sampler's statistics.

    names, found: (quantities,), the identified ones only; values: (chains, draws, quantities).
    """
    broken = [name for name, finite in zip(names, np.isfinite(values).all(axis=(0, 1)), strict=True) if not finite]
    if broken:
        return Status(FAIL, f"draws of {', '.join(broken)} are not finite")
    nothing = Status(WARN, "no quantity is identified: the posterior says what the prior says")
    problems = [
        None if names else nothing,
        _worst("r_hat", names, [one.r_hat for one in found], 1, settings),
        _worst("ess_bulk", names, [one.ess_bulk for one in found], -1, settings),
        _worst("ess_tail", names, [one.ess_tail for one in found], -1, settings),
        _share("divergences", sampler.divergent != 0, "diverged", settings),
        _energy(sampler.energy, settings),
        _share(
            "treedepth",
            sampler.treedepth >= sampler.max_treedepth,
            f"hit the maximum tree depth {sampler.max_treedepth}",
            settings,
        ),
    ]
    real = [problem for problem in problems if problem is not None]
    if not real:
        return Status(OK, None)
    status = FAIL if any(problem.status == FAIL for problem in real) else WARN
    return Status(status, "; ".join(problem.reason for problem in real if problem.reason))


def e_bfmi(energy: np.ndarray) -> np.ndarray:
    """(chains,): the mean squared step of the energy over its variance; NaN where it is constant or not finite.

    energy: (chains, draws). Low: redrawing the momentum does not reach all energies, so the tails are explored slowly.
    """
    usable = varies(energy.T[None])
    found = np.full(len(energy), np.nan)
    if usable.any():
        found[usable] = array_stats().bfmi(energy[usable], chain_axis=0, draw_axis=1)
    return found


def array_stats() -> Any:
    """`arviz-stats`' functions on plain arrays; they have no types. Imported late: it takes half a second."""
    return importlib.import_module("arviz_stats.base").array_stats


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


def _share(what: str, hits: np.ndarray, words: str, settings: DiagnosticsSettings) -> Status | None:
    count, draws = int(hits.sum()), hits.size
    for status in (FAIL, WARN):
        if count > getattr(settings, f"{what}_{status}") * draws:
            return Status(status, f"{count} of {draws} draws {words}")
    return None


def _energy(energy: np.ndarray, settings: DiagnosticsSettings) -> Status | None:
    finite = np.isfinite(energy).all(axis=1)
    if not finite.all():
        return Status(FAIL, f"the energy of chain {int(np.argmin(finite))} is not finite")
    chains = [f"chain {index}" for index in range(len(energy))]
    values = [None if math.isnan(value) else value for value in e_bfmi(energy).tolist()]
    return _worst("e_bfmi", chains, values, -1, settings)


def _convergence(values: np.ndarray) -> np.ndarray:
    """(4, quantities): r_hat, ess_bulk, ess_tail, mcse. values: (quantities, chains, draws), finite, not constant."""
    quantities, chains, draws = values.shape
    halves = _split(values)
    flat = halves.reshape(quantities, -1)
    order = np.argsort(flat, axis=1)
    ascending = np.take_along_axis(flat, order, axis=1)
    ranked = _scores(ascending, order).reshape(halves.shape)
    folded = _folded_scores(ascending, order).reshape(halves.shape)
    # An odd number of draws loses the middle one by splitting; the quantiles and the sd are of all.
    every = ascending if flat.shape[1] == chains * draws else values.reshape(quantities, -1)
    low, high = np.quantile(every, _TAILS, axis=1)[:, :, None, None]
    ess = _ess(np.concatenate([ranked, halves, halves <= low, halves <= high])).reshape(4, quantities)
    return np.stack(
        [
            np.maximum(_r_hat(ranked), _r_hat(folded)),
            ess[0],
            np.minimum(ess[2], ess[3]),
            values.reshape(quantities, -1).std(axis=1, ddof=1) / np.sqrt(ess[1]),
        ]
    )


def _split(values: np.ndarray) -> np.ndarray:
    """(quantities, 2 * chains, draws // 2): the first and the last half of each chain."""
    half = values.shape[2] // 2
    return np.concatenate([values[:, :, :half], values[:, :, -half:]], axis=1)


def _scores(ascending: np.ndarray, order: np.ndarray) -> np.ndarray:
    """(quantities, draws): normal scores of the draws' ranks; ties have their mean rank. order: where each belongs."""
    draws = ascending.shape[1]
    # Twice a rank is whole, also of a mean rank: one table of scores serves all quantities.
    table = ndtri((np.arange(2, 2 * draws + 1) / 2 - 3 / 8) / (draws + 1 / 4))
    scores = np.empty_like(ascending)
    np.put_along_axis(scores, order, table[_twice_rank(ascending)], axis=1)
    return scores


def _folded_scores(ascending: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The same of the distances from the median."""
    distance = np.abs(ascending - np.median(ascending, axis=1, keepdims=True))
    again = np.argsort(distance, axis=1, kind="stable")  # falls, then rises: merging two runs is fast
    return _scores(np.take_along_axis(distance, again, axis=1), np.take_along_axis(order, again, axis=1))


def _twice_rank(ascending: np.ndarray) -> np.ndarray:
    """(quantities, draws): twice the rank from 0, the mean rank where values are equal."""
    draws = ascending.shape[1]
    ranks = np.tile(2 * np.arange(draws), (len(ascending), 1))
    new = ascending[:, 1:] != ascending[:, :-1]
    for row in np.flatnonzero(~new.all(axis=1)):
        starts = np.flatnonzero(np.concatenate([[True], new[row]]))
        ends = np.append(starts[1:], draws)
        ranks[row] = np.repeat(starts + ends - 1, ends - starts)
    return ranks


def _r_hat(values: np.ndarray) -> np.ndarray:
    """(quantities,). values: (quantities, chains, draws). Infinite where no chain moves."""
    draws = values.shape[2]
    within = values.var(axis=2, ddof=1).mean(axis=1)
    between = draws * values.mean(axis=2).var(axis=1, ddof=1)
    with np.errstate(divide="ignore"):
        ratio = np.divide(between, within, out=np.zeros_like(within), where=(within > 0) | (between > 0))
    return np.asarray(np.sqrt((ratio + draws - 1) / draws))


def _ess(values: np.ndarray) -> np.ndarray:
    """(quantities,): effective draws by Geyer's initial monotone sequence. values: (quantities, chains, draws)."""
    _, chains, draws = values.shape
    means = values.mean(axis=2)
    padded = fft.next_fast_len(2 * draws, real=True)
    spectrum = fft.rfft(values - means[:, :, None], n=padded, axis=2)
    # The chains' mean comes first, so that one inverse transform per quantity is enough.
    covariance = fft.irfft((spectrum.real**2 + spectrum.imag**2).mean(axis=1), n=padded, axis=1)[:, :draws] / draws
    total = covariance[:, 0] + means.var(axis=1, ddof=1)
    constant = total <= 0  # a tail's indicator may be
    within = covariance[:, :1] * draws / (draws - 1)
    correlation = 1 - (within - covariance) / np.where(constant, 1, total)[:, None]
    correlation[:, 0] = 1
    draws_in_all = chains * draws
    time = np.maximum(_autocorrelation_time(correlation), 1 / math.log10(draws_in_all))
    return np.asarray(np.where(constant, draws_in_all, draws_in_all / time))


def _autocorrelation_time(correlation: np.ndarray) -> np.ndarray:
    """(quantities,): 2 * sum over the lags - 1, over pairs of lags up to the first whose sum is not positive.

    Sums of pairs are made to fall; of that first pair, the even lag counts where it is positive. correlation:
    (quantities, lags), 1 at lag 0.
    """
    last = max((correlation.shape[1] - 1) // 2 - 1, 0)
    even, odd = correlation[:, 0 : 2 * last + 1 : 2], correlation[:, 1 : 2 * last + 2 : 2]
    pairs = even + odd
    stops = pairs <= 0
    stops[:, -1] = True
    stop = stops.argmax(axis=1)
    falling = np.minimum.accumulate(pairs, axis=1)
    kept = np.where(np.arange(last + 1) < stop[:, None], falling, 0).sum(axis=1)
    rows = np.arange(len(stop))
    rest = np.where(pairs[rows, stop] >= 0, even[rows, stop], np.maximum(even[rows, stop], 0))
    return np.asarray(2 * kept + rest - 1)
