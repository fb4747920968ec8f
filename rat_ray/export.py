"""What people get: the files of an `out` folder, written from committed tables, and the report made of them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rat_ray.errors import InputError
from rat_ray.keys import key_of
from rat_ray.model import identify, merge
from rat_ray.model.design import Options
from rat_ray.model.identify import identify_together
from rat_ray.model.notes import notes_on, warnings_of
from rat_ray.model.priors import Prior, parameter_draws
from rat_ray.model.states import PARAMETERS, derive
from rat_ray.model.workers import RETRIED
from rat_ray.output import OutFolder, read_run
from rat_ray.progress import console
from rat_ray.report import ReportInput, render
from rat_ray.report.table import print_table, result_table
from rat_ray.settings import build
from rat_ray.stage import Runs, StageRecord
from rat_ray.store import Table
from rat_ray.versions import versions

if TYPE_CHECKING:
    from rat_ray.fitting import FitJob, FitJobSettings, Fitted
    from rat_ray.model import Labels
    from rat_ray.pipeline import Pipeline

PRIOR_DRAWS = 4000  # of P(G=1), for the curve beside the posterior's
LOUD_SHARE = 0.01  # of rows that failed: above it, the note becomes a warning


def export(pipeline: Pipeline, records: Sequence[StageRecord]) -> None:
    """Write everything of an evaluation to its `out` folder, print the table and the path."""
    out, results = pipeline.out, pipeline.results
    for name, table in results.annotations.items():
        write_partition(out, "annotations", name, table)
    write_fits(out, results.fitted)
    if results.allocation is not None:
        out.write_table("allocation.parquet", results.allocation.read())
    notes = [*_source_notes(pipeline), *results.notes, *_failure_notes(results.annotations)]
    notes += fit_notes(results.fitted, pipeline.job)
    facts = {
        "notes": notes,
        "prior": key_of(pipeline.job.prior),
        "judge_model": pipeline.job.judge_model,
        "policy": key_of(pipeline.job.policy),
        "trusted": pipeline.job.labels.trusted,
        "budget": pipeline.job.labels.budget,
        "budget_seed": pipeline.job.labels.seed,
        "verdicts": _verdict_counts(results.verdicts),
        "seed": pipeline.job.seed,
        "store": pipeline.store.root,
        "tables": {record.label: record.key for record in records},
        "stages": [dataclasses.asdict(record) for record in records],
        "versions": versions(),
    }
    _finish(out, facts)


def write_fit(
    out: OutFolder, fitted: Mapping[str, Fitted], labels: Labels, runs: Runs, job: FitJobSettings, warnings: list[str]
) -> None:
    """Write the results of `rat-ray fit`, print the table and the path. warnings: of what was labelled."""
    write_fits(out, fitted)
    notes = [*labels.notes.lines(), *warnings, *fit_notes(fitted, job)]
    if labels.ignored:
        notes.append(f"columns ignored: {', '.join(labels.ignored)}")
    facts = {
        "notes": notes,
        "prior": key_of(job.prior),
        "judge_model": job.judge_model,
        "policy": key_of(job.policy),
        "seed": runs.seed,
        "tables": {record.label: record.key for record in runs.records},
        "stages": [dataclasses.asdict(record) for record in runs.records],
        "versions": versions(),
    }
    _finish(out, facts)


def _finish(out: OutFolder, facts: Mapping[str, Any]) -> None:
    write_report(out, facts)
    out.finish(facts)
    screen = console()
    summary = pq.read_table(out.path / "summary.parquet")
    print_table(result_table(summary), screen)
    for note in facts["notes"]:
        screen.print(note, highlight=False, markup=False, soft_wrap=True)
    screen.print(f"out: {out.path}", highlight=False, markup=False, soft_wrap=True)


def write_fits(out: OutFolder, fitted: Mapping[str, Fitted]) -> None:
    """summary.parquet and checks.parquet over all configurations; posterior/ and patterns/ by configuration."""
    out.write_table("summary.parquet", pa.concat_tables([one.summary.read() for one in fitted.values()]))
    out.write_table("checks.parquet", pa.concat_tables([one.checks.read() for one in fitted.values()]))
    for name, one in fitted.items():
        write_partition(out, "posterior", name, one.posterior)
        write_partition(out, "patterns", name, one.patterns)


def fit_notes(fitted: Mapping[str, Fitted], job: FitJob) -> list[str]:
    """What a reader of the fits must know, in words, each with its configuration where there are several."""
    notes = []
    options = Options(judge_model=job.judge_model, policy=job.policy)
    counts = {name: merge([one.patterns.read()]) for name, one in fitted.items()}
    if job.share_judges:
        known = identify_together(counts, options)
    else:
        known = {name: identify(one, options) for name, one in counts.items()}
    for name, one in fitted.items():
        where = f"{name}: " if len(fitted) > 1 else ""
        retried = RETRIED in (one.posterior.read(["chain"]).schema.metadata or {})
        found = [*notes_on(known[name], counts[name], retried), *warnings_of(one.summary.read(), one.checks.read())]
        notes += [where + text for text in found]
    return notes


def write_partition(out: OutFolder, folder: str, config: str, table: Table) -> None:
    """One Hive partition `folder/config=NAME/`, a file per part; the name stands in the path only."""
    names = []
    for index, batch in enumerate(table.batches()):
        rows = batch.drop_columns(["config"]) if "config" in batch.schema.names else batch
        names.append(f"part-{index:05d}.parquet")
        out.write_table(f"{folder}/config={config}/{names[-1]}", rows)
    # An earlier run into this folder may have had more parts: their rows would be read twice.
    for path in (out.path / folder / f"config={config}").glob("part-*.parquet"):
        if path.name not in names:
            path.unlink()


def read_partitions(folder: Path) -> dict[str, pa.Table]:
    """The partitions that `write_partition` wrote, by configuration; empty where there are none."""
    found: dict[str, pa.Table] = {}
    for path in sorted(folder.glob("config=*")):
        parts = [read_file(file) for file in sorted(path.glob("*.parquet"))]
        if parts:
            found[path.name.removeprefix("config=")] = pa.concat_tables(parts)
    return found


def read_file(path: Path) -> pa.Table:
    """A Parquet file of an `out` folder. Raises InputError for one that is damaged."""
    try:
        with pq.ParquetFile(path) as file:
            return file.read()
    except (pa.ArrowInvalid, OSError) as error:
        why = str(error).splitlines()[0]
        raise InputError(f"{path}: cannot be read ({why}); run the command that wrote it again") from error


def write_report(out: OutFolder, facts: Mapping[str, Any]) -> None:
    """Build report.html from the files of the folder and the facts of its run."""
    out.write_text("report.html", render(report_input(out.path, facts)))


def report_input(folder: Path, facts: Mapping[str, Any]) -> ReportInput:
    """What the report shows of an `out` folder. Raises InputError when it has no summary."""
    if not (folder / "summary.parquet").exists():
        raise InputError(f"{folder}: no summary.parquet; is it the out folder of a finished run?")
    states, full_values = _full_tables(folder, facts.get("trusted"))
    allocation = folder / "allocation.parquet"
    return ReportInput(
        title=f"RAT report: {folder.resolve().name}",
        summary=read_file(folder / "summary.parquet"),
        draws=read_partitions(folder / "posterior"),
        states=states,
        full_values=full_values if facts.get("budget", -1) > 0 else {},  # else nothing was hidden
        allocation=read_file(allocation) if allocation.exists() else None,
        verdict_counts=[(one["config"], one["judge"], one["counts"]) for one in facts.get("verdicts", [])],
        notes=list(facts.get("notes", [])),
        provenance=_provenance(facts),
        patterns=read_partitions(folder / "patterns"),
        prior_p_g=_prior_p_g(facts.get("prior")),
        predictive=read_file(folder / "checks.parquet") if (folder / "checks.parquet").exists() else None,
    )


def _full_tables(
    folder: Path, trusted: Mapping[str, list[str]] | None
) -> tuple[dict[str, list[int]], dict[str, dict[str, float | None]]]:
    """Per configuration the six state counts and the quantities' values with no label hidden, where that is known."""
    if not trusted:
        return {}, {}
    from rat_ray.annotate.full import full_table_values, state_counts

    annotations = read_partitions(folder / "annotations")
    states = {name: list(state_counts(table, trusted).values()) for name, table in annotations.items()}
    return states, {name: full_table_values(table, trusted) for name, table in annotations.items()}


