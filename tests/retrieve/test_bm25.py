"""BM25 against bm25s called directly, and at the edges."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pyarrow as pa
import pytest
import Stemmer

from rat_ray import datasets
from rat_ray.datasets import FilesSettings
from rat_ray.errors import InputError, StageError
from rat_ray.retrieve.bm25 import METHODS, Bm25Retrieve, Bm25Settings, Tokenizer
from tests.helpers import MemoryInput
from tests.retrieve.corpora import build, made_up, made_up_questions, passages_table, questions_table, search

SMALL = passages_table(
    [
        ("a", "Oslo", "Oslo is the capital of Norway."),
        ("b", "Bergen", "Bergen is a rainy city in Norway."),
        ("c", None, ""),
        ("d", "Москва", "Москва является столицей России."),
        ("e", "東京", "東京 は 日本 の 首都 です"),
    ]
)


def directly(passages: pa.Table, questions: pa.Table, settings: Bm25Settings, depth: int) -> Any:
    """What bm25s itself finds, with its own tokenizer, index and search."""
    texts = [f"{row['title'] or ''} {row['text']}" for row in passages.to_pylist()]
    stemmer = Stemmer.Stemmer(settings.stemmer) if settings.stemmer else None
    tokenize = {"stopwords": settings.stopwords or None, "stemmer": stemmer, "show_progress": False}
    index = bm25s.BM25(k1=settings.k1, b=settings.b, method=settings.method)
    index.index(bm25s.tokenize(texts, **tokenize), show_progress=False)
    asked = bm25s.tokenize(questions["question"].to_pylist(), return_ids=False, **tokenize)
    return index.retrieve(asked, k=depth, show_progress=False)


def assert_same(passages: pa.Table, questions: pa.Table, settings: Bm25Settings, folder: Path) -> None:
    """The same top 10: the same scores, and the same passage wherever no other one has its score."""
    depth = 10
    found = search(build(replace(settings, depth=depth), folder, passages), questions)
    expected = directly(passages, questions, settings, depth)
    ids = passages["passage_id"].to_pylist()
    for row, scores, documents in zip(found.to_pylist(), expected.scores, expected.documents, strict=True):
        size = len(row["scores"])
        np.testing.assert_allclose(row["scores"], scores[:size], rtol=1e-6)
        if settings.method in ("lucene", "robertson", "atire"):
            assert not np.any(scores[size:]), "only passages without a common word are left out"
        # bm25s leaves the order of equal scores open, also which of them it cuts off at the end.
        alone = [n for n in range(size) if np.sum(np.isclose(scores, scores[n], rtol=1e-6)) == 1]
        alone = [n for n in alone if scores[n] > scores[-1] or size < depth]
        assert [row["passage_ids"][n] for n in alone] == [ids[documents[n]] for n in alone]


@pytest.mark.parametrize("method", METHODS)
def test_the_top_10_is_that_of_bm25s(tmp_path: Path, method: str) -> None:
    assert_same(made_up(300), made_up_questions(60), Bm25Settings(method=method), tmp_path)


@pytest.mark.parametrize("settings", [Bm25Settings(stemmer="", stopwords=""), Bm25Settings(k1=0.9, b=0.4)])
def test_other_settings_are_those_of_bm25s(tmp_path: Path, settings: Bm25Settings) -> None:
    assert_same(made_up(200), made_up_questions(40), settings, tmp_path)


def test_the_top_10_is_that_of_bm25s_on_real_questions(tmp_path: Path, shared_data: Path) -> None:
    source = datasets.load(FilesSettings(path=str(shared_data / "hotpotqa")))
    assert_same(pa.concat_tables(source.passages()), source.questions(), Bm25Settings(), tmp_path)


def test_words_are_those_of_bm25s() -> None:
    texts = ["The runners' 3 races, re-run in 1912!", "", "a I", "Škoda und Straße", "東京 は 首都"]
    for settings in (Bm25Settings(), Bm25Settings(stemmer="", stopwords="")):
        stemmer = Stemmer.Stemmer("english") if settings.stemmer else None
        expected = bm25s.tokenize(
            texts, stopwords=settings.stopwords or None, stemmer=stemmer, return_ids=False, show_progress=False
        )
        assert Tokenizer(settings)(texts) == expected


def test_questions_without_a_known_word_find_nothing(tmp_path: Path) -> None:
    texts = ["zebra quagga", "", "the of", "capital of Norway", "zebra in Norway"]
    found = search(build(Bm25Settings(), tmp_path, SMALL), questions_table(texts))
    assert found["passage_ids"].to_pylist() == [[], [], [], ["a", "b"], ["a", "b"]]
    assert found["scores"].to_pylist()[:3] == [[], [], []]
    assert found["error"].null_count == 5


@pytest.mark.parametrize("method", METHODS)
def test_a_passage_without_a_common_word_is_left_out(tmp_path: Path, method: str) -> None:
    found = search(build(Bm25Settings(method=method), tmp_path, SMALL), questions_table(["rainy Bergen"]))
    assert found["passage_ids"].to_pylist() == [["b"]]


def test_other_scripts(tmp_path: Path) -> None:
    found = search(build(Bm25Settings(), tmp_path, SMALL), questions_table(["МОСКВА?", "日本 の 首都"]))
    assert found["passage_ids"].to_pylist() == [["d"], ["e"]]


def test_titles_can_be_left_out(tmp_path: Path) -> None:
    passages = passages_table([("a", "Oslo", "The capital."), ("b", None, "Oslo.")])
    questions = questions_table(["Oslo"])
    assert len(search(build(Bm25Settings(), tmp_path / "1", passages), questions)["scores"][0]) == 2
    assert search(build(Bm25Settings(title=False), tmp_path / "2", passages), questions)["passage_ids"].to_pylist() == [
        ["b"]
    ]


def test_depth_cuts_and_may_exceed_the_corpus(tmp_path: Path) -> None:
    questions = questions_table(["Norway"])
    assert search(build(Bm25Settings(depth=1), tmp_path / "1", SMALL), questions)["passage_ids"].to_pylist() == [["a"]]
    assert search(build(Bm25Settings(depth=99), tmp_path / "2", SMALL), questions)["passage_ids"].to_pylist() == [
        ["a", "b"]
    ]


def test_copies_of_a_passage_come_in_the_order_of_their_ids(tmp_path: Path) -> None:
    rows = [(f"c{n * 37 % 100:02d}", None, "a red lantern") for n in range(100)]
    passages = passages_table([*rows, ("z", None, "a comet")])
    found = search(build(Bm25Settings(depth=3), tmp_path, passages), questions_table(["lantern", "comet"]))
    assert found["passage_ids"].to_pylist() == [["c00", "c01", "c02"], ["z"]]


@pytest.mark.parametrize("rows", [[("a", None, "")], [("a", "", ""), ("b", None, "the")], []])
def test_a_corpus_without_words(tmp_path: Path, rows: list[tuple[str, str | None, str]]) -> None:
    found = search(build(Bm25Settings(), tmp_path, passages_table(rows)), questions_table(["anything"]))
    assert found["passage_ids"].to_pylist() == [[]]


def test_no_questions(tmp_path: Path) -> None:
    assert search(build(Bm25Settings(), tmp_path, SMALL), questions_table([])).num_rows == 0


def test_the_same_corpus_gives_the_same_files_in_every_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tests.retrieve.corpora import build, made_up;"
        "from rat_ray.retrieve import Bm25Settings; build(Bm25Settings(), Path(sys.argv[1]), made_up(100))"
    )
    root = Path(__file__).resolve().parents[2]
    for seed in ("1", "2"):  # of Python's string hashes, which differ from process to process
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        subprocess.run([sys.executable, "-c", code, str(tmp_path / seed)], check=True, env=environment, cwd=root)
    files = sorted(path.name for path in (tmp_path / "1" / "part-0").iterdir())
    assert "ids.parquet" in files
    for name in files:
        assert (tmp_path / "1" / "part-0" / name).read_bytes() == (tmp_path / "2" / "part-0" / name).read_bytes(), name


def test_ranges_of_questions_change_nothing(tmp_path: Path) -> None:
    worker = build(Bm25Settings(), tmp_path, made_up(150))
    questions = made_up_questions(30)
    cut = [search(worker, questions.slice(start, 7)) for start in range(0, 30, 7)]
    assert pa.concat_tables(cut).to_pylist() == search(worker, questions).to_pylist()


def test_the_index_does_not_depend_on_the_depth() -> None:
    settings = Bm25Settings()
    assert replace(settings, depth=3).index_settings() == settings.index_settings()
    for change in ({"k1": 1.0}, {"b": 0.5}, {"method": "atire"}, {"stemmer": ""}, {"stopwords": ""}, {"title": False}):
        assert replace(settings, **change).index_settings() != settings.index_settings()


def test_an_index_of_other_settings_or_of_several_shards_is_refused(tmp_path: Path) -> None:
    build(Bm25Settings(), tmp_path, SMALL)
    folder = tmp_path / "part-0"
    with pytest.raises(StageError, match="title differ"):
        Bm25Retrieve(Bm25Settings(title=False), {"index": MemoryInput(folders=[folder])})
    with pytest.raises(StageError, match="one range"):
        Bm25Retrieve(Bm25Settings(), {"index": MemoryInput(folders=[folder, folder])})
    with pytest.raises(StageError, match="not an index"):
        Bm25Retrieve(Bm25Settings(), {"index": MemoryInput(folders=[tmp_path])})


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (Bm25Settings(depth=0), "retriever.depth=0"),
        (Bm25Settings(k1=-1), "retriever.k1=-1"),
        (Bm25Settings(b=1.5), "retriever.b=1.5"),
        (Bm25Settings(method="lucen"), "did you mean 'lucene'?"),
        (Bm25Settings(stemmer="englisch"), "did you mean 'english'?"),
        (Bm25Settings(stopwords="englis"), "did you mean 'english'?"),
    ],
)
def test_bad_settings(settings: Bm25Settings, part: str) -> None:
    with pytest.raises(InputError) as caught:
        settings.validate()
    assert part in str(caught.value)
