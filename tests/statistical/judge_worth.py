"""What is a judge worth? Planted judges on simulated tables, three real ones on OpenQA-eval, and the demo's own.

`python -m tests.statistical.judge_worth --out judge_worth.jsonl` runs what is missing in the file and writes the tables
of docs/judge_worth.md; `--demo` names the folder of a finished `rat-ray evaluate experiment=quickstart`.
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rat_ray.allocate.judge_settings import JudgeStudySettings, PlantedJudge
from rat_ray.allocate.judge_study import JudgeStudyWorker, Plan, plan
from rat_ray.allocate.judge_summary import summarise
from rat_ray.export import read_annotated
from rat_ray.model import Prior
from rat_ray.model.engines import program_digest
from rat_ray.model.verdicts import PANEL
from rat_ray.store import StorageSettings
from rat_ray.tables import JUDGE_STUDY, LABEL
from tests.helpers import MemoryInput
from tests.statistical import runs
from tests.statistical.real_judges import ITEMS_OF_DATA, JUDGES, read_answers

DOCS = Path(__file__).resolve().parents[2] / "docs" / "judge_worth.md"
DATA = DOCS.parents[2] / "shared" / "data" / ITEMS_OF_DATA
SEED = 7
# A system like the paper's Gemma 3 12B on Natural Questions: P(T) = .24, P(G) = .41.
ITEMS, RHO, ALPHA, TAU = 5000, 0.4, (0.397, 0.2), (0.177, 0.55)
ALONE: list[int | str] = [25, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3200, 4000, "all"]
LENIENT = PlantedJudge("t", 0.95, 0.35)
# What is shown of each study.
SHOWN = {"lenient": ["p_t", "p_g"], "perfect": ["p_t", "p_g"], "openqa": ["p_t"], "demo": ["p_g"]}
DEMO_SHOWN = 20  # trusted labels
NAMES = {"p_g": "P(G=1)", "p_t": "P(T=1)"}


@dataclass(frozen=True)
class Job:
    """One replicate of one study. table: which annotations; demo: the folder of the quickstart."""

    study: str
    table: str
    replicate: int
    engine: str
    demo: str = ""


def study_of(name: str, engine: str) -> JudgeStudySettings:
    """The grid of each study; the number of replicates is the caller's."""
    if name == "lenient":
        return JudgeStudySettings(
            planted={"lenient": LENIENT}, judge_labels=[300, 1000, "all"], trusted_labels=[50, 100, 200],
            alone_labels=ALONE, engine=engine,
        )  # fmt: skip
    if name == "perfect":
        perfect = {variable: PlantedJudge(variable, 1.0, 0.0) for variable in ("r", "t")}
        return JudgeStudySettings(
            planted={f"perfect_{name}": judge for name, judge in perfect.items()}, together=True,
            judge_labels=[300, "all"], trusted_labels=[50, 100, 200], alone_labels=ALONE, engine=engine,
        )  # fmt: skip
    if name == "openqa":
        alone = [value for value in ALONE if value == "all" or int(value) < 1490]
        return JudgeStudySettings(
            judges=list(JUDGES), together=True, judge_labels=["all"], trusted_labels=[50, 150, 400],
            alone_labels=alone, engine=engine,
        )  # fmt: skip
    return JudgeStudySettings(
        judge_labels=["all"], trusted_labels=[10, 20, 40], alone_labels=[5, 15, 30, 50, "all"], engine=engine
    )


def simulated(table: str) -> pa.Table:
    """Complete trusted labels; every table is drawn anew from the same system."""
    rng = np.random.default_rng(int(hashlib.sha256(table.encode()).hexdigest()[:12], 16))
    r = rng.random(ITEMS) < RHO
    a = rng.random(ITEMS) < np.array(ALPHA)[r.astype(int)]
    t = rng.random(ITEMS) < np.array(TAU)[r.astype(int)]
    labels = {"r": pa.array(r, LABEL), "a": pa.array(a, LABEL), "t": pa.array(t, LABEL, mask=a)}
    return pa.table({"question_id": [f"q{index}" for index in range(ITEMS)], **labels})


