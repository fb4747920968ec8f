"""What every encoder offers, and what they share: batches of like length, rows of zeros, rows of length 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rat_ray.errors import InputError

Vectors = npt.NDArray[np.float32]


class Encoder(Protocol):
    """Texts in, a C-contiguous float32 array (number of texts, dim) out, row i for text i.

    A blank text (no character but white space, whatever the prefix) gives a row of zeros. With `normalise` every other
    row has length 1. Any number of texts, also none; they are cut into batches within.
    """

    @property
    def dim(self) -> int:
        """Numbers per vector. Known before anything is encoded."""
        ...

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """With the passages' prefix."""
        ...

    def encode_questions(self, texts: Sequence[str]) -> Vectors:
        """With the questions' prefix."""
        ...


def normalise(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return scaled


def finished(vectors: Vectors, dim: int, scale: bool) -> Vectors:
    """The first `dim` numbers of each row, scaled to length 1 if `scale`."""
    cut = np.ascontiguousarray(vectors[:, :dim], dtype=np.float32)
    return normalise(cut) if scale else cut


def with_text(texts: Sequence[str], dim: int, embed: Callable[[list[str]], Vectors]) -> Vectors:
    """`embed` of the texts that are not blank, rows of zeros for the others.

    Equal texts are embedded once: copies have one vector, whatever their batches would have made of it.
    """
    filled = [row for row, text in enumerate(texts) if text.strip()]
    places: dict[str, int] = {}
    distinct = [places.setdefault(texts[row], len(places)) for row in filled]
    vectors: Vectors = np.zeros((len(texts), dim), dtype=np.float32)
    if filled:
        vectors[filled] = embed(list(places))[distinct]
    return vectors


def by_length(texts: Sequence[str], batch: int, padded: int = 0) -> list[list[int]]:
    """Positions in batches of texts of like length: a batch is padded to its longest. Longest first, so that what does
    not fit into memory fails at once.

    padded: characters of a batch with its padding, at most; a longer text is a batch of its own. 0: no limit.
    """
    order = sorted(range(len(texts)), key=lambda row: (-len(texts[row]), row))
    batches = []
    while order:
        most = min(batch, max(1, padded // max(1, len(texts[order[0]])))) if padded else batch
        batches.append(order[:most])
        del order[:most]
    return batches


def check_dim(own: int, dim: int, shorten: bool) -> int:
    """Numbers per vector: `dim`, or the model's `own` for 0. Raises InputError for a dim that the model cannot give."""
    if dim in (0, own):
        return own
    if dim > own:
        raise InputError(f"encoder.dim={dim}: the model's vectors have {own} numbers; give that, or 0")
    if not shorten:
        raise InputError(
            f"encoder.dim={dim}: the model's vectors have {own} numbers; give that, or 0, or set encoder.shorten=true "
            f"where the model was trained to have its vectors cut"
        )
    return dim
