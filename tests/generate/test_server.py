"""Completions from a real HTTP server that misbehaves: retries, order, bounds, and what a row or everybody is told."""

from __future__ import annotations

import dataclasses
import email.utils
import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rat_ray.errors import InputError, StageError
from rat_ray.generate import server_http
from rat_ray.generate.engine import Completion, EngineSettings, Prompt, Sampling
from rat_ray.generate.server import HOLDS_MODEL, RANGES, ServerEngine, open_engine, revision
from rat_ray.generate.server_settings import ServerSettings
from tests.generate.llm_server import MODEL, Do, LlmServer, answer, chat, llm_server, text_of

SAMPLING = Sampling(max_tokens=8, seed=3, stop=("\n",))
BUSY = {"error": {"message": "slow down"}}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_http, "FIRST_WAIT", 0.01)


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as running:
        yield running


@pytest.fixture
def opened() -> Iterator[list[ServerEngine]]:
    engines: list[ServerEngine] = []
    yield engines
    for engine in engines:
        engine.close()


def prompts(count: int, words: str = "say") -> list[Prompt]:
    return [Prompt(f"{words} w{i}") for i in range(count)]


def texts(completions: list[Completion]) -> list[str | None]:
    return [completion.text for completion in completions]


def ask(settings: EngineSettings, *words: str, sampling: Sampling = SAMPLING) -> list[Completion]:
    engine = open_engine(settings)
    try:
        return engine.complete([Prompt(one) for one in words], sampling)
    finally:
        engine.close()


# --- what is sent and what comes back --------------------------------------------------------------------------------


def test_a_completion_is_asked_for_with_its_sampling(server: LlmServer) -> None:
    sampling = Sampling(max_tokens=8, temperature=0.5, top_p=0.9, seed=3, stop=("\n", "Q:"))
    engine = open_engine(server.settings())
    [made] = engine.complete([Prompt("say yes", "Be brief.")], sampling)
    engine.close()
    assert made == Completion("yes", "stop", 4, 1, None)
    [body] = server.bodies
    assert body == {
        "model": MODEL,
        "prompt": "Be brief.\n\nsay yes",
        "max_tokens": 8,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 3,
        "stop": ["\n", "Q:"],
    }
    assert server.paths[-1] == "/v1/completions"
    assert "Authorization" not in server.headers[-1]


def test_a_chat_has_the_system_s_message_the_template_s_options_and_the_schema(server: LlmServer) -> None:
    schema = {"type": "object", "properties": {"correct": {"type": "boolean"}}}
    sampling = Sampling(stop=(), schema=json.dumps(schema))
    settings = server.settings(mode="chat", chat_options={"enable_thinking": False})
    engine = open_engine(settings)
    engine.complete([Prompt("say yes", "Be brief."), Prompt("say no")], sampling)
    engine.close()
    body, other = sorted(server.bodies, key=lambda one: -len(one["messages"]))
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "say yes"}]
    assert other["messages"] == [{"role": "user", "content": "say no"}]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == schema
    assert body["response_format"]["json_schema"]["strict"] is True
    assert not {"stop", "top_p", "json_schema"} & set(body)
    assert server.paths[-1] == "/v1/chat/completions"


def test_answers_that_come_out_of_order_are_put_in_order(server: LlmServer) -> None:
    server.delay = lambda text: 0.002 * (30 - int(text.split("w")[-1]))
    engine = open_engine(server.settings())
    made = engine.complete(prompts(30), SAMPLING)
    engine.close()
    assert texts(made) == [f"w{i}" for i in range(30)]
    assert server.answered != [f"say w{i}" for i in range(30)]


