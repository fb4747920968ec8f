"""Own logs that cannot be read as they are: the message names file, row, column and value, and what to do."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rat_ray import datasets
from rat_ray.datasets import LogsSettings
from rat_ray.datasets.logs_fields import LogFields
from rat_ray.errors import InputError
from rat_ray.settings import build

GOOD: dict[str, Any] = {"question": "q?", "answer": "a", "contexts": ["alpha"]}


def write(folder: Path, *rows: object) -> LogsSettings:
    """A log of these rows (objects, or whole lines)."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "log.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return LogsSettings(path=str(folder / "log.jsonl"))


def refused(settings: LogsSettings, *parts: str) -> None:
    """The log is refused, and the message holds each of `parts`."""
    with pytest.raises(InputError) as caught:
        datasets.load(settings)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        ({"question": " "}, ["the question is empty", "' '"]),
        ({"question": None}, ["the question is empty", "None"]),
        ({"question": [{"type": "human", "content": "q?"}]}, ["the question must be text", "last question"]),
        ({"answer": ["a"]}, ["the answer must be text", "last answer"]),
        ({"answer": {"citations": []}}, ["the answer must be text", "citations"]),
        ({"contexts": 5}, ["the contexts must be a list", "5"]),
        ({"contexts": [["alpha"]]}, ["a context must be a text or an object", "['alpha']"]),
        ({"contexts": [{"body_html": "x", "id": 1}]}, ["without a text", "body_html, id", "dataset.fields.text"]),
        ({"contexts": '["alpha", "be'}, ["begin as a list and are none", "alpha"]),
        ({"contexts": "[Document(page_content='x')]"}, ["printed by Python", "JSON"]),
        ({"contexts": "['alpha'\n 'beta']"}, ["without commas", "numpy"]),
        ({"context_ids": ["p1", "p2"]}, ["1 contexts", "['p1', 'p2']", "dataset.fields.context_ids=-"]),
        ({"evidence": [["p1"], []]}, ["not empty", "dataset.fields.evidence"]),
        ({"evidence": [{"id": 1}]}, ["a passage id in the evidence must be a string or a whole number"]),
        ({"gold": [{"x": 1}]}, ["an accepted answer must be text"]),
        ({"shape": "clam"}, ["unknown shape 'clam'", "did you mean 'claim'", "dataset.fields.shape"]),
        ({"question_id": 1.5}, ["the question id must be a string or a whole number", "1.5"]),
        ({"question_id": " "}, ["the question id is empty"]),
    ],
)
def test_a_broken_row_is_named_and_can_be_skipped(tmp_path: Path, more: dict[str, Any], parts: list[str]) -> None:
    settings = write(tmp_path, GOOD, {**GOOD, **more})
    refused(settings, "log.jsonl:2: ", *parts)
    source = datasets.load(replace(settings, on_error="skip"))
    assert source.num_questions == 1
    assert source.notes["broken rows skipped (on_error=skip)"] == 1
    place = source.problems().to_pylist()[0]
    assert place["place"].endswith("log.jsonl:2")
    assert parts[0] in place["detail"]


def test_broken_json_is_named_and_can_be_skipped(tmp_path: Path) -> None:
    settings = write(tmp_path, GOOD, '{"question": "q?", "answer": "\\ud800"}', '{"question": ', "[1]")
    refused(settings, "log.jsonl:2", "surrogate")
    assert datasets.load(replace(settings, on_error="skip")).notes["broken rows skipped (on_error=skip)"] == 3


