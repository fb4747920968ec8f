"""The generic loader: what it reads, what it makes of it, and how it refuses what it cannot read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import datasets, tables
from rat_ray.datasets import FilesSettings
from rat_ray.datasets.fieldnames import FieldNames
from rat_ray.errors import InputError

CORPUS: list[dict[str, Any]] = [
    {"_id": "p1", "title": "Oslo", "text": "Oslo is the capital of Norway."},
    {"_id": "p2", "title": "Bergen", "text": "Bergen lies on the coast."},
    {"_id": "p3", "title": "", "text": ""},
]
QUESTIONS: list[dict[str, Any]] = [
    {"qid": "q1", "question": "Capital of Norway?", "answer": "Oslo"},
    {"qid": "q2", "question": "Where is Bergen?", "answer": "on the coast"},
    {"qid": "q3", "question": "Who founded Atlantis?", "answer": None},
]
QRELS = "query-id\tcorpus-id\tscore\nq1\tp1\t1\nq2\tp1\t2\nq2\tp2\t1\nq3\tp3\t0\n"


def lines(rows: Iterable[object]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def write(
    folder: Path, corpus: object = CORPUS, questions: object = QUESTIONS, qrels: str | None = QRELS
) -> FilesSettings:
    """A dataset of these contents (rows, or a file's text) in `folder`."""
    for name, rows in (("corpus.jsonl", corpus), ("questions.jsonl", questions)):
        (folder / name).write_text(rows if isinstance(rows, str) else lines(rows))  # type: ignore[arg-type]
    if qrels is not None:
        (folder / "qrels.tsv").write_text(qrels)
    return FilesSettings(path=str(folder), qrels_file="" if qrels is None else "qrels.tsv")


def evidence(settings: FilesSettings) -> dict[str, Any]:
    table = datasets.load(settings).questions()
    return dict(zip(table["question_id"].to_pylist(), table["evidence"].to_pylist(), strict=True))


def refused(settings: FilesSettings, *parts: str) -> None:
    """The dataset is refused, and the message holds each of `parts`."""
    with pytest.raises(InputError) as caught:
        datasets.load(settings)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def test_tables_fit_their_schemas(tmp_path: Path) -> None:
    source = datasets.load(write(tmp_path))
    passages = pa.concat_tables(source.passages())
    tables.check_table(passages, tables.PASSAGES, "passages")
    tables.check_table(source.questions(), tables.QUESTIONS, "questions")
    assert passages["passage_id"].to_pylist() == ["p1", "p2", "p3"]
    assert source.num_passages == 3
    assert source.questions()["answers"].to_pylist() == [["Oslo"], ["on the coast"]]
    assert source.left_out == {"no qrels": 1}
    assert source.notes == {"passages without any text": 1, "questions without accepted answers": 1}


def test_several_relevant_passages_are_all_needed_or_any(tmp_path: Path) -> None:
    settings = write(tmp_path)
    assert evidence(settings) == {"q1": [["p1"]], "q2": [["p1", "p2"]]}
    assert evidence(replace(settings, qrels="any")) == {"q1": [["p1"]], "q2": [["p1"], ["p2"]]}
    assert evidence(replace(settings, min_score=2)) == {"q2": [["p1"]]}


@pytest.mark.parametrize(("rule", "expected"), [("unknown", None), ("absent", [])])
def test_questions_without_qrels_can_stay(tmp_path: Path, rule: str, expected: object) -> None:
    settings = replace(write(tmp_path), without_qrels=rule)
    assert evidence(settings)["q3"] == expected
    assert datasets.load(settings).left_out == {}


def test_without_a_qrels_file_evidence_is_unknown(tmp_path: Path) -> None:
    assert evidence(write(tmp_path, qrels=None)) == {"q1": None, "q2": None, "q3": None}


def test_nested_evidence_goes_before_the_qrels(tmp_path: Path) -> None:
    nested: list[object] = [[["p1", "p2"], ["p3"]], ["p1", "p2"], "p2", None, [], [["p1", "p1"], ["p1"]]]
    rows = [{"qid": f"n{index}", "question": "?", "evidence": value} for index, value in enumerate(nested)]
    rows.append({"qid": "q1", "question": "Capital of Norway?"})
    assert evidence(write(tmp_path, questions=rows)) == {
        "n0": [["p1", "p2"], ["p3"]],
        "n1": [["p1", "p2"]],
        "n2": [["p2"]],
        "n3": None,
        "n4": [],
        "n5": [["p1"]],
        "q1": [["p1"]],
    }


def test_the_evidence_field_can_be_named_or_ignored(tmp_path: Path) -> None:
    rows = [{"qid": "q1", "question": "?", "evidence": [["page", 0]], "gold": ["p2"]}]
    settings = write(tmp_path, questions=rows)
    assert evidence(replace(settings, fields=FieldNames(evidence="gold"))) == {"q1": [["p2"]]}
    assert evidence(replace(settings, fields=FieldNames(evidence="-"))) == {"q1": [["p1"]]}
    refused(settings, "questions.jsonl:1", "'q1'", "page", "in no corpus")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        (None, None),
        ([], []),
        (1912, ["1912"]),
        (["a", None, " "], ["a"]),
        ("", None),
    ],
)
def test_answers_come_in_many_forms(tmp_path: Path, value: object, expected: object) -> None:
    settings = write(tmp_path, questions=[{"qid": "q1", "question": "?", "answers": value}])
    assert datasets.load(settings).questions()["answers"].to_pylist() == [expected]


