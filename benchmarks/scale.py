"""What an index costs: seconds, memory and disk per passage of every step, and what that means for 21 million.

    python benchmarks/scale.py                         # 100,000 and 400,000 passages; about 20 minutes on two cores
    python benchmarks/scale.py --sizes 10000 40000     # a look

Every step runs in a process of its own, as one unit of work on one shard, through the stage that runs it in a job:
passages from Parquet, files to the store. Memory is the peak of the process less what it holds before the work (Python,
Arrow, the libraries). `growth` is that memory per passage at the greatest size over the same at the smallest: at most
1 is at most linear. The text has Wikipedia's lengths and word statistics (benchmarks/synthetic.py).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.datasets import load
from rat_ray.datasets.files import FilesSettings
from rat_ray.graph import Graph, Walk
from rat_ray.retrieval_stages import RetrievalStages
from rat_ray.retrieve.kinds import Bm25Settings, DenseSettings
from rat_ray.stage import Runs, import_table
from rat_ray.store import Store, Table

try:
    from benchmarks import synthetic
except ImportError:  # run as a script
    import synthetic  # type: ignore[no-redef]

PASSAGES = 21_015_324
SHARD = 1_000_000
QUESTIONS = 1_000
CORES = 16
RETRIEVERS: dict[str, Any] = {"bm25": Bm25Settings(), "dense": DenseSettings(), "ivfpq": DenseSettings(index="ivfpq")}
# (what, retriever, table that it makes): each finds what it needs in the store.
STEPS = [
    ("read", "", ""),
    ("import", "", "passages"),
    ("bm25 tokens", "bm25", "tokens"),
    ("bm25 index", "bm25", "index"),
    ("bm25 search", "bm25", "retrievals"),
    ("dense vectors", "dense", "vectors"),
    ("dense search", "dense", "retrievals"),
    ("ivfpq training", "ivfpq", "trained"),
    ("ivfpq index", "ivfpq", "index"),
    ("ivfpq search", "ivfpq", "retrievals"),
]


class Cost(NamedTuple):
    """Of one step on one shard. disk: bytes that it wrote."""

    seconds: float
    memory: float
    disk: float


@dataclass(frozen=True)
class Whole:
    """One unit of work for everything."""

    encode: Resources = Resources(range_rows=10**9)
    index: Resources = Resources(range_rows=10**9)
    retrieve: Resources = Resources(range_rows=256)
    gather: Resources = Resources()
    rerank: Resources = Resources()
    label: Resources = Resources()
    search_groups: int = 1


def measure(step: str, size: int, folder: Path) -> Cost:
    """Do one step in this process."""
    _, retriever, table = next(one for one in STEPS if one[0] == step)
    store = Store(folder / "store")
    store.prepare()
    if step == "read":
        settings = FilesSettings(path=str(folder), corpora=["psgs_w100.tsv"], qrels_file="")
        return _timed(lambda: load(settings) and 0)
    if step == "import":
        return _timed(lambda: _bytes(_passages(store, size)))
    passages, graph = _passages(store, size), Graph()
    asked = synthetic.questions(QUESTIONS, size)
    questions = import_table(store, "questions", f"q{size}", "", tables.QUESTIONS, lambda: iter([asked]))
    nodes = graph.give(passages), graph.give(questions)
    RetrievalStages(graph, RETRIEVERS, Whole(), lambda _: nodes[0], lambda _: nodes[1]).lists("synthetic", retriever)
    last = next(name for name, node in graph.nodes.items() if node.table == table)
    order = list(graph.nodes)
    graph.nodes = {name: graph.nodes[name] for name in order[: order.index(last) + 1]}

    walk = Walk(graph)
    runs = Runs(store, Cluster(ClusterSettings(use="never")), quiet=True)

    def run() -> int:
        walk.run(runs, lambda level, stages: True)
        failure = walk.why(last)
        if failure is not None:
            raise SystemExit(failure.message)
        return _bytes(walk.tables[last])

    return _timed(run)


def _passages(store: Store, size: int) -> Table:
    return import_table(store, "passages", f"p{size}", "", tables.PASSAGES, lambda: synthetic.batches(size))


def _timed(work: Callable[[], int]) -> Cost:
    before, began = _peak(), time.perf_counter()
    written = work()
    return Cost(time.perf_counter() - began, _peak() - before, written)


def _peak() -> float:
    """The greatest resident size of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _bytes(table: Table) -> int:
    return sum(path.stat().st_size for path in Path(table.where).rglob("*") if path.is_file())


def costs(sizes: list[int]) -> Iterator[tuple[str, int, Cost]]:
    """Each step at each size, in processes of their own."""
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            synthetic.write(Path(folder), size, 100, "dpr")
            for step, _, _ in STEPS:
                command = [sys.executable, __file__, "--one", step, "--sizes", str(size), "--folder", folder]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    raise SystemExit(done.stderr)
                yield step, size, Cost(*json.loads(done.stdout.splitlines()[-1]))


def report(sizes: list[int]) -> None:
    """Print the table, then what follows for PASSAGES passages."""
    found: dict[tuple[str, int], Cost] = {}
    print(
        f"{'step':15} {'passages':>9} {'seconds':>8} {'passages/s':>10} {'peak, B each':>12} {'disk, B each':>12}",
        "growth",
    )
    for step, size, cost in costs(sizes):
        found[step, size] = cost
        growth = cost.memory / size / max(found[step, sizes[0]].memory / sizes[0], 1e-9)
        line = f"{step:15} {size:9,} {cost.seconds:8.1f} {size / cost.seconds:10,.0f}"
        print(f"{line} {cost.memory / size:12,.0f} {cost.disk / size:12,.0f} {growth:6.2f}", flush=True)
    last = sizes[-1]
    print(f"\n{PASSAGES:,} passages in shards of {SHARD:,}, workers of one core, {CORES} cores a node:")
    print(f"{'step':15} {'GiB a worker':>12} {'GiB on disk':>11}   hours on 1, 4, 16 nodes")
    for step, _, _ in STEPS:
        cost = found[step, last]
        low = found[step, sizes[0]]
        slope = max(0.0, (cost.memory - low.memory) / (last - sizes[0]))
        memory = cost.memory + slope * (SHARD - last)
        hours = [cost.seconds / last * PASSAGES / 3600 / min(n * CORES, -(-PASSAGES // SHARD)) for n in (1, 4, 16)]
        if step in ("read", "import", "ivfpq training"):  # in one process
            hours = [cost.seconds / last * PASSAGES / 3600] * 3
        text = ", ".join(f"{value:.2f}" for value in hours)
        if step.endswith("search"):
            text = f"{cost.seconds / QUESTIONS / last * PASSAGES:.3f} core seconds a question"
        print(f"{step:15} {memory / 2**30:12.2f} {cost.disk / last * PASSAGES / 2**30:11.1f}   {text}")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=Path(), help=argparse.SUPPRESS)
    given = parser.parse_args()
    pa.set_cpu_count(1)
    if given.one:
        print(json.dumps(measure(given.one, given.sizes[0], given.folder)))
    else:
        report(given.sizes)


if __name__ == "__main__":
    main()
