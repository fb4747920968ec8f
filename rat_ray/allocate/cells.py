"""Cells of a study (configuration x strategy x budget x quantity) and their moments, in an order that never varies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

CELL = ("config", "strategy", "budget", "quantity")


class Cells(NamedTuple):
    """Groups of a table's rows. ids: (rows,) the group of each row; first: (groups,) the first row of each group.

    Groups are numbered in the order of their first rows.
    """

    ids: np.ndarray
    first: np.ndarray

    @property
    def size(self) -> int:
        """How many groups there are."""
        return len(self.first)


class Moments(NamedTuple):
    """(groups,) each: values that are there, their mean, and its Monte Carlo standard error sd / sqrt(n).

    NaN where there is no value, the standard error also where there is only one.
    """

    n: np.ndarray
    mean: np.ndarray
    se: np.ndarray


def cells(table: pa.Table, columns: Sequence[str] = CELL) -> Cells:
    """Group the rows by the values of these columns."""
    codes = codes_of(table, columns)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return Cells(rank[inverse.reshape(-1)], first[order])


def codes_of(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """(rows,) a number per combination of the columns' values."""
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in columns:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
    return codes


def values_of(table: pa.Table, name: str) -> np.ndarray:
    """(rows,) a column as floats, NaN where it is null."""
    column = table.column(name).cast(pa.float64())
    return np.asarray(pc.fill_null(column, float("nan")).to_numpy(), dtype=float)


def moments(values: np.ndarray, groups: Cells) -> Moments:
    """Mean and standard error of each group; NaN values are left out. Sums run in the order of the rows."""
    there = ~np.isnan(values)
    ids, kept = groups.ids[there], values[there]
    n = np.bincount(ids, minlength=groups.size)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(ids, weights=kept, minlength=groups.size) / n
        squares = np.bincount(ids, weights=(kept - mean[ids]) ** 2, minlength=groups.size)
        se = np.where(n > 1, np.sqrt(squares / (n - 1.0) / n), np.nan)
    return Moments(n, mean, se)


def total(flags: np.ndarray, groups: Cells) -> np.ndarray:
    """(groups,) how many rows of each group are flagged."""
    return np.bincount(groups.ids[flags], minlength=groups.size)


def nullable(values: np.ndarray) -> pa.Array:
    """Floats as a column: NaN is null."""
    return pa.array(values, pa.float64(), mask=np.isnan(values))
