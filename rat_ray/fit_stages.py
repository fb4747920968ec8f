"""Fits as nodes of a graph: annotations -> patterns -> posterior -> summary and checks, of any number of jobs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

from rat_ray import tables
from rat_ray.cluster import Resources
from rat_ray.errors import InputError, StageError
from rat_ray.graph import Graph, Tables, Walk
from rat_ray.model import DiagnosticsSettings, EngineSettings, Policy, Prior, merge
from rat_ray.model.engines import IMPORTANCE, check, program_path
from rat_ray.model.posterior import column_names
from rat_ray.model.workers import ChecksWorker, FitSettings, PatternsWorker, PosteriorWorker, SummaryWorker
from rat_ray.stage import Runs, Stage
from rat_ray.store import Table

# Up to this many fits take less time in this process than Ray takes to start.
FITS_HERE = 8
QUICK_FITS_HERE = 100  # by the engine `importance`, of which NUTS may take over some
SUMMARIES_HERE = 100
ROWS_HERE = 5_000_000  # counting fewer rows takes less time here than on Ray


class Fitted(NamedTuple):
    """The committed tables of one fit."""

    patterns: Table
    posterior: Table
    summary: Table
    checks: Table


class FitNodes(NamedTuple):
    """The nodes of one fit."""

    patterns: str
    posterior: str
    summary: str
    checks: str

    def tables(self, walk: Walk) -> Fitted:
        """Their tables, once all of them are there."""
        return Fitted(*(walk.tables[node] for node in self))


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


COUNTING = Resources(range_rows=1_000_000)


@dataclass(frozen=True)
class FitResources:
    """What one worker that counts patterns, and one that fits, takes; see `conf/resources/fits.yaml`."""

    count: Resources = COUNTING
    fit: Resources = Resources()


def fit_tables(
    runs: Runs,
    annotations: Mapping[str, Table],
    judges: Mapping[str, list[str]],
    job: FitJob,
    resources: FitResources,
    count_here: bool,
    fit_here: bool,
) -> dict[str, Fitted]:
    """Fit every annotations table (by configuration name). One fit's key depends on its own rows and settings only.

    Raises: InputError or StageError of the first that failed, when the others are done.
    """
    graph = Graph()
    given = {name: graph.give(table) for name, table in annotations.items()}
    nodes = add_fits(graph, given, judges, job, resources)
    walk = Walk(graph)
    here = {"count": count_here, "fit": fit_here, "summarise": len(nodes) <= SUMMARIES_HERE}
    walk.run(runs, lambda level, stages: here[level])
    for one in nodes.values():
        failure = walk.why(*one)
        if failure is not None:
            raise (InputError if failure.bad_input else StageError)(failure.message)
    return {name: one.tables(walk) for name, one in nodes.items()}


def add_fits(
    graph: Graph,
    annotations: Mapping[str, str],
    judges: Mapping[str, list[str]],
    job: FitJob,
    resources: FitResources,
) -> dict[str, FitNodes]:
    """Declare the fits of one job, by configuration name. annotations: nodes.

    Raises: InputError for settings that cannot be fitted.
    """
    names = list(annotations)
    together = tuple(names) if job.share_judges and len(names) > 1 else ()
    settings = {name: fit_settings(name, judges[name], job, together) for name in names}
    check_shared(job, judges)
    counted = {name: _add_count(graph, settings[name], annotations[name], resources.count) for name in names}
    return {name: _add_fit(graph, settings[name], counted, resources.fit) for name in names}


def fit_settings(name: str, judges: Sequence[str], job: FitJob, together: tuple[str, ...] = ()) -> FitSettings:
    """The settings of one fit, checked."""
    settings = FitSettings(
        judges=tuple(judges),
        prior=job.prior,
        engine=job.engine,
        diagnostics=job.diagnostics,
        judge_model=job.judge_model,
        policy=job.policy,
        seed=job.seed,
        config=name,
        together=together,
    )
    settings.validate()
    return settings


def check_engine(engine: EngineSettings) -> None:
    """Raise InputError before any work where the engine cannot run here."""
    check(engine, program_path())


def check_shared(job: FitJob, judges: Mapping[str, list[str]]) -> None:
    """Raise InputError where judges cannot be shared."""
    if not job.share_judges:
        return
    sets = {tuple(names) for names in judges.values()}
    if len(sets) > 1 or not any(sets):
        listed = "; ".join(f"{name}: {', '.join(mine) or 'none'}" for name, mine in judges.items())
        raise InputError(f"share_judges=true needs the same judges in every configuration; found {listed}")


def small_fits(level: str, stages: Sequence[Stage]) -> bool:
    """Whether stages of `rat-ray fit` are cheap enough for this process."""
    if level == "count":
        return sum(stage.num_rows for stage in stages) <= ROWS_HERE
    if level != "fit":
        return len(stages) <= 2 * SUMMARIES_HERE
    quick = sum(stage.settings.engine.kind == IMPORTANCE for stage in stages)
    return bool(quick / QUICK_FITS_HERE + (len(stages) - quick) / FITS_HERE <= 1)


def _add_count(graph: Graph, settings: FitSettings, annotations: str, counting: Resources) -> str:
    return graph.add(
        "count",
        "patterns",
        f"count {settings.config}",
        settings.patterns,
        partial(_count_stage, settings, counting),
        needs={"annotations": annotations},
    )


def _add_fit(graph: Graph, settings: FitSettings, counted: Mapping[str, str], resources: Resources) -> FitNodes:
    patterns = counted[settings.config]
    others = {name: counted[name] for name in settings.together if name != settings.config}
    # A configuration may be called `patterns`: tables of others have their names behind a prefix.
    wants = {f"of {name}": node for name, node in others.items()}
    posterior = graph.add(
        "fit",
        "posterior",
        f"fit {settings.config}",
        settings.posterior,
        partial(_sample_stage, settings, resources),
        needs={"patterns": patterns},
        wants=wants,
    )
    needs = {"patterns": patterns, "posterior": posterior}
    summary = graph.add(
        "summarise",
        "summary",
        f"summarise {settings.config}",
        settings.summary,
        partial(_summary_stage, settings, resources),
        needs=needs,
        wants=wants,
    )
    checks = graph.add(
        "summarise",
        "checks",
        f"check {settings.config}",
        settings.checks,
        partial(_checks_stage, settings, resources),
        needs=needs,
    )
    return FitNodes(patterns, posterior, summary, checks)


def _count_stage(settings: FitSettings, counting: Resources, found: Tables) -> Stage:
    annotations = found["annotations"]
    _check_some_succeeded(annotations, settings.config)
    return Stage(
        table="patterns",
        version=2,
        label=f"count {settings.config}",
        settings=settings.patterns,
        worker=PatternsWorker,
        over={"annotations": annotations},
        schema=tables.patterns_schema(list(settings.judges)),
        rows="counts",
        resources=counting,
    )


def _check_some_succeeded(annotations: Table, config: str) -> None:
    """Raise StageError where there is nothing to fit."""
    if "error" not in (annotations.manifest["schema"] or {}):
        return
    errors = annotations.read(["error"]).column("error")
    if errors.null_count or not len(errors):
        return
    first = annotations.read(["question_id", "error"]).slice(0, 1).to_pylist()[0]
    raise StageError(f"{config}: every row failed; first: question {first['question_id']}: {first['error']}")


def _sample_stage(settings: FitSettings, resources: Resources, found: Tables) -> Stage:
    settings = _present(settings, found)
    quantities, replicated = _names(settings, found["patterns"])
    return Stage(
        table="posterior",
        version=3,
        label=f"fit {settings.config}",
        settings=settings.posterior,
        worker=PosteriorWorker,
        over={"patterns": found["patterns"]},
        inputs=_others(settings, found),
        schema=tables.posterior_schema([*quantities, *replicated]),
        rows="whole",
        expected_rows=settings.engine.chains * settings.engine.samples,
        resources=resources,
    )


def _summary_stage(settings: FitSettings, resources: Resources, found: Tables) -> Stage:
    settings = _present(settings, found)
    return Stage(
        table="summary",
        version=3,
        label=f"summarise {settings.config}",
        settings=settings.summary,
        worker=SummaryWorker,
        over={"posterior": found["posterior"]},
        inputs={"patterns": found["patterns"], **_others(settings, found)},
        schema=tables.SUMMARY,
        rows="whole",
        expected_rows=len(_names(settings, found["patterns"])[0]),
        resources=resources,
    )


def _checks_stage(settings: FitSettings, resources: Resources, found: Tables) -> Stage:
    return Stage(
        table="checks",
        label=f"check {settings.config}",
        settings=settings.checks,
        worker=ChecksWorker,
        over={"posterior": found["posterior"]},
        inputs={"patterns": found["patterns"]},
        schema=tables.CHECKS,
        rows="whole",
        resources=resources,
    )


def _present(settings: FitSettings, found: Tables) -> FitSettings:
    """The same without the configurations that failed and can share nothing."""
    kept = tuple(name for name in settings.together if name == settings.config or f"of {name}" in found)
    return dataclasses.replace(settings, together=kept if len(kept) > 1 else ())


def _others(settings: FitSettings, found: Tables) -> dict[str, Table]:
    """The count tables of the configurations that share judges with this one."""
    return {name: found[f"of {name}"] for name in settings.together if name != settings.config}


def _names(settings: FitSettings, patterns: Table) -> tuple[list[str], list[str]]:
    """The quantities of the fit, and the columns of its replicated counts."""
    return column_names(merge([patterns.read()]), settings.options)
