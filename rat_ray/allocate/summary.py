"""A study in short: error, width and coverage per strategy and budget, with their Monte Carlo standard errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.allocate.cells import CELL, Cells, cells, codes_of, moments, nullable, total, values_of
from rat_ray.tables import ALLOCATION

POOLED = "all"  # the configuration of rows over all of them, where there are several
_MEASURES = ("bias", "rmse", "width", "coverage")

# configurations: how many a row is over. replicates: those with an estimate; failed: those without; nuts: fits whose
# draws NUTS made. cost, labels_r, labels_t: means, beyond the base. *_se: one Monte Carlo standard error, null where
# there are fewer than two replicates.
STUDY_SUMMARY = pa.schema(
    [
        *(ALLOCATION.field(name) for name in CELL),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("configurations", "replicates", "failed", "nuts")),
        *(pa.field(name, pa.float64()) for name in ("cost", "labels_r", "labels_t")),
        *(pa.field(name + end, pa.float64()) for name in _MEASURES for end in ("", "_se")),
    ]
)

# Strategies by replicate: the strategy's value minus that of `against`, at the same budget, in the same order of items.
PAIRED = pa.schema(
    [
        *(ALLOCATION.field(name) for name in CELL),
        pa.field("against", pa.string(), nullable=False),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("configurations", "pairs")),
        pa.field("cost_difference", pa.float64()),
        *(pa.field(f"{name}_difference{end}", pa.float64()) for name in ("mse", "width") for end in ("", "_se")),
    ]
)


def summarise(allocation: pa.Table) -> pa.Table:
    """One row (schema STUDY_SUMMARY) per configuration, strategy, budget and quantity, in the order of the table.

    Where there are several configurations, rows over all of them follow, named `pooled_name`: means over those that
    have a value, their standard errors sqrt(sum se^2) / configurations, which do not count that others might have been
    studied. RMSE = sqrt(mean(error^2)); its standard error by the delta method, sd(error^2) / sqrt(n) / (2 RMSE). Those
    of bias, width and coverage are sd / sqrt(n). Coverage and width are of the interval that goes with the target:
    among exactly the items where the target is their share, else on new questions. A cell in which every replicate
    failed has nulls; so has the error of a quantity without a target (alpha[0] where retrieval never failed).
    """
    groups = cells(allocation)
    error = values_of(allocation, "error")
    square, width = moments(error * error, groups), moments(values_of(allocation, "width"), groups)
    bias, covered = moments(error, groups), moments(_covered(allocation), groups)
    rmse = np.sqrt(square.mean)
    with np.errstate(invalid="ignore", divide="ignore"):
        rmse_se = np.where(rmse > 0, square.se / (2 * rmse), np.nan)
    failed = np.isnan(values_of(allocation, "mean"))
    nuts = pc.fill_null(pc.equal(allocation.column("sampler"), "nuts"), False).to_numpy(zero_copy_only=False)
    counted = {
        "configurations": np.ones(groups.size, dtype=np.int64),
        "replicates": total(~failed, groups),
        "failed": total(failed, groups),
        "nuts": total(nuts, groups),
    }
    measured = {
        **{name: moments(values_of(allocation, name), groups).mean for name in ("cost", "labels_r", "labels_t")},
        **{"bias": bias.mean, "bias_se": bias.se, "rmse": rmse, "rmse_se": rmse_se},
        **{"width": width.mean, "width_se": width.se, "coverage": covered.mean, "coverage_se": covered.se},
    }
    made = _table(allocation, groups, CELL, counted, measured, STUDY_SUMMARY)
    return pa.concat_tables([made, _pooled(made)]) if _several(made) else made


def paired(allocation: pa.Table, against: str = "") -> pa.Table:
    """Strategies compared by replicate (schema PAIRED): both had the same base, order of items and seed.

    A row per configuration, other strategy, budget and quantity: mean over the replicates of the difference in squared
    error and in interval width, each with its standard error sd(difference) / sqrt(pairs), which is far smaller than
    that of two independent studies. Negative: better than `against` (empty: `reference_of`). Then rows over all.
    """
    against = against or reference_of(allocation)
    match = ("config", "budget", "replicate", "quantity")
    codes = codes_of(allocation, match)
    ours = pc.equal(allocation.column("strategy"), against).to_numpy(zero_copy_only=False)
    order = np.argsort(codes[ours], kind="stable")
    known, where = codes[ours][order], np.flatnonzero(ours)[order]
    place = np.searchsorted(known, codes)
    place[place == len(known)] = 0
    has = ~ours & (known[place] == codes if len(known) else False)
    rows = allocation.filter(pa.array(has))
    partner = where[place[has]]
    groups = cells(rows)

    def difference(values: np.ndarray) -> np.ndarray:
        return np.asarray(values[has] - values[partner])

    mse = moments(difference(values_of(allocation, "error") ** 2), groups)
    width = moments(difference(values_of(allocation, "width")), groups)
    counted = {"configurations": np.ones(groups.size, dtype=np.int64), "pairs": width.n}
    measured = {
        "cost_difference": moments(difference(values_of(allocation, "cost")), groups).mean,
        **{"mse_difference": mse.mean, "mse_difference_se": mse.se},
        **{"width_difference": width.mean, "width_difference_se": width.se},
    }
    named = rows.append_column(pa.field("against", pa.string(), nullable=False), _repeat(against, rows.num_rows))
    made = _table(named, groups, (*CELL, "against"), counted, measured, PAIRED)
    return pa.concat_tables([made, _pooled(made)]) if _several(made) else made


def reference_of(allocation: pa.Table) -> str:
    """The strategy that others are held against: joint where it was studied, else the first."""
    names = pc.unique(allocation.column("strategy")).to_pylist()
    return "joint" if "joint" in names or not names else str(names[0])


def pooled_name(configs: Sequence[str]) -> str | None:
    """What rows over these configurations are called; None where there is only one."""
    if len(configs) < 2:
        return None
    return POOLED if POOLED not in configs else f"{POOLED} {len(configs)} configurations"


def configs_of(table: pa.Table) -> list[str]:
    """The configurations of a table, in its order."""
    return [str(name) for name in pc.unique(table.column("config")).to_pylist()]


def _covered(allocation: pa.Table) -> np.ndarray:
    """(rows,) whether the interval that goes with the target held it; NaN where there is none.

    That among exactly the items has a value only where it goes with the target.
    """
    finite = values_of(allocation, "finite_covered")
    return np.where(np.isnan(finite), values_of(allocation, "covered"), finite)


def _table(
    rows: pa.Table,
    groups: Cells,
    keys: Sequence[str],
    counted: Mapping[str, np.ndarray],
    measured: Mapping[str, np.ndarray],
    schema: pa.Schema,
) -> pa.Table:
    named = rows.select(list(keys)).take(pa.array(groups.first))
    columns = {name: named.column(name).combine_chunks() for name in keys}
    columns |= {name: pa.array(values, pa.int64()) for name, values in counted.items()}
    columns |= {name: nullable(values) for name, values in measured.items()}
    return pa.Table.from_arrays([columns[field.name] for field in schema], schema=schema)


def _several(made: pa.Table) -> bool:
    return len(configs_of(made)) > 1


def _pooled(made: pa.Table) -> pa.Table:
    """Rows over all configurations: counts added, means averaged over those that have one."""
    keys = [name for name in (*CELL, "against") if name in made.schema.names and name != "config"]
    groups = cells(made, keys)
    counted: dict[str, np.ndarray] = {}
    measured: dict[str, np.ndarray] = {}
    for field in made.schema:
        if field.name in ("config", *keys):
            continue
        values = values_of(made, field.name)
        if pa.types.is_integer(field.type):
            counted[field.name] = np.bincount(groups.ids, weights=values, minlength=groups.size).astype(np.int64)
        elif field.name.endswith("_se"):
            # NaN where one of the averaged means has no standard error.
            known = ~np.isnan(values_of(made, field.name.removesuffix("_se")))
            squares = np.where(known, values, 0.0) ** 2
            added = np.bincount(groups.ids, weights=squares, minlength=groups.size)
            measured[field.name] = _divided(np.sqrt(added), total(known, groups))
        else:
            measured[field.name] = moments(values, groups).mean
    name = pooled_name(configs_of(made)) or POOLED
    first = made.set_column(0, made.schema.field("config"), _repeat(name, made.num_rows))
    return _table(first, groups, ["config", *keys], counted, measured, made.schema)


def _divided(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    return np.asarray(np.divide(values, by, out=np.full(len(values), np.nan), where=by > 0))


def _repeat(text: str, rows: int) -> pa.Array:
    return pa.array([text] * rows, pa.string())
