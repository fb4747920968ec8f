"""What people get: the files of an `out` folder, written from committed tables, and the report made of them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray import tables
from rat_ray.errors import InputError
from rat_ray.export_answers import people_notes, people_used, usage, usage_notes, write_answers
from rat_ray.hive import read_dataset, write_tables
from rat_ray.keys import digest_of, key_of
from rat_ray.merging import PEOPLE_FILE, PROBLEMS_FILE, RETRIEVAL_FILE
from rat_ray.model import identify, merge
from rat_ray.model.design import Options
from rat_ray.model.engines import IMPORTANCE, NUTS
from rat_ray.model.identify import identify_together
from rat_ray.model.notes import notes_on, warnings_of
from rat_ray.model.priors import Prior, parameter_draws
from rat_ray.model.states import PARAMETERS, derive
from rat_ray.model.workers import PARETO_K, RETRIED, SAMPLER
from rat_ray.output import OutFiles, OutFolder
from rat_ray.progress import console
from rat_ray.report import ReportInput, render
from rat_ray.report.retrieval import print_retrieval
from rat_ray.report.table import print_table, result_table
from rat_ray.retrieve.kinds import reach
from rat_ray.retrieve.measures import RECALL_AT, retrieval_rows, summarise
from rat_ray.settings import build
from rat_ray.stage import StageRecord
from rat_ray.store import StorageSettings, Store, Table
from rat_ray.versions import code_digest, provenance

if TYPE_CHECKING:
    from rat_ray.fit_stages import FitJob, Fitted
    from rat_ray.fitting import FitJobSettings
    from rat_ray.model import Labels
    from rat_ray.pipeline import Pipeline

PRIOR_DRAWS = 4000  # of P(G=1), for the curve beside the posterior's
PASSING = ("stages", "who", "host", "git")  # facts of a run on which its files do not depend
LOUD_SHARE = 0.01  # of rows that failed: above it, the note becomes a warning


def export(pipeline: Pipeline, records: Sequence[StageRecord]) -> None:
    """Write everything of an evaluation to its `out` folder, print the table and the path."""
    results = pipeline.results
    notes = [*_source_notes(pipeline), *results.notes, *_failure_notes(results.annotations)]
    notes += fit_notes(results.fitted, pipeline.job)
    verdicts = _verdict_counts(results.verdicts)
    notes += unread_notes(verdicts)
    people = people_used(pipeline.plan.people, results.annotations)
    notes += people_notes(people)
    used = usage(pipeline)
    notes += usage_notes(used)
    facts = {
        "notes": notes,
        "prior": key_of(pipeline.job.prior),
        "judge_model": pipeline.job.judge_model,
        "policy": key_of(pipeline.job.policy),
        "trusted": pipeline.job.labels.trusted,
        "budget": pipeline.job.labels.budget,
        "budget_seed": pipeline.job.labels.seed,
        "verdicts": verdicts,
        "usage": used,
        "failed": results.failed,
        **run_facts(pipeline.store, records, pipeline.job.seed),
    }
    _finish(pipeline.out, facts, lambda: _write_evaluation(pipeline, people))


def _write_evaluation(pipeline: Pipeline, people: pa.Table | None) -> None:
    out, results = pipeline.out, pipeline.results
    write_tables(out, "annotations", results.annotations)
    write_answers(out, pipeline)
    if people is not None:
        out.write_table(PEOPLE_FILE, people)
    write_fits(out, results.fitted)
    if results.relevance:
        write_tables(out, "relevance", results.relevance)
        out.write_table(RETRIEVAL_FILE, _retrieval(pipeline))
    if results.allocation:
        studied = [table.read() for table in results.allocation.values()]
        out.write_table("allocation.parquet", pa.concat_tables(studied))
    problems = [dataset.source.problems() for dataset in results.datasets.values()]
    out.write_table(PROBLEMS_FILE, pa.concat_tables([tables.PROBLEMS.empty_table(), *problems]))


def _retrieval(pipeline: Pipeline) -> pa.Table:
    """How well each configuration's retriever found the evidence; once for those with one dataset and retriever."""
    found: dict[tuple[str, str], pa.Table] = {}
    ks = sorted({*RECALL_AT, *(one.passages for one in pipeline.plan.generators.values() if one.passages)})
    rows = [tables.RETRIEVAL.empty_table()]
    for one in pipeline.plan.configurations:
        relevance = pipeline.results.relevance.get(one.name)
        if relevance is None:
            continue
        pair = one.dataset, one.retriever
        if pair not in found:
            whole = reach(pipeline.plan.retrievers, one.retriever)
            found[pair] = summarise(relevance.read(), whole, ks, pipeline.job.seed)
        dataset = pipeline.plan.datasets[one.dataset].name
        used = pipeline.plan.generators[one.generator].passages
        rows.append(retrieval_rows(one.name, dataset, one.retriever, used, found[pair]))
    return pa.concat_tables(rows)


