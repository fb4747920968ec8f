"""Addresses, the models that a server lists, and what identifies them."""

from __future__ import annotations

import dataclasses

import pytest

from rat_ray.errors import InputError, StageError
from rat_ray.generate.engine import EngineSettings, Sampling
from rat_ray.generate.server import open_engine, revision
from rat_ray.generate.server_settings import ServerSettings
from tests.generate.llm_server import MODEL, Do, LlmServer, ask, texts

SAMPLING = Sampling(max_tokens=8, seed=3, stop=("\n",))
BUSY = {"error": {"message": "slow down"}}

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "give the server's address with http://"),
        ("localhost:8000/v1", "e.g. http://localhost:8000/v1"),
        ("ftp://host/v1", "with http:// or https://"),
        ("http://host:80000/v1", "Port out of range"),
        ("http://[::1/v1", "Invalid IPv6"),
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
