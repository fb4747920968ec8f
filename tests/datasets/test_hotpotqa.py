"""HotpotQA's own files: both paragraphs, over the questions' contexts and over a snapshot; what is refused."""

from __future__ import annotations

import bz2
import gzip
import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import datasets, tables
from rat_ray.datasets import HotpotqaSettings
from rat_ray.datasets.arrays import ArrayReader
from rat_ray.datasets.contexts import HotpotCorpusSettings
from rat_ray.errors import InputError
from tests.datasets.benchmark_files import (
    FIXTURES,
    KILT,
    REDIRECTS,
    TSV,
    column,
    copied,
    evidence,
    passages,
    problems,
    refused,
    rows_of,
    write_rows,
)

HOTPOT = HotpotqaSettings(path=str(FIXTURES / "hotpotqa"))
FULLWIKI = replace(HOTPOT, questions="hotpot_dev_fullwiki_v1.json")
SNAPSHOT = HotpotCorpusSettings(format="dpr", files=[TSV], redirects=REDIRECTS)
FIRST, SECOND, THIRD, FOURTH = (f"5a8b0000000000000000a00{number}" for number in range(1, 5))
SKIPPED = "broken rows skipped (on_error=skip)"

Rows = list[dict[str, Any]]


def questions(folder: Path, change: Callable[[Rows], object]) -> HotpotqaSettings:
    """The fixture with its questions changed in place."""
    path = copied(folder, "hotpotqa")
    rows = rows_of(Path(path) / HOTPOT.questions)
    change(rows)
    write_rows(Path(path) / HOTPOT.questions, rows)
    return HotpotqaSettings(path=path)


def test_both_supporting_paragraphs_are_needed() -> None:
    source = datasets.load(HOTPOT)
    tables.check_table(source.questions(), tables.QUESTIONS, "questions")
    tables.check_table(pa.concat_tables(source.passages()), tables.PASSAGES, "passages")
    assert column(source, "evidence") == {
        FIRST: [["Orrin Lake", "Vessel Bay"]],
        SECOND: [["Vesper (film)", "Signal: Red"]],
        THIRD: [["Quill Island", "Milo Hask"]],
        FOURTH: [["Café Lumen", "Port Sable"]],
    }
    assert column(source, "answers")[SECOND] == ["no"]
    assert set(column(source, "shape").values()) == {"two_hop"}


def test_the_contexts_are_one_corpus_each_text_once() -> None:
    known = passages(datasets.load(HOTPOT))
    assert len(known) == 10, "16 paragraphs, of which 6 are there already"
    assert known["Orrin Lake"][1].startswith("Orrin Lake is a glacial lake in northern Tolmark. It is the deepest")
    assert known["Orrin Lake#2"] == ("Orrin Lake", "Orrin Lake is a lake in Tolmark. Fishing is allowed in summer.")


def test_evidence_is_the_questions_own_paragraph_where_a_title_has_two(tmp_path: Path) -> None:
    settings = questions(tmp_path, lambda rows: rows[1].update(supporting_facts=[["Orrin Lake", 0], ["Milo Hask", 0]]))
    assert evidence(settings)[SECOND] == [["Orrin Lake#2", "Milo Hask"]]


def test_ids_do_not_change_with_a_row_that_is_skipped(tmp_path: Path) -> None:
    settings = questions(tmp_path, lambda rows: rows[0].update(answer=""))
    source = datasets.load(replace(settings, on_error="skip"))
    assert passages(source) == passages(datasets.load(HOTPOT))
    assert column(source, "evidence") == {name: sets for name, sets in evidence(HOTPOT).items() if name != FIRST}


def test_json_lines_and_compressed_arrays_are_the_same_dataset(tmp_path: Path) -> None:
    data = (FIXTURES / "hotpotqa" / HOTPOT.questions).read_bytes()
    (tmp_path / "array.json.gz").write_bytes(gzip.compress(data))
    (tmp_path / "array.json.bz2").write_bytes(bz2.compress(data))
    (tmp_path / "marked.json").write_bytes(b"\xef\xbb\xbf\n " + data)
    others = [str(tmp_path / name) for name in ("array.json.gz", "array.json.bz2", "marked.json")]
    expected = datasets.load(HOTPOT).digest
    for name in ["hotpot_dev_distractor_v1.jsonl", *others]:
        assert datasets.load(replace(HOTPOT, questions=name)).digest == expected, name


