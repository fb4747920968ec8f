"""The allocation study as a stage, inside an evaluation and as `rat-ray allocate run=OUT`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from rat_ray.allocate import AllocationSettings, StudySettings, check, print_study, study_stage, tasks
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.errors import InputError, did_you_mean
from rat_ray.evaluate import StageResources
from rat_ray.export import read_annotated, run_facts
from rat_ray.keys import key_of
from rat_ray.model import Prior
from rat_ray.output import OutFolder
from rat_ray.progress import console
from rat_ray.report.figures import allocation_figure
from rat_ray.settings import build, check_given
from rat_ray.stage import Runs, import_rows
from rat_ray.store import StorageSettings, Store, Table

if TYPE_CHECKING:
    from rat_ray.commands import Context


class StudyJob(Protocol):
    """The settings that a study needs, whichever command asks."""

    @property
    def allocation(self) -> AllocationSettings: ...
    @property
    def prior(self) -> Prior: ...
    @property
    def resources(self) -> StageResources: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class AllocateSettings:
    """Everything behind `conf/allocate.yaml`."""

    run: str
    out: str
    store: str
    allocation: AllocationSettings
    prior: Prior
    cluster: ClusterSettings
    storage: StorageSettings
    resources: StageResources
    seed: int = 1

    def validate(self) -> None:
        check_given(run=self.run, out=self.out, store=self.store)


def run_study(runs: Runs, config: str, annotations: Table, trusted: Mapping[str, list[str]], job: StudyJob) -> Table:
    """The allocation table of one configuration: a task per strategy, budget and replicate, fitted on Ray."""
    check(annotations.read(), job.allocation, trusted)
    planned = tasks(job.allocation, config)
    listed = import_rows(runs.store, "tasks", config, planned)
    settings = StudySettings.of(config, trusted, job.allocation, job.prior, job.seed)
    stage = study_stage(listed, annotations, settings, job.resources.allocate)
    return runs.run([stage], f"allocation study of {config}")[0]


SETTINGS = AllocateSettings


def run(context: Context) -> str:
    """`rat-ray allocate`: a study on the annotations of a finished run."""
    job = build(AllocateSettings, context.config)
    finished, facts, annotations = read_annotated(job.run, job.storage)
    settings = _own_settings(job, facts)
    out = OutFolder(context.folder(job.out), settings, "allocate", in_sweep=context.multirun, storage=job.storage)
    out.check()
    config = job.allocation.configuration or next(iter(annotations))
    if config not in annotations:
        raise InputError(f"allocation.configuration={config}: not in {finished.url}{did_you_mean(config, annotations)}")
    rows = with_config(annotations[config], config)
    check(rows, job.allocation, facts["trusted"])
    store = Store(job.store, job.storage)
    store.prepare()
    out.claim()
    with Cluster(job.cluster) as cluster:
        runs = Runs(store, cluster, seed=job.seed)
        table = import_rows(store, "annotations", config, rows)
        allocation = run_study(runs, config, table, facts["trusted"], job).read()
    out.write_table("allocation.parquet", allocation)
    out.write_text("allocation.svg", allocation_figure(allocation))
    own = {"run": finished.place, "configuration": config}
    out.finish({**own, **run_facts(store, runs.records, job.seed)})
    screen = console()
    print_study(allocation, screen)
    screen.print(f"out: {out.url}", highlight=False, markup=False, soft_wrap=True)
    return out.url


def with_config(rows: pa.Table, config: str) -> pa.Table:
    """The rows of a partition with the configuration's name as a column again."""
    names = pa.array([config] * rows.num_rows, pa.string())
    return rows.add_column(0, pa.field("config", pa.string(), nullable=False), names)


def _own_settings(job: AllocateSettings, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "run": facts.get("settings_digest", ""),
        "allocation": key_of(job.allocation),
        "prior": key_of(job.prior),
        "seed": job.seed,
    }
