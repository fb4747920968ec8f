"""Natural Questions in the files of its own, DPR's and KILT's: ids, evidence, joins; what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rat_ray import datasets, tables
from rat_ray.datasets import NaturalQuestionsSettings
from rat_ray.datasets.wikipedia import CorpusSettings
from tests.datasets.benchmark_files import (
    FIXTURES,
    KILT,
    SNAPSHOT,
    TSV,
    column,
    copied,
    evidence,
    problems,
    refused,
    rows_of,
    write_rows,
)

NQ = NaturalQuestionsSettings(path=str(FIXTURES / "natural_questions"), questions="NQ-open.dev.jsonl", corpus=SNAPSHOT)
BY_KILT = replace(NQ, questions="nq-dev-kilt.jsonl", evidence="", corpus=KILT)
WITHOUT = "no evidence given (without_evidence=unknown keeps them)"
SKIPPED = "broken rows skipped (on_error=skip)"
NO_JOIN = "none of the 5 questions is in it"


def test_each_positive_passage_is_enough() -> None:
    source = datasets.load(NQ)
    tables.check_table(source.questions(), tables.QUESTIONS, "questions")
    assert column(source, "evidence") == {
        "dev-1": [["1"]],
        "dev-2": [["5"], ["7"]],  # the other file writes this question with capitals and a question mark
        "dev-3": [["6"]],  # … and this one with a typographic apostrophe
        "dev-4": None,
    }
    assert column(source, "answers")["dev-3"] == ["1902", "in 1902"]
    assert set(column(source, "shape").values()) == {"open"}
    assert source.left_out == {WITHOUT: 1}
    assert problems(source) == [("unmapped", "dev-4", "page 'Quill Island' (passage '99') is in no corpus")]


def test_of_the_positives_the_first_alone_can_count() -> None:
    """DPR's authors: the first is the one that people marked, the others were found by the answer's words."""
    expected = {"dev-1": [["1"]], "dev-2": [["5"]], "dev-3": [["6"]], "dev-4": None}
    assert evidence(replace(NQ, positives="first")) == expected
    own = evidence(replace(NQ, questions="biencoder-nq-dev.json", evidence="", positives="first"))
    assert [sets for sets in own.values() if sets and len(sets) > 1] == []
    refused(replace(NQ, positives="frist"), "dataset.positives", "did you mean 'first'")
    kilt = evidence(BY_KILT)
    assert evidence(replace(BY_KILT, positives="first")) == kilt, "KILT's outputs are all by people"


def test_questions_without_evidence_can_stay_with_r_missing() -> None:
    source = datasets.load(replace(NQ, without_evidence="unknown"))
    assert column(source, "evidence")["dev-5"] is None
    assert source.left_out == {}
    alone = datasets.load(replace(NQ, evidence="", without_evidence="unknown"))
    assert set(column(alone, "evidence").values()) == {None}
    refused(replace(NQ, evidence=""), "no question is left", "without_evidence=unknown")


def test_dprs_questions_are_read_as_csv() -> None:
    source = datasets.load(replace(NQ, questions="nq-dev.qa.csv", without_evidence="unknown"))
    assert column(source, "evidence")["dev-2"] == [["5"], ["7"]]
    assert column(source, "question")["dev-6"] == 'who said "the bridge holds"'
    assert column(source, "answers")["dev-6"] == ["Ada Renn", 'Ada "Iron" Renn', "the engineer's wife"]
    assert column(source, "answers")["dev-1"] == ["Orrin Lake"]


def test_dprs_annotated_file_can_be_the_questions() -> None:
    source = datasets.load(replace(NQ, questions="biencoder-nq-dev.json", evidence=""))
    assert column(source, "evidence") == {
        "dev-1": [["1"]],
        "dev-2": [["5"], ["7"]],
        "dev-3": [["6"]],
        "dev-4": None,
        "dev-5": [["10"]],
    }


def test_kilts_provenance_is_evidence_by_output() -> None:
    source = datasets.load(BY_KILT)
    assert column(source, "evidence") == {
        "-1001": [["300100"]],  # two outputs name the same paragraph
        "1002": [["300103"], ["300105"]],
        "1003": [["300104"]],
        "1004": None,
    }
    assert column(source, "answers")["-1001"] == ["Orrin Lake", "Orrin"]
    assert source.left_out == {WITHOUT: 1}


def test_kilts_paragraphs_are_found_in_windows_and_headings_need_no_passage() -> None:
    windows = replace(KILT, passages="sentences", window=1, stride=1)
    found = evidence(replace(BY_KILT, corpus=windows))
    assert found["-1001"] == [["300100#1"]]
    assert found["1003"] == [["300104#1", "300104#3"]], "paragraph 2 is a heading"


def test_kilts_ids_mean_nothing_in_another_corpus() -> None:
    """There the title decides, and any passage of the page counts, since paragraphs are numbered in KILT only."""
    source = datasets.load(replace(BY_KILT, corpus=SNAPSHOT))
    assert column(source, "evidence")["-1001"] == [["1"], ["2"]]
    assert column(source, "evidence")["1002"] == [["5"], ["7"]]
    assert any("any passage counts" in note for note in source.notes)


def test_dprs_ids_count_only_where_the_corpus_has_that_title(tmp_path: Path) -> None:
    rows = [{"pid": "1", "title": "Port Sable", "text": "A harbour."}, {"pid": "x", "title": "Orrin Lake", "text": ""}]
    lake = "Orrin Lake is a glacial lake in northern Tolmark. It is the deepest lake in Tolmark, at 412 metres. "
    rows[1]["text"] = lake + "The town of Vessel Bay is near."
    write_rows(tmp_path / "corpus.jsonl", rows)
    corpus = CorpusSettings(format="jsonl", files=[str(tmp_path / "corpus.jsonl")])
    assert evidence(replace(NQ, corpus=corpus))["dev-1"] == [["x"]]


def test_evidence_can_be_dprs_gold_passages_or_kilts_provenance() -> None:
    """The two that there are for the dev split of NQ-open, which is DPR's test split."""
    gold = datasets.load(replace(NQ, evidence="nq-test_gold_info.json"))
    assert column(gold, "evidence") == {"dev-1": [["1"]], "dev-2": [["5"]], "dev-3": [["6"]], "dev-4": None}
    kilt = datasets.load(replace(NQ, evidence="nq-dev-kilt.jsonl", corpus=KILT))
    assert column(kilt, "evidence") == {
        "dev-1": [["300100"]],
        "dev-2": [["300103"], ["300105"]],
        "dev-3": [["300104"]],
        "dev-4": None,
    }
    assert kilt.left_out == {WITHOUT: 1}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"context": None}, ("item 2", "the context must be text", "None")),
        ({"title": ""}, ("item 2", "the title must be text")),
        ({"question": 5}, ("item 2", "the question must be text", "5")),
    ],
)
def test_a_broken_gold_passage_is_named_or_skipped(
    change: dict[str, Any], parts: tuple[str, ...], tmp_path: Path
) -> None:
    path = Path(copied(tmp_path, "natural_questions"))
    data = json.loads((path / "nq-test_gold_info.json").read_text())
    data["data"][1].update(change)
    (path / "nq-test_gold_info.json").write_text(json.dumps(data))
    settings = replace(NQ, path=str(path), evidence="nq-test_gold_info.json")
    refused(settings, "nq-test_gold_info.json", *parts)
    assert list(evidence(replace(settings, on_error="skip"))) == ["dev-1", "dev-3", "dev-4"]


