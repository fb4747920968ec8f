"""Answers: prompts from passages, language models by `kind`, and the worker that joins them."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rat_ray.errors import InputError, did_you_mean
from rat_ray.generate.engine import Completion, Engine, EngineSettings, PromptedSettings, Sampling
from rat_ray.generate.models import model_revision
from rat_ray.generate.prompts import load_prompts

__all__ = [
    "ENGINES",
    "Completion",
    "Engine",
    "EngineSettings",
    "PromptedSettings",
    "Sampling",
    "open_engine",
    "resolve",
]

# kind -> "module:function" that opens an engine from EngineSettings; imported only when a worker asks for it.
ENGINES = {"llama_cpp": "rat_ray.generate.llama:open_engine"}

_Settings = TypeVar("_Settings", bound=PromptedSettings)


def open_engine(settings: EngineSettings) -> Engine:
    """The process's engine for these settings. Raises InputError for an unknown kind."""
    if settings.kind not in ENGINES:
        raise InputError(f"generator kind {settings.kind!r} is unknown{did_you_mean(settings.kind, ENGINES)}")
    module, function = ENGINES[settings.kind].split(":")
    opener: Callable[[EngineSettings], Engine] = getattr(importlib.import_module(module), function)
    return opener(settings.engine)


def resolve(settings: _Settings, prompt_folder: Path) -> _Settings:
    """The settings of a generator or judge with the prompt texts and the model's revision filled in.

    Both enter the stage's key, so that a changed template or model file redoes what depends on it.
    Raises InputError for a prompt set or model that is not there.
    """
    return dataclasses.replace(
        settings,
        prompts=settings.prompts or load_prompts(settings.prompt, prompt_folder),
        model_revision=settings.model_revision or model_revision(settings.model, settings.model_path),
    )
