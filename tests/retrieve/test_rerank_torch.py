"""Reranking with a real cross-encoder of random weights (see cross_encoders.py), against transformers alone.

Skipped, with its reason, where sentence-transformers is not installed: pip install 'rat_ray[torch]'
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.errors import InputError, StageError
from rat_ray.retrieve.bm25 import Bm25Retrieve, Bm25Settings
from rat_ray.retrieve.hits import passage_texts
from rat_ray.retrieve.rerank import RerankSettings, RerankWorker
from tests.helpers import MemoryInput
from tests.retrieve.corpora import made_up, made_up_questions, passages_table, questions_table, search
from tests.retrieve.cross_encoders import tiny_cross_encoder
from tests.retrieve.stepping import build

pytest.importorskip("sentence_transformers", reason="the extra `torch` is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_cross_encoder(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture
def settings(model: str) -> RerankSettings:
    return RerankSettings(model=model, device="cpu")


def retrievals(lists: list[list[str] | None], errors: list[str | None] | None = None) -> pa.Table:
    return pa.table(
        {
            "question_id": [f"q{row}" for row in range(len(lists))],
            "passage_ids": lists,
            "scores": [None if names is None else [float(-place) for place in range(len(names))] for names in lists],
            "error": errors or [None] * len(lists),
        },
        schema=tables.RETRIEVALS,
    )


def rerank(settings: RerankSettings, passages: pa.Table, questions: pa.Table, found: pa.Table) -> list[dict[str, Any]]:
    settings.validate()
    worker = RerankWorker(settings.resolved(), {"passages": MemoryInput(passages)})
    made = worker({"questions": questions, "retrievals": found})
    tables.check_table(made, tables.RETRIEVALS, "rerank")
    rows: list[dict[str, Any]] = made.to_pylist()
    return rows


def directly(model: str, question: str, texts: list[str]) -> list[float]:
    """The model's scores by transformers alone, one pair at a time."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    scorer = AutoModelForSequenceClassification.from_pretrained(model).eval()
    with torch.inference_mode():
        return [
            float(scorer(**tokenizer(question, text, return_tensors="pt", truncation=True)).logits[0, 0])
            for text in texts
        ]


def test_bm25_s_lists_come_in_the_order_of_the_model_s_scores(settings: RerankSettings, tmp_path: Path) -> None:
    passages, questions = made_up(150), made_up_questions(12)
    found = search(build(Bm25Settings(depth=30), Bm25Retrieve, tmp_path, passages), questions)
    rows = rerank(replace(settings, top=15, depth=10), passages, questions, found)
    texts = dict(zip(passages["passage_id"].to_pylist(), passage_texts(passages, title=True), strict=True))
    moved = 0
    for question, before, after in zip(questions.to_pylist(), found.to_pylist(), rows, strict=True):
        wanted = before["passage_ids"][:15]
        scores = dict(
            zip(wanted, directly(settings.model, question["question"], [texts[i] for i in wanted]), strict=True)
        )
        assert after["question_id"] == before["question_id"]
        assert after["scores"] == pytest.approx([scores[name] for name in after["passage_ids"]], abs=1e-5)
        best = sorted(wanted, key=lambda name: (-round(scores[name], 5), name))[:10]
        assert [round(scores[name], 5) for name in after["passage_ids"]] == [round(scores[name], 5) for name in best]
        pairs = [(-score, name) for score, name in zip(after["scores"], after["passage_ids"], strict=True)]
        assert pairs == sorted(set(pairs)), "best first, ties by passage id"
        moved += after["passage_ids"] != wanted[:10]
    assert moved > 6, "another order than BM25's"


def test_copies_of_a_passage_come_in_the_order_of_their_ids(settings: RerankSettings) -> None:
    passages = passages_table([(name, None, "river castle") for name in "cab"])
    [row] = rerank(settings, passages, questions_table(["castle"]), retrievals([["c", "a", "b"]]))
    assert row["passage_ids"] == ["a", "b", "c"]
    assert len(set(row["scores"])) == 1


