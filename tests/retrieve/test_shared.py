"""The three retrievers on real questions over 14,812 passages (skipped where the shared data are absent)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import datasets
from rat_ray.datasets import FilesSettings
from rat_ray.retrieve.kinds import RETRIEVERS
from tests.retrieve.corpora import search
from tests.retrieve.stepping import build

DATASETS = {
    "hotpotqa": {"qrels": "all"},
    "nq_open": {"qrels": "any"},
    "fever": {"qrels": "any", "questions": "claims.jsonl"},
}
QUESTIONS = 200
DEPTH = 20  # of the lists that are fused; of 100 passages each, the fusion has .595, .890 and .990

# Share of the first 200 questions whose evidence is complete within the top 10, as measured; the test allows 0.02.
COMPLETE_AT_10 = {
    "hotpotqa": {"bm25": 0.705, "dense": 0.435, "hybrid": 0.625},
    "nq_open": {"bm25": 0.900, "dense": 0.780, "hybrid": 0.905},
    "fever": {"bm25": 1.000, "dense": 0.960, "hybrid": 0.990},
}


def complete_at(depth: int, evidence: list[list[list[str]]], found: list[list[str]]) -> float:
    """Share of questions for which one whole set of the evidence is within the first `depth` passages."""
    complete = [
        any(set(needed) <= set(names[:depth]) for needed in sets) for sets, names in zip(evidence, found, strict=True)
    ]
    return sum(complete) / len(complete)


@pytest.fixture(scope="module")
def recalls(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    corpora = [str(shared_data / name / "corpus.jsonl") for name in DATASETS]
    sources = {
        name: datasets.load(FilesSettings(path=str(shared_data / name), corpora=corpora, **more))  # type: ignore[arg-type]
        for name, more in DATASETS.items()
    }
    passages = pa.concat_tables(sources["fever"].passages())
    folder = tmp_path_factory.mktemp("index")
    workers = {
        kind: build(RETRIEVERS[kind].settings(depth=DEPTH), RETRIEVERS[kind].worker, folder / kind, passages)
        for kind in ("bm25", "dense")
    }
    fusion = RETRIEVERS["hybrid"].worker(RETRIEVERS["hybrid"].settings(), {})
    result = {}
    for name, source in sources.items():
        questions = source.questions().slice(0, QUESTIONS)
        found = {kind: search(worker, questions) for kind, worker in workers.items()}
        found["hybrid"] = fusion(found)
        evidence = questions["evidence"].to_pylist()
        result[name] = {
            kind: complete_at(10, evidence, each["passage_ids"].to_pylist()) for kind, each in found.items()
        }
    return result


@pytest.mark.parametrize("name", list(DATASETS))
@pytest.mark.slow
def test_evidence_is_found_as_often_as_measured(recalls: dict[str, dict[str, float]], name: str) -> None:
    assert recalls[name] == pytest.approx(COMPLETE_AT_10[name], abs=0.02)
