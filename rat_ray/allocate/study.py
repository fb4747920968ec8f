"""The study's worker: for each task hide what its budget does not buy, fit, and compare with the full table."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.allocate.population import order_of, read_population, targets
from rat_ray.allocate.settings import TASK_IDS, StudySettings
from rat_ray.allocate.spending import Bought, buy, visible
from rat_ray.cluster import Resources
from rat_ray.model.design import Options
from rat_ray.model.diagnostics import FAIL, DiagnosticsSettings, SamplerStats, convergence, judge_fit
from rat_ray.model.patterns import patterns
from rat_ray.model.posterior import draws_array, sample
from rat_ray.seeds import seed_for
from rat_ray.stage import Stage
from rat_ray.store import Input, Table
from rat_ray.tables import ALLOCATION

_LOG = logging.getLogger(__name__)
# The base and the budget are subsets of one table; nothing is resampled.
RESAMPLING, TARGET = "none", "full_table"


class Estimate(NamedTuple):
    """The posterior of one quantity."""

    mean: float
    sd: float
    low: float
    high: float


class StudyWorker:
    """Tasks in, ALLOCATION rows out: one per task and quantity, the tasks in their order.

    A result depends on the settings, the annotations and its task's names, never on what else is in the batch.
    """

    def __init__(self, settings: StudySettings, inputs: Mapping[str, Input]) -> None:
        self._settings = settings
        self._population = read_population(inputs["annotations"].read(), settings.trusted)
        self._targets = targets(self._population, settings.quantities)
        # Tasks of a replicate stand together, so one order is kept.
        self._order = lru_cache(maxsize=1)(lambda replicate: order_of(self._population, settings, replicate))

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        found = [row for task in rows["tasks"].to_pylist() for row in self._rows(task)]
        return pa.Table.from_pylist(found, schema=ALLOCATION)

    def _rows(self, task: Mapping[str, Any]) -> list[dict[str, Any]]:
        settings = self._settings
        order = self._order(task["replicate"])
        bought = buy(self._population, order, task["strategy"], task["budget"], settings)
        status, estimates = self._fit(task, bought)
        shared = {
            **{name: task[name] for name in TASK_IDS},
            "base": settings.base,
            "resampling": RESAMPLING,
            "target": TARGET,
            "labels_r": bought.labels_r,
            "labels_t": bought.labels_t,
            "cost": bought.cost,
            "status": status,
        }
        return [{**shared, **_compare(name, self._targets[name], estimates.get(name))} for name in settings.quantities]

    @staticmethod
    def lost(settings: StudySettings, rows: Mapping[str, pa.Table], reason: str, schema: pa.Schema) -> pa.Table:
        """Failed fits, one row per quantity, for tasks that killed their process."""
        _LOG.warning("allocation fits failed: %s", reason)
        tasks = rows["tasks"].select(list(TASK_IDS)).to_pylist()
        facts = {"base": settings.base, "resampling": RESAMPLING, "target": TARGET, "status": FAIL}
        made = [{**task, **facts, "quantity": name} for task in tasks for name in settings.quantities]
        return pa.Table.from_pylist(made, schema=schema)

    def _fit(self, task: Mapping[str, Any], bought: Bought) -> tuple[str, dict[str, Estimate]]:
        """The fit's status and its estimates; none where it failed."""
        settings = self._settings
        name = "/".join(str(task[column]) for column in TASK_IDS)
        # One seed per replicate: equal labels give equal draws, so that strategies differ by their labels only.
        seed = seed_for(settings.seed, "allocation", settings.config, task["replicate"])
        counts = patterns(visible(self._population, bought), [])
        options = Options(finite=False, replicate=False)
        sampled = sample(counts, settings.prior, settings.engine, seed, settings.config, options)
        if sampled.failure is not None:  # a chain cannot start: one fit of many, kept as failed
            _LOG.warning("allocation fit %s failed: %s", name, sampled.failure)
            return FAIL, {}
        values = draws_array(sampled.draws, settings.quantities)
        columns = draws_array(sampled.draws, ["divergent__", "treedepth__", "energy__"])
        sampler = SamplerStats(columns[..., 0], columns[..., 1], columns[..., 2], settings.engine.max_treedepth)
        status = judge_fit(settings.quantities, values, convergence(values), sampler, DiagnosticsSettings())
        if status.status == FAIL:
            _LOG.warning("allocation fit %s failed: %s", name, status.reason)
            return FAIL, {}
        flat = values.reshape(-1, len(settings.quantities))
        return status.status, {quantity: _estimate(flat[:, i]) for i, quantity in enumerate(settings.quantities)}


def study_stage(tasks: Table, annotations: Table, settings: StudySettings, resources: Resources) -> Stage:
    """The stage that runs the study's tasks (schema TASKS) on the annotations of one configuration."""
    return Stage(
        table="allocation",
        label=f"allocation {settings.config}",
        settings=settings,
        worker=StudyWorker,
        over={"tasks": tasks},
        inputs={"annotations": annotations},
        schema=ALLOCATION,
        rows="groups",
        ids=TASK_IDS,
        resources=resources,
    )


def _estimate(draws: np.ndarray) -> Estimate:
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(float(draws.mean()), float(draws.std(ddof=1)), float(low), float(high))


def _compare(quantity: str, target: float | None, estimate: Estimate | None) -> dict[str, Any]:
    """The columns of one quantity; what is not known is left out, and becomes null."""
    row: dict[str, Any] = {"quantity": quantity, "target_value": target}
    if estimate is None:
        return row
    row |= {"mean": estimate.mean, "sd": estimate.sd, "q2.5": estimate.low, "q97.5": estimate.high}
    if target is None:
        return row
    return row | {"error": estimate.mean - target, "covered": int(estimate.low <= target <= estimate.high)}
