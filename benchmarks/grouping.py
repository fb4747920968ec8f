"""Grouping 10,000,000 annotation rows into patterns, against the time that pyarrow takes to read their columns.

    python benchmarks/grouping.py

Writes a Parquet file of annotations (r, a, t, two judges; also question_id, error, stratum, use), and measures each
case in a process of its own. Bars for r, a, t and the judges: reading and grouping take at most 3 times as long as the
reading alone, with less than 2 GiB of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rat_ray.model import patterns

JUDGES = ["r@local", "t@match"]
LABELS = ["r", "a", "t", *JUDGES]
CASES = {
    "labels and judges": LABELS,
    "and error": [*LABELS, "error"],
    "and a stratum of 5": [*LABELS, "stratum"],
    "and use": [*LABELS, "use"],
    "and all three": [*LABELS, "error", "stratum", "use"],
}
WITH_BAR = "labels and judges"
CHUNK = 1_000_000


def chunk(rng: np.random.Generator, first: int, rows: int) -> pa.Table:
    """Labels of r and t are missing on most rows, verdicts on a tenth."""
    r = rng.random(rows) < 0.6
    a = rng.random(rows) < np.where(r, 0.15, 0.55)
    t = rng.random(rows) < np.where(r, 0.8, 0.25)
    said_r = rng.random(rows) < np.where(r, 0.85, 0.15)
    said_t = rng.random(rows) < np.where(t, 0.9, 0.2)
    unlabelled = rng.random(rows) < 0.8
    return pa.table(
        {
            "config": pa.repeat("demo/bm25/small", rows),
            "question_id": pa.array([f"question-{i}" for i in range(first, first + rows)]),
            "r": _column(r, unlabelled),
            "a": _column(a, np.zeros(rows, dtype=bool)),
            "t": _column(t, unlabelled | a),
            "stratum": pa.array(["easy", "hard", "long", "short", "other"]).take(pa.array(rng.integers(0, 5, rows))),
            "use": pa.array(["fit", "calibration"]).take(pa.array((rng.random(rows) < 0.05).astype(np.int8))),
            "error": pa.array(["the server did not answer"]).take(
                pa.array(np.zeros(rows, dtype=np.int8), mask=rng.random(rows) < 0.995)
            ),
            "r@local": _column(said_r, rng.random(rows) < 0.1),
            "t@match": _column(said_t, a | (rng.random(rows) < 0.1)),
        }
    )


def _column(values: np.ndarray, missing: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int8), mask=missing)


def write(path: Path, rows: int) -> None:
    rng = np.random.default_rng(7)
    with pq.ParquetWriter(path, chunk(rng, 0, 10).schema) as writer:
        for first in range(0, rows, CHUNK):
            writer.write_table(chunk(rng, first, min(CHUNK, rows - first)))


def measure(path: Path, columns: list[str], repeats: int) -> dict[str, Any]:
    """Seconds to read the columns, and to group what was read; in turns."""
    read: list[float] = []
    group: list[float] = []
    counts = pa.table({})
    for _ in range(repeats + 1):
        start = time.perf_counter()
        table = pq.read_table(path, columns=columns)
        middle = time.perf_counter()
        counts = patterns(table, JUDGES)
        read.append(middle - start)
        group.append(time.perf_counter() - middle)
        del table
    total = sum(counts.column("n").to_pylist())
    return {"read": read[1:], "group": group[1:], "patterns": counts.num_rows, "rows": total, "peak": _peak_bytes()}


def _peak_bytes() -> int:
    """Of this process since it began; `ru_maxrss` would count the process that started it, too."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--measure", nargs=2, metavar=("FILE", "CASE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        path, case = options.measure
        print(json.dumps(measure(Path(path), CASES[case], options.repeats)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "annotations.parquet"
        write(path, options.rows)
        print(f"{options.rows:,} rows, {path.stat().st_size >> 20} MiB; load average {os.getloadavg()[0]:.1f}")
        for case in CASES:
            report(case, path, options.repeats, options.rows)


def report(case: str, path: Path, repeats: int, rows: int) -> None:
    command = [sys.executable, __file__, "--repeats", str(repeats), "--measure", str(path), case]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    if found["rows"] != rows:
        raise SystemExit(f"{case}: {found['rows']} rows were counted")
    read, group = (statistics.median(found[part]) for part in ("read", "group"))
    bars = ("bar: 3", "bar: 2 GiB") if case == WITH_BAR else ("no bar", "no bar")
    print(
        f"{case:<20} {found['patterns']:>4} patterns: reading {read:.3f} s, grouping {group:.3f} s; both / reading "
        f"{(read + group) / read:.2f} ({bars[0]}); peak {found['peak'] / 2**30:.2f} GiB ({bars[1]})"
    )


if __name__ == "__main__":
    main()
