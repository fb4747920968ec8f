"""Passages from one or more files: checked in one pass that holds eight bytes for each, and streamed in another."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from rat_ray import tables
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place
from rat_ray.errors import InputError

BATCH_ROWS = 10_000
_COMPARED = 1 << 20


class Passage(NamedTuple):
    """One passage as read.

    page: the id of the page that it was cut from, "" where the format has passages only. first, last: the numbers of
    the first and last sentence that it holds of the page, -1 where they are not known.
    """

    place: Place
    passage_id: str
    title: str | None
    text: str
    page: str = ""
    first: int = -1
    last: int = -1


class PassageFile(Protocol):
    """One file of a corpus."""

    @property
    def path(self) -> Path: ...

    @property
    def format(self) -> str: ...

    def passages(self, problems: Problems) -> Iterator[Passage]:
        """Its passages in its order; a broken row goes to `problems.broken`."""
        ...


class Visitor(Protocol):
    """Who looks at every passage while the corpus is checked."""

    def look(self, passage: Passage) -> None: ...


class Corpus:
    """Several corpus files as one.

    `check` reads all of it once and must come first; `stream` reads it again, a batch at a time, and finds out
    whether a file has changed in between.
    """

    def __init__(self, files: Sequence[PassageFile], on_error: str = "stop") -> None:
        self.files = files
        self._on_error = on_error
        self._marks: list[str] = []

    @property
    def digest(self) -> str:
        """SHA-256 over all passages as read: id, title and text, whatever file or format they came in."""
        return self._marks[-1]

    def formats(self) -> set[str]:
        """The formats of the files."""
        return {file.format for file in self.files}

    def check(self, problems: Problems, visitor: Visitor) -> int:
        """How many passages there are, after each was checked and shown to the visitor.

        Raises InputError for a broken row (unless problems skips it), a file in which none is whole, and an id that
        occurs twice. Of a passage nothing is kept but a 64-bit hash of its id.
        """
        hashes = array("q")
        content = _Content()
        self._marks = []
        for file in self.files:
            before, skipped = len(hashes), problems.skipped
            for passage in file.passages(problems):
                hashes.append(hash(passage.passage_id))
                content.add(passage)
                visitor.look(passage)
                if not passage.text and not passage.title:
                    problems.notes["passages without any text"] += 1
            if len(hashes) == before and problems.skipped > skipped:
                raise InputError(f"{file.path}: no row could be read, e.g. {problems.last_error}")
            self._marks.append(content.mark())
        if not hashes:
            raise InputError(f"{self.files[0].path}: there is no passage in it")
        doubled = _doubled(hashes)
        count = len(hashes)
        if doubled:
            self._second_look(doubled, problems.again())
        return count

    def stream(self) -> Iterator[pa.Table]:
        """Batches of at most BATCH_ROWS passages, with the schema tables.PASSAGES."""
        batch: list[Passage] = []
        content = _Content()
        problems = Problems("", self._on_error)
        for file, expected in zip(self.files, self._marks, strict=True):
            for passage in file.passages(problems):
                content.add(passage)
                batch.append(passage)
                if len(batch) == BATCH_ROWS:
                    yield _table(batch)
                    batch = []
            if content.mark() != expected:
                raise InputError(f"{file.path}: the file has changed since it was checked; run the command again")
        if batch:
            yield _table(batch)

    def _second_look(self, doubled: set[int], problems: Problems) -> None:
        """Raises InputError if two passages with one hash have one id; different ids may share a hash by chance."""
        first: dict[str, Place] = {}
        for file in self.files:
            for passage in file.passages(problems):
                if hash(passage.passage_id) not in doubled:
                    continue
                before = first.get(passage.passage_id)
                if before is not None:  # perhaps the very same place: one page gives many passages
                    raise InputError(
                        f"{passage.place}: the passage id {passage.passage_id!r} occurs a second time (first in "
                        f'{before}); ids must be unique over all corpora (1 and "1" are the same id): remove one, or '
                        "prefix the ids"
                    )
                first[passage.passage_id] = passage.place


class _Content:
    """A running hash of passages. Lengths stand before the texts, so that no two sequences of passages read alike."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, passage: Passage) -> None:
        _, name, title, text, _, _, _ = passage
        known = "-" if title is None else len(title)
        self._sha.update(f"{len(name)} {known} {len(text)} {name}{title or ''}{text}".encode())

    def mark(self) -> str:
        return self._sha.hexdigest()


def _doubled(hashes: array[int]) -> set[int]:
    """The values that occur more than once. Sorts them in place, and compares a stretch at a time: no copy is made."""
    values = np.frombuffer(hashes, dtype=np.int64)
    values.sort()
    found: set[int] = set()
    for start in range(0, len(values) - 1, _COMPARED):
        stretch = values[start : start + _COMPARED + 1]
        found.update(stretch[1:][stretch[1:] == stretch[:-1]].tolist())
    return found


def _table(batch: list[Passage]) -> pa.Table:
    return pa.table(
        {
            "passage_id": [passage.passage_id for passage in batch],
            "title": [passage.title for passage in batch],
            "text": [passage.text for passage in batch],
        },
        schema=tables.PASSAGES,
    )
