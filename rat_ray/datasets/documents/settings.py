"""What a person sets for a folder of documents."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field
from typing import Any, Final

from rat_ray.datasets.checks import check_limit, check_name
from rat_ray.datasets.documents.folder import Globs
from rat_ray.datasets.fieldnames import FieldNames
from rat_ray.datasets.mapping import check_unmapped
from rat_ray.datasets.problems import check_on_error
from rat_ray.datasets.questions import SHAPES
from rat_ray.errors import InputError, did_you_mean

SMALLEST_SIZE: Final = 50
UNMAPPED: Final = ("stop", "missing", "drop")
_INCLUDE: Final = ("*.txt", "*.md", "*.markdown", "*.html", "*.htm", "*.xhtml", "*.pdf")


@dataclass(frozen=True)
class DocumentsSettings:
    """Which files are read and how they are cut.

    path: the folder. include, exclude: globs (`Globs` says what they match). questions: a JSONL file in the folder or
    an absolute path.
    size: the most characters of a passage, overlap included. overlap: the most characters of the passage before that a
    passage begins with. by_heading: headings of Markdown and HTML begin a new passage and stand in its title.
    on_error: "stop" at a document that cannot be read or has no text, or "skip" it (counted and listed).
    unmapped: evidence in a question's row that names no passage (one that has been edited has a new id) stops, or is
    "missing" (unknown), or "drop"s its alternative set while another is left.
    encoding: of text, Markdown and HTML without a declared one. limit: keep the first n questions; 0 keeps all.
    """

    kind: str = "documents"
    name: str = "documents"
    path: str = ""
    include: list[str] = field(default_factory=lambda: list(_INCLUDE))
    exclude: list[str] = field(default_factory=list)
    questions: str = "questions.jsonl"
    size: int = 1000
    overlap: int = 0
    by_heading: bool = True
    encoding: str = "utf-8"
    on_error: str = "stop"
    unmapped: str = "stop"
    shape: str = ""
    limit: int = 0
    fields: FieldNames = field(default_factory=FieldNames)

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        check_name(self.name)
        if self.size < SMALLEST_SIZE:
            raise InputError(f"dataset.size={self.size}: a passage needs at least {SMALLEST_SIZE} characters")
        if not 0 <= self.overlap <= self.size // 2:
            raise InputError(f"dataset.overlap={self.overlap}: give 0 to {self.size // 2}, half of dataset.size")
        check_limit(self.limit)
        if self.shape and self.shape not in SHAPES:
            raise InputError(f"dataset.shape={self.shape!r}: unknown{did_you_mean(self.shape, SHAPES)}")
        check_unmapped(self.unmapped, UNMAPPED)
        check_on_error("dataset.on_error", self.on_error)
        _check_encoding(self.encoding)
        Globs("dataset.include", self.include)
        Globs("dataset.exclude", self.exclude)
        self.fields.validate()

    @property
    def corpus_settings(self) -> dict[str, Any]:
        """What of the settings decides the passages, so that datasets with one corpus are known by it."""
        names = ("kind", "path", "include", "exclude", "size", "overlap", "by_heading", "encoding", "on_error")
        # The questions file is never a document; that matters only where the globs would take it for one.
        taken = Globs("dataset.include", self.include).match(self.questions)
        return {**{name: getattr(self, name) for name in names}, "questions": self.questions if taken else ""}


def _check_encoding(name: str) -> None:
    try:
        codec = codecs.lookup(name)
        "a".encode(codec.name).decode(codec.name)
    except (LookupError, UnicodeError, TypeError) as error:
        raise InputError(
            f"dataset.encoding={name!r}: Python knows no such encoding of text; give utf-8, cp1252, shift_jis, …"
        ) from error
