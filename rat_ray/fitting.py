"""`rat-ray fit`: label files in; each configuration fitted, all jobs of a sweep as one graph; each `out` written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray.cluster import ClusterSettings
from rat_ray.errors import InputError, masked
from rat_ray.export import run_facts, write_fit
from rat_ray.fetching import local_copy
from rat_ray.fit_stages import FitResources, add_fits, check_engine, small_fits
from rat_ray.graph import Graph, Import, Walk
from rat_ray.keys import digest_of, key_of
from rat_ray.model import Columns, DiagnosticsSettings, EngineSettings, Labels, Policy, Prior, read_labels
from rat_ray.model.coverage import coverage_warnings
from rat_ray.model.patterns import check_columns, check_judges
from rat_ray.model.priors import judge_draws
from rat_ray.model.verdicts import PANEL, check_judge_model
from rat_ray.naming import safe_name
from rat_ray.outcome import Failed, Outcome, check_folders, grouped, print_refused
from rat_ray.output import OutFolder, below, parent_of
from rat_ray.settings import build, check_given
from rat_ray.stage import StageRecord
from rat_ray.store import StorageSettings, Store, encode_part
from rat_ray.together import run_together

if TYPE_CHECKING:
    from rat_ray.commands import Context


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
    storage: StorageSettings
    resources: FitResources = FitResources()
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


SETTINGS = FitJobSettings


class Fitting:
    """One job: its labels, its graph, and its results once the graph was run."""

    def __init__(self, context: Context, read: _ReadLabels) -> None:
        """Reads and checks the labels. Raises InputError for whatever is wrong; writes nothing."""
        self.job = build(FitJobSettings, context.config)
        self.name = safe_name(f"run{context.suffix}") if context.multirun else "fit"
        job = self.job
        self.labels = read(job)
        self.out = OutFolder(
            context.folder(job.out),
            _own_settings(job, self.labels),
            "fit",
            in_sweep=context.multirun,
            storage=job.storage,
        )
        self.out.check()
        self.judges = _judges(job, self.labels)
        if self.judges and job.judge_model != PANEL:
            judge_draws(job.prior)  # refuses a prior under which no judge is better than chance
        check_judge_model(job.judge_model, self.judges)
        check_engine(job.engine)
        _check_rows(self.labels)
        # The jobs of a sweep keep their tables together, so that what they share is made once.
        root = below(parent_of(self.out.url), ".store") if context.multirun else self.out.store_root
        self.store = Store(root, job.storage)
        self.graph = Graph()
        imported = {config: self._import(config, rows) for config, rows in self.labels.by_config().items()}
        self.nodes = add_fits(self.graph, imported, dict.fromkeys(imported, self.judges), job, job.resources)

    @property
    def place(self) -> tuple[Any, ...]:
        """Jobs of one place run together."""
        return self.store, self.job.storage, self.job.cluster

    @property
    def size(self) -> int:
        """How many configurations it has."""
        return len(self.nodes)

    def _import(self, config: str, rows: pa.Table) -> str:
        key = digest_of({"labels": encode_part(rows, {})[1]})
        origin = {"data": self.job.data}
        table = Import("labels", key, config, rows.schema, lambda: iter([rows]), origin=origin)
        return self.graph.add("import", "labels", f"labels {config}", key, lambda _: table)

    def finish(self, walk: Walk, records: Sequence[StageRecord]) -> Outcome:
        """Write every configuration that is whole to `out`; the others are named with their reasons."""
        found = {name: walk.why(*nodes) for name, nodes in self.nodes.items()}
        failed = [
            Failed(self.name if name == "all" else f"{self.name} {name}", masked(failure.message), failure.bad_input)
            for name, failure in found.items()
            if failure is not None
        ]
        fitted = {name: nodes.tables(walk) for name, nodes in self.nodes.items() if found[name] is None}
        why = {name: masked(failure.message) for name, failure in found.items() if failure is not None}
        if not fitted:
            self.out.finish({"status": "failed", "failed": why})
            return Outcome("", tuple(failed), self.size)
        warnings = [f"WARNING: {one.name} is not in the results: {one.message.splitlines()[0]}" for one in failed]
        warnings += _warnings(self.labels, self.judges)
        about = run_facts(self.store, records, self.job.seed)
        write_fit(self.out, fitted, self.labels, about, self.job, warnings, why)
        return Outcome(self.out.url, tuple(failed), self.size)


def run_all(contexts: Sequence[Context]) -> list[Outcome]:
    """`rat-ray fit`: check the labels of all jobs, fit all their configurations together, write each `out`.

    Raises: InputError where two jobs would write to one folder. StageError where the cluster or the store is lost.
    """
    if len(contexts) > 1:
        check_folders([context.folder(str(context.config.get("out"))) for context in contexts])
    outcomes: list[Outcome] = [Outcome("")] * len(contexts)
    jobs: dict[int, Fitting] = {}
    read = _ReadLabels()
    for index, context in enumerate(contexts):
        try:
            jobs[index] = Fitting(context, read)
        except InputError as error:
            outcomes[index] = Outcome("", (Failed.by(context.label, error, early=True),))
    print_refused(outcomes, len(jobs))
    for indices in grouped({index: job.place for index, job in jobs.items()}):
        for index, outcome in _run({index: jobs[index] for index in indices}).items():
            outcomes[index] = outcome
    return outcomes


class _ReadLabels:
    """Reads label files, each once, however many jobs of a sweep fit it."""

    def __init__(self) -> None:
        self._read: dict[str, Labels] = {}

    def __call__(self, job: FitJobSettings) -> Labels:
        what = digest_of([job.data, key_of(job.columns), job.by, job.t_zero])
        if what not in self._read:
            with local_copy(job.data, job.storage) as path:
                self._read[what] = read_labels(path, job.columns, list(job.by), job.t_zero)
        return self._read[what]


def _run(jobs: dict[int, Fitting]) -> dict[int, Outcome]:
    """Fit jobs that share a store and a cluster as one graph."""
    outcomes: dict[int, Outcome] = {}
    first = next(iter(jobs.values()))
    for index, job in list(jobs.items()):
        try:
            job.out.claim()
            job.store.prepare()
        except InputError as error:
            outcomes[index] = Outcome("", (Failed.by(job.name, error, early=True),), job.size)
            del jobs[index]
    finished, _ = run_together(jobs, first.job.cluster, first.store, first.job.seed, small_fits)
    return outcomes | finished


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
