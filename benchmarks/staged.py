"""A worker's stage over questions in a store, to be run again and again: what a stage adds to its worker."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from rat_ray import tables
from rat_ray.cluster import Cluster, ClusterSettings, Resources
from rat_ray.stage import Runs, Stage, import_table
from rat_ray.store import Store


@contextmanager
def staged(worker: Any, settings: Any, questions: pa.Table, range_rows: int) -> Iterator[Callable[[], None]]:
    """Gives a function that makes the lists anew, from Parquet to Parquet in a store, in this process.

    The worker is at hand: that it is opened once per process is not measured.
    """
    with tempfile.TemporaryDirectory() as scratch, Cluster(ClusterSettings(use="never")) as cluster:
        store = Store(Path(scratch) / "store")
        store.prepare()
        source = import_table(store, "questions", "k", "questions", tables.QUESTIONS, lambda: iter([questions]))
        runs, number = Runs(store, cluster, quiet=True), iter(range(1_000))

        def run() -> None:
            stage = Stage(
                table="retrievals",
                label="retrieve",
                settings=settings,
                key_settings={"round": next(number)},
                worker=lambda settings, inputs: worker,
                over={"questions": source},
                schema=tables.RETRIEVALS,
                resources=Resources(range_rows=range_rows),
            )
            [found] = runs.run([stage], "retrieve")
            assert found.num_rows == questions.num_rows

        yield run
