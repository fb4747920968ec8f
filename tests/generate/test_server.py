"""Completions from a real HTTP server that misbehaves: retries, order, bounds, and what a row or everybody is told."""

from __future__ import annotations

import email.utils
import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rat_ray.errors import StageError
from rat_ray.generate import server_reply
from rat_ray.generate.engine import Completion, Prompt, Sampling
from rat_ray.generate.server import HOLDS_MODEL, RANGES, open_engine
from tests.generate.llm_server import MODEL, Do, LlmServer, answer, ask, chat, prompts, text_of, texts

SAMPLING = Sampling(max_tokens=8, seed=3, stop=("\n",))
BUSY = {"error": {"message": "slow down"}}

pytestmark = pytest.mark.usefixtures("impatient")


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
    until: list[float] = []
    early: list[str] = []

    def closed(body: Mapping[str, Any]) -> Do | None:
        if not until:
            until.append(time.time() + 0.6)  # not more than what each form says
            return Do(429, BUSY, value)
        if time.time() < until[0]:
            early.append(text_of(body))
        return None

    server.rule = closed
    engine = open_engine(server.settings(concurrency=1))
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda word: engine.complete([Prompt(word)], SAMPLING), ["say a", "say b", "say c"]))
    engine.close()
    assert [texts(one) for one in made] == [["a"], ["b"], ["c"]]
    assert early == []
    assert len(server.bodies) == 4


def test_retry_after_is_read_in_every_form() -> None:
    def of(**headers: str) -> float | None:
        return server_reply.retry_after({name.replace("_", "-"): value for name, value in headers.items()})

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
    server.delay = lambda text: 0.05
    engine = open_engine(server.settings(concurrency=5))
    with ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda name: engine.complete(prompts(20, name), SAMPLING), "abcdef"))
    engine.close()
    assert [texts(one) for one in made] == [[f"w{i}" for i in range(20)]] * 6
    assert server.most == 5


def test_without_a_bound_in_the_settings_it_is_32(server: LlmServer) -> None:
    server.delay = lambda text: 0.5
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


@pytest.mark.parametrize("half", [b"\\ud83d", b"\\uDE00", b"\xed\xa0\xbd"])
def test_half_a_character_gets_into_no_table(server: LlmServer, half: bytes) -> None:
    body = b'{"choices": [{"text": "a \\ud83d\\ude00 %s", "finish_reason": "length"}]}' % half
    server.next += [Do(content=body), Do(400, b'{"error": {"message": "no %s"}}' % half)]
    made = [ask(server.settings(), "say a")[0] for _ in range(2)]
    assert str(made[0].text).startswith("a \U0001f600 \ufffd")
    for one in made:
        f"{one.text}{one.error}".encode()


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
