"""BM25 against bm25s called directly, and at the edges."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pyarrow as pa
import pytest
import Stemmer
import yaml

from rat_ray import datasets
from rat_ray.datasets import FilesSettings
from rat_ray.errors import InputError, StageError
from rat_ray.retrieve.bm25 import METHODS, Bm25Retrieve, Bm25Settings
from rat_ray.retrieve.words import Tokenizer
from tests.retrieve.corpora import made_up, made_up_questions, passages_table, questions_table, search
from tests.retrieve.stepping import build, run_steps

SHIFTED = ("bm25l", "bm25+")  # a passage has something for words that it does not hold
SMALL = passages_table(
    [
        ("a", "Oslo", "Oslo is the capital of Norway."),
        ("b", "Bergen", "Bergen is a rainy city in Norway."),
        ("c", None, ""),
        ("d", "Москва", "Москва является столицей России."),
        ("e", "東京", "東京都は日本の首都です"),
        ("f", "القاهرة", "القَاهِرَة عاصمة مصر"),
    ]
)


def find(settings: Bm25Settings, folder: Path, passages: pa.Table, texts: list[str]) -> list[list[str]]:
    """The ids of each question's list."""
    worker = build(settings, Bm25Retrieve, folder, passages)
    return search(worker, questions_table(texts))["passage_ids"].to_pylist()


def texts_of(passages: pa.Table) -> list[str]:
    return [f"{row['title']} {row['text']}" if row["title"] else row["text"] for row in passages.to_pylist()]


def directly(passages: pa.Table, questions: pa.Table, settings: Bm25Settings, depth: int) -> Any:
    """What bm25s itself finds, with its own index and search, and its own words where the settings say so."""
    index = bm25s.BM25(k1=settings.k1, b=settings.b, method=settings.method)
    asked = questions["question"].to_pylist()
    if settings.tokens == "unicode":
        words = Tokenizer(settings)
        index.index(words(texts_of(passages)), show_progress=False)
        return index.retrieve([line or [""] for line in words(asked)], k=depth, show_progress=False)
    stemmer = Stemmer.Stemmer(settings.stemmer) if settings.stemmer else None
    tokenize = {"stopwords": settings.stopwords or None, "stemmer": stemmer, "show_progress": False}
    index.index(bm25s.tokenize(texts_of(passages), **tokenize), show_progress=False)
    return index.retrieve(bm25s.tokenize(asked, return_ids=False, **tokenize), k=depth, show_progress=False)


def assert_same(passages: pa.Table, questions: pa.Table, settings: Bm25Settings, folder: Path, depth: int = 10) -> int:
    """The same top `depth`: the same scores to the last bit, and the same passage wherever no other has its score.

    Returns how many passages were compared.
    """
    found = search(build(replace(settings, depth=depth), Bm25Retrieve, folder, passages), questions)
    expected = directly(passages, questions, settings, depth)
    ids = passages["passage_id"].to_pylist()
    compared = 0
    for row, scores, documents in zip(found.to_pylist(), expected.scores, expected.documents, strict=True):
        size = len(row["scores"])
        np.testing.assert_array_equal(np.array(row["scores"], np.float32), scores[:size])
        if settings.method not in SHIFTED:
            assert not np.any(scores[size:]), "only passages without a common word are left out"
        # bm25s leaves the order of equal scores open, also which of them it cuts off at the end.
        alone = [
            n for n in range(size) if np.sum(scores == scores[n]) == 1 and (scores[n] > scores[-1] or size < depth)
        ]
        assert [row["passage_ids"][n] for n in alone] == [ids[documents[n]] for n in alone]
        compared += len(alone)
    return compared


@pytest.mark.parametrize("method", METHODS)
def test_the_top_10_is_that_of_bm25s(tmp_path: Path, method: str) -> None:
    settings = Bm25Settings(method=method, tokens="bm25s")
    assert assert_same(made_up(300), made_up_questions(60), settings, tmp_path) > 300


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("numbers", [{"k1": 0.9, "b": 0.4}, {"k1": 0.001, "b": 0}, {"k1": 2, "b": 1}])
def test_k1_and_b_are_those_of_bm25s(tmp_path: Path, method: str, numbers: dict[str, float]) -> None:
    settings = Bm25Settings(method=method, tokens="bm25s", stemmer="", stopwords="", **numbers)
    assert_same(made_up(200), made_up_questions(40), settings, tmp_path)


