"""Whether people labelled R by the value of T, or T by that of R, as the adaptive strategies of `rat-ray plan` do.

A fit allows for it: what is missing then depends on labels that are in the fit. A prediction-powered estimate and the
predictive check of the labels do not: they take the items with both labels to be like those with one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.model.patterns import MISSING, digits_of, source_columns

_CLEARLY = 4.0  # standard deviations; by chance once in some ten thousand tables
_MUCH = 0.1  # less of a difference spoils little, however many items show it


def chosen_by_the_other(counts: pa.Table) -> tuple[str, ...]:
    """Of "r" and "t" those that are labelled on answered items the more or less often, the other being 1.

    counts: a count table (`patterns.patterns`). By the test of Mantel and Haenszel (1959) over strata and verdicts,
    which may say what to label, too.
    """
    rows = counts.filter(pc.and_(pc.equal(counts.column("use"), "fit"), pc.greater(counts.column("n"), 0)))
    rows = rows.filter(pc.fill_null(pc.equal(rows.column("a"), 0), False))
    if not rows.num_rows:
        return ()
    names = [name for name in ("stratum", *source_columns(rows.schema.names)) if name in rows.schema.names]
    places: dict[tuple[object, ...], int] = {}
    alike = zip(*(rows.column(name).to_pylist() for name in names), strict=True) if names else [()] * rows.num_rows
    groups = np.array([places.setdefault(key, len(places)) for key in alike])
    r, t = (digits_of(rows.column(name), name) for name in ("r", "t"))
    n = rows.column("n").to_numpy().astype(float)
    found = {"r": _depends(groups, n, r != MISSING, t), "t": _depends(groups, n, t != MISSING, r)}
    return tuple(name for name, depends in found.items() if depends)


def _depends(groups: np.ndarray, n: np.ndarray, labelled: np.ndarray, other: np.ndarray) -> bool:
    """Of patterns with n items each. labelled: whether the label is there; other: the value of the other one."""

    def count(rows: np.ndarray) -> np.ndarray:
        return np.bincount(groups[rows], n[rows], int(groups.max()) + 1)

    known = other != MISSING
    items, ones, asked, both = (count(rows) for rows in (known, other == 1, known & labelled, (other == 1) & labelled))
    some = items > 1
    items, ones, asked, both = items[some], ones[some], asked[some], both[some]
    variance = ones * (items - ones) * asked * (items - asked) / (items**2 * (items - 1))
    more = abs((both - ones * asked / items).sum())
    # The difference between the shares that are labelled, where the other is 1 and where it is 0, times this:
    size = (ones * (items - ones) / items).sum()
    return bool(more > _CLEARLY * np.sqrt(variance.sum()) and more > _MUCH * size)