def test_claims_take_their_label_as_the_answer_and_a_shape_is_stamped(tmp_path: Path) -> None:
    settings = write(
        tmp_path, questions=[{"id": 1, "claim": "Oslo is in Norway.", "label": "SUPPORTS"}], qrels="1\t0\tp1\t1\n"
    )
    table = datasets.load(replace(settings, shape="claim")).questions()
    assert table.to_pylist() == [
        {
            "question_id": "1",
            "question": "Oslo is in Norway.",
            "answers": ["SUPPORTS"],
            "evidence": [["p1"]],
            "shape": "claim",
        }
    ]


@pytest.mark.parametrize(
    "qrels",
    [
        "q1 0 p1 1\nq2 0 p2 0\n",
        "q1\tp1\t1\n",
        "query_id\tpid\tscore\nq1\tp1\t1.0\n",
        "score\tcorpus-id\tquery-id\n1\tp1\tq1\n",
        "query-id\tcorpus-id\tscore\r\nq1\tp1\t1\r\nq1\tp1\t1\r\n",
    ],
)
def test_qrels_come_with_and_without_a_header(tmp_path: Path, qrels: str) -> None:
    assert evidence(write(tmp_path, qrels=qrels)) == {"q1": [["p1"]]}


def test_gzipped_files_are_found_and_change_no_digest(tmp_path: Path) -> None:
    settings = write(tmp_path)
    plain = datasets.load(settings)
    passages = list(plain.passages())
    for name in ("corpus.jsonl", "questions.jsonl", "qrels.tsv"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).unlink()
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
    zipped = datasets.load(settings)
    assert zipped.digest == plain.digest
    assert zipped.questions() == plain.questions()
    assert list(zipped.passages()) == passages


