"""llama.cpp in process, through `xllamacpp`.

Three settings carry the speed. `cache_prompt` keeps a slot's tokens, so that a prompt which begins like an earlier one
(the few-shot examples) costs only its own part; `swa_full` is needed for that with sliding-window models such as
Gemma 3, whose window cache cannot be rewound; and there are more slots than prompts in work, so that each of several
beginnings (one per question shape) keeps a slot of its own, which llama.cpp finds by the longest common beginning.
"""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from rat_ray.errors import InputError, MissingExtraError, StageError
from rat_ray.generate.engine import CHAT, Completion, EngineSettings, Prompt, Sampling
from rat_ray.generate.gguf import has_chat_template
from rat_ray.generate.models import known_revision, model_file, model_revision

RANGES: Final = 1  # it takes its prompts one after the other: nothing drains
RANGE_ROWS: Final = 16
HOLDS_MODEL: Final = True
_CONTEXT: Final = 1536  # of a sequence, where n_ctx is 0: a model's own can be 128,000 tokens, for every slot
# Kept completions per engine; the oldest go first.
_MEMO_SIZE: Final = 50_000


def open_engine(settings: EngineSettings) -> LlamaEngine:
    """Loads the model (about 2 s for a small one).

    Raises InputError for a file that llama.cpp cannot load, or one without a chat template in mode chat;
    MissingExtraError without xllamacpp; StageError where the file is not the one that the job was planned with.
    """
    path = model_file(settings.model, settings.model_path)
    found = model_revision(settings.model, settings.model_path)
    if settings.model_revision.startswith("sha256:") and found != settings.model_revision:
        raise StageError(f"{path} on this machine is {found}, the job was planned with {settings.model_revision}")
    if settings.mode == CHAT and not has_chat_template(path):
        raise InputError(
            f"model {settings.model_path or settings.model!r} has no chat template, so it is no chat model; "
            f"set mode: completion, or choose an instruction-tuned one"
        )
    return LlamaEngine(str(path), settings)


def revision(settings: EngineSettings, read: bool) -> str | None:
    """`sha256:…` of the GGUF file; read=False: None for a file of the user's that was never read."""
    find = model_revision if read else known_revision
    return find(settings.model, settings.model_path)


