"""The judge's parser, and its workers with an engine of prepared texts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.annotate import judge as judge_module
from rat_ray.annotate.judge import JudgeR, JudgeSettings, JudgeT, parse_verdict
from rat_ray.errors import InputError
from rat_ray.generate import Completion, Sampling
from tests.helpers import MemoryInput

PROMPTS = {
    "r": "{% for p in passages %}{{ p.number }} {{ p.text }}\n{% endfor %}{{ question }}",
    "t": "{{ question }}|{{ answers | join('/') }}|{{ answer }}",
}
SETTINGS = JudgeSettings(prompts=PROMPTS, max_prompt_tokens=40, abstention_phrase="Pass.")
PASSAGES = MemoryInput(
    pa.Table.from_pylist([{"passage_id": "p1", "title": "T", "text": "yes text"}], schema=tables.PASSAGES)
)


class EchoEngine:
    """Says what the prompt's last word is; counts characters as tokens."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def complete(self, prompts: Sequence[str], sampling: Sampling) -> list[Completion]:
        self.prompts.extend(prompts)
        return [
            Completion(None, None, None, None, "boom")
            if p.endswith("boom")
            else Completion(p.split()[-1], "stop", 1, 1, None)
            for p in prompts
        ]

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        return [len(prompt) for prompt in prompts]

    def close(self) -> None:
        pass


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> EchoEngine:
    echo = EchoEngine()
    monkeypatch.setattr(judge_module, "open_engine", lambda settings: echo)
    return echo


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("yes", 1), (" Yes.", 1), ("NO", 0), ("no, because yes", 0), ("**Yes**", 1), ("ｙｅｓ", 1), ("y\u200bes", 1),
        ("yesterday", None), ("not", None), ("none", None), ("", None), ("The answer is yes", None), ("maybe", None),
        ("GRID: C", None), ("{}", None),
    ],
)  # fmt: skip
def test_parse_verdict(text: str, verdict: int | None) -> None:
    assert parse_verdict(text) == verdict


def questions(*texts: str) -> pa.Table:
    rows = [{"question_id": f"q{i}", "question": text, "answers": ["Paris"]} for i, text in enumerate(texts)]
    return pa.Table.from_pylist(rows, schema=tables.QUESTIONS)


def test_judge_r_keeps_rows_and_says_why_a_verdict_is_missing(engine: EchoEngine) -> None:
    asked = questions("it is yes", "it is no", "it is blue", "goes boom", "failed before", "long " * 20 + "yes")
    contexts = pa.table({
        "question_id": asked.column("question_id"),
        "context_ids": pa.array([["p1"], [], [], [], None, []], tables.IDS),
        "error": pa.array([None, None, None, None, "retrieval failed", None], pa.string()),
    })  # fmt: skip
    table = JudgeR(SETTINGS, {"passages": PASSAGES})({"questions": asked, "contexts": contexts})
    tables.check_table(table, tables.VERDICTS, "verdicts")
    assert table.column("question_id").equals(asked.column("question_id"))
    assert table.column("verdict").to_pylist() == [1, 0, None, None, None, None]
    assert table.column("status").to_pylist() == ["ok", "ok", "unparsed", "error", "not_asked", "error"]
    assert table.column("raw").to_pylist() == ["yes", "no", "blue", None, None, None]
    errors = table.column("error").to_pylist()
    assert errors[:5] == [None, None, None, "boom", "retrieval failed"]
    assert "too long" in errors[5]
    assert engine.prompts[0] == "1 yes text\nit is yes"


def test_judge_t_is_not_asked_about_abstentions_and_failures(engine: EchoEngine) -> None:
    asked = questions("a", "b", "c", "d")
    answers = pa.Table.from_pylist(
        [
            {"question_id": "q0", "answer": "verdict yes"},
            {"question_id": "q1", "answer": "Pass"},
            {"question_id": "q2", "answer": "I don’t know."},
            {"question_id": "q3", "error": "too long"},
        ],
        schema=tables.ANSWERS,
    )
    table = JudgeT(SETTINGS, {})({"questions": asked, "answers": answers})
    assert table.column("status").to_pylist() == ["ok", "not_asked", "not_asked", "not_asked"]
    assert table.column("error").to_pylist() == [None, None, None, "too long"]
    assert engine.prompts == ["a|Paris|verdict yes"]


def test_judge_settings_are_checked() -> None:
    with pytest.raises(InputError, match="judge variables"):
        JudgeSettings(variables=("r", "q")).validate()
    with pytest.raises(InputError, match="judge name"):
        JudgeSettings(name="a b").validate()