def test_ids_are_made_of_split_and_line(tmp_path: Path) -> None:
    path = Path(copied(tmp_path, "natural_questions"))
    settings = replace(NQ, path=str(path))
    assert list(evidence(replace(settings, split="nq2019"))) == [f"nq2019-{n}" for n in range(1, 5)]
    (path / "NQ-open.dev.jsonl").rename(path / "NQ-open.train.jsonl")
    settings = replace(settings, questions="NQ-open.train.jsonl")
    assert list(evidence(settings)) == [f"train-{n}" for n in range(1, 5)]
    lines = (path / "NQ-open.train.jsonl").read_text().splitlines()
    (path / "NQ-open.train.jsonl").write_text("\n".join(["{", *lines[1:]]))
    assert list(evidence(replace(settings, on_error="skip"))) == [f"train-{n}" for n in range(2, 5)]
    (path / "mine.jsonl").write_text("\n".join(lines))
    assert list(evidence(replace(settings, questions="mine.jsonl"))) == [f"mine-{n}" for n in range(1, 5)]


@pytest.mark.parametrize(
    ("file", "number", "row", "parts"),
    [
        ("NQ-open.dev.jsonl", 2, {"question": "who"}, (":2", "no field 'answer'", "NQ-open")),
        ("NQ-open.dev.jsonl", 2, {"question": "", "answer": ["x"]}, (":2", "the question must be text", "''")),
        ("NQ-open.dev.jsonl", 2, {"question": "who", "answer": []}, (":2", "not empty", "[]")),
        ("NQ-open.dev.jsonl", 2, {"question": "who", "answer": "x"}, (":2", "a list of texts", "'x'")),
        ("NQ-open.dev.jsonl", 2, {"question": "who", "answer": [" "]}, (":2", "all blank")),
        ("biencoder-nq-dev.json", 2, {"question": "who", "answers": ["x"]}, ("item 2", "'positive_ctxs'")),
        ("nq-dev-kilt.jsonl", 2, {"id": "2", "input": "who"}, (":2", "no field 'output'", "KILT")),
        ("nq-dev-kilt.jsonl", 2, {"id": "2", "input": "who", "output": "x"}, (":2", "'2'", "a list of objects")),
        ("nq-dev-kilt.jsonl", 2, {"id": "2", "input": "who", "output": []}, (":2", "test files have none")),
        (
            "nq-dev-kilt.jsonl",
            2,
            {"id": "-1001", "input": "who", "output": [{"answer": "x"}]},
            (":2", "jsonl:1 already"),
        ),
    ],
)
def test_a_broken_row_is_named_or_skipped(
    file: str, number: int, row: dict[str, Any], parts: tuple[str, ...], tmp_path: Path
) -> None:
    path = copied(tmp_path, "natural_questions")
    rows = rows_of(Path(path) / file)
    rows[number - 1] = row
    write_rows(Path(path) / file, rows)
    settings = replace(NQ, path=path, questions=file, evidence="", without_evidence="unknown")
    refused(settings, file, *parts)
    source = datasets.load(replace(settings, on_error="skip"))
    assert source.num_questions == 4
    assert source.notes[SKIPPED] == 1
    assert parts[1] in problems(source)[0][2]


