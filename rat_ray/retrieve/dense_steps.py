"""The steps of a dense index: passages are encoded; k-means and codebooks are learned; lists or graphs are made."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rat_ray.errors import StageError
from rat_ray.retrieve.dense_settings import DenseSettings, check_divides
from rat_ray.retrieve.encoders import Vectors, open_encoder
from rat_ray.retrieve.faiss_index import (
    INDEX_FILE,
    TRAINED_FILE,
    Flat,
    FlatWriter,
    build_hnsw,
    open_faiss,
    open_flat,
    read_trained,
    save_index,
    train_ivfpq,
)
from rat_ray.retrieve.hits import IDS_FILE, Folders, check_meta, passage_texts, read_ids, write_ids, write_meta

BLOCK: Final = 8192  # passages whose texts are Python strings at once; encoders sort them into batches by length
PER_LIST: Final = 64  # vectors per list that k-means learns from
LEAST_PER_LIST: Final = 39  # FAISS's own bound; with fewer, there are fewer lists


class EncodePassages:
    """Passages in, their vectors in a folder out. A passage without text has no vector: nothing can find it."""

    def __init__(self, settings: DenseSettings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings
        self._encoder = open_encoder(settings.encoder)
        settings.check_dim(self._encoder.dim)  # now, not after hours of encoding

    def __call__(self, rows: Mapping[str, pa.Table], folder: Path) -> int:
        passages, settings = rows["passages"], self._settings
        writer = FlatWriter(self._encoder.dim, settings.dtype, passages.num_rows)
        ids: list[pa.ChunkedArray] = []
        longest = 0.0
        for start in range(0, passages.num_rows, BLOCK):
            block = passages.slice(start, BLOCK)
            vectors = self._encoder.encode_passages(passage_texts(block, settings.title))
            has_text = vectors.any(axis=1)
            writer.add(vectors[has_text])
            longest = max(longest, float(np.linalg.norm(vectors, axis=1).max()))
            ids.append(block.column("passage_id").filter(pa.array(has_text)))
        writer.save(folder)
        write_ids(folder, pa.chunked_array([chunk for part in ids for chunk in part.chunks], pa.string()))
        write_meta(
            folder,
            settings.step_keys()["vectors"],
            passages=passages.num_rows,
            vectors=writer.size,
            without_text=passages.num_rows - writer.size,
            dim=self._encoder.dim,
            **({} if settings.encoder.normalise else {"longest": longest}),
        )
        return int(passages.num_rows)


class TrainIvfPq:
    """All shards of vectors in, an empty index with centres and codebooks out.

    It learns from the vectors whose passage ids have the smallest hashes, in that order: the same ones however the
    corpus was cut.
    """

    def __init__(self, settings: DenseSettings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings

    def __call__(self, rows: Mapping[str, list[Path]], folder: Path) -> int:
        settings = self._settings
        keys = settings.step_keys()
        metas = [check_meta(path, keys["vectors"]) for path in rows["vectors"]]
        asked = settings.ivfpq
        plan = plan_lists(asked.nlist, asked.bits, asked.train_size, sum(meta["vectors"] for meta in metas))
        dim = metas[0]["dim"]
        check_divides(asked.m, dim)
        sample = sampled(rows["vectors"], plan.sample) if plan.sample else np.eye(1, dim, dtype=np.float32)
        index = train_ivfpq(sample, plan.nlist, asked.m, plan.bits, asked.seed, settings.threads)
        save_index(index, folder / TRAINED_FILE)
        passages = sum(meta["passages"] for meta in metas)
        write_meta(folder, keys["trained"], passages=passages, m=asked.m, **plan._asdict())
        return int(passages)


class BuildIvfPq:
    """A shard of vectors in, its lists of quantised vectors out."""

    def __init__(self, settings: DenseSettings, inputs: Mapping[str, Folders]) -> None:
        self._settings = settings
        [self._trained] = inputs["trained"].folders()

    def __call__(self, rows: Mapping[str, list[Path]], folder: Path) -> int:
        keys = self._settings.step_keys()
        plan = check_meta(self._trained, keys["trained"])
        shard = _open_shard(rows, keys["vectors"])
        index = read_trained(self._trained / TRAINED_FILE)
        open_faiss(self._settings.threads)
        for block in shard.flat.blocks():
            index.add(block)
        save_index(index, folder / INDEX_FILE)
        more = {name: plan[name] for name in ("nlist", "bits", "m")}
        return _finish(folder, shard, keys["index"], **more)


class BuildHnsw:
    """A shard of vectors in, the graph over them out. The graph holds no vectors: a search needs theirs as well.

    Each shard has its own graph and is searched on its own, so that recall depends on how many there are: more shards
    find more, and take longer.
    """

    def __init__(self, settings: DenseSettings, inputs: Mapping[str, Any]) -> None:
        self._settings = settings

    def __call__(self, rows: Mapping[str, list[Path]], folder: Path) -> int:
        keys, hnsw = self._settings.step_keys(), self._settings.hnsw
        shard = _open_shard(rows, keys["vectors"])
        save_index(build_hnsw(shard.flat, hnsw.m, hnsw.ef_construction), folder / INDEX_FILE, storage=False)
        return _finish(folder, shard, keys["index"])


class _VectorShard(NamedTuple):
    folder: Path
    meta: Mapping[str, Any]
    flat: Flat


def _open_shard(rows: Mapping[str, list[Path]], key: Mapping[str, Any]) -> _VectorShard:
    [path] = rows["vectors"]
    meta, flat = check_meta(path, key), open_flat(path)
    if flat.size != meta["vectors"]:
        raise StageError(f"{path}: {flat.size} vectors where meta.json says {meta['vectors']}")
    return _VectorShard(path, meta, flat)


def _finish(folder: Path, shard: _VectorShard, key: Mapping[str, Any], **more: Any) -> int:
    shutil.copyfile(shard.folder / IDS_FILE, folder / IDS_FILE)
    counts = {name: shard.meta[name] for name in ("passages", "vectors", "dim")}
    write_meta(folder, key, **counts, **more)
    return int(shard.meta["passages"])


class ListPlan(NamedTuple):
    """What a corpus allows. note: "" or what was lowered and why."""

    nlist: int
    bits: int
    sample: int
    note: str


def plan_lists(nlist: int, bits: int, train_size: int, size: int) -> ListPlan:
    """Lists, bits and sample for a corpus of `size` vectors; `nlist` and `train_size` 0: by the rules of the settings.

    A list needs `LEAST_PER_LIST` vectors of the sample, and a codebook of n bits 2^n: less, and there are fewer.
    """
    wanted = nlist or max(1, round(4 * math.sqrt(size)))
    sample = min(size, train_size or PER_LIST * max(wanted, 2**bits))
    lists = min(wanted, max(1, sample // LEAST_PER_LIST))
    fewer = min(bits, max(1, int(math.log2(sample)) if sample else 1))
    changes = [f"nlist {wanted} -> {lists}"] if nlist and lists < wanted else []
    changes += [f"bits {bits} -> {fewer}"] if fewer < bits else []
    note = f"too few vectors to learn from ({sample}): {', '.join(changes)}" if changes else ""
    return ListPlan(lists, fewer, sample, note)


def sampled(folders: list[Path], count: int) -> Vectors:
    """The `count` vectors whose passage ids have the smallest hashes, in that order."""
    hashes, shards, rows = np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for shard, folder in enumerate(folders):
        here = hashes_of(read_ids(folder))
        hashes = np.concatenate([hashes, here])
        shards = np.concatenate([shards, np.full(len(here), shard)])
        rows = np.concatenate([rows, np.arange(len(here))])
        best = np.argsort(hashes, kind="stable")[:count]  # equal hashes in the order of the corpus
        hashes, shards, rows = hashes[best], shards[best], rows[best]
    made = np.empty((len(rows), open_flat(folders[0]).rows.shape[1]), np.float32)
    for shard, folder in enumerate(folders):
        chosen = np.flatnonzero(shards == shard)
        made[chosen] = open_flat(folder).rows[rows[chosen]]
    return made


def hashes_of(passage_ids: pa.Array) -> npt.NDArray[np.uint64]:
    """64-bit hashes of passage ids: the same on every machine."""
    digests = b"".join(blake2b(name.encode(), digest_size=8).digest() for name in passage_ids.to_pylist())
    return np.frombuffer(digests, dtype=np.dtype("<u8"))
