"""Encoders turn texts into vectors: one file per kind, loaded when it is asked for.

How far results depend on the batch size: not at all with wordllama; with the others up to float32 rounding (about
1e-6 per number; 1e-2 with bfloat16 weights), since their libraries choose kernels by a batch's shape.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any, Final

from rat_ray.errors import MissingExtraError
from rat_ray.keys import key_of
from rat_ray.retrieve.encoders.encoder import Encoder, Vectors, normalise
from rat_ray.retrieve.encoders.settings import EncoderSettings
from rat_ray.weights import check_identity, identity_of

__all__ = ["Encoder", "EncoderSettings", "Vectors", "key", "normalise", "open_encoder", "resolve", "revision"]

# kind -> "module:class", called with the settings; each imports its library only then.
_CLASSES: Final = {
    "wordllama": "rat_ray.retrieve.encoders.wordllama:WordLlamaEncoder",
    "sentence-transformers": "rat_ray.retrieve.encoders.sentence_transformers:TorchEncoder",
    "openai": "rat_ray.retrieve.encoders.openai:ServerEncoder",
    "vllm": "rat_ray.retrieve.encoders.vllm:VllmEncoder",
}
# Numbers per vector that are known before an encoder is opened.
DIMS: Final = {"wordllama": 256}


def open_encoder(settings: EncoderSettings) -> Encoder:
    """Loads the encoder; seconds to minutes, by its size.

    Raises InputError for settings that do not fit the model, MissingExtraError without the kind's library, StageError
    where `settings.identity` is set (see `resolve`) and this machine has other weights.
    """
    settings.validate()
    pinned = resolve(settings)
    check_identity("encoder.model", settings.model, _find_revision(pinned), pinned.identity)
    module, name = _CLASSES[settings.kind].split(":")
    made: Encoder = getattr(importlib.import_module(module), name)(pinned)
    return made


def revision(settings: EncoderSettings) -> str:
    """What identifies the weights, without loading them: `settings.identity` where that is filled in already.

    wordllama: its wheel's version; a folder: a digest of its files, remembered; a hub name: the commit in the cache,
    else the hub's; a server: the name that it reports. Raises InputError where it cannot be found out.
    """
    return settings.identity or _find_revision(settings)


def resolve(settings: EncoderSettings) -> EncoderSettings:
    """The settings with `identity` filled in, for workers on other machines: they must find the same weights."""
    return dataclasses.replace(settings, identity=revision(settings))


def key(settings: EncoderSettings) -> dict[str, Any]:
    """What decides the vectors: the settings that enter a key, and the weights' revision. Resolved or not, the same."""
    return {**key_of(settings), "revision": revision(settings)}


def _find_revision(settings: EncoderSettings) -> str:
    if settings.kind == "wordllama":
        return _wheel("wordllama", "local")
    if settings.kind == "openai":
        find: Callable[[EncoderSettings], str] = importlib.import_module(
            "rat_ray.retrieve.encoders.openai"
        ).reported_model
        return find(settings)
    pinned = settings.identity.removeprefix("commit:") if settings.identity.startswith("commit:") else settings.commit
    return identity_of("encoder.model", settings.model, pinned)


def _wheel(name: str, extra: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(name, extra) from error
