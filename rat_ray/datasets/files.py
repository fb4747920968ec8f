"""`dataset=files`: a folder with corpora, questions and relevance judgements, in BEIR's layout or near it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rat_ray.datasets.corpus import Corpus
from rat_ray.datasets.fieldnames import FieldNames
from rat_ray.datasets.qrels import read_qrels
from rat_ray.datasets.questions import SHAPES, Question, question_table, read_questions
from rat_ray.datasets.reading import resolve_file, resolve_files, resolve_folder
from rat_ray.datasets.source import Source, combine
from rat_ray.errors import InputError, did_you_mean

_MEANINGS: Final = ("all", "any")
_WITHOUT: Final = ("leave_out", "unknown", "absent")

Limit = Callable[[list[Question], int], list[Question]]


@dataclass(frozen=True)
class FilesSettings:
    """Where the files are and what they mean.

    path: the folder. corpora, questions, qrels: files in it (or absolute paths; corpora also globs); `.gz` is found
    by itself. qrels_file "": no judgements, then evidence is what the questions say, else unknown.
    qrels: a question with several relevant passages needs "all" of them (one set) or "any" (alternative sets of one).
    An `evidence` field in a question's row goes before the qrels.
    without_qrels: a question that has no relevant passage is left out (and counted), or its evidence is "unknown"
    (R missing) or "absent" (R = 0).
    limit: keep the first n of the questions that are not left out; 0 keeps all.
    """

    kind: str = "files"
    name: str = "files"
    path: str = ""
    corpora: list[str] = field(default_factory=lambda: ["corpus.jsonl"])
    questions: str = "questions.jsonl"
    qrels_file: str = "qrels.tsv"
    qrels: str = "all"
    min_score: int = 1
    without_qrels: str = "leave_out"
    shape: str = ""
    limit: int = 0
    fields: FieldNames = field(default_factory=FieldNames)

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name) or self.name.isdigit():
            raise InputError(f"dataset.name={self.name!r}: use letters, digits, '_', '.', '-', and not digits only")
        _one_of("dataset.qrels", self.qrels, _MEANINGS)
        _one_of("dataset.without_qrels", self.without_qrels, _WITHOUT)
        _one_of("dataset.shape", self.shape, (*SHAPES, ""))
        if self.limit < 0:
            raise InputError(f"dataset.limit={self.limit}: give how many questions to keep, or 0 for all")
        if self.min_score < 1:
            raise InputError(f"dataset.min_score={self.min_score}: a score of 0 means 'not relevant'; give 1 or more")
        self.fields.validate()

    @property
    def corpus_settings(self) -> dict[str, Any]:
        """What of the settings decides the passages, so that datasets with one corpus are known by it."""
        names = {name: getattr(self.fields, name) for name in ("passage_id", "title", "text")}
        return {"kind": self.kind, "path": self.path, "corpora": self.corpora, "fields": names}


def source_files(settings: FilesSettings) -> list[Path]:
    """All files that `load` reads. Raises InputError for one that is not there."""
    folder = resolve_folder(settings.path, "dataset.path")
    qrels = _qrels_path(folder, settings.qrels_file)
    return [
        *resolve_files(folder, settings.corpora, "dataset.corpora"),
        resolve_file(folder, settings.questions, "dataset.questions"),
        *([] if qrels is None else [qrels]),
    ]


def load(settings: FilesSettings) -> Source:
    """Reads and checks everything once. Raises InputError for whatever is wrong, before any work starts."""
    return load_limited(settings, first_questions)


def load_limited(settings: FilesSettings, keep: Limit) -> Source:
    """`load` with another rule for which questions a limit keeps."""
    settings.validate()
    folder = resolve_folder(settings.path, "dataset.path")
    # All files are looked for before the first is read: a misspelt qrels file should not cost a pass over the corpus.
    corpus = Corpus(resolve_files(folder, settings.corpora, "dataset.corpora"), settings.fields)
    questions_path = resolve_file(folder, settings.questions, "dataset.questions")
    qrels_path = _qrels_path(folder, settings.qrels_file)

    notes: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    passages = corpus.check(notes)
    rows, questions_digest = read_questions(questions_path, settings.fields, settings.shape, passages, notes)
    qrels_digest = ""
    if qrels_path is not None:
        known = {row.question_id for row in rows}
        relevant, qrels_digest = read_qrels(qrels_path, known, passages, settings.min_score, notes)
        rows = _with_qrels(rows, relevant, settings, left_out)
    if not rows:
        raise InputError(f"{questions_path}: no question is left ({dict(left_out)}); see dataset.without_qrels")
    kept = keep(rows, settings.limit) if settings.limit else rows
    if len(kept) < len(rows):
        left_out["over the limit"] += len(rows) - len(kept)
    table = question_table(kept)
    meaning = json.dumps([settings.qrels, settings.without_qrels, settings.limit, keep.__name__])
    questions_digest = combine(questions_digest, qrels_digest, meaning)
    return Source(
        name=settings.name,
        digest=combine(corpus.digest, questions_digest),
        passages_digest=corpus.digest,
        questions_digest=questions_digest,
        num_passages=len(passages),
        num_questions=table.num_rows,
        read_questions=lambda: table,
        stream=corpus.stream,
        left_out=dict(left_out),
        notes=dict(notes),
    )


def first_questions(rows: list[Question], limit: int) -> list[Question]:
    """The first `limit` questions of the file."""
    return rows[:limit]


def _qrels_path(folder: Path, name: str) -> Path | None:
    return resolve_file(folder, name, "dataset.qrels_file", ' (to "" if there are none)') if name else None


def _with_qrels(
    rows: list[Question], relevant: dict[str, list[str]], settings: FilesSettings, left_out: Counter[str]
) -> list[Question]:
    kept: list[Question] = []
    for row in rows:
        if row.nested:
            kept.append(row)
            continue
        ids = relevant.get(row.question_id)
        if ids is not None:
            kept.append(row._replace(evidence=[ids] if settings.qrels == "all" else [[name] for name in ids]))
        elif settings.without_qrels == "leave_out":
            left_out["no qrels"] += 1
        else:
            kept.append(row._replace(evidence=None if settings.without_qrels == "unknown" else []))
    return kept


def _one_of(key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{key}={value!r}: unknown{did_you_mean(value, [choice for choice in choices if choice])}")
