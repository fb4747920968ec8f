"""What an index costs: seconds, memory and disk per passage of every step, and what that means for 21 million.

    PYTHONPATH=. python benchmarks/scale.py                      # 100,000 and 400,000 passages; about 10 minutes
    PYTHONPATH=. python benchmarks/scale.py --sizes 10000 40000  # a look

Every step runs in a process of its own, as one unit of work on one shard, through the stage that runs it in a job:
passages from Parquet, files to the store. Memory is the peak of the process less what it holds before the work
(Python, Arrow, the libraries, and what 2,000 passages took). `growth` is that memory per passage at the greatest size
over the same at the smallest: at most 1 is at most linear. The text has Wikipedia's lengths and word statistics
(benchmarks/synthetic.py).
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
import yaml

from benchmarks import synthetic
from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.datasets import load
from rat_ray.datasets.files import FilesSettings
from rat_ray.graph import Graph, Walk
from rat_ray.retrieval_stages import RetrievalStages
from rat_ray.retrieve.kinds import Bm25Settings, DenseSettings
from rat_ray.settings import conf_dir
from rat_ray.stage import Runs, import_table
from rat_ray.store import Store, Table

PASSAGES = 21_015_324
SIZES = yaml.safe_load((conf_dir() / "resources" / "standard.yaml").read_text())
SHARD = {"bm25": SIZES["index"]["range_rows"], "dense": SIZES["encode"]["range_rows"]}
ONE_PROCESS = ("read", "import", "bm25 words", "ivfpq training")
QUESTIONS = 1_000
WARM = 2_000
CORES = 16
RETRIEVERS: dict[str, Any] = {
    "bm25": Bm25Settings(),
    "dense": DenseSettings(),
    "ivfpq": DenseSettings(index="ivfpq", dtype="float16"),  # as in conf/retriever/dense_ivfpq.yaml
}
# (what, retriever, table that it makes): each finds what it needs in the store.
STEPS = [
    ("read", "", ""),
    ("import", "", "passages"),
    ("bm25 tokens", "bm25", "tokens"),
    ("bm25 words", "bm25", "words"),
    ("bm25 index", "bm25", "index"),
    ("bm25 search", "bm25", "retrievals"),
    ("dense vectors", "dense", "vectors"),
    ("dense search", "dense", "retrievals"),
    ("ivfpq vectors", "ivfpq", "vectors"),
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
    """Do one step in this process; before that, once for WARM passages, so that libraries and models are loaded."""
    if step == "read":
        settings = FilesSettings(path=str(folder), corpora=["psgs_w100.tsv"], qrels_file="")
        return _timed(lambda: load(settings).num_passages * 0)
    store = Store(folder / "store")
    store.prepare()
    _made(step, WARM, store, alone=False)
    return _timed(lambda: _bytes(_made(step, size, store, alone=True)))


def _made(step: str, size: int, store: Store, alone: bool) -> Table:
    """What the step makes of a corpus. alone: whether all before it must be in the store."""
    _, retriever, table = next(one for one in STEPS if one[0] == step)
    passages = _passages(store, size)
    if step == "import":
        return passages
    graph, asked = Graph(), synthetic.questions(QUESTIONS, size)
    questions = import_table(store, "questions", f"q{size}", "", tables.QUESTIONS, lambda: iter([asked]))
    nodes = graph.give(passages), graph.give(questions)
    RetrievalStages(graph, RETRIEVERS, Whole(), lambda _: nodes[0], lambda _: nodes[1]).lists("synthetic", retriever)
    last = next(name for name, node in graph.nodes.items() if node.table == table)
    order = list(graph.nodes)
    graph.nodes = {name: graph.nodes[name] for name in order[: order.index(last) + 1]}
    walk = Walk(graph)
    walk.run(runs := Runs(store, Cluster(ClusterSettings(use="never")), quiet=True), lambda level, stages: True)
    failure = walk.why(last)
    if failure is not None:
        raise SystemExit(failure.message)
    made = sum(1 for record in runs.records if record.new_rows)
    if alone and made != 1:
        raise SystemExit(f"{step}: {made} stages were made, not one")
    return walk.tables[last]


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
        first = found[step, sizes[0]].memory / sizes[0]
        growth = f"{cost.memory / size / first:6.2f}" if first else "     -"
        line = f"{step:15} {size:9,} {cost.seconds:8.1f} {size / cost.seconds:10,.0f}"
        print(f"{line} {cost.memory / size:12,.0f} {cost.disk / size:12,.0f} {growth}", flush=True)
    print(f"\n{PASSAGES:,} passages, shards as in conf/resources/standard.yaml, workers of one core, {CORES} a node:")
    print(f"{'step':15} {'GiB a worker':>12} {'GiB on disk':>11}   hours on 1, 4, 16 nodes")
    for step, _, _ in STEPS:
        print(_extrapolated(step, sizes, found[step, sizes[0]], found[step, sizes[-1]]))


def _extrapolated(step: str, sizes: list[int], low: Cost, high: Cost) -> str:
    """Seconds and disk grow with the passages; memory by the slope between the two sizes, up to one shard."""
    most = sizes[-1]
    shard = SHARD["bm25" if step.startswith("bm25") else "dense"]
    whole = step in ONE_PROCESS
    slope = max(0.0, (high.memory - low.memory) / (most - sizes[0]))
    memory = high.memory + slope * ((PASSAGES if whole else shard) - most)
    hours = high.seconds / most * PASSAGES / 3600
    spread = [hours / (1 if whole else min(nodes * CORES, -(-PASSAGES // shard))) for nodes in (1, 4, 16)]
    text = ", ".join(f"{value:.2f}" for value in spread)
    if step.endswith("search"):
        text = f"{high.seconds / QUESTIONS / most * PASSAGES:.3f} core seconds a question"
    return f"{step:15} {memory / 2**30:12.2f} {high.disk / most * PASSAGES / 2**30:11.1f}   {text}"


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
