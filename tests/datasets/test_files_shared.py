"""The generic loader on real data: three datasets against the three corpora joined (skipped where they are absent)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import datasets, tables
from rat_ray.datasets import FilesSettings, Source

CORPORA = ("hotpotqa", "nq_open", "fever")


def settings(shared_data: Path, name: str, **more: object) -> FilesSettings:
    corpora = [str(shared_data / each / "corpus.jsonl") for each in CORPORA]
    return FilesSettings(name=name, path=str(shared_data / name), corpora=corpora, **more)  # type: ignore[arg-type]


def checked(source: Source) -> pa.Table:
    questions = source.questions()
    tables.check_table(questions, tables.QUESTIONS, source.name)
    assert source.num_passages == 14_812
    assert questions["answers"].null_count == 0
    assert questions["evidence"].null_count == 0
    return questions


def set_sizes(questions: pa.Table) -> set[tuple[int, ...]]:
    """The shapes of the evidence: for each question the sizes of its alternative sets."""
    return {tuple(len(needed) for needed in sets) for sets in questions["evidence"].to_pylist()}


def test_hotpotqa_needs_all(shared_data: Path) -> None:
    questions = checked(datasets.load(settings(shared_data, "hotpotqa", qrels="all", shape="two_hop")))
    assert questions.num_rows == 689
    assert set_sizes(questions) == {(2,)}
    assert {len(answers) for answers in questions["answers"].to_pylist()} == {1}


def test_nq_open_needs_any(shared_data: Path) -> None:
    questions = checked(datasets.load(settings(shared_data, "nq_open", qrels="any", shape="open")))
    assert questions.num_rows == 2655
    assert set_sizes(questions) == {(1,)}


def test_nq_open_silver_qrels_leave_many_out(shared_data: Path) -> None:
    source = datasets.load(settings(shared_data, "nq_open", qrels="any", qrels_file="qrels_silver.tsv"))
    assert checked(source).num_rows == 739
    assert source.left_out == {"no qrels": 1916}


def test_fever_leaves_out_claims_without_qrels(shared_data: Path) -> None:
    source = datasets.load(settings(shared_data, "fever", questions="claims.jsonl", qrels="any", shape="claim"))
    questions = checked(source)
    assert questions.num_rows == 588
    assert source.left_out == {"no qrels": 402}
    assert {answers[0] for answers in questions["answers"].to_pylist()} == {"SUPPORTS", "REFUTES"}
    assert all(size == 1 for sizes in set_sizes(questions) for size in sizes)


def test_fever_can_keep_them_as_unknown(shared_data: Path) -> None:
    more = {"questions": "claims.jsonl", "qrels": "any", "without_qrels": "unknown"}
    source = datasets.load(settings(shared_data, "fever", **more))
    assert source.questions().num_rows == 990
    assert source.questions()["evidence"].null_count == 402


def test_one_corpus_has_one_digest(shared_data: Path) -> None:
    sources = [datasets.load(settings(shared_data, name)) for name in ("hotpotqa", "nq_open")]
    assert sources[0].passages_digest == sources[1].passages_digest
    assert sources[0].digest != sources[1].digest


def test_passages_stream_in_the_files_order(shared_data: Path) -> None:
    source = datasets.load(settings(shared_data, "hotpotqa"))
    batches = list(source.passages())
    assert [batch.num_rows for batch in batches] == [10_000, 4_812]
    for batch in batches:
        tables.check_table(batch, tables.PASSAGES, "passages")
    ids = pa.concat_tables(batches)["passage_id"].to_pylist()
    assert (ids[0], ids[6783], ids[-1]) == ("hp00000", "nq00000", "fv00681")


def test_page_names_are_no_passage_ids(shared_data: Path) -> None:
    from rat_ray.datasets.fieldnames import FieldNames
    from rat_ray.errors import InputError

    wrong = settings(shared_data, "fever", questions="claims.jsonl", fields=FieldNames(evidence="gold_evidence_sets"))
    with pytest.raises(InputError, match="list of passage ids"):
        datasets.load(wrong)
