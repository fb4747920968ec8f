"""FAISS's files: vectors as they are (flat), product-quantised lists (ivfpq) and graphs (hnsw); the one place that
knows FAISS, memory-mapping and GPUs.

All use the inner product, which is the cosine for vectors of length 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from rat_ray.errors import MissingExtraError, StageError
from rat_ray.retrieve.encoders import Vectors

VECTORS_FILE: Final = "vectors.faiss"
INDEX_FILE: Final = "index.faiss"
TRAINED_FILE: Final = "trained.faiss"
DTYPES: Final = ("float32", "float16")
BLOCK: Final = 65_536  # vectors that go through FAISS at once where an index is made
# What faiss-gpu can do: results per question and lists probed, and bytes per code (its wiki, "Faiss on the GPU").
GPU_MOST: Final = 2048
GPU_CODES: Final = (1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96)

Positions = npt.NDArray[np.int64]
Find = Callable[[Vectors, int], tuple[Vectors, Positions]]  # (vectors, k) -> scores and positions, best first, -1: none


def open_faiss(threads: int = 0) -> Any:
    """The library, with that many threads; 0: as it is. The number is the process's, so another worker may set it."""
    try:
        import faiss
    except ImportError as error:
        raise MissingExtraError("faiss-cpu", "local") from error
    if threads:
        faiss.omp_set_num_threads(threads)
    return faiss


class Flat(NamedTuple):
    """A file of vectors as they are. rows: (size, dim) float32 or float16, memory-mapped: a node's workers share it."""

    index: Any
    rows: npt.NDArray[Any]

    @property
    def size(self) -> int:
        return len(self.rows)

    def blocks(self) -> Iterator[Vectors]:
        """All vectors in order, as float32, `BLOCK` at a time."""
        for start in range(0, self.size, BLOCK):
            yield np.ascontiguousarray(self.rows[start : start + BLOCK], dtype=np.float32)


def open_flat(folder: Path) -> Flat:
    """The vectors of a folder, memory-mapped."""
    faiss = open_faiss()
    index = _read(faiss, folder / VECTORS_FILE)
    rows = _rows(faiss, index, np.dtype(np.float32 if isinstance(index, faiss.IndexFlat) else np.float16))
    rows.flags.writeable = False
    return Flat(index, rows)


class FlatWriter:
    """Vectors block by block into a file. Room for `most` of them is taken once, in FAISS's own memory, and they are
    written straight into it: there is never a second copy."""

    def __init__(self, dim: int, dtype: str, most: int) -> None:
        faiss = open_faiss()
        self._faiss = faiss
        if dtype == "float32":
            self._index = faiss.IndexFlatIP(dim)
        else:
            self._index = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
        self._code = dim * np.dtype(dtype).itemsize
        self._index.codes.resize(most * self._code)
        self._index.ntotal = most
        self._rows = _rows(faiss, self._index, np.dtype(dtype))
        self.size = 0

    def add(self, vectors: Vectors) -> None:
        """The next vectors (any number, dim)."""
        self._rows[self.size : self.size + len(vectors)] = vectors
        self.size += len(vectors)

    def save(self, folder: Path) -> None:
        self._index.codes.resize(self.size * self._code)
        self._index.ntotal = self.size
        self._faiss.write_index(self._index, str(folder / VECTORS_FILE))


def find_flat(flat: Flat) -> Find:
    """Exact search."""
    return _on_gpus(flat.index) or flat.index.search


def find_ivfpq(index: Any, nprobe: int) -> Find:
    """Search of `nprobe` lists."""
    index.nprobe = min(nprobe, index.nlist)
    fits = index.pq.nbits == 8 and index.pq.M in GPU_CODES and index.nprobe <= GPU_MOST
    return (_on_gpus(index) if fits else None) or index.search


def find_hnsw(index: Any, ef_search: int) -> Find:
    """Search of the graph with `ef_search` candidates, or as many as are asked for. On the CPU: FAISS has no other."""

    def find(vectors: Vectors, k: int) -> tuple[Vectors, Positions]:
        index.hnsw.efSearch = max(ef_search, k)  # with fewer than k, FAISS stops early
        scores, positions = index.search(vectors, k)
        return scores, positions

    return find


def train_ivfpq(sample: Vectors, nlist: int, m: int, bits: int, seed: int, threads: int) -> Any:
    """An empty index with its lists' centres and its codebooks."""
    faiss = open_faiss(threads)
    dim = sample.shape[1]
    index = faiss.IndexIVFPQ(faiss.IndexFlatIP(dim), dim, nlist, m, bits, faiss.METRIC_INNER_PRODUCT)
    for clustering in (index.cp, index.pq.cp):
        clustering.seed = seed
        clustering.min_points_per_centroid = 1  # fewer than it likes is said in our meta.json, not on stderr
    if faiss.get_num_gpus():
        on_gpus = faiss.index_cpu_to_all_gpus(faiss.IndexFlatIP(dim))
        index.clustering_index = on_gpus
    least = max(nlist, 2**bits)  # k-means needs as many points as centres: those of a tiny corpus come several times
    index.train(np.resize(sample, (least, dim)) if len(sample) < least else sample)
    index.clustering_index = None
    return index


