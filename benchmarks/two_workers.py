"""A CPU-bound stage with two workers against the same stage with one.

    python benchmarks/two_workers.py        # both cores must be idle

Each range hashes for about a second and a half; the time includes the start of the workers' processes. Bar: 1.7.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.stage import Runs, Stage, import_rows
from rat_ray.store import Store, Table

RANGES = 12
SECONDS = 1.5


class Hashing:
    """Contexts in, contexts out, after hashing `rounds` times on one core."""

    def __init__(self, settings: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
        self._rounds = int(settings["rounds"])

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        block = b"x" * 1000
        for _ in range(self._rounds):
            block = hashlib.sha256(block).digest() * 31
        return rows["contexts"]


def rounds_for(seconds: float) -> int:
    began = time.perf_counter()
    Hashing({"rounds": 200_000}, {})({"contexts": None})
    return int(200_000 * seconds / (time.perf_counter() - began))


def stage(source: Table, rounds: int, workers: int, name: str) -> Stage:
    return Stage(
        table="contexts",
        label=name,
        settings={"rounds": rounds, "name": name},
        worker=Hashing,
        over={"contexts": source},
        schema=tables.CONTEXTS,
        resources=Resources(range_rows=1, workers=workers),
    )


def main() -> None:
    rows = pa.Table.from_pylist([{"question_id": f"q{i}"} for i in range(RANGES)], schema=tables.CONTEXTS)
    with tempfile.TemporaryDirectory() as scratch, Cluster(ClusterSettings(use="always", cpus=2)) as cluster:
        store = Store(Path(scratch) / "store")
        store.prepare()
        source = import_rows(store, "contexts", "contexts", rows)
        runs = Runs(store, cluster, quiet=True)
        rounds = rounds_for(SECONDS)
        seconds: dict[int, float] = {}
        for workers in (1, 2, 1, 2):
            began = time.perf_counter()
            runs.run([stage(source, rounds, workers, f"{workers} {time.time()}")], "hash")
            seconds[workers] = min(seconds.get(workers, 1e9), time.perf_counter() - began)
        print(f"{RANGES} ranges of about {SECONDS:g} s: one worker {seconds[1]:.1f} s, two {seconds[2]:.1f} s")
        print(f"ratio: {seconds[1] / seconds[2]:.2f} (bar: 1.7)")


if __name__ == "__main__":
    main()
