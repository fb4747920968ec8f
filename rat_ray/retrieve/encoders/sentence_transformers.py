"""Any model that sentence-transformers loads: a local folder or a hub name, on a GPU if there is one.

The library sorts texts by length, batches and pads them. A vector depends on its batch's shape in the last bits.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from rat_ray.errors import InputError, MissingExtraError, StageError
from rat_ray.retrieve.encoders.encoder import Vectors, check_dim, finished, with_text
from rat_ray.retrieve.encoders.settings import EncoderSettings
from rat_ray.weights import where

_POOLING: Final = {"mean": "mean", "cls": "cls", "last": "lasttoken"}


class TorchEncoder:
    """A SentenceTransformer. Code that comes with a model is not run: such models need a server of their own."""

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings = settings
        self._model = self._load()
        own = self._model.encode(["dimension"], show_progress_bar=False, convert_to_numpy=True).shape[1]
        self.dim = check_dim(own, settings.dim, settings.shorten)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self._model.encode_document, texts, self._settings.passage_prefix)

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self._model.encode_query, texts, self._settings.query_prefix)

    def _encode(self, encode: Callable[..., Any], texts: Sequence[str], prefix: str | None) -> Vectors:
        def embed(filled: list[str]) -> Vectors:
            # prompt=None lets the library take the model's own prompt, "" means none.
            found = encode(
                filled,
                prompt=prefix,
                batch_size=self._settings.batch,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            if not np.isfinite(found).all():
                raise StageError(f"{self._settings.model}: vectors that are no numbers; try dtype: float32")
            return finished(found, self.dim, self._settings.normalise)

        return with_text(texts, self.dim, embed)

    def _load(self) -> Any:
        settings = self._settings
        path, commit = where(settings.model, settings.identity)
        module = library()
        try:
            model = module.SentenceTransformer(
                path,
                device=settings.device or None,
                revision=commit,
                model_kwargs={"torch_dtype": settings.dtype},
            )
        except Exception as error:  # each library below it has its own errors for a folder that it cannot read
            raise cannot_load("encoder.model", settings.model, error) from error
        if settings.pooling != "model":
            _set_pooling(model, settings)
        if settings.max_tokens:
            check_positions("encoder.max_tokens", getattr(model[0], "auto_model", None), settings.max_tokens)
            model.max_seq_length = settings.max_tokens
        return model


def library() -> Any:
    """sentence_transformers, without its reports of progress."""
    try:
        import sentence_transformers
        from transformers.utils.logging import disable_progress_bar
    except ImportError as error:
        raise MissingExtraError("sentence-transformers", "torch") from error
    disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    return sentence_transformers


def cannot_load(setting: str, model: str, error: BaseException) -> InputError:
    """What to raise where the library cannot load the model."""
    reason = " ".join(str(error).split())[:300]
    return InputError(f"{setting}={model!r}: cannot be loaded: {type(error).__name__}: {reason}")


def check_positions(setting: str, inner: Any, tokens: int) -> None:
    """Raises InputError for more tokens than a model of transformers has positions."""
    positions = getattr(getattr(inner, "config", None), "max_position_embeddings", None)
    if positions is not None and tokens > positions:
        raise InputError(f"{setting}={tokens}: the model has only {positions} positions")


def _set_pooling(model: Any, settings: EncoderSettings) -> None:
    for place, module in enumerate(model):
        if type(module).__name__ == "Pooling":
            size = getattr(module, "embedding_dimension", None) or module.word_embedding_dimension
            mode = _POOLING[settings.pooling]
            model[place] = type(module)(size, pooling_mode=mode, include_prompt=module.include_prompt)
            return
    raise InputError(f"encoder.pooling={settings.pooling!r}: {settings.model} does not pool; leave pooling: model")