def write_fit(
    out: OutFolder,
    fitted: Mapping[str, Fitted],
    labels: Labels,
    about: Mapping[str, Any],
    job: FitJobSettings,
    warnings: list[str],
    failed: Mapping[str, str],
) -> None:
    """Write the results of `rat-ray fit`, print the table and the path.

    about: `run_facts` of the run. warnings: of what was labelled. failed: the configurations without a fit, and why.
    """
    notes = [*labels.notes.lines(), *warnings, *fit_notes(fitted, job)]
    if labels.ignored:
        notes.append(f"columns ignored: {', '.join(labels.ignored)}")
    facts = {
        "notes": notes,
        "prior": key_of(job.prior),
        "judge_model": job.judge_model,
        "policy": key_of(job.policy),
        "failed": dict(failed),
        **about,
    }
    _finish(out, facts, lambda: write_fits(out, fitted))


def run_facts(store: Store, records: Sequence[StageRecord], seed: int) -> dict[str, Any]:
    """What every run.json says of how it came about: its tables, where they lie, and the software."""
    return {
        "seed": seed,
        "store": store.root,
        "tables": {record.label: record.key for record in records},
        "stages": [dataclasses.asdict(record) for record in records],
        **provenance(),
    }


def _finish(out: OutFolder, facts: Mapping[str, Any], write: Callable[[], None]) -> None:
    """Write the files, unless an earlier run left just these; print the table, the notes and the path."""
    made_of = digest_of([code_digest(), {name: value for name, value in facts.items() if name not in PASSING}])
    if not out.holds(made_of):
        write()
        write_report(out, facts)
    out.finish(facts, made_of)
    screen = console()
    summary = out.read_table("summary.parquet")
    print_table(result_table(summary), screen)
    retrieval = out.find_table(RETRIEVAL_FILE)
    if retrieval is not None:
        print_retrieval(retrieval, screen)
    for note in facts["notes"]:
        screen.print(note, highlight=False, markup=False, soft_wrap=True)
    screen.print(f"out: {out.url}", highlight=False, markup=False, soft_wrap=True)


def write_fits(out: OutFolder, fitted: Mapping[str, Fitted]) -> None:
    """summary.parquet and checks.parquet over all configurations; posterior/ and patterns/ by configuration."""
    out.write_table("summary.parquet", pa.concat_tables([one.summary.read() for one in fitted.values()]))
    out.write_table("checks.parquet", pa.concat_tables([one.checks.read() for one in fitted.values()]))
    write_tables(out, "posterior", {name: one.posterior for name, one in fitted.items()})
    write_tables(out, "patterns", {name: one.patterns for name, one in fitted.items()})


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
        said = one.posterior.read(["chain"]).schema.metadata or {}
        taken_over = job.engine.kind == IMPORTANCE and said.get(SAMPLER) == NUTS.encode()
        pareto_k = float(said[PARETO_K]) if PARETO_K in said else None
        found = notes_on(known[name], counts[name], RETRIED in said, taken_over, pareto_k)
        found += warnings_of(one.summary.read(), one.checks.read())
        notes += [where + text for text in found]
    return notes


