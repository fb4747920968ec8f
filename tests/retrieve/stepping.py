"""Runs the steps of an index over shards in a plain loop, as the stages do, for tests of retrievers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from rat_ray.retrieve.steps import PASSAGES, Step


class FolderInput:
    """The folders of a file stage, as `store.Input` gives them to a worker."""

    def __init__(self, folders: Sequence[Path], num_rows: int) -> None:
        self._folders = list(folders)
        self.num_rows = num_rows

    def folders(self) -> list[Path]:
        return self._folders


def run_steps(settings: Any, folder: Path, *shards: pa.Table) -> dict[str, FolderInput]:
    """Every step's table: one folder per shard (`whole` steps: one), each checked to account for all its passages."""
    settings.validate()
    made: dict[str, FolderInput] = {}
    for step in settings.steps():
        made[step.name] = _run_step(settings, step, folder / step.name, made, shards)
    return made


def build(settings: Any, retrieve: type[Any], folder: Path, *shards: pa.Table) -> Any:
    """The retrieval worker over the index of these shards."""
    made = run_steps(settings, folder, *shards)
    names = ("index", *settings.search_inputs())
    index = {"index": made[settings.steps()[-1].name]}
    return retrieve(settings, {**{name: made[name] for name in names if name in made}, **index})


def _run_step(
    settings: Any, step: Step, folder: Path, made: dict[str, FolderInput], shards: Sequence[pa.Table]
) -> FolderInput:
    worker = step.worker(settings, {name: made[name] for name in step.inputs})
    folders = []
    units = _units(step, made, shards)
    for number, (rows, size) in enumerate(units):
        folders.append(folder / f"part-{number:03d}")
        folders[-1].mkdir(parents=True)
        assert worker(rows, folders[-1]) == size, f"{step.name} must account for all its passages"
    return FolderInput(folders, sum(size for _, size in units))


def _units(step: Step, made: dict[str, FolderInput], shards: Sequence[pa.Table]) -> list[tuple[dict[str, Any], int]]:
    """What each call of the step's worker gets, and how many passages that is."""
    sizes = [shard.num_rows for shard in shards]
    if step.over == PASSAGES:
        return [({PASSAGES: shard}, size) for shard, size in zip(shards, sizes, strict=True)]
    folders = made[step.over].folders()
    if step.whole:
        return [({step.over: folders}, sum(sizes))]
    return [({step.over: [path]}, size) for path, size in zip(folders, sizes, strict=True)]
