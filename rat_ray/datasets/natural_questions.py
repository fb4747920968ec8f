"""`dataset=natural_questions`: Natural Questions as open questions, in the files of its own, of DPR's or of KILT's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from rat_ray.datasets.benchmark import check_common, with_on_error
from rat_ray.datasets.checks import check_choice
from rat_ray.datasets.drafts import Draft
from rat_ray.datasets.mapping import load_drafts
from rat_ray.datasets.nq_evidence import evidence_of, question_key
from rat_ray.datasets.nq_files import QUESTION_FORMATS, read_questions
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import resolve_file, resolve_folder
from rat_ray.datasets.source import Source
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import InputError

_WITHOUT: Final = ("leave_out", "unknown")
_ALL, _FIRST = "all", "first"


def _psgs() -> CorpusSettings:
    return CorpusSettings(format="dpr", files=["psgs_w100.tsv"])


@dataclass(frozen=True)
class NaturalQuestionsSettings:
    """Where the files are and how they are read.

    path: the folder. questions: DPR's nq-dev.qa.csv or biencoder-nq-dev.json, NQ-open.dev.jsonl, or KILT's
    nq-dev-kilt.jsonl in it; format "auto" tells them by their content. evidence: DPR's biencoder-nq-dev.json (each
    positive passage is enough) or nq-test_gold_info.json, or KILT's file, joined to the questions by their text; "":
    what the questions' own file says (DPR's annotated and KILT's do).
    positives: of DPR's annotated questions, "all" positive passages or the "first", which people marked; most of the
    others were taken since they hold the answer's words.
    Splits: DPR's train and dev are of the train split of NQ-open, whose dev is DPR's test.
    split: goes into the ids of questions that have none (`dev-17`: the 17th line of the file); "": as the file's name
    says.
    without_evidence: questions for which no evidence is given are left out (and counted), or it is "unknown" (R
    missing). unmapped: what a question becomes when evidence of its is not in the corpus: "missing" (R is missing) or
    "drop" (its other alternatives count, if there are any).
    on_error: "stop" at a broken row of any file, or "skip" (counted, listed). limit: keep the first n; 0 keeps all.
    """

    kind: str = "natural_questions"
    name: str = "natural_questions"
    path: str = ""
    questions: str = "nq-dev.qa.csv"
    format: str = "auto"
    evidence: str = "biencoder-nq-dev.json"
    positives: str = _ALL
    split: str = ""
    corpus: CorpusSettings = field(default_factory=_psgs)
    without_evidence: str = "leave_out"
    unmapped: str = "missing"
    on_error: str = "stop"
    limit: int = 0

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        check_common(self)
        check_choice("dataset.format", self.format, ("auto", *QUESTION_FORMATS))
        check_choice("dataset.positives", self.positives, (_ALL, _FIRST))
        check_choice("dataset.without_evidence", self.without_evidence, _WITHOUT)

    @property
    def corpus_settings(self) -> dict[str, Any]:
        """What of the settings decides the passages."""
        return with_on_error(self.corpus, self.on_error).about(self.path)


def source_files(settings: NaturalQuestionsSettings) -> list[Path]:
    """All files that `load` reads. Raises InputError for one that is not there."""
    folder = resolve_folder(settings.path, "dataset.path")
    evidence = _evidence(settings, folder)
    return [
        *settings.corpus.paths(folder),
        _questions(settings, folder),
        *([] if evidence is None else [evidence]),
    ]


def load(settings: NaturalQuestionsSettings) -> Source:
    """Reads and checks everything. Raises InputError for whatever is wrong with it."""
    settings.validate()
    source_files(settings)  # a misspelt file is told before the first is read
    folder = resolve_folder(settings.path, "dataset.path")
    return load_drafts(
        settings.name,
        folder,
        with_on_error(settings.corpus, settings.on_error),
        partial(_drafts, settings, _questions(settings, folder), _evidence(settings, folder)),
        unmapped=settings.unmapped,
        limit=settings.limit,
        numbering="kilt",
    )


def _questions(settings: NaturalQuestionsSettings, folder: Path) -> Path:
    return resolve_file(folder, settings.questions, "dataset.questions")


def _evidence(settings: NaturalQuestionsSettings, folder: Path) -> Path | None:
    if not settings.evidence:
        return None
    return resolve_file(folder, settings.evidence, "dataset.evidence", ' (to "" if the questions bring it)')


def _drafts(
    settings: NaturalQuestionsSettings, questions: Path, evidence: Path | None, problems: Problems
) -> Iterator[Draft]:
    first = settings.positives == _FIRST
    rows = read_questions(questions, settings.format, settings.split, problems, first)
    if evidence is not None:
        rows = _joined(list(rows), evidence, problems, first)
    for row in rows:
        if row.evidence is None and settings.without_evidence == "leave_out":
            problems.left_out["no evidence given (without_evidence=unknown keeps them)"] += 1
            continue
        yield row


def _joined(rows: list[Draft], path: Path, problems: Problems, first: bool) -> Iterator[Draft]:
    """The questions with the evidence of the file. Raises InputError when the file has none of them."""
    wanted = {question_key(row.question) for row in rows}
    found = evidence_of(path, wanted, problems, first)
    if rows and not found:
        raise InputError(
            f"{path}: none of the {len(rows)} questions is in it, e.g. {rows[0].question!r} ({rows[0].place}); "
            "are both files of one split? Set dataset.evidence"
        )
    return (row._replace(evidence=found.get(question_key(row.question), row.evidence)) for row in rows)
