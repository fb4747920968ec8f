"""Our BM25 workers against bm25s called directly, on a made-up corpus of Wikipedia's length and word statistics.

    PYTHONPATH=. python benchmarks/bm25.py [--passages 100000] [--questions 2000] [--shards 1] [--clock wall|cpu]

Search: questions/s of the retrieval worker, called as a stage calls it (tables in, tables out, blocks of 256), and of
the whole stage, from the store to the store, against `bm25s.tokenize` and `BM25.retrieve` on an index of the same
passages, memory-mapped, with the same depth. Indexing: documents/s of the three steps against `bm25s.tokenize` and
`BM25.index`, in memory and without saving. One thread each; the rounds alternate; medians. Bars: 0.85 and 0.8.

bm25s selects with JAX where it is installed and with NumPy otherwise, which takes ten times as long; which one it was
is printed. Install JAX for the harder comparison.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import synthetic
from benchmarks.staged import staged
from rat_ray.retrieve.bm25 import Bm25Retrieve, Bm25Settings
from rat_ray.retrieve.bm25_index import Bm25Index
from rat_ray.retrieve.bm25_tokens import Bm25Tokens
from rat_ray.retrieve.bm25_words import Bm25Words
from rat_ray.retrieve.hits import passage_texts
from rat_ray.retrieve.words import load_bm25s, load_stemmer

SEARCH_BAR, INDEX_BAR = 0.85, 0.8
BLOCK = 256  # questions per call


class Folders:
    """What a worker gets of an earlier step."""

    def __init__(self, folders: list[Path]) -> None:
        self._folders = folders

    def folders(self) -> list[Path]:
        return self._folders


def build(settings: Bm25Settings, folder: Path, shards: list[pa.Table]) -> dict[str, Folders]:
    """The three steps, one after another in this process."""
    shutil.rmtree(folder, ignore_errors=True)
    made = {name: [folder / name / str(n) for n in range(len(shards))] for name in ("tokens", "index")}
    made["words"] = [folder / "words"]
    for path in (path for paths in made.values() for path in paths):
        path.mkdir(parents=True)
    tokenise = Bm25Tokens(settings, {})
    for shard, path in zip(shards, made["tokens"], strict=True):
        tokenise({"passages": shard}, path)
    Bm25Words(settings, {})({"tokens": made["tokens"]}, made["words"][0])
    index = Bm25Index(settings, {"words": Folders(made["words"])})
    for tokens, path in zip(made["tokens"], made["index"], strict=True):
        index({"tokens": [tokens]}, path)
    return {name: Folders(paths) for name, paths in made.items()}


def build_directly(settings: Bm25Settings, passages: pa.Table) -> Any:
    bm25s = load_bm25s()
    texts = passage_texts(passages, settings.title)
    words = bm25s.tokenize(texts, stopwords=settings.stopwords, stemmer=stemmer(settings), show_progress=False)
    index = bm25s.BM25(k1=settings.k1, b=settings.b, method=settings.method)
    index.index(words, show_progress=False)
    return index


def stemmer(settings: Bm25Settings) -> Any:
    return load_stemmer(settings.stemmer)


def search(worker: Bm25Retrieve, questions: pa.Table) -> list[pa.Table]:
    return [worker({"questions": questions.slice(start, BLOCK)}) for start in range(0, questions.num_rows, BLOCK)]


def search_directly(settings: Bm25Settings, index: Any, questions: pa.Table) -> Any:
    texts = questions["question"].to_pylist()
    words = load_bm25s().tokenize(
        texts, stopwords=settings.stopwords, stemmer=stemmer(settings), return_ids=False, show_progress=False
    )
    return index.retrieve(words, k=settings.depth, show_progress=False)


def medians(rounds: int, clock: Callable[[], float], runs: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Seconds of each, alternating."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            began = clock()
            run()
            seconds[name].append(clock() - began)
    return {name: statistics.median(times) for name, times in seconds.items()}


def check(ours: list[pa.Table], theirs: Any) -> None:
    """The comparison is of equal work: the same scores."""
    rows = pa.concat_tables(ours)["scores"].to_pylist()
    for row, scores in zip(rows, theirs.scores.tolist(), strict=True):
        if row != scores[: len(row)]:
            raise SystemExit(f"the scores differ: {row[:3]} and {scores[:3]}")


def shown(what: str, count: int, seconds: dict[str, float], bar: float) -> Iterator[str]:
    for name, value in seconds.items():
        yield f"{what}, {name}: {count / value:,.0f}/s ({value:.2f} s)"
    ratio = min(value for name, value in seconds.items() if name != "ours") / seconds["ours"]
    yield f"{what}: ratio {ratio:.2f} (bar: {bar})"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    given = parser.parse_args()
    clock = time.perf_counter if given.clock == "wall" else time.process_time
    settings = Bm25Settings()
    passages = synthetic.passages(given.passages)
    questions = synthetic.questions(given.questions, given.passages)
    cuts = [given.passages * n // given.shards for n in range(given.shards + 1)]
    shards = [passages.slice(start, stop - start) for start, stop in pairwise(cuts)]
    with tempfile.TemporaryDirectory() as scratch:
        folder, saved = Path(scratch) / "ours", Path(scratch) / "bm25s"
        runs = {
            "ours": lambda: build(settings, folder, shards),
            "bm25s": lambda: build_directly(settings, passages),
        }
        for line in shown("documents", given.passages, medians(max(1, given.rounds // 2), clock, runs), INDEX_BAR):
            print(line, flush=True)
        made = build(settings, folder, shards)
        for name, input_ in made.items():
            size = sum(path.stat().st_size for one in input_.folders() for path in one.iterdir())
            print(f"{name}: {size / given.passages:,.0f} bytes per passage")
        build_directly(settings, passages).save(saved, show_progress=False)
        index = load_bm25s().BM25.load(saved, mmap=True, show_progress=False)
        worker = Bm25Retrieve(settings, made)
        print(f"bm25s selects with {'JAX' if load_bm25s().selection_np.JAX_IS_AVAILABLE else 'NumPy'}")
        check(search(worker, questions), search_directly(settings, index, questions))
        runs = {
            "ours": lambda: search(worker, questions),
            "bm25s": lambda: search_directly(settings, index, questions),
        }
        for line in shown("questions", given.questions, medians(given.rounds, clock, runs), SEARCH_BAR):
            print(line, flush=True)
        with staged(worker, settings, questions, BLOCK) as run:
            runs["ours"] = run
            for line in shown(
                "questions of the stage", given.questions, medians(given.rounds, clock, runs), SEARCH_BAR
            ):
                print(line, flush=True)


if __name__ == "__main__":
    main()
