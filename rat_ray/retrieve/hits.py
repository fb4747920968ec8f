"""Ranked lists of passages: the one order, the table they go into, and what an index folder holds beside its files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rat_ray import tables
from rat_ray.errors import InputError, StageError

IDS_FILE = "ids.arrow"
META_FILE = "meta.json"


class Folders(Protocol):
    """What a retriever needs of a stage's Input: the index's folders, one per range of passages, in range order."""

    def folders(self) -> list[Path]: ...


class Hits(NamedTuple):
    """Passages for one question, best first; equal scores in the order of their ids."""

    passage_ids: list[str]
    scores: list[float]


def rank(passage_ids: Sequence[str], scores: Sequence[float], depth: int) -> Hits:
    """The `depth` best, by score downwards and then by passage id, so that equal scores have one order everywhere."""
    order = sorted(range(len(scores)), key=lambda index: (-scores[index], passage_ids[index]))[:depth]
    return Hits([passage_ids[index] for index in order], [float(scores[index]) for index in order])


def candidates(scores: npt.NDArray[np.float32], floor: float, depth: int) -> npt.NDArray[np.int64]:
    """Positions of scores above `floor` that can be among the `depth` best: all that tie with the last are included."""
    if depth < len(scores):
        threshold = np.partition(scores, -depth)[-depth]
        return np.flatnonzero((scores >= threshold) & (scores > floor))
    return np.flatnonzero(scores > floor)


def retrievals_table(
    question_ids: pa.ChunkedArray, hits: Iterable[Hits | None], errors: Sequence[str | None]
) -> pa.Table:
    """One row per question with the schema tables.RETRIEVALS; None stands for a row that failed."""
    rows = list(hits)
    return pa.table(
        {
            "question_id": question_ids,
            "passage_ids": [None if row is None else row.passage_ids for row in rows],
            "scores": [None if row is None else row.scores for row in rows],
            "error": list(errors),
        },
        schema=tables.RETRIEVALS,
    )


def passage_texts(passages: pa.Table, title: bool) -> list[str]:
    """What is indexed of each passage: title and text with a space between, or the text alone."""
    texts: list[str] = passages.column("text").to_pylist()
    if not title:
        return texts
    titles = passages.column("title").to_pylist()
    return [f"{head} {text}" if head else text for head, text in zip(titles, texts, strict=True)]


def write_ids(folder: Path, passage_ids: pa.ChunkedArray) -> None:
    """The ids of the passages in the index, row i for position i."""
    ids = pa.table({"passage_id": passage_ids.cast(pa.string())}).combine_chunks()
    with pa.OSFile(str(folder / IDS_FILE), "wb") as file, pa.ipc.new_file(file, ids.schema) as writer:
        writer.write_table(ids)


def read_ids(folder: Path) -> pa.Array:
    """The ids that `write_ids` wrote: pages of the file, which all processes of a machine share."""
    try:
        with pa.memory_map(str(folder / IDS_FILE)) as file:
            chunks = pa.ipc.open_file(file).read_all().column("passage_id").chunks
    except (pa.ArrowInvalid, KeyError) as error:
        raise damaged_file(folder / IDS_FILE, error) from error
    if len(chunks) == 1:
        return chunks[0]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())


def map_array(path: Path) -> npt.NDArray[Any]:
    """An array of a `.npy` file, memory-mapped and not to be written. Raises StageError for a file that is none."""
    try:
        mapped: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
        return mapped
    except (ValueError, EOFError) as error:
        raise damaged_file(path, error) from error


def damaged_file(path: Path, error: Exception) -> StageError:
    """What to raise for a file of an index that is not what was written."""
    why = (str(error).strip() or type(error).__name__).splitlines()[0]
    return StageError(f"{path} is damaged ({why}); delete {path.parent.parent} and run the same command again")


def write_meta(folder: Path, settings: Mapping[str, Any], **counts: Any) -> None:
    """The settings that the index was built with, and counts for people who look into the folder."""
    text = json.dumps({"settings": dict(settings), **counts}, indent=1, sort_keys=True)
    (folder / META_FILE).write_text(text + "\n")


def check_meta(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Reads what `write_meta` wrote. Raises StageError when the index was built with other settings."""
    path = folder / META_FILE
    if not path.is_file():
        raise StageError(f"{folder}: no {META_FILE}; this is not an index of ours, or it is not complete")
    try:
        meta: dict[str, Any] = json.loads(path.read_bytes())
        built = dict(meta["settings"])
    except (ValueError, TypeError, KeyError) as error:
        raise damaged_file(path, error) from error
    if built != dict(settings):
        differ = sorted(key for key in {*built, *settings} if built.get(key) != settings.get(key))
        raise StageError(f"{folder}: the index was built with other settings: {', '.join(differ)} differ")
    return meta


def check_at_least(key: str, value: float, smallest: float, largest: float = float("inf")) -> None:
    """Raises InputError for a number that is too small, too large, or none."""
    if not smallest <= value < float("inf"):
        raise InputError(f"{key}={value}: must be at least {smallest:g}")
    if value > largest:
        raise InputError(f"{key}={value}: must be at most {largest}")
