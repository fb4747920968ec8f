"""Who was labelled: a warning where that depended on something that is not in the fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.model.patterns import TRUSTED, source_columns, trusted_sources

_SURE = 1e-4  # of a difference by chance
_NOTABLE = 0.02  # a smaller difference of coverage hardly matters


def coverage_warnings(table: pa.Table, judges: Sequence[str]) -> list[str]:
    """In words: where the share of items with a label of r or t differs by a source that is not in the fit.

    A fit is valid when the choice of what to label depended on columns in the fit only (a, verdicts, strata).
    """
    trusted = trusted_sources(table)
    outside = [name for name in source_columns(table.schema.names) if name not in judges and name not in trusted]
    said = []
    for source in outside:
        if source.startswith("a@") and not table.column("a").null_count:
            continue  # a is in the fit, and a rule of it says no more about the choice
        for label in TRUSTED:
            shares = _shares(table.column(source), table.column(label))
            if shares is not None:
                said.append(
                    f"WARNING: {label} is labelled on {shares[0]:.0%} of the items where {source} is 0 and on "
                    f"{shares[1]:.0%} where it is 1, and {source} is not in the fit: if labels were chosen by it, add "
                    "it as a judge or as the stratum"
                )
    return said


def _shares(source: pa.ChunkedArray, label: pa.ChunkedArray) -> tuple[float, float] | None:
    """Coverage where the source is 0 and where it is 1, if they differ by more than chance."""
    from scipy.stats import chi2_contingency

    labelled = pc.is_valid(label).to_numpy().astype(bool)
    value = pc.fill_null(source.cast(pa.int8()), 2).to_numpy()
    table = np.array([[np.sum(labelled & (value == v)), np.sum(~labelled & (value == v))] for v in (0, 1)])
    if (table.sum(axis=0) == 0).any() or (table.sum(axis=1) == 0).any():
        return None
    low, high = (table[:, 0] / table.sum(axis=1)).tolist()
    if abs(high - low) < _NOTABLE or chi2_contingency(table).pvalue > _SURE:
        return None
    return low, high
