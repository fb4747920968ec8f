"""Two checks of a study: does the formula predict what it found, and do its fits agree with NUTS?"""

from __future__ import annotations

from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.cells import values_of
from rat_ray.allocate.summary import configs_of

SURE = 0.95  # a strategy is the study's best where it was so in this share of the replicates drawn anew
_MOST_TIED = 1e-9


class Agreement(NamedTuple):
    """Over the configurations of a study: a formula's value per strategy beside what the study found by one measure.

    formula: a column of `information.PREDICTION`, bits_per_cost, bits_per_item or expected_sd (of which less is
    better: its inverse is the value). measure: rmse or width.
    configurations: those with both. best: in how many the strategy with the highest value was the study's best; sure,
    best_sure: those whose best is beyond Monte Carlo error, and in how many of them. r_or_t: in how many the formula
    says rightly whether all_r or all_t is better, of r_or_t_of that have both. across: Spearman's correlation over the
    configurations between log(value of all_r / all_t) and log(measure of all_t / all_r). within: the mean over the
    configurations of that between a strategy's value and minus its measure. None: too few.
    """

    formula: str
    measure: str
    configurations: int
    best: int
    sure: int
    best_sure: int
    r_or_t: int
    r_or_t_of: int
    across: float | None
    within: float | None


def agreement(prediction: pa.Table, measure: str = "rmse", formula: str = "bits_per_cost") -> Agreement:
    """prediction: schema `information.PREDICTION`."""
    cases = [_case(prediction, config, measure, formula) for config in configs_of(prediction)]
    known = [case for case in cases if case is not None]
    best = [bool(np.argmax(case.bits) == np.argmin(case.found)) for case in known]
    sure = [case.surest >= SURE for case in known]
    both = [pair for case in known if (pair := case.r_against_t) is not None]
    within = [_spearman(case.bits, -case.found) for case in known]
    kept = [value for value in within if value is not None]
    return Agreement(
        formula=formula,
        measure=measure,
        configurations=len(known),
        best=sum(best),
        sure=sum(sure),
        best_sure=sum(right for right, one in zip(best, sure, strict=True) if one),
        r_or_t=sum((says > 0) == (found > 0) for says, found in both),
        r_or_t_of=len(both),
        across=_spearman(*(np.array(values) for values in zip(*both, strict=True))) if len(both) > 2 else None,
        within=float(np.mean(kept)) if kept else None,
    )


class _Case(NamedTuple):
    strategies: list[str]
    bits: np.ndarray
    found: np.ndarray
    surest: float

    @property
    def r_against_t(self) -> tuple[float, float] | None:
        """log value of all_r over all_t, and log measure of all_t over all_r: above 0 where R is better."""
        if not {"all_r", "all_t"} <= set(self.strategies):
            return None
        r, t = self.strategies.index("all_r"), self.strategies.index("all_t")
        if min(self.bits[r], self.bits[t], self.found[r], self.found[t]) <= 0:
            return None
        return float(np.log(self.bits[r] / self.bits[t])), float(np.log(self.found[t] / self.found[r]))


def _case(prediction: pa.Table, config: str, measure: str, formula: str) -> _Case | None:
    rows = prediction.filter(pc.equal(prediction.column("config"), config))
    bits, found = values_of(rows, formula), values_of(rows, measure)
    bits = 1 / bits if formula == "expected_sd" else bits
    if len(bits) < 2 or np.isnan(bits).any() or np.isnan(found).any():
        return None
    surest = pc.max(rows.column(f"best_{measure}")).as_py() or 0.0  # null of one replicate: not sure at all
    return _Case(rows.column("strategy").to_pylist(), bits, found, surest)


def _spearman(first: np.ndarray, second: np.ndarray) -> float | None:
    """Spearman's rank correlation; None for fewer than three values, or where all are alike."""
    from scipy.stats import rankdata

    if len(first) < 3 or np.ptp(first) < _MOST_TIED or np.ptp(second) < _MOST_TIED:
        return None
    return float(np.corrcoef(rankdata(first), rankdata(second))[0, 1])


class NutsCheck(NamedTuple):
    """Fits of the study beside their refits by NUTS, over all quantities of the refitted tables.

    fits: all; taken_over: those whose draws NUTS made in the first place; refitted: as a check; compared: their means.
    *_in_sd: the largest difference of a mean, and of an interval's end, in standard deviations of the posterior.
    *_in_mcse: the same in units of its Monte Carlo error; expected_*: the largest to expect of so many when nothing
    else is wrong (the median of the maximum). None where nothing was refitted.
    """

    fits: int
    taken_over: int
    refitted: int
    compared: int
    mean_in_sd: float | None = None
    ends_in_sd: float | None = None
    mean_in_mcse: float | None = None
    ends_in_mcse: float | None = None
    expected_mean: float | None = None
    expected_ends: float | None = None


def nuts_check(allocation: pa.Table) -> NutsCheck:
    """How far the fits of an allocation table are from NUTS.

    Monte Carlo error: sd / sqrt(ess) of a mean and sqrt(p (1 - p) / ess) / density of an interval end, whose density is
    taken as the normal's; times sqrt(2), as if NUTS had as many effective draws. The fit's ess is that of its worst
    quantity, so these errors are rather too large than too small.
    """
    one = allocation.filter(pc.equal(allocation.column("quantity"), _first(allocation)))
    there = [pc.is_valid(allocation.column(name)) for name in ("nuts_mean", "mean", "ess")]
    refit = allocation.filter(pc.and_(pc.and_(there[0], there[1]), there[2]))
    fits = NutsCheck(
        fits=one.num_rows,
        taken_over=pc.sum(pc.equal(one.column("sampler"), "nuts")).as_py() or 0,
        refitted=one.num_rows - one.column("nuts_mean").null_count,
        compared=refit.num_rows,
    )
    if not refit.num_rows:
        return fits
    sd, ess = values_of(refit, "nuts_sd"), values_of(refit, "ess")
    mean = np.abs(values_of(refit, "mean") - values_of(refit, "nuts_mean")) / sd
    ends = np.stack([np.abs(values_of(refit, q) - values_of(refit, f"nuts_{q}")) / sd for q in ("q2.5", "q97.5")])
    normal = NormalDist()
    density = normal.pdf(normal.inv_cdf(0.025))
    mean_error, end_error = np.sqrt(2 / ess), np.sqrt(2 * 0.025 * 0.975 / ess) / density
    return fits._replace(
        mean_in_sd=float(mean.max()),
        ends_in_sd=float(ends.max()),
        mean_in_mcse=float((mean / mean_error).max()),
        ends_in_mcse=float((ends / end_error).max()),
        expected_mean=_largest(mean.size),
        expected_ends=_largest(ends.size),
    )


def facts(check: NutsCheck) -> dict[str, Any]:
    """For run.json."""
    return {"nuts_check": check._asdict()}


def _largest(count: int) -> float:
    """The median of the largest of `count` absolute standard normal numbers."""
    return NormalDist().inv_cdf((1 + 0.5 ** (1 / count)) / 2)


def _first(allocation: pa.Table) -> str:
    return str(allocation.column("quantity")[0].as_py()) if allocation.num_rows else ""
