"""Any server with OpenAI's API: vLLM's `vllm serve`, SGLang, llama.cpp's server, a hosted API.

Every request goes through one event loop and one bound on how many are in work, whatever thread asks for them. What
passes (429, 5xx, timeouts, lost connections) is tried again. The key comes from the environment and goes nowhere but
into the request. What a model does not take (temperature, max_tokens, a schema) is left out after its first refusal.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from rat_ray.errors import InputError, StageError, did_you_mean
from rat_ray.generate.engine import Completion, EngineSettings, Prompt, Sampling
from rat_ray.generate.server_api import (
    Model,
    completion,
    concerns_all,
    failed,
    lacks_template,
    refusal,
    request,
)
from rat_ray.generate.server_http import Http, together
from rat_ray.generate.server_pace import Pace
from rat_ray.generate.server_reply import AWAY, CERTIFICATE, LOST, UNREADABLE, GoneError, Reply
from rat_ray.generate.server_tokens import AT_ONCE, TokenCounter, no_template

RANGES: Final = 4
RANGE_ROWS: Final = 128  # a killed worker pays for at most RANGES of these again
HOLDS_MODEL: Final = False
CONCURRENCY: Final = 32
_SWITCH_SECONDS: Final = 0.0005
_RETRIES_OF_A_LOOK: Final = 2  # while a person waits for the job to begin
_IN_A_ROW: Final = 16  # prompts that may fail after all their retries without any answer in between
_MANY: Final = 8  # prompts of one range; if none was answered, it is no matter of single prompts
_BEHIND: Final = (502, 503, 504)  # a gateway lists its models while the server behind it is gone
_GONE_SECONDS: Final = 5.0  # for which nothing is asked of a server that is gone: what waited then ends at once too

T = TypeVar("T")


class _Served(NamedTuple):
    """name: what requests call the model. root: the weights behind it, where told. n_ctx: its context, 0: not told."""

    name: str
    root: str = ""
    n_ctx: int = 0

    @property
    def identity(self) -> str:
        behind = f" from {self.root}" if self.root and self.root != self.name else ""
        return f"served:{self.name}{behind}"


class _Outcome(NamedTuple):
    """One prompt's completion. status: of the last reply, where all retries were in vain."""

    completion: Completion
    status: int | None = None


def open_engine(settings: EngineSettings) -> ServerEngine:
    """Connects to the server and looks whether it serves the model. No token is spent.

    Raises InputError where nobody answers, the key is refused, or the model is not served or cannot chat;
    StageError where another model is behind the name than the job was planned with.
    """
    return ServerEngine(settings)


def revision(settings: EngineSettings, read: bool) -> str | None:
    """`served:NAME from ROOT`, as far as the server tells; with read False nobody is asked, and nothing known."""
    settings.server.validate()
    if not read:
        return None
    http = Http(settings.server, 1)
    try:
        return http.run(_look(http, settings)).identity
    finally:
        http.close()