def test_429_twice_then_200_out_of_order(server: LlmServer) -> None:
    refusals = {f"w{i}": 2 for i in range(0, 20, 3)}

    def twice(body: Mapping[str, Any]) -> Do | None:
        word = text_of(body).split()[-1]
        if not refusals.get(word):
            return None
        refusals[word] -= 1
        return Do(429, BUSY)

    server.rule = twice
    server.delay = lambda text: 0.03 if int(text.split("w")[-1]) % 2 else 0.0
    engine = open_engine(server.settings(retries=6))
    made = engine.complete(prompts(20), SAMPLING)
    engine.close()
    assert texts(made) == [f"w{i}" for i in range(20)]
    assert not any(refusals.values())
    assert len(server.bodies) == 20 + 2 * 7


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_what_passes_is_tried_again(server: LlmServer, status: int) -> None:
    server.next = [Do(status, b"<html><h1>Bad gateway</h1></html>")] * 2
    assert ask(server.settings(), "say yes") == [Completion("yes", "stop", 2, 1, None)]
    assert len(server.bodies) == 3


def test_lost_connections_half_answers_and_timeouts_are_tried_again(server: LlmServer) -> None:
    half = json.dumps(answer({"prompt": "say yes"})).encode()[:40]
    server.next = [Do(drop=True), Do(content=half, half=True), Do(seconds=5.0)]
    assert texts(ask(server.settings(timeout=0.3), "say yes")) == ["yes"]
    assert len(server.bodies) == 4


@pytest.mark.parametrize("form", ["seconds", "date", "milliseconds"])
def test_retry_after_holds_back_every_request(server: LlmServer, form: str) -> None:
    """After a 429 nothing is sent for as long as the server says, also nothing of other threads."""
    value = {
        "seconds": {"Retry-After": "1"},
        "date": {"Retry-After": email.utils.formatdate(time.time() + 2, usegmt=True)},
        "milliseconds": {"Retry-After-Ms": "700"},
    }[form]
    came: list[float] = []

    def note(body: Mapping[str, Any]) -> None:
        came.append(time.monotonic())

    server.rule = note
    server.next = [Do(429, BUSY, value)]
    engine = open_engine(server.settings(concurrency=1))
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda word: engine.complete([Prompt(word)], SAMPLING), ["say a", "say b", "say c"]))
    engine.close()
    assert [texts(one) for one in made] == [["a"], ["b"], ["c"]]
    # How long it was is the server's wish, not a matter of speed: a date has whole seconds.
    assert came[1] - came[0] > 0.6


def test_retry_after_is_read_in_every_form() -> None:
    def of(**headers: str) -> float | None:
        return server_http.retry_after({name.replace("_", "-"): value for name, value in headers.items()})

    soon = email.utils.formatdate(time.time() + 100, usegmt=True)
    assert of(Retry_After="7") == 7
    assert of(Retry_After="0.5") == 0.5
    assert of(Retry_After_Ms="250", Retry_After="9") == 0.25
    assert 90 < (of(Retry_After=soon) or 0) <= 100
    assert of(Retry_After=email.utils.formatdate(0)) == 0
    assert of(Retry_After="-3") == 0
    assert of(Retry_After="soon") is None
    assert of() is None


def test_a_429_makes_the_whole_engine_ask_less_at_once(server: LlmServer) -> None:
    """A server that takes four requests at once and refuses more: everything is answered, and few tries are refused."""
    refused = 0

    def at_most_four(body: Mapping[str, Any]) -> Do | None:
        nonlocal refused
        if server.busy <= 4:
            return None
        refused += 1
        return Do(429, BUSY)

    server.rule = at_most_four
    server.delay = lambda text: 0.01
    engine = open_engine(server.settings(concurrency=32, retries=8))
    made = engine.complete(prompts(200), SAMPLING)
    engine.close()
    assert texts(made) == [f"w{i}" for i in range(200)]
    assert 28 <= refused < 200


def test_a_server_that_asks_to_be_left_alone_for_hours_is_not_waited_for(server: LlmServer) -> None:
    server.rule = lambda body: Do(429, {"error": {"message": "daily quota"}}, {"Retry-After": "9000"})
    with pytest.raises(StageError, match=r"no answer after 1 try \(HTTP 429: daily quota\)"):
        ask(server.settings(), "say yes")


# --- bounds and threads ----------------------------------------------------------------------------------------------


def test_the_bound_on_requests_at_once_holds_over_all_threads(server: LlmServer) -> None:
    server.delay = lambda text: 0.01
    engine = open_engine(server.settings(concurrency=5))
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda name: engine.complete(prompts(20, name), SAMPLING), "abcdef"))
    engine.close()
    assert [texts(one) for one in made] == [[f"w{i}" for i in range(20)]] * 6
    assert server.most == 5


