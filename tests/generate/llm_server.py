"""A real HTTP server with OpenAI's API for language models, which misbehaves when a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

from rat_ray.generate.engine import Completion, EngineSettings, Prompt, Sampling
from rat_ray.generate.server import open_engine
from rat_ray.generate.server_settings import ServerSettings

MODEL = "tiny"
SAMPLING = Sampling(max_tokens=8, seed=3, stop=("\n",))


class Do(NamedTuple):
    """What one request meets. content: JSON, or the body's bytes. drop: no answer; half: only a part of one.

    seconds: before the answer.
    """

    status: int = 200
    content: Any = None
    headers: Mapping[str, str] = {}
    seconds: float = 0.0
    drop: bool = False
    half: bool = False


@dataclass
class LlmServer:
    """What it does can be changed while it runs; every field may be read while it does.

    next: for the next requests for completions, one each. by_text: for requests whose prompt contains the word, one
    after the other. rule: looks at each request's body first; None: as usual. delay: seconds by prompt. tokenize:
    "" | vllm | sglang | llama | no template. key: asked of every request, if set.
    """

    url: str = ""
    key: str = ""
    models: Any = field(default_factory=lambda: [{"id": MODEL, "object": "model"}])
    models_do: Do | None = None
    next: list[Do] = field(default_factory=list)
    by_text: dict[str, list[Do]] = field(default_factory=dict)
    rule: Callable[[Mapping[str, Any]], Do | None] = lambda body: None
    delay: Callable[[str], float] = lambda text: 0.0
    tokenize: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    busy: int = 0
    most: int = 0

    def settings(self, *, mode: str = "completion", concurrency: int = 0, **server: Any) -> EngineSettings:
        server = {"url": self.url, "retries": 3, "timeout": 20.0, **server}
        own = {name: server.pop(name) for name in ("model", "n_ctx", "chat_options") if name in server}
        return EngineSettings(
            **{"kind": "openai", "model": MODEL, "n_ctx": 0, **own},
            mode=mode,
            concurrency=concurrency,
            server=ServerSettings(**server),
        )

    # --- what it answers --------------------------------------------------------------------------------------------

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._complete)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/tokenize", self._tokenize)
        app.router.add_post("/apply-template", self._template)
        return app

    async def _models(self, request: web.Request) -> web.StreamResponse:
        self._note(request)
        if self.models_do:
            return await self._do(request, self.models_do, "")
        return self._closed(request) or web.json_response({"object": "list", "data": self.models})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self._note(request)
        body = await request.json()
        self.bodies.append(body)
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            return self._closed(request) or await self._do(request, self._chosen(body), text_of(body))
        finally:
            self.busy -= 1

    def _chosen(self, body: Mapping[str, Any]) -> Do:
        text = text_of(body)
        special = next((does for word, does in self.by_text.items() if word in text and does), None)
        usual = Do(seconds=self.delay(text), content=answer(body))
        return self.rule(body) or (special.pop(0) if special else None) or (self.next.pop(0) if self.next else usual)

    async def _do(self, request: web.Request, do: Do, text: str) -> web.StreamResponse:
        await asyncio.sleep(do.seconds)
        if do.drop:
            assert request.transport
            request.transport.abort()
            return web.Response()
        self.answered.append(text)
        if not isinstance(do.content, bytes):
            content = {} if do.content is None else do.content
            return web.json_response(content, status=do.status, headers=do.headers)
        if not do.half:
            return web.Response(body=do.content, status=do.status, headers=do.headers)
        response = web.StreamResponse(status=do.status, headers={"Content-Length": str(2 * len(do.content))})
        await response.prepare(request)
        await response.write(do.content)
        assert request.transport
        request.transport.abort()
        return response

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        self._note(request)
        body = await request.json()
        if self.tokenize == "no template" and "messages" in body:
            words = "default chat template is no longer allowed, so you must provide a chat template"
            return web.json_response({"error": {"message": words, "code": 400}}, status=400)
        if self.tokenize == "llama":  # a request without `content` is no error there
            return web.json_response({"tokens": body.get("content", "").split()})
        if self.tokenize == "vllm" and "messages" in body:
            return web.json_response({"count": 5 + sum(len(one["content"].split()) for one in body["messages"])})
        if self.tokenize in ("vllm", "sglang") and "prompt" in body:
            tokens = body["prompt"].split()
            return web.json_response({"count": len(tokens), "tokens": tokens})
        return web.json_response({"detail": "Not Found"}, status=422 if self.tokenize else 404)

    async def _template(self, request: web.Request) -> web.StreamResponse:
        self._note(request)
        if self.tokenize != "llama":
            return web.Response(status=404)
        messages = (await request.json())["messages"]
        return web.json_response({"prompt": " ".join(f"<{one['role']}> {one['content']} <end>" for one in messages)})

    def _note(self, request: web.Request) -> None:
        self.paths.append(request.path)
        self.headers.append(dict(request.headers))

    def _closed(self, request: web.Request) -> web.Response | None:
        given = request.headers.get("Authorization", "")
        if not self.key or given == f"Bearer {self.key}":
            return None
        return web.json_response({"error": {"message": f"Incorrect API key provided: {given}"}}, status=401)


def prompts(count: int, words: str = "say") -> list[Prompt]:
    return [Prompt(f"{words} w{i}") for i in range(count)]


def texts(completions: list[Completion]) -> list[str | None]:
    return [completion.text for completion in completions]


def ask(settings: EngineSettings, *words: str, sampling: Sampling = SAMPLING) -> list[Completion]:
    """What an engine of its own makes of these prompts."""
    engine = open_engine(settings)
    try:
        return engine.complete([Prompt(one) for one in words], sampling)
    finally:
        engine.close()


def text_of(body: Mapping[str, Any]) -> str:
    """The prompt, or all messages' texts."""
    if "prompt" in body:
        return str(body["prompt"])
    return "\n\n".join(one["content"] for one in body["messages"])


def answer(body: Mapping[str, Any], text: str | None = None, finish: str = "stop", **said: Any) -> dict[str, Any]:
    """A well-formed answer: by default the prompt's last word."""
    prompt = text_of(body)
    text = prompt.split(" ")[-1] if text is None else text
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish, **({} if "messages" in body else {"text": text})}
    if "messages" in body:
        choice["message"] = {"role": "assistant", "content": text, **said}
    usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
    return {"object": "text_completion", "choices": [choice], "usage": usage}


def chat(message: Any, finish: str | None = "stop") -> dict[str, Any]:
    """A chat answer with just this message."""
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}


class Running:
    """A web application in a thread of its own, on a port of the system's choice."""

    def __init__(self, application: web.Application) -> None:
        self._application = application
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner, self.port = self._wait(self._start(0))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def stop(self) -> None:
        """Nobody listens any more; what was connected is cut off."""
        self._wait(self._runner.cleanup())

    def close(self) -> None:
        self.stop()
        self._wait(_cancel_all())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self, port: int) -> tuple[web.AppRunner, int]:
        runner = web.AppRunner(self._application, access_log=None, shutdown_timeout=0.05)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        return runner, runner.addresses[0][1]

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)


async def _cancel_all() -> None:
    rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


@contextlib.contextmanager
def running(application: web.Application) -> Iterator[Running]:
    server = Running(application)
    try:
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def llm_server() -> Iterator[LlmServer]:
    state = LlmServer()
    with running(state.application()) as server:
        state.url = server.url
        yield state
