"""What a server or a model does not take is left out; what concerns everybody ends the job."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rat_ray.errors import InputError, StageError
from rat_ray.generate import server_pace
from rat_ray.generate.engine import Prompt, Sampling
from rat_ray.generate.server import open_engine
from tests.generate.llm_server import Do, LlmServer, ask, prompts, running, text_of, texts

SAMPLING = Sampling(max_tokens=8, seed=3, stop=("\n",))
BUSY = {"error": {"message": "slow down"}}

pytestmark = pytest.mark.usefixtures("impatient")


# --- what a server or model does not take ----------------------------------------------------------------------------


def refusing(name: str, words: str, status: int = 400) -> Any:
    def rule(body: Mapping[str, Any]) -> Do | None:
        if name not in body:
            return None
        return Do(status, {"error": {"message": words, "param": None}}, seconds=0.01)

    return rule


REFUSALS = [
    ("max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'"),
    ("temperature", "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value."),
    ("top_p", "Unsupported parameter: 'top_p' is not supported with this model."),
    ("seed", "Unrecognized request argument supplied: seed"),
    ("stop", "Unsupported parameter: 'stop' is not supported with this model."),
    ("response_format", "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."),
    ("response_format", "failed to parse grammar"),
    ("chat_template_kwargs", "body.chat_template_kwargs: Extra inputs are not permitted"),
]


@pytest.mark.parametrize(("name", "words"), REFUSALS)
def test_what_is_refused_is_left_out_from_then_on(
    server: LlmServer, name: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    server.rule = refusing(name, words)
    engine = open_engine(server.settings(mode="chat", chat_options={"x": 1}, concurrency=4))
    sampling = Sampling(max_tokens=8, top_p=0.5, stop=("\n",), schema='{"type": "object"}')
    assert texts(engine.complete(prompts(8), sampling)) == [f"w{i}" for i in range(8)]
    sent = len(server.bodies)
    assert 8 < sent <= 12  # only those that were in work with the first one
    assert texts(engine.complete(prompts(8), sampling)) == [f"w{i}" for i in range(8)]
    engine.close()
    assert len(server.bodies) == sent + 8
    whole = {"max_tokens", "temperature", "top_p", "seed", "stop", "response_format", "chat_template_kwargs"}
    assert set(server.bodies[-1]) & whole == whole - {name}
    assert server.bodies[-1].get("max_completion_tokens") == (8 if name == "max_tokens" else None)
    assert capfd.readouterr().err.count(words[:40]) == 1  # said once


def test_a_model_that_refuses_several_things(server: LlmServer) -> None:
    rules = [refusing(name, words) for name, words in REFUSALS]
    server.rule = lambda body: next((do for rule in rules if (do := rule(body))), None)
    settings = server.settings(mode="chat", chat_options={"x": 1}, retries=0)
    sampling = Sampling(top_p=0.5, schema='{"type": "object"}')
    assert texts(ask(settings, "say yes", sampling=sampling)) == ["yes"]


def test_a_validation_error_in_fastapi_s_form(server: LlmServer) -> None:
    detail = [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": 3}]
    server.rule = lambda body: Do(422, {"detail": detail}) if "seed" in body else None
    assert texts(ask(server.settings(), "say yes")) == ["yes"]


def test_a_model_without_a_system_role_gets_it_with_the_user_s_words(server: LlmServer) -> None:
    words = "System role not supported"
    server.rule = lambda body: Do(400, {"error": {"message": words}}) if len(body["messages"]) > 1 else None
    engine = open_engine(server.settings(mode="chat"))
    assert texts(engine.complete([Prompt("say yes", "Be brief.")], SAMPLING)) == ["yes"]
    engine.close()
    assert server.bodies[-1]["messages"] == [{"role": "user", "content": "Be brief.\n\nsay yes"}]


@pytest.mark.parametrize(
    "words",
    [
        "'max_tokens' or 'max_completion_tokens' is too large: 64. This model's maximum context length is 4096 tokens",
        "max_tokens is too large: 200000. This model supports at most 16384 completion tokens",
        "The prompt asks for something with a temperature",
    ],
)
def test_a_refusal_that_only_mentions_a_setting_changes_nothing(server: LlmServer, words: str) -> None:
    server.rule = refusing("max_tokens", words)
    [made] = ask(server.settings(), "say yes")
    assert made.error == f"the server refused the prompt (HTTP 400: {words})"
    assert len(server.bodies) == 1


# --- errors of everything --------------------------------------------------------------------------------------------


def test_a_server_that_is_gone(server: LlmServer) -> None:
    other = LlmServer()
    with running(other.application()) as process:
        other.url = process.url
        engine = open_engine(other.settings(retries=2))
        assert texts(engine.complete(prompts(2), SAMPLING)) == ["w0", "w1"]
        process.stop()
        with pytest.raises(StageError, match=r"no answer after 3 tries \(cannot connect.*run the same command again"):
            engine.complete(prompts(500), SAMPLING)
        engine.close()


def test_a_server_that_dies_in_the_middle_leaves_no_rows_with_errors(server: LlmServer) -> None:
    """What was answered before does not make a lost server an error of the other rows."""
    dead = threading.Event()

    def dies(body: Mapping[str, Any]) -> Do | None:
        if len(server.answered) >= 10:
            dead.set()
            server.models_do = Do(drop=True)
        return Do(drop=True) if dead.is_set() else None

    server.rule = dies
    engine = open_engine(server.settings(retries=2, concurrency=4))
    with pytest.raises(StageError, match="run the same command again when the server answers"):
        engine.complete(prompts(100), SAMPLING)
    engine.close()


def test_every_prompt_of_a_call_failed(server: LlmServer) -> None:
    server.rule = lambda body: Do(500, BUSY)
    with pytest.raises(StageError, match=r"no prompt was answered; the first: no answer after 2 tries \(HTTP 500"):
        ask(server.settings(retries=1), "say a", "say b")
    with pytest.raises(StageError, match="no answer after 2 tries"):
        ask(server.settings(retries=1, concurrency=8), *[f"say w{i}" for i in range(1000)])
    assert len(server.bodies) < 200  # not two tries for each of them


def test_one_prompt_alone_that_times_out_ends_the_job(server: LlmServer) -> None:
    server.rule = lambda body: Do(seconds=5.0)
    with pytest.raises(StageError, match=r"server.timeout=0.1 s"):
        ask(server.settings(retries=1, timeout=0.1), "say a")


@pytest.mark.parametrize("do", [Do(500, BUSY), Do(seconds=5.0), Do(drop=True)])
def test_a_few_bad_prompts_that_are_all_of_a_range_get_their_errors(server: LlmServer, do: Do) -> None:
    server.rule = lambda body: do if "bad" in text_of(body) else None
    engine = open_engine(server.settings(retries=1, timeout=0.3))
    assert texts(engine.complete(prompts(1), SAMPLING)) == ["w0"]
    for count in (2, 1):
        made = engine.complete(prompts(count, "bad"), SAMPLING)
        assert [str(one.error)[:25] for one in made] == ["no answer after 2 tries ("] * count
    with pytest.raises(StageError, match="no prompt was answered"):
        engine.complete(prompts(8, "bad"), SAMPLING)
    engine.close()


def test_a_server_that_is_gone_ends_all_threads_at_once(server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_pace, "FIRST_WAIT", 0.05)
    engine = open_engine(server.settings(retries=4, concurrency=4))
    assert texts(engine.complete(prompts(1), SAMPLING)) == ["w0"]
    server.models_do = Do(503, BUSY)
    server.rule = lambda body: Do(503, BUSY)

    def outcome(name: str) -> str:
        with pytest.raises(StageError) as error:
            engine.complete(prompts(20, name), SAMPLING)
        return str(error.value)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(outcome, "abcdef"))
    engine.close()
    assert len(set(found)) == 1
    assert "no answer after 5 tries (HTTP 503: slow down); run the same command again" in found[0]
    assert len(server.bodies) < 40  # not five tries for each thread


def test_a_quota_that_is_used_up_ends_the_job(server: LlmServer) -> None:
    server.rule = lambda body: Do(429, {"error": {"message": "insufficient_quota"}})
    with pytest.raises(StageError, match=r"HTTP 429: insufficient_quota"):
        ask(server.settings(retries=1), *[f"say w{i}" for i in range(40)])


NOT_FOUND = {"error": {"message": "The model `tiny` does not exist"}}


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (Do(401, BUSY), r"refuses requests without a key \(see server.key_variable\) \(HTTP 401\)"),
        (Do(403, BUSY), r"or its use of this model \(HTTP 403\)"),
        (Do(402, BUSY), r"asks for payment \(HTTP 402: slow down\)"),
        (Do(404, NOT_FOUND), r"no model 'tiny' \(HTTP 404: The model `tiny` does not exist\)"),
        (
            Do(307, b"", {"Location": "https://elsewhere.example/v1"}),
            "a redirect to https://elsewhere.example/v1, which",
        ),
    ],
    ids=["401", "403", "402", "404", "307"],
)
def test_what_concerns_every_prompt_ends_the_job_at_once(server: LlmServer, do: Do, words: str) -> None:
    server.rule = lambda body: do
    with pytest.raises(InputError, match=words):
        ask(server.settings(concurrency=4), *[f"say w{i}" for i in range(100)])
    assert len(server.bodies) <= 8


def test_a_403_about_the_prompt_is_the_row_s(server: LlmServer) -> None:
    server.next = [Do(403, {"error": {"message": "Input was flagged by moderation"}})]
    first, second = ask(server.settings(concurrency=1), "say a", "say b")
    assert (first.text, second.text) == (None, "b")


TEMPLATE = "default chat template is no longer allowed, so you must provide a chat template if the tokenizer has none"


@pytest.mark.parametrize("words", [TEMPLATE, "The model does not support Chat Completions API"])
def test_a_base_model_without_a_chat_template(server: LlmServer, words: str) -> None:
    server.rule = lambda body: Do(400, {"error": {"message": words}}) if "messages" in body else None
    with pytest.raises(InputError, match="model 'tiny' has no chat template; set mode: completion"):
        ask(server.settings(mode="chat"), "say yes")
    assert texts(ask(server.settings(), "say yes")) == ["yes"]
