"""Dense retrieval: questions and passages as vectors of length 1, the nearest passages by FAISS.

`index: flat` is exact; `ivfpq` and `hnsw` are approximate, and how much they find is a table of its own (see `recall`).
The shards' scores compare, so a worker may have any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from rat_ray.errors import StageError
from rat_ray.retrieve.dense_search import Search, Shard
from rat_ray.retrieve.dense_settings import DenseSettings, HnswSettings, IvfPqSettings
from rat_ray.retrieve.encoders import Vectors, open_encoder
from rat_ray.retrieve.faiss_index import (
    INDEX_FILE,
    find_flat,
    find_hnsw,
    find_ivfpq,
    has_gpus,
    open_faiss,
    open_flat,
    read_hnsw,
    read_ivfpq,
)
from rat_ray.retrieve.hits import Folders, Hits, check_meta, read_ids, retrievals_table

__all__ = ["DenseRetrieve", "DenseSettings", "HnswSettings", "IvfPqSettings"]


class DenseRetrieve:
    """A worker: questions in, tables.RETRIEVALS out. Any number of index shards; the result is the same as for one.

    inputs: index, and what `DenseSettings.search_inputs` names. Everything large is memory-mapped, so that a node's
    workers share it.

    Two exceptions to the sameness. hnsw: each shard has its own graph. ivfpq with `rescore`, shards shared out over
    several workers: each takes the best `rescore_factor` times `depth` candidates of its own shards, so that their
    merged list may hold better passages than one worker finds, never worse ones.
    """

    def __init__(self, settings: DenseSettings, inputs: Mapping[str, Folders]) -> None:
        self._settings = settings
        self._encoder = open_encoder(settings.encoder)
        keep = settings.depth * (settings.rescore_factor if settings.index == "ivfpq" and settings.rescore else 1)
        shards = open_shards(settings, {name: table.folders() for name, table in inputs.items()})
        self._search = Search(shards, keep, gpu=has_gpus())

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        questions = rows["questions"]
        hits = self.search(self._encoder.encode_questions(questions.column("question").to_pylist()))
        return retrievals_table(questions.column("question_id"), hits, [None] * len(hits))

    def search(self, vectors: Vectors) -> list[Hits]:
        """Per vector (float32, of length 1) the best passages; none for a row of zeros."""
        open_faiss(self._settings.threads)
        return self._search(vectors, self._settings.depth)


def open_shards(settings: DenseSettings, folders: Mapping[str, list[Path]]) -> list[Shard]:
    """The shards. Raises StageError where they were made with other settings, or index and vectors do not belong
    together."""
    keys = settings.step_keys()
    last = list(keys)[-1]
    metas = [check_meta(folder, keys[last]) for folder in folders["index"]]
    beside = folders.get("vectors", folders["index"]) if settings.index != "flat" else folders["index"]
    if len(beside) != len(metas):
        raise StageError(f"{len(metas)} shards of the index, but {len(beside)} of vectors")
    lengths = [meta.get("longest", 1.0) for meta in metas]
    for place, (folder, meta) in enumerate(zip(beside, metas, strict=True)) if settings.search_inputs() else ():
        vectors = check_meta(folder, keys["vectors"])
        if (vectors["passages"], vectors["vectors"]) != (meta["passages"], meta["vectors"]):
            raise StageError(f"{folder}: not the vectors that the index was made from; they have other numbers")
        lengths[place] = vectors.get("longest", 1.0)
    shards = [_open_shard(settings, index, vectors) for index, vectors in zip(folders["index"], beside, strict=True)]
    return [shard._replace(longest=longest) for shard, longest in zip(shards, lengths, strict=True)]


def _open_shard(settings: DenseSettings, folder: Path, vectors: Path) -> Shard:
    ids = read_ids(folder)
    if settings.index == "ivfpq":
        find = find_ivfpq(read_ivfpq(folder / INDEX_FILE), settings.ivfpq.nprobe)
        return Shard(ids, find, open_flat(vectors).rows if settings.rescore else None)
    flat = open_flat(vectors)
    if settings.index == "flat":
        return Shard(ids, find_flat(flat), flat.rows, flat)
    return Shard(ids, find_hnsw(read_hnsw(folder / INDEX_FILE, flat), settings.hnsw.ef_search), flat.rows, flat)
