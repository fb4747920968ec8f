"""The key goes into the request and nowhere else; proxies are the environment's."""

from __future__ import annotations

import base64
import dataclasses
import html
import json
import logging
import traceback
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from aiohttp import web

from rat_ray import tables
from rat_ray.errors import InputError, StageError
from rat_ray.generate import close_engines, server_key, server_pace
from rat_ray.generate.engine import EngineSettings, Prompt, Sampling
from rat_ray.generate.server import open_engine, revision
from rat_ray.generate.server_settings import ServerSettings
from rat_ray.generate.worker import GenerateWorker, GeneratorSettings
from rat_ray.keys import key_of
from tests.generate.llm_server import Do, LlmServer, answer, llm_server, running, text_of
from tests.helpers import MemoryInput

KEY = 'sk-PLANTED/secret"KEY+that=MUST\\not-APPEAR-0123456789'
SAMPLING = Sampling(max_tokens=8)


def spellings(key: str = KEY) -> list[str]:
    quoted = [urllib.parse.quote(key), urllib.parse.quote(key, safe="")]
    return [key, json.dumps(key)[1:-1], *quoted, base64.b64encode(key.encode()).decode(), repr(key)[1:-1]]


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_pace, "FIRST_WAIT", 0.01)
    monkeypatch.setenv("MY_KEY", KEY)


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as running_server:
        running_server.key = KEY
        yield running_server


def settings_of(server: LlmServer, **more: Any) -> EngineSettings:
    return server.settings(key_variable="MY_KEY", **{"mode": "chat", "retries": 1, **more})


ECHOES = {
    "message": lambda: {"error": {"message": f"bad request with Bearer {KEY}"}},
    "headers": lambda: {"error": "bad", "headers": {"Authorization": f"Bearer {KEY}"}, "message": f"see {KEY}"},
    "page": lambda: f"<html>Bearer {KEY}</html>".encode(),
    "escaped": lambda: json.dumps({"detail": f"Bearer {KEY}"}).replace("/", "\\/").encode(),
    "quoted": lambda: f"/login?key={urllib.parse.quote(KEY)}&all={urllib.parse.quote(KEY, safe='')}".encode(),
    "base64": lambda: base64.b64encode(KEY.encode()),
    "fields": lambda: {"detail": [{"loc": ["header", "authorization"], "msg": f"Bearer {KEY}"}]},
    "far": lambda: ("x" * 280 + KEY).encode(),
}


@pytest.mark.parametrize("status", [200, 307, 400, 401, 402, 403, 404, 422, 429, 500])
@pytest.mark.parametrize("echo", ECHOES)
def test_a_server_that_repeats_the_key_in_its_errors(
    server: LlmServer,
    echo: str,
    status: int,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    engine = open_engine(settings_of(server))
    do = Do(status, ECHOES[echo](), {"Location": f"/v1/other?key={urllib.parse.quote(KEY)}"} if status == 307 else {})
    server.rule = lambda body: do
    try:
        shown = repr(engine.complete([Prompt("say a"), Prompt("say b")], SAMPLING))
    except (InputError, StageError) as error:
        shown = "".join(traceback.format_exception(error)) + repr(error)
    engine.close()
    told = capfd.readouterr()
    shown += caplog.text + told.out + told.err + repr(engine) + repr(vars(engine)) + repr(vars(engine._http))
    for spelling in spellings():
        assert spelling not in shown
    assert KEY[:12] not in shown  # nor cut off in its middle


def test_a_key_in_an_answer_gets_into_no_table(server: LlmServer) -> None:
    server.rule = lambda body: Do(
        content=answer(body, f"your key is {KEY}", f"stop {KEY}", reasoning_content=f"Bearer {KEY}")
    )
    engine = open_engine(settings_of(server))
    [made] = engine.complete([Prompt("say it")], SAMPLING)
    engine.close()
    assert (made.text, made.finish_reason, made.reasoning) == ("your key is ***", "stop ***", "Bearer ***")


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(character):04x}" for character in text)