@pytest.mark.parametrize("tokens", ["bm25s", "unicode"])
@pytest.mark.parametrize("name", ["hotpotqa", "fever", "nq_open"])
def test_the_top_10_is_that_of_bm25s_on_every_real_question(
    tmp_path: Path, shared_data: Path, name: str, tokens: str
) -> None:
    asked = {"fever": "claims.jsonl"}.get(name, "questions.jsonl")
    source = datasets.load(FilesSettings(path=str(shared_data / name), questions=asked, qrels="any"))
    passages, questions = pa.concat_tables(source.passages()), source.questions()
    assert questions.num_rows >= 300
    assert assert_same(passages, questions, Bm25Settings(tokens=tokens), tmp_path) > 8 * questions.num_rows


@pytest.mark.parametrize("method", sorted({*METHODS} - {*SHIFTED}))
def test_k1_may_be_0(tmp_path: Path, method: str) -> None:
    settings = Bm25Settings(method=method, tokens="bm25s", k1=0)
    assert_same(made_up(200), made_up_questions(40), settings, tmp_path)


def test_questions_without_a_known_word_find_nothing(tmp_path: Path) -> None:
    texts = ["zebra quagga", "", "the of", "capital of Norway", "zebra in Norway"]
    worker = build(Bm25Settings(), Bm25Retrieve, tmp_path, SMALL)
    found = search(worker, questions_table(texts))
    assert found["passage_ids"].to_pylist() == [[], [], [], ["a", "b"], ["a", "b"]]
    assert found["scores"].to_pylist()[:3] == [[], [], []]
    assert found["error"].null_count == 5


@pytest.mark.parametrize("method", METHODS)
def test_a_passage_without_a_common_word_is_left_out(tmp_path: Path, method: str) -> None:
    assert find(Bm25Settings(method=method), tmp_path, SMALL, ["rainy Bergen"]) == [["b"]]


def test_other_scripts(tmp_path: Path) -> None:
    questions = ["МОСКВА?", "日本の首都は？", "ما هي عاصمة مِصر", "東 京", "Ｏｓｌｏ", "Me\u0301xico"]
    passages = pa.concat_tables([SMALL, passages_table([("g", "México", "")])])
    expected = [["d"], ["e"], ["f"], [], ["a"], ["g"]]
    assert find(Bm25Settings(), tmp_path / "1", passages, questions) == expected
    as_bm25s = find(Bm25Settings(tokens="bm25s"), tmp_path / "2", passages, questions)
    assert as_bm25s[1] == as_bm25s[5] == [], "which is what `tokens: unicode` is for"


def test_titles_can_be_left_out(tmp_path: Path) -> None:
    passages = passages_table([("a", "Oslo", "The capital."), ("b", None, "Oslo.")])
    assert sorted(*find(Bm25Settings(), tmp_path / "1", passages, ["Oslo"])) == ["a", "b"]
    assert find(Bm25Settings(title=False), tmp_path / "2", passages, ["Oslo"]) == [["b"]]


def test_depth_cuts_and_may_exceed_the_corpus(tmp_path: Path) -> None:
    assert find(Bm25Settings(depth=1), tmp_path / "1", SMALL, ["Norway"]) == [["a"]]
    assert find(Bm25Settings(depth=99), tmp_path / "2", SMALL, ["Norway"]) == [["a", "b"]]


@pytest.mark.parametrize("size", [3, 63, 64, 65, 1000])
def test_copies_of_a_passage_come_in_the_order_of_their_ids(tmp_path: Path, size: int) -> None:
    rows = [(f"c{n * 37 % size:04d}", None, "a red lantern") for n in range(size)]
    passages = passages_table([*rows, ("z", None, "a comet")])
    found = find(Bm25Settings(depth=3), tmp_path, passages, ["lantern", "comet"])
    assert found == [["c0000", "c0001", "c0002"], ["z"]]


