"""The whole job on real questions: 30 of HotpotQA's, against the three corpora joined."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.compute as pc
import pytest

from tests.commandline import everything_under, succeed
from tests.helpers import read_partitions

pytestmark = [pytest.mark.model, pytest.mark.ray, pytest.mark.slow]
QUESTIONS = 30


def test_thirty_hotpotqa_questions(shared_data: Path, tmp_path: Path) -> None:
    corpora = [str(shared_data / name / "corpus.jsonl.gz") for name in ("hotpotqa", "nq_open", "fever")]
    arguments = [
        "evaluate",
        "dataset=files",
        f"dataset.path={shared_data / 'hotpotqa'}",
        "dataset.name=hotpotqa",
        f"dataset.corpora=[{','.join(corpora)}]",
        "dataset.qrels=all",
        "dataset.shape=two_hop",
        f"dataset.limit={QUESTIONS}",
        "retriever=hybrid",
        "generator=gemma3_270m_policy",
        "labels.budget=20",
        "out=out",
        "store=store",
    ]
    succeed(*arguments, cwd=tmp_path)
    [(name, annotations)] = read_partitions(tmp_path / "out" / "annotations").items()
    assert name == "hybrid-gemma3_270m_policy"
    assert annotations.num_rows == QUESTIONS
    assert len(pc.unique(annotations.column("question_id"))) == QUESTIONS
    assert annotations.column("error").null_count == QUESTIONS
    assert annotations.column("r@evidence").null_count == 0
    assert 0 < pc.sum(annotations.column("r@evidence")).as_py() < QUESTIONS
    before = everything_under(tmp_path / "store")
    succeed(*arguments, cwd=tmp_path)
    assert everything_under(tmp_path / "store") == before
    stages = json.loads((tmp_path / "out" / "run.json").read_text())["stages"]
    assert sum(stage["new_rows"] for stage in stages) == 0
