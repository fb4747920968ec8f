"""The made-up corpus of the benchmarks."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rat_ray import tables


@pytest.fixture(scope="module")
def synthetic() -> Any:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "synthetic.py"
    spec = importlib.util.spec_from_file_location("synthetic", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(synthetic: Any) -> None:
    larger = synthetic.passages(11_000)
    tables.check_table(larger, tables.PASSAGES, "passages")
    assert synthetic.passages(700).equals(larger.slice(0, 700))
    assert synthetic.passages(10_500).to_pylist() == larger.slice(0, 10_500).to_pylist()
    assert not synthetic.passages(700, seed=2).equals(larger.slice(0, 700))
    assert len(set(larger["passage_id"].to_pylist())) == 11_000


def test_lengths_and_words_follow_their_laws(synthetic: Any) -> None:
    texts = synthetic.passages(10_000)["text"].to_pylist()
    words = [text.lower().replace(".", "").replace(",", "").split() for text in texts]
    assert 90 < np.mean([len(line) for line in words]) < 105
    seen: set[str] = set()
    sizes = {}
    for number, line in enumerate(words, 1):
        seen.update(line)
        sizes[number] = len(seen)
    heaps = np.log(sizes[10_000] / sizes[1000]) / np.log(10)
    assert 0.5 < heaps < 0.75
    assert 0.3 < np.mean([word in synthetic.STOPWORDS for line in words for word in line]) < 0.4


def test_every_rank_is_another_word(synthetic: Any) -> None:
    ranks = [*range(100_000), 10**9, 10**9 + 1, synthetic.TOP_RANK]
    assert len({synthetic.word_of(rank) for rank in ranks}) == len(ranks)


def test_questions_are_about_a_passage(synthetic: Any) -> None:
    asked = synthetic.questions(20, 500)
    tables.check_table(asked, tables.QUESTIONS, "questions")
    texts = dict(zip(*(synthetic.passages(500)[name].to_pylist() for name in ("passage_id", "text")), strict=True))
    for row in asked.to_pylist():
        [[name]] = row["evidence"]
        text = texts[name].lower().replace(".", "").replace(",", "")
        assert row["question"].lower().removesuffix("?") in text
