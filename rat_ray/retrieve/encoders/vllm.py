"""vLLM in this process, on the GPU that Ray gave it. For one server that several jobs share, see openai.py.

vLLM batches by itself, and scales vectors to length 1. Texts are cut here, at the end, as sentence-transformers cuts
them: its own way differs from version to version. Written against its documented interface (LLM(runner="pooling"),
LLM.embed, PoolerConfig); no GPU was at hand to run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rat_ray.errors import InputError, MissingExtraError, StageError
from rat_ray.retrieve.encoders.encoder import Vectors, check_dim, finished, with_text
from rat_ray.retrieve.encoders.settings import EncoderSettings
from rat_ray.weights import where


class VllmEncoder:
    """An LLM in pooling mode."""

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings = settings
        self._llm = _load(settings)
        self._tokenizer = self._llm.get_tokenizer()
        self._max_tokens = settings.max_tokens or int(self._llm.model_config.max_model_len)
        self.dim = check_dim(self._embed(["dimension"]).shape[1], settings.dim, settings.shorten)

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._settings.passage_prefix or "")

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._settings.query_prefix or "")

    def _encode(self, texts: Sequence[str], prefix: str) -> Vectors:
        def embed(filled: list[str]) -> Vectors:
            return finished(self._embed([prefix + text for text in filled]), self.dim, self._settings.normalise)

        return with_text(texts, self.dim, embed)

    def _embed(self, texts: list[str]) -> Vectors:
        tokens = self._tokenizer(texts, truncation=True, max_length=self._max_tokens)["input_ids"]
        outputs = self._llm.embed([{"prompt_token_ids": ids} for ids in tokens], use_tqdm=False)
        vectors: Vectors = np.asarray([output.outputs.embedding for output in outputs], dtype=np.float32)
        if not np.isfinite(vectors).all():
            raise StageError(f"{self._settings.model}: vectors that are no numbers; try another dtype")
        return vectors


def _load(settings: EncoderSettings) -> Any:
    try:
        import vllm
        from vllm.config import PoolerConfig
    except ImportError as error:
        raise MissingExtraError("vllm", "vllm") from error
    path, commit = where(settings.model, settings.identity)
    pooler = None if settings.pooling == "model" else PoolerConfig(pooling_type=settings.pooling.upper())
    try:
        return vllm.LLM(
            model=path,
            revision=commit,
            tokenizer_revision=commit,
            runner="pooling",
            dtype=settings.dtype,
            max_model_len=settings.max_tokens or None,
            pooler_config=pooler,
        )
    except (ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"encoder.model={settings.model!r}: vLLM cannot load it: {reason}") from error
