"""Fits as stages (annotations -> patterns -> posterior -> summary), and `rat-ray fit` on a label file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow.compute as pc

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.errors import InputError
from rat_ray.export import write_fit
from rat_ray.keys import key_of
from rat_ray.model import Columns, DiagnosticsSettings, EngineSettings, Labels, Prior, merge, read_labels
from rat_ray.model.posterior import quantity_columns
from rat_ray.model.priors import judge_draws
from rat_ray.model.workers import FitSettings, PatternsWorker, PosteriorWorker, SummaryWorker
from rat_ray.output import OutFolder
from rat_ray.settings import build, check_given
from rat_ray.stage import Runs, Stage, import_rows
from rat_ray.store import Store, Table, encode_part

if TYPE_CHECKING:
    from rat_ray.commands import Context

FITS_HERE = 8  # up to this many fits take less time in this process than Ray takes to start
SUMMARIES_HERE = 100
ROWS_HERE = 5_000_000  # counting fewer rows takes less time here than on Ray


class Fitted(NamedTuple):
    """The committed tables of one fit."""

    patterns: Table
    posterior: Table
    summary: Table


class FitJob(Protocol):
    """The settings that every fit needs, whichever command asks."""

    @property
    def prior(self) -> Prior: ...
    @property
    def engine(self) -> EngineSettings: ...
    @property
    def diagnostics(self) -> DiagnosticsSettings: ...
    @property
    def seed(self) -> int: ...


@dataclass(frozen=True)
class FitJobSettings:
    """Everything behind `conf/fit.yaml`."""

    data: str
    out: str
    prior: Prior
    engine: EngineSettings
    diagnostics: DiagnosticsSettings
    cluster: ClusterSettings
    seed: int = 1
    by: list[str] = field(default_factory=list)
    t_zero: str = "refuse"
    columns: Columns = Columns()

    def validate(self) -> None:
        check_given(data=self.data, out=self.out)
        if self.t_zero not in ("refuse", "wrong"):
            raise InputError(f"t_zero={self.t_zero}: must be refuse or wrong")


def fit_tables(
    runs: Runs,
    annotations: Mapping[str, Table],
    judges: Mapping[str, list[str]],
    job: FitJob,
    resources: Resources,
    count_here: bool,
    fit_here: bool,
) -> dict[str, Fitted]:
    """Fit every annotations table (by configuration name). One fit's key depends on its own rows and settings only."""
    names = list(annotations)
    settings = {
        name: FitSettings(
            judges=tuple(judges[name]),
            prior=job.prior,
            engine=job.engine,
            diagnostics=job.diagnostics,
            seed=job.seed,
            config=name,
        )
        for name in names
    }
    counting = [_count_stage(settings[name], annotations[name]) for name in names]
    counted = dict(zip(names, runs.run(counting, "count", count_here), strict=True))
    sampling = [_sample_stage(settings[name], counted[name], resources) for name in names]
    sampled = dict(zip(names, runs.run(sampling, "fit", fit_here), strict=True))
    summing = [_summary_stage(settings[name], counted[name], sampled[name], resources) for name in names]
    summed = dict(zip(names, runs.run(summing, "summarise", len(names) <= SUMMARIES_HERE), strict=True))
    return {name: Fitted(counted[name], sampled[name], summed[name]) for name in names}


def _count_stage(settings: FitSettings, annotations: Table) -> Stage:
    return Stage(
        table="patterns",
        label=f"count {settings.config}",
        settings=settings.patterns,
        worker=PatternsWorker,
        over={"annotations": annotations},
        schema=tables.patterns_schema(list(settings.judges)),
        rows="counts",
        resources=Resources(range_rows=1_000_000),
    )


def _sample_stage(settings: FitSettings, patterns: Table, resources: Resources) -> Stage:
    return Stage(
        table="posterior",
        label=f"fit {settings.config}",
        settings=settings.posterior,
        worker=PosteriorWorker,
        over={"patterns": patterns},
        schema=tables.posterior_schema(_quantities(patterns)),
        rows="whole",
        expected_rows=settings.engine.chains * settings.engine.samples,
        resources=resources,
    )


def _summary_stage(settings: FitSettings, patterns: Table, posterior: Table, resources: Resources) -> Stage:
    return Stage(
        table="summary",
        label=f"summarise {settings.config}",
        settings=settings.summary,
        worker=SummaryWorker,
        over={"posterior": posterior},
        inputs={"patterns": patterns},
        schema=tables.SUMMARY,
        rows="whole",
        expected_rows=len(_quantities(patterns)),
        resources=resources,
    )


def _quantities(patterns: Table) -> list[str]:
    return list(quantity_columns(merge([patterns.read()])))


SETTINGS = FitJobSettings


def run(context: Context) -> str:
    """`rat-ray fit`: check the labels, fit each configuration, write `out`."""
    job = build(FitJobSettings, context.config)
    labels = read_labels(job.data, job.columns, list(job.by), job.t_zero)
    out = OutFolder(context.folder(job.out), _own_settings(job, labels), kind="fit", in_sweep=context.multirun)
    out.check()
    if labels.judges:
        judge_draws(job.prior)  # refuses a prior under which no judge is better than chance
    configs = pc.unique(labels.table.column("config")).to_pylist()
    out.claim()
    store = Store(out.path / ".store")
    store.prepare()
    with Cluster(job.cluster) as cluster:
        runs = Runs(store, cluster, seed=job.seed)
        imported = {config: _import(store, labels, config) for config in configs}
        fitted = fit_tables(
            runs,
            imported,
            dict.fromkeys(configs, labels.judges),
            job,
            Resources(),
            count_here=labels.table.num_rows <= ROWS_HERE,
            fit_here=len(configs) <= FITS_HERE,
        )
    write_fit(out, fitted, labels, runs, job.prior)
    return str(out.path)


def _own_settings(job: FitJobSettings, labels: Labels) -> dict[str, Any]:
    return {
        "data": job.data,
        "labels": encode_part(labels.table, {})[1],
        "prior": key_of(job.prior),
        "engine": key_of(job.engine),
        "diagnostics": key_of(job.diagnostics),
        "seed": job.seed,
        "by": job.by,
        "t_zero": job.t_zero,
        "columns": key_of(job.columns),
    }


def _import(store: Store, labels: Labels, config: str) -> Table:
    rows = labels.table.filter(pc.equal(labels.table.column("config"), config))
    return import_rows(store, "labels", config, rows)