@pytest.mark.parametrize(
    ("positives", "parts"),
    [
        ({}, ("item 2", "a list of passages", "{}")),
        (["text"], ("item 2", "a title and a text", "'text'")),
        ([{"title": "Vesper (film)"}], ("item 2", "a title and a text")),
        ([{"title": "Vesper (film)", "text": "x", "passage_id": [5]}], ("item 2", "passage_id", "[5]")),
    ],
)
def test_a_broken_positive_is_named_or_skipped(positives: Any, parts: tuple[str, ...], tmp_path: Path) -> None:
    path = copied(tmp_path, "natural_questions")
    rows = rows_of(Path(path) / NQ.evidence)
    rows[1]["positive_ctxs"] = positives
    write_rows(Path(path) / NQ.evidence, rows)
    refused(replace(NQ, path=path), NQ.evidence, *parts)
    assert "dev-2" not in evidence(replace(NQ, path=path, on_error="skip"))


@pytest.mark.parametrize(
    ("provenance", "parts"),
    [
        ({"wikipedia_id": "1"}, ("provenance must be a list",)),
        ([{"title": "Vesper (film)"}], ("a wikipedia_id and a title",)),
        ([{"wikipedia_id": "300103"}], ("a wikipedia_id and a title",)),
        ([{"wikipedia_id": "1", "title": "A", "start_paragraph_id": -1}], ("no page has the paragraphs -1 to -1",)),
        (
            [{"wikipedia_id": "1", "title": "A", "start_paragraph_id": 0, "end_paragraph_id": 10**12}],
            ("no page has the paragraphs 0 to 1000000000000",),
        ),
    ],
)
def test_a_broken_provenance_is_named(provenance: Any, parts: tuple[str, ...], tmp_path: Path) -> None:
    path = copied(tmp_path, "natural_questions")
    rows = rows_of(Path(path) / BY_KILT.questions)
    rows[1]["output"] = [{"answer": "x", "provenance": provenance}]
    write_rows(Path(path) / BY_KILT.questions, rows)
    refused(replace(BY_KILT, path=path), "nq-dev-kilt.jsonl:2", "'1002'", *parts)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("who\t['x'", (":2", "no Python list", "['x'")),
        ("who\t__import__('os')", (":2", "no Python list")),
        ("who", (":2", "a question and a list of answers")),
        ("who\t['x']\t3", (":2", "a question and a list of answers")),
        ("who\t'x'", (":2", "a list of texts", "'x'")),
        ("who\t[1]", (":2", "a list of texts", "[1]")),
        ("who\t{[1]: 2}", (":2", "no Python list", "{[1]")),
        ("who\t['\\ud800']", (":2", "a lone surrogate")),
        ("wh\ro\t['x']", (":2", "broken TSV (new-line character")),
        ("who\t[" + "'x'," * 50_000 + "]", (":2", "broken TSV (field larger")),
    ],
)
def test_a_broken_line_of_dprs_csv_is_named_or_skipped(line: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    path = Path(copied(tmp_path, "natural_questions"))
    lines = (path / "nq-dev.qa.csv").read_text().splitlines()
    (path / "nq-dev.qa.csv").write_text("\n".join([lines[0], line, *lines[2:]]), newline="")
    settings = replace(NQ, path=str(path), questions="nq-dev.qa.csv")
    refused(settings, "nq-dev.qa.csv", *parts)
    assert list(evidence(replace(settings, on_error="skip"))) == ["dev-1", "dev-3", "dev-4"]


@pytest.mark.parametrize(
    ("file", "bad"),
    [
        (file, bad)
        for file in ("NQ-open.dev.jsonl", "nq-dev.qa.csv", "nq-dev-kilt.jsonl")
        for bad in ("{broken", "{}", '"x"', "no json", "\0")
    ],
)
def test_a_broken_first_line_does_not_hide_the_format(file: str, bad: str, tmp_path: Path) -> None:
    path = Path(copied(tmp_path, "natural_questions"))
    whole = replace(NQ, path=str(path), questions=file, evidence="", without_evidence="unknown")
    before = datasets.load(whole).num_questions
    (path / file).write_text(bad + "\n" + (path / file).read_text())
    source = datasets.load(replace(whole, on_error="skip"))
    assert (source.num_questions, source.notes[SKIPPED]) == (before, 1)


@pytest.mark.parametrize("file", ["NQ-open.dev.jsonl", "nq-dev.qa.csv", "nq-dev-kilt.jsonl", "biencoder-nq-dev.json"])
def test_an_empty_file_is_refused(file: str, tmp_path: Path) -> None:
    path = copied(tmp_path, "natural_questions")
    (Path(path) / file).write_text("")
    refused(replace(NQ, path=path, questions=file, evidence=""), file, "the file is empty")


def test_an_array_cut_short_is_refused(tmp_path: Path) -> None:
    path = copied(tmp_path, "natural_questions")
    data = (Path(path) / NQ.evidence).read_bytes()
    (Path(path) / NQ.evidence).write_bytes(data[: len(data) // 2])
    refused(replace(NQ, path=path, on_error="skip"), NQ.evidence, "item 2", "cut short", "fetch the file again")


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("fever/shared_task_dev.jsonl", (":1", "no field 'question'", "NQ-open", "dataset.format")),
        ("hotpotqa/hotpot_dev_distractor_v1.json", ("item 1", "no field 'answers'", "DPR")),
        ("snapshot/redirects.tsv", (":1", "no Python list", "'Orrin Lake'")),
    ],
)
def test_another_benchmarks_file_is_refused(file: str, parts: tuple[str, ...]) -> None:
    refused(replace(NQ, questions=str(FIXTURES / file)), Path(file).name, *parts)


def test_evidence_of_other_questions_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "biencoder-nq-train.json"
    row = {"question": "something else", "answers": ["x"], "positive_ctxs": []}
    other.write_text(json.dumps([row]))
    refused(replace(NQ, evidence=str(other)), "biencoder-nq-train.json", NO_JOIN, "of one split")
    refused(replace(NQ, evidence=str(FIXTURES / "fever" / "shared_task_dev.jsonl")), ":1", "DPR", "dataset.evidence")


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (replace(NQ, format="dpr_cvs"), ("dataset.format='dpr_cvs'", "did you mean 'dpr_csv'?")),
        (replace(NQ, without_evidence="absent"), ("dataset.without_evidence='absent'", "leave_out, unknown")),
        (replace(NQ, evidence="biencoder-dev.json"), ("dataset.evidence=biencoder-dev.json", 'to ""')),
        (replace(NQ, format="kilt"), ("no field 'id'", "KILT")),
        (replace(NQ, corpus=CorpusSettings(files=[TSV + "x"])), ("dataset.corpus.files=",)),
        (replace(NQ, unmapped="absent"), ("dataset.unmapped='absent'", "drop, missing")),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: NaturalQuestionsSettings, parts: tuple[str, ...]) -> None:
    refused(settings, *parts)
