"""A stage that does nothing, over a million rows, against Ray Data's own read, map_batches and write on the same rows.

    python benchmarks/stage_rate.py [ROWS]

Prints rows per second of both, their ratio (the bar is 0.8) and the driver's peak memory (the bar is 1 GiB).
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.stage import Runs, Stage, import_table
from rat_ray.store import Store, Table

RANGE = 62_500
ROUNDS = 3


class Nothing:
    """Questions in, the same questions out."""

    def __init__(self, settings: Any, inputs: Mapping[str, Any]) -> None:
        pass

    def __call__(self, rows: Mapping[str, pa.Table]) -> pa.Table:
        return rows["questions"]


def batches(rows: int) -> Iterator[pa.Table]:
    for start in range(0, rows, RANGE):
        count = min(RANGE, rows - start)
        ids = [f"q{start + i:09d}" for i in range(count)]
        yield pa.table(
            {
                "question_id": ids,
                "question": [f"what is said of {one} in the third passage of the page?" for one in ids],
                "answers": [[one] for one in ids],
                "evidence": [[[one, "p"]] for one in ids],
                "shape": ["open"] * count,
            },
            schema=tables.QUESTIONS,
        )


def ours(runs: Runs, source: Table, number: int) -> float:
    began = time.perf_counter()
    stage = Stage(
        table="copies",
        label="nothing",
        settings={"round": number},
        worker=Nothing,
        over={"questions": source},
        schema=tables.QUESTIONS,
        resources=Resources(range_rows=RANGE),
    )
    [made] = runs.run([stage], "nothing")
    assert made.num_rows == source.num_rows
    return time.perf_counter() - began


def theirs(folder: Path, out: Path) -> float:
    import ray

    began = time.perf_counter()
    read = ray.data.read_parquet([str(path) for path in sorted(folder.glob("part-*.parquet"))])
    read.map_batches(lambda batch: batch, batch_format="pyarrow", batch_size=RANGE).write_parquet(
        str(out), compression="zstd"
    )
    seconds = time.perf_counter() - began
    assert sum(pq.read_metadata(path).num_rows for path in out.glob("*.parquet"))
    return seconds


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as scratch, Cluster(ClusterSettings(use="always")) as cluster:
        store = Store(Path(scratch) / "store")
        store.prepare()
        source = import_table(store, "questions", "k", "questions", tables.QUESTIONS, lambda: batches(rows))
        runs = Runs(store, cluster, quiet=True)
        cluster.connect()
        import ray

        ray.data.DataContext.get_current().enable_progress_bars = False
        folder = Path(store.where("questions", "k"))
        ours(runs, source, 0)  # both once without being counted: workers start, modules are imported
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        theirs(folder, Path(scratch) / "out0")
        mine, bare = [], []
        for number in range(1, ROUNDS + 1):
            mine.append(ours(runs, source, number))
            bare.append(theirs(folder, Path(scratch) / f"out{number}"))
        print(f"rows: {rows:,}, ranges of {RANGE:,}, {ROUNDS} rounds, medians")
        ours_s, theirs_s = sorted(mine)[ROUNDS // 2], sorted(bare)[ROUNDS // 2]
        print(f"stage:    {rows / ours_s:,.0f} rows/s ({ours_s:.2f} s)")
        print(f"ray.data: {rows / theirs_s:,.0f} rows/s ({theirs_s:.2f} s)")
        print(f"ratio of rates: {theirs_s / ours_s:.2f} (bar: 0.8)")
        print(f"driver, peak while the stage ran: {peak:.2f} GiB (bar: 1)")


if __name__ == "__main__":
    main()