def save_index(index: Any, path: Path, storage: bool = True) -> None:
    """storage: False leaves out the vectors of a graph, which lie in a file of their own."""
    faiss = open_faiss()
    faiss.write_index(index, str(path), *(() if storage else (faiss.IO_FLAG_SKIP_STORAGE,)))


def read_ivfpq(path: Path) -> Any:
    """The index, memory-mapped; to be searched, not added to."""
    return _read(open_faiss(), path)


def read_trained(path: Path) -> Any:
    """An empty index to add to."""
    return open_faiss().read_index(str(path))


def build_hnsw(flat: Flat, m: int, ef_construction: int) -> Any:
    """The graph over all vectors, and a copy of them. With one thread: with more, the graph is another every time."""
    faiss = open_faiss(1)
    dim = flat.index.d
    if flat.rows.dtype == np.float32:
        index = faiss.IndexHNSWFlat(dim, m, faiss.METRIC_INNER_PRODUCT)
    else:
        index = faiss.IndexHNSWSQ(dim, faiss.ScalarQuantizer.QT_fp16, m, faiss.METRIC_INNER_PRODUCT)
        index.is_trained = True
    index.hnsw.efConstruction = ef_construction
    for block in flat.blocks():
        index.add(block)
    return index


def read_hnsw(path: Path, flat: Flat) -> Any:
    """The graph of `path` over the vectors of `flat`, both memory-mapped."""
    index = _read(open_faiss(), path)
    index.own_fields = False
    index.storage = flat.index  # a pointer: the caller keeps `flat` alive
    return index


def _read(faiss: Any, path: Path) -> Any:
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise StageError(f"{path}: FAISS cannot read it: {error}") from error


class _Memory:
    """FAISS's memory as an array that keeps the index alive."""

    def __init__(self, index: Any, array: npt.NDArray[Any]) -> None:
        self._index = index
        self.__array_interface__ = array.__array_interface__


def _rows(faiss: Any, index: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if not index.ntotal:
        return np.zeros((0, index.d), dtype)
    codes = faiss.rev_swig_ptr(index.codes.data(), index.ntotal * index.d * dtype.itemsize)
    return np.asarray(_Memory(index, codes.view(dtype).reshape(index.ntotal, index.d)))


# --- GPUs ---------------------------------------------------------------------------------------------------------
# Written after FAISS's own sources (gpu_wrappers.py, GpuCloner.cpp) and wiki; see tests/retrieve/test_dense_gpu.py.


def has_gpus() -> bool:
    """Whether faiss-gpu is installed and sees a GPU: Ray shows a worker those that it was given."""
    return bool(open_faiss().get_num_gpus())


def _on_gpus(index: Any) -> Find | None:
    """A search on all GPUs that this worker sees, each holding its share of the vectors; None without one.

    Raises StageError where they do not fit.
    """
    faiss = open_faiss()
    gpus = faiss.get_num_gpus()
    if not gpus or not index.ntotal:
        return None
    try:
        moved = _halves(faiss, index, gpus) if isinstance(index, faiss.IndexScalarQuantizer) else _shares(faiss, index)
    except RuntimeError as error:
        raise StageError(
            f"{index.ntotal} vectors do not go onto {gpus} GPU(s): {error}; try dtype: float16, index: ivfpq, or more "
            f"GPUs per worker"
        ) from error

    def find(vectors: Vectors, k: int) -> tuple[Vectors, Positions]:
        where = moved if k <= GPU_MOST else index
        scores, positions = where.search(vectors, k)
        return scores, positions

    return find


def _shares(faiss: Any, index: Any) -> Any:
    options = faiss.GpuMultipleClonerOptions()
    options.shard = True
    options.useFloat16 = isinstance(index, faiss.IndexIVFPQ)  # its lookup tables: codes above 48 bytes need it
    return faiss.index_cpu_to_all_gpus(index, co=options)


def _halves(faiss: Any, index: Any, gpus: int) -> Any:
    """float16 vectors: FAISS puts these onto one GPU, but does not share them out over several."""
    options = faiss.GpuClonerOptions()
    options.useFloat16 = True
    whole = faiss.IndexShards(index.d, True, True)  # threaded; positions follow each other
    bounds = [index.ntotal * gpu // gpus for gpu in range(gpus + 1)]
    for gpu in range(gpus):
        part = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), gpu, faiss.IndexFlatIP(index.d), options)
        for start in range(bounds[gpu], bounds[gpu + 1], BLOCK):
            part.add(index.reconstruct_n(start, min(BLOCK, bounds[gpu + 1] - start)))
        whole.add_shard(part)
    return whole
