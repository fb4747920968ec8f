"""The generation worker with an engine of prepared texts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.errors import InputError
from rat_ray.generate import Completion, Sampling
from rat_ray.generate import worker as worker_module
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings, clean_answer
from tests.helpers import MemoryInput

PROMPTS = {"open": "{% for p in passages %}{{ p.number }} {{ p.title }} {{ p.text }}\n{% endfor %}{{ question }}"}
SETTINGS = GeneratorSettings(prompts=PROMPTS, passages=2, max_prompt_tokens=16)
PASSAGES = MemoryInput(
    pa.Table.from_pylist(
        [{"passage_id": f"p{i}", "title": None if i else "T", "text": "one two\nthree"} for i in range(4)],
        schema=tables.PASSAGES,
    )
)


class WordEngine:
    """Answers with the prompt's last word, fails on `boom`; a word is a token."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def complete(self, prompts: Sequence[str], sampling: Sampling) -> list[Completion]:
        self.prompts.extend(prompts)
        return [
            Completion(None, None, None, None, "engine failed")
            if prompt.endswith("boom")
            else Completion(f" {prompt.split()[-1]} \nQuestion:", "stop", len(prompt.split()), 1, None)
            for prompt in prompts
        ]

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        return [len(prompt.split()) for prompt in prompts]

    def close(self) -> None:
        pass


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> WordEngine:
    words = WordEngine()
    monkeypatch.setattr(worker_module, "open_engine", lambda settings: words)
    return words


def generate(rows: list[tuple[str, list[str] | None, str | None]], settings: GeneratorSettings = SETTINGS) -> pa.Table:
    questions = [{"question_id": f"q{i}", "question": row[0]} for i, row in enumerate(rows)]
    found = [{"question_id": f"q{i}", "passage_ids": row[1], "error": row[2]} for i, row in enumerate(rows)]
    table = GenerateWorker(settings, {"passages": PASSAGES})(
        {
            "questions": pa.Table.from_pylist(questions, schema=tables.QUESTIONS),
            "retrievals": pa.Table.from_pylist(found, schema=tables.RETRIEVALS),
        }
    )
    tables.check_table(table, tables.ANSWERS, "answers")
    assert table.column("question_id").to_pylist() == [f"q{i}" for i in range(len(rows))]
    return table


def test_one_bad_row_does_not_touch_the_others(engine: WordEngine) -> None:
    table = generate(
        [
            ("who?", ["p0", "p1", "p2"], None),
            ("word " * 30, ["p0"], None),
            ("what?", None, "retrieval failed"),
            ("goes boom", ["p1"], None),
            ("how?", [], None),
        ]
    )
    assert table.column("answer").to_pylist() == ["who?", None, None, None, "how?"]
    assert table.column("context_ids").to_pylist() == [["p0", "p1"], None, None, ["p1"], []]
    errors = table.column("error").to_pylist()
    assert errors[0] is None
    assert "too long: 30 tokens" in errors[1]
    assert errors[2:] == ["retrieval failed", "engine failed", None]
    assert engine.prompts[0] == "1 T one two three\n2  one two three\nwho?"


def test_context_is_what_fits_in_rank_order(engine: WordEngine) -> None:
    asked = "a b c d e f g h"
    assert generate([(asked, ["p2", "p1"], None)]).column("context_ids").to_pylist() == [["p2", "p1"]]
    assert generate([(asked + " i", ["p2", "p1"], None)]).column("context_ids").to_pylist() == [["p2"]]
    assert generate([(asked * 2, ["p2", "p1"], None)]).column("context_ids").to_pylist() == [[]]


def test_no_rows(engine: WordEngine) -> None:
    assert generate([]).num_rows == 0


def test_a_bad_template_fails_before_any_row(engine: WordEngine) -> None:
    with pytest.raises(InputError, match="wrong_name"):
        GenerateWorker(GeneratorSettings(prompts={"open": "{{ wrong_name }}"}), {"passages": PASSAGES})
    with pytest.raises(InputError, match="no prompt"):
        GenerateWorker(GeneratorSettings(prompts={"claim": "x"}), {"passages": PASSAGES})


@pytest.mark.parametrize(("text", "answer"), [(" a b \nc", "a b"), ("\n\n a", "a"), ("", ""), (" \n", "")])
def test_clean_answer(text: str, answer: str) -> None:
    assert clean_answer(text) == answer