@pytest.mark.parametrize(
    ("row", "parts"),
    [
        ({"q": "q?", "answer": "a"}, ["no column for the question", "dataset.fields.question", "columns: q, answer"]),
        ({"question": "q?", "said": "a"}, ["no column for the answer", "dataset.fields.answer", "question, said"]),
        ({"question": "q?", "answer": "a", "response": "b"}, ["answer might be in 'answer' or 'response'"]),
        ({"question": "q?", "query": "r?", "answer": "a"}, ["question might be in 'question' or 'query'"]),
        ({"question": "q?", "answer": "a", "Answer": "b"}, ["'answer' or 'Answer'", "dataset.fields.answer=answer"]),
        ({**GOOD, "retrieved_contexts": ["x"]}, ["contexts might be in 'contexts' or 'retrieved_contexts'"]),
        ({**GOOD, "reference": "x", "ground_truth": "y"}, ["accepted might be in 'reference' or 'ground_truth'"]),
        (
            {"question": "q?", "answer": "a", "sources": ["https://example.org/a?b=c", "handbook/loans.md"]},
            ["look like names or addresses", "https://example.org", "dataset.fields.contexts"],
        ),
    ],
)
def test_columns_that_are_missing_or_ambiguous_are_listed(tmp_path: Path, row: object, parts: list[str]) -> None:
    refused(write(tmp_path, row), "log.jsonl", *parts)


def test_a_later_row_with_another_column_for_the_same_is_ambiguous(tmp_path: Path) -> None:
    first = {"question": "q?", "answer": "a", "context": ["gold"]}
    refused(write(tmp_path, first, {**first, "retrieval_context": ["x"]}), "log.jsonl:2", "'context' or 'retrieval_con")
    refused(write(tmp_path, {"question": "q?", "answer": "a"}, {"question": "r?", "output": "b"}), "log.jsonl:2")


def test_columns_can_be_named_and_left_unread(tmp_path: Path) -> None:
    row = {
        **{"question": "q?", "answer": "gold", "response": "said", "sources": ["a.md"]},
        **{"meta": {"chunks": [{"Body": "alpha", "Key": "k"}]}},
    }
    fields = LogFields(
        answer="response", accepted="answer", contexts="meta.chunks", text="Body", passage_id="Key", title="-"
    )
    settings = replace(write(tmp_path, row), fields=fields)
    source = datasets.load(settings)
    assert source.answers is not None
    assert source.answers()["answer"].to_pylist() == ["said"]
    assert source.questions()["answers"].to_pylist() == [["gold"]]
    assert [b.to_pylist() for b in source.passages()] == [[{"passage_id": "k", "title": None, "text": "alpha"}]]
    without = replace(settings, fields=LogFields(answer="response", contexts="-"))
    assert datasets.load(without).num_passages == 0


@pytest.mark.parametrize(
    ("fields", "parts"),
    [
        (LogFields(answer="anser"), ["no column 'anser' (did you mean 'answer'?)", "dataset.fields.answer"]),
        (LogFields(accepted="golden"), ["no column 'golden'", "dataset.fields.accepted", "question, answer, contexts"]),
        (LogFields(question="-"), ["fields.question=-", "cannot be left out"]),
        (LogFields(question="answer", answer="answer"), ["'answer' is given two meanings"]),
        (LogFields(text="body"), ["without a text", "dataset.fields.text"]),
        (LogFields(passage_id="kye"), ["no context has a member 'kye'", "dataset.fields.passage_id"]),
        (LogFields(title="name"), ["no context has a member 'name'", "dataset.fields.title"]),
    ],
)
def test_a_column_that_is_not_there_is_told(tmp_path: Path, fields: LogFields, parts: list[str]) -> None:
    row = {**GOOD, "contexts": [{"text": "alpha"}]}
    refused(replace(write(tmp_path, row), fields=fields), *parts)


def test_a_doubled_id_names_both_rows(tmp_path: Path) -> None:
    rows = [{**GOOD, "qid": name} for name in (1, "2", "1")]
    refused(
        write(tmp_path, *rows), "log.jsonl:3: the question id '1' stands in", "log.jsonl:1 already", "dataset.system"
    )
    (tmp_path / "z.jsonl").write_text(json.dumps(rows[1]) + "\n")
    settings = write(tmp_path, *rows[:2])
    refused(replace(settings, path=str(tmp_path)), "z.jsonl:1: the question id '2'", "log.jsonl:2 already")


def test_a_log_without_any_answer_is_refused(tmp_path: Path) -> None:
    refused(write(tmp_path, {**GOOD, "answer": None}), "no row has an answer", "dataset.fields.answer")