def test_without_a_bound_in_the_settings_it_is_32(server: LlmServer) -> None:
    server.delay = lambda text: 0.2
    engine = open_engine(server.settings())
    engine.complete(prompts(80), SAMPLING)
    engine.close()
    assert server.most == 32
    assert (RANGES, HOLDS_MODEL) == (4, False)


def test_an_error_of_one_thread_s_prompts_leaves_the_others_alone(server: LlmServer) -> None:
    server.delay = lambda text: 0.01
    server.rule = lambda body: Do(500, BUSY) if "bad" in text_of(body) else None
    engine = open_engine(server.settings(retries=1, concurrency=4))

    def outcome(name: str) -> Any:
        try:
            return texts(engine.complete(prompts(10, name), SAMPLING))
        except StageError as error:
            return str(error)

    with ThreadPoolExecutor(3) as pool:
        first, bad, last = pool.map(outcome, ["good", "bad", "fine"])
    engine.close()
    assert first == last == [f"w{i}" for i in range(10)]
    assert "no prompt was answered; the first: no answer after 2 tries (HTTP 500: slow down)" in bad


def test_a_closed_engine_says_so_and_leaves_no_thread(server: LlmServer) -> None:
    before = threading.active_count()
    engine = open_engine(server.settings())
    engine.complete(prompts(3), SAMPLING)
    engine.close()
    engine.close()
    assert threading.active_count() == before
    with pytest.raises(StageError, match="closed"):
        engine.complete(prompts(1), SAMPLING)


def test_nothing_to_ask(server: LlmServer) -> None:
    assert ask(server.settings()) == []
    assert not server.bodies


# --- errors of one row -----------------------------------------------------------------------------------------------


def test_of_three_prompts_the_middle_one_is_too_long(server: LlmServer) -> None:
    words = "This model's maximum context length is 4096 tokens. However, your prompt contains 9000 input tokens."
    server.by_text = {"long": [Do(400, {"error": {"message": words, "param": "input_tokens", "code": 400}})]}
    first, middle, last = ask(server.settings(), "say a", "long b", "say c")
    assert (first.text, last.text) == ("a", "c")
    assert middle.text is None
    assert middle.error == f"the server refused the prompt (HTTP 400: {words})"


def test_retries_that_end_for_one_prompt_only(server: LlmServer) -> None:
    server.rule = lambda body: Do(500, {"error": {"message": "CUDA"}}) if "bad" in text_of(body) else None
    first, middle, last = ask(server.settings(retries=2), "say a", "bad b", "say c")
    assert (first.text, middle.text, last.text) == ("a", None, "c")
    assert middle.error == "no answer after 3 tries (HTTP 500: CUDA)"


def test_a_prompt_that_loses_its_connection_each_time_is_a_row_s_error(server: LlmServer) -> None:
    server.rule = lambda body: Do(drop=True) if "bad" in text_of(body) else None
    first, middle, last = ask(server.settings(retries=2), "say a", "bad b", "say c")
    assert (first.text, middle.text, last.text) == ("a", None, "c")
    assert "no answer after 3 tries (the connection was lost" in str(middle.error)


