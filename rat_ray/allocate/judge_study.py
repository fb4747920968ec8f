"""What is a judge worth? Judge labels beside trusted ones, from none to all, under both models of a judge's errors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rat_ray.allocate.judge_counts import Counter
from rat_ray.allocate.judge_population import (
    JudgedItems,
    judges_of,
    order_of,
    rates_of,
    read_items,
    shares_of,
)
from rat_ray.allocate.judge_settings import (
    MOST_TOGETHER,
    TASK_IDS,
    TASKS,
    JudgeFitSettings,
    JudgeStudySettings,
    numbers_of,
    warnings_of,
)
from rat_ray.allocate.population import trusted_columns
from rat_ray.cluster import Resources
from rat_ray.errors import InputError, did_you_mean
from rat_ray.model import Prior
from rat_ray.model.diagnostics import FAIL
from rat_ray.model.estimate import Estimates, Estimator
from rat_ray.model.verdicts import check_judge_model
from rat_ray.seeds import seed_for
from rat_ray.stage import Runs, Stage, import_rows
from rat_ray.store import Input, Table
from rat_ray.tables import JUDGE_STUDY

_LOG = logging.getLogger(__name__)
RESAMPLING = "none"
FULL, FULL_FIT = "full_table", "full_table_fit"
RATES = ("tpr", "fpr")
JOIN = "+"


class JudgeJob(Protocol):
    """The settings that a judge study needs, whichever command asks."""

    @property
    def judge_study(self) -> JudgeStudySettings: ...
    @property
    def prior(self) -> Prior: ...
    @property
    def resources(self) -> Any: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class Plan:
    """One configuration's study: the settings of its fits, its tasks (schema TASKS), and what is odd about it."""

    settings: JudgeFitSettings
    tasks: pa.Table
    warnings: tuple[str, ...]


class _Target(NamedTuple):
    kind: str
    values: Mapping[str, float | None]


def plan(
    annotations: pa.Table,
    study: JudgeStudySettings,
    trusted: Mapping[str, Sequence[str]],
    config: str,
    prior: Prior,
    seed: int,
) -> Plan:
    """Refuse a study that cannot run, before its first fit, or say what it runs. annotations: of one configuration.

    A replicate's tasks stand together, so that fits without a judge are made once.
    Raises InputError where there is no judge, nothing to check one with, or fewer labels than are asked for.
    """
    study.validate()
    prior.validate()
    judges = judges_of(annotations, trusted, study.judges, study.planted, config)
    items = read_items(annotations, trusted, judges, study.planted, seed, config)
    _check_items(items, judges, trusted, config)
    sets = [*judges, JOIN.join(judges)] if study.together and len(judges) > 1 else list(judges)
    if study.together and len(judges) > MOST_TOGETHER:
        raise InputError(f"judge_study.together: {len(judges)} judges; at most {MOST_TOGETHER}, name some in judges")
    for model in study.judge_models:
        check_judge_model(model, max((one.split(JOIN) for one in sets), key=len))
    complete = int(items.complete.sum())
    trusted_numbers = _numbers("trusted_labels", study.trusted_labels, complete, config, "items have complete labels")
    alone = set(trusted_numbers) | set(
        _numbers("alone_labels", study.alone_labels, complete, config, "items have complete labels")
    )
    judge_numbers = {
        one: _numbers("judge_labels", study.judge_labels, len(items.said(one.split(JOIN))), config, f"have {one}")
        for one in sets
    }
    cells = [
        (judge, model, verdicts, labels)
        for labels in sorted(alone)
        for judge in sets
        for model in study.judge_models
        for verdicts in sorted({0, *judge_numbers[judge]})
        if verdicts == 0 or labels in trusted_numbers
    ]
    rows = [(config, *cell, replicate) for replicate in range(study.replicates) for cell in cells]
    columns = list(zip(*rows, strict=True))
    settings = JudgeFitSettings(
        config=config,
        trusted={variable: list(sources) for variable, sources in trusted.items()},
        judges=judges,
        planted=dict(study.planted),
        quantities=items.quantities,
        engine=study.engine_settings,
        prior=prior,
        seed=seed,
    )
    tasks = pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, TASKS, strict=True)], schema=TASKS)
    return Plan(settings, tasks, tuple(warnings_of(study.planted)))


