"""llama.cpp in process, through `xllamacpp`: one engine per model and process, shared by generator and judge.

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
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rat_ray.errors import InputError, MissingExtraError
from rat_ray.generate.engine import Completion, EngineSettings, Sampling
from rat_ray.generate.models import model_file

# Kept completions per engine; the oldest go first.
_MEMO_SIZE = 50_000
_engines: dict[tuple[str, int, int, int, int], LlamaEngine] = {}
_engines_lock = threading.Lock()


def open_engine(settings: EngineSettings) -> LlamaEngine:
    """The process's engine for this model, context size, threads and slots; loaded at first use (about 2 s)."""
    path = str(model_file(settings.model, settings.model_path))
    key = (path, settings.n_ctx, settings.threads or _cores(), settings.slots, settings.concurrency)
    with _engines_lock:
        if key not in _engines:
            _engines[key] = LlamaEngine(*key)
        return _engines[key]


def close_engines() -> None:
    """Free every engine of this process."""
    with _engines_lock:
        for engine in _engines.values():
            engine.close()
        _engines.clear()


class LlamaEngine:
    """One loaded GGUF model with `slots` sequences of `n_ctx` tokens each.

    Identical prompts with identical sampling are asked once: their completion is kept.
    Raises InputError for a file that llama.cpp cannot load, MissingExtraError without xllamacpp.
    """

    def __init__(self, path: str, n_ctx: int, threads: int, slots: int, concurrency: int) -> None:
        self._server: Any = _start_server(path, n_ctx, threads, slots)
        self._address: str = self._server.listening_address
        self._concurrency = concurrency
        self._memo: dict[tuple[str, Sampling], Completion] = {}
        self.asked = 0  # completions that the model computed, kept ones not counted

    def complete(self, prompts: Sequence[str], sampling: Sampling) -> list[Completion]:
        """One completion per prompt, in order; errors per prompt."""
        missing = [prompt for prompt in dict.fromkeys(prompts) if (prompt, sampling) not in self._memo]
        # Prompts that begin alike go one after the other: a slot then finds its tokens cached.
        missing.sort()
        with ThreadPoolExecutor(self._concurrency) as pool:
            fresh = dict(zip(missing, pool.map(lambda prompt: self._ask(prompt, sampling), missing), strict=True))
        self.asked += len(missing)
        results = [fresh.get(prompt) or self._memo[prompt, sampling] for prompt in prompts]
        self._keep(fresh, sampling)
        return results

    def count_tokens(self, prompts: Sequence[str]) -> list[int]:
        """Tokens of each prompt by the model's own tokenizer, the start token included."""
        return [len(self._post("/tokenize", {"content": prompt, "add_special": True})["tokens"]) for prompt in prompts]

    def close(self) -> None:
        """Stop the server and free the model."""
        self._server = None

    def _keep(self, fresh: dict[str, Completion], sampling: Sampling) -> None:
        for prompt, completion in fresh.items():
            if completion.error is None:
                self._memo[prompt, sampling] = completion
        while len(self._memo) > _MEMO_SIZE:
            del self._memo[next(iter(self._memo))]

    def _ask(self, prompt: str, sampling: Sampling) -> Completion:
        request = {
            "prompt": prompt,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "stop": list(sampling.stop),
            "cache_prompt": True,
        }
        try:
            return _completion(self._server.handle_completions(request))
        except RuntimeError as error:
            return _failed(f"llama.cpp: {error}")

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            self._address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=600) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


def _completion(response: dict[str, Any]) -> Completion:
    if "error" in response:
        return _failed(f"llama.cpp: {response['error'].get('message', response['error'])}")
    choice, usage = response["choices"][0], response.get("usage", {})
    return Completion(
        text=choice["text"],
        finish_reason=choice.get("finish_reason"),
        prompt_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        error=None,
    )


def _failed(error: str) -> Completion:
    return Completion(None, None, None, None, error)


def _start_server(path: str, n_ctx: int, threads: int, slots: int) -> Any:
    try:
        import xllamacpp
    except ImportError as error:
        raise MissingExtraError("xllamacpp", "local") from error
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = n_ctx * slots
    params.n_parallel = slots
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
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