def _prior_p_g(prior: Mapping[str, Any] | None) -> tuple[float, ...]:
    """Draws of P(G=1) from the prior, to show beside the posterior."""
    if prior is None:
        return ()
    drawn = parameter_draws(build(Prior, prior, "prior"), PRIOR_DRAWS)
    return tuple(float(draw) for draw in derive(dict(zip(PARAMETERS, drawn, strict=True)))["p_g"])


def _provenance(facts: Mapping[str, Any]) -> dict[str, str]:
    found = {"seed": str(facts.get("seed", ""))}
    if facts.get("budget", -1) > 0:
        drawn = f"drawn with seed {facts.get('budget_seed', 'unknown')}"
        found["labels kept for the fit"] = f"of {facts['budget']} items per configuration, {drawn}"
    found.update({f"version of {name}": str(value) for name, value in facts.get("versions", {}).items()})
    found.update({f"table {label}": str(key) for label, key in facts.get("tables", {}).items()})
    return found


def _source_notes(pipeline: Pipeline) -> list[str]:
    notes = []
    for dataset in pipeline.results.datasets.values():
        name = dataset.source.name
        for reason, count in dataset.source.left_out.items():
            notes.append(f"{name}: {count} questions left out: {reason}")
        for what, count in dataset.source.notes.items():
            notes.append(f"{name}: {what}: {count}")
    return notes


def _failure_notes(annotations: Mapping[str, Table]) -> list[str]:
    notes = []
    for name, table in annotations.items():
        errors: Iterable[str] = pc.drop_null(table.read(["error"]).column("error")).to_pylist()
        counted = Counter(errors)
        failed = sum(counted.values())
        if failed:
            loud = "WARNING: " if failed > LOUD_SHARE * table.num_rows else ""
            commonest = counted.most_common(1)[0][0]
            notes.append(
                f"{loud}{name}: {failed} of {table.num_rows} rows failed and are not in the fit "
                f"(most often: {commonest})"
            )
    return notes


def _verdict_counts(verdicts: Mapping[str, Mapping[str, Table]]) -> list[dict[str, Any]]:
    return [
        {"config": config, "judge": judge, "counts": dict(Counter(table.read(["status"])["status"].to_pylist()))}
        for config, judges in verdicts.items()
        for judge, table in judges.items()
    ]


def read_finished(folder: str, what: str) -> tuple[Path, dict[str, Any]]:
    """An `out` folder of a finished run and its run.json. Raises InputError when it is not one."""
    path = Path(folder).expanduser()
    run = read_run(path)
    if run is None:
        raise InputError(f"run={folder}: no run.json there; give the out folder of a finished `rat-ray {what}`")
    if run.get("status") != "complete":
        raise InputError(f"run={folder}: that run is not finished; run it again to complete it")
    return path, run
