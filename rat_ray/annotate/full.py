"""What the whole table says where nothing is hidden: plain shares from the trusted source columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from rat_ray.annotate.labels import VARIABLES, trusted_sources

STATES = ("r0_abstained", "r0_wrong", "r0_right", "r1_abstained", "r1_wrong", "r1_right")


class _Labels(NamedTuple):
    r: int | None
    a: int | None
    t: int | None

    @property
    def state(self) -> str | None:
        """One of STATES, or None when a label that decides it is missing."""
        if self.r is None or self.a is None or (self.a == 0 and self.t is None):
            return None
        return f"r{self.r}_" + ("abstained" if self.a else "right" if self.t else "wrong")

    @property
    def success(self) -> int | None:
        """T with an abstention counted as no success; None when unknown."""
        return 0 if self.a == 1 else self.t if self.a == 0 else None


def full_table_values(annotations: pa.Table, trusted: Mapping[str, Iterable[str]]) -> dict[str, float | None]:
    """rho, alpha[r], tau[r], p_g, p_t and p_a as shares of the rows that show them; None where no row does.

    Reads the trusted source columns, not r and t, so labels that a budget hides from the fit count here.
    p_g is the share of (R=0, A=1) and (R=1, A=0, T=1) among rows whose state is known.
    """
    rows = list(_labels(annotations, trusted))
    states = [row.state for row in rows if row.state is not None]
    values = {"rho": _share(row.r for row in rows)}
    for r in (0, 1):
        values[f"alpha[{r}]"] = _share(row.a for row in rows if row.r == r)
    for r in (0, 1):
        values[f"tau[{r}]"] = _share(row.t for row in rows if row.r == r and row.a == 0)
    values["p_g"] = _share(int(state in {"r0_abstained", "r1_right"}) for state in states)
    values["p_t"] = _share(row.success for row in rows)
    values["p_a"] = _share(row.a for row in rows)
    return values


def state_counts(annotations: pa.Table, trusted: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """How many rows are in each of the six STATES by the trusted source columns; rows of unknown state are left out."""
    counts = dict.fromkeys(STATES, 0)
    for row in _labels(annotations, trusted):
        if row.state is not None:
            counts[row.state] += 1
    return counts


def _labels(annotations: pa.Table, trusted: Mapping[str, Iterable[str]]) -> Iterator[_Labels]:
    columns = [_first_of(annotations, trusted_sources(trusted, variable)) for variable in VARIABLES]
    return (_Labels(*labels) for labels in zip(*columns, strict=True))


def _first_of(annotations: pa.Table, sources: list[str]) -> list[int | None]:
    merged: list[int | None] = [None] * annotations.num_rows
    for source in sources:
        column = annotations.column(source).to_pylist()
        merged = [new if old is None else old for old, new in zip(merged, column, strict=True)]
    return merged


def _share(labels: Iterable[int | None]) -> float | None:
    known = [label for label in labels if label is not None]
    return sum(known) / len(known) if known else None
