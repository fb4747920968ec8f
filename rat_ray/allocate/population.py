"""The items of a study: those of one configuration whose A is known, with the trusted labels that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.settings import System
from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.patterns import FIT, MISSING, TRUSTED, Code, digits_of, source_columns
from rat_ray.model.states import PARAMETERS, derive

# What the labels of an item can be where A is known: one list for all fits of a study.
PATTERNS = np.array(
    [(r, a, t) for r in (0, 1, MISSING) for a, t in ((0, 0), (0, 1), (0, MISSING), (1, MISSING))], dtype=np.int8
)
_DIGITS = PATTERNS @ np.array([9, 3, 1])
_USE = np.full(len(PATTERNS), FIT, dtype=np.int32)
_STRATUM = np.zeros(len(PATTERNS), dtype=np.int32)


class Population(NamedTuple):
    """Items in the order of their ids. r, a, t: (items,) of 0, 1 or MISSING; a is never missing, t is where a = 1."""

    question_ids: Sequence[str]
    r: np.ndarray
    a: np.ndarray
    t: np.ndarray

    @property
    def complete(self) -> np.ndarray:
        """(items,): has all its labels, R and, where the system answered, T."""
        return np.asarray((self.r != MISSING) & ((self.a == 1) | (self.t != MISSING)))

    @property
    def whole(self) -> bool:
        """Whether every item is complete, so that shares can be counted."""
        return bool(self.complete.all())


class Read(NamedTuple):
    """failed, unknown_a: rows that are no items of the study, because they have an error or no A."""

    population: Population
    failed: int
    unknown_a: int


def counts_of(r: np.ndarray, a: np.ndarray, t: np.ndarray) -> np.ndarray:
    """(patterns,) how often each of PATTERNS occurs. r, a, t: (items,) of 0, 1 or MISSING."""
    digits = r.astype(np.int64) * 9 + a.astype(np.int64) * 3 + t
    return np.asarray(np.bincount(digits, minlength=27)[_DIGITS])


def code_of(n: np.ndarray) -> Code:
    """A count table over PATTERNS. n: (patterns,)."""
    return Code(PATTERNS, _USE, _STRATUM, n, n.astype(float))


def trusted_columns(trusted: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The columns that fill r, a and t, first first. trusted: sources by variable; {}: the columns of these names."""
    if not trusted:
        return {variable: [variable] for variable in TRUSTED}
    return {variable: [f"{variable}@{source}" for source in trusted.get(variable, ())] for variable in TRUSTED}


def read_population(annotations: pa.Table, trusted: Mapping[str, Sequence[str]]) -> Read:
    """The items of one configuration: rows without an error whose A is known. t is MISSING where a = 1.

    Raises InputError for a source that is not named or has no column, or a label that is not 0 or 1.
    """
    columns = trusted_columns(trusted)
    _check_columns(annotations, columns)
    names = annotations.schema.names
    rows = annotations.filter(pc.is_null(annotations.column("error"))) if "error" in names else annotations
    r, a, t = (_coalesced(rows, sources) for sources in columns.values())
    known = a != MISSING
    ids = rows.column("question_id").cast(pa.string()).to_pylist() if "question_id" in names else []
    ids = ids or [f"{row:012d}" for row in range(rows.num_rows)]
    # The order of the rows must not matter; rows of one id stand as they were given.
    order = np.array(sorted(np.flatnonzero(known).tolist(), key=lambda row: str(ids[row])), dtype=np.int64)
    t = np.where(a == 1, MISSING, t).astype(np.int8)
    population = Population([str(ids[row]) for row in order.tolist()], r[order], a[order], t[order])
    return Read(population, annotations.num_rows - rows.num_rows, int((~known).sum()))


def targets(population: Population, quantities: Sequence[str]) -> dict[str, float | None]:
    """Each quantity's plain share in a whole population; None where its denominator is empty (no item with R = 0)."""
    shares = {
        "rho": _share(population.r),
        **{f"alpha[{r}]": _share(population.a[population.r == r]) for r in (0, 1)},
        **{f"tau[{r}]": _share(population.t[(population.r == r) & (population.a == 0)]) for r in (0, 1)},
    }
    # A share of nothing is irrelevant to what it is multiplied with 0 for: what changes with it is not defined.
    low, high = (_derive_with(shares, value) for value in (0.25, 0.75))
    return {name: float(low[name]) if np.isclose(low[name], high[name]) else None for name in quantities}


def targets_of_truth(truth: System, quantities: Sequence[str]) -> dict[str, float | None]:
    """Each quantity's value under known probabilities; None where it is not defined."""
    with np.errstate(invalid="ignore", divide="ignore"):
        found = derive({name: np.float64(value) for name, value in truth.parameters.items()})
    return {name: float(found[name]) if np.isfinite(found[name]) else None for name in quantities}


def drawn_from(truth: System, items: int, rng: np.random.Generator) -> Population:
    """New complete items with known probabilities."""
    chances = rng.random((3, items))
    r = (chances[0] < truth.rho).astype(np.int8)
    a = (chances[1] < np.array([truth.alpha0, truth.alpha1])[r]).astype(np.int8)
    t = (chances[2] < np.array([truth.tau0, truth.tau1])[r]).astype(np.int8)
    return Population([], r, a, np.where(a == 1, MISSING, t).astype(np.int8))


def _check_columns(annotations: pa.Table, columns: Mapping[str, Sequence[str]]) -> None:
    names = annotations.schema.names
    for variable, sources in columns.items():
        if not sources:
            raise InputError(f"labels.trusted.{variable} names no source; an allocation study needs one")
        for column in sources:
            if column in names:
                continue
            if column in TRUSTED:
                raise InputError(f"the labels have no column {column!r}; an allocation study needs r, a and t")
            raise InputError(
                f"labels.trusted.{variable}: the annotations have no column {column!r}"
                f"{did_you_mean(column, source_columns(names))}"
            )


def _coalesced(rows: pa.Table, sources: Sequence[str]) -> np.ndarray:
    """(rows,) of the first source that has a label."""
    found = np.full(rows.num_rows, MISSING, dtype=np.int8)
    for source in sources:
        found = np.where(found == MISSING, digits_of(rows.column(source), source), found).astype(np.int8)
    return found


def _share(labels: np.ndarray) -> float | None:
    return float(labels.mean()) if len(labels) else None


def _derive_with(shares: Mapping[str, float | None], value: float) -> dict[str, np.float64]:
    filled = {name: np.float64(value if shares[name] is None else shares[name]) for name in PARAMETERS}
    with np.errstate(invalid="ignore", divide="ignore"):
        found: dict[str, np.float64] = derive(filled)
    return found
