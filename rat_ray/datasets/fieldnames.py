"""Which fields of a file hold what: names that people use, settable, with a 'did you mean' when none is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from rat_ray.datasets.reading import Place, RowError
from rat_ray.errors import InputError, did_you_mean

ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "passage_id": ("passage_id", "pid", "_id", "id", "doc_id", "docid", "corpus_id", "corpus-id"),
    "title": ("title",),
    "text": ("text", "passage", "contents", "content"),
    "question_id": ("question_id", "qid", "_id", "id", "query_id", "query-id"),
    "question": ("question", "query", "claim", "text"),
    "answers": ("answers", "answer", "gold_answers"),
    "label": ("label",),
    "evidence": ("evidence",),
    "shape": ("shape",),
}
NONE: Final = "-"


@dataclass(frozen=True)
class FieldNames:
    """Field names in the files. "": found by itself (ALIASES); "-": do not read it, even if it is there."""

    passage_id: str = ""
    title: str = ""
    text: str = ""
    question_id: str = ""
    question: str = ""
    answers: str = ""
    label: str = ""
    evidence: str = ""
    shape: str = ""

    def validate(self) -> None:
        for name in ("passage_id", "text", "question_id", "question"):
            if getattr(self, name) == NONE:
                raise InputError(f"fields.{name}={NONE}: this field cannot be left out")

    def names(self, field: str) -> tuple[str, ...]:
        """The names to look for, in order."""
        chosen: str = getattr(self, field)
        if chosen == NONE:
            return ()
        return (chosen,) if chosen else ALIASES[field]


assert {field.name for field in fields(FieldNames)} == set(ALIASES)


class FieldReader:
    """Reads fields of one file. The first row that has one of a field's names settles which is read from then on.

    Only a row that could be read settles anything: end each with `accept` or `reject`.
    """

    def __init__(self, names: FieldNames) -> None:
        self._names = names
        self._settled: dict[str, str] = {}
        self._new: list[str] = []

    def accept(self) -> None:
        """The row was read."""
        self._new.clear()

    def reject(self) -> None:
        """The row is broken: the names that it alone had settled are open again."""
        while self._new:
            del self._settled[self._new.pop()]

    def required(self, record: Mapping[str, object], field: str, place: Place) -> object:
        """The value. Raises RowError when the row has no such field."""
        name = self._find(record, field)
        if name is None or name not in record:
            raise RowError(place, self._missing(record, field))
        return record[name]

    def has(self, record: Mapping[str, object], field: str) -> bool:
        """Whether this row has the field (it may be null)."""
        return self._find(record, field) in record

    def optional(self, record: Mapping[str, object], field: str) -> object:
        """The value, or None when the row has no such field."""
        name = self._find(record, field)
        return None if name is None else record.get(name)

    def finish(self, place: Place, record: Mapping[str, object], optional: tuple[str, ...]) -> None:
        """After the last row: a field that was named in the settings and was in no row is a misspelling."""
        for field in optional:
            chosen: str = getattr(self._names, field)
            if chosen in ("", NONE) or field in self._settled:
                continue
            raise InputError(
                f"{place.path}: no row has the field {chosen!r}{did_you_mean(chosen, record)}; set fields.{field}"
            )

    def _find(self, record: Mapping[str, object], field: str) -> str | None:
        if field in self._settled:
            return self._settled[field]
        for name in self._names.names(field):
            if name in record:
                self._settled[field] = name
                self._new.append(field)
                return name
        return None

    def _missing(self, record: Mapping[str, object], field: str) -> str:
        names = self._names.names(field)
        wanted = self._settled.get(field) or names[0]
        also = f" (nor any of {', '.join(names[1:])})" if len(names) > 1 and field not in self._settled else ""
        return f"no field {wanted!r}{also}{did_you_mean(wanted, record)}; set fields.{field} to its name"
