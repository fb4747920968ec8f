"""FEVER's own files: evidence as alternative sets, over its dump and over another snapshot; what is refused."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rat_ray import datasets, tables
from rat_ray.annotate.abstention import abstention_label
from rat_ray.annotate.evidence import evidence_label
from rat_ray.annotate.match import match
from rat_ray.datasets import FeverSettings
from rat_ray.datasets.fever import LABELS
from rat_ray.datasets.problems import PARTLY, UNKNOWN
from rat_ray.datasets.wikipedia import CorpusSettings
from tests.annotate.items import answered
from tests.datasets.benchmark_files import (
    FIXTURES,
    KILT,
    REDIRECTS,
    SNAPSHOT,
    column,
    copied,
    evidence,
    passages,
    problems,
    refused,
    rows_of,
    write_rows,
)

FEVER = FeverSettings(path=str(FIXTURES / "fever"))
CAFE = unicodedata.normalize("NFD", "Café_Lumen")  # so its dump writes it; the claims compose the é
SENTENCES = CorpusSettings(format="fever", files=["wiki-pages"], passages="sentences", window=1, stride=1)


def claims(folder: Path, change: Callable[[list[dict[str, Any]]], object]) -> FeverSettings:
    """The fixture with its claims changed in place."""
    path = copied(folder, "fever")
    rows = rows_of(Path(path) / FEVER.claims)
    change(rows)
    write_rows(Path(path) / FEVER.claims, rows)
    return FeverSettings(path=path)


def test_evidence_is_alternative_sets_of_whole_pages() -> None:
    source = datasets.load(FEVER)
    tables.check_table(source.questions(), tables.QUESTIONS, "questions")
    assert column(source, "evidence") == {
        "1001": [["Orrin_Lake"]],  # two annotators, one page
        "1002": [["Port_Sable"], ["Ada_Renn", "Vessel_Bay"]],
        "1003": [["Vesper_-LRB-film-RRB-", "Orrin_Lake"]],
        "1005": [[CAFE]],
        "1006": [["Signal-COLON-_Red"]],
        "1007": None,
        "1008": None,
        "1009": [["Orrin_Lake"]],
        "1010": None,
    }
    assert set(column(source, "shape").values()) == {"claim"}
    assert column(source, "answers")["1001"] == ["SUPPORTS"]
    assert column(source, "answers")["1002"] == ["REFUTES"]


def test_titles_and_sentences_are_decoded() -> None:
    known = passages(datasets.load(FEVER))
    assert len(known) == 8, "the dump's first row is no page"
    assert known["Vesper_-LRB-film-RRB-"][0] == "Vesper (film)"
    assert known["Signal-COLON-_Red"][0] == "Signal: Red"
    assert known[CAFE][0] == unicodedata.normalize("NFC", "Café Lumen")
    assert known["Ada_Renn"][1].startswith("Ada Renn ( 1840 -- 1912 ) was an engineer")


def test_evidence_that_is_not_in_the_dump_is_missing_counted_and_listed() -> None:
    source = datasets.load(FEVER)
    assert source.notes[UNKNOWN] == 3
    listed = {name: detail for kind, name, detail in problems(source) if kind == "unmapped"}
    assert set(listed) == {"1007", "1008", "1010"}
    assert "Quill_Island" in listed["1007"]
    with_redirects = replace(FEVER, corpus=replace(FEVER.corpus, redirects=REDIRECTS))
    assert evidence(with_redirects)["1008"] == [["Orrin_Lake"]]


def test_drop_keeps_the_alternatives_that_are_there() -> None:
    source = datasets.load(replace(FEVER, unmapped="drop"))
    found = column(source, "evidence")
    assert found["1010"] == [["Port_Sable"]]
    assert (source.notes[PARTLY], source.notes[UNKNOWN]) == (1, 2)
    assert found["1007"] is None, "with no alternative left, R is missing and never 0"


def test_windows_of_sentences_need_the_sentences() -> None:
    found = evidence(replace(FEVER, corpus=SENTENCES))
    assert found["1001"] == [["Orrin_Lake#1"]]
    assert found["1003"] == [["Vesper_-LRB-film-RRB-#1", "Orrin_Lake#0"]]
    assert found["1002"] == [["Port_Sable#2"], ["Ada_Renn#1", "Vessel_Bay#1"]]
    assert {frozenset(each) for each in found["1009"]} == {frozenset({"Orrin_Lake#0", "Orrin_Lake#2"})}


def test_over_another_snapshot_a_page_is_enough_unless_the_dump_gives_the_sentences() -> None:
    by_page = datasets.load(replace(FEVER, corpus=SNAPSHOT))
    assert column(by_page, "evidence")["1001"] == [["1"], ["2"]]
    assert any("any passage counts" in note for note in by_page.notes)
    by_text = datasets.load(replace(FEVER, corpus=SNAPSHOT, wiki_pages=["wiki-pages"]))
    found = column(by_text, "evidence")
    assert found["1001"] == [["1"]]
    assert found["1005"] == [["6"]]
    assert found["1009"] == [["1", "2"]], "the second sentence is cut in two by the passages"
    assert found["1003"] == [["5", "1"]]
    assert by_text.passages_digest == by_page.passages_digest
    assert [count for note, count in by_text.notes.items() if "any passage counts" in note] == [1], "Lake_Orrin"
    assert by_text.notes["evidence sentences whose page is not in dataset.wiki_pages (known by page only)"] == 3


@pytest.mark.parametrize(
    ("numbers", "over_dump", "over_snapshot"),
    [
        ([0], [["Oslo#0"]], [["1"]]),
        ([0, 2], [["Oslo#0", "Oslo#2"]], [["1", "2"]]),
        ([0, 1], [["Oslo#0"]], [["1"]]),  # a blank line has no text that a passage could hold
        ([1], None, None),
        ([9], None, None),
        ([0, 9], None, None),
    ],
)
def test_a_sentence_that_its_page_lacks_makes_r_missing_over_any_corpus(
    tmp_path: Path, numbers: list[int], over_dump: Any, over_snapshot: Any
) -> None:
    """Not the page as a whole, nor the other sentences alone: R would be 1 too often."""
    lines = "0\tOslo is the largest city of Norway .\n1\t\n2\tIt has a fjord and many islands .\n3\t"
    (tmp_path / "wiki-pages").mkdir()
    write_rows(tmp_path / "wiki-pages" / "wiki-001.jsonl", [{"id": "Oslo", "text": "", "lines": lines}])
    text = "1\tOslo is the largest city of Norway.\tOslo\n2\tIt has a fjord and many islands.\tOslo\n"
    (tmp_path / "psgs.tsv").write_text(f"id\ttext\ttitle\n{text}")
    rows = [[1, 2, "Oslo", number] for number in numbers]
    write_rows(tmp_path / FEVER.claims, [{"id": 1, "label": "SUPPORTS", "claim": "x", "evidence": [rows]}])
    dump = CorpusSettings(format="fever", files=["wiki-pages"], passages="sentences", window=1, stride=1)
    settings = FeverSettings(path=str(tmp_path), corpus=dump)
    snapshot = CorpusSettings(format="dpr", files=["psgs.tsv"])
    assert evidence(settings) == evidence(replace(settings, wiki_pages=["wiki-pages"])) == {"1": over_dump}
    assert evidence(replace(settings, corpus=snapshot, wiki_pages=["wiki-pages"])) == {"1": over_snapshot}


def test_over_kilts_pages() -> None:
    found = evidence(replace(FEVER, corpus=KILT))
    assert found["1001"] == [["300100"]]
    assert found["1003"] == [["300103", "300100"]]
    assert found["1006"] is None, "KILT's fixture has no such page"


def test_not_enough_info_is_left_out_and_counted() -> None:
    source = datasets.load(FEVER)
    assert source.left_out == {"NOT ENOUGH INFO (include_nei=true keeps them)": 2}
    assert source.num_questions == 9


def test_with_not_enough_info_abstaining_is_adherent_and_no_answer_counts_as_right() -> None:
    source = datasets.load(replace(FEVER, include_nei=True))
    assert source.left_out == {}
    [row] = [row for row in source.questions().to_pylist() if row["question_id"] == "1004"]
    assert (row["answers"], row["evidence"], row["shape"]) == ([], [], "claim")
    assert evidence_label(row["evidence"], ["Milo_Hask"]) == 0, "R = 0 whatever was retrieved"
    assert abstention_label("NOT ENOUGH INFORMATION", "NOT ENOUGH INFORMATION") == 1
    for said in (*LABELS, "The passages neither support nor refute this.", "SUPPORTS, I would say", ""):
        assert match(answered(said, row["answers"], row["shape"])).label != 1


def test_the_limit_keeps_the_first() -> None:
    source = datasets.load(replace(FEVER, limit=2))
    assert list(column(source, "evidence")) == ["1001", "1002"]
    assert source.left_out["over the limit"] == 7


def broken(number: int, **fields: Any) -> Callable[[list[dict[str, Any]]], object]:
    return lambda rows: rows[number - 1].update(fields)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (broken(3, label="SUPPORTED"), ("dev.jsonl:3", "'SUPPORTED'", "did you mean 'SUPPORTS'?")),
        (broken(3, label=None), ("dev.jsonl:3", "claim 1003", "label None", "SUPPORTS")),
        (lambda rows: rows[2].pop("label"), ("dev.jsonl:3", "no field 'label'", "dataset.claims", "train or dev")),
        (lambda rows: rows[2].pop("claim"), ("dev.jsonl:3", "no field 'claim'")),
        (lambda rows: rows[2].pop("evidence"), ("dev.jsonl:3", "no field 'evidence'")),
        (broken(3, claim="  "), ("dev.jsonl:3", "the claim must be text", "'  '")),
        (broken(3, id=None), ("dev.jsonl:3", "the claim's id", "None")),
        (broken(3, id=1001), ("dev.jsonl:3", "'1001'", "dev.jsonl:1 already")),
        (broken(3, evidence=[]), ("dev.jsonl:3", "claim 1003", "not empty", "[]")),
        (broken(3, evidence=[[]]), ("dev.jsonl:3", "claim 1003", "not empty", "[]")),
        (broken(3, evidence=[[[1, 2, None, None]]]), ("dev.jsonl:3", "claim 1003", "[1, 2, None, None]")),
        (broken(3, evidence=[[[1, 2, "Orrin_Lake"]]]), ("dev.jsonl:3", "sentence number", "[1, 2, 'Orrin_Lake']")),
        (broken(3, evidence=[[[1, 2, "Orrin_Lake", True]]]), ("dev.jsonl:3", "sentence number")),
        (broken(3, evidence="Orrin_Lake"), ("dev.jsonl:3", "a list of sets", "'Orrin_Lake'")),
    ],
)
def test_a_broken_claim_is_named_or_skipped(change: Any, parts: tuple[str, ...], tmp_path: Path) -> None:
    settings = claims(tmp_path, change)
    refused(settings, *parts)
    source = datasets.load(replace(settings, on_error="skip"))
    assert source.num_questions == 8
    assert source.notes["broken rows skipped (on_error=skip)"] == 1
    [(_, _, detail)] = [row for row in problems(source) if row[0] == "skipped"]
    assert parts[1] in detail


def test_a_line_that_is_no_json_is_named_or_skipped(tmp_path: Path) -> None:
    path = Path(copied(tmp_path, "fever"))
    lines = (path / FEVER.claims).read_text().splitlines()
    lines[4] = lines[4][:40]
    (path / FEVER.claims).write_text("\n".join(lines))
    refused(FeverSettings(path=str(path)), "shared_task_dev.jsonl:5", "broken JSON")
    source = datasets.load(FeverSettings(path=str(path), on_error="skip"))
    assert "1005" not in column(source, "evidence")
    assert source.notes["broken rows skipped (on_error=skip)"] == 1


def test_a_broken_page_is_named_or_skipped(tmp_path: Path) -> None:
    path = Path(copied(tmp_path, "fever"))
    with (path / "wiki-pages" / "wiki-002.jsonl").open("a") as file:
        file.write('{"id": "Tolm", "text": "x"}\n')
    refused(FeverSettings(path=str(path)), "wiki-002.jsonl:6", "'lines'")
    assert datasets.load(FeverSettings(path=str(path), on_error="skip")).num_passages == 8


@pytest.mark.parametrize("contents", ["", "\n\n"])
def test_an_empty_file_is_refused(contents: str, tmp_path: Path) -> None:
    path = copied(tmp_path, "fever")
    (Path(path) / FEVER.claims).write_text(contents)
    refused(FeverSettings(path=path), "shared_task_dev.jsonl", "the file is empty")


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        ("natural_questions/NQ-open.dev.jsonl", (":1", "not a row of FEVER", "dataset.claims")),
        ("hotpotqa/hotpot_dev_distractor_v1.jsonl", (":1", "not a row of FEVER")),
        ("hotpotqa/hotpot_dev_distractor_v1.json", (":1", "broken JSON")),
        ("fever/wiki-pages/wiki-001.jsonl", (":1", "not a row of FEVER")),
    ],
)
def test_another_benchmarks_file_is_refused(file: str, parts: tuple[str, ...]) -> None:
    refused(replace(FEVER, claims=str(FIXTURES / file)), Path(file).name, *parts)
    if "broken JSON" not in parts:
        refused(replace(FEVER, claims=str(FIXTURES / file), on_error="skip"), "no question is left", Path(file).name)


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (replace(FEVER, claims="dev.jsonl"), ("dataset.claims=dev.jsonl", "shared_task_dev.jsonl")),
        (replace(FEVER, wiki_pages=["wiki-page"]), ("dataset.wiki_pages=wiki-page",)),
        (replace(FEVER, corpus=CorpusSettings(files=["wiki"])), ("dataset.corpus.files=wiki",)),
        (replace(FEVER, path="/nowhere"), ("dataset.path=/nowhere",)),
        (replace(FEVER, unmapped="mising"), ("dataset.unmapped='mising'", "did you mean 'missing'?")),
        (replace(FEVER, on_error="ignore"), ("dataset.on_error='ignore'", "skip, stop")),
        (replace(FEVER, limit=-1), ("dataset.limit=-1",)),
        (replace(FEVER, name="my fever"), ("dataset.name='my fever'",)),
        (replace(FEVER, corpus=CorpusSettings(format="fevr")), ("corpus.format='fevr'", "did you mean 'fever'?")),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: FeverSettings, parts: tuple[str, ...]) -> None:
    refused(settings, *parts)