class JudgeStudyWorker:
    """Tasks in, JUDGE_STUDY rows out: one per task and quantity, the tasks in their order.

    A result depends on the settings, the annotations and its task's names, never on what else is in the batch. Without
    judge labels there is nothing of a judge in the fit: one fit serves every judge and model, and has no tpr and fpr.
    """

    def __init__(self, settings: JudgeFitSettings, inputs: Mapping[str, Input]) -> None:
        self._settings = settings
        self._items = read_items(
            inputs["annotations"].read(), settings.trusted, settings.judges, settings.planted, settings.seed,
            settings.config,
        )  # fmt: skip
        self._estimator = lru_cache(maxsize=None)(self._make_estimator)
        self._counter = lru_cache(maxsize=None)(lambda judges: Counter(self._items, judges))
        # Tasks of a replicate and number of trusted labels stand together, so one of each is kept.
        self._trusted_order = lru_cache(maxsize=1)(self._order_trusted)
        self._judge_order = lru_cache(maxsize=len(settings.judges) + 1)(self._order_judged)
        self._alone = lru_cache(maxsize=1)(self._fit_alone)
        self._target = self._find_target()

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        found = [row for task in rows["tasks"].to_pylist() for row in self._rows(task)]
        return pa.Table.from_pylist(found, schema=JUDGE_STUDY)

    def _rows(self, task: Mapping[str, Any]) -> list[dict[str, Any]]:
        settings, labels, replicate = self._settings, task["trusted_labels"], task["replicate"]
        judges = tuple(task["judge"].split(JOIN)) if task["judge_labels"] else ()
        if not judges:
            made = self._alone(labels, replicate)
        else:
            judged = self._judge_order(judges, replicate)[: task["judge_labels"]]
            made = self._fit(judges, task["judge_model"], judged, labels, replicate)
        targets = dict(self._target.values)
        if len(judges) == 1:
            targets |= rates_of(self._items, judges[0])._asdict()
        shared = {
            **{name: task[name] for name in TASK_IDS},
            "items": self._items.size,
            "resampling": RESAMPLING,
            "target": self._target.kind,
            "sampler": made.sampler,
            "pareto_k": _number(made.pareto_k),
            "ess": _number(made.ess),
            "status": made.status,
        }
        names = _quantities(settings, task)
        return [{**shared, **_compare(name, targets[name], made, index)} for index, name in enumerate(names)]

    @staticmethod
    def lost(settings: JudgeFitSettings, rows: Mapping[str, pa.Table], reason: str, schema: pa.Schema) -> pa.Table:
        """Failed fits, one row per quantity, for tasks that killed their process."""
        _LOG.warning("judge study fits failed: %s", reason)
        tasks = rows["tasks"].select(list(TASK_IDS)).to_pylist()
        facts = {"resampling": RESAMPLING, "status": FAIL}
        made = [{**task, **facts, "quantity": name} for task in tasks for name in _quantities(settings, task)]
        return pa.Table.from_pylist(made, schema=schema)

    def _make_estimator(self, judges: tuple[str, ...], model: str) -> Estimator:
        settings = self._settings
        rates = [f"{rate}[{judges[0]}]" for rate in RATES] if len(judges) == 1 else []
        given: dict[str, Any] = {"judge_model": model} if judges else {}
        names = [*settings.quantities, *rates]
        return Estimator(names, judges, prior=settings.prior, engine=settings.engine, **given)

    def _fit(self, judges: tuple[str, ...], model: str, judged: np.ndarray, labels: int, replicate: int) -> Estimates:
        code = self._counter(judges)(self._trusted_order(replicate)[:labels], judged)
        # One seed per replicate: equal labels give equal draws, so that cells differ by their labels only.
        seed = seed_for(self._settings.seed, "judge_study", self._settings.config, replicate)
        made = self._estimator(judges, model).estimate(code, seed)
        if made.status == FAIL:
            names = (self._settings.config, JOIN.join(judges) or "no judge", model, len(judged), labels, replicate)
            _LOG.warning("judge study fit %s failed: %s", "/".join(map(str, names)), made.reason)
        return made

    def _fit_alone(self, labels: int, replicate: int) -> Estimates:
        return self._fit((), "", np.zeros(0, dtype=np.int64), labels, replicate)

    def _order_trusted(self, replicate: int) -> np.ndarray:
        settings, complete = self._settings, np.flatnonzero(self._items.complete)
        return order_of(self._items.question_ids, complete, settings.seed, "judge_study", settings.config, replicate)

    def _order_judged(self, judges: tuple[str, ...], replicate: int) -> np.ndarray:
        settings, said = self._settings, self._items.said(judges)
        names = ("judged", settings.config, JOIN.join(judges), replicate)
        return order_of(self._items.question_ids, said, settings.seed, *names)

    def _find_target(self) -> _Target:
        settings = self._settings
        if self._items.is_full:
            return _Target(FULL, shares_of(self._items))
        everything = np.arange(self._items.size)
        code = self._counter(())(everything, everything[:0])
        found = self._estimator((), "").estimate(
            code, seed_for(settings.seed, "judge_study", settings.config, FULL_FIT)
        )
        return _Target(FULL_FIT, dict(zip(settings.quantities, map(_number, found.mean.tolist()), strict=True)))


