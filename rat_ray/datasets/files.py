"""`dataset=files`: a folder with corpora, questions and relevance judgements, in BEIR's layout or near it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rat_ray.datasets.checks import check_choice, check_limit, check_name
from rat_ray.datasets.drafts import Needed
from rat_ray.datasets.fieldnames import FieldNames
from rat_ray.datasets.lookup import Lookup
from rat_ray.datasets.mapping import Mapper, check_unmapped, source_of
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.qrels import Relevant, check_known, read_qrels
from rat_ray.datasets.questions import SHAPES, Question, check_evidence, read_questions
from rat_ray.datasets.reading import resolve_file, resolve_files, resolve_folder
from rat_ray.datasets.source import Source
from rat_ray.datasets.wikipedia import AUTO, CorpusSettings
from rat_ray.errors import InputError

_QUESTIONS: Final = "questions.jsonl"
_QRELS: Final = "qrels.tsv"
_UNMAPPED: Final = ("stop", "missing", "drop")
_MEANINGS: Final = ("all", "any")
_WITHOUT: Final = ("leave_out", "unknown", "absent")

_ABSENT: Final = ("keep", "leave_out")

Limit = Callable[[list[Question], int], list[Question]]


@dataclass(frozen=True)
class FilesSettings:
    """Where the files are and what they mean.

    path: the folder. corpora, questions, qrels: files in it (or absolute paths; corpora also globs and folders); `.gz`
    is found by itself, and so are BEIR's queries.jsonl and qrels/test.tsv where the defaults are not there.
    qrels_file "": no judgements, then evidence is what the questions say, else unknown.
    qrels: a question with several relevant passages needs "all" of them (one set) or "any" (alternative sets of one).
    An `evidence` field in a question's row goes before the qrels: sets of passage ids, or of [title, sentence] pairs as
    FEVER has them. A page is met by any of its passages, or by those of them that the qrels name for the question.
    without_qrels: a question that has no relevant passage is left out (and counted), or its evidence is "unknown"
    (R missing) or "absent" (R = 0). absent: a question whose own row says that there is no evidence ([]) is kept
    (R = 0), or left out: "leave_out", as FEVER's claims without enough information should be.
    limit: keep the first n of the questions that are not left out; 0 keeps all.
    format, passages, window, stride: of the corpora; see `wikipedia.CorpusSettings`.
    unmapped: what happens when a corpus does not have what a question's evidence names: "stop" with an error,
    "missing" (the question's evidence is unknown), or "drop" (the sets that name it go, while another one is left).
    on_error: "stop" at a broken row, or "skip" (counted and listed).
    """

    kind: str = "files"
    name: str = "files"
    path: str = ""
    corpora: list[str] = field(default_factory=lambda: ["corpus.jsonl"])
    questions: str = _QUESTIONS
    qrels_file: str = _QRELS
    qrels: str = "all"
    min_score: int = 1
    without_qrels: str = "leave_out"
    absent: str = "keep"
    shape: str = ""
    limit: int = 0
    format: str = AUTO
    passages: str = "page"
    window: int = 3
    stride: int = 3
    unmapped: str = "stop"
    on_error: str = "stop"
    fields: FieldNames = field(default_factory=FieldNames)

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        check_name(self.name)
        check_choice("dataset.qrels", self.qrels, _MEANINGS)
        check_choice("dataset.without_qrels", self.without_qrels, _WITHOUT)
        check_choice("dataset.absent", self.absent, _ABSENT)
        check_choice("dataset.shape", self.shape, (*SHAPES, ""))
        check_limit(self.limit)
        if self.min_score < 1:
            raise InputError(f"dataset.min_score={self.min_score}: a score of 0 means 'not relevant'; give 1 or more")
        check_unmapped(self.unmapped, _UNMAPPED)
        self.corpus.validate()

    @property
    def corpus(self) -> CorpusSettings:
        """The settings of the passages."""
        return CorpusSettings(
            format=self.format,
            files=self.corpora,
            passages=self.passages,
            window=self.window,
            stride=self.stride,
            fields=self.fields,
            on_error=self.on_error,
        )

    @property
    def corpus_settings(self) -> dict[str, Any]:
        """What of the settings decides the passages, so that datasets with one corpus are known by it."""
        return self.corpus.about(self.path)


def source_files(settings: FilesSettings) -> list[Path]:
    """All files that `load` reads. Raises InputError for one that is not there."""
    folder = resolve_folder(settings.path, "dataset.path")
    qrels = _qrels_path(folder, settings.qrels_file)
    return [
        *resolve_files(folder, settings.corpora, "dataset.corpora"),
        _questions_path(folder, settings.questions),
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
    resolve_files(folder, settings.corpora, "dataset.corpora")
    questions_path = _questions_path(folder, settings.questions)
    qrels_path = _qrels_path(folder, settings.qrels_file)

    problems = Problems(settings.name, settings.on_error)
    questions = read_questions(questions_path, settings.fields, settings.shape, problems)
    relevant: Relevant = {}
    if qrels_path is not None:
        known = {row.question_id for row in questions}
        relevant = read_qrels(qrels_path, known, settings.min_score, problems)
    lookup = Lookup()
    for row in questions:
        for piece in row.pieces():
            lookup.need(piece)
    for passage in {passage for passages in relevant.values() for passage in passages}:
        lookup.need_id(passage)
    corpus = settings.corpus.open(folder)
    count = corpus.check(problems, lookup)

    if settings.unmapped == "stop":
        check_evidence(questions, lookup.has)
        if qrels_path is not None:
            check_known(qrels_path, relevant, lookup.has)
    rows = questions if qrels_path is None else _with_qrels(questions, relevant, settings, problems.left_out)
    if settings.absent == "leave_out":
        there = [row for row in rows if not (row.nested and row.evidence == [])]
        if len(there) < len(rows):
            problems.left_out["no evidence, by their own rows"] += len(rows) - len(there)
        rows = there
    if not rows:
        raise InputError(
            f"{questions_path}: no question is left ({dict(problems.left_out)}); see dataset.without_qrels"
        )
    kept = keep(rows, settings.limit) if settings.limit else rows
    if len(kept) < len(rows):
        problems.left_out["over the limit"] += len(rows) - len(kept)
    drafts = [row.draft() for row in kept]
    mapper = Mapper(lookup, False, problems)
    evidence = [mapper.map(draft, settings.unmapped, relevant.get(draft.question_id)) for draft in drafts]
    return source_of(settings.name, corpus, count, drafts, evidence, problems)


def first_questions(rows: list[Question], limit: int) -> list[Question]:
    """The first `limit` questions of the file."""
    return rows[:limit]


def _questions_path(folder: Path, name: str) -> Path:
    return resolve_file(folder, name, "dataset.questions", otherwise="queries.jsonl" if name == _QUESTIONS else "")


def _qrels_path(folder: Path, name: str) -> Path | None:
    if not name:
        return None
    otherwise = "qrels/test.tsv" if name == _QRELS else ""
    return resolve_file(folder, name, "dataset.qrels_file", ' (to "" if there are none)', otherwise)


def _with_qrels(
    rows: list[Question], relevant: Relevant, settings: FilesSettings, left_out: Counter[str]
) -> list[Question]:
    kept: list[Question] = []
    for row in rows:
        if row.nested:
            kept.append(row)
        elif row.question_id in relevant:
            needed = [Needed(passage_id=name) for name in relevant[row.question_id]]
            kept.append(row._replace(evidence=[needed] if settings.qrels == "all" else [[each] for each in needed]))
        elif settings.without_qrels == "leave_out":
            left_out["no qrels"] += 1
        else:
            kept.append(row._replace(evidence=None if settings.without_qrels == "unknown" else []))
    return kept
