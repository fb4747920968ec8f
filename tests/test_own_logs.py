"""A log of a system that ran elsewhere, from its file to a fit; people label it, and their labels stay with what they
judged when the log changes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from rat_ray import tables
from tests import own_logs
from tests.commandline import refuse_here, succeed
from tests.helpers import MemoryInput, read_partitions

ROWS = 40
QUICK = ["engine.chains=2", "engine.warmup=300", "engine.samples=300", "judge=none", "cluster.use=never"]


class Annotated(MemoryInput):
    """An annotations table that is read in batches."""

    def batches(self, columns: list[str]) -> Iterator[pa.Table]:
        yield self.read(columns)


class Logged:
    """A folder with a log, its first evaluation, and the truth of every row."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows = own_logs.rows(ROWS)
        own_logs.write(folder / "log.jsonl", self.rows)
        self.printed = self.evaluate("first")

    def evaluate(self, out: str, *settings: str) -> str:
        return succeed(
            "evaluate", "dataset=logs", "dataset.path=log.jsonl", *QUICK, *settings, f"out={out}", cwd=self.folder
        )

    def annotations(self, out: str) -> list[dict[str, Any]]:
        [table] = read_partitions(self.folder / out / "annotations").values()
        found: list[dict[str, Any]] = table.to_pylist()
        return found

    def label(self, variables: str, annotator: str) -> None:
        """Export everything, write down the truth, and import it."""
        sheets = f"sheets-{annotator}"
        succeed(
            "annotate", "export", "run=first", f"out={sheets}", f"n={ROWS}", f"variables={variables}", cwd=self.folder
        )
        truth = {row["id"]: row["truth"] for row in self.rows}
        with (self.folder / sheets / "items.csv").open(encoding="utf-8-sig", newline="") as stream:
            items = list(csv.DictReader(stream))
        for item in items:
            item["label"] = str(truth[item["question_id"].removeprefix("'")][item["variable"]])
            item["annotator"] = annotator
        with (self.folder / f"{annotator}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(items[0]))
            writer.writeheader()
            writer.writerows(items)
        succeed("annotate", "import", "run=first", f"files=[{annotator}.csv]", "people=people.parquet", cwd=self.folder)


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    made = Logged(tmp_path_factory.mktemp("logs"))
    made.label("[r,t]", "anna")
    made.evaluate("labelled", "labels=people", "labels.people=[people.parquet]")
    return made


def test_rules_label_a_log_and_the_table_says_what_they_cannot_tell(logged: Logged) -> None:
    rows = logged.annotations("first")
    assert [row["question_id"] for row in rows] == [row["id"] for row in logged.rows]
    assert [row["a"] for row in rows] == [row["truth"]["a"] for row in logged.rows]
    assert [row["t"] for row in rows] == [row["truth"]["t"] for row in logged.rows]
    assert {row["r"] for row in rows} == {None}
    assert {row["retriever"] for row in rows} == {None}
    assert "R is not labelled" in logged.printed
    assert not (logged.folder / "first" / "retrieval.parquet").exists()


def test_answers_and_passages_lie_beside_the_labels(logged: Logged) -> None:
    [answers] = read_partitions(logged.folder / "first" / "answers").values()
    assert answers.schema.names == tables.ANSWERS_OUT.names
    passages = pq.read_table(logged.folder / "first" / "passages.parquet")
    tables.check_table(passages, tables.PASSAGES_OUT, "passages")
    texts = dict(zip(passages["passage_id"].to_pylist(), passages["text"].to_pylist(), strict=True))
    for row, given in zip(answers.to_pylist(), logged.rows, strict=True):
        assert row["question"] == given["question"]
        assert row["answer"] == row["raw"] == given["response"]
        assert row["accepted"] == [given["reference"]]
        assert [texts[name] for name in row["context_ids"]] == given["retrieved_contexts"]
    assert len(set(texts)) == passages.num_rows


def test_peoples_labels_fill_r_and_t_and_rules_become_judges(logged: Logged) -> None:
    rows = logged.annotations("labelled")
    for row, given in zip(rows, logged.rows, strict=True):
        truth = given["truth"]
        assert (row["r"], row["r_source"]) == (truth["r"], "r@people")
        assert row["t"] == truth["t"]
        assert row["t_source"] == (None if truth["a"] else "t@people")
        assert row["t@match"] == truth["t"]
    summary = pq.read_table(logged.folder / "labelled" / "summary.parquet")
    quantities = summary["quantity"].to_pylist()
    assert "tpr[t@match]" in quantities
    assert not [name for name in quantities if "people" in name]
    [observed] = [sum(row["truth"]["r"] for row in logged.rows) / ROWS]
    [finite] = summary.filter(pc.equal(summary["quantity"], "finite[rho]"))["mean"].to_pylist()
    assert finite == pytest.approx(observed, abs=1e-9), "every R is known"


def test_a_changed_answer_makes_its_labels_stale_and_the_others_hold(logged: Logged, tmp_path: Path) -> None:
    changed = next(number for number, row in enumerate(logged.rows) if row["truth"]["t"] == 0)
    rows = [dict(row) for row in logged.rows]
    rows[changed]["response"] = "Andorra"
    rows.append({**rows[0], "id": "req-new", "retrieved_contexts": rows[1]["retrieved_contexts"]})
    own_logs.write(tmp_path / "log.jsonl", rows)
    people = str(logged.folder / "people.parquet")
    settings = ["dataset=logs", "dataset.path=log.jsonl", *QUICK, "labels=people", f"labels.people=['{people}']"]
    printed = succeed("evaluate", *settings, "out=out", cwd=tmp_path)
    labels = pq.read_table(people).num_rows
    assert f"WARNING: 1 of {labels} labels of people are stale and were not applied" in printed
    used = pq.read_table(tmp_path / "out" / "people.parquet")
    tables.check_table(used, tables.PEOPLE_USED, "people")
    [stale] = used.filter(pc.equal(used["status"], "stale")).to_pylist()
    assert (stale["variable"], stale["question_id"]) == ("t", f"req-{changed:03d}")
    [annotations] = read_partitions(tmp_path / "out" / "annotations").values()
    now = annotations.to_pylist()
    assert now[changed]["t"] is None
    assert now[changed]["r"] == logged.rows[changed]["truth"]["r"], "the context is the same"
    assert now[-1]["t"] == now[0]["t"], "one label serves every row with that question and that answer"
    assert now[-1]["r"] is None, "nobody judged this question with these passages"


def test_labels_of_a_log_without_ids_are_stale_where_another_label_knows_their_question() -> None:
    """Such a log makes its ids of question, contexts and answer: they change with the answer."""
    from rat_ray.export_answers import people_notes, people_used

    def said(variable: str, item: str, question_id: str | None) -> dict[str, Any]:
        return {"variable": variable, "item": item, "label": 1, "annotator": "a", "question_id": question_id}

    labels = [said("r", "r-1", "q-old"), said("t", "t-gone", "q-old"), said("t", "t-2", None), said("t", "t-3", None)]
    people = pa.Table.from_pylist(labels, schema=tables.PEOPLE)
    rows = [{"question_id": "q-new", "r_item": "r-1", "t_item": "t-new"}, {"question_id": "q-2", "t_item": "t-2"}]
    here = pa.Table.from_pylist(rows, schema=tables.annotations_schema([]))
    annotations: dict[str, Any] = {"c": Annotated(here)}
    used = people_used(people, annotations)
    assert used is not None
    assert used["status"].to_pylist() == ["applied", "stale", "applied", "elsewhere"]
    stale, elsewhere = people_notes(used)
    assert stale.startswith("WARNING: 1 of 4")
    assert elsewhere.startswith("1 of 4")
    annotations = {"c": Annotated(here.slice(0, 0))}
    [none] = people_notes(people_used(people, annotations))
    assert none.startswith("WARNING: no label of people was applied: 4 of 4")


def test_other_labels_belong_in_another_folder(logged: Logged) -> None:
    said = refuse_here("evaluate", "dataset=logs", "dataset.path=log.jsonl", *QUICK, "out=labelled", cwd=logged.folder)
    assert "holds a run with other settings (" in said
    assert "people" in said


def test_a_log_may_lie_beside_generated_answers(tmp_path: Path) -> None:
    own_logs.write(tmp_path / "log.jsonl", own_logs.rows(4))
    listed = "configurations=[{dataset:[logs,demo],retriever:[bm25,hybrid]}]"
    printed = succeed(
        "evaluate", "dataset=logs", "dataset.path=log.jsonl", listed, "judge=none", "dry_run=true", cwd=tmp_path
    )
    rows = {line.split()[0]: line.split()[1:3] for line in printed.splitlines() if line}
    assert rows["answer"] == ["2", "2"], "of demo alone"
    assert rows["label"] == ["3", "3"], "the log once, whatever the retriever"


def test_more_judges_stand_beside_the_first(tmp_path: Path) -> None:
    own_logs.write(tmp_path / "log.jsonl", own_logs.rows(4))
    settings = ["dataset=logs", "dataset.path=log.jsonl", "judge=local", "judges=[gpt_4o_mini]", "dry_run=true"]
    printed = succeed("evaluate", *settings, cwd=tmp_path)
    rows = {line.split()[0]: line.split()[1:3] for line in printed.splitlines() if line}
    assert rows["judge"] == ["4", "4"]
    for source in ("r@local", "t@local", "r@gpt_4o_mini", "t@gpt_4o_mini"):
        assert f"--- judge {source}, " in printed
    said = refuse_here("evaluate", *settings[:3], "judges=[local]", "dry_run=true", cwd=tmp_path)
    assert "judges: r@local, t@local would be the column of two judges" in said
    said = refuse_here("evaluate", *settings[:3], "judges=[gpt4o_mini]", "dry_run=true", cwd=tmp_path)
    assert "did you mean 'gpt_4o_mini'" in said


def test_rules_of_one_kind_stand_side_by_side(tmp_path: Path) -> None:
    """Evidence by passage and page, and an accepted answer in the context, each a column; the trusted one fills r."""
    texts = [
        {"id": "d1", "title": "Danube", "text": "The Danube begins in the Black Forest."},
        {"id": "d2", "title": "Danube", "text": "It ends in the Black Sea."},
        {"id": "v1", "title": "Volga", "text": "The Volga flows into the Caspian Sea."},
    ]
    asked = {"question": "Where does the Danube end?", "reference": "Black Sea", "evidence": ["d2"]}
    given = [(["d1"], 0, 1, 0), (["d2", "v1"], 1, 1, 1), (["v1"], 0, 0, 0)]  # ids, by passage, by page, by the answer
    lines = [
        asked | {"id": f"q{i}", "contexts": [one for one in texts if one["id"] in ids], "response": "In the Black Sea"}
        for i, (ids, *_) in enumerate(given)
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rules = "labels.rules=[r@evidence,r@page,r@answer_in_context,a@phrase,t@match,t@exact]"
    settings = ["dataset=logs", "dataset.path=log.jsonl", *QUICK, rules, "labels.trusted.r=[page]", "out=out"]
    succeed("evaluate", *settings, cwd=tmp_path)
    [table] = read_partitions(tmp_path / "out" / "annotations").values()
    for row, (_, passage, page, said) in zip(table.to_pylist(), given, strict=True):
        assert (row["r@evidence"], row["r@page"], row["r@answer_in_context"]) == (passage, page, said)
        assert (row["r"], row["r_source"]) == (page, "r@page")
        assert (row["t@match"], row["t@exact"]) == (1, 0)
        assert row["rule:t@match"]
        assert 0 < row["score:t@exact"] < 1 or row["score:t@exact"] == 0
    summary = pq.read_table(tmp_path / "out" / "summary.parquet")
    judges = {name for name in summary["quantity"].to_pylist() if name.startswith("tpr[")}
    assert judges == {"tpr[r@evidence]", "tpr[r@answer_in_context]", "tpr[t@exact]"}


def test_tokens_and_costs_are_counted_once_for_every_table() -> None:
    from rat_ray.export_answers import usage_notes

    rows = [
        {"who": "g", "prompt_tokens": 1_000_000, "output_tokens": 10, "cost": 0.15},
        {"who": "t@j", "prompt_tokens": 500, "output_tokens": 5, "cost": 0.0},
    ]
    assert usage_notes(rows) == ["tokens of all answers and verdicts: 1,000,500 read, 15 written, 0.15 USD"]
    assert usage_notes([]) == []


def test_labels_of_people_that_are_not_in_the_schema_are_refused_before_any_work(tmp_path: Path) -> None:
    own_logs.write(tmp_path / "log.jsonl", own_logs.rows(4))
    (tmp_path / "people.jsonl").write_text(
        json.dumps({"variable": "x", "item": "t-1", "label": 1, "annotator": "a"}) + "\n"
    )
    settings = ["dataset=logs", "dataset.path=log.jsonl", *QUICK, "out=out"]
    said = refuse_here("evaluate", *settings, "labels.people=[people.jsonl]", cwd=tmp_path)
    assert "people.jsonl" in said
    assert "'x'" in said
    said = refuse_here("evaluate", *settings, "labels=people", cwd=tmp_path)
    assert "labels.people: must be given" in said
    assert {path.name for path in tmp_path.iterdir()} == {"log.jsonl", "people.jsonl"}
    assert pa.types.is_int8(tables.PEOPLE.field("label").type)
