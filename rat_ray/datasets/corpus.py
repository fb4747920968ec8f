"""Passages from one or more JSONL files, checked in one pass and streamed in another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.datasets.fieldnames import FieldNames, FieldReader
from rat_ray.datasets.reading import Place, Reader, clean_id
from rat_ray.datasets.source import combine
from rat_ray.errors import InputError

BATCH_ROWS = 10_000


class Passage(NamedTuple):
    place: Place
    passage_id: str
    title: str | None
    text: str


class Corpus:
    """Several corpus files as one.

    `check` reads all of it once and must come first; `stream` reads it again, a batch at a time, and finds out
    whether a file has changed in between.
    """

    def __init__(self, paths: list[Path], names: FieldNames) -> None:
        self._paths = paths
        self._names = names
        self._digests: list[str] = []

    @property
    def digest(self) -> str:
        return combine(*self._digests)

    def check(self, notes: Counter[str]) -> set[str]:
        """All passage ids. Raises InputError for a broken row or an id that occurs twice.

        The ids are held in memory.
        """
        ids: set[str] = set()
        self._digests = []
        for path in self._paths:
            reader = Reader(path)
            fields = FieldReader(self._names)
            for passage in _passages(reader, fields):
                if passage.passage_id in ids:
                    raise InputError(
                        f"{passage.place}: the passage id {passage.passage_id!r} occurs a second time; ids must be "
                        'unique over all corpora (1 and "1" are the same id): remove one, or prefix the ids'
                    )
                ids.add(passage.passage_id)
                if not passage.text and not passage.title:
                    notes["passages without any text"] += 1
            self._digests.append(combine(reader.digest, fields.settled()))
        return ids

    def stream(self) -> Iterator[pa.Table]:
        """Batches of at most BATCH_ROWS passages, with the schema tables.PASSAGES."""
        batch: list[Passage] = []
        for path, expected in zip(self._paths, self._digests, strict=True):
            reader = Reader(path)
            fields = FieldReader(self._names)
            for passage in _passages(reader, fields):
                batch.append(passage)
                if len(batch) == BATCH_ROWS:
                    yield _table(batch)
                    batch = []
            if combine(reader.digest, fields.settled()) != expected:
                raise InputError(f"{path}: the file has changed since it was checked; run the command again")
        if batch:
            yield _table(batch)


def _passages(reader: Reader, fields: FieldReader) -> Iterator[Passage]:
    place, record = Place(reader.path, 0), dict[str, object]()
    for place, record in reader.records():
        passage_id = clean_id(fields.required(record, "passage_id", place), place, "the passage id")
        text = _text(fields.required(record, "text", place), place, passage_id, "text")
        title = _text(fields.optional(record, "title"), place, passage_id, "title")
        yield Passage(place, passage_id, title, text or "")
    fields.finish(place, record, ("title",))


def _text(value: object, place: Place, passage_id: str, what: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise InputError(f"{place}: passage {passage_id!r}: {what} must be a string or null, found {value!r:.80}")


def _table(batch: list[Passage]) -> pa.Table:
    return pa.table(
        {
            "passage_id": [passage.passage_id for passage in batch],
            "title": [passage.title for passage in batch],
            "text": [passage.text for passage in batch],
        },
        schema=tables.PASSAGES,
    )
