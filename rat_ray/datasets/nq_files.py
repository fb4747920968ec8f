"""The files that Natural Questions come in as open questions: NQ-open's, DPR's two and KILT's."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from rat_ray.cells import next_row
from rat_ray.datasets.arrays import ArrayReader, array_in
from rat_ray.datasets.benchmark import fields_of, question_text
from rat_ray.datasets.checks import is_text
from rat_ray.datasets.drafts import Draft
from rat_ray.datasets.nq_evidence import DPR_FIELDS, DPR_FILE, KILT_FIELDS, KILT_FILE, dpr_positives, kilt_sets
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place, Reader, RowError, clean_id, json_object

_SPLIT: Final = re.compile(r"(?<![a-z])(train|dev|test)(?![a-z])")
_CSV_CELLS: Final = 2
_LOOKED_AT: Final = 100
_HINT: Final = "set dataset.questions and dataset.format"


def read_questions(path: Path, format: str, split: str, problems: Problems, first: bool = False) -> Iterator[Draft]:
    """All questions of the file. format: one of QUESTION_FORMATS, or "auto".

    split: for the ids of questions that have none; "": the word train, dev or test in the file's name, or all of it.
    Evidence is None where the file gives none. first: see `dpr_positives`. A broken row goes to `problems.broken`.
    """
    kind = _detect(path) if format == "auto" else format
    if kind == "dpr_json":
        return _dpr_json(path, split or _split_of(path), problems, first)
    return QUESTION_FORMATS[kind](path, split or _split_of(path), problems)


def _detect(path: Path) -> str:
    if array_in(path) == "item":
        return "dpr_json"
    seen = "dpr_csv"
    # Not by the first line alone, which may be broken.
    for place, line in islice(Reader(path).lines(lambda _: None), _LOOKED_AT):
        if not line.lstrip().startswith("{"):
            if len(line.split("\t")) == _CSV_CELLS:
                return "dpr_csv"
            continue
        seen = "nq_open"
        try:
            record = json_object(line, place)
        except RowError:
            continue
        if "input" in record or "output" in record:
            return "kilt"
        if "positive_ctxs" in record:
            return "dpr_json"
        if "question" in record:
            return "nq_open"
    return seen


def _split_of(path: Path) -> str:
    match = _SPLIT.search(path.name.lower())
    return match[0] if match else path.name.split(".")[0]


def _nq_open(path: Path, split: str, problems: Problems) -> Iterator[Draft]:
    def read(record: Mapping[str, object], place: Place) -> Draft:
        text, answers = fields_of(record, ("question", "answer"), place, "NQ-open", _HINT)
        question = question_text(text, place, "question")
        # By the line and not by a count: a row that is skipped must not move the ids of those after it.
        return Draft(place, f"{split}-{place.line}", question, _answers(answers, place), None, "open")

    return _each(Reader(path).records(problems.broken), read, problems)


def _dpr_json(path: Path, split: str, problems: Problems, first: bool = False) -> Iterator[Draft]:
    def read(record: Mapping[str, object], place: Place) -> Draft:
        text, answers, positives = fields_of(record, DPR_FIELDS, place, DPR_FILE, _HINT)
        question = question_text(text, place, "question")
        evidence = dpr_positives(positives, place, first) or None
        return Draft(place, f"{split}-{place.line}", question, _answers(answers, place), evidence, "open")

    return _each(ArrayReader(path).records(problems.broken), read, problems)


def _dpr_csv(path: Path, split: str, problems: Problems) -> Iterator[Draft]:
    for place, line in Reader(path).lines(problems.broken):
        try:
            yield _csv_row(line, place, split)
        except RowError as error:
            problems.broken(error)


def _csv_row(line: str, place: Place, split: str) -> Draft:
    try:
        cells = next_row(csv.reader([line.rstrip("\r\n")], delimiter="\t")) or []
    except csv.Error as error:
        raise RowError(place, f"broken TSV ({error}): {line.strip()!r:.80}") from error
    if len(cells) != _CSV_CELLS:
        raise RowError(
            place, f"expected a question and a list of answers with a tab between them, found {line!r:.80}; {_HINT}"
        )
    try:
        answers = ast.literal_eval(cells[1].strip())
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise RowError(place, f"the answers are no Python list of texts, found {cells[1]!r:.80}") from error
    question = question_text(cells[0], place, "question")
    return Draft(place, f"{split}-{place.line}", question, _answers(answers, place), None, "open")


def _kilt(path: Path, _split: str, problems: Problems) -> Iterator[Draft]:
    return _each(Reader(path).records(problems.broken), _kilt_row, problems)


def _kilt_row(record: Mapping[str, object], place: Place) -> Draft:
    name, text, outputs = fields_of(record, KILT_FIELDS, place, KILT_FILE, _HINT)
    question_id = clean_id(name, place, "the question's id")
    question = question_text(text, place, "question")
    if not isinstance(outputs, list) or not all(isinstance(output, dict) for output in outputs):
        raise RowError(place, f"question {question_id!r}: output must be a list of objects, found {outputs!r:.80}")
    answers = [output["answer"] for output in outputs if output.get("answer") is not None]
    sets = kilt_sets(outputs, place, question_id)
    if not answers and not sets:
        raise RowError(
            place,
            f"question {question_id!r}: neither an answer nor a provenance in its output; the test files have none: "
            "set dataset.questions to a train or dev file",
        )
    return Draft(place, question_id, question, _answers(answers, place) if answers else None, sets or None, "open")


def _answers(value: object, place: Place) -> list[str]:
    """Texts, each once. Raises RowError for anything else, and for none."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise RowError(place, f"the answers must be a list of texts that is not empty, found {value!r:.80}")
    if not all(is_text(item) for item in value):
        raise RowError(place, f"a lone surrogate (\\ud800 to \\udfff) is not text: {value!r:.80}")
    kept = list(dict.fromkeys(item for item in value if item.strip()))
    if not kept:
        raise RowError(place, f"the answers are all blank: {value!r:.80}")
    return kept


def _each(
    records: Iterator[tuple[Place, dict[str, object]]],
    read: Callable[[Mapping[str, object], Place], Draft],
    problems: Problems,
) -> Iterator[Draft]:
    for place, record in records:
        try:
            yield read(record, place)
        except RowError as error:
            problems.broken(error)


QUESTION_FORMATS: Final[Mapping[str, Callable[[Path, str, Problems], Iterator[Draft]]]] = {
    "nq_open": _nq_open,
    "dpr_csv": _dpr_csv,
    "dpr_json": _dpr_json,
    "kilt": _kilt,
}
