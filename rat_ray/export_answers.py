"""What people get of an evaluation's texts: answers and passages, what became of people's labels, tokens and costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rat_ray import tables
from rat_ray.generate.engine import EngineSettings
from rat_ray.hive import write_dataset
from rat_ray.merging import PASSAGES_FILE, PEOPLE_FILE, distinct
from rat_ray.output import OutFolder
from rat_ray.store import Table

if TYPE_CHECKING:
    from rat_ray.pipeline import Pipeline

APPLIED, STALE, ELSEWHERE = "applied", "stale", "elsewhere"
_MILLION = 1e6


def write_answers(out: OutFolder, pipeline: Pipeline) -> None:
    """answers/ by configuration, and the passages that were given."""
    results = pipeline.results
    found = {}
    for one in pipeline.plan.configurations:
        dataset = results.datasets.get(one.dataset)
        if one.name in results.answers and dataset is not None:
            found[one.name] = partial(_answers, dataset.questions, results.answers[one.name])
    if found:
        write_dataset(out, "answers", found)
        out.write_table(PASSAGES_FILE, _passages(pipeline))


def _answers(questions: Table, answers: Table) -> Iterator[pa.Table]:
    start = 0
    for rows in answers.batches():
        asked = questions.read_range(start, start + rows.num_rows)
        start += rows.num_rows
        columns = {"question_id": asked["question_id"], "question": asked["question"], "accepted": asked["answers"]}
        columns |= {name: rows[name] for name in tables.ANSWERS.names if name != "question_id"}
        yield pa.table(columns, schema=tables.ANSWERS_OUT)


def _passages(pipeline: Pipeline) -> pa.Table:
    """The passages that some answer's context names, of every dataset."""
    plan, results = pipeline.plan, pipeline.results
    wanted: dict[str, set[str]] = {}
    given: dict[str, dict[str, Table]] = {}
    for one in plan.configurations:
        if one.name in results.answers:
            contexts = results.answers[one.name].read(["context_ids"]).column("context_ids")
            wanted.setdefault(one.dataset, set()).update(pc.unique(pc.list_flatten(contexts)).to_pylist())
            table = results.given[one.name]
            given.setdefault(one.dataset, {})[table.key] = table
    found = [tables.PASSAGES_OUT.empty_table()]
    for dataset, parts in given.items():
        name, ids = plan.datasets[dataset].name, pa.array(sorted(wanted[dataset]), pa.string())
        for table in parts.values():
            for batch in table.batches():
                rows = batch.filter(pc.is_in(batch.column("passage_id"), value_set=ids))
                named = rows.add_column(
                    0, tables.PASSAGES_OUT.field("dataset"), pa.array([name] * len(rows), pa.string())
                )
                found.append(named.cast(tables.PASSAGES_OUT))
    return distinct(found)


# --- people ---------------------------------------------------------------------------------------------------------


def people_used(people: pa.Table | None, annotations: Mapping[str, Table]) -> pa.Table | None:
    """Every label of people with what became of it: applied (and to how many rows), stale where its question is here
    but what was judged is not any more, elsewhere where its question is not here, or where it names none.

    A log without ids has other ones once its answers are others: there a question is known by its labels that hold.
    """
    if people is None:
        return None
    rows_of: dict[tuple[str, str], int] = {}
    questions: set[str | None] = set()
    for table in annotations.values():
        for batch in table.batches(["question_id", "r_item", "t_item"]):
            questions.update(batch.column("question_id").to_pylist())
            for column, variables in (("r_item", "r"), ("t_item", "at")):
                for item in pc.drop_null(batch.column(column)).to_pylist():
                    for variable in variables:
                        rows_of[variable, item] = rows_of.get((variable, item), 0) + 1
    rows = [{**row, "rows": rows_of.get((row["variable"], row["item"]), 0)} for row in people.to_pylist()]
    questions.update(row["question_id"] for row in rows if row["rows"])
    questions.discard(None)
    made = []
    for row in rows:
        status = APPLIED if row["rows"] else STALE if row["question_id"] in questions else ELSEWHERE
        made.append({**row, "status": status})
    return pa.Table.from_pylist(made, schema=tables.PEOPLE_USED)


def people_notes(used: pa.Table | None) -> list[str]:
    """The labels that were not applied, in words."""
    if used is None:
        return []
    status = used.column("status").to_pylist()
    notes = []
    if status.count(STALE):
        notes.append(
            f"WARNING: {status.count(STALE)} of {len(status)} labels of people are stale and were not applied: the "
            f"answer or the context that they judged is another now; they are listed in {PEOPLE_FILE}"
        )
    if status.count(ELSEWHERE):
        loud = "" if status.count(APPLIED) else "WARNING: no label of people was applied: "
        notes.append(
            f"{loud}{status.count(ELSEWHERE)} of {len(status)} labels of people are of questions that are not here, or "
            "name no question that is"
        )
    return notes


# --- tokens and costs -------------------------------------------------------------------------------------------------


def usage(pipeline: Pipeline) -> list[dict[str, Any]]:
    """Tokens, rows and costs in USD of every table that a model wrote, once for each table."""
    results, plan = pipeline.results, pipeline.plan
    by_source = {source: judge for judge in plan.judges for source in judge.sources}
    found: dict[str, dict[str, Any]] = {}
    for one in plan.configurations:
        asked: list[tuple[str, EngineSettings, Table]] = []
        if not one.answered and one.name in results.answers:
            asked.append((one.generator, plan.generators[one.generator], results.answers[one.name]))
        asked += [(source, by_source[source], table) for source, table in results.verdicts.get(one.name, {}).items()]
        for who, settings, table in asked:
            if table.key not in found:
                found[table.key] = {"who": who, "config": one.name, **_used(table, settings)}
    return list(found.values())


def _used(table: Table, settings: EngineSettings) -> dict[str, Any]:
    columns = table.read(["prompt_tokens", "output_tokens"])
    into, out = (int(pc.sum(columns.column(name)).as_py() or 0) for name in columns.column_names)
    cost = (into * settings.input_price + out * settings.output_price) / _MILLION
    rows = columns.num_rows - columns.column("prompt_tokens").null_count
    return {"rows": rows, "prompt_tokens": into, "output_tokens": out, "cost": round(cost, 6)}


def usage_notes(used: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the models read and wrote, and what that costs where prices are known, in one line."""
    rows = list(used)
    if not rows:
        return []
    into, out, cost = (sum(row[name] for row in rows) for name in ("prompt_tokens", "output_tokens", "cost"))
    price = f", {cost:.2f} USD" if cost else ""
    return [f"tokens of all answers and verdicts: {into:,} read, {out:,} written{price}"]
