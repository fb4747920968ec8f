"""Prediction-powered estimates of P(G=1) and P(T=1): no model of the judges, so a check on the one that has it.

PPI++ (Angelopoulos, Duchi, Zrnic 2023, arXiv:2311.01453): the mean of the labelled items, corrected by what the judges
predict on the other items less what they predict on the labelled ones, times a weight (lambda) that minimises the
variance. However bad the judges, the estimate is unbiased; with useless ones it is the labelled items' mean.

What is labelled often depends on a. So the estimate is made within each class (a, and the stratum where there are
strata), and the classes are put together by their shares of all items. Within a class, what is labelled must not depend
on anything else. Predictions are compared only between items with verdicts of the same judges, so that a judge who saw
only the labelled items, or only the others, does no harm.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.model.asking import chosen_by_the_other
from rat_ray.model.patterns import source_columns

_Z = 1.959963984540054  # the normal distribution's 97.5 % quantile
_MISSING = -1
# Classes with fewer than two labelled items are left open if they hold at most this share of the items together.
_NEGLIGIBLE = 0.01

Quantity = Literal["p_g", "p_t"]


class Ppi(NamedTuple):
    """A prediction-powered estimate with its normal 95 % interval; mean, low and high are cut to [0, 1].

    se: for items like these, not for these items only. labelled, unlabelled: numbers of items. lam: the weight of the
    judges' predictions, 0 to 1, averaged over the unlabelled items; 0 where there are none.
    """

    mean: float
    se: float
    low: float
    high: float
    labelled: int
    unlabelled: int
    lam: float


class _Items(NamedTuple):
    """Patterns of items. y: 0 or 1 where labelled; f: its prediction; seen: a number per set of judges f is made of."""

    y: np.ndarray
    f: np.ndarray
    seen: np.ndarray
    labelled: np.ndarray
    n: np.ndarray

    def take(self, rows: np.ndarray) -> _Items:
        return _Items(*(part[rows] for part in self))


class _Estimate(NamedTuple):
    """Of one class."""

    mean: float
    variance: float
    lam: float


class _Class(NamedTuple):
    """One stratum's items with one a. share: of all items."""

    a: int
    share: float
    items: _Items


def prediction_powered(counts: pa.Table, quantity: Quantity) -> Ppi | None:
    """P(G=1) ("p_g") or P(T=1) ("p_t") from a count table (`patterns.patterns`); rows with use = "fit" count.

    An item is labelled if its labels decide the variable whatever their values are: for G a and r, and t where a = 0;
    for T a, and t where a = 0. One that is decided by luck (t = 0 with r missing: G = 0) is not: its likes with t = 1
    are not decided, and the mean would be too low. The prediction is a with the means of the verdicts on r and t, 0.5
    where there are none.

    None where there are no items, or where classes with fewer than two labelled items hold more than 1 % of the items:
    nothing is known about them, neither their mean nor its error. Items whose a is missing are such a class. Up to 1 %
    they enter as 0.5 +- 0.5 (a single abstention without a label need not cost the whole estimate). None, too, where
    what is labelled clearly depends on the other label (`asking`).
    """
    counts = counts.filter(pc.and_(pc.equal(counts.column("use"), "fit"), pc.greater(counts.column("n"), 0)))
    spoilt = chosen_by_the_other(counts)
    if not counts.num_rows or "t" in spoilt or (spoilt and quantity == "p_g"):
        return None
    classes = _classes(counts, quantity)
    # T of an abstention is no success by definition: nothing is estimated there.
    estimates = [_NO_SUCCESS if one.a == 1 and quantity == "p_t" else _estimate(one.items) for one in classes]
    unknown = sum(one.share for one, estimate in zip(classes, estimates, strict=True) if estimate is None)
    if unknown > _NEGLIGIBLE:
        return None
    return _combine(classes, [estimate or _OPEN for estimate in estimates])


def disagrees(ppi: Ppi, mean: float, q_low: float, q_high: float) -> bool:
    """Whether the model and the prediction-powered estimate contradict each other: each outside the other's interval.

    mean, q_low, q_high: the model's mean and 95 % interval.
    """
    return not q_low <= ppi.mean <= q_high and not ppi.low <= mean <= ppi.high


_NO_SUCCESS = _Estimate(0.0, 0.0, 0.0)
_OPEN = _Estimate(0.5, 0.25, 0.0)  # no variable between 0 and 1 varies more


def _combine(classes: list[_Class], estimates: list[_Estimate]) -> Ppi:
    """The classes' estimates, weighted by their shares, which themselves are those of a sample."""
    share = np.array([one.share for one in classes])
    mean, variance, lam = (np.array(part) for part in zip(*estimates, strict=True))
    labelled, unlabelled = np.array([_sizes(one.items) for one in classes]).T
    total = float(share @ mean)
    se = math.sqrt(float(share**2 @ (variance + (mean - total) ** 2 / (labelled + unlabelled))))
    low, middle, high = (min(max(value, 0.0), 1.0) for value in (total - _Z * se, total, total + _Z * se))
    average = float(unlabelled @ lam) / max(int(unlabelled.sum()), 1)
    return Ppi(middle, se, low, high, int(labelled.sum()), int(unlabelled.sum()), average)


def _sizes(items: _Items) -> tuple[int, int]:
    """The numbers of labelled and unlabelled items."""
    return int(items.n[items.labelled].sum()), int(items.n[~items.labelled].sum())