def test_a_log_in_which_every_row_failed_says_why(tmp_path: Path) -> None:
    settings = write(tmp_path, *[{**GOOD, "error": "E42"}] * 2)
    refused(settings, "no row has an answer", "'E42'", "dataset.fields.answer", "dataset.fields.error=-")


def test_an_id_that_was_made_for_another_row_is_refused(tmp_path: Path) -> None:
    made = datasets.load(write(tmp_path, GOOD)).questions()["question_id"][0].as_py()
    other = {**GOOD, "question": "other?", "id": made}
    refused(write(tmp_path, GOOD, other), "log.jsonl:2", made, "dataset.fields.question_id=-")
    ids = datasets.load(write(tmp_path, other, GOOD)).questions()["question_id"].to_pylist()
    assert ids == [made, f"{made}-2"]


def test_evidence_that_no_passage_meets_is_refused(tmp_path: Path) -> None:
    contexts = [{"id": "p1", "text": "alpha"}]
    rows = [{"question": f"{i}?", "answer": "a", "contexts": contexts, "evidence": [f"x{i}"]} for i in range(5)]
    refused(write(tmp_path, *rows), "names no passage", "'x0'", "dataset.fields.context_ids")
    assert datasets.load(write(tmp_path, *rows[:4])).num_questions == 4
    met = datasets.load(write(tmp_path, *rows, {**rows[0], "question": "other?", "evidence": ["p1"]}))
    assert met.num_questions == 6


def test_an_unknown_system_is_told_with_those_that_are_there(tmp_path: Path) -> None:
    rows = [{**GOOD, "model": "large"}, {**GOOD, "model": "small"}]
    refused(replace(write(tmp_path, *rows), system="smal"), "did you mean 'small'", "'large' (1), 'small' (1)")
    refused(replace(write(tmp_path, GOOD), system="x"), "no column for the system", "dataset.fields.system")


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("", ["dataset.path is not set", "dataset.path=logs.jsonl"]),
        ([], ["dataset.path is empty"]),
        ("{}/lgo.jsonl", ["there is no file", "did you mean 'log.jsonl'", "set dataset.path"]),
        ("{}/*.csv", ["no file matches"]),
        ("{}/empty", ["holds no file named *.jsonl"]),
        (["{}/log.jsonl", "{}/log.jsonl"], ["is named twice"]),
        ("s3://bucket/log.jsonl", ["dataset.path=s3://bucket/log.jsonl", "copy it to this machine"]),
    ],
)
def test_files_that_are_not_there_are_told(tmp_path: Path, path: str | list[str], parts: list[str]) -> None:
    write(tmp_path, GOOD)
    (tmp_path / "empty").mkdir()
    filled = path.format(tmp_path) if isinstance(path, str) else [each.format(tmp_path) for each in path]
    refused(LogsSettings(path=filled), *parts)


@pytest.mark.parametrize(
    ("name", "data", "parts"),
    [
        ("a.jsonl", b"", ["the file is empty"]),
        ("a.json", b"[]", ["the array is empty"]),
        ("a.json", b'[{"question": "q?", "answer": "a"}, {"que', ["item 2", "cut short"]),
        ("a.csv", b"question,answer\n", ["no row could be read"]),
        ("a.csv", b'question,answer\nq?,a\nr?,"never closed\ns?,b\n', ["a.csv:3", "never closed"]),
        ("a.csv", b"question,answer\nq?,a,b\n", ["a.csv:2", "expected 2 columns as in the header, found 3"]),
        ("a.csv", b"question,answer,answer\nq?,a,b\n", ["a.csv:1", "'answer' twice"]),
        ("a.csv", b"question,answer\nq?,caf\xe9\n", ["a.csv", "not valid UTF-8"]),
        ("a.parquet", b"PAR1 and nothing more", ["a.parquet", "cannot be read"]),
        ("a.jsonl.gz", gzip.compress(b'{"question": "q?", "answer": "a"}\n' * 999)[:40], ["break off or are damaged"]),
        ("a.csv.gz", gzip.compress(b"question,answer\n" + b"q?,a\n" * 99999)[:200], ["break off or are damaged"]),
        ("a.csv", b"question,answer\n", ["no row could be read, there is none after the header"]),
        ("a.csv", "question;answer\nq;a\n".encode("utf-16"), ["is UTF-16", "CSV UTF-8"]),
        ("a.xlsx", b"PK\x03\x04" + b"x" * 99, ["a workbook", "save it as CSV"]),
    ],
)
def test_a_damaged_file_is_told(tmp_path: Path, name: str, data: bytes, parts: list[str]) -> None:
    (tmp_path / name).write_bytes(data)
    refused(LogsSettings(path=str(tmp_path / name), on_error="skip" if "2" not in parts[0] else "stop"), *parts)