def test_digests_depend_on_contents_and_meaning_only(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    one, same = datasets.load(write(first)), datasets.load(write(second))
    assert one.digest == same.digest
    other = datasets.load(replace(write(first), qrels="any"))
    assert other.passages_digest == one.passages_digest
    assert other.digest != one.digest
    changed = datasets.load(write(second, corpus=[{**CORPUS[0], "text": "Another."}, *CORPUS[1:]]))
    assert changed.passages_digest != one.passages_digest
    assert changed.questions_digest == one.questions_digest


def test_corpora_are_joined_in_the_order_given(tmp_path: Path) -> None:
    settings = write(tmp_path)
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.jsonl").write_text(lines([{"pid": 2, "text": "two"}]))
    (tmp_path / "more" / "a.jsonl").write_text(lines([{"pid": 1, "text": "one"}]))
    source = datasets.load(replace(settings, corpora=["more/*.jsonl", str(tmp_path / "corpus.jsonl")]))
    passages = pa.concat_tables(source.passages())
    assert passages["passage_id"].to_pylist() == ["1", "2", "p1", "p2", "p3"]
    assert passages["title"].to_pylist() == [None, None, "Oslo", "Bergen", ""]


def test_a_missing_answer_as_pandas_writes_it_is_none(tmp_path: Path) -> None:
    nan, inf = float("nan"), float("inf")
    rows = [{"id": "q1", "question": "?", "answers": nan}, {"id": "q2", "question": "?", "answers": [nan, "b", -inf]}]
    source = datasets.load(write(tmp_path, questions=rows, qrels=None))
    assert source.questions()["answers"].to_pylist() == [None, ["b"]]
    assert source.notes["blank entries among accepted answers (dropped)"] == 3
    assert source.notes["questions without accepted answers"] == 1


def test_a_limit_keeps_the_first_and_counts_the_rest(tmp_path: Path) -> None:
    source = datasets.load(replace(write(tmp_path), limit=1))
    assert source.questions()["question_id"].to_pylist() == ["q1"]
    assert source.left_out == {"no qrels": 1, "over the limit": 1}


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rat_ray.datasets.corpus.BATCH_ROWS", 2)
    assert [batch.num_rows for batch in datasets.load(write(tmp_path)).passages()] == [2, 1]


def test_a_corpus_that_changes_between_check_and_use_is_found_out(tmp_path: Path) -> None:
    source = datasets.load(write(tmp_path))
    (tmp_path / "corpus.jsonl").write_text(lines(CORPUS[:2]))
    with pytest.raises(InputError, match="has changed"):
        list(source.passages())


def test_qrels_of_other_questions_are_counted(tmp_path: Path) -> None:
    source = datasets.load(write(tmp_path, qrels=QRELS + "q9\tp1\t1\nq9\tnowhere\t1\n"))
    assert source.notes["qrels rows of questions that are not in the questions file"] == 2


# Bad input: each message names the place, the value and a way on.


def test_folders_and_files_that_are_missing(tmp_path: Path) -> None:
    settings = write(tmp_path)
    refused(replace(settings, path="???"), "dataset.path", "is not set")
    refused(replace(settings, path=str(tmp_path / "no")), "no such folder")
    refused(replace(settings, path=str(tmp_path / "qrels.tsv")), "this is a file")
    refused(replace(settings, questions="question.jsonl"), "question.jsonl", "did you mean 'questions.jsonl'?")
    refused(replace(settings, qrels_file="judgements"), "judgements", 'to "" if there are none')
    refused(replace(settings, corpora=["*.json"]), "*.json", "no file matches")
    refused(replace(settings, corpora=[]), "dataset.corpora is empty")


@pytest.mark.parametrize("name", ["corpus.jsonl", "questions.jsonl", "qrels.tsv"])
@pytest.mark.parametrize("text", ["", "\n \n"])
def test_empty_files(tmp_path: Path, name: str, text: str) -> None:
    settings = write(tmp_path)
    (tmp_path / name).write_text(text)
    refused(settings, name, "is empty")


@pytest.mark.parametrize("name", ["corpus.jsonl", "questions.jsonl"])
@pytest.mark.parametrize(
    ("line", "part"),
    [
        ('{"_id": "x", "text"', "broken JSON"),
        ('{"_id": "x", "text": ' + "[" * 99_999, "broken JSON"),
        ("[1, 2]", "expected a JSON object"),
        ('{"_id": "x", "text": "\\ud800"}', "surrogate"),
    ],
)
def test_broken_lines(tmp_path: Path, name: str, line: str, part: str) -> None:
    settings = write(tmp_path)
    with (tmp_path / name).open("a") as file:
        file.write(f"\n{line}\n")
    refused(settings, f"{name}:5", part)


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    settings = write(tmp_path)
    with (tmp_path / "corpus.jsonl").open("ab") as file:
        file.write('{"_id": "p4", "text": "Malmö"}\n'.encode("latin-1"))
    refused(settings, "corpus.jsonl:4", "not valid UTF-8")


def test_a_gzip_file_that_breaks_off(tmp_path: Path) -> None:
    settings = write(tmp_path)
    data = gzip.compress(lines({"_id": f"p{n}", "text": str(n * 7919)} for n in range(1, 3000)).encode())
    (tmp_path / "corpus.jsonl").write_bytes(data[: len(data) // 2])
    refused(settings, "corpus.jsonl", "break off")


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([{"_id": "a", "txet": "x"}], ("corpus.jsonl:1", "no field 'text'", "did you mean 'txet'?", "fields.text")),
        ([{"_id": "a", "text": "x"}, {"_id": "b"}], ("corpus.jsonl:2", "no field 'text'")),
        (
            [{"_id": "a", "text": "x"}, {"id": "b", "text": "x"}],
            ("corpus.jsonl:2", "no field '_id'", "did you mean 'id'?"),
        ),
        ([{"_id": 1, "text": "x"}, {"_id": "1", "text": "x"}], ("corpus.jsonl:2", "'1'", "second time")),
        ([{"_id": 1, "text": "x"}, {"_id": 1.0, "text": "x"}], ("corpus.jsonl:2", "'1'", "second time")),
        ([{"_id": " ", "text": "x"}], ("corpus.jsonl:1", "passage id is empty")),
        ([{"_id": None, "text": "x"}], ("corpus.jsonl:1", "found None")),
        ([{"_id": True, "text": "x"}], ("corpus.jsonl:1", "found True")),
        ([{"_id": "a", "text": ["x"]}], ("corpus.jsonl:1", "'a'", "must be a string")),
    ],
)
def test_bad_passages(tmp_path: Path, rows: list[object], parts: tuple[str, ...]) -> None:
    refused(write(tmp_path, corpus=rows), *parts)


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        ([{"qid": "q1", "qestion": "x"}], ("questions.jsonl:1", "no field 'question'", "did you mean 'qestion'?")),
        ([{"qid": "q1", "question": "  "}], ("questions.jsonl:1", "'q1'", "empty")),
        ([{"qid": "q1", "question": None}], ("questions.jsonl:1", "'q1'", "empty")),
        ([{"qid": 1, "question": "a"}, {"qid": "1", "question": "b"}], ("questions.jsonl:2", "'1'", "line 1")),
        (
            [{"qid": "q1", "question": "a", "evidence": [["p1", "p7"]]}],
            ("questions.jsonl:1", "'q1'", "'p7'", "no corpus"),
        ),
        ([{"qid": "q1", "question": "a", "evidence": [[]]}], ("questions.jsonl:1", "'q1'", "not empty")),
        ([{"qid": "q1", "question": "a", "evidence": [["p1"], "p2"]}], ("questions.jsonl:1", "'q1'", "list of sets")),
        ([{"qid": "q1", "question": "a", "answers": [{"text": "x"}]}], ("questions.jsonl:1", "'q1'", "must be text")),
        (
            [{"qid": "q1", "question": "a", "shape": "two-hop"}],
            ("questions.jsonl:1", "'q1'", "did you mean 'two_hop'?"),
        ),
    ],
)
def test_bad_questions(tmp_path: Path, rows: list[object], parts: tuple[str, ...]) -> None:
    refused(write(tmp_path, questions=rows), *parts)