def _estimate(items: _Items) -> _Estimate | None:
    """PPI++ within one class; None with fewer than two labelled items.

    With f less its mean over the unlabelled items that the same judges saw, the estimate is the labelled items' mean of
    y - lambda f, and its variance a parabola in lambda.
    """
    size, _ = _sizes(items)
    if size < 2:
        return None
    known = items.take(items.labelled)
    centre, spread = _unlabelled_means(items)
    f = known.f - centre[known.seen]
    f[np.isnan(f)] = 0.0  # no such items: nothing to compare
    weight = np.bincount(known.seen, known.n, len(centre)) / size
    noise = float(np.nansum(weight**2 * spread))
    scale = _covariance(f, f, known.n) / size + noise
    lam = min(max(_covariance(known.y, f, known.n) / size / scale, 0.0), 1.0) if scale > 0 else 0.0
    rest = known.y - lam * f
    variance = _covariance(rest, rest, known.n) / size
    return _Estimate(float(np.average(rest, weights=known.n)), max(variance, _floor(known)) + lam**2 * noise, lam)


def _unlabelled_means(items: _Items) -> tuple[np.ndarray, np.ndarray]:
    """Per kind of `seen` the unlabelled items' mean of f, and that mean's variance; NaN without such items.

    f varies as it does among all items of the kind: of two unlabelled ones that happen to be alike it would seem not to
    vary at all, and their mean would count in full.
    """
    kinds = int(items.seen.max()) + 1
    mean, variance = np.full(kinds, np.nan), np.full(kinds, np.nan)
    for kind in range(kinds):
        alike = items.take(items.seen == kind)
        here = alike.take(~alike.labelled)
        if here.n.sum() >= 1 and alike.n.sum() >= 2:
            mean[kind] = np.average(here.f, weights=here.n)
            variance[kind] = _covariance(alike.f, alike.f, alike.n) / here.n.sum()
    return mean, variance


def _floor(known: _Items) -> float:
    """The variance of a mean of labels that are all equal: they say that the other label is rare, not that it is never.

    As if half an item of each label had been seen; without it the interval would have no width. 0 for other labels.
    """
    size, ones = known.n.sum(), known.n @ known.y
    if 0 < ones < size:
        return 0.0
    rate = (ones + 0.5) / (size + 1)
    return float(rate * (1 - rate) / size)


def _covariance(x: np.ndarray, y: np.ndarray, n: np.ndarray) -> float:
    """The sample covariance of items that occur n times."""
    centred = (part - np.average(part, weights=n) for part in (x, y))
    return float(np.prod([*centred], axis=0) @ n / (n.sum() - 1))


def _classes(counts: pa.Table, quantity: Quantity) -> list[_Class]:
    """The items by stratum and a."""
    a, items = _labels(counts, "a"), _items(counts, quantity)
    stratum, share = _strata(counts, items.n)
    keys = np.unique(np.column_stack([stratum, a]), axis=0)
    found = []
    for number, value in keys.tolist():
        rows = (stratum == number) & (a == value)
        part = items.n[rows].sum() / items.n[stratum == number].sum()
        found.append(_Class(value, float(share[number] * part), items.take(rows)))
    return found


def _strata(counts: pa.Table, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each pattern's stratum as a number, and the strata's shares, of the population where items stand for others."""
    names = counts.schema.names
    texts = counts.column("stratum").to_pylist() if "stratum" in names else [None] * counts.num_rows
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    stratum = np.array([numbers[text] for text in texts])
    stands_for = counts.column("stands_for").to_numpy() if "stands_for" in names else n
    sums = np.bincount(stratum, stands_for)
    return stratum, sums / sums.sum()


def _items(counts: pa.Table, quantity: Quantity) -> _Items:
    r, a, t = (_labels(counts, variable) for variable in ("r", "a", "t"))
    f_t, saw_t = _verdicts(counts, "t")
    answered_right = np.where(a == 0, f_t, 0.0)
    n = counts.column("n").to_numpy().astype(float)
    settled = (a == 1) | ((a == 0) & (t != _MISSING))  # a, and t where it is defined, are known
    success = ((a == 0) & (t == 1)).astype(float)
    if quantity == "p_t":
        return _Items(success, answered_right, _kinds(saw_t), settled, n)
    f_r, saw_r = _verdicts(counts, "r")
    good = np.where(r == 1, success, a == 1).astype(float)
    predicted = (1 - f_r) * (a == 1) + f_r * answered_right
    return _Items(good, predicted, _kinds(np.column_stack([saw_r, saw_t])), settled & (r != _MISSING), n)


def _verdicts(counts: pa.Table, variable: str) -> tuple[np.ndarray, np.ndarray]:
    """(patterns,) the mean verdict of the variable's judges, 0.5 without any; (patterns, judges) who gave one."""
    judges = [name for name in source_columns(counts.schema.names) if name.startswith(f"{variable}@")]
    verdicts = np.array([_labels(counts, name) for name in judges]).reshape(len(judges), counts.num_rows).T
    seen = verdicts != _MISSING
    number = seen.sum(axis=1)
    return np.where(number > 0, (verdicts * seen).sum(axis=1) / np.maximum(number, 1), 0.5), seen


def _kinds(seen: np.ndarray) -> np.ndarray:
    """(patterns,): a number per set of judges. seen: (patterns, judges)."""
    if not seen.shape[1]:
        return np.zeros(len(seen), dtype=np.int64)
    return np.asarray(np.unique(seen, axis=0, return_inverse=True)[1]).reshape(-1)


def _labels(counts: pa.Table, name: str) -> np.ndarray:
    """0, 1 or _MISSING per pattern."""
    return np.asarray(pc.fill_null(counts.column(name).cast(pa.int8()), _MISSING).to_numpy())
