"""Answers: prompts from passages, language models by `kind`, and the worker that joins them.

A process has one engine that holds a model: before another is opened it is closed and its memory freed, so that a
judge's model never lies beside the generator's.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import json
import sys
import threading
from pathlib import Path
from typing import Final, Protocol, TypeVar, cast

from rat_ray.errors import InputError, did_you_mean
from rat_ray.generate.engine import Completion, Engine, EngineSettings, Prompt, PromptedSettings, Sampling
from rat_ray.generate.prompts import load_prompts

__all__ = [
    "ENGINES",
    "Completion",
    "Engine",
    "EngineSettings",
    "Prompt",
    "PromptedSettings",
    "Sampling",
    "close_engines",
    "open_engine",
    "range_rows",
    "ranges",
    "resolve",
    "revision",
    "workers",
]

# kind -> the module that offers what `_Backend` lists; imported only where it is asked for.
ENGINES: Final = {
    "llama_cpp": "rat_ray.generate.llama",
    "vllm": "rat_ray.generate.vllm",
    "openai": "rat_ray.generate.server",
}
# Settings that are the asker's, not the engine's: engines that differ only here are one.
_NOT_THE_ENGINES: Final = frozenset({"ranges", "input_price", "output_price"})

_Settings = TypeVar("_Settings", bound=PromptedSettings)


class _Backend(Protocol):
    """What an engine's module offers. RANGES: rows' ranges that one worker should have in work at once; RANGE_ROWS: how
    many rows a range should have. HOLDS_MODEL: whether an open engine holds a model in memory.
    """

    RANGES: int
    RANGE_ROWS: int
    HOLDS_MODEL: bool

    def open_engine(self, settings: EngineSettings) -> Engine: ...
    def revision(self, settings: EngineSettings, read: bool) -> str | None: ...


class _Engines:
    """The open engines of this process, by their settings."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Engine, bool]] = {}
        # Held while a model loads: a second thread that wants the same one waits for it, and one that wants another
        # must not load it beside.
        self._lock = threading.Lock()

    def get(self, settings: EngineSettings) -> Engine:
        backend, key = _backend(settings.kind), _key(settings)
        with self._lock:
            if key not in self._open:
                if backend.HOLDS_MODEL:
                    self._close([name for name, (_, holds) in self._open.items() if holds])
                self._open[key] = (backend.open_engine(settings.engine), backend.HOLDS_MODEL)
            return self._open[key][0]

    def close(self) -> None:
        with self._lock:
            self._close(list(self._open))

    def _close(self, names: list[str]) -> None:
        for name in names:
            self._open.pop(name)[0].close()
        if names:
            _free_memory()


_engines: Final = _Engines()


def open_engine(settings: EngineSettings) -> Engine:
    """The process's engine for these settings; equal ones share it. If it holds a model, any other that does is closed.

    Raises InputError for an unknown kind or a model that cannot be loaded, MissingExtraError without the library.
    """
    return _engines.get(settings)


def close_engines() -> None:
    """Free every engine of this process."""
    _engines.close()


def revision(settings: EngineSettings, read: bool) -> str | None:
    """What identifies the model, without loading it. read=False: only what is known without reading files or asking
    servers, else None. Raises InputError for an unknown kind or a model that is not there.
    """
    return _backend(settings.kind).revision(settings.engine, read)


def ranges(settings: EngineSettings) -> int:
    """How many ranges of rows one worker should have in work at once."""
    return settings.ranges or _backend(settings.kind).RANGES


def range_rows(settings: EngineSettings) -> int:
    """How many rows a range should have: minutes of work, not more, and enough to fill the engine."""
    return _backend(settings.kind).RANGE_ROWS


def workers(settings: EngineSettings) -> int:
    """How many workers a stage has unless the user says: 0 for as many as the cluster holds.

    One where they would all ask the same server: `concurrency` then bounds what it gets.
    """
    return 0 if _backend(settings.kind).HOLDS_MODEL else 1


def resolve(settings: _Settings, prompt_folder: Path) -> _Settings:
    """The settings of a generator or judge with the prompt texts and the model's revision filled in.

    Both enter the stage's key, so that a changed template or model file redoes what depends on it.
    Raises InputError for a prompt set or model that is not there.
    """
    return dataclasses.replace(
        settings,
        prompts=settings.prompts or load_prompts(settings.prompt, prompt_folder),
        model_revision=settings.model_revision or str(revision(settings, read=True)),
    )


def _backend(kind: str) -> _Backend:
    if kind not in ENGINES:
        raise InputError(f"kind={kind!r} of a generator or judge: unknown{did_you_mean(kind, ENGINES)}")
    return cast(_Backend, importlib.import_module(ENGINES[kind]))


def _key(settings: EngineSettings) -> str:
    values = dataclasses.asdict(settings.engine)
    return json.dumps({name: value for name, value in values.items() if name not in _NOT_THE_ENGINES}, sort_keys=True)


def _free_memory() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
