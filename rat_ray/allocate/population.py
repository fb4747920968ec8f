"""The items of a study: those of one configuration whose trusted labels are complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.settings import StudySettings
from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.patterns import MISSING, TRUSTED
from rat_ray.model.posterior import PARAMETERS, derive
from rat_ray.seeds import rank_key


class Population(NamedTuple):
    """Complete items, (items,) each: ids, and r, a, t of 0 or 1; t is MISSING where a = 1."""

    question_ids: Sequence[str]
    r: np.ndarray
    a: np.ndarray
    t: np.ndarray


def trusted_columns(trusted: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The source columns of r, a and t, first first."""
    return {variable: [f"{variable}@{source}" for source in trusted.get(variable, ())] for variable in TRUSTED}


def columns_read(settings: StudySettings) -> list[str]:
    """The columns of an annotations table that a study needs."""
    sources = [column for columns in trusted_columns(settings.trusted).values() for column in columns]
    return ["config", "question_id", "error", *sources]


def read_population(annotations: pa.Table, settings: StudySettings) -> Population:
    """The configuration's complete items: generated without an error, r and a known, and t where the system answered.

    Raises InputError for a source that is not named or has no column.
    """
    labels = _trusted_labels(annotations, settings)
    r, a, t = (labels[name] for name in TRUSTED)
    usable = (r != MISSING) & (a != MISSING) & ((a == 1) | (t != MISSING))
    t = np.where(a == 1, MISSING, t)
    ids = np.array(labels.ids, dtype=object)[usable].tolist()
    return Population(ids, r[usable], a[usable], t[usable].astype(np.int8))


def check(annotations: pa.Table, settings: StudySettings) -> None:
    """Refuse a study that cannot run, before its first fit.

    Raises InputError where a trusted source has no column or no label, no item was answered, or the base does not fit.
    """
    labels = _trusted_labels(annotations, settings)
    what = f"allocation: config {settings.config!r}"
    if not labels.ids:
        raise InputError(f"{what} has no rows without an error; choose another allocation.configuration")
    for variable, columns in trusted_columns(settings.trusted).items():
        answered = labels["a"] == 0
        if variable == "t" and not answered.any():
            raise InputError(f"{what}: no item was answered (a = 0 on none of {len(answered)}), so T tells nothing")
        if not (labels[variable] != MISSING).any():
            raise InputError(
                f"{what}: {', '.join(columns)} hold no label at all; name sources that have labels in labels.trusted"
            )
    items = len(read_population(annotations, settings).a)
    if settings.base > items:
        raise InputError(
            f"{what}: allocation.base={settings.base}, but only {items} of {len(labels.ids)} items have complete "
            "trusted labels; lower the base or label more items"
        )


def order_of(population: Population, settings: StudySettings, replicate: int) -> np.ndarray:
    """(items,) indices in a replicate's order: the base comes first, then the items that money reaches.

    It depends on the seed, the configuration, the replicate and the items' ids alone.
    """
    ids = population.question_ids
    keys = [rank_key(settings.seed, "allocation", settings.config, replicate, question_id) for question_id in ids]
    return np.array(sorted(range(len(ids)), key=lambda index: (keys[index], ids[index])), dtype=np.int64)


def targets(population: Population, quantities: Sequence[str]) -> dict[str, float | None]:
    """Each quantity's plain share in the population; None where its denominator is empty (no item with R = 0, say)."""
    shares = {
        "rho": _share(population.r),
        **{f"alpha[{r}]": _share(population.a[population.r == r]) for r in (0, 1)},
        **{f"tau[{r}]": _share(population.t[(population.r == r) & (population.a == 0)]) for r in (0, 1)},
    }
    # A share of nothing is irrelevant to what it is multiplied with 0 for: what changes with it is not defined.
    low, high = (_derive_with(shares, value) for value in (0.25, 0.75))
    return {name: float(low[name]) if np.isclose(low[name], high[name]) else None for name in quantities}


class _Labels(NamedTuple):
    ids: list[str]
    values: dict[str, np.ndarray]

    def __getitem__(self, variable: str) -> np.ndarray:  # type: ignore[override]
        return self.values[variable]


def _trusted_labels(annotations: pa.Table, settings: StudySettings) -> _Labels:
    """The configuration's rows without an error, each variable from the first trusted source that has a label."""
    columns = trusted_columns(settings.trusted)
    for variable, sources in columns.items():
        if not sources:
            raise InputError(f"labels.trusted.{variable} names no source; the allocation study needs one")
        for column in sources:
            if column not in annotations.schema.names:
                known = [name for name in annotations.schema.names if name.startswith(f"{variable}@")]
                raise InputError(f"the annotations have no column {column!r}{did_you_mean(column, known)}")
    rows = annotations.filter(
        pc.and_(pc.equal(annotations.column("config"), settings.config), pc.is_null(annotations.column("error")))
    )
    values = {}
    for variable, sources in columns.items():
        labels = pc.coalesce(*(rows.column(column) for column in sources))
        values[variable] = pc.fill_null(labels, MISSING).to_numpy().astype(np.int8)
    return _Labels(rows.column("question_id").to_pylist(), values)


def _share(labels: np.ndarray) -> float | None:
    return float(labels.mean()) if len(labels) else None


def _derive_with(shares: Mapping[str, float | None], value: float) -> dict[str, np.float64]:
    filled = {name: np.float64(value if shares[name] is None else shares[name]) for name in PARAMETERS}
    with np.errstate(invalid="ignore", divide="ignore"):
        found: dict[str, np.float64] = derive(filled)
    return found