def test_a_very_long_passage(tmp_path: Path) -> None:
    text = " ".join(f"w{n % 50_000}" for n in range(400_000)) + " lantern"
    passages = passages_table([("long", None, text), ("short", None, "lantern w1"), ("other", None, "comet")])
    questions = questions_table(["lantern", "w1 w49999", "comet"])
    assert assert_same(passages, questions, Bm25Settings(), tmp_path / "1", depth=3) > 3
    assert find(Bm25Settings(), tmp_path / "2", passages, ["w1 lantern"]) == [["short", "long"]]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rows", [[("a", None, "")], [("a", "", ""), ("b", None, "the")], []])
def test_a_corpus_without_words(tmp_path: Path, rows: list[tuple[str, str | None, str]], method: str) -> None:
    assert find(Bm25Settings(method=method), tmp_path, passages_table(rows), ["anything", ""]) == [[], []]


def test_no_questions(tmp_path: Path) -> None:
    worker = build(Bm25Settings(), Bm25Retrieve, tmp_path, SMALL)
    assert search(worker, questions_table([])).num_rows == 0


def test_ranges_of_questions_change_nothing(tmp_path: Path) -> None:
    worker = build(Bm25Settings(), Bm25Retrieve, tmp_path, made_up(150))
    questions = made_up_questions(30)
    cut = [search(worker, questions.slice(start, 7)) for start in range(0, 30, 7)]
    assert pa.concat_tables(cut).to_pylist() == search(worker, questions).to_pylist()


def test_a_word_asked_twice_counts_twice(tmp_path: Path) -> None:
    worker = build(Bm25Settings(), Bm25Retrieve, tmp_path, SMALL)
    once, twice = search(worker, questions_table(["Oslo", "Oslo, Oslo"]))["scores"].to_pylist()
    assert twice == [2 * once[0]]


def test_the_keys_of_the_steps() -> None:
    settings = Bm25Settings()

    def keys(**changes: Any) -> list[Any]:
        return [step.key for step in replace(settings, **changes).steps()]

    assert keys(depth=3) == keys()
    for change in ({"stemmer": ""}, {"stopwords": ""}, {"title": False}, {"tokens": "bm25s"}):
        assert all(one != other for one, other in zip(keys(**change), keys(), strict=True)), change
    for change in ({"k1": 1.0}, {"b": 0.5}, {"method": "atire"}):
        assert keys(**change)[:-1] == keys()[:-1], "tokens and words serve again"
        assert keys(**change)[-1] != keys()[-1]


def test_another_release_of_the_stemmer_is_another_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rules change from release to release: questions must not be stemmed otherwise than the passages were."""
    settings = Bm25Settings()
    key = settings.steps()[0].key
    made = run_steps(settings, tmp_path, made_up(20))
    monkeypatch.setattr("rat_ray.retrieve.bm25.stemmer_version", lambda: "2.2.0")
    assert settings.steps()[0].key != key
    assert replace(settings, stemmer="").steps()[0].key == {**key, "stemmer": "", "stemmer_version": ""}
    with pytest.raises(StageError, match="stemmer_version differ"):
        Bm25Retrieve(settings, {"index": made["index"], "words": made["words"]})


def test_conf_holds_the_defaults() -> None:
    path = Path(__file__).resolve().parents[2] / "conf" / "retriever" / "bm25.yaml"
    assert yaml.safe_load(path.read_text()) == asdict(Bm25Settings())


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        (Bm25Settings(depth=0), "retriever.depth=0"),
        (Bm25Settings(k1=-1), "retriever.k1=-1"),
        (Bm25Settings(b=1.5), "retriever.b=1.5"),
        (Bm25Settings(k1=0, method="bm25+"), "retriever.k1=0"),
        (Bm25Settings(k1=0, method="bm25l"), "retriever.k1=0"),
        (Bm25Settings(method="lucen"), "did you mean 'lucene'?"),
        (Bm25Settings(tokens="unicod"), "did you mean 'unicode'?"),
        (Bm25Settings(stemmer="englisch"), "did you mean 'english'?"),
        (Bm25Settings(stopwords="englis"), "did you mean 'english'?"),
    ],
)
def test_bad_settings(settings: Bm25Settings, part: str) -> None:
    with pytest.raises(InputError) as caught:
        settings.validate()
    assert part in str(caught.value)
