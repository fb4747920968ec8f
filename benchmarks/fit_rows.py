"""Does a fit's time depend on the number of rows? The fit on 1,000,000 rows against the fit on 1,000, in one run.

    python benchmarks/fit_rows.py

Writes label files with missing labels and one judge to a temporary folder, reads and fits each several times, and
prints the ratio of the median sampling times (bar: at most 1.3). Reading and counting are printed beside it.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from rat_ray.model import Columns, fit, patterns, read_labels

REPEATS = 7
SIZES = (1_000, 1_000_000)


def write(path: Path, rows: int) -> None:
    """A file of labels: 40 % of r and t missing, one judge of T on every answered item."""
    rng = np.random.default_rng(5)
    r = rng.random(rows) < 0.6
    a = rng.random(rows) < np.where(r, 0.15, 0.55)
    t = rng.random(rows) < np.where(r, 0.8, 0.25)
    judge = rng.random(rows) < np.where(t, 0.9, 0.2)
    table = pa.table(
        {
            "question_id": pa.array(np.arange(rows)),
            "r": pa.array(r.astype(np.int8), mask=rng.random(rows) < 0.4),
            "a": pa.array(a.astype(np.int8)),
            "t": pa.array(t.astype(np.int8), mask=a | (rng.random(rows) < 0.4)),
            "t@judge": pa.array(judge.astype(np.int8), mask=a),
        }
    )
    pyarrow.csv.write_csv(table, path)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = {rows: Path(folder) / f"labels-{rows}.csv" for rows in SIZES}
        for rows, path in paths.items():
            write(path, rows)
        counted: dict[int, pa.Table] = {}
        sampling: dict[int, list[float]] = {rows: [] for rows in SIZES}
        for rows, path in paths.items():
            began = time.perf_counter()
            labels = read_labels(path, Columns(), [], "refuse")
            read = time.perf_counter()
            counts = patterns(labels.table, labels.judges)
            print(
                f"{rows:>9,} rows: read and checked in {read - began:.2f} s, "
                f"{counts.num_rows} patterns counted in {time.perf_counter() - read:.3f} s"
            )
            counted[rows] = counts
        for repeat in range(REPEATS):  # in turns, so that a busy machine slows both alike
            for rows, counts in counted.items():
                sampling[rows].append(fit(counts, seed=repeat).seconds)
    small, large = (statistics.median(sampling[rows]) for rows in SIZES)
    print(f"sampling, median of {REPEATS}: {small:.3f} s and {large:.3f} s; ratio {large / small:.2f} (bar: 1.3)")


if __name__ == "__main__":
    main()
