"""The items of a study: those of one configuration whose trusted labels are complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.settings import AllocationSettings, StudySettings
from rat_ray.errors import InputError, did_you_mean
from rat_ray.model.patterns import MISSING, TRUSTED, source_columns
from rat_ray.model.states import PARAMETERS, derive
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


def read_population(annotations: pa.Table, trusted: Mapping[str, Sequence[str]]) -> Population:
    """The complete items: generated without an error, r and a known, and t where the system answered.

    annotations: of one configuration. Raises InputError for a source that is not named or has no column.
    """
    ids, labels = _trusted_labels(annotations, trusted)
    r, a, t = (labels[name] for name in TRUSTED)
    usable = (r != MISSING) & (a != MISSING) & ((a == 1) | (t != MISSING))
    kept = [question_id for question_id, keep in zip(ids, usable.tolist(), strict=True) if keep]
    return Population(kept, r[usable], a[usable], np.where(a == 1, MISSING, t)[usable].astype(np.int8))


def check(annotations: pa.Table, settings: AllocationSettings, trusted: Mapping[str, Sequence[str]]) -> None:
    """Refuse a study that cannot run, before its first fit. annotations: of one configuration.

    Raises InputError where a trusted source has no column or no label, no item was answered, or the base does not fit.
    """
    settings.validate()
    ids, labels = _trusted_labels(annotations, trusted)
    what = f"allocation: config {_config_of(annotations)!r}"
    if not ids:
        raise InputError(f"{what} has no rows without an error; choose another allocation.configuration")
    columns = {variable: ", ".join(names) for variable, names in trusted_columns(trusted).items()}
    advice = "name sources that have labels in labels.trusted"
    for variable in ("r", "a"):
        if not (labels[variable] != MISSING).any():
            raise InputError(f"{what}: no trusted label in {columns[variable]}; {advice}.{variable}")
    answered = labels["a"] == 0
    if not answered.any():
        raise InputError(
            f"{what}: the system answered none of its {len(ids)} items ({columns['a']} is nowhere 0), so there is no T "
            "to label; choose another allocation.configuration"
        )
    if not (labels["t"][answered] != MISSING).any():
        raise InputError(f"{what}: no trusted label of an answered item in {columns['t']}; {advice}.t")
    items = len(read_population(annotations, trusted).a)
    if settings.base > items:
        raise InputError(
            f"{what}: allocation.base={settings.base}, but only {items} of {len(ids)} items have complete trusted "
            "labels; lower the base or label more items"
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


def _trusted_labels(
    annotations: pa.Table, trusted: Mapping[str, Sequence[str]]
) -> tuple[list[str], dict[str, np.ndarray]]:
    """Ids of the rows without an error, and r, a, t of each: from the first trusted source that has a label."""
    columns = trusted_columns(trusted)
    for variable, sources in columns.items():
        if not sources:
            raise InputError(f"labels.trusted.{variable} names no source; an allocation study needs one")
        for column in sources:
            if column not in annotations.schema.names:
                raise InputError(
                    f"labels.trusted.{variable}: the annotations have no column {column!r}"
                    f"{did_you_mean(column, source_columns(annotations.schema.names))}"
                )
    rows = annotations.filter(pc.is_null(annotations.column("error")))
    labels = {
        variable: pc.fill_null(pc.coalesce(*(rows.column(source) for source in sources)), MISSING).to_numpy()
        for variable, sources in columns.items()
    }
    return rows.column("question_id").to_pylist(), labels


def _config_of(annotations: pa.Table) -> str:
    return str(annotations.column("config")[0].as_py()) if annotations.num_rows else ""


def _share(labels: np.ndarray) -> float | None:
    return float(labels.mean()) if len(labels) else None


def _derive_with(shares: Mapping[str, float | None], value: float) -> dict[str, np.float64]:
    filled = {name: np.float64(value if shares[name] is None else shares[name]) for name in PARAMETERS}
    with np.errstate(invalid="ignore", divide="ignore"):
        found: dict[str, np.float64] = derive(filled)
    return found