def test_in_fullwiki_a_page_that_no_question_has_is_missing_never_absent() -> None:
    source = datasets.load(FULLWIKI)
    assert column(source, "evidence") == {
        FIRST: None,  # another question has Orrin Lake, in a text that is shorter than the supporting sentence's number
        SECOND: [["Vesper (film)", "Signal: Red"]],
        THIRD: None,
        FOURTH: [["Café Lumen", "Port Sable"]],
    }
    details = {name: detail for _, name, detail in problems(source)}
    assert "Orrin Lake" in details[FIRST]
    assert "Quill Island" in details[THIRD]


def test_over_a_snapshot_the_supporting_sentences_are_looked_for() -> None:
    source = datasets.load(replace(HOTPOT, corpus=SNAPSHOT))
    assert column(source, "evidence") == {
        FIRST: [["1", "2", "3"]],  # one of the sentences is cut in two by the passages
        SECOND: [["5", "9"]],
        THIRD: None,
        FOURTH: [["6", "8"]],  # the file decomposes the é of Café, the snapshot does not
    }
    assert problems(source) == [("unmapped", THIRD, "page 'Quill Island' is in no corpus")]
    over_kilt = replace(HOTPOT, corpus=HotpotCorpusSettings(format="kilt", files=KILT.files))
    assert evidence(over_kilt)[FIRST] == [["300100", "300101"]]


def test_the_paragraphs_of_another_file_can_be_the_corpus() -> None:
    """So that train and dev, or distractor and fullwiki, share one."""
    corpus = HotpotCorpusSettings(files=["hotpot_dev_distractor_v1.json", "hotpot_dev_fullwiki_v1.json"])
    both = [datasets.load(replace(one, corpus=corpus)) for one in (HOTPOT, FULLWIKI)]
    assert both[0].passages_digest == both[1].passages_digest
    assert both[0].passages_digest == datasets.load(HOTPOT).passages_digest, "the second file has nothing new"
    assert column(both[1], "evidence")[THIRD] == [["Quill Island", "Milo Hask"]]


def test_another_text_under_the_title_in_another_file_is_no_evidence(tmp_path: Path) -> None:
    def other(rows: Rows) -> None:
        rows[1]["context"] = [["Vesper (film)", ["Another text.", "Its second sentence.", "Its third sentence."]]]

    settings = questions(tmp_path, lambda rows: None)
    rows = rows_of(Path(settings.path) / settings.questions)
    other(rows)
    write_rows(Path(settings.path) / "other.json", rows)
    alone = evidence(settings)
    assert alone[SECOND] == [["Vesper (film)", "Signal: Red"]]
    own = str(Path(settings.path) / settings.questions)
    assert evidence(replace(settings, corpus=HotpotCorpusSettings(files=[settings.questions, "other.json"]))) == alone
    assert evidence(replace(settings, corpus=HotpotCorpusSettings(files=[own]))) == alone
    reverse = evidence(replace(settings, corpus=HotpotCorpusSettings(files=["other.json", settings.questions])))
    assert reverse[SECOND] == [["Vesper (film)#2", "Signal: Red"]]


def test_of_two_paragraphs_under_a_title_the_one_with_the_sentence_is_meant(tmp_path: Path) -> None:
    def second(rows: Rows) -> None:
        longer = ["One.", "Two.", "Three.", "Four.", "The fifth sentence."]
        rows[1]["context"] += [["Vesper (film)", longer]]
        rows[1]["supporting_facts"] = [["Vesper (film)", 4], ["Milo Hask", 0]]

    assert evidence(questions(tmp_path, second))[SECOND] == [["Vesper (film)#2", "Milo Hask"]]


