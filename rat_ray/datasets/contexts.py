"""`corpus.format=context`: the paragraphs that HotpotQA's questions come with, all of them as one corpus."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from rat_ray.datasets.arrays import ArrayReader
from rat_ray.datasets.corpus import Corpus, Passage
from rat_ray.datasets.formats import FORMATS
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Broken, Place, RowError, resolve_files
from rat_ray.datasets.titles import readable_title
from rat_ray.datasets.wikipedia import AUTO, CorpusSettings
from rat_ray.errors import InputError, did_you_mean

CONTEXT: Final = "context"


class Paragraph(NamedTuple):
    """One paragraph of a question's context."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentences with one blank between them, however the file spaces them."""
        return " ".join(" ".join(sentence.split()) for sentence in self.sentences if sentence.strip())


def paragraphs(record: Mapping[str, object], place: Place, question_id: str) -> list[Paragraph]:
    """A question's `context`, [title, sentences] each. Raises RowError where it is anything else."""
    found = []
    context = record.get("context")
    if not isinstance(context, list):
        raise RowError(place, f"question {question_id!r}: context must be a list of paragraphs, found {context!r:.80}")
    for item in context:
        match item:
            case [str(title), [*sentences]] if title.strip() and all(isinstance(text, str) for text in sentences):
                found.append(Paragraph(plain_title(title), tuple(sentences)))
            case _:
                raise RowError(
                    place,
                    f"question {question_id!r}: a paragraph of its context must be [title, [sentence, …]], "
                    f"found {item!r:.80}",
                )
    return found


def plain_title(title: str) -> str:
    """A title of HotpotQA, which writes `&` as HTML does, as people read it."""
    return readable_title(html.unescape(title))


class Names:
    """Passage ids of paragraphs: the title, and `title#2` for a second text under one title.

    They depend on nothing but the order in which the texts of one title are first met, so two passes over the same
    files give the same ids. Of each text and title a hash is held, some 180 bytes in all.
    """

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}
        self._texts: dict[int, int] = {}

    def of(self, paragraph: Paragraph) -> tuple[str, bool]:
        """The id, and whether the paragraph is met for the first time."""
        text, title = _digest(paragraph.title, paragraph.text), _digest(paragraph.title)
        number = self._ids.get(text)
        new = number is None
        if number is None:
            number = self._texts.get(title, 0) + 1
            self._ids[text] = self._texts[title] = number
        return (paragraph.title if number == 1 else f"{paragraph.title}#{number}"), new


@dataclass(frozen=True)
class ContextFiles:
    """The paragraphs of files of questions, each title and text once. Made for one corpus, so `path` is the first.

    questions: the file of the dataset's own questions, whose broken items are reported when those are read.
    """

    paths: tuple[Path, ...]
    questions: Path | None = None
    format: str = CONTEXT

    @property
    def path(self) -> Path:
        """The first file, for messages."""
        return self.paths[0]

    def passages(self, problems: Problems) -> Iterator[Passage]:
        """In the order in which they are first met. A broken item of another file goes to `problems.broken`."""
        names = Names()
        for path in self.paths:
            broken = _ignore if path.resolve() == self.questions else problems.broken
            for place, record in ArrayReader(path).records(broken):
                for paragraph in readable(record, place, broken):
                    name, new = names.of(paragraph)
                    if new:
                        last = len(paragraph.sentences) - 1
                        yield Passage(place, name, paragraph.title, paragraph.text, name, 0, last)


@dataclass(frozen=True)
class HotpotCorpusSettings(CorpusSettings):
    """CorpusSettings with one more format, `context`: then `files` are the files of questions."""

    format: str = CONTEXT

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        known = (AUTO, CONTEXT, *FORMATS)
        if self.format not in known:
            raise InputError(f"corpus.format={self.format!r}: unknown{did_you_mean(self.format, known)}")
        if self.format != CONTEXT:
            super().validate()
            return
        replace(self, format=AUTO).validate()

    def open(self, folder: Path) -> Corpus:
        """The corpus, nothing read. Raises InputError for a file that is not there."""
        if self.format != CONTEXT:
            return super().open(folder)
        paths = resolve_files(folder, self.files, "dataset.corpus.files")
        return Corpus([ContextFiles(tuple(paths), self._reported())], self.on_error)

    def _reported(self) -> Path | None:
        """A file whose broken items are reported elsewhere."""
        return None


@dataclass(frozen=True)
class OwnContexts(HotpotCorpusSettings):
    """The corpus settings for one load. questions: the dataset's own file, in which the questions are read first."""

    questions: Path = Path()

    def _reported(self) -> Path | None:
        return self.questions


def readable(record: Mapping[str, object], place: Place, broken: Broken) -> list[Paragraph]:
    """`paragraphs`, or none where the context is broken, which `broken` is told."""
    try:
        return paragraphs(record, place, str(record.get("_id", "")))
    except RowError as error:
        broken(error)
        return []


def _digest(*parts: str) -> int:
    """64 bits of a hash that is the same in every process."""
    return int.from_bytes(hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest(), "big")


def _ignore(_: RowError) -> None:
    """Reported when the questions were read."""
