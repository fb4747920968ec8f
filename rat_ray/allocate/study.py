"""The study's worker: for each task hide what its budget does not buy, fit, and compare with what is known."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.allocate.population import (
    Population,
    code_of,
    counts_of,
    read_population,
    targets,
    targets_of_truth,
)
from rat_ray.allocate.settings import NONE, TASK_IDS, StudySettings, engine_of
from rat_ray.allocate.spending import Bought, Replicate, Spending, buy, replicate_of, spending_of
from rat_ray.cluster import Resources
from rat_ray.model.diagnostics import FAIL
from rat_ray.model.engines import IMPORTANCE
from rat_ray.model.estimate import Estimates, Estimator
from rat_ray.model.states import FINITE
from rat_ray.seeds import rank_key, seed_for
from rat_ray.stage import Stage
from rat_ray.store import Input, Table
from rat_ray.tables import ALLOCATION

_LOG = logging.getLogger(__name__)
FULL_TABLE, FULL_TABLE_FIT, TRUTH = "full_table", "full_table_fit", "truth"
_NUTS, _NUTS_DRAWS = "stanli", 2000  # what the check of a fit is made by
_EVERY = 2.0**64  # of rank_key
_ROUNDING = 1e-9  # the share among exactly the items is a count, often an end of its interval, and all of a closed one


class _Fit(NamedTuple):
    task: Mapping[str, Any]
    replicate: Replicate
    bought: Bought
    found: Estimates
    again: Estimates | None  # by NUTS


class StudyWorker:
    """Tasks in, ALLOCATION rows out: one per task and quantity, the tasks in their order.

    A result depends on the settings, the annotations and its task's names, never on what else is in the batch.
    """

    def __init__(self, settings: StudySettings, inputs: Mapping[str, Input]) -> None:
        self._settings = settings
        self._estimator = Estimator(settings.quantities, prior=settings.prior, engine=settings.engine_settings)
        self._checker = self._estimator.with_engine(engine_of(_NUTS, _NUTS_DRAWS))
        self._population: Population | None = None
        if settings.truth is None:
            self._population = read_population(inputs["annotations"].read(), settings.trusted).population
        self._target, self._targets = self._what_to_hit()
        # Tasks of a replicate stand together, and those of a strategy in it.
        self._replicate = lru_cache(maxsize=1)(lambda number: replicate_of(self._population, settings, number))
        self._spending = lru_cache(maxsize=1)(self._spend)

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return self._table([self._fit(task) for task in rows["tasks"].to_pylist()])

    @staticmethod
    def lost(settings: StudySettings, rows: Mapping[str, pa.Table], reason: str, schema: pa.Schema) -> pa.Table:
        """Failed fits, one row per quantity, for tasks that killed their process."""
        _LOG.warning("allocation fits failed: %s", reason)
        tasks = rows["tasks"].select(list(TASK_IDS)).to_pylist()
        facts = {"base": settings.base, "resampling": settings.resampling, "status": FAIL}
        facts |= {"cost_r": settings.cost.r, "cost_t": settings.cost.t}
        made = [{**task, **facts, "quantity": name} for task in tasks for name in settings.quantities]
        return pa.Table.from_pylist(made, schema=schema)

    def _what_to_hit(self) -> tuple[str, dict[str, float | None]]:
        settings, population = self._settings, self._population
        if settings.truth is not None:
            return TRUTH, targets_of_truth(settings.truth, settings.quantities)
        assert population is not None
        if population.whole:
            return FULL_TABLE, targets(population, settings.quantities)
        code = code_of(counts_of(population.r, population.a, population.t))
        found = self._estimator.estimate(code, seed_for(settings.seed, "allocation", settings.config, "full table"))
        values = [float(value) if np.isfinite(value) else None for value in found.mean]
        return FULL_TABLE_FIT, dict(zip(settings.quantities, values, strict=True))

    def _spend(self, number: int, strategy: str) -> Spending:
        return spending_of(self._replicate(number), strategy, self._settings.cost)

    def _fit(self, task: Mapping[str, Any]) -> _Fit:
        settings, number = self._settings, task["replicate"]
        replicate = self._replicate(number)
        bought = buy(replicate, self._spending(number, task["strategy"]), task["budget"])
        code = code_of(bought.n)
        # One seed per replicate: equal labels give equal draws, so that strategies differ by their labels only.
        seed = seed_for(settings.seed, "allocation fit", settings.config, number)
        found = self._estimator.estimate(code, seed)
        name = (settings.config, task["strategy"], f"{task['budget']:g}", number)
        if found.status == FAIL:
            _LOG.warning("allocation fit %s failed: %s", "/".join(map(str, name)), found.reason)
        checked = rank_key(settings.seed, "allocation check", *name) < settings.check_share * _EVERY
        # Its own seed: a fit that NUTS took over would else be compared with the same draws.
        own = seed_for(settings.seed, "allocation check fit", *name)
        return _Fit(task, replicate, bought, found, self._checker.estimate(code, own) if checked else None)

    def _table(self, fits: list[_Fit]) -> pa.Table:
        """Column by column: a study has a quarter of a million rows."""
        settings, names = self._settings, self._settings.quantities
        each = len(names)

        def per_fit(values: list[Any], kind: pa.DataType) -> pa.Array:
            return pa.array(values, kind).take(pa.array(np.repeat(np.arange(len(fits)), each)))

        def per_quantity(values: list[np.ndarray]) -> np.ndarray:
            return np.concatenate(values) if values else np.zeros(0)

        nothing = np.full(each, np.nan)
        mean, sd, low, high, finite_low, finite_high = (
            per_quantity([_numbers(one.found)[part] for one in fits]) for part in range(6)
        )
        again = [
            per_quantity([nothing if one.again is None else _numbers(one.again)[part] for one in fits])
            for part in range(4)
        ]
        target = np.tile([np.nan if self._targets[name] is None else self._targets[name] for name in names], len(fits))
        # The share among exactly these items is what is known only where the table is not resampled.
        of_items = self._target == FULL_TABLE and settings.resampling == NONE
        finite = np.tile([of_items and name in FINITE for name in names], len(fits)) & np.isfinite(finite_low)
        width = np.where(finite, finite_high - finite_low, high - low)
        columns = {
            **{field.name: per_fit([one.task[field.name] for one in fits], field.type) for field in _TASK_FIELDS},
            "quantity": pa.array(list(names) * len(fits), pa.string()),
            "base": per_fit([one.replicate.base for one in fits], pa.int32()),
            "items": per_fit([len(one.replicate.a) for one in fits], pa.int32()),
            "resampling": per_fit([settings.resampling] * len(fits), pa.string()),
            "target": per_fit([self._target] * len(fits), pa.string()),
            "target_value": target,
            "cost_r": per_fit([settings.cost.r] * len(fits), pa.float64()),
            "cost_t": per_fit([settings.cost.t] * len(fits), pa.float64()),
            "labels_r": per_fit([one.bought.labels_r for one in fits], pa.int32()),
            "labels_t": per_fit([one.bought.labels_t for one in fits], pa.int32()),
            "cost": per_fit([one.bought.cost for one in fits], pa.float64()),
            "mean": mean,
            "sd": sd,
            "q2.5": low,
            "q97.5": high,
            "finite_q2.5": finite_low,
            "finite_q97.5": finite_high,
            "width": width,
            "error": mean - target,
            "covered": _covered(low, target, high, np.isfinite(low + target)),
            "finite_covered": _covered(finite_low, target, finite_high, finite & np.isfinite(target)),
            "sampler": per_fit([one.found.sampler for one in fits], pa.string()),
            "pareto_k": per_fit([_finite(one.found.pareto_k) for one in fits], pa.float64()),
            "ess": per_fit([_finite(one.found.ess) for one in fits], pa.float64()),
            **dict(zip(("nuts_mean", "nuts_sd", "nuts_q2.5", "nuts_q97.5"), again, strict=True)),
            "status": per_fit([one.found.status for one in fits], pa.string()),
        }
        arrays = [_array(columns[field.name], field.type) for field in ALLOCATION]
        return pa.Table.from_arrays(arrays, schema=ALLOCATION)


_TASK_FIELDS = [ALLOCATION.field(name) for name in TASK_IDS]


# Up to so many fits take less time in this process than Ray takes to start, by engine.
_FITS_HERE = {IMPORTANCE: 5000}
_SLOW_FITS_HERE = 50


def is_small(stages: Sequence[Stage]) -> bool:
    """Whether studies together take less time in this process than Ray takes to start."""
    return sum(stage.num_rows / _FITS_HERE.get(stage.settings.engine, _SLOW_FITS_HERE) for stage in stages) <= 1


def study_stage(tasks: Table, annotations: Table, settings: StudySettings, resources: Resources) -> Stage:
    """The stage that runs the study's tasks (schema TASKS) on the annotations of one configuration."""
    return allocation_stage(tasks, {"annotations": annotations}, settings, resources)


def allocation_stage(tasks: Table, inputs: Mapping[str, Table], settings: StudySettings, resources: Resources) -> Stage:
    """The stage of any study: on annotations, or on a truth that stands in the settings."""
    return Stage(
        table="allocation",
        label=f"allocation {settings.config}",
        settings=settings,
        worker=StudyWorker,
        over={"tasks": tasks},
        inputs=dict(inputs),
        schema=ALLOCATION,
        rows="groups",
        ids=TASK_IDS,
        unit="fits",
        version=3,
        resources=resources,
    )


def _covered(low: np.ndarray, target: np.ndarray, high: np.ndarray, known: np.ndarray) -> pa.Array:
    with np.errstate(invalid="ignore"):
        held = (low - _ROUNDING <= target) & (target <= high + _ROUNDING)
    return pa.array(held.astype(np.int8), mask=~known)


def _numbers(found: Estimates) -> tuple[np.ndarray, ...]:
    return found.mean, found.sd, found.low, found.high, found.finite_low, found.finite_high


def _finite(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    """NaN becomes null."""
    if isinstance(values, np.ndarray):
        return pa.array(values, kind, mask=~np.isfinite(values))
    return values.cast(kind)
