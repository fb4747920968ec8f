"""The evidence of Natural Questions, as DPR and KILT publish it, joined to questions by their text."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from rat_ray.datasets.arrays import ArrayReader
from rat_ray.datasets.benchmark import fields_of, question_text
from rat_ray.datasets.drafts import Needed
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place, RowError, clean_id

DPR_FILE: Final = "DPR's annotated questions"
DPR_FIELDS: Final = ("question", "answers", "positive_ctxs")
KILT_FILE: Final = "KILT's questions"
KILT_FIELDS: Final = ("id", "input", "output")
_QUOTES: Final = str.maketrans("‘’`´“”", "''''\"\"")
_HINT: Final = "set dataset.evidence to DPR's biencoder-nq-*.json or nq-*_gold_info.json, or to KILT's nq-*-kilt.jsonl"
_MOST_PARAGRAPHS: Final = 100_000

Sets = list[list[Needed]]


class _Row(NamedTuple):
    """One row of a file of evidence. questions: the spellings of its question."""

    questions: list[str]
    read: Callable[[], Sets]


def evidence_of(path: Path, wanted: set[str], problems: Problems, first: bool = False) -> dict[str, Sets]:
    """Of questions whose `question_key` is wanted, the alternative sets of evidence that the file gives.

    path: DPR's annotated questions (each positive passage is a set), DPR's gold passages, or KILT's questions; each row
    tells which. first: see `dpr_positives`. A broken row goes to `problems.broken`. A question that the file has twice
    has the evidence of both.
    """
    found: dict[str, Sets] = {}
    for place, record in ArrayReader(path).records(problems.broken):
        try:
            row = _row(record, place, first)
            keys = {question_key(question) for question in row.questions} & wanted
            sets = row.read() if keys else []
        except RowError as error:
            problems.broken(error)
            continue
        for key in keys:
            known = found.setdefault(key, [])
            known += [each for each in sets if each not in known]
    return {key: sets for key, sets in found.items() if sets}


def question_key(question: str) -> str:
    """The form in which two files' spellings of one question are equal: NFKC, case, quotes, blanks, a last `?`."""
    text = unicodedata.normalize("NFKC", question.translate(_QUOTES)).casefold()
    return " ".join(text.split()).rstrip("? ")


def dpr_positives(value: object, place: Place, first: bool = False) -> Sets:
    """Each positive passage as a set of its own. Raises RowError for what is none.

    first: only the first, which people marked; DPR's authors found most of the others by the answer's words.
    """
    if not isinstance(value, list):
        raise RowError(place, f"positive_ctxs must be a list of passages, found {value!r:.80}")
    found: list[Needed] = []
    for item in value:
        match item:
            case {"title": str(title), "text": str(text)} if title.strip() and text.strip():
                name = item.get("passage_id", item.get("psg_id"))
                passage_id = "" if name is None else clean_id(name, place, "a positive's passage_id")
                found.append(Needed(title, passage_id, (text,)))
            case _:
                raise RowError(place, f"a positive passage must have a title and a text, found {item!r:.80}")
    kept = list(dict.fromkeys(found))
    return [[needed] for needed in (kept[:1] if first else kept)]


def kilt_sets(outputs: object, place: Place, question_id: str) -> Sets:
    """The provenance of each output as one set, each set once. Raises RowError for what is none."""
    if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
        raise RowError(place, f"question {question_id!r}: output must be a list of objects, found {outputs!r:.80}")
    sets: dict[frozenset[Needed], list[Needed]] = {}
    for output in outputs:
        needed = list(dict.fromkeys(_provenance(output.get("provenance"), place, question_id)))
        if needed:
            sets.setdefault(frozenset(needed), needed)
    return list(sets.values())


def _row(record: Mapping[str, object], place: Place, first: bool) -> _Row:
    if "context" in record and "positive_ctxs" not in record:
        return _gold_row(record, place)
    if "input" in record:
        name, text, outputs = fields_of(record, KILT_FIELDS, place, KILT_FILE, _HINT)
        return _Row([question_text(text, place, "question")], lambda: kilt_sets(outputs, place, str(name)))
    text, _, positives = fields_of(record, DPR_FIELDS, place, DPR_FILE, _HINT)
    return _Row([question_text(text, place, "question")], lambda: dpr_positives(positives, place, first))


def _gold_row(record: Mapping[str, object], place: Place) -> _Row:
    """DPR's gold passages: the paragraph that annotators of Natural Questions marked, with its page."""
    text, title, context = fields_of(record, ("question", "title", "context"), place, "DPR's gold passages", _HINT)
    tokens = record.get("question_tokens")
    questions = [question_text(text, place, "question"), *([tokens] if isinstance(tokens, str) else [])]
    page, passage = question_text(title, place, "title"), question_text(context, place, "context")
    return _Row(questions, lambda: [[Needed(page, texts=(passage,))]])


def _provenance(value: object, place: Place, question_id: str) -> Iterator[Needed]:
    """Pages, each with the paragraphs from the first to the last that it names."""
    if value is None:
        return
    if not isinstance(value, list):
        raise RowError(place, f"question {question_id!r}: provenance must be a list, found {value!r:.80}")
    for item in value:
        match item:
            case {"wikipedia_id": str() | int() as page, "title": str(title)} if str(page).strip() and title.strip():
                yield Needed(title, str(page).strip(), sentences=_paragraphs(item, place, question_id))
            case _:
                # Not the id alone: over another corpus than KILT's it may be that of some other passage.
                raise RowError(
                    place,
                    f"question {question_id!r}: a provenance must name a wikipedia_id and a title, found {item!r:.80}",
                )


def _paragraphs(item: Mapping[str, Any], place: Place, question_id: str) -> tuple[int, ...]:
    first, last = item.get("start_paragraph_id"), item.get("end_paragraph_id")
    if not isinstance(first, int):
        return ()
    end = last if isinstance(last, int) and last >= first else first
    if first < 0 or end - first > _MOST_PARAGRAPHS:
        raise RowError(
            place, f"question {question_id!r}: no page has the paragraphs {first} to {end} of its provenance"
        )
    return tuple(range(first, end + 1))