def openqa() -> pa.Table:
    """People's T and three judges' of 1,490 answers; a = 0 throughout, r was never observed."""
    answers = read_answers(DATA)
    items = len(answers.truth)
    labels: dict[str, Any] = {"r": pa.nulls(items, LABEL), "a": pa.array(np.zeros(items), LABEL)}
    labels["t"] = pa.array(answers.truth, LABEL)
    for index, judge in enumerate(JUDGES):
        said = answers.verdicts[:, index]
        labels[judge] = pa.array(np.maximum(said, 0), LABEL, mask=said < 0)
    return pa.table({"question_id": [f"q{index}" for index in range(items)], **labels})


@lru_cache(maxsize=2)
def worker_of(study: str, table: str, engine: str, demo: str) -> tuple[Plan, JudgeStudyWorker]:
    """The plan of one replicate, and the worker that makes any."""
    trusted: Mapping[str, Sequence[str]] = {}
    if study in ("lenient", "perfect"):
        annotations = simulated(table)
    elif study == "openqa":
        annotations = openqa()
    else:
        _, facts, partitions = read_annotated(demo, StorageSettings())
        annotations, trusted = partitions[table], facts["trusted"]
    settings = study_of(study, engine)
    planned = plan(annotations, settings, trusted, table, Prior(), SEED)
    return planned, JudgeStudyWorker(planned.settings, {"annotations": MemoryInput(annotations)})


def work(job: Job) -> runs.Record:
    """The rows of one replicate."""
    planned, worker = worker_of(job.study, job.table, job.engine, job.demo)
    first = planned.tasks.filter(pa.compute.field("replicate") == 0)
    index = first.schema.get_field_index("replicate")
    numbers = pa.array([job.replicate] * first.num_rows, pa.int32())
    made = worker({"tasks": first.set_column(index, first.schema.field(index), numbers)})
    return {"study": job.study, "columns": made.to_pydict()}


def key_of(job: Job) -> str:
    """Everything that the rows depend on, but the code of the engine."""
    what = hashlib.sha256(f"{program_digest()} {study_of(job.study, job.engine)} {Prior()} {SEED}".encode())
    return f"{job.study} {job.table} {job.replicate} {what.hexdigest()[:16]}"


def jobs_of(study: str, replicates: int, engine: str, demo: str) -> list[Job]:
    """A simulated replicate is a table of its own; of real tables it is another random order."""
    if study in ("lenient", "perfect"):
        return [Job(study, f"simulated-{number}", 0, engine) for number in range(replicates)]
    if study == "openqa":
        return [Job(study, study, replicate, engine) for replicate in range(replicates)]
    _, _, partitions = read_annotated(demo, StorageSettings())
    return [Job(study, config, replicate, engine, demo) for replicate in range(replicates) for config in partitions]


def pooled(records: Sequence[runs.Record]) -> pa.Table:
    """JUDGE_STUDY rows of one study. Simulated tables become the replicates of one configuration."""
    return pa.concat_tables(_tables(records))


def _tables(records: Sequence[runs.Record]) -> Iterator[pa.Table]:
    for number, record in enumerate(records):
        columns = dict(record["columns"])
        if record["study"] in ("lenient", "perfect"):
            rows = len(columns["config"])
            columns |= {"config": ["simulated"] * rows, "replicate": [number] * rows}
            columns["judge_labels"] = _levels(columns)
        yield pa.table({name: pa.array(columns[name], JUDGE_STUDY.field(name).type) for name in JUDGE_STUDY.names})


def _levels(columns: Mapping[str, Sequence[Any]]) -> list[int]:
    """The number of verdicts, where it is "all" that of all items: simulated tables differ in how many are answered."""
    most: dict[str, int] = {}
    for judge, labels in zip(columns["judge"], columns["judge_labels"], strict=True):
        most[judge] = max(most.get(judge, 0), labels)
    return [
        ITEMS if labels == most[judge] else labels
        for judge, labels in zip(columns["judge"], columns["judge_labels"], strict=True)
    ]