ODD: list[tuple[Any, str]] = [
    (chat({"role": "assistant", "content": None}), "holds no text"),
    (chat({"role": "assistant", "content": None, "tool_calls": []}, "tool_calls"), "holds no text"),
    (chat({"role": "assistant", "content": None}, "content_filter"), "content filter"),
    (chat({"role": "assistant", "content": ""}, "content_filter"), "content filter"),
    (chat({"role": "assistant", "content": ""}, None), "holds no text"),
    (chat({"role": "assistant", "content": "", "reasoning_content": "Hm"}, "length"), "inside its reasoning; raise"),
    (chat({"role": "assistant", "content": ""}, "length"), "before any text; raise max_tokens"),
    (chat({"role": "assistant", "content": None, "refusal": "I cannot help."}), "refused: I cannot help."),
    (chat({"role": "assistant", "content": 7}), "holds no text"),
    (chat(None), "holds no text"),
    (chat("text"), "holds no text"),
    ({"choices": []}, "no choice"),
    ({"choices": None}, "no choice"),
    ({"choices": [None]}, "no choice"),
    ({"choices": {"0": {}}}, "no choice"),
    ({}, "no choice"),
    ({"error": {"message": "out of credits"}}, "holds an error"),
    ({"error": "overloaded"}, "holds an error"),
    ({"error": {"message": "no such thing", "code": 400}}, "HTTP 400: no such thing"),
    ({"choices": [{"error": {"message": "provider"}, "finish_reason": "error"}]}, "holds an error"),
    (b'{"choices": [{"message": {"cont', "no JSON"),
    (b"<html><body>Sign in</body></html>", "no JSON: Sign in"),
    (b"", "no JSON"),
    (b"[1, 2]", "no JSON"),
    (b"\xff\xfe\x00", "no JSON"),
    (b"[" * 100_000, "no JSON"),
]


@pytest.mark.parametrize(("content", "words"), ODD, ids=[str(i) for i in range(len(ODD))])
def test_a_reply_without_an_answer_is_an_error_of_its_row(server: LlmServer, content: Any, words: str) -> None:
    server.rule = lambda body: Do(content=content) if "odd" in text_of(body) else None
    first, odd, last = ask(server.settings(mode="chat", retries=1), "say a", "odd b", "say c")
    assert (first.text, odd.text, last.text) == ("a", None, "c")
    assert words in str(odd.error)


def test_an_error_page_is_shown_without_its_tags(server: LlmServer) -> None:
    page = b"<html><head><style>h1 {color: red}</style></head><body><h1>413 Too Large</h1></body></html>"
    server.next = [Do(413, page)]
    [made] = ask(server.settings(concurrency=1), "say a")
    assert made.error == "the server refused the prompt (HTTP 413: 413 Too Large)"


def test_an_error_inside_a_200_is_tried_again_where_its_code_says_so(server: LlmServer) -> None:
    server.next = [Do(content={"error": {"message": "upstream", "code": 502}})]
    assert texts(ask(server.settings(), "say yes")) == ["yes"]


def test_an_empty_text_is_an_answer_where_the_model_stopped(server: LlmServer) -> None:
    server.rule = lambda body: Do(content=answer(body, ""))
    assert ask(server.settings(), "say") == [Completion("", "stop", 1, 0, None)]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_that_the_server_keeps_apart(server: LlmServer, name: str) -> None:
    server.rule = lambda body: Do(content=answer(body, **{name: "Say it."}))
    [made] = ask(server.settings(mode="chat"), "say yes")
    assert (made.text, made.reasoning) == ("yes", "Say it.")


def test_an_answer_in_parts(server: LlmServer) -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm. "}, {"type": "text", "text": "Yes."}]},
        {"type": "text", "text": "Par"},
        {"type": "text", "text": "is"},
    ]
    server.rule = lambda body: Do(content=chat({"content": parts}))
    [made] = ask(server.settings(mode="chat"), "say yes")
    assert (made.text, made.reasoning, made.output_tokens) == ("Paris", "Hm. Yes.", None)


def test_an_answer_of_100_000_characters(server: LlmServer) -> None:
    long = "wordé " * 20_000
    server.rule = lambda body: Do(content=answer(body, long, "length"))
    assert texts(ask(server.settings(), "say it")) == [long]


def test_a_prompt_with_any_characters_arrives_unchanged(server: LlmServer) -> None:
    word = 'q"\\\u2028\u200b\x00é日🙂'
    assert texts(ask(server.settings(), f"say {word}")) == [word]


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
    from tests.generate.llm_server import running

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


# --- addresses, models, revision -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "give the server's address with http://"),
        ("localhost:8000/v1", "e.g. http://localhost:8000/v1"),
        ("ftp://host/v1", "with http:// or https://"),
        ("http:///v1", "give the server's address"),
        ("http://host/v1/chat/completions", "leave out '/chat/completions'"),
        ("http://host/v1?x=1", "nothing may follow the path"),
    ],
)
def test_an_address_that_is_none(url: str, words: str) -> None:
    settings = EngineSettings(kind="openai", model=MODEL, server=ServerSettings(url=url))
    for attempt in (open_engine, lambda given: revision(given, read=False)):
        with pytest.raises(InputError, match=words):
            attempt(settings)


