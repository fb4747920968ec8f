"""How a retriever's index is made: one or more file stages, each over the passages or over an earlier one's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

PASSAGES = "passages"


class StepInput(Protocol):
    """What a step's or a retriever's worker needs of an earlier step's table (see `store.Input`)."""

    @property
    def num_rows(self) -> int:
        """How many passages it accounts for."""
        ...

    def folders(self) -> list[Path]:
        """Its shards as local folders, in the order of the passages. The whole of each is fetched."""
        ...


class Step(NamedTuple):
    """One file stage.

    name: of its table in the store. worker: `worker(settings, inputs)(rows, folder)` writes files into the folder and
    answers how many passages they account for. key: what of the settings decides the files.
    over: "passages", whose ranges come as Arrow tables, or an earlier step, whose folders come as list[Path]: one per
    unit, so that this step's shards are that one's, or, where it is `whole`, all of them in one unit.
    only: the files of those folders that it reads; (): all. inputs: earlier steps whose tables the worker gets whole.
    encode: whether it takes resources.encode, for a GPU.
    """

    name: str
    worker: type[Any]
    key: Mapping[str, Any]
    over: str = PASSAGES
    inputs: tuple[str, ...] = ()
    whole: bool = False
    only: tuple[str, ...] = ()
    encode: bool = False
    version: int = 1