@pytest.mark.parametrize(
    ("qrels", "parts"),
    [
        ("query-id\tcorpus-id\tscore\nq1\tp9\t1\n", ("qrels.tsv", "'p9'", "line 2", "no corpus")),
        ("query-id\tcorpus-id\tscore\nq1\tp1\n", ("qrels.tsv:2", "expected 3 columns")),
        ("query-id\tcorpus-id\tscore\nq1\tp1\thigh\n", ("qrels.tsv:2", "'high'")),
        ("query-id\tcorpsid\tscore\nq1\tp1\t1\n", ("qrels.tsv:1", "no column 'corpus-id'", "did you mean 'corpsid'?")),
        ("q1\tp1\t1\nq1\tp1\t0\n", ("qrels.tsv:2", "'q1'", "'p1'", "scored 1 before, 0 here")),
        ("q1\t1\n", ("qrels.tsv:1", "3 (BEIR) or 4 (TREC)")),
        ("x1\tp1\t1\n", ("qrels.tsv", "none of its 1 questions", "'x1'")),
        ("q1\tp1\t0\n", ("no question is left", "no qrels")),
    ],
)
def test_bad_qrels(tmp_path: Path, qrels: str, parts: tuple[str, ...]) -> None:
    refused(write(tmp_path, qrels=qrels), *parts)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"qrels": "al"}, ("dataset.qrels='al'", "did you mean 'all'?")),
        ({"without_qrels": "leaveout"}, ("did you mean 'leave_out'?",)),
        ({"shape": "claims"}, ("did you mean 'claim'?",)),
        ({"limit": -1}, ("dataset.limit=-1",)),
        ({"min_score": 0}, ("dataset.min_score=0",)),
        ({"name": "a/b"}, ("dataset.name='a/b'",)),
        ({"name": "12"}, ("dataset.name='12'",)),
        ({"kind": "file"}, ("dataset.kind='file'", "did you mean 'files'?")),
        ({"fields": FieldNames(answers="anwser")}, ("no row has the field 'anwser'", "did you mean 'answer'?")),
        ({"fields": FieldNames(title="titel")}, ("no row has the field 'titel'", "did you mean 'title'?")),
        ({"fields": FieldNames(text="-")}, ("fields.text",)),
        ({"format": "bier"}, ("format='bier'",)),
        ({"unmapped": "mising"}, ("dataset.unmapped='mising'", "did you mean 'missing'?")),
        ({"on_error": "skp"}, ("on_error='skp'", "did you mean 'skip'?")),
    ],
)
def test_bad_settings(tmp_path: Path, change: dict[str, Any], parts: tuple[str, ...]) -> None:
    refused(replace(write(tmp_path), **change), *parts)


