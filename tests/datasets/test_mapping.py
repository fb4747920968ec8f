"""From questions as their owners give them to passages of a corpus: by id, by title, by sentence, by text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rat_ray import datasets, tables
from rat_ray.datasets import DatasetKind, mapping
from rat_ray.datasets.mapping import MOST_SETS, Draft, Needed, load_drafts
from rat_ray.datasets.problems import PARTLY, UNKNOWN, Problems
from rat_ray.datasets.reading import Place, Reader, RowError
from rat_ray.datasets.source import Source
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import InputError

WORDS = [f"word{number}" for number in range(19)]
DPR = [
    ("1", "Oslo is the capital of Norway. It lies on the fjord. The city was", "Oslo"),
    ("2", "founded by Harald Hardrada in the year 1040. Oslo is cold.", "Oslo"),
    ("3", "Bergen lies on the coast of Norway.", "Bergen"),
    ("4", "The war lasted from 1980 to 1988.", "Iran–Iraq War"),
    ("5", "Sea of Love is a film.", "Sea of Love"),
    ("6", "Sea Of Love is a record.", "Sea Of Love"),
]
PAGES = [
    {"id": "Oslo", "text": "x", "lines": "\n".join(f"{number}\tSentence {number} ." for number in range(6))},
    {"id": "Bergen", "text": "x", "lines": "0\tBergen is rainy .\n1\t\n2\tIt has fish ."},
]


@pytest.fixture
def dpr(tmp_path: Path) -> CorpusSettings:
    rows = "".join(f"{name}\t{text}\t{title}\n" for name, text, title in DPR)
    (tmp_path / "psgs.tsv").write_text(f"id\ttext\ttitle\n{rows}")
    return CorpusSettings(files=["psgs.tsv"])


@pytest.fixture
def pages(tmp_path: Path) -> CorpusSettings:
    (tmp_path / "wiki.jsonl").write_text("".join(json.dumps(page) + "\n" for page in PAGES))
    return CorpusSettings(files=["wiki.jsonl"], passages="sentences", window=2, stride=1)


def drafts(*evidence: list[list[Needed]] | None) -> list[Draft]:
    return [
        Draft(Place(Path("q.jsonl"), line), f"q{line}", "?", ["yes"], sets, None)
        for line, sets in enumerate(evidence, start=1)
    ]


def load(folder: Path, corpus: CorpusSettings, rows: Iterable[Draft], **more: Any) -> Source:
    source = load_drafts("set", folder, corpus, lambda _: rows, **more)
    tables.check_table(source.questions(), tables.QUESTIONS, "questions")
    tables.check_table(source.problems(), tables.PROBLEMS, "problems")
    return source


def mapped(folder: Path, corpus: CorpusSettings, *needed: Needed, **more: Any) -> list[list[str]] | None:
    """The evidence of one question that needs all of these."""
    evidence: list[list[str]] | None = (
        load(folder, corpus, drafts([list(needed)]), **more).questions()["evidence"][0].as_py()
    )
    return evidence


def why_not(folder: Path, corpus: CorpusSettings, *needed: Needed, **more: Any) -> str:
    """Why the evidence of one question that needs all of these cannot be mapped."""
    source = load(folder, corpus, drafts([list(needed)]), **more)
    assert source.questions()["evidence"].to_pylist() == [None]
    assert source.notes[UNKNOWN] == 1
    (row,) = source.problems().to_pylist()
    assert (row["dataset"], row["kind"], row["place"], row["id"]) == ("set", "unmapped", "q.jsonl:1", "q1")
    return str(row["detail"])


def test_by_passage_id(tmp_path: Path, dpr: CorpusSettings) -> None:
    assert mapped(tmp_path, dpr, Needed(passage_id="3")) == [["3"]]
    assert mapped(tmp_path, dpr, Needed(passage_id="3"), Needed(passage_id="1")) == [["3", "1"]]
    assert "passage '9' is in no corpus" in why_not(tmp_path, dpr, Needed(passage_id="9"))


def test_an_id_of_another_snapshot_does_not_count(tmp_path: Path, dpr: CorpusSettings) -> None:
    text = "Bergen lies on the coast, of Norway"
    assert mapped(tmp_path, dpr, Needed(title="bergen", passage_id="3", texts=(text,))) == [["3"]]
    assert mapped(tmp_path, dpr, Needed(title="Bergen", passage_id="1")) == [["3"]]
    assert mapped(tmp_path, dpr, Needed(title="Bergen", passage_id="9")) == [["3"]]


def test_an_id_of_another_passage_of_the_page_does_not_count(tmp_path: Path, dpr: CorpusSettings) -> None:
    """As in a snapshot of another day, cut anew: the title at that number is the same, the text is not."""
    second = "founded by Harald Hardrada in the year 1040. Oslo is cold."
    assert mapped(tmp_path, dpr, Needed(title="Oslo", passage_id="2", texts=(second,))) == [["2"]]
    assert mapped(tmp_path, dpr, Needed(title="Oslo", passage_id="1", texts=(second,))) == [["2"]]
    reason = why_not(tmp_path, dpr, Needed(title="Oslo", passage_id="1", texts=("It hosted the games of 1952.",)))
    assert "is not in the text of 'Oslo'" in reason


def test_a_page_and_a_passage_of_it_can_both_be_named(tmp_path: Path, pages: CorpusSettings) -> None:
    """By different questions, too: one does not take the passage from the other."""
    rows = drafts([[Needed(passage_id="Bergen#0-2")]], [[Needed(passage_id="Bergen")]], [[Needed(passage_id="Oslo")]])
    windows = replace(pages, stride=2)
    assert load(tmp_path, windows, rows).questions()["evidence"].to_pylist() == [
        [["Bergen#0-2"]],
        [["Bergen#0-2"]],
        [["Oslo#0-1"], ["Oslo#2-3"], ["Oslo#4-5"]],
    ]


def test_by_title_any_passage_of_the_page_is_enough(tmp_path: Path, dpr: CorpusSettings) -> None:
    assert mapped(tmp_path, dpr, Needed(title="Oslo")) == [["1"], ["2"]]
    assert mapped(tmp_path, dpr, Needed(title="Oslo"), Needed(title="Bergen")) == [["1", "3"], ["2", "3"]]
    assert mapped(tmp_path, dpr, Needed(title="Iran-Iraq_War")) == [["4"]]
    assert "page 'Trondheim' is in no corpus" in why_not(tmp_path, dpr, Needed(title="Trondheim"))
    assert "names no page" in why_not(tmp_path, dpr, Needed(texts=("Oslo",)))


def test_the_very_title_goes_before_one_like_it(tmp_path: Path, dpr: CorpusSettings) -> None:
    assert mapped(tmp_path, dpr, Needed(title="Sea of Love")) == [["5"]]
    assert mapped(tmp_path, dpr, Needed(title="Sea Of Love")) == [["6"]]
    reason = why_not(tmp_path, dpr, Needed(title="SEA OF LOVE"))
    assert "might be any of 'Sea Of Love', 'Sea of Love'" in reason


def test_redirects_lead_on(tmp_path: Path, dpr: CorpusSettings) -> None:
    (tmp_path / "redirects.tsv").write_text("Christiania\tKristiania\nKristiania\tOslo\nBergen\tOslo\n")
    with_redirects = replace(dpr, redirects="redirects.tsv")
    assert mapped(tmp_path, with_redirects, Needed(title="Christiania")) == [["1"], ["2"]]
    assert mapped(tmp_path, with_redirects, Needed(title="Christiania", passage_id="1")) == [["1"]]
    assert mapped(tmp_path, with_redirects, Needed(title="Bergen")) == [["3"]]
    assert why_not(tmp_path, dpr, Needed(title="Christiania"))
    with pytest.raises(InputError, match=r"dataset\.corpus\.redirects"):
        mapped(tmp_path, replace(dpr, redirects="no.tsv"), Needed(title="Oslo"))


def test_by_text(tmp_path: Path, dpr: CorpusSettings) -> None:
    def by(*texts: str) -> list[list[str]] | None:
        return mapped(tmp_path, dpr, Needed(title="Oslo", texts=texts))

    assert by("It lies on the fjord .") == [["1"]]
    assert by("Oslo is the capital of Norway", "OSLO is cold!") == [["1", "2"]]
    assert by("The city was founded by Harald Hardrada in the year 1040 .") == [["1", "2"]]  # cut between two
    assert by("founded by Harald Hardrada -LRB- king -RRB- in the year 1040. Oslo is cold") is None
    assert by("founded by Harald III Hardrada in the year 1040. Oslo is cold. It") is None
    assert by("Founded by Harald Hardrada in the year 1040 AD") == [["2"]]  # nearly
    assert by("...") == [["1"], ["2"]]
    reason = why_not(tmp_path, dpr, Needed(title="Bergen", texts=("It lies on the fjord.",)))
    assert "'It lies on the fjord.' is not in the text of 'Bergen'" in reason


def test_the_words_in_a_row_go_before_nearly_all_of_them(tmp_path: Path) -> None:
    first, second = " ".join(WORDS[:17]), " ".join(WORDS[17:])
    (tmp_path / "psgs.tsv").write_text(f"id\ttext\ttitle\n1\t{first}\tA\n2\t{second} end\tA\n")
    needed = Needed(title="A", texts=(" ".join(WORDS),))
    assert mapped(tmp_path, CorpusSettings(files=["psgs.tsv"]), needed) == [["1", "2"]]


def test_by_sentence_number(tmp_path: Path, pages: CorpusSettings) -> None:
    def by(*numbers: int, title: str = "Oslo") -> list[list[str]] | None:
        return mapped(tmp_path, pages, Needed(title=title, sentences=numbers), numbering="fever")

    assert by(0) == [["Oslo#0-1"]]
    assert by(3) == [["Oslo#2-3"], ["Oslo#3-4"]]
    assert by(2, 3) == [["Oslo#1-2", "Oslo#3-4"], ["Oslo#2-3"]]
    assert by(0, 5) == [["Oslo#0-1", "Oslo#4-5"]]
    assert by(2, title="Bergen") == [["Bergen#0-2"]]
    reason = why_not(tmp_path, pages, Needed(title="Oslo", sentences=(9,)), numbering="fever")
    assert reason == "sentence 9 of 'Oslo' is in no passage"


def test_numbers_of_another_dump_mean_nothing(tmp_path: Path, pages: CorpusSettings) -> None:
    bergen = Needed(title="Bergen", sentences=(7,))
    source = load(tmp_path, pages, drafts([[Needed(title="Oslo", sentences=(7,))], [bergen]]), numbering="hotpotqa")
    assert source.questions()["evidence"].to_pylist() == [[[f"Oslo#{n}-{n + 1}"] for n in range(5)] + [["Bergen#0-2"]]]
    assert list(source.notes.values()) == [1]  # of Bergen there is one passage only: nothing is uncertain
    text = Needed(title="Oslo", sentences=(7,), texts=("Sentence 4 .",))
    assert mapped(tmp_path, pages, text, numbering="hotpotqa") == [["Oslo#3-4"], ["Oslo#4-5"]]


def test_a_page_by_its_id(tmp_path: Path, pages: CorpusSettings) -> None:
    assert mapped(tmp_path, pages, Needed(passage_id="Bergen", sentences=(2,)), numbering="fever") == [["Bergen#0-2"]]
    assert mapped(tmp_path, pages, Needed(passage_id="Oslo", texts=("Sentence 0",))) == [["Oslo#0-1"]]
    introduction = replace(pages, passages="introduction")
    assert mapped(tmp_path, introduction, Needed(passage_id="Oslo")) == [["Oslo"]]
    assert why_not(tmp_path, introduction, Needed(passage_id="Oslo", texts=("Sentence 6",)))


def test_alternatives_multiply_out_up_to_a_bound(tmp_path: Path) -> None:
    rows = "".join(f"{page}{number}\tx\t{page}\n" for page in "ABC" for number in range(8))
    (tmp_path / "psgs.tsv").write_text(f"id\ttext\ttitle\n{rows}")
    corpus = CorpusSettings(files=["psgs.tsv"])
    pair = mapped(tmp_path, corpus, Needed(title="A"), Needed(title="B"))
    assert pair is not None
    assert len(pair) == MOST_SETS == len({frozenset(each) for each in pair})
    reason = why_not(tmp_path, corpus, *(Needed(title=title) for title in "ABC"))
    assert reason == "more than 64 alternative sets of passages"
    two = drafts([[Needed(title="A"), Needed(title="B")], [Needed(title="C")]])
    assert load(tmp_path, corpus, two, unmapped="drop").questions()["evidence"].to_pylist() == [None]


def test_sets_that_their_owners_give_are_not_bounded(tmp_path: Path) -> None:
    rows = "".join(f"{number}\tx\tA\n" for number in range(200))
    (tmp_path / "psgs.tsv").write_text(f"id\ttext\ttitle\n{rows}")
    source = load(
        tmp_path, CorpusSettings(files=["psgs.tsv"]), drafts([[Needed(passage_id=str(n))] for n in range(200)])
    )
    assert len(source.questions()["evidence"][0]) == 200


ONE_OF_TWO = [[Needed(title="Bergen")], [Needed(title="Oslo"), Needed(title="Trondheim")]]
NONE_OF_TWO = [[Needed(title="Trondheim")], [Needed(passage_id="99")]]


def test_unmapped_evidence_makes_r_missing_and_never_0(tmp_path: Path, dpr: CorpusSettings) -> None:
    rows = drafts(ONE_OF_TWO, NONE_OF_TWO, None, [])
    source = load(tmp_path, dpr, rows)
    assert source.questions()["evidence"].to_pylist() == [None, None, None, []]
    assert source.notes == {UNKNOWN: 2}
    assert source.problems()["id"].to_pylist() == ["q1", "q2"]
    dropped = load(tmp_path, dpr, rows, unmapped="drop")
    assert dropped.questions()["evidence"].to_pylist() == [[["3"]], None, None, []]
    assert dropped.notes == {UNKNOWN: 1, PARTLY: 1}
    assert dropped.problems()["detail"].to_pylist() == [
        "page 'Trondheim' is in no corpus",
        "page 'Trondheim' is in no corpus; passage '99' is in no corpus",
    ]
    with pytest.raises(InputError, match=r"dataset\.unmapped='mising': unknown \(did you mean 'missing'"):
        load(tmp_path, dpr, rows, unmapped="mising")


def test_a_limit_and_what_is_left_out(tmp_path: Path, dpr: CorpusSettings) -> None:
    def some(problems: Problems) -> Iterator[Draft]:
        problems.left_out["not enough info"] += 4
        yield from drafts([[Needed(passage_id="1")]], NONE_OF_TWO, None)

    source = load_drafts("set", tmp_path, dpr, some, limit=1)
    assert source.questions()["question_id"].to_pylist() == ["q1"]
    assert source.left_out == {"not enough info": 4, "over the limit": 2}
    assert source.notes == {}  # those over the limit are not looked for
    with pytest.raises(InputError, match=r"no question is left .*not enough info"):
        load_drafts("set", tmp_path, dpr, lambda problems: problems.left_out.update(["not enough info"]) or [])


def test_questions_that_are_broken(tmp_path: Path, dpr: CorpusSettings) -> None:
    rows = drafts(None, None, None)
    twice = [rows[0], rows[1]._replace(question_id="q1"), rows[2]._replace(question=" ")]
    with pytest.raises(InputError, match=r"q\.jsonl:2: the question id 'q1' stands at q\.jsonl:1 already"):
        load(tmp_path, dpr, twice)
    source = load(tmp_path, replace(dpr, on_error="skip"), twice)
    assert source.questions()["question_id"].to_pylist() == ["q1"]
    assert source.problems()["place"].to_pylist() == ["q.jsonl:2", "q.jsonl:3"]


def test_broken_rows_of_any_file_are_listed_when_they_are_skipped(tmp_path: Path, dpr: CorpusSettings) -> None:
    (tmp_path / "q.jsonl").write_text('{"id": "q1"}\n{"id": \n')
    with (tmp_path / "psgs.tsv").open("a") as file:
        file.write("7\n")

    def read(problems: Problems) -> Iterator[Draft]:
        for place, record in Reader(tmp_path / "q.jsonl").records(problems.broken):
            yield Draft(place, str(record["id"]), "?", None, [[Needed(title="Oslo")]], None)

    with pytest.raises(RowError, match=r"q\.jsonl:2: broken JSON"):
        load_drafts("set", tmp_path, dpr, read)
    source = load_drafts("set", tmp_path, replace(dpr, on_error="skip"), read)
    assert source.num_passages == len(DPR)
    places = [str(Path(place).name) for place in source.problems()["place"].to_pylist()]
    assert places == ["q.jsonl:2", "psgs.tsv:8"]
    assert sum(batch.num_rows for batch in source.passages()) == len(DPR)


def test_digests_are_of_what_was_read(tmp_path: Path, dpr: CorpusSettings) -> None:
    one = load(tmp_path, dpr, drafts([[Needed(passage_id="3")]]))
    by_title = load(tmp_path, dpr, drafts([[Needed(title="Bergen")]]))
    other = load(tmp_path, dpr, drafts([[Needed(passage_id="1")]]))
    assert one.digest == by_title.digest
    assert one.passages_digest == other.passages_digest
    assert one.questions_digest != other.questions_digest


@dataclass(frozen=True)
class Settings:
    folder: str
    kind: str = "trial"
    name: str = "set"

    def validate(self) -> None:
        """Nothing can be wrong."""


def test_problems_are_known_when_the_dataset_is_remembered(
    tmp_path: Path, dpr: CorpusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("RAT_CACHE", str(tmp_path / "cache"))
    loads: list[str] = []

    def read(settings: Settings) -> Source:
        loads.append(settings.name)
        return mapping.load_drafts(settings.name, tmp_path, dpr, lambda _: drafts(ONE_OF_TWO, [[Needed(title="Oslo")]]))

    os.utime(tmp_path / "psgs.tsv", (1e9, 1e9))
    kind = DatasetKind(Settings, read, lambda _: dpr.paths(tmp_path))
    monkeypatch.setattr(datasets, "DATASETS", {"trial": kind})
    settings: Any = Settings(str(tmp_path))
    first, second = datasets.load(settings), datasets.load(settings)
    assert loads == ["set"]
    assert second.problems() == first.problems()
    assert second.problems().num_rows == 1
    assert second.notes == first.notes
    assert second.questions() == first.questions()
    assert loads == ["set", "set"]


def test_a_corpus_that_holds_nothing_of_the_evidence_is_refused(tmp_path: Path) -> None:
    """A file with title and text mixed up, or another one: nothing would be known of R, found out after hours."""
    (tmp_path / "corpus.jsonl").write_text('{"id": "1", "title": "Elsewhere", "text": "Nothing of the kind."}\n')
    for count in (4, 5):
        wanted = [[[Needed(title=f"Page {n}")]] for n in range(count)]
        rows = [Draft(Place(Path("q"), n), f"q{n}", "who?", ["x"], each, None) for n, each in enumerate(wanted)]
        asked = partial(load_drafts, "mine", tmp_path, CorpusSettings(files=["corpus.jsonl"]), lambda _, r=rows: r)
        if count == 4:
            assert asked().questions()["evidence"].null_count == 4
            continue
        with pytest.raises(InputError, match=r"none of its 5 questions is in the corpus, e\.g\. q:0: .*'Page 0'"):
            asked()