@pytest.mark.parametrize("bad", ["no object", {"_id": "z"}, {"_id": "z", "context": [["Title", "no list"]]}])
def test_a_broken_item_of_another_file_of_paragraphs_is_named_or_skipped(tmp_path: Path, bad: Any) -> None:
    settings = questions(tmp_path, lambda rows: None)
    rows = rows_of(Path(settings.path) / settings.questions)
    write_rows(Path(settings.path) / "other.json", [*rows[:1], bad])
    two = replace(settings, corpus=HotpotCorpusSettings(files=[settings.questions, "other.json"]))
    refused(two, "other.json: item 2")
    source = datasets.load(replace(two, on_error="skip"))
    assert source.notes[SKIPPED] == 1
    assert [kind for kind, _, _ in problems(source)].count("skipped") == 1
    assert sum(batch.num_rows for batch in source.passages()) == source.num_passages


def test_a_title_like_the_name_of_a_second_text_is_an_id_twice(tmp_path: Path) -> None:
    def rename(rows: Rows) -> None:
        rows[0]["context"] += [["Vesper (film)#2", ["x."]], ["Vesper (film)", ["One."]], ["Vesper (film)", ["Two."]]]

    refused(questions(tmp_path, rename), "'Vesper (film)#2' occurs a second time")


def test_a_sentence_number_beyond_the_paragraph_is_counted_and_its_page_counts(tmp_path: Path) -> None:
    settings = questions(
        tmp_path, lambda rows: rows[1].update(supporting_facts=[["Vesper (film)", 9], ["Milo Hask", 0]])
    )
    own, source = datasets.load(settings), datasets.load(replace(settings, corpus=SNAPSHOT))
    assert column(own, "evidence")[SECOND] == [["Vesper (film)", "Milo Hask"]]
    assert column(source, "evidence")[SECOND] == [["5", "7"]]
    assert [count for note, count in own.notes.items() if "beyond their paragraph" in note] == [1]
    assert [count for note, count in source.notes.items() if "beyond their paragraph" in note] == [1]


def test_an_ampersand_written_as_html_is_the_same_title(tmp_path: Path) -> None:
    def rename(rows: Rows) -> None:
        rows[0]["context"][0] = ["Hask &amp; Corr", ["Hask & Corr was a studio."]]
        rows[0]["supporting_facts"] = [["Hask & Corr", 0], ["Vessel Bay", 1]]

    settings = questions(tmp_path, rename)
    assert evidence(settings)[FIRST] == [["Hask & Corr", "Vessel Bay"]]


def broken(number: int, **fields: Any) -> Callable[[Rows], object]:
    return lambda rows: rows[number - 1].update(fields)


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda rows: rows[1].pop("answer"), ("item 2", "no field 'answer'", "train or dev file")),
        (lambda rows: rows[1].pop("supporting_facts"), ("item 2", "no field 'supporting_facts'", "HotpotQA")),
        (lambda rows: rows[1].pop("_id"), ("item 2", "no field '_id'")),
        (lambda rows: rows[1].pop("context"), ("item 2", "no field 'context'")),
        (broken(2, question=" "), ("item 2", "the question must be text", "' '")),
        (broken(2, answer=7), ("item 2", "the answer must be text", "7")),
        (broken(2, _id=FIRST), ("item 2", f"'{FIRST}'", "item 1 already")),
        (broken(2, supporting_facts=[]), ("item 2", "supporting_facts", "test files have none")),
        (broken(2, supporting_facts=[["Milo Hask"]]), ("item 2", "[title, sentence number]", "['Milo Hask']")),
        (broken(2, supporting_facts=[["Milo Hask", -1]]), ("item 2", "[title, sentence number]", "-1")),
        (broken(2, context={}), ("item 2", "a list of paragraphs", "{}")),
        (broken(2, context=[["Milo Hask", "text"]]), ("item 2", "[title, [sentence, …]]", "'text'")),
    ],
)
def test_a_broken_item_is_named_or_skipped(change: Any, parts: tuple[str, ...], tmp_path: Path) -> None:
    settings = questions(tmp_path, change)
    refused(settings, "hotpot_dev_distractor_v1.json", *parts)
    source = datasets.load(replace(settings, on_error="skip"))
    assert source.num_questions == 3
    assert source.notes[SKIPPED] == 1
    [(_, _, detail)] = [row for row in problems(source) if row[0] == "skipped"]
    assert parts[1] in detail