# Rows that are skipped, evidence by page, evidence that no corpus has, BEIR's own names.


def test_skipping_leaves_out_the_broken_rows_of_every_file_and_lists_them(tmp_path: Path) -> None:
    broken = '{"_id": "p9"\n'
    settings = write(tmp_path, lines(CORPUS) + broken, lines(QUESTIONS[:2]) + broken, QRELS + "q1\tp1\thigh\n")
    refused(settings, "broken JSON")
    source = datasets.load(replace(settings, on_error="skip"))
    assert source.num_passages == 3
    assert source.questions().num_rows == 2
    assert [Path(place).name for place in source.problems()["place"].to_pylist()] == [
        "questions.jsonl:3",
        "qrels.tsv:6",
        "corpus.jsonl:4",
    ]
    assert source.notes["broken rows skipped (on_error=skip)"] == 3
    tables.check_table(source.problems(), tables.PROBLEMS, "problems")


def test_a_row_that_is_skipped_settles_no_name(tmp_path: Path) -> None:
    """Of a field that goes by several names, the first row that can be read says which."""
    bad = [{"id": None, "content": 3, "title": "x"}]
    questions = [{"question_id": "", "query": "?"}, *QUESTIONS]
    settings = write(tmp_path, corpus=[*bad, *CORPUS], questions=questions, qrels=None)
    refused(settings, "questions.jsonl:1", "is empty")
    source = datasets.load(replace(settings, on_error="skip"))
    assert (source.num_passages, source.num_questions) == (3, 3)
    assert source.notes["broken rows skipped (on_error=skip)"] == 2


def test_skipping_does_not_hide_a_field_that_is_in_no_row(tmp_path: Path) -> None:
    settings = replace(write(tmp_path, corpus=[{"_id": "a", "txet": "x"}]), on_error="skip")
    refused(settings, "corpus.jsonl: no row could be read", "did you mean 'txet'?")
    settings = replace(write(tmp_path, questions=[{"qid": "a", "qestion": "x"}]), on_error="skip")
    refused(settings, "questions.jsonl: no row could be read", "did you mean 'qestion'?")


PAIRS: list[object] = [[["oslo", 0], ["oslo", 3]], [["Bergen", None], ["Oslo", 1]], [["Bergen", 0]], [["Bergen", 2]]]


