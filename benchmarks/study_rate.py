"""The fits of a whole allocation study over two Ray workers, from annotations in the store to the tables on disk.

    python benchmarks/study_rate.py                 # 81,000 fits; about five minutes, both cores must be idle
    python benchmarks/study_rate.py --replicates 10 # a tenth of it

27 configurations x 3 strategies x 10 budgets x 100 replicates on tables of 1,000 items (allocation=paper). Printed:
fits per second from the start of the stages to the summary that is written, and from the first part to the last; the
ratio to a bare loop over the same worker in this process (half of it before, half after); two workers against one;
what `stanli` takes for the same fits, extrapolated; and the memory of this process, Ray and its workers at its highest.
Bars: 81,000 fits in 300 s, two workers at least 1.8 times one, 3 GiB.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from rat_ray.allocate import AllocationSettings, StudySettings, StudyWorker, study_stage, summarise, tasks
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.errors import InputError, MissingExtraError
from rat_ray.model import EngineSettings, Prior
from rat_ray.model.engines import check
from rat_ray.settings import build, conf_dir
from rat_ray.stage import Runs, import_rows
from rat_ray.store import Store

CONFIGURATIONS = 27
ITEMS = 1000
RANGE_ROWS = 600
PRIOR, SEED = Prior(), 1


class Made(NamedTuple):
    """seconds: from the start of the stages to the tables on disk; steady: fits per second from first to last part."""

    seconds: float
    steady: float
    fits: int
    nuts: int


class Memory:
    """The highest sum of what all processes of this session hold, shared pages counted once; in GiB."""

    def __init__(self) -> None:
        self.most = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(2.0):
            self.most = max(self.most, sum(map(_held, _ours())) / 2**30)


def _ours() -> Iterator[Path]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if int(folder.name) == os.getpid() or (b"ray" in command and b"study_rate" not in command):
            yield folder


def _held(folder: Path) -> int:
    try:
        for line in (folder / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def labels_of(number: int) -> pa.Table:
    """One configuration: its own rates, all labels there."""
    rng = np.random.default_rng(number)
    rho, alpha, tau = rng.uniform(0.3, 0.8), rng.uniform(0.05, 0.6, 2), rng.uniform(0.2, 0.9, 2)
    r = (rng.random(ITEMS) < rho).astype(np.int8)
    a = (rng.random(ITEMS) < alpha[r]).astype(np.int8)
    t = (rng.random(ITEMS) < tau[r]).astype(np.int8)
    columns = {"r": pa.array(r), "a": pa.array(a), "t": pa.array(t, mask=a == 1)}
    return pa.table({"question_id": [f"q{row}" for row in range(ITEMS)], **columns})


def names(count: int) -> list[str]:
    return [f"config-{number:02d}" for number in range(count)]


def study(allocation: AllocationSettings, configs: list[str], workers: int, folder: Path) -> Made:
    """All stages of the study on Ray, then the summary, as `rat-ray allocate` writes them; Ray is up before."""
    store = Store(str(folder / "store"))
    store.prepare()
    with Cluster(ClusterSettings(use="always", cpus=workers)) as cluster:
        cluster.connect()
        runs = Runs(store, cluster, quiet=True)
        start = time.time()
        stages = []
        for number, config in enumerate(configs):
            annotations = import_rows(store, "annotations", config, labels_of(number))
            listed = import_rows(store, "tasks", config, tasks(allocation, config))
            settings = StudySettings.of(config, {}, allocation, PRIOR, SEED)
            stages.append(study_stage(listed, annotations, settings, Resources(range_rows=RANGE_ROWS)))
        made = runs.run(stages, "study")
        allocated = pa.concat_tables([table.read() for table in made])
        pq.write_table(allocated, folder / "allocation.parquet")
        pq.write_table(summarise(allocated), folder / "summary.parquet")
        seconds = time.time() - start
    written = sorted(part.stat().st_mtime for part in (folder / "store" / "allocation").rglob("part-*"))
    fits = sum(stage.num_rows for stage in stages)
    if allocated.num_rows != fits * len(allocation.quantities):
        raise SystemExit(f"{fits} fits left {allocated.num_rows} rows")
    skipped = 2 * workers
    steady = (len(written) - skipped) * RANGE_ROWS / (written[-1] - written[skipped - 1])
    first = allocated.filter(pc.equal(allocated.column("quantity"), allocation.quantities[0]))
    return Made(seconds, steady, fits, int(pc.sum(pc.equal(first.column("sampler"), "nuts")).as_py()))


def loop(allocation: AllocationSettings, config: str, number: int, fits: int) -> float:
    """Seconds per fit of the bare worker in this process."""
    settings = StudySettings.of(config, {}, allocation, PRIOR, SEED)
    worker = StudyWorker(settings, {"annotations": _Held(labels_of(number))})
    cells = len(allocation.strategies) * len(allocation.budgets)
    listed = tasks(allocation, config, range(-(-fits // cells))).slice(0, fits)
    worker({"tasks": listed.slice(0, 3)})
    start = time.perf_counter()
    worker({"tasks": listed})
    return (time.perf_counter() - start) / fits


class _Held:
    """A table that is there, as an input."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def read(self, columns: list[str] | None = None) -> pa.Table:
        return self._table if columns is None else self._table.select(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--replicates", type=int, default=100)
    parser.add_argument("--slow-fits", type=int, default=1000, help="fits by stanli, to extrapolate from")
    options = parser.parse_args()
    text = (conf_dir() / "allocation" / "paper.yaml").read_text()
    small = yaml.safe_load((conf_dir() / "allocation" / "small.yaml").read_text())
    own = {name: value for name, value in yaml.safe_load(text).items() if name != "defaults"}
    allocation = build(AllocationSettings, {**small, **own, "replicates": options.replicates}, "allocation")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    configs = names(CONFIGURATIONS)
    unchecked = replace(allocation, check_share=0.0)
    bare = [loop(unchecked, configs[0], 0, 300)]
    with tempfile.TemporaryDirectory() as scratch:
        with Memory() as memory:
            whole = study(allocation, configs, 2, _made(Path(scratch) / "whole"))
        fewer = replace(unchecked, replicates=max(allocation.replicates // 2, 2))
        two, one = (study(fewer, configs[:9], workers, _made(Path(scratch) / f"{workers}")) for workers in (2, 1))
    bare.append(loop(unchecked, configs[1], 1, 300))
    slow = {kind: loop(replace(unchecked, engine=kind), configs[0], 0, options.slow_fits) for kind in _by_nuts()}
    fits = CONFIGURATIONS * len(allocation.strategies) * len(allocation.budgets) * 100
    each = sum(bare) / len(bare)
    print(f"{whole.fits} fits in {whole.seconds:.0f} s, tables written: {whole.fits / whole.seconds:.0f} per second")
    print(f"81,000 of them: {whole.seconds * fits / whole.fits:.0f} s (bar: 300 s)")
    print(f"made by NUTS instead: {whole.nuts} of {whole.fits}")
    print(
        f"first to last part: {whole.steady:.0f} fits per second, {whole.steady * each / 2:.2f} of twice the bare loop"
    )
    print(f"bare loop: {1e3 * each:.2f} ms per fit (halves: {', '.join(f'{1e3 * one_:.2f}' for one_ in bare)})")
    print(f"two workers against one: {two.steady / one.steady:.2f} (bar: 1.8)")
    for kind, seconds in slow.items():
        minutes = seconds * fits / 2 / 60
        print(
            f"{kind}: {1e3 * seconds:.1f} ms per fit, {seconds / each:.0f} times as long; {fits} fits on two cores: "
            f"{minutes:.0f} minutes (extrapolated from {options.slow_fits})"
        )
    if "cmdstan" not in slow:
        print("cmdstan: not present here")
    print(f"memory at its highest: {memory.most:.2f} GiB (bar: 3)")


def _by_nuts() -> list[str]:
    """The engines that sample by NUTS and can run here."""
    try:
        check(EngineSettings(kind="cmdstan"))
    except (InputError, MissingExtraError):
        return ["stanli"]
    return ["stanli", "cmdstan"]


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    main()
