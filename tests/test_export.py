"""The `out` folder: a rerun never leaves rows of an earlier one among its own."""

from __future__ import annotations

from pathlib import Path

from rat_ray import tables
from rat_ray.export import read_partitions, write_partition
from rat_ray.output import OutFolder
from rat_ray.stage import import_table
from rat_ray.store import Store, Table
from tests.test_stage import questions


def stored(store: Store, key: str, pieces: list[int]) -> Table:
    whole = questions(sum(pieces))
    starts = [sum(pieces[:index]) for index in range(len(pieces))]
    batches = [whole.slice(start, size) for start, size in zip(starts, pieces, strict=True)]
    return import_table(store, "questions", key, "q", tables.QUESTIONS, lambda: iter(batches))


def test_parts_of_an_earlier_run_do_not_stay_beside_the_new_ones(tmp_path: Path) -> None:
    store, out = Store(tmp_path / "store"), OutFolder(tmp_path / "out", {}, kind="evaluate")
    for key, pieces in [("many", [4, 4, 2]), ("one", [10])]:
        write_partition(out, "annotations", "c", stored(store, key, pieces))
        [table] = read_partitions(tmp_path / "out" / "annotations").values()
        assert table.column("question_id").to_pylist() == questions(10).column("question_id").to_pylist()