def markdown(rows: Sequence[Mapping[str, Any]], study: str) -> str:
    """What is published of a study's summary (schema JUDGE_SUMMARY): ± one Monte Carlo standard error."""
    several = len({row["config"] for row in rows}) > 1
    most_labels: dict[str, int] = {}
    for row in rows:
        name = f"{row['config']} {row['judge']}"
        most_labels[name] = max(most_labels.get(name, 0), row["judge_labels"])
    lines = [
        f"| {'configuration | ' if several else ''}judge | of | model | its labels | trusted | width without | width "
        "| held | RMSE | worth by width | worth by RMSE |",
        "|---" * (11 + several) + "|",
    ]
    for row in rows:
        if not _shown(row, study) or not row["judge_labels"] or not row["replicates"]:
            continue
        all_there = row["judge_labels"] == most_labels[f"{row['config']} {row['judge']}"]
        if not all_there and (study, row["quantity"]) != ("lenient", "p_t"):
            continue
        labels = "all" if all_there else row["judge_labels"]
        cells = [row["config"]] if several else []
        cells += [f"`{row['judge']}`", NAMES[row["quantity"]], row["judge_model"], f"{labels}"]
        cells += [f"{row['trusted_labels']}", f"{row['width_alone']:.3f}"]
        cells += [_with_error(row, name) for name in ("width", "coverage", "rmse")]
        cells += [_worth(row, "worth"), _worth(row, "worth_rmse")]
        lines.append(f"| {' | '.join(cells)} |")
    judged = [row for row in rows if row["judge_labels"] and row["quantity"] == SHOWN[study][0]]
    fits, failed = (sum(row["failed"] + what * row["replicates"] for row in judged) for what in (1, 0))
    most = max(row["replicates"] + row["failed"] for row in rows)
    return "\n".join([*lines, "", f"{most} replicates; {failed} of {fits} fits with a judge failed and are left out."])


def _shown(row: Mapping[str, Any], study: str) -> bool:
    """A judge of R says nothing of P(T=1), and two perfect ones together are there for P(G=1)."""
    if study == "demo" and row["trusted_labels"] != DEMO_SHOWN:
        return False
    return row["quantity"] in SHOWN[study] and (row["quantity"] == "p_g" or row["judge"].startswith("t@"))


def rates(rows: Sequence[Mapping[str, Any]]) -> str:
    """The panel's posteriors of TPR and FPR, of single judges."""
    lines = ["| judge | rate | in the full table | trusted | RMSE | width | held |", "|---" * 7 + "|"]
    for row in rows:
        if row["quantity"] not in ("tpr", "fpr") or row["judge_model"] != PANEL or not row["replicates"]:
            continue
        cells = [f"`{row['judge']}`", row["quantity"].upper(), f"{row['target_value']:.3f}", f"{row['trusted_labels']}"]
        cells += [_with_error(row, name) for name in ("rmse", "width", "coverage")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _with_error(row: Mapping[str, Any], name: str) -> str:
    value, error = row[name], row[f"{name}_se"]
    if value is None:
        return "–"
    return f"{value:.3f}" + ("" if error is None else f" ± {error:.3f}")


def _worth(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return "–"
    low, high = ("…" if row[f"{name}_{end}"] is None else f"{round(row[f'{name}_{end}'])}" for end in ("low", "high"))
    return f"{round(row[name])} [{low}, {high}]"


def main() -> None:
    """Run what is missing, and print or write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--demo", default="")
    parser.add_argument("--studies", nargs="*", default=["lenient", "perfect", "openqa", "demo"])
    parser.add_argument("--replicates", type=int, default=60)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--engine", default=JudgeStudySettings().engine)
    parser.add_argument("--dry", action="store_true", help="print the tables and leave docs/judge_worth.md alone")
    arguments = parser.parse_args()
    for study in arguments.studies:
        if study == "demo" and not arguments.demo:
            continue
        jobs = jobs_of(study, arguments.replicates, arguments.engine, arguments.demo)
        records = runs.run(jobs, key_of, work, arguments.out, arguments.processes, report_every=10)
        rows = summarise(pooled(records)).to_pylist()
        blocks = {study: markdown(rows, study)}
        if study == "openqa":
            blocks["rates"] = rates(rows)
        for name, text in blocks.items():
            print(f"{name}\n\n{text}\n")
            if not arguments.dry:
                runs.replace_block(DOCS, name, text)


if __name__ == "__main__":
    main()