@pytest.mark.parametrize(
    "spelt", [escaped(KEY), *(json.dumps(one)[1:-1] for one in spellings()), json.dumps(html.escape(KEY))[1:-1]]
)
def test_a_key_in_an_answer_is_found_however_it_is_spelt(server: LlmServer, spelt: str) -> None:
    said = f'"message": {{"content": "k {spelt}", "reasoning": "{spelt}"}}'
    refused = f'"message": {{"refusal": "{spelt}"}}'
    server.next += [
        Do(content=f'{{"choices": [{{"finish_reason": "stop", {one}}}]}}'.encode()) for one in (said, refused)
    ]
    engine = open_engine(settings_of(server))
    made = [engine.complete([Prompt("say it")], SAMPLING)[0] for _ in range(2)]
    engine.close()
    assert (made[0].text, made[0].reasoning, made[1].error) == ("k ***", "***", "the model refused: ***")


@pytest.mark.parametrize("key", ["EMPTY", "none", "sk", "0", "x"])
def test_a_word_in_place_of_a_key_changes_no_answer(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    server.key = key
    text = f"the text holds {key}, a task, 10 boxes"
    server.rule = lambda body: Do(content=answer(body, text))
    engine = open_engine(settings_of(server))
    [made] = engine.complete([Prompt("say it")], SAMPLING)
    engine.close()
    assert (made.text, made.output_tokens) == (text, len(text.split()))


def test_the_key_is_sent_and_is_in_no_setting(server: LlmServer) -> None:
    settings = settings_of(server)
    engine = open_engine(settings)
    assert [one.text for one in engine.complete([Prompt("say yes")], SAMPLING)] == ["yes"]
    engine.close()
    assert {one.get("Authorization") for one in server.headers} == {f"Bearer {KEY}"}
    shown = (
        repr(settings) + repr(key_of(settings)) + str(revision(settings, read=True)) + repr(server_key.Key("MY_KEY"))
    )
    assert KEY[:12] not in shown
    assert "url" not in repr(key_of(settings))


def test_a_redirect_is_not_followed_with_the_key(server: LlmServer) -> None:
    other = LlmServer()
    with running(other.application()) as process:
        there = process.url.replace("127.0.0.1", "localhost")
        for status in (301, 302, 307, 308):
            engine = open_engine(settings_of(server))
            server.rule = lambda body, status=status: Do(status, b"", {"Location": f"{there}/chat/completions"})  # type: ignore[misc]
            with pytest.raises(InputError, match=f"a redirect to {there}/chat/completions, which is not followed"):
                engine.complete([Prompt("say a")], SAMPLING)
            engine.close()
        server.models_do = Do(302, b"", {"Location": f"{there}/models"})
        with pytest.raises(InputError, match="which is not followed"):
            open_engine(settings_of(server))
        assert other.paths == []


def test_keys_that_are_missing_wrong_or_none(server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(settings: EngineSettings) -> str:
        with pytest.raises(InputError) as caught:
            open_engine(settings)
        return "".join(traceback.format_exception(caught.value))

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert "refuses requests without a key (see server.key_variable) (HTTP 401)" in refused(server.settings())
    monkeypatch.setenv("MY_KEY", "sk-another-key-000")
    text = refused(settings_of(server))
    assert "refuses the key in $MY_KEY (HTTP 401)" in text
    assert "sk-another" not in text
    for bad in ("two words", "sk-línea", "sk-a\nX-Header: b"):
        monkeypatch.setenv("MY_KEY", bad)
        text = refused(settings_of(server))
        assert "the key in $MY_KEY holds characters that no key has" in text
        assert bad not in text
    for empty in ("", " \n"):
        monkeypatch.setenv("MY_KEY", empty)
        assert "server.key_variable='MY_KEY': no such environment variable here" in refused(settings_of(server))


def test_a_line_break_at_the_end_of_the_variable_does_no_harm(
    server: LlmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY + "\n")
    open_engine(settings_of(server)).close()


def test_a_key_in_the_address_is_refused_and_not_repeated() -> None:
    for url in ("https://user:sk-PLANTED@host/v1", "https://sk-PLANTED@host/v1"):
        with pytest.raises(InputError, match=r"server.key_variable") as caught:
            open_engine(EngineSettings(kind="openai", model="m", server=ServerSettings(url=url)))
        assert "PLANTED" not in str(caught.value)


# --- proxies ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_proxy")
def test_proxies_are_the_environment_s_but_never_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert server_key.proxy_for("https://api.example/v1") is None
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "inner.example")
    assert server_key.proxy_for("https://api.example/v1") == "http://proxy:3128"
    for url in (
        "http://api.example/v1",
        "https://inner.example/v1",
        "https://127.0.0.1:8000/v1",
        "https://localhost:8000/v1",
        "https://[::1]:8000/v1",
    ):
        assert server_key.proxy_for(url) is None


@pytest.mark.usefixtures("no_proxy")
def test_requests_go_through_the_proxy(server: LlmServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy for http gets the whole address; this one knows where the server really is."""
    seen: list[str] = []
    server.key = ""

    async def forward(request: web.Request) -> web.Response:
        seen.append(str(request.url))
        if request.method == "GET":
            return web.json_response({"data": server.models})
        return web.json_response(answer(await request.json()))

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", forward)
    with running(app) as proxy:
        monkeypatch.setenv("http_proxy", f"http://user:PROXYSECRET@127.0.0.1:{proxy.port}")
        engine = open_engine(server.settings(url="http://model.invalid/v1"))
        assert [one.text for one in engine.complete([Prompt("say yes")], SAMPLING)] == ["yes"]
        assert len(seen) == 3
        assert seen[-1] == "http://model.invalid/v1/completions"
    with pytest.raises(StageError) as caught:
        engine.complete([Prompt("say yes")], SAMPLING)
    engine.close()
    assert "PROXYSECRET" not in "".join(traceback.format_exception(caught.value))


# --- through the worker ----------------------------------------------------------------------------------------------


def test_answers_of_a_server_in_a_table(server: LlmServer) -> None:
    """Four ranges at once through the generation worker: rows in order, one that failed, and no key in the table."""
    words = f"Bearer {KEY} is not welcome"
    server.rule = lambda body: Do(400, {"error": {"message": words}}) if "question 13 " in text_of(body) else None
    server.delay = lambda text: 0.003 * (hash(text) % 7)
    passages = pa.Table.from_pylist([{"passage_id": "p", "title": "T", "text": "t"}], schema=tables.PASSAGES)
    engine = settings_of(server, mode="completion")
    prompt = "{% for p in passages %}{{ p.text }} {% endfor %}{{ question }} "
    same = {one.name: getattr(engine, one.name) for one in dataclasses.fields(EngineSettings)}
    settings = GeneratorSettings(**same, prompts={"open": f"{prompt}end"})
    rows = [{"question_id": f"q{i}", "question": f"question {i}"} for i in range(40)]
    found = [{"question_id": f"q{i}", "passage_ids": ["p"]} for i in range(40)]
    ranges = [
        {
            "questions": pa.Table.from_pylist(rows[start : start + 10], schema=tables.QUESTIONS),
            "retrievals": pa.Table.from_pylist(found[start : start + 10], schema=tables.RETRIEVALS),
        }
        for start in range(0, 40, 10)
    ]
    worker = GenerateWorker(settings, {"passages": MemoryInput(passages)})
    with ThreadPoolExecutor(4) as pool:
        made = pa.concat_tables(pool.map(worker, ranges))
    close_engines()
    assert made["question_id"].to_pylist() == [f"q{i}" for i in range(40)]
    assert made["answer"].to_pylist() == ["end" if i != 13 else None for i in range(40)]
    assert made["error"][13].as_py() == "the server refused the prompt (HTTP 400: Bearer *** is not welcome)"
    assert KEY[:12] not in str(made.to_pylist())
