"""`rat-ray compare`: configurations on the same questions, every two of them by a joint fit; ranks over all."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rat_ray import tables
from rat_ray.annotate.labels import judge_columns
from rat_ray.cluster import Cluster, ClusterSettings
from rat_ray.comparison_table import print_comparison
from rat_ray.errors import InputError, did_you_mean
from rat_ray.export import read_annotated, run_facts
from rat_ray.fetching import local_copy
from rat_ray.fit_stages import FITS_HERE, ROWS_HERE, FitResources, check_engine, fit_tables
from rat_ray.keys import key_of
from rat_ray.model import Columns, DiagnosticsSettings, EngineSettings, Policy, Prior, read_labels
from rat_ray.model.coverage import coverage_warnings
from rat_ray.model.diagnostics import FAIL
from rat_ray.model.pair_design import PairCounts, pair_counts, pair_table
from rat_ray.model.priors import judge_draws
from rat_ray.model.ranks import ranks
from rat_ray.model.states import BASE_QUANTITIES
from rat_ray.model.verdicts import PANEL, check_judge_model
from rat_ray.model.workers import CompareSettings, CompareWorker
from rat_ray.output import OutFolder
from rat_ray.progress import console
from rat_ray.settings import build, check_given
from rat_ray.stage import Runs, Stage, import_rows
from rat_ray.store import StorageSettings, Store, Table, encode_part

if TYPE_CHECKING:
    from rat_ray.commands import Context


@dataclass(frozen=True)
class CompareJobSettings:
    """Everything behind `conf/compare.yaml`."""

    out: str
    prior: Prior
    engine: EngineSettings
    diagnostics: DiagnosticsSettings
    policy: Policy
    cluster: ClusterSettings
    storage: StorageSettings
    data: str | None = None
    run: str | None = None
    configs: list[str] = field(default_factory=list)
    quantity: str = "p_g"
    judges: list[str] | None = None
    judge_model: str = PANEL
    seed: int = 1
    by: list[str] = field(default_factory=list)
    t_zero: str = "refuse"
    columns: Columns = Columns()
    resources: FitResources = FitResources()

    share_judges: bool = field(default=False, metadata={"user": False})

    def validate(self) -> None:
        check_given(out=self.out)
        check_judge_model(self.judge_model)
        if bool(self.data) == bool(self.run):
            raise InputError("give either data=FILE by=COLUMN, or run=OUT of a finished `rat-ray evaluate`")
        known = [*BASE_QUANTITIES, *([] if self.policy.is_default else ["utility"])]
        if self.quantity not in known:
            raise InputError(f"quantity={self.quantity}: unknown{did_you_mean(self.quantity, known)}")


class Source(NamedTuple):
    """What to compare: label rows and judges by configuration, and notes on how they were read."""

    rows: dict[str, pa.Table]
    judges: dict[str, list[str]]
    notes: list[str]


SETTINGS = CompareJobSettings


def run(context: Context) -> str:
    """Compare every two configurations and rank them all; write `out` and print both tables."""
    job = build(CompareJobSettings, context.config)
    source = _from_run(job) if job.run else _from_data(job)
    if job.judge_model != PANEL and any(source.judges.values()):
        judge_draws(job.prior)  # refuses a prior under which no judge is better than chance
    check_engine(job.engine)
    pairs = _pairs(source)
    settings = _own_settings(job, source)
    out = OutFolder(context.folder(job.out), settings, "compare", in_sweep=context.multirun, storage=job.storage)
    out.check()
    out.claim()
    store = Store(out.store_root, job.storage)
    store.prepare()
    with Cluster(job.cluster) as cluster:
        runs = Runs(store, cluster, seed=job.seed)
        imported = {name: import_rows(store, "labels", name, rows) for name, rows in source.rows.items()}
        fitted = fit_tables(
            runs,
            imported,
            source.judges,
            job,
            job.resources,
            count_here=sum(rows.num_rows for rows in source.rows.values()) <= ROWS_HERE,
            fit_here=len(imported) <= FITS_HERE,
        )
        stages = [_stage(store, job, source, names, counts) for names, counts in pairs.items()]
        compared = runs.run(stages, "compare", len(stages) <= FITS_HERE)
        comparison = pa.concat_tables([table.read() for table in compared])
        ranked = _ranked(comparison, {name: one.posterior for name, one in fitted.items()}, job.quantity)
    out.write_table("summary.parquet", pa.concat_tables([one.summary.read() for one in fitted.values()]))
    out.write_table("comparison.parquet", comparison)
    out.write_table("ranks.parquet", ranked)
    notes = [*source.notes, *_warnings(source), *_failures(comparison)]
    out.finish(
        {
            "notes": notes,
            "quantity": job.quantity,
            "prior": key_of(job.prior),
            **run_facts(store, runs.records, job.seed),
        }
    )
    screen = console()
    print_comparison(comparison, ranked, job.quantity, screen)
    for note in notes:
        screen.print(note, highlight=False, markup=False, soft_wrap=True)
    screen.print(f"out: {out.url}", highlight=False, markup=False, soft_wrap=True)
    return out.url


def _from_data(job: CompareJobSettings) -> Source:
    with local_copy(job.data or "", job.storage) as path:
        labels = read_labels(path, job.columns, list(job.by), job.t_zero)
    rows = labels.by_config()
    source = Source(rows, dict.fromkeys(rows, labels.judges), labels.lines())
    return _chosen(job, source, "by= names the column that tells them apart")


def _from_run(job: CompareJobSettings) -> Source:
    finished, facts, rows = read_annotated(job.run or "", job.storage)
    trusted = facts["trusted"]
    judges = {name: judge_columns(trusted, table.schema.names) for name, table in rows.items()}
    return _chosen(job, Source(rows, judges, []), f"{finished.url} holds the annotations of one")


def _chosen(job: CompareJobSettings, source: Source, why: str) -> Source:
    """The configurations and judges that the settings name; at least two configurations."""
    names = job.configs or list(source.rows)
    for name in names:
        if name not in source.rows:
            raise InputError(f"configs: {name!r} is not there{did_you_mean(name, source.rows)}")
    if len(set(names)) < 2:
        raise InputError(f"two configurations or more are compared, here is {', '.join(set(names))}; {why}")
    judges = {name: source.judges[name] for name in names}
    for judge in job.judges or ():
        every = sorted({known for known_judges in judges.values() for known in known_judges})
        if judge not in every:
            raise InputError(f"judges: {judge!r} is no judge here{did_you_mean(judge, every)}")
    if job.judges is not None:
        judges = {name: [judge for judge in job.judges or () if judge in mine] for name, mine in judges.items()}
    for mine in judges.values():
        check_judge_model(job.judge_model, mine)
    return Source({name: source.rows[name] for name in dict.fromkeys(names)}, judges, source.notes)


def _pairs(source: Source) -> dict[tuple[str, str], PairCounts]:
    """The joint counts of every two configurations that share questions. Raises InputError where none do."""
    found = {}
    for first, second in itertools.combinations(source.rows, 2):
        judges = (source.judges[first], source.judges[second])
        counts = pair_counts((source.rows[first], source.rows[second]), judges, (first, second))
        if counts.items:
            found[(first, second)] = counts
        else:
            source.notes.append(f"{first} and {second} have no question in common: not compared")
    if not found:
        raise InputError(
            "no two configurations have a question in common; pairs are joined by question_id (columns.question_id)"
        )
    return found


def _stage(store: Store, job: CompareJobSettings, source: Source, names: tuple[str, str], counts: PairCounts) -> Stage:
    first, second = names
    judges = (source.judges[first], source.judges[second])
    settings = CompareSettings(
        first=first,
        second=second,
        judges_first=tuple(judges[0]),
        judges_second=tuple(judges[1]),
        prior=job.prior,
        engine=job.engine,
        diagnostics=job.diagnostics,
        judge_model=job.judge_model,
        policy=job.policy,
        seed=job.seed,
    )
    return Stage(
        table="comparison",
        label=f"compare {first} {second}",
        settings=settings,
        worker=CompareWorker,
        over={"pairs": import_rows(store, "pairs", f"{first} {second}", pair_table(counts, judges))},
        schema=tables.COMPARISON,
        rows="whole",
        resources=job.resources.fit,
    )


def _ranked(comparison: pa.Table, posteriors: Mapping[str, Table], quantity: str) -> pa.Table:
    """Ranks within each set of configurations that were compared with one another."""
    rows = comparison.filter(pc.equal(comparison.column("quantity"), quantity)).to_pylist()
    correlations = {(row["first"], row["second"]): row["correlation"] or 0.0 for row in rows}
    draws: dict[str, np.ndarray] = {}
    for name, table in posteriors.items():
        column = table.read([quantity]).column(quantity)
        if not column.null_count:  # a failed fit has no draws, and no rank
            draws[name] = column.to_numpy()
    parts = []
    for group in _groups(list(draws), list(correlations)):
        mine = {pair: value for pair, value in correlations.items() if set(pair) <= set(group)}
        parts.append(ranks({name: draws[name] for name in group}, mine, quantity))
    return pa.concat_tables(parts) if parts else tables.RANKS.empty_table()


def _warnings(source: Source) -> list[str]:
    """Where labels were chosen by something that is not in the fits."""
    return [
        f"{name}: {warning}"
        for name, rows in source.rows.items()
        for warning in coverage_warnings(rows, source.judges[name])
    ]


def _failures(comparison: pa.Table) -> list[str]:
    """The pairs whose joint fit failed, once each."""
    failed = comparison.filter(pc.equal(comparison.column("status"), FAIL)).to_pylist()
    found = {(row["first"], row["second"]): row["reason"] for row in failed}
    return [f"WARNING: {first} - {second}: the fit failed: {why}" for (first, second), why in found.items()]


def _groups(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[list[str]]:
    groups: list[set[str]] = [{name} for name in names]
    for pair in pairs:
        touching = [group for group in groups if group & set(pair)]
        groups = [group for group in groups if group not in touching]
        groups.append(set().union(*touching))
    return [[name for name in names if name in group] for group in groups if len(group) > 1]


def _own_settings(job: CompareJobSettings, source: Source) -> dict[str, Any]:
    return {
        "labels": {name: encode_part(rows, {})[1] for name, rows in source.rows.items()},
        "judges": source.judges,
        "judge_model": job.judge_model,
        "policy": key_of(job.policy),
        "quantity": job.quantity,
        "prior": key_of(job.prior),
        "engine": key_of(job.engine),
        "diagnostics": key_of(job.diagnostics),
        "seed": job.seed,
    }
