"""`dataset=hotpotqa`: HotpotQA's questions as published, over their own paragraphs or any snapshot of Wikipedia."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from rat_ray.datasets.arrays import ArrayReader
from rat_ray.datasets.benchmark import check_common, fields_of, question_text, with_on_error
from rat_ray.datasets.contexts import (
    CONTEXT,
    HotpotCorpusSettings,
    Names,
    OwnContexts,
    Paragraph,
    paragraphs,
    plain_title,
    readable,
)
from rat_ray.datasets.drafts import Draft, Needed
from rat_ray.datasets.mapping import load_drafts
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place, RowError, clean_id, resolve_file, resolve_files, resolve_folder
from rat_ray.datasets.source import Source

_FIELDS: Final = ("_id", "question", "answer", "supporting_facts", "context")
_HINT: Final = "set dataset.questions to HotpotQA's train or dev file"
_BEYOND: Final = "supporting facts with a sentence number beyond their paragraph (its page counts)"


@dataclass(frozen=True)
class HotpotqaSettings:
    """Where HotpotQA's files are and how they are read.

    path: the folder. questions: hotpot_dev_distractor_v1.json, hotpot_dev_fullwiki_v1.json or hotpot_train_v1.1.json in
    it, or the same objects one a line. corpus: with format "context" (the default) the paragraphs that come with all
    questions of the file, each once; else a snapshot, in which the supporting sentences are looked for by title and
    text. Both supporting paragraphs are needed.
    unmapped: what a question becomes when evidence of its is not in the corpus: "missing" (R is missing) or "drop".
    on_error: "stop" at a broken row of any file, or "skip" (counted, listed). limit: keep the first n; 0 keeps all.
    """

    kind: str = "hotpotqa"
    name: str = "hotpotqa"
    path: str = ""
    questions: str = "hotpot_dev_distractor_v1.json"
    corpus: HotpotCorpusSettings = field(default_factory=HotpotCorpusSettings)
    unmapped: str = "missing"
    on_error: str = "stop"
    limit: int = 0

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        check_common(self)

    @property
    def corpus_settings(self) -> dict[str, Any]:
        """What of the settings decides the passages."""
        return self.whole_corpus().about(self.path)

    def whole_corpus(self) -> HotpotCorpusSettings:
        """The corpus settings with the questions' own file where they name none."""
        corpus = with_on_error(self.corpus, self.on_error)
        own = corpus.format == CONTEXT and not corpus.files
        return replace(corpus, files=[self.questions]) if own else corpus


def source_files(settings: HotpotqaSettings) -> list[Path]:
    """All files that `load` reads. Raises InputError for one that is not there."""
    folder = resolve_folder(settings.path, "dataset.path")
    questions = _questions(settings, folder)
    return list(dict.fromkeys([questions, *settings.whole_corpus().paths(folder)]))


def load(settings: HotpotqaSettings) -> Source:
    """Reads and checks everything. Raises InputError for whatever is wrong with it."""
    settings.validate()
    folder = resolve_folder(settings.path, "dataset.path")
    source_files(settings)  # a misspelt file is told before the first is read
    corpus = settings.whole_corpus()
    questions = _questions(settings, folder)
    reader = ArrayReader(questions)
    if corpus.format == CONTEXT:
        corpus = OwnContexts(
            **{each.name: getattr(corpus, each.name) for each in fields(corpus)}, questions=questions.resolve()
        )
        # Only over the very file of the questions is the first paragraph of a title the one that the corpus names so.
        own = [path.resolve() for path in resolve_files(folder, corpus.files, "dataset.corpus.files")] == [
            corpus.questions
        ]
        drafts = partial(_drafts, reader, own, not own)
    else:
        drafts = partial(_drafts, reader, False, False)
    numbering = CONTEXT if corpus.format == CONTEXT else "hotpotqa"
    return load_drafts(
        settings.name, folder, corpus, drafts, unmapped=settings.unmapped, limit=settings.limit, numbering=numbering
    )


def _questions(settings: HotpotqaSettings, folder: Path) -> Path:
    return resolve_file(folder, settings.questions, "dataset.questions")


def _drafts(reader: ArrayReader, own: bool, by_text: bool, problems: Problems) -> Iterator[Draft]:
    """own: the corpus is the contexts of this very file. by_text: sentences are known by their texts, not numbers.

    The latter over contexts of several files: a second text under a title has other sentences at the same numbers.
    """
    names = Names()
    for place, record in reader.records(problems.broken):
        # Before anything else of the row: the corpus has the paragraphs of a row that is skipped, too.
        ids = {paragraph: names.of(paragraph)[0] for paragraph in readable(record, place, _reported)} if own else {}
        try:
            yield _draft(record, place, ids, by_text, problems)
        except RowError as error:
            problems.broken(error)


def _draft(
    record: Mapping[str, object], place: Place, ids: Mapping[Paragraph, str], by_text: bool, problems: Problems
) -> Draft:
    name, text, answered, supporting, _ = fields_of(record, _FIELDS, place, "HotpotQA's answered questions", _HINT)
    question_id = clean_id(name, place, "the question's _id")
    question = question_text(text, place, "question")
    answer = question_text(answered, place, "answer")
    facts = _facts(supporting, place, question_id)
    context = paragraphs(record, place, question_id)
    needed = [_needed(title, numbers, _of(context, title, numbers), ids, problems) for title, numbers in facts.items()]
    if by_text:
        needed = [piece._replace(sentences=()) if piece.texts else piece for piece in needed]
    return Draft(place, question_id, question, [answer], [needed], "two_hop")


def _facts(value: object, place: Place, question_id: str) -> dict[str, list[int]]:
    """Sentence numbers by the page's title."""
    if not isinstance(value, list) or not value:
        raise RowError(
            place,
            f"question {question_id!r}: supporting_facts must be a list that is not empty, found {value!r:.80}; "
            "the test files have none: set dataset.questions to a train or dev file",
        )
    facts: dict[str, list[int]] = {}
    for fact in value:
        match fact:
            case [str(title), int(number)] if title.strip() and number >= 0 and not isinstance(number, bool):
                facts.setdefault(plain_title(title), []).append(number)
            case _:
                raise RowError(
                    place,
                    f"question {question_id!r}: a supporting fact must be [title, sentence number], found {fact!r:.80}",
                )
    return facts


def _of(context: Iterable[Paragraph], title: str, numbers: Iterable[int]) -> Paragraph | None:
    """The paragraph of that title: of several the first that has all of the sentences, if one has, else the first."""
    titled = [paragraph for paragraph in context if paragraph.title == title]
    whole = (paragraph for paragraph in titled if max(numbers) < len(paragraph.sentences))
    return next(whole, titled[0] if titled else None)


def _reported(_: RowError) -> None:
    """A broken context is reported when the question is made."""


def _needed(
    title: str, numbers: list[int], paragraph: Paragraph | None, ids: Mapping[Paragraph, str], problems: Problems
) -> Needed:
    """The page, by its passage where that is known, else by the sentences, as texts where the question has them."""
    if paragraph is None:
        return Needed(title, sentences=tuple(dict.fromkeys(numbers)))
    there = [number for number in dict.fromkeys(numbers) if number < len(paragraph.sentences)]
    if len(there) < len(set(numbers)):
        problems.notes[_BEYOND] += 1
    if paragraph in ids:
        return Needed(title, ids[paragraph])
    texts = tuple(text for number in there if (text := paragraph.sentences[number].strip()))
    return Needed(title, texts=texts, sentences=tuple(there))
