"""Encoders turn texts into vectors of length 1. One class per library; `encoder` in the settings names it."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from rat_ray.errors import InputError, MissingExtraError, did_you_mean

Vectors = npt.NDArray[np.float32]


class Encoder(Protocol):
    """texts -> float32 array (number of texts, dim), each row of length 1, or all zero for a text without tokens."""

    def encode(self, texts: list[str], batch: int) -> Vectors: ...


class WordLlamaEncoder:
    """Averaged token vectors of a language model, distilled (wordllama, `l2_supercat`); its wheel holds dim 256.

    Nothing is downloaded. Other dims work if their weights lie in the package's own `weights` folder; smaller ones
    are cut from 256, as the vectors were trained to allow (Matryoshka).
    """

    FULL_DIM: Final = 256

    def __init__(self, dim: int) -> None:
        wordllama = _wordllama()
        folder = Path(wordllama.__file__).parent
        shorter = dim if dim < self.FULL_DIM else None
        try:
            self._model = wordllama.WordLlama.load(
                cache_dir=folder, dim=max(dim, self.FULL_DIM), trunc_dim=shorter, disable_download=True
            )
        except ValueError as error:
            raise InputError(f"retriever.dim={dim}: wordllama has 64, 128 and 256 ({error})") from error
        except FileNotFoundError as error:
            raise InputError(f"retriever.dim={dim}: no weights in {folder} ({error}); use 64, 128 or 256") from error

    def encode(self, texts: list[str], batch: int) -> Vectors:
        # Batches of like length: a batch is padded to its longest text, in memory too. wordllama divides by the norm
        # without looking, which makes NaN of an empty text, so the vectors are scaled here.
        order = np.argsort([len(text) for text in texts], kind="stable")
        vectors: Vectors = np.empty((len(texts), self._model.embedding.shape[1]), dtype=np.float32)
        for start in range(0, len(texts), batch):
            chosen = order[start : start + batch]
            vectors[chosen] = self._model.embed([texts[index] for index in chosen], norm=False, batch_size=batch)
        return normalise(vectors)


def normalise(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled


ENCODERS: Final[Mapping[str, Callable[[int], Encoder]]] = {"wordllama": WordLlamaEncoder}


def load_encoder(name: str, dim: int) -> Encoder:
    """The encoder of this name. Raises InputError for an unknown name or a dim that it does not have."""
    check_encoder(name)
    return ENCODERS[name](dim)


def revision(name: str) -> str:
    """What identifies an encoder's weights: the version of the wheel that holds them."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(name, "local") from error


def check_encoder(name: str) -> None:
    """Raises InputError for an unknown name."""
    if name not in ENCODERS:
        raise InputError(f"retriever.encoder={name!r}: unknown{did_you_mean(name, ENCODERS)}")


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
