"""How a retriever's index is made: one or more file stages, each over the passages or over an earlier one's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

PASSAGES = "passages"


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
