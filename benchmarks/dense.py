"""Dense retrieval against wordllama's `embed` and FAISS's `search` called directly: same batches, same threads.

    PYTHONPATH=. python benchmarks/dense.py [--passages 100000] [--questions 2000] [--index flat|ivfpq|hnsw]

Bars, each a ratio of rates: 0.85 for questions/s of the exact search, by the worker (encode, search, exact scores, ids,
the table) and by the whole stage (from the store to the store); 0.9 for passages/s of the step that makes the vectors.
Both sides alternate; medians, of seconds and of CPU seconds. Also printed: bytes per passage on disk, and for an
approximate index its recall against the exact one. What memory the steps take is measured by benchmarks/scale.py.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from benchmarks import synthetic
from benchmarks.staged import staged
from rat_ray.retrieve.dense import DenseRetrieve, DenseSettings
from rat_ray.retrieve.dense_steps import EncodePassages
from rat_ray.retrieve.faiss_index import open_faiss
from rat_ray.retrieve.hits import passage_texts
from rat_ray.retrieve.measures import recall_in_words
from rat_ray.retrieve.recall import RecallWorker
from tests.retrieve.stepping import run_steps

ROUNDS = 3
BATCH = 64  # texts that are encoded at once, both sides
RANGE = 256  # questions per unit of work, both sides


class Spent(NamedTuple):
    wall: float
    cpu: float  # of this process: what other processes do meanwhile does not count


def spent(action: Callable[[], Any]) -> Spent:
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def compare(what: str, count: int, bar: float | None, ours: Callable[[], Any], bare: Callable[[], Any]) -> None:
    """Print one line: medians of both, alternating, after one round that does not count."""
    ours(), bare()
    pairs = [(spent(ours), spent(bare)) for _ in range(ROUNDS)]
    wall = [statistics.median(one.wall for one in column) for column in zip(*pairs, strict=True)]
    cpu = [statistics.median(one.cpu for one in column) for column in zip(*pairs, strict=True)]
    print(
        f"{what}: {count / wall[0]:,.0f}/s, called directly {count / wall[1]:,.0f}/s, ratio {wall[1] / wall[0]:.2f}, "
        f"by CPU seconds {cpu[1] / cpu[0]:.2f}{f' (bar {bar})' if bar else ''}",
        flush=True,
    )


def bytes_of(folders: list[Path]) -> int:
    return sum(path.stat().st_size for folder in folders for path in folder.iterdir())


def measure(folder: Path, size: int, asked: int, wanted: DenseSettings, shards: int) -> None:
    import wordllama  # sets up the root logger, which then shows what FAISS tries to load

    logging.getLogger().setLevel(logging.WARNING)
    bare = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, dim=256, disable_download=True)
    passages, questions = synthetic.passages(size), synthetic.questions(asked, size)
    bounds = [size * shard // shards for shard in range(shards + 1)]
    cut = [passages.slice(start, stop - start) for start, stop in pairwise(bounds)]
    made = run_steps(wanted, folder, *cut)
    print(f"{size:,} passages, {shards} shard(s), {wanted.dtype}")
    for name, table in made.items():
        print(f"{name}: {bytes_of(table.folders()) / size:,.0f} bytes per passage on disk")
    if wanted.index != "flat":
        lists = DenseRetrieve(wanted, {**made, "index": made["index"]})({"questions": questions})
        recall = RecallWorker(wanted, made)({"questions": questions, "retrievals": lists})
        print(recall_in_words(recall))
    searching(wanted, made, questions, bare)
    encoding(wanted, passages.slice(0, 20_000), bare, folder / "again")


def searching(wanted: DenseSettings, made: dict[str, Any], questions: pa.Table, bare: Any) -> None:
    """Questions/s, for one shard: of the worker, and of the stage."""
    inputs = {**made, "index": made[wanted.steps()[-1].name]}
    if len(inputs["index"].folders()) > 1:
        return
    faiss = open_faiss(wanted.threads)
    name = "vectors.faiss" if wanted.index == "flat" else "index.faiss"
    index = faiss.read_index(str(inputs["index"].folders()[0] / name), faiss.IO_FLAG_MMAP_IFC)
    vectors = faiss.read_index(str(made["vectors"].folders()[0] / "vectors.faiss"), faiss.IO_FLAG_MMAP_IFC)
    if wanted.index == "hnsw":
        index.own_fields, index.storage, index.hnsw.efSearch = False, vectors, wanted.hnsw.ef_search
    if wanted.index == "ivfpq":
        index.nprobe = wanted.ivfpq.nprobe
        index = faiss.IndexRefine(index, vectors)  # FAISS's own way to score candidates again
        index.k_factor = wanted.rescore_factor
    ranges = [questions.slice(start, RANGE) for start in range(0, questions.num_rows, RANGE)]
    texts = [table["question"].to_pylist() for table in ranges]
    worker, bar = DenseRetrieve(wanted, inputs), 0.85 if wanted.index == "flat" else None

    def directly() -> None:
        faiss.omp_set_num_threads(wanted.threads)
        for some in texts:
            index.search(bare.embed(some, norm=True, batch_size=BATCH), wanted.depth)

    def by_worker() -> None:
        for table in ranges:
            worker({"questions": table})

    compare(f"questions of the {wanted.index} worker", questions.num_rows, bar, by_worker, directly)
    with staged(worker, wanted, questions, RANGE) as by_stage:
        compare(f"questions of the {wanted.index} stage", questions.num_rows, bar, by_stage, directly)


def encoding(wanted: DenseSettings, passages: pa.Table, bare: Any, folder: Path) -> None:
    """Passages/s of the step, files included, and of the encoder alone."""
    worker, texts = EncodePassages(wanted, {}), passage_texts(passages, wanted.title)
    numbers = iter(range(100))

    def step() -> None:
        target = folder / str(next(numbers))
        target.mkdir(parents=True)
        worker({"passages": passages}, target)

    def directly() -> None:
        made = bare.embed(texts, norm=True, batch_size=BATCH)
        assert made.shape == (passages.num_rows, 256)

    compare("passages of the vectors step", passages.num_rows, 0.9, step, directly)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--index", default="flat")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shards", type=int, default=1, help="more: only encoding is compared")
    given = parser.parse_args()
    wanted = DenseSettings(index=given.index, dtype=given.dtype, depth=given.depth, threads=given.threads)
    wanted.validate()
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), given.passages, given.questions, wanted, given.shards)


if __name__ == "__main__":
    main()
