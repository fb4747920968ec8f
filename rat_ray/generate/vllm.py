"""vLLM in the worker's process: its asynchronous engine, on the GPUs that Ray gave the worker, or on a CPU.

The engine lives in an event loop in a thread of its own. Several ranges of rows are in work at once, each in a thread
that blocks in `complete` until its own prompts are done; so vLLM, which batches whatever it is given, never drains at
the end of a range. Written for vLLM 0.12 and later.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import itertools
import os
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from rat_ray.errors import InputError, MissingExtraError, StageError, did_you_mean
from rat_ray.generate.engine import CHAT, Completion, EngineSettings, Prompt, Sampling
from rat_ray.generate.overheard import Overheard
from rat_ray.weights import check_identity, identity_of, known_identity, where

RANGES: Final = 4
RANGE_ROWS: Final = 256  # as many as vLLM has in work at once, on most GPUs; the other ranges are its queue
HOLDS_MODEL: Final = True
_CHECK_SECONDS: Final = 1.0
_CLOSED: Final = "this engine is closed: another model was opened in its place"
_T = TypeVar("_T")


def open_engine(settings: EngineSettings) -> VllmEngine:
    """Starts vLLM and loads the model.

    Raises InputError for an engine argument that vLLM does not know, a model that it cannot load or that does not fit,
    or one without a chat template in mode chat; MissingExtraError without vLLM; StageError for other weights than the
    job was planned with.
    """
    model, planned = _model(settings), settings.model_revision
    commit = planned.removeprefix("commit:") if planned.startswith("commit:") else settings.vllm.commit
    identity = identity_of("model", model, commit)
    check_identity("model", model, identity, planned)
    path, pinned = where(model, identity)
    engine_args = _engine_args(settings, path, pinned)
    return VllmEngine(settings, engine_args, _tokenizer(settings, path, pinned))


def revision(settings: EngineSettings, read: bool) -> str | None:
    """`sha256:…` of a folder's weights, or `commit:…` of a hub's model."""
    find = identity_of if read else known_identity
    try:
        return find("model", _model(settings), settings.vllm.commit)
    except MissingExtraError:  # the hub's library, which comes with vLLM
        raise MissingExtraError("huggingface_hub", "vllm") from None


class VllmEngine:
    """A model in vLLM's engine, which is a process of its own, with its loop here. Made by `open_engine`."""

    def __init__(self, settings: EngineSettings, engine_args: Any, tokenizer: Any) -> None:
        self._name = _model(settings)
        self._chat = settings.mode == CHAT
        self._chat_options = dict(settings.chat_options)
        self._numbers = itertools.count()
        self._tokenizer = tokenizer
        self._tokenizing = threading.Lock()  # a tokenizer is no thing for two threads
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm", daemon=True)
        self._thread.start()
        self._overheard = Overheard()
        self._engine: Any = None
        try:
            self._engine = self._run(self._start(engine_args))
        except BaseException:
            self.close()
            raise

    def complete(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Completion]:
        """One completion per prompt, in order; errors per prompt. All are given to vLLM at once."""
        if not prompts:
            return []
        self._check_open()
        return self._run(self._all(self._tokens(prompts), _sampling_params(sampling)))

    def count_tokens(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens of each prompt by the model's tokenizer, with the start token and the chat template's."""
        return [len(tokens) for tokens in self._tokens(prompts)]

    def close(self) -> None:
        """End vLLM's processes, which frees their memory, and the loop. Prompts still in work are given up."""
        engine, self._engine = self._engine, None
        if self._loop.is_closed():
            return
        if engine is not None:
            self._run(_shut_down(engine))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self, engine_args: Any) -> Any:
        from vllm.v1.engine.async_llm import AsyncLLM

        try:
            with self._overheard:
                engine = AsyncLLM.from_engine_args(engine_args)
        except (ValueError, OSError, RuntimeError, ImportError, NotImplementedError) as error:
            # What went wrong in its own process vLLM only points at: "See root cause above".
            reason = (self._overheard.last_error() if "root cause" in str(error) else "") or _short(error)
            raise InputError(f"model {self._name!r}: vLLM cannot start with it: {reason}") from error
        self._overheard.forget()  # what it put up with is not what it may die of
        return engine

    async def _all(self, prompts: list[list[int]], params: Any) -> list[Completion]:
        work = asyncio.gather(*(self._one(tokens, params) for tokens in prompts))
        # Where its process is killed, for want of memory say, vLLM knows, but nobody who waits for a prompt is told.
        while not (await asyncio.wait([work], timeout=_CHECK_SECONDS))[0]:
            if self._engine is not None and self._engine.errored:
                work.cancel()
                raise self._death()
        return work.result()

    async def _one(self, tokens: list[int], params: Any) -> Completion:
        from vllm.v1.engine.exceptions import EngineDeadError

        outputs = self._engine.generate({"prompt_token_ids": tokens}, params, str(next(self._numbers)))
        try:
            final = [output async for output in outputs][-1]  # there is only one, as the parameters ask
        except EngineDeadError as error:
            raise self._death() from error
        except _refusals() as error:
            return _failed(f"vLLM: {_short(error.__cause__ or error)}")
        return _completion(final)

    def _death(self) -> StageError:
        reason = self._overheard.last_error() or "its process is gone, perhaps for want of memory"
        return StageError(f"model {self._name!r}: vLLM's engine died: {reason}")

    def _tokens(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        if not prompts:
            return []
        self._check_open()
        with self._tokenizing:
            texts = [self._as_sent(prompt) for prompt in prompts]
            # A chat template writes the start token itself.
            ids: list[list[int]] = self._tokenizer(texts, add_special_tokens=not self._chat)["input_ids"]
            return ids

    def _as_sent(self, prompt: Prompt) -> str:
        if not self._chat:
            return prompt.whole
        import jinja2

        system = [{"role": "system", "content": prompt.system}] if prompt.system else []
        messages = [*system, {"role": "user", "content": prompt.text}]
        try:
            return str(
                self._tokenizer.apply_chat_template(
                    messages, add_generation_prompt=True, tokenize=False, **self._chat_options
                )
            )
        except jinja2.TemplateError as error:
            raise InputError(f"model {self._name!r}: its chat template refuses the prompt: {error}") from error

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except concurrent.futures.CancelledError:
            raise StageError(_CLOSED) from None

    def _check_open(self) -> None:
        if self._engine is None:
            raise StageError(_CLOSED)


def _model(settings: EngineSettings) -> str:
    return settings.model_path or settings.model


def _tokenizer(settings: EngineSettings, path: str, commit: str | None) -> Any:
    """The model's own tokenizer, looked at before minutes are spent on loading the model."""
    from transformers import AutoTokenizer

    trusted = bool(settings.vllm.engine_args.get("trust_remote_code"))
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, revision=commit, trust_remote_code=trusted)
    except (ValueError, OSError, ImportError) as error:
        raise InputError(f"model {_model(settings)!r}: its tokenizer cannot be loaded: {_short(error)}") from error
    if settings.mode == CHAT and not tokenizer.chat_template:
        raise InputError(
            f"model {_model(settings)!r} has no chat template, so it is no chat model; set mode: completion, or choose "
            f"an instruction-tuned one"
        )
    return tokenizer