def judge_stage(tasks: Table, annotations: Table, settings: JudgeFitSettings, resources: Resources) -> Stage:
    """The stage that runs the tasks (schema TASKS) on the annotations of one configuration."""
    return Stage(
        table="judge_study",
        label=f"judge study {settings.config}",
        settings=settings,
        worker=JudgeStudyWorker,
        over={"tasks": tasks},
        inputs={"annotations": annotations},
        schema=JUDGE_STUDY,
        rows="groups",
        ids=TASK_IDS,
        unit="fits",
        resources=resources,
    )


def plans(annotations: Mapping[str, pa.Table], trusted: Mapping[str, Sequence[str]], job: JudgeJob) -> dict[str, Plan]:
    """What is run per configuration: call it before expensive work, since it raises InputError for bad input."""
    wanted = job.judge_study.configurations or list(annotations)
    for config in wanted:
        if config not in annotations:
            raise InputError(f"judge_study.configurations: no {config!r}{did_you_mean(config, annotations)}")
    return {
        config: plan(annotations[config], job.judge_study, trusted, config, job.prior, job.seed) for config in wanted
    }


def run_judges(
    runs: Runs, annotations: Mapping[str, Table], trusted: Mapping[str, Sequence[str]], job: JudgeJob
) -> pa.Table:
    """The rows (schema JUDGE_STUDY) of all configurations that the settings name, fitted on Ray."""
    planned = plans({config: table.read() for config, table in annotations.items()}, trusted, job)
    stages = [
        judge_stage(
            import_rows(runs.store, "judge_tasks", config, one.tasks),
            annotations[config],
            one.settings,
            job.resources.allocate,
        )
        for config, one in planned.items()
    ]
    return pa.concat_tables(made.read() for made in runs.run(stages, "judge study"))


def _check_items(items: JudgedItems, judges: Sequence[str], trusted: Mapping[str, Sequence[str]], config: str) -> None:
    what = f"judge study of config {config!r}"
    columns = trusted_columns(trusted)
    if not items.size:
        raise InputError(f"{what}: no item without an error has a label in {', '.join(columns['a'])}: A must be known")
    known = dict(zip(("r", "t"), items.known, strict=True))
    if not any(known.values()):
        raise InputError(f"{what}: no trusted label of R or T at all ({', '.join(columns['r'] + columns['t'])})")
    for judge in judges:
        if not known[judge[0]]:
            names = ", ".join(columns[judge[0]]) or f"any source: labels.trusted.{judge[0]} names none"
            raise InputError(f"{what}: {judge} cannot be checked, for there is no trusted label in {names}")
        if not len(items.said([judge])):
            raise InputError(f"{what}: {judge} has no verdict on any item that it could judge")


def _numbers(name: str, given: Sequence[int | str], most: int, config: str, there: str) -> list[int]:
    numbers = numbers_of(given, most)
    if numbers and numbers[-1] > most:
        raise InputError(
            f"judge study of config {config!r}: judge_study.{name}={numbers[-1]}, but only {most} {there}; "
            "ask for less, or for all"
        )
    return numbers


def _quantities(settings: JudgeFitSettings, task: Mapping[str, Any]) -> list[str]:
    one_judge = task["judge_labels"] and JOIN not in task["judge"]
    return [*settings.quantities, *(RATES if one_judge else ())]


def _number(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _compare(quantity: str, target: float | None, made: Estimates, index: int) -> dict[str, Any]:
    """The columns of one quantity; what is not known is null."""
    mean, sd, low, high = (_number(part[index]) for part in (made.mean, made.sd, made.low, made.high))
    finite_low, finite_high = _number(made.finite_low[index]), _number(made.finite_high[index])
    row: dict[str, Any] = {"quantity": quantity, "target_value": target, "mean": mean, "sd": sd}
    row |= {"q2.5": low, "q97.5": high, "finite_q2.5": finite_low, "finite_q97.5": finite_high}
    if finite_low is not None and finite_high is not None:
        low, high = finite_low, finite_high
    if mean is None or low is None or high is None:
        return row
    row["width"] = high - low
    if target is None:
        return row
    row["error"] = mean - target
    # An equal-tailed interval that is not a point never holds an end of the scale, however right it is.
    at_an_end = target in (0.0, 1.0) and high > low
    return row if at_an_end else row | {"covered": int(low <= target <= high)}
