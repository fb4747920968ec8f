"""`dataset=fever`: FEVER's claims as published, over its own dump of Wikipedia or any other snapshot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from rat_ray.datasets.benchmark import check_common, fields_of, question_text, with_on_error
from rat_ray.datasets.drafts import Draft, Needed
from rat_ray.datasets.fever_sentences import with_texts
from rat_ray.datasets.mapping import load_drafts
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place, Reader, RowError, clean_id, resolve_file, resolve_files, resolve_folder
from rat_ray.datasets.source import Source
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import did_you_mean

SUPPORTS, REFUTES, NOT_ENOUGH_INFO = "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"
LABELS: Final = (SUPPORTS, REFUTES, NOT_ENOUGH_INFO)
_FIELDS: Final = ("id", "claim", "label", "evidence")
_HINT: Final = "set dataset.claims to FEVER's train or dev file"


def _wiki_pages() -> CorpusSettings:
    return CorpusSettings(format="fever", files=["wiki-pages"])


@dataclass(frozen=True)
class FeverSettings:
    """Where FEVER's files are and how they are read.

    path: the folder. claims: train.jsonl, shared_task_dev.jsonl or paper_dev.jsonl in it. corpus: the dump
    `wiki-pages`, or another snapshot. The claims name sentences by their number in the dump, which says nothing of
    another snapshot; wiki_pages: then the dump (files, globs or folders), in which the sentences' texts are read, so
    that they can be looked for; without it any passage of the page counts as evidence.
    include_nei: keep the claims labelled NOT ENOUGH INFO, with R = 0 by definition and no accepted answer
    (docs/datasets.md says why they are left out by default).
    unmapped: what a claim becomes when evidence of its is not in the corpus: "missing" (R is missing) or "drop" (its
    other alternatives count, if there are any).
    on_error: "stop" at a broken row of any file, or "skip" (counted, listed).
    limit: keep the first n of the claims that are not left out; 0 keeps all.
    """

    kind: str = "fever"
    name: str = "fever"
    path: str = ""
    claims: str = "shared_task_dev.jsonl"
    corpus: CorpusSettings = field(default_factory=_wiki_pages)
    wiki_pages: list[str] = field(default_factory=list)
    include_nei: bool = False
    unmapped: str = "missing"
    on_error: str = "stop"
    limit: int = 0

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        check_common(self)

    @property
    def corpus_settings(self) -> dict[str, Any]:
        """What of the settings decides the passages."""
        return with_on_error(self.corpus, self.on_error).about(self.path)


def source_files(settings: FeverSettings) -> list[Path]:
    """All files that `load` reads. Raises InputError for one that is not there."""
    folder = resolve_folder(settings.path, "dataset.path")
    return list(dict.fromkeys([*settings.corpus.paths(folder), _claims(settings, folder), *_dump(settings, folder)]))


def load(settings: FeverSettings) -> Source:
    """Reads and checks everything. Raises InputError for whatever is wrong with it."""
    settings.validate()
    folder = resolve_folder(settings.path, "dataset.path")
    source_files(settings)  # a misspelt file is told before the first is read
    drafts = partial(_drafts, Reader(_claims(settings, folder)), settings.include_nei, _dump(settings, folder))
    return load_drafts(
        settings.name,
        folder,
        with_on_error(settings.corpus, settings.on_error),
        drafts,
        unmapped=settings.unmapped,
        limit=settings.limit,
        numbering="fever",
    )


def _claims(settings: FeverSettings, folder: Path) -> Path:
    return resolve_file(folder, settings.claims, "dataset.claims")


def _dump(settings: FeverSettings, folder: Path) -> list[Path]:
    return resolve_files(folder, settings.wiki_pages, "dataset.wiki_pages") if settings.wiki_pages else []


def _drafts(reader: Reader, include_nei: bool, dump: list[Path], problems: Problems) -> Iterator[Draft]:
    drafts = _claims_of(reader, include_nei, problems)
    return with_texts(list(drafts), dump, problems) if dump else drafts


def _claims_of(reader: Reader, include_nei: bool, problems: Problems) -> Iterator[Draft]:
    for place, record in reader.records(problems.broken):
        try:
            draft, label = _draft(record, place)
        except RowError as error:
            problems.broken(error)
            continue
        if label == NOT_ENOUGH_INFO and not include_nei:
            problems.left_out["NOT ENOUGH INFO (include_nei=true keeps them)"] += 1
            continue
        yield draft


def _draft(record: Mapping[str, object], place: Place) -> tuple[Draft, str]:
    name, claim, label, evidence = fields_of(record, _FIELDS, place, "FEVER's labelled claims", _HINT)
    claim_id = clean_id(name, place, "the claim's id")
    text = question_text(claim, place, "claim")
    if not isinstance(label, str) or label not in LABELS:
        raise RowError(place, f"claim {claim_id}: unknown label {label!r}{did_you_mean(str(label), LABELS)}; {_HINT}")
    if label == NOT_ENOUGH_INFO:
        return Draft(place, claim_id, text, [], [], "claim"), label
    return Draft(place, claim_id, text, [label], _evidence(evidence, place, claim_id), "claim"), label


def _evidence(value: object, place: Place, claim_id: str) -> list[list[Needed]]:
    """Alternative sets in the file's order, each page once with its sentences; a set that occurs twice counts once."""
    if not isinstance(value, list) or not value:
        raise RowError(
            place, f"claim {claim_id}: evidence must be a list of sets that is not empty, found {value!r:.80}"
        )
    sets: dict[frozenset[Needed], list[Needed]] = {}
    for rows in value:
        needed = _needed(rows, place, claim_id)
        sets.setdefault(frozenset(needed), needed)
    return list(sets.values())


def _needed(rows: object, place: Place, claim_id: str) -> list[Needed]:
    pages: dict[str, set[int]] = {}
    for row in _rows(rows, place, claim_id):
        match row:
            case [_, _, str(page), int(sentence)] if page.strip() and sentence >= 0 and not isinstance(sentence, bool):
                pages.setdefault(page, set()).add(sentence)
            case _:
                raise RowError(
                    place,
                    f"claim {claim_id}: a row of evidence must be [annotation id, evidence id, page, sentence number], "
                    f"found {row!r:.80}",
                )
    return [Needed(title=page, sentences=tuple(sorted(sentences))) for page, sentences in pages.items()]


def _rows(rows: object, place: Place, claim_id: str) -> Iterable[object]:
    if isinstance(rows, list) and rows and all(isinstance(row, list) for row in rows):
        return rows
    raise RowError(
        place, f"claim {claim_id}: an evidence set must be a list of rows that is not empty, found {rows!r:.80}"
    )