@pytest.mark.parametrize(("name", "value"), [("timeout", 0.0), ("timeout", float("nan")), ("retries", -1)])
def test_settings_that_cannot_work(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"server.{name} is"):
        ServerSettings(**{"url": "http://host/v1", name: value}).validate()  # type: ignore[arg-type]


def test_an_address_without_v1_is_told_the_right_one(server: LlmServer) -> None:
    right = server.url
    settings = server.settings(url=right.removesuffix("/v1"))
    for attempt in (open_engine, lambda given: revision(given, read=True)):
        with pytest.raises(InputError, match=f"set server.url: {right}$"):
            attempt(settings)


def test_nobody_answers_at_the_address(server: LlmServer) -> None:
    settings = server.settings(url="http://127.0.0.1:9/v1", retries=1)
    for attempt in (open_engine, lambda given: revision(given, read=True)):
        with pytest.raises(InputError, match=r"http://127.0.0.1:9/v1: no server answers there \(cannot connect"):
            attempt(settings)


def test_something_else_answers_at_the_address(server: LlmServer) -> None:
    server.models_do = Do(200, b"<html>Welcome</html>")
    with pytest.raises(InputError, match=r"no list of models at /models \(a body that is no JSON: Welcome\)"):
        open_engine(server.settings(retries=0))
    server.models_do = Do(200, {"hello": 1})
    with pytest.raises(InputError, match="no list of models at /models"):
        open_engine(server.settings())


def test_a_model_that_is_not_served(server: LlmServer) -> None:
    with pytest.raises(InputError, match=r"model='tinny': .* does not serve it \(did you mean 'tiny'"):
        open_engine(server.settings(model="tinny"))
    server.models = [{"id": "publisher/tiny"}, {"id": "b"}]
    assert revision(server.settings(), read=True) == "served:tiny"
    with pytest.raises(InputError, match=r"model: must be given, .* serves b, publisher/tiny"):
        open_engine(server.settings(model=""))


def test_the_only_model_needs_no_name(server: LlmServer) -> None:
    server.models = [{"id": "one", "root": "/weights/one", "max_model_len": 4096}]
    settings = server.settings(model="")
    assert revision(settings, read=True) == "served:one from /weights/one"
    assert revision(settings, read=False) is None
    assert texts(ask(settings, "say yes")) == ["yes"]
    assert server.bodies[-1]["model"] == "one"
    with pytest.raises(InputError, match=r"n_ctx is 8192, but .* runs 'one' with 4096; lower n_ctx"):
        open_engine(server.settings(model="", n_ctx=8192))
    open_engine(server.settings(model="", n_ctx=4096)).close()


def test_another_model_behind_the_name_than_was_planned_with(server: LlmServer) -> None:
    server.models = [{"id": MODEL, "root": "/weights/a"}]
    settings = server.settings()
    planned = dataclasses.replace(settings, model_revision=str(revision(settings, read=True)))
    assert texts(ask(planned, "say yes")) == ["yes"]
    server.models = [{"id": MODEL, "root": "/weights/b"}]
    with pytest.raises(StageError, match=r"is now 'served:tiny from /weights/b', the job was planned with"):
        open_engine(planned)


@pytest.mark.parametrize("do", [Do(404), Do(405), Do(403, {"error": {"message": "Missing scopes: model.read"}})])
def test_a_server_that_does_not_list_its_models(server: LlmServer, do: Do) -> None:
    server.models_do = do
    assert revision(server.settings(), read=True) == f"served:{MODEL}"
    assert texts(ask(server.settings(), "say yes")) == ["yes"]
    with pytest.raises(InputError, match="does not list its models"):
        open_engine(server.settings(model=""))


def test_a_dry_run_asks_nobody(server: LlmServer) -> None:
    assert revision(server.settings(key_variable="NOT_SET_ANYWHERE"), read=False) is None
    assert not server.paths