def test_an_item_that_is_no_object_is_named_or_skipped(tmp_path: Path) -> None:
    settings = questions(tmp_path, lambda rows: rows.insert(1, 5))  # type: ignore[arg-type]
    refused(settings, "item 2", "expected a JSON object", "found 5")
    assert datasets.load(replace(settings, on_error="skip")).num_questions == 4


DATA = (FIXTURES / "hotpotqa" / HOTPOT.questions).read_bytes()


@pytest.mark.parametrize(
    ("contents", "parts"),
    [
        (b"", ("the file is empty",)),
        (b" \n", ("the file is empty",)),
        (b"[]", ("the array is empty",)),
        (b"[\n", ("item 1", "cut short", "fetch the file again")),
        (DATA[:1500], ("item 3", "cut short", "fetch the file again")),
        (DATA.strip()[:-1], ("item 5", "cut short")),
        (DATA + b"]", ("item 5", "broken JSON")),
        (DATA.replace(b'"type"', b'type"', 1), ("item 1", "broken JSON")),
        (DATA.replace(b"1640", b"16\xff0", 1), ("item 1", "broken JSON", "UTF8")),
        (DATA.replace(b"1640", b"\\udc00", 1), ("item 1", "broken JSON")),
        (gzip.compress(DATA)[:-30], ("compressed data", "fetch it again")),
        (DATA[:1500].lstrip(b"["), ("q.json:", "broken JSON")),
        (b'{"data": []}', ("the array is empty",)),
        (b'{"rows": []}', (":1", "no field '_id'")),
        (b'"text"', (":1", "expected a JSON object")),
    ],
)
def test_a_broken_file_is_refused_also_with_skip(contents: bytes, parts: tuple[str, ...], tmp_path: Path) -> None:
    """After broken JSON the rest of an array cannot be found, and a file without any question is not used."""
    (tmp_path / "q.json").write_bytes(contents)
    for on_error in ("stop", "skip"):
        refused(HotpotqaSettings(path=str(tmp_path), questions="q.json", on_error=on_error), "q.json", *parts)


@pytest.mark.parametrize(
    "file",
    ["fever/shared_task_dev.jsonl", "natural_questions/biencoder-nq-dev.json", "natural_questions/nq-dev-kilt.jsonl"],
)
def test_another_benchmarks_file_is_refused(file: str) -> None:
    settings = replace(HOTPOT, questions=str(FIXTURES / file))
    refused(settings, Path(file).name, "not a row of HotpotQA", "dataset.questions")
    refused(replace(settings, on_error="skip"), "no question is left", "not a row of HotpotQA")


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (replace(HOTPOT, questions="hotpot_dev.json"), ("dataset.questions=hotpot_dev.json", "did you mean")),
        (replace(HOTPOT, corpus=HotpotCorpusSettings(format="contxt")), ("corpus.format='contxt'", "'context'")),
        (replace(HOTPOT, corpus=HotpotCorpusSettings(format="dpr")), ("dataset.corpus.files is empty",)),
        (replace(HOTPOT, corpus=HotpotCorpusSettings(files=["x.json"])), ("dataset.corpus.files=x.json",)),
        (replace(HOTPOT, corpus=HotpotCorpusSettings(window=0)), ("corpus.window=0",)),
        (replace(HOTPOT, limit=-1), ("dataset.limit=-1",)),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(settings: HotpotqaSettings, parts: tuple[str, ...]) -> None:
    refused(settings, *parts)


def test_an_array_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.json"
    item = json.dumps({"text": "word " * 400})
    path.write_text("[" + ",".join([item] * 10_000) + "]")
    tracemalloc.start()
    try:
        count = sum(1 for _ in ArrayReader(path).records())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 10_000
    assert peak < path.stat().st_size / 10


def test_a_file_that_is_not_there_is_no_array(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        next(ArrayReader(tmp_path / "none.json").records())