def test_evidence_can_be_pairs_of_title_and_sentence(tmp_path: Path) -> None:
    corpus = [*CORPUS, {"_id": "p4", "title": "Oslo", "text": "Oslo is cold."}]
    rows = [{"qid": name, "question": "?", "evidence": PAIRS} for name in ("q0", "q1")]
    # Of q1 the qrels say which of Oslo's passages is relevant, and that none of Bergen's is.
    settings = replace(write(tmp_path, corpus=corpus, questions=rows), unmapped="drop")
    assert evidence(settings) == {"q0": [["p1"], ["p4"], ["p2", "p1"], ["p2", "p4"], ["p2"]], "q1": [["p1"]]}
    assert evidence(replace(settings, unmapped="missing"))["q1"] is None
    refused(replace(settings, unmapped="stop"), "questions.jsonl:2", "'q1'", "no passage of page 'Bergen'")


@pytest.mark.parametrize("pair", [["Oslo"], ["Oslo", 1, 2], [3, 1], ["Oslo", "first"], ["Oslo", True], ["", 1]])
def test_pairs_that_are_none(tmp_path: Path, pair: list[object]) -> None:
    rows = [{"qid": "q1", "question": "?", "evidence": [[["Oslo", 0], pair]]}]
    refused(write(tmp_path, questions=rows), "questions.jsonl:1", "'q1'", "must be [title, sentence]")
    rows[0]["evidence"] = [["p1", ["Oslo", 0]]]
    refused(write(tmp_path, questions=rows), "must be a list of sets")


def test_evidence_that_no_corpus_has_can_make_r_missing_or_be_dropped(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"qid": "q0", "question": "?", "evidence": [["p1"], ["p2", "p8"]]}, *QUESTIONS]
    settings = write(tmp_path, questions=rows, qrels=QRELS + "q2\tp9\t1\n")
    refused(settings, "'q0'", "'p8'", "in no corpus", "dataset.unmapped=missing")
    missing = replace(settings, unmapped="missing")
    assert evidence(missing) == {"q0": None, "q1": [["p1"]], "q2": None}
    assert datasets.load(missing).problems()["id"].to_pylist() == ["q0", "q2"]
    assert evidence(replace(settings, unmapped="drop")) == {"q0": [["p1"]], "q1": [["p1"]], "q2": None}
    any_of = replace(settings, unmapped="drop", qrels="any")
    assert evidence(any_of) == {"q0": [["p1"]], "q1": [["p1"]], "q2": [["p1"], ["p2"]]}


def test_a_folder_as_beir_lays_it_out_needs_no_names(tmp_path: Path) -> None:
    settings = write(tmp_path)
    expected = evidence(settings)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels.tsv").rename(tmp_path / "qrels" / "test.tsv")
    (tmp_path / "questions.jsonl").rename(tmp_path / "queries.jsonl")
    assert evidence(settings) == expected
    refused(replace(settings, questions="other.jsonl"), "dataset.questions=other.jsonl")
    refused(replace(settings, qrels_file="dev.tsv"), "dataset.qrels_file=dev.tsv")
    (tmp_path / "queries.jsonl").unlink()
    refused(settings, "questions.jsonl", "nor questions.jsonl.gz or queries.jsonl")


def test_corpora_may_be_in_any_format(tmp_path: Path) -> None:
    settings = write(tmp_path)
    (tmp_path / "psgs_w100.tsv").write_text("id\ttext\ttitle\np1\tOslo is the capital.\tOslo\np2\tx\tBergen\n")
    source = datasets.load(replace(settings, corpora=["psgs_w100.tsv"]))
    assert source.num_passages == 2
    (tmp_path / "wiki").mkdir()
    page = {"id": "p1", "text": "", "lines": "0\tOslo is .\n1\tIt has .\n2\tThe end ."}
    (tmp_path / "wiki" / "wiki-001.jsonl").write_text(lines([page, {**page, "id": "p2"}]))
    cut = replace(settings, corpora=["wiki"], passages="sentences", window=2, stride=2)
    # An id of a page, too, is met by any of its passages.
    assert evidence(replace(cut, qrels="any"))["q1"] == [["p1#0-1"], ["p1#2"]]