class LlamaEngine:
    """One loaded GGUF model with `slots` sequences of `n_ctx` tokens each. Made by `open_engine`.

    Identical prompts with identical sampling are asked once, by whichever thread comes first: their completion is kept.
    """

    def __init__(self, path: str, settings: EngineSettings) -> None:
        self._server: Any = _start_server(path, settings)
        with urllib.request.urlopen(self._server.listening_address + "/slots", timeout=60):
            pass  # its loop answers this, so runs: a server that is freed before its loop runs hangs for ever
        self._chat = settings.mode == CHAT
        self._chat_options = dict(settings.chat_options)
        self._pool = ThreadPoolExecutor(settings.concurrency or 1)
        self._memo: dict[tuple[Prompt, Sampling], Future[Completion]] = {}
        self._lock = threading.Lock()
        self.asked = 0  # completions that the model computed, kept ones not counted

    def complete(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One completion per prompt, in order; errors per prompt."""
        with self._lock:
            self._check_open()
            # Prompts that begin alike go one after the other: a slot then finds its tokens cached.
            for prompt in sorted({prompt for prompt in prompts if (prompt, sampling) not in self._memo}, key=_order):
                self._memo[prompt, sampling] = self._pool.submit(self._ask, prompt, sampling)
                self.asked += 1
            asked = [self._memo[prompt, sampling] for prompt in prompts]
        results = [future.result() for future in asked]
        self._forget({prompt for prompt, result in zip(prompts, results, strict=True) if result.error}, sampling)
        return results

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens of each prompt by the model's own tokenizer, with the start token and the chat template's."""
        return [
            len(self._post("/tokenize", {"content": self._as_sent(prompt), "add_special": True})["tokens"])
            for prompt in prompts
        ]

    def close(self) -> None:
        """Stop the server and free the model; waits for prompts that are in work."""
        self._pool.shutdown()
        with self._lock:
            self._server = None
            self._memo.clear()

    def _forget(self, failed: set[Prompt], sampling: Sampling) -> None:
        """Failed prompts, which may be tried again, and the oldest of too many."""
        with self._lock:
            for prompt in failed:
                self._memo.pop((prompt, sampling), None)
            while len(self._memo) > _MEMO_SIZE:
                del self._memo[next(iter(self._memo))]

    def _ask(self, prompt: Prompt, sampling: Sampling) -> Completion:
        request = _sampling(sampling) | {"cache_prompt": True}
        try:
            if self._chat:
                return _completion(self._server.handle_chat_completions(request | self._chat_request(prompt)))
            return _completion(self._server.handle_completions(request | {"prompt": prompt.whole}))
        except RuntimeError as error:
            return _failed(f"llama.cpp: {error}")

    def _chat_request(self, prompt: Prompt) -> dict[str, Any]:
        system = [{"role": "system", "content": prompt.system}] if prompt.system else []
        messages = [*system, {"role": "user", "content": prompt.text}]
        return {"messages": messages, "chat_template_kwargs": self._chat_options}

    def _as_sent(self, prompt: Prompt) -> str:
        if not self._chat:
            return prompt.whole
        return str(self._post("/apply-template", self._chat_request(prompt))["prompt"])

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._check_open()
        address = self._server.listening_address + path
        request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=600) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except urllib.error.HTTPError as error:
            reason = " ".join(error.read().decode("utf-8", "replace").split())[:300]
            raise InputError(f"llama.cpp, {path}: {reason}") from None

    def _check_open(self) -> None:
        if self._server is None:
            raise StageError("this engine is closed: another model was opened in its place")


def _order(prompt: Prompt) -> tuple[str, str]:
    return prompt.system, prompt.text


def _sampling(sampling: Sampling) -> dict[str, Any]:
    """As llama.cpp's requests call it; what it would otherwise cut off the distribution is switched off."""
    request: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": 0,
        "min_p": 0.0,
        "seed": sampling.seed,
        "stop": list(sampling.stop),
    }
    if not sampling.schema:
        return request
    # Without blanks, of which a small model writes until max_tokens.
    return request | {"json_schema": {**json.loads(sampling.schema), "x-guidance": {"whitespace_flexible": False}}}


def _completion(response: dict[str, Any]) -> Completion:
    if "error" in response:
        return _failed(f"llama.cpp: {response['error'].get('message', response['error'])}")
    choice, usage = response["choices"][0], response.get("usage", {})
    message = choice.get("message", choice)
    return Completion(
        text=message.get("content" if "message" in choice else "text") or "",
        finish_reason=choice.get("finish_reason"),
        prompt_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        error=None,
        reasoning=message.get("reasoning_content") or None,
    )


def _failed(error: str) -> Completion:
    return Completion(None, None, None, None, error)


def _start_server(path: str, settings: EngineSettings) -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtraError("xllamacpp", "local") from error
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = (settings.n_ctx or _CONTEXT) * settings.slots
    params.n_parallel = settings.slots
    params.cpuparams.n_threads = settings.threads or _cores()
    params.cpuparams_batch.n_threads = settings.threads or _cores()
    params.swa_full = True
    params.cache_prompt = True
    params.cache_ram_mib = 0  # else up to 8 GiB of finished prompts are kept
    params.warmup = False
    params.ui = False
    params.verbosity = 0  # llama.cpp writes to stderr some 30 lines a prompt otherwise
    try:
        return xllamacpp.Server(params)
    except RuntimeError as error:
        raise InputError(f"llama.cpp cannot load {path}: {error}; is it a whole GGUF file?") from error


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
