"""`rat-ray allocate`: which labels tell most about P(G=1)? On labels, a finished run, or a known truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from rat_ray.allocate import AllocationSettings, StudySettings, check, study_stage, tasks
from rat_ray.allocate.information import Told, labelled, told, told_of_truth
from rat_ray.allocate.judge_settings import JudgeStudySettings
from rat_ray.allocate.judge_study import plans, run_judges
from rat_ray.allocate.simulated import SimulationSettings, check_simulation, chosen, simulation_stage, truth_of
from rat_ray.allocate.study import is_small
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import InputError
from rat_ray.evaluate import StageResources
from rat_ray.export import run_facts
from rat_ray.keys import key_of
from rat_ray.model import Columns, Prior
from rat_ray.model.estimate import Estimator
from rat_ray.model.states import PARAMETERS
from rat_ray.output import OutFolder
from rat_ray.settings import build, check_given
from rat_ray.stage import Runs, Stage, import_rows
from rat_ray.store import StorageSettings, Store, Table
from rat_ray.study_results import Results, write_results
from rat_ray.study_source import Source, from_data, from_run

if TYPE_CHECKING:
    from rat_ray.commands import Context


@dataclass(frozen=True)
class AllocateSettings:
    """Everything behind `conf/allocate.yaml`. Exactly one of data, run and simulation is given."""

    out: str
    store: str
    allocation: AllocationSettings
    prior: Prior
    cluster: ClusterSettings
    storage: StorageSettings
    resources: StageResources
    data: str | None = None
    run: str | None = None
    simulation: SimulationSettings | None = None
    judge_study: JudgeStudySettings = field(default_factory=JudgeStudySettings)
    seed: int = 1
    by: list[str] = field(default_factory=list)
    t_zero: str = "refuse"
    columns: Columns = Columns()

    def validate(self) -> None:
        check_given(out=self.out, store=self.store)
        given = {"data": self.data, "run": self.run, "simulation": self.simulation}
        named = [name for name, value in given.items() if value]
        if len(named) != 1:
            found = " and ".join(named) or "none of them"
            raise InputError(
                f"give exactly one of data=FILE (labels), run=OUT (a finished `rat-ray evaluate`) and simulation=paper "
                f"(a known truth); given: {found}"
            )
        if self.simulation is not None and self.judge_study.enabled:
            raise InputError("judge_study.enabled=true: simulated tables have no judges; give data= or run=")
        if self.t_zero not in ("refuse", "wrong"):
            raise InputError(f"t_zero={self.t_zero}: must be refuse or wrong")


SETTINGS = AllocateSettings


class _Work(NamedTuple):
    """What was checked and can be done. source: None of a simulation."""

    job: AllocateSettings
    source: Source | None
    configs: list[str]
    notes: list[str]


def run(context: Context) -> str:
    """Run the study, write `out` and print its tables; gives where they lie."""
    job = build(AllocateSettings, context.config)
    work = _work_of(job)
    out = OutFolder(
        context.folder(job.out), _own_settings(work), "allocate", in_sweep=context.multirun, storage=job.storage
    )
    out.check()
    store = Store(job.store, job.storage)
    store.prepare()
    out.claim()
    with Cluster(job.cluster) as cluster:
        runs = Runs(store, cluster, seed=job.seed)
        results = _run(work, runs)
    source = work.source
    facts = {
        **({} if source is None else {**source.facts, "trusted": source.trusted}),
        "configurations": work.configs,
        "notes": work.notes,
        **run_facts(store, runs.records, job.seed),
    }
    write_results(out, results, facts)
    return out.url


def _work_of(job: AllocateSettings) -> _Work:
    """Read what is studied and refuse what cannot be, before any work."""
    if job.simulation is not None:
        notes = [f"WARNING: {text}" for text in check_simulation(job.allocation, job.simulation)]
        return _Work(job, None, chosen(job.allocation, job.simulation), notes)
    if job.data:
        source = from_data(job.data, job.columns, job.by, job.t_zero, job.storage)
    else:
        source = from_run(job.run or "", job.storage)
    source = source.choose(job.allocation)
    notes = list(source.notes)
    said = {config: check(rows, job.allocation, source.trusted) for config, rows in source.rows.items()}
    notes += _warnings(said)
    if job.judge_study.enabled:
        planned = plans(source.rows, source.trusted, job)
        notes += _warnings({config: list(one.warnings) for config, one in planned.items()})
    return _Work(job, source, list(source.rows), notes)


def _warnings(said: Mapping[str, list[str]]) -> list[str]:
    """Each warning once: with its configuration, unless all of them have it."""
    every = list(dict.fromkeys(text for texts in said.values() for text in texts))
    shared = [text for text in every if all(text in texts for texts in said.values())]
    own = [f"{config}: {text}" for config, texts in said.items() for text in texts if text not in shared]
    return [f"WARNING: {text}" for text in (*shared, *own)]


def _run(work: _Work, runs: Runs) -> Results:
    """All configurations as stages of one batch; then the formula's fits, which are few, here."""
    job, source = work.job, work.source
    imported = (
        {}
        if source is None
        else {config: import_rows(runs.store, "annotations", config, rows) for config, rows in source.rows.items()}
    )
    stages = [
        _simulated(work, runs, config) if source is None else _studied(work, runs, config, imported[config])
        for config in work.configs
    ]
    title = f"allocation study of {work.configs[0]}" if len(work.configs) == 1 else "allocation study"
    allocation = pa.concat_tables([table.read() for table in runs.run(stages, title, is_small(stages))])
    judged = None
    if source is not None and job.judge_study.enabled:
        judged = run_judges(runs, imported, source.trusted, job)
    return Results(allocation, _told(work), judged)


def _studied(work: _Work, runs: Runs, config: str, annotations: Table) -> Stage:
    assert work.source is not None
    job = work.job
    listed = import_rows(runs.store, "tasks", config, tasks(job.allocation, config))
    settings = StudySettings.of(config, work.source.trusted, job.allocation, job.prior, job.seed)
    return study_stage(listed, annotations, settings, job.resources.allocate)


def _simulated(work: _Work, runs: Runs, config: str) -> Stage:
    job = work.job
    assert job.simulation is not None
    listed = import_rows(runs.store, "tasks", config, tasks(job.allocation, config))
    return simulation_stage(listed, config, job.simulation, job.allocation, job.prior, job.seed, job.resources.allocate)


def _told(work: _Work) -> dict[str, Told]:
    """What the formula says of each configuration: given all its trusted labels, or of the truth of a simulation."""
    job = work.job
    if job.simulation is not None:
        return {config: told_of_truth(config, truth_of(job.simulation, config)) for config in work.configs}
    assert work.source is not None
    estimator = Estimator(PARAMETERS, prior=job.prior, engine=job.allocation.engine_settings)
    return {
        config: told(config, labelled(rows, work.source.trusted), estimator, job.seed)
        for config, rows in work.source.rows.items()
    }


def _own_settings(work: _Work) -> dict[str, Any]:
    job = work.job
    own: Mapping[str, Any] = {"simulation": key_of(job.simulation)} if work.source is None else work.source.own
    return {
        **own,
        "allocation": key_of(job.allocation),
        "judge_study": key_of(job.judge_study) if job.judge_study.enabled else None,
        "prior": key_of(job.prior),
        "seed": job.seed,
        "by": job.by,
        "t_zero": job.t_zero,
        "columns": key_of(job.columns),
    }
