"""Questions from a JSONL file: text, accepted answers, evidence and shape, each checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from rat_ray.datasets.drafts import Draft, Needed
from rat_ray.datasets.fieldnames import FieldNames, FieldReader
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place, Reader, RowError, clean_id
from rat_ray.errors import InputError, did_you_mean

SHAPES: Final = ("claim", "two_hop", "open")


class Question(NamedTuple):
    """One question. nested: whether its evidence stands in its own row, and so goes before the qrels."""

    place: Place
    question_id: str
    question: str
    answers: list[str] | None
    evidence: list[list[Needed]] | None
    nested: bool
    shape: str | None

    def pieces(self) -> Iterator[Needed]:
        """All that its evidence names."""
        return (piece for needed in self.evidence or [] for piece in needed)

    def draft(self) -> Draft:
        """The same, as the mapping to a corpus takes it."""
        return Draft(self.place, self.question_id, self.question, self.answers, self.evidence, self.shape)


def read_questions(path: Path, names: FieldNames, shape: str, problems: Problems) -> list[Question]:
    """All questions of the file, in its order.

    shape: stamped on all of them; "" reads each row's own. Raises InputError for a broken row, an empty question and
    an id that occurs twice, unless problems skips it.
    """
    fields = FieldReader(names)
    first_line: dict[str, int] = {}
    rows: list[Question] = []
    place, record = Place(path, 0), dict[str, object]()
    for place, record in Reader(path).records(problems.broken):
        try:
            row = _question(record, place, fields, shape, problems.notes)
            _check_new(row, first_line)
        except RowError as error:
            fields.reject()
            problems.broken(error)
            continue
        fields.accept()
        first_line[row.question_id] = place.line
        if row.answers is None:
            problems.notes["questions without accepted answers"] += 1
        rows.append(row)
    if not rows:
        raise InputError(f"{path}: no row could be read, e.g. {problems.last_error}")
    fields.finish(place, record, ("answers", "label", "evidence", "shape"))
    return rows


def check_evidence(rows: Iterable[Question], known: Callable[[str], bool]) -> None:
    """Raises InputError when the evidence in a question's row names a passage that the corpora do not have."""
    for row in rows:
        unknown = sorted(
            {piece.passage_id for piece in row.pieces() if piece.passage_id and not known(piece.passage_id)}
        )
        if unknown:
            raise InputError(
                f"{row.place}: question {row.question_id!r}: its evidence names passages that are in no corpus: "
                f"{', '.join(map(repr, unknown[:5]))}{', …' if len(unknown) > 5 else ''}; add the corpus that holds "
                "them, give null where the evidence is unknown and [] where it is known to be absent, or set "
                "dataset.unmapped=missing"
            )


def _check_new(row: Question, first_line: dict[str, int]) -> None:
    if row.question_id in first_line:
        raise RowError(
            row.place,
            f"the question id {row.question_id!r} stands in line {first_line[row.question_id]} already; ids must be "
            'unique (1 and "1" are the same id)',
        )


def _question(
    record: dict[str, object], place: Place, fields: FieldReader, shape: str, notes: Counter[str]
) -> Question:
    question_id = clean_id(fields.required(record, "question_id", place), place, "the question id")
    text = fields.required(record, "question", place)
    if not isinstance(text, str) or not text.strip():
        raise RowError(place, f"question {question_id!r}: the text of the question is empty, found {text!r:.80}")
    answers = fields.optional(record, "answers")
    if answers is None:
        answers = fields.optional(record, "label")
    nested = fields.has(record, "evidence")
    return Question(
        place=place,
        question_id=question_id,
        question=text,
        answers=accepted_answers(answers, place, question_id, notes),
        evidence=_evidence(fields.optional(record, "evidence"), place, question_id),
        nested=nested,
        shape=shape or _shape(fields.optional(record, "shape"), place, question_id),
    )


def accepted_answers(value: object, place: Place, question_id: str, notes: Counter[str]) -> list[str] | None:
    """A list of strings; one string or number is a list of one; null is null (not known); [] stays (none is right)."""
    if value is None or value == []:
        return None if value is None else []
    found: list[str] = []
    for item in value if isinstance(value, list) else [value]:
        if _is_blank(item):
            notes["blank entries among accepted answers (dropped)"] += 1
        elif isinstance(item, str):
            found.append(item)
        elif isinstance(item, (int, float)):
            found.append(str(item).lower() if isinstance(item, bool) else str(item))
        else:
            raise RowError(place, f"question {question_id!r}: an accepted answer must be text, found {item!r:.80}")
    return found or None


def _is_blank(item: object) -> bool:
    """Whether it is no answer; NaN is what pandas and Python's json write for a missing one."""
    if isinstance(item, str):
        return not item.strip()
    return item is None or (isinstance(item, float) and not math.isfinite(item))


def _evidence(value: object, place: Place, question_id: str) -> list[list[Needed]] | None:
    """Alternative sets of passage ids, or of [title, sentence] pairs.

    Of ids, a flat list is one set and a single id one set of one; null and [] stay. What is named twice is named once.
    """
    if value is None:
        return None
    items = value if isinstance(value, list) else [value]
    if not any(isinstance(item, list) for item in items):
        items = [items] if items else []
    sets: list[list[Needed]] = []
    for item in items:
        if not isinstance(item, list) or not item or any(isinstance(entry, dict) for entry in item):
            raise RowError(place, _no_sets(item, question_id))
        pairs = [isinstance(entry, list) for entry in item]
        if any(pairs) and not all(pairs):
            raise RowError(place, _no_sets(item, question_id))
        needed = _pages(item, place, question_id) if any(pairs) else _passages(item, place, question_id)
        if needed not in sets:
            sets.append(needed)
    return sets


def _passages(item: list[object], place: Place, question_id: str) -> list[Needed]:
    what = f"question {question_id!r}: a passage id in the evidence"
    return [Needed(passage_id=name) for name in dict.fromkeys(clean_id(entry, place, what) for entry in item)]


def _pages(item: list[list[object]], place: Place, question_id: str) -> list[Needed]:
    """One piece for each page, with all of its sentences; a sentence that is null is not known."""
    pages: dict[str, list[int]] = {}
    for pair in item:
        title, sentence = pair if len(pair) == 2 else (None, None)
        whole = sentence is None or (isinstance(sentence, int) and not isinstance(sentence, bool))
        if not isinstance(title, str) or not title.strip() or not whole:
            raise RowError(
                place,
                f"question {question_id!r}: a pair in the evidence must be [title, sentence], found {pair!r:.80}",
            )
        numbers = pages.setdefault(title, [])
        if isinstance(sentence, int) and sentence not in numbers:
            numbers.append(sentence)
    return [Needed(title=title, sentences=tuple(numbers)) for title, numbers in pages.items()]


def _no_sets(item: object, question_id: str) -> str:
    return (
        f"question {question_id!r}: evidence must be a list of sets, each a list of passage ids (or of [title, "
        f'sentence] pairs) that is not empty, found {item!r:.80}; name another field with fields.evidence, or "-" to '
        "ignore it"
    )


def _shape(value: object, place: Place, question_id: str) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and value in SHAPES:
        return value
    raise RowError(
        place,
        f"question {question_id!r}: unknown shape {value!r}{did_you_mean(str(value), SHAPES)}; "
        'set fields.shape to another field, or to "-" to ignore it',
    )