class ServerEngine:
    """One server's model, for any number of threads; at most `concurrency` completions are in work at once."""

    def __init__(self, settings: EngineSettings) -> None:
        concurrency = settings.concurrency or CONCURRENCY
        # A thread that prepares the next range keeps the interpreter for 5 ms at a time by default, and the loop's
        # thread asks for it after every system call: of 32 replies that came together the last would wait for long.
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_SECONDS))
        self._http = Http(settings.server, concurrency + AT_ONCE)
        self._pace = Pace(concurrency)
        self._refused: set[str] = set()
        self._failed_in_a_row = 0
        self._at_work: set[asyncio.Future[Any]] = set()  # calls of several threads
        self._gone = ""  # what the last of them that gave up said, and when
        self._gone_at = float("-inf")
        try:
            self._model, self._counter = self._http.run(self._opened(settings))
        except BaseException:
            self._http.close()
            raise

    def complete(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One completion per prompt, in order; errors per prompt.

        Raises: InputError where the server refuses the key, the address or the model; StageError when it is gone.
        """
        return self._http.run(self._while_there(self._complete(prompts, sampling))) if prompts else []

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens of each prompt, as the server counts them; where it cannot, an estimate that is rather too high."""
        return self._http.run(self._while_there(self._counter.count(prompts))) if prompts else []

    @property
    def counts_exactly(self) -> bool:
        """Whether the server counts tokens, rather than we estimate them."""
        return self._counter.exact

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    async def _opened(self, settings: EngineSettings) -> tuple[Model, TokenCounter]:
        served = await _look(self._http, settings)
        planned = settings.model_revision
        if planned.startswith("served:") and planned != served.identity:
            raise StageError(f"{self._http} is now {served.identity!r}, the job was planned with {planned!r}")
        if 0 < served.n_ctx < settings.n_ctx:
            raise InputError(
                f"n_ctx is {settings.n_ctx}, but {self._http} runs {served.name!r} with {served.n_ctx}; lower "
                "n_ctx, or set it to 0 to leave it to the server"
            )
        model = Model(served.name, settings.mode, settings.chat_options)
        counter = TokenCounter(self._http, model, settings.server.root)
        await counter.find()
        return model, counter

    async def _while_there(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it. Once one call finds that the server is gone, all end with that, instead of their own retries."""
        if time.monotonic() - self._gone_at < _GONE_SECONDS:
            work.close()
            raise GoneError(self._gone)
        task = asyncio.ensure_future(work)
        self._at_work.add(task)
        try:
            return await task
        except GoneError as error:
            self._gone, self._gone_at = str(error), time.monotonic()
            for other in self._at_work - {task}:
                other.cancel()
            raise
        except asyncio.CancelledError:
            if time.monotonic() - self._gone_at < _GONE_SECONDS:
                raise GoneError(self._gone) from None
            raise
        finally:
            self._at_work.discard(task)

    async def _complete(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        outcomes = await together([self._one(prompt, sampling) for prompt in prompts])
        in_vain = [outcome.status for outcome in outcomes if outcome.status is not None]
        # Two bad prompts may be all of a last range: where others were answered before, they get their errors.
        few = len(outcomes) < _MANY and self._pace.answered_at and not all(status in _BEHIND for status in in_vain)
        if len(in_vain) == len(outcomes) and not few:
            raise StageError(f"{self._http}: no prompt was answered; the first: {outcomes[0].completion.error}")
        return [outcome.completion for outcome in outcomes]

    async def _one(self, prompt: Prompt, sampling: Sampling) -> _Outcome:
        def body() -> Mapping[str, Any]:
            return request(self._model, prompt, sampling, self._refused)

        while True:
            reply = await self._http.ask(self._model.path, body, self._pace, learn=self._learn)
            if reply.status == 200:
                self._failed_in_a_row = 0
                return _Outcome(self._read(reply.content))
            if lacks_template(reply):
                raise InputError(f"{self._http}: {no_template(self._model, reply)}")
            if refusal(reply) is None:
                break
        if concerns_all(reply):
            raise await self._for_all(reply)
        if not reply.passing:
            return _Outcome(failed(f"the server refused the prompt (HTTP {reply.status}: {reply.reason})"))
        return await self._in_vain(reply)

    def _learn(self, reply: Reply) -> None:
        """Remember what the server does not take; what is in work with this request is refused for the same."""
        name = None if reply.status == 200 else refusal(reply)
        if name is None or name in self._refused:
            return
        self._refused.add(name)
        instead = "asks with max_completion_tokens" if name == "max_tokens" else f"goes on without {name}"
        print(f"{self._http}: {instead} ({reply.reason})", file=sys.stderr, flush=True)

    def _read(self, content: Mapping[str, Any]) -> Completion:
        if content.get("error"):
            return failed(f"the server's reply holds an error: {self._http.hide(str(content['error']))}")
        made, own = completion(content, self._model.mode), self._http.without_key
        text, finish_reason, reasoning = own(made.text), own(made.finish_reason), own(made.reasoning)
        return made._replace(text=text, finish_reason=finish_reason, error=own(made.error), reasoning=reasoning)

    async def _in_vain(self, reply: Reply) -> _Outcome:
        """A prompt that was tried to the end. Its row gets the error, unless it looks as if every other would too."""
        error = f"no answer after {_times(reply.tries)} ({_status(reply)}{reply.reason})"
        if self._pace.answered_at < reply.began:
            self._failed_in_a_row += 1
            if reply.status == 429 or self._failed_in_a_row >= _IN_A_ROW or await self._is_gone(reply):
                raise GoneError(f"{self._http}: {error}; run the same command again when the server answers")
        return _Outcome(failed(error), reply.status)

    async def _is_gone(self, reply: Reply) -> bool:
        """Whether the server answers nothing else either."""
        if reply.status not in AWAY:
            return False
        look = await self._http.ask("/models", None, Pace(1), retries=0)
        return look.status in AWAY

    async def _for_all(self, reply: Reply) -> InputError:
        if reply.status == 404:
            return InputError(
                f"{self._http}: the server knows no {self._model.path} or no model {self._model.name!r} "
                f"(HTTP 404: {reply.reason}){await _suggestion(self._http)}"
            )
        return _refused(self._http, reply)


async def _look(http: Http, settings: EngineSettings) -> _Served:
    """The model that requests are for."""
    reply = await http.ask("/models", None, Pace(1), min(settings.server.retries, _RETRIES_OF_A_LOOK))
    name = settings.model
    rows = reply.content.get("data")
    if reply.status == 200 and isinstance(rows, list):
        return _served(http, name, rows)
    if reply.status in (200, UNREADABLE, 404, 405, 501) or (reply.status == 403 and "scope" in reply.reason):
        better = await _suggestion(http)
        if better or reply.status in (200, UNREADABLE):
            found = f" ({reply.reason})" if reply.reason else ""
            raise InputError(f"{http}: no list of models at /models{found}{better or '; is it the address up to /v1?'}")
        if not name:
            raise InputError(f"model: must be given, {http.url} does not list its models")
        return _Served(name)
    if concerns_all(reply) or not reply.passing:
        raise _refused(http, reply)
    if reply.status == LOST:
        raise InputError(f"{http}: no server answers there ({reply.reason})")
    raise StageError(f"{http}: no answer after {_times(reply.tries)} ({_status(reply)}{reply.reason})")


def _served(http: Http, name: str, rows: list[Any]) -> _Served:
    models = {str(row["id"]): row for row in rows if isinstance(row, Mapping) and row.get("id")}
    if not name and len(models) == 1:
        name = next(iter(models))
    if not name:
        raise InputError(f"model: must be given, {http.url} serves {', '.join(sorted(models)) or 'nothing'}")
    # Some list `models/NAME` or `publisher/NAME` and take NAME.
    listed = name if name in models else next((one for one in models if one.endswith(f"/{name}")), None)
    if listed is None:
        raise InputError(f"model={name!r}: {http.url} does not serve it{did_you_mean(name, models)}")
    root, n_ctx = models[listed].get("root"), models[listed].get("max_model_len")
    return _Served(name, root if isinstance(root, str) else "", n_ctx if isinstance(n_ctx, int) else 0)


async def _suggestion(http: Http) -> str:
    """The address with /v1, where the API is found there."""
    if http.url.endswith("/v1"):
        return ""
    reply = await http.ask("/v1/models", None, Pace(1), retries=0)
    if reply.status in (401, 403) or (reply.status == 200 and "data" in reply.content):
        return f"; set server.url: {http.url}/v1"
    return ""


def _refused(http: Http, reply: Reply) -> InputError:
    """The key or the address is wrong. For the key without the server's words, which may hold a part of it."""
    if reply.status == CERTIFICATE:
        return InputError(f"{http}: the server's certificate is not valid ({reply.reason}); SSL_CERT_FILE names others")
    if reply.status == 401:
        return InputError(f"{http}: the server refuses {http.key_words} (HTTP 401)")
    if reply.status == 402:
        return InputError(f"{http}: the server asks for payment (HTTP 402: {reply.reason})")
    if reply.status == 403:
        return InputError(f"{http}: the server refuses {http.key_words} or its use of this model (HTTP 403)")
    if 300 <= reply.status < 400:
        return InputError(
            f"{http}: the server answers with {reply.reason}, which is not followed; give that as the url"
        )
    return InputError(f"{http}: the server refuses the request (HTTP {reply.status}: {reply.reason})")


def _status(reply: Reply) -> str:
    return f"HTTP {reply.status}: " if 100 <= reply.status < 599 else ""


def _times(tries: int) -> str:
    return "1 try" if tries == 1 else f"{tries} tries"