def test_a_row_of_a_csv_is_named_by_the_line_that_it_begins_on(tmp_path: Path) -> None:
    with (tmp_path / "log.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["question", "answer"], ["q?", "two\nlines"], ["", "a"]])
    refused(LogsSettings(path=str(tmp_path / "log.csv")), "log.csv:4", "the question is empty")


def test_a_row_of_a_parquet_file_is_named_by_its_number(tmp_path: Path) -> None:
    pq.write_table(pa.table({"question": ["q?", ""], "answer": ["a", "b"]}), tmp_path / "log.parquet")
    refused(LogsSettings(path=str(tmp_path / "log.parquet")), "log.parquet: row 2", "the question is empty")
    pq.write_table(pa.table({"vector": [1.0], "answer_text": ["b"]}), tmp_path / "log.parquet")
    refused(LogsSettings(path=str(tmp_path / "log.parquet")), "no column for the question", "vector, answer_text")


def test_two_columns_of_one_name_in_a_parquet_file_are_refused(tmp_path: Path) -> None:
    columns = pa.table([["q?"], ["a"], ["b"]], names=["question", "answer", "answer"])
    pq.write_table(columns, tmp_path / "log.parquet")
    refused(LogsSettings(path=str(tmp_path / "log.parquet")), "the column 'answer' twice")


def test_a_log_that_changes_between_two_reads_is_told(tmp_path: Path) -> None:
    source = datasets.load(write(tmp_path, GOOD))
    write(tmp_path, {**GOOD, "contexts": ["another"]})
    with pytest.raises(InputError, match="the log has changed"):
        list(source.passages())


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        ({"path": "x", "format": "jsnl"}, ["dataset.format", "did you mean 'jsonl'"]),
        ({"path": "x", "evidence": "some"}, ["dataset.evidence='some'"]),
        ({"path": "x", "name": "a b"}, ["dataset.name"]),
        ({"path": "x", "limit": -1}, ["dataset.limit=-1"]),
        ({"path": "x", "on_error": "ignore"}, ["dataset.on_error"]),
        ({"path": "x", "shape": "poem"}, ["dataset.shape"]),
        ({"path": "x", "system": "a", "fields": {"system": "-"}}, ["dataset.system"]),
        ({"path": "x", "fields": {"anwser": "y"}}, ["dataset.fields.anwser", "did you mean 'answer'"]),
    ],
)
def test_settings_are_checked(data: dict[str, Any], parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        build(LogsSettings, data, "dataset")
    for part in parts:
        assert part in str(caught.value)


def test_the_conf_file_has_every_setting() -> None:
    import dataclasses

    import yaml

    from rat_ray.settings import conf_dir

    data = yaml.safe_load((conf_dir() / "dataset" / "logs.yaml").read_text())
    assert data["path"] == "???"
    assert build(LogsSettings, {**data, "path": ""}) == LogsSettings()
    assert set(data) == {field.name for field in dataclasses.fields(LogsSettings)}
    assert set(data["fields"]) == {field.name for field in dataclasses.fields(LogFields)}
    assert build(LogsSettings, {**data, "path": ["a", "b"]}).paths == ["a", "b"]
