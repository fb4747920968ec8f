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
from rat_ray.model import Columns, DiagnosticsSettings, EngineSettings, Labels, Policy, Prior, merge, read_labels
from rat_ray.model.coverage import coverage_warnings
from rat_ray.model.engines import check, program_path
from rat_ray.model.patterns import check_columns, check_judges
from rat_ray.model.posterior import column_names
from rat_ray.model.priors import judge_draws
from rat_ray.model.verdicts import PANEL, check_judge_model
from rat_ray.model.workers import ChecksWorker, FitSettings, PatternsWorker, PosteriorWorker, SummaryWorker
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
    checks: Table


class FitJob(Protocol):
    """The settings that every fit needs, whichever command asks."""

    @property
    def prior(self) -> Prior: ...
    @property
    def engine(self) -> EngineSettings: ...
    @property
    def diagnostics(self) -> DiagnosticsSettings: ...
    @property
    def judge_model(self) -> str: ...
    @property
    def share_judges(self) -> bool: ...
    @property
    def policy(self) -> Policy: ...
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
    policy: Policy
    cluster: ClusterSettings
    judges: list[str] | None = None
    judge_model: str = PANEL
    share_judges: bool = False
    seed: int = 1
    by: list[str] = field(default_factory=list)
    t_zero: str = "refuse"
    columns: Columns = Columns()

    def validate(self) -> None:
        check_given(data=self.data, out=self.out)
        check_judge_model(self.judge_model)
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
    together = tuple(names) if job.share_judges and len(names) > 1 else ()
    settings = {
        name: FitSettings(
            judges=tuple(judges[name]),
            prior=job.prior,
            engine=job.engine,
            diagnostics=job.diagnostics,
            judge_model=job.judge_model,
            policy=job.policy,
            seed=job.seed,
            config=name,
            together=together,
        )
        for name in names
    }
    for one in settings.values():
        one.validate()
    _check_shared(job, judges)
    counting = [_count_stage(settings[name], annotations[name]) for name in names]
    counted = dict(zip(names, runs.run(counting, "count", count_here), strict=True))
    sampling = [_sample_stage(settings[name], counted, resources) for name in names]
    sampled = dict(zip(names, runs.run(sampling, "fit", fit_here), strict=True))
    small = len(names) <= SUMMARIES_HERE
    summing = [_summary_stage(settings[name], counted, sampled[name], resources) for name in names]
    summed = dict(zip(names, runs.run(summing, "summarise", small), strict=True))
    checking = [_checks_stage(settings[name], counted[name], sampled[name], resources) for name in names]
    checked = dict(zip(names, runs.run(checking, "check", small), strict=True))
    return {name: Fitted(counted[name], sampled[name], summed[name], checked[name]) for name in names}


def check_engine(engine: EngineSettings) -> None:
    """Raise InputError before any work where the engine cannot run here."""
    check(engine, program_path())


def _check_shared(job: FitJob, judges: Mapping[str, list[str]]) -> None:
    """Raise InputError where judges cannot be shared."""
    if not job.share_judges:
        return
    sets = {tuple(names) for names in judges.values()}
    if len(sets) > 1 or not any(sets):
        listed = "; ".join(f"{name}: {', '.join(mine) or 'none'}" for name, mine in judges.items())
        raise InputError(f"share_judges=true needs the same judges in every configuration; found {listed}")


def _count_stage(settings: FitSettings, annotations: Table) -> Stage:
    return Stage(
        table="patterns",
        version=2,
        label=f"count {settings.config}",
        settings=settings.patterns,
        worker=PatternsWorker,
        over={"annotations": annotations},
        schema=tables.patterns_schema(list(settings.judges)),
        rows="counts",
        resources=Resources(range_rows=1_000_000),
    )


def _sample_stage(settings: FitSettings, counted: Mapping[str, Table], resources: Resources) -> Stage:
    patterns = counted[settings.config]
    quantities, replicated = _names(settings, patterns)
    return Stage(
        table="posterior",
        version=2,
        label=f"fit {settings.config}",
        settings=settings.posterior,
        worker=PosteriorWorker,
        over={"patterns": patterns},
        inputs=_others(settings, counted),
        schema=tables.posterior_schema([*quantities, *replicated]),
        rows="whole",
        expected_rows=settings.engine.chains * settings.engine.samples,
        resources=resources,
    )


