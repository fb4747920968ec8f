"""Who was labelled: a warning where that depended on something that is not in the fit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.model.patterns import MISSING, source_columns, trusted_sources
from rat_ray.model.strata import read_strata

_SURE = 1e-4  # of a difference by chance
_NOTABLE = 0.02  # a smaller difference of coverage hardly matters


def coverage_warnings(table: pa.Table, judges: Sequence[str]) -> list[str]:
    """In words: where the share of items with a label of r or t differs by a source that is not in the fit.

    A fit is valid when the choice of what to label depended on columns in the fit only (a, verdicts, strata). So items
    are compared within the same stratum and the same a; t among answers only, since a label of it tells a too.
    """
    trusted = trusted_sources(table)
    outside = [name for name in source_columns(table.schema.names) if name not in judges and name not in trusted]
    a = pc.fill_null(table.column("a").cast(pa.int8()), MISSING).to_numpy()
    strata = read_strata(table)
    stratum = np.zeros(table.num_rows, dtype=np.int64) if strata.place is None else strata.place
    said = []
    for source in outside:
        value = pc.fill_null(table.column(source).cast(pa.int8()), MISSING).to_numpy()
        for label, classes in (("r", (0, 1, MISSING)), ("t", (0,))):
            labelled = pc.is_valid(table.column(label)).to_numpy().astype(bool)
            sure = _SURE / (len(classes) * len(strata.names))
            for number, known_a in itertools.product(range(len(strata.names)), classes):
                mine = (a == known_a) & (stratum == number)
                shares = _shares(value[mine], labelled[mine], sure)
                if shares is not None:
                    said.append(_warning(source, label, known_a, strata.names[number], shares))
    return said


def _warning(source: str, label: str, a: int, stratum: str | None, shares: tuple[float, float]) -> str:
    among = {0: "answered ", 1: "abstained "}.get(a, "")
    where = "" if stratum is None else f" of stratum {stratum}"
    return (
        f"WARNING: {label} is labelled on {shares[0]:.0%} of the {among}items{where} where {source} is 0 and on "
        f"{shares[1]:.0%} where it is 1, and {source} is not in the fit: if labels were chosen by it, add it as a "
        "judge or as the stratum"
    )


def _shares(value: np.ndarray, labelled: np.ndarray, sure: float) -> tuple[float, float] | None:
    """Coverage where the source is 0 and where it is 1, if they differ by more than chance."""
    from scipy.stats import chi2_contingency

    table = np.array([[np.sum(labelled & (value == v)), np.sum(~labelled & (value == v))] for v in (0, 1)])
    if (table.sum(axis=0) == 0).any() or (table.sum(axis=1) == 0).any():
        return None
    low, high = (table[:, 0] / table.sum(axis=1)).tolist()
    if abs(high - low) < _NOTABLE or chi2_contingency(table).pvalue > sure:
        return None
    return low, high