def write_report(out: OutFiles, facts: Mapping[str, Any]) -> None:
    """Build report.html from the files of the folder and the facts of its run."""
    out.write_text("report.html", render(report_input(out, facts)))


def report_input(out: OutFiles, facts: Mapping[str, Any]) -> ReportInput:
    """What the report shows of an `out`. Raises InputError when it has no summary."""
    summary = out.find_table("summary.parquet")
    if summary is None:
        raise InputError(f"{out.url}: no summary.parquet; is it the out folder of a finished run?")
    states, full_values = _full_tables(out, facts.get("trusted"))
    return ReportInput(
        title=f"RAT report: {out.name}",
        summary=summary,
        draws=read_dataset(out, "posterior"),
        states=states,
        full_values=full_values if facts.get("budget", -1) > 0 else {},  # else nothing was hidden
        allocation=out.find_table("allocation.parquet"),
        verdict_counts=[(one["config"], one["judge"], one["counts"]) for one in facts.get("verdicts", [])],
        notes=list(facts.get("notes", [])),
        provenance=_provenance(facts),
        patterns=read_dataset(out, "patterns"),
        prior_p_g=_prior_p_g(facts.get("prior")),
        predictive=out.find_table("checks.parquet"),
        retrieval=out.find_table(RETRIEVAL_FILE),
    )


def _full_tables(
    out: OutFiles, trusted: Mapping[str, list[str]] | None
) -> tuple[dict[str, list[int]], dict[str, dict[str, float | None]]]:
    """Per configuration the six state counts and the quantities' values with no label hidden, where that is known."""
    if not trusted:
        return {}, {}
    from rat_ray.annotate.full import full_table_values, state_counts

    annotations = read_dataset(out, "annotations")
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
        listed = dataset.source.problems().num_rows
        if listed:
            notes.append(f"{name}: {listed} of these are listed in {PROBLEMS_FILE}")
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


def unread_notes(verdicts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Verdicts that are missing because the judge said neither yes nor no, or failed."""
    notes = []
    for one in verdicts:
        counts = one["counts"]
        asked = sum(count for status, count in counts.items() if status != "not_asked")
        for status, words in (("unparsed", "could not be read"), ("error", "failed")):
            if counts.get(status):
                notes.append(
                    f"{one['config']}: {counts[status]} of {asked} verdicts of {one['judge']} {words} (missing)"
                )
    return notes


def _verdict_counts(verdicts: Mapping[str, Mapping[str, Table]]) -> list[dict[str, Any]]:
    return [
        {"config": config, "judge": judge, "counts": dict(Counter(table.read(["status"])["status"].to_pylist()))}
        for config, judges in verdicts.items()
        for judge, table in judges.items()
    ]


def read_finished(run: str, what: str, storage: StorageSettings) -> tuple[OutFiles, dict[str, Any]]:
    """The files of a finished run and its run.json. Raises InputError when it is not one."""
    out = OutFiles(run, storage)
    out.look()
    facts = out.run()
    if facts is None:
        raise InputError(f"run={run}: no run.json there; give the out folder of a finished `rat-ray {what}`")
    if facts.get("status") != "complete":
        raise InputError(f"run={run}: that run is not finished; run it again to complete it")
    return out, facts


def read_annotated(run: str, storage: StorageSettings) -> tuple[OutFiles, dict[str, Any], dict[str, pa.Table]]:
    """A finished evaluation, or a sweep of them: its files, its run.json and the annotations by configuration.

    Raises: InputError where the run has no annotations, or its parts did not trust the same labels.
    """
    out, facts = read_finished(run, "evaluate", storage)
    annotations = read_dataset(out, "annotations")
    if not annotations:
        raise InputError(f"run={run}: no annotations/ in it; give the out folder of a `rat-ray evaluate`")
    if not facts.get("trusted"):
        raise InputError(f"run={run}: its parts trust different labels (labels=…); give the folder of one of them")
    return out, facts, annotations