def _summary_stage(
    settings: FitSettings, counted: Mapping[str, Table], posterior: Table, resources: Resources
) -> Stage:
    patterns = counted[settings.config]
    return Stage(
        table="summary",
        version=2,
        label=f"summarise {settings.config}",
        settings=settings.summary,
        worker=SummaryWorker,
        over={"posterior": posterior},
        inputs={"patterns": patterns, **_others(settings, counted)},
        schema=tables.SUMMARY,
        rows="whole",
        expected_rows=len(_names(settings, patterns)[0]),
        resources=resources,
    )


def _checks_stage(settings: FitSettings, patterns: Table, posterior: Table, resources: Resources) -> Stage:
    return Stage(
        table="checks",
        label=f"check {settings.config}",
        settings=settings.checks,
        worker=ChecksWorker,
        over={"posterior": posterior},
        inputs={"patterns": patterns},
        schema=tables.CHECKS,
        rows="whole",
        resources=resources,
    )


def _others(settings: FitSettings, counted: Mapping[str, Table]) -> dict[str, Table]:
    """The count tables of the configurations that share judges with this one."""
    return {name: counted[name] for name in settings.together if name != settings.config}


def _names(settings: FitSettings, patterns: Table) -> tuple[list[str], list[str]]:
    """The quantities of the fit, and the columns of its replicated counts."""
    return column_names(merge([patterns.read()]), settings.options)


SETTINGS = FitJobSettings


def run(context: Context) -> str:
    """`rat-ray fit`: check the labels, fit each configuration, write `out`."""
    job = build(FitJobSettings, context.config)
    labels = read_labels(job.data, job.columns, list(job.by), job.t_zero)
    out = OutFolder(context.folder(job.out), _own_settings(job, labels), kind="fit", in_sweep=context.multirun)
    out.check()
    judges = _judges(job, labels)
    if judges and job.judge_model != PANEL:
        judge_draws(job.prior)  # refuses a prior under which no judge is better than chance
    check_judge_model(job.judge_model, judges)
    check_engine(job.engine)
    _check_rows(labels)
    configs = labels.by_config()
    out.claim()
    store = Store(out.path / ".store")
    store.prepare()
    with Cluster(job.cluster) as cluster:
        runs = Runs(store, cluster, seed=job.seed)
        imported = {config: import_rows(store, "labels", config, rows) for config, rows in configs.items()}
        fitted = fit_tables(
            runs,
            imported,
            dict.fromkeys(configs, judges),
            job,
            Resources(),
            count_here=labels.table.num_rows <= ROWS_HERE,
            fit_here=len(configs) <= FITS_HERE,
        )
    write_fit(out, fitted, labels, runs, job, _warnings(labels, judges))
    return str(out.path)


def _judges(job: FitJobSettings, labels: Labels) -> list[str]:
    """The judges to use: all, or those that `judges=` names. Raises InputError for one that is not in the file."""
    if job.judges is None:
        return labels.judges
    check_judges(job.judges)
    check_columns(labels.table.select(labels.judges), job.judges)
    return list(job.judges)


def _check_rows(labels: Labels) -> None:
    """Raise InputError for a configuration without a row that informs its fit."""
    names, rows = labels.table.schema.names, labels.table
    if "use" in names:
        rows = rows.filter(pc.equal(pc.fill_null(rows.column("use"), "fit"), "fit"))
    if "error" in names:
        rows = rows.filter(pc.is_null(rows.column("error")))
    left = set(pc.unique(rows.column("config")).to_pylist())
    for config in pc.unique(labels.table.column("config")).to_pylist():
        if config not in left:
            raise InputError(
                f"config {config!r}: there are no items to fit: all its rows failed or are calibration rows "
                "(see the columns error and use)"
            )


def _warnings(labels: Labels, judges: list[str]) -> list[str]:
    """Where labels were chosen by something that is not in the fit, per configuration."""
    said = []
    for config, rows in labels.by_config().items():
        where = "" if config == "all" else f"{config}: "
        said += [where + warning for warning in coverage_warnings(rows, judges)]
    return said


def _own_settings(job: FitJobSettings, labels: Labels) -> dict[str, Any]:
    return {
        "data": job.data,
        "labels": encode_part(labels.table, {})[1],
        "prior": key_of(job.prior),
        "engine": key_of(job.engine),
        "diagnostics": key_of(job.diagnostics),
        "judges": job.judges,
        "judge_model": job.judge_model,
        "share_judges": job.share_judges,
        "policy": key_of(job.policy),
        "seed": job.seed,
        "by": job.by,
        "t_zero": job.t_zero,
        "columns": key_of(job.columns),
    }