def _engine_args(settings: EngineSettings, path: str, commit: str | None) -> Any:
    # Before the import, which reads them: nothing is reported to vLLM's makers, and only warnings are printed.
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    try:
        from vllm.config import StructuredOutputsConfig
        from vllm.engine.arg_utils import AsyncEngineArgs
    except ImportError as error:
        raise MissingExtraError("vllm", "vllm") from error
    chosen, own = settings.vllm, settings.vllm.engine_args
    known = {field.name for field in dataclasses.fields(AsyncEngineArgs)}
    for name in own:
        if name not in known:
            raise InputError(f"vllm.engine_args.{name}: vLLM has no such argument{did_you_mean(name, known)}")
    arguments: dict[str, Any] = {
        "model": path,
        "revision": commit,
        "tokenizer_revision": commit,
        "dtype": chosen.dtype,
        "max_model_len": settings.n_ctx or None,
        "tensor_parallel_size": chosen.tensor_parallel_size,
        "pipeline_parallel_size": chosen.pipeline_parallel_size,
        "distributed_executor_backend": chosen.executor or None,
        "gpu_memory_utilization": chosen.gpu_memory_utilization,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        # Without blanks, of which a small model writes until max_tokens.
        "structured_outputs_config": StructuredOutputsConfig(backend="xgrammar", disable_any_whitespace=True),
    }
    if settings.concurrency:
        arguments["max_num_seqs"] = settings.concurrency
    return AsyncEngineArgs(**(arguments | own))


def _sampling_params(sampling: Sampling) -> Any:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

    return SamplingParams(
        max_tokens=sampling.max_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        seed=sampling.seed,
        stop=list(sampling.stop),
        structured_outputs=StructuredOutputsParams(json=sampling.schema) if sampling.schema else None,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def _completion(output: Any) -> Completion:
    written = output.outputs[0]
    if written.finish_reason not in ("stop", "length"):
        return _failed(f"vLLM: ended with {written.finish_reason!r}")
    return Completion(
        text=written.text,
        finish_reason=written.finish_reason,
        prompt_tokens=len(output.prompt_token_ids),
        output_tokens=len(written.token_ids),
        error=None,
    )


def _failed(reason: str) -> Completion:
    return Completion(None, None, None, None, reason)


def _refusals() -> tuple[type[Exception], ...]:
    """What vLLM raises about one prompt: plain ValueErrors before it had exceptions of its own."""
    import vllm.exceptions
    from vllm.v1.engine.exceptions import EngineGenerateError

    own = getattr(vllm.exceptions, "VLLMError", None)
    return (ValueError, EngineGenerateError, *([own] if own else []))


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


async def _shut_down(engine: Any) -> None:
    """End the engine, and what waits for it, so that no thread waits for ever."""
    engine.shutdown()
    waiting = asyncio.all_tasks() - {asyncio.current_task()}
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
