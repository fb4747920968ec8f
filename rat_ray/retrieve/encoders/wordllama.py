"""Averaged token vectors of a language model, distilled (wordllama, `l2_supercat`); its wheel holds dim 256.

Nothing is downloaded, and each text is encoded apart from its batch: batch sizes change no bit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rat_ray.errors import InputError, MissingExtraError
from rat_ray.retrieve.encoders.encoder import Vectors, by_length, finished, with_text
from rat_ray.retrieve.encoders.settings import EncoderSettings

FULL_DIM: Final = 256
PADDED: Final = 1 << 18  # characters of a batch: wordllama cuts no text, and holds FULL_DIM numbers per padded token


class WordLlamaEncoder:
    """Smaller dims are cut from 256, as the vectors were trained to allow (Matryoshka)."""

    def __init__(self, settings: EncoderSettings) -> None:
        self._settings = settings
        self.dim = settings.dim or FULL_DIM
        wordllama = _wordllama()
        folder = Path(wordllama.__file__).parent
        try:
            self._model = wordllama.WordLlama.load(cache_dir=folder, dim=FULL_DIM, disable_download=True)
        except (ValueError, FileNotFoundError) as error:
            raise InputError(
                f"encoder.kind=wordllama: no weights in {folder} ({error}); reinstall wordllama"
            ) from error

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._settings.passage_prefix or "")

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        return self._encode(texts, self._settings.query_prefix or "")

    def _encode(self, texts: Sequence[str], prefix: str) -> Vectors:
        return with_text(texts, self.dim, lambda filled: self._embed([prefix + text for text in filled]))

    def _embed(self, texts: list[str]) -> Vectors:
        # wordllama divides by the norm without looking, which makes NaN of a text without tokens: scaled here.
        batch = self._settings.batch
        vectors: Vectors = np.empty((len(texts), FULL_DIM), dtype=np.float32)
        for rows in by_length(texts, batch, PADDED):
            vectors[rows] = self._model.embed([texts[row] for row in rows], norm=False, batch_size=batch)
        return finished(vectors, self.dim, self._settings.normalise)


def _wordllama() -> Any:
    # Importing wordllama sets up the root logger, for everybody: put it back as it was.
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        import wordllama
    except ImportError as error:
        raise MissingExtraError("wordllama", "local") from error
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return wordllama
