"""200 fits over two Ray workers, against one process that makes the same fits in a loop.

    python benchmarks/fits_on_ray.py        # a few minutes; both cores must be idle

The fits are the posterior stages of `rat-ray fit by=…`: count tables from the store, draws to the store. The loop calls
the same worker on the same count tables and keeps nothing. `parallel_chains` is 1 in both. Bar: two workers make at
least 0.85 times twice the fits per second of the loop, once they are up; with their start included it is printed, too.
Half of the loop runs before and half after, so that a drifting machine shows.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.fit_stages import FitResources, fit_settings, fit_tables
from rat_ray.model import DiagnosticsSettings, EngineSettings, Policy, Prior, merge, patterns
from rat_ray.model.workers import PosteriorSettings, PosteriorWorker
from rat_ray.stage import Runs, Stage, import_rows
from rat_ray.store import Store, Table

WORKERS = 2
JUDGES = ["r@x", "t@y"]
ROWS = 600


@dataclass(frozen=True)
class Job:
    """What every fit needs; see `rat_ray.fitting.FitJob`."""

    prior: Prior = Prior()
    engine: EngineSettings = EngineSettings(parallel_chains=1)
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    policy: Policy = field(default_factory=Policy)
    judge_model: str = "panel"
    share_judges: bool = False
    seed: int = 1


class Times(NamedTuple):
    """In seconds since 1970. stages: when each kind began and ended; fitted: when each fit's draws were written."""

    stages: dict[str, tuple[float, float]]
    fitted: list[float]


class TimedRuns(Runs):
    """Notes when each kind of stage began and ended."""

    def __init__(self, store: Store, cluster: Cluster) -> None:
        super().__init__(store, cluster, quiet=True)
        self.times: dict[str, tuple[float, float]] = {}

    def run(self, stages: Sequence[Stage], title: str, small: bool = False) -> list[Table]:
        start = time.time()
        made = super().run(stages, title, small)
        self.times[title] = (start, time.time())
        return made


def labels_of(number: int) -> pa.Table:
    """One configuration's labels: its own rates, R and T labelled on a third, a judge of each."""
    rng = np.random.default_rng(number)
    rho, alpha, tau = rng.uniform(0.3, 0.8), rng.uniform(0.1, 0.6, 2), rng.uniform(0.2, 0.9, 2)
    r = rng.random(ROWS) < rho
    a = rng.random(ROWS) < alpha[r.astype(int)]
    t = rng.random(ROWS) < tau[r.astype(int)]
    unlabelled = rng.random(ROWS) < 2 / 3
    said_r = rng.random(ROWS) < np.where(r, 0.85, 0.15)
    said_t = rng.random(ROWS) < np.where(t, 0.9, 0.2)
    columns = {
        "r": (r, unlabelled),
        "a": (a, None),
        "t": (t, unlabelled | a),
        "r@x": (said_r, None),
        "t@y": (said_t, a),
    }
    table = {name: pa.array(values.astype(np.int8), mask=missing) for name, (values, missing) in columns.items()}
    return pa.table({"question_id": pa.array([str(i) for i in range(ROWS)]), **table})


def loop(tables: Mapping[str, pa.Table], job: Job) -> float:
    """Seconds that this process needs for these fits."""
    counted = {name: patterns(table, JUDGES) for name, table in tables.items()}
    start = time.perf_counter()
    for name, counts in counted.items():
        PosteriorWorker(_settings(name, job), {})({"patterns": merge([counts])})
    return time.perf_counter() - start


def _settings(name: str, job: Job) -> PosteriorSettings:
    return fit_settings(name, JUDGES, job).posterior


def on_ray(tables: Mapping[str, pa.Table], job: Job, root: Path) -> Times:
    """`rat-ray fit` on these tables; Ray is up before."""
    store = Store(str(root))
    store.prepare()
    imported = {name: import_rows(store, "labels", name, table) for name, table in tables.items()}
    began = time.time()
    with Cluster(ClusterSettings(use="always", cpus=WORKERS)) as cluster:
        cluster.connect()
        print(f"Ray started in {time.time() - began:.1f} s (counted nowhere)")
        runs = TimedRuns(store, cluster)
        resources = FitResources(fit=Resources(num_cpus=1, workers=WORKERS))
        judges = dict.fromkeys(tables, JUDGES)
        fit_tables(runs, imported, judges, job, resources, count_here=False, fit_here=False)
    # Files, not receipts: a receipt may reach the driver long after its fit was done.
    fitted = sorted(part.stat().st_mtime for part in (root / "posterior").rglob("part-*"))
    if len(fitted) != len(tables):
        raise SystemExit(f"{len(tables)} fits left {len(fitted)} tables of draws")
    return Times(runs.times, fitted)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fits", type=int, default=200)
    options = parser.parse_args()
    job = Job()
    tables = {f"config-{number:03d}": labels_of(number) for number in range(options.fits)}
    names = list(tables)
    half = len(names) // 2
    loop({names[0]: tables[names[0]]}, job)  # warm
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    before = loop({name: tables[name] for name in names[:half]}, job)
    with tempfile.TemporaryDirectory() as folder:
        times = on_ray(tables, job, Path(folder) / "store")
    after = loop({name: tables[name] for name in names[half:]}, job)
    rate = len(names) / (before + after)
    print(f"one process: {rate:.2f} fits per second (halves: {half / before:.2f}, {(len(names) - half) / after:.2f})")
    start, end = times.stages["fit"]
    # The first fit of a worker holds what it imports and compiles; the second may have begun before the other was up.
    skipped = 2 * WORKERS
    steady = (len(names) - skipped) / (end - times.fitted[skipped - 1])
    whole = len(names) / (end - start)
    print(
        f"{WORKERS} workers: {steady:.2f} fits per second; {times.fitted[WORKERS - 1] - start:.1f} s to the first two"
    )
    print(f"ratio to {WORKERS} times the loop: {steady / (WORKERS * rate):.2f} (bar: 0.85)")
    print(f"with the workers' start: {whole:.2f} fits per second, ratio {whole / (WORKERS * rate):.2f} (no bar)")
    kinds = ", ".join(f"{title} {stop - first:.1f} s" for title, (first, stop) in times.stages.items())
    print(f"all stages on Ray, workers' start in each: {kinds}")


if __name__ == "__main__":
    main()