def test_errors_and_empty_lists_stay(settings: RerankSettings) -> None:
    passages = passages_table([("a", None, "river"), ("b", None, "castle")])
    found = retrievals([None, [], ["a", "b"], ["b"]], ["no index", None, None, None])
    rows = rerank(settings, passages, questions_table(["river", "zebra", "castle", ""]), found)
    assert rows[0] == {"question_id": "q0", "passage_ids": None, "scores": None, "error": "no index"}
    assert rows[1] == {"question_id": "q1", "passage_ids": [], "scores": [], "error": None}
    assert sorted(rows[2]["passage_ids"]) == ["a", "b"]
    assert rows[3]["passage_ids"] == ["b"]


def test_no_questions(settings: RerankSettings) -> None:
    assert rerank(settings, passages_table([]), questions_table([]), retrievals([])) == []


def test_only_the_first_are_scored(settings: RerankSettings) -> None:
    passages = passages_table([("a", None, "river"), ("b", None, "castle")])
    found = retrievals([["a", "b", "not in the passages"]])
    [row] = rerank(replace(settings, top=2, depth=1), passages, questions_table(["castle"]), found)
    scores = directly(settings.model, "castle", ["river", "castle"])
    assert row["passage_ids"] == ["a" if scores[0] > scores[1] else "b"]
    with pytest.raises(StageError, match="passage 'not in the passages' is not in the passages table"):
        rerank(settings, passages, questions_table(["castle"]), found)


def test_titles_can_be_left_out(settings: RerankSettings) -> None:
    passages, questions = passages_table([("a", "Winter", "river castle")]), questions_table(["castle"])
    for title, text in ((True, "Winter river castle"), (False, "river castle")):
        [row] = rerank(replace(settings, title=title), passages, questions, retrievals([["a"]]))
        assert row["scores"] == pytest.approx(directly(settings.model, "castle", [text]), abs=1e-5)


def test_batches_change_no_more_than_rounding(settings: RerankSettings) -> None:
    passages, questions = made_up(40), made_up_questions(6)
    found = retrievals([passages["passage_id"].to_pylist()[row : row + 20] for row in range(6)])
    one = rerank(replace(settings, batch=1), passages, questions, found)
    for batch in (7, 200):
        for left, right in zip(rerank(replace(settings, batch=batch), passages, questions, found), one, strict=True):
            assert left["scores"] == pytest.approx(right["scores"], abs=1e-5)


def test_long_pairs_are_cut(settings: RerankSettings) -> None:
    passages = passages_table([("a", None, "river " * 30), ("b", None, "river " * 6)])
    [row] = rerank(replace(settings, max_tokens=10), passages, questions_table(["castle"]), retrievals([["a", "b"]]))
    assert row["scores"][0] == pytest.approx(row["scores"][1], abs=1e-5)  # 6 words are left of both
    with pytest.raises(InputError, match=r"retriever.max_tokens=99: the model has only 64 positions"):
        rerank(replace(settings, max_tokens=99), passages, questions_table(["castle"]), retrievals([["a"]]))


def test_questions_of_other_rows_are_refused(settings: RerankSettings) -> None:
    passages = passages_table([("a", None, "river")])
    with pytest.raises(StageError, match="not hold the same questions"):
        rerank(settings, passages, questions_table(["one", "two"]), retrievals([["a"], ["a"]]).take([1, 0]))


def test_a_classifier_is_no_reranker(settings: RerankSettings, tmp_path: Path) -> None:
    folder = tiny_cross_encoder(tmp_path / "three", labels=3)
    with pytest.raises(InputError, match="gives 3 scores per pair"):
        RerankWorker(replace(settings, model=str(folder)), {"passages": MemoryInput(passages_table([]))})


def test_a_worker_with_other_weights_fails(settings: RerankSettings, tmp_path: Path) -> None:
    planned = settings.resolved()
    other = tiny_cross_encoder(tmp_path / "other", seed=1)
    with pytest.raises(StageError, match="the job was planned with sha256:"):
        RerankWorker(replace(planned, model=str(other)), {"passages": MemoryInput(passages_table([]))})
