"""Dense retrieval: vectors of length 1 in a flat FAISS index, so that the inner product is the cosine. Exact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.errors import MissingExtraError
from rat_ray.retrieve.encoders import Vectors, check_encoder, load_encoder, revision
from rat_ray.retrieve.hits import (
    Folders,
    Hits,
    check_at_least,
    check_meta,
    passage_texts,
    rank,
    read_ids,
    retrievals_table,
    write_ids,
    write_meta,
)
from rat_ray.retrieve.merge import merge

INDEX_FILE: Final = "vectors.faiss"
# FAISS's float32 sums depend on how many questions come at once. It finds this many more than asked for, and the
# final scores are computed again in float64, one passage at a time, so that ranges and shards cannot change the order.
MARGIN: Final = 16


@dataclass(frozen=True)
class DenseSettings:
    """encoder, dim: which vectors. depth: how many passages per question. title: encode the title with the text.

    batch: texts encoded at once. threads: FAISS threads per worker; more workers scale better than more threads.
    """

    kind: str = "dense"
    encoder: str = "wordllama"
    dim: int = 256
    depth: int = 20
    title: bool = True
    batch: int = field(default=64, metadata={"key": False})
    threads: int = field(default=1, metadata={"key": False})

    def validate(self) -> None:
        """Raises InputError for numbers below 1 and an unknown encoder."""
        for name in ("depth", "dim", "batch", "threads"):
            check_at_least(f"retriever.{name}", getattr(self, name), 1)
        check_encoder(self.encoder)

    def index_settings(self) -> dict[str, Any]:
        """What the index depends on: neither the depth nor batch and threads."""
        return {
            "kind": self.kind,
            "encoder": self.encoder,
            "revision": revision(self.encoder),
            "dim": self.dim,
            "title": self.title,
        }


class DenseIndex:
    """A file stage's worker: passages in, their vectors in a folder out. A passage without text has no vector and is
    not in the index: nothing can find it."""

    def __init__(self, settings: DenseSettings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings
        self._encoder = load_encoder(settings.encoder, settings.dim)

    def __call__(self, rows: Mapping[str, pa.Table], folder: Path) -> int:
        faiss = _faiss(self._settings.threads)
        passages = rows["passages"]
        vectors = self._encoder.encode(passage_texts(passages, self._settings.title), self._settings.batch)
        has_text = vectors.any(axis=1)
        index = faiss.IndexFlatIP(self._settings.dim)
        index.add(np.ascontiguousarray(vectors[has_text]))
        faiss.write_index(index, str(folder / INDEX_FILE))
        write_ids(folder, passages.column("passage_id").filter(pa.array(has_text)))
        without = int(passages.num_rows - has_text.sum())
        write_meta(folder, self._settings.index_settings(), passages=passages.num_rows, without_text=without)
        return int(index.ntotal) + without


class _Shard(NamedTuple):
    vectors: Any  # a FAISS index
    passage_ids: pa.Array


class DenseRetrieve:
    """A worker: questions in, tables.RETRIEVALS out. Any number of index shards; the result is the same as for one."""

    def __init__(self, settings: DenseSettings, inputs: Mapping[str, Folders]) -> None:
        self._settings = settings
        faiss = _faiss(settings.threads)
        self._encoder = load_encoder(settings.encoder, settings.dim)
        self._shards: list[_Shard] = []
        for folder in inputs["index"].folders():
            check_meta(folder, settings.index_settings())
            index = faiss.read_index(str(folder / INDEX_FILE), faiss.IO_FLAG_MMAP_IFC)
            self._shards.append(_Shard(index, read_ids(folder)))

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        _faiss(self._settings.threads)  # the number of threads is the process's: another worker may have set it
        questions = rows["questions"]
        vectors = self._encoder.encode(questions.column("question").to_pylist(), self._settings.batch)
        depth = self._settings.depth
        found = [_search(shard, vectors, depth) for shard in self._shards]
        hits = [merge([shard[row] for shard in found], depth) for row in range(len(vectors))]
        return retrievals_table(questions.column("question_id"), hits, [None] * len(hits))


def _search(shard: _Shard, vectors: Vectors, depth: int) -> list[Hits]:
    """Per question the `depth` best passages of one shard; none for a question without tokens."""
    size = shard.vectors.ntotal
    if not size or not len(vectors):
        return [Hits([], []) for _ in vectors]
    wanted = min(size, depth + MARGIN)
    scores, positions = shard.vectors.search(vectors, wanted)
    return [
        _exact(shard, vector, _all_ties(shard, vector, row_scores, row_positions, depth), depth)
        for vector, row_scores, row_positions in zip(vectors, scores, positions, strict=True)
    ]


def _all_ties(shard: _Shard, vector: Vectors, scores: Vectors, positions: Any, depth: int) -> Any:
    """Positions that can be among the best: more than FAISS gave, where copies of one text fill the whole margin."""
    size = shard.vectors.ntotal
    while len(scores) < size and scores[-1] >= scores[depth - 1] - 1e-6:
        found = shard.vectors.search(vector[None, :], min(size, 4 * len(scores)))
        scores, positions = found[0][0], found[1][0]
    return positions


def _exact(shard: _Shard, vector: Vectors, positions: Any, depth: int) -> Hits:
    if not vector.any():
        return Hits([], [])
    stored = shard.vectors.reconstruct_batch(np.ascontiguousarray(positions)).astype(np.float64)
    scores = (stored * vector.astype(np.float64)).sum(axis=1)
    return rank(shard.passage_ids.take(pa.array(positions)).to_pylist(), scores.tolist(), depth)


def _faiss(threads: int) -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss-cpu", "local") from error
    faiss.omp_set_num_threads(threads)
    return faiss
