"""The generic loader on real data: three datasets against the three corpora joined (skipped where they are absent)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import datasets, tables
from rat_ray.datasets import FilesSettings, Source
from rat_ray.datasets.fieldnames import FieldNames
from rat_ray.datasets.lookup import Lookup
from rat_ray.datasets.mapping import Draft, Needed, load_drafts
from rat_ray.datasets.problems import UNKNOWN, Problems
from rat_ray.datasets.reading import Place
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import InputError

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


def smallest(sets: list[list[str]]) -> set[frozenset[str]]:
    """Alternative sets without those that hold another: what decides R."""
    unique = {frozenset(needed) for needed in sets}
    return {needed for needed in unique if not any(other < needed for other in unique)}


def test_fevers_own_sets_are_not_what_flat_qrels_say(shared_data: Path) -> None:
    def evidence(**more: object) -> dict[str, list[list[str]] | None]:
        table = datasets.load(settings(shared_data, "fever", questions="claims.jsonl", **more)).questions()
        return dict(zip(table["question_id"].to_pylist(), table["evidence"].to_pylist(), strict=True))

    flat_all, flat_any = evidence(qrels="all"), evidence(qrels="any")
    nested = evidence(fields=FieldNames(evidence="gold_evidence_sets"), unmapped="drop")
    own = {name: nested[name] for name in flat_all}
    known = {name: sets for name, sets in own.items() if sets is not None}
    # Several passages of one page: each is enough, "all" asks for every one of them.
    assert sum(smallest(sets) != smallest(flat_all[name] or []) for name, sets in known.items()) == 182
    # Several pages needed, one of them in no corpus: "any" takes the one that is there for all of the evidence.
    assert len(own) - len(known) == 26
    # A page that matters only together with another one that is there as well.
    assert sum(smallest(sets) != smallest(flat_any[name] or []) for name, sets in known.items()) == 4


def test_fevers_own_sets_that_the_corpus_lacks_are_listed(shared_data: Path) -> None:
    more = {"questions": "claims.jsonl", "fields": FieldNames(evidence="gold_evidence_sets")}
    with pytest.raises(InputError, match=r"claims\.jsonl:3: .*'fever-111897'.*'Hispanic and Latino Americans'"):
        datasets.load(settings(shared_data, "fever", **more))
    source = datasets.load(settings(shared_data, "fever", unmapped="missing", **more))
    questions = source.questions()
    assert questions.num_rows == 990
    assert source.problems().num_rows == questions["evidence"].null_count == source.notes[UNKNOWN]
    rows = zip(questions["answers"].to_pylist(), questions["evidence"].to_pylist(), strict=True)
    absent = [answers for answers, sets in rows if sets == []]
    assert absent == [["NOT ENOUGH INFO"]] * 339
    fewer = datasets.load(settings(shared_data, "fever", unmapped="missing", absent="leave_out", **more))
    assert fewer.questions().num_rows == 990 - 339
    assert fewer.left_out["no evidence, by their own rows"] == 339


def test_titles_alone_find_what_the_qrels_name(shared_data: Path) -> None:
    rows = [json.loads(line) for line in (shared_data / "hotpotqa" / "questions.jsonl").open()]

    def drafts(_: Problems) -> Iterator[Draft]:
        for number, row in enumerate(rows, start=1):
            needed = [Needed(title=title) for title in row["gold_titles"]]
            yield Draft(Place(Path("q"), number), row["qid"], row["question"], None, [needed], "two_hop")

    corpus = CorpusSettings(files=[str(shared_data / each / "corpus.jsonl") for each in CORPORA])
    source = load_drafts("hotpotqa", shared_data, corpus, drafts)
    sets = source.questions()["evidence"].to_pylist()
    assert sum(found is None for found in sets) == 0
    assert all(set(row["gold_pids"]) in map(set, found) for row, found in zip(rows, sets, strict=True))


def test_real_text_is_the_same_corpus_as_a_tsv(shared_data: Path, tmp_path: Path) -> None:
    jsonl = CorpusSettings(files=["corpus.jsonl"]).open(shared_data / "nq_open")
    with (tmp_path / "psgs.tsv").open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(["id", "text", "title"])
        assert jsonl.check(Problems("x"), Lookup()) == 7_347
        for batch in jsonl.stream():
            writer.writerows(zip(*(batch[name].to_pylist() for name in ("passage_id", "text", "title")), strict=True))
    tsv = CorpusSettings(files=["psgs.tsv"]).open(tmp_path)
    assert tsv.formats() == {"dpr"}
    tsv.check(Problems("x"), Lookup())
    assert tsv.digest == jsonl.digest
