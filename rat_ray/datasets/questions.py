"""Questions from a JSONL file: text, accepted answers, evidence and shape, each checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.datasets.fieldnames import FieldNames, FieldReader
from rat_ray.datasets.reading import Place, Reader, clean_id
from rat_ray.datasets.source import combine
from rat_ray.errors import InputError, did_you_mean

SHAPES: Final = ("claim", "two_hop", "open")


class Question(NamedTuple):
    """One question. nested: whether its evidence stands in its own row, and so goes before the qrels."""

    place: Place
    question_id: str
    question: str
    answers: list[str] | None
    evidence: list[list[str]] | None
    nested: bool
    shape: str | None


class Questions(NamedTuple):
    rows: list[Question]
    digest: str


def read_questions(path: Path, names: FieldNames, shape: str, passages: set[str], notes: Counter[str]) -> Questions:
    """All questions of the file, in its order.

    shape: stamped on all of them; "" reads each row's own. Raises InputError for a broken row, an empty question,
    an id that occurs twice, and evidence that names a passage not among `passages`.
    """
    reader = Reader(path)
    fields = FieldReader(names)
    first_line: dict[str, int] = {}
    rows: list[Question] = []
    place, record = Place(path, 0), dict[str, object]()
    for place, record in reader.records():
        row = _question(record, place, fields, shape, notes)
        if row.question_id in first_line:
            raise InputError(
                f"{place}: the question id {row.question_id!r} stands in line {first_line[row.question_id]} already; "
                'ids must be unique (1 and "1" are the same id)'
            )
        first_line[row.question_id] = place.line
        check_evidence(row, passages)
        if row.answers is None:
            notes["questions without accepted answers"] += 1
        rows.append(row)
    fields.finish(place, record, ("answers", "label", "evidence", "shape"))
    return Questions(rows, combine(reader.digest, fields.settled(), shape))


def question_table(rows: Iterable[Question]) -> pa.Table:
    """The rows with the schema tables.QUESTIONS."""
    kept = list(rows)
    columns: dict[str, list[object]] = {name: [getattr(row, name) for row in kept] for name in tables.QUESTIONS.names}
    return pa.table(columns, schema=tables.QUESTIONS)


def check_evidence(row: Question, passages: set[str]) -> None:
    """Raises InputError when the evidence names a passage that the corpora do not have."""
    unknown = sorted({name for needed in row.evidence or [] for name in needed} - passages)
    if unknown:
        raise InputError(
            f"{row.place}: question {row.question_id!r}: its evidence names passages that are in no corpus: "
            f"{', '.join(map(repr, unknown[:5]))}{', …' if len(unknown) > 5 else ''}; add the corpus that holds them, "
            "or give null where the evidence is unknown and [] where it is known to be absent"
        )


def _question(
    record: dict[str, object], place: Place, fields: FieldReader, shape: str, notes: Counter[str]
) -> Question:
    question_id = clean_id(fields.required(record, "question_id", place), place, "the question id")
    text = fields.required(record, "question", place)
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{place}: question {question_id!r}: the text of the question is empty, found {text!r:.80}")
    answers = fields.optional(record, "answers")
    if answers is None:
        answers = fields.optional(record, "label")
    nested = fields.has(record, "evidence")
    return Question(
        place=place,
        question_id=question_id,
        question=text,
        answers=_answers(answers, place, question_id, notes),
        evidence=_evidence(fields.optional(record, "evidence"), place, question_id),
        nested=nested,
        shape=shape or _shape(fields.optional(record, "shape"), place, question_id),
    )


def _answers(value: object, place: Place, question_id: str, notes: Counter[str]) -> list[str] | None:
    """A list of strings; one string or number is a list of one; null is null (not known); [] stays (none is right)."""
    if value is None or value == []:
        return None if value is None else []
    found: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        if item is None or (isinstance(item, str) and not item.strip()):
            notes["blank entries among accepted answers (dropped)"] += 1
        elif isinstance(item, str):
            found.append(item)
        elif isinstance(item, (int, float)):
            found.append(str(item).lower() if isinstance(item, bool) else str(item))
        else:
            raise InputError(f"{place}: question {question_id!r}: an accepted answer must be text, found {item!r:.80}")
    return found or None


def _evidence(value: object, place: Place, question_id: str) -> list[list[str]] | None:
    """Alternative sets of passage ids; a flat list is one set, a single id one set of one; null and [] stay."""
    if value is None:
        return None
    items = value if isinstance(value, list) else [value]
    if not any(isinstance(item, list) for item in items):
        items = [items] if items else []
    sets: list[list[str]] = []
    for item in items:
        if not isinstance(item, list) or not item or any(isinstance(entry, (list, dict)) for entry in item):
            raise InputError(
                f"{place}: question {question_id!r}: evidence must be a list of sets, each a list of passage ids "
                f'that is not empty, found {item!r:.80}; name another field with fields.evidence, or "-" to ignore it'
            )
        needed = [clean_id(entry, place, f"question {question_id!r}: a passage id in the evidence") for entry in item]
        unique = list(dict.fromkeys(needed))
        if unique not in sets:
            sets.append(unique)
    return sets


def _shape(value: object, place: Place, question_id: str) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and value in SHAPES:
        return value
    raise InputError(
        f"{place}: question {question_id!r}: unknown shape {value!r}{did_you_mean(str(value), SHAPES)}; "
        'set fields.shape to another field, or to "-" to ignore it'
    )
