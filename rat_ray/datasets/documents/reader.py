"""All documents of a folder as one file of a corpus: one is read and cut at a time, and none is held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rat_ray.datasets.corpus import Passage
from rat_ray.datasets.documents.cut import Cutter
from rat_ray.datasets.documents.folder import Found, Globs, find_documents
from rat_ray.datasets.documents.html import read_html
from rat_ray.datasets.documents.markdown import read_markdown
from rat_ray.datasets.documents.parts import Document, Unreadable
from rat_ray.datasets.documents.pdf import WithoutText, read_pdf
from rat_ray.datasets.documents.settings import DocumentsSettings
from rat_ray.datasets.documents.text import read_text
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.reading import Place, RowError, shown
from rat_ray.errors import InputError

MARKDOWN: Final = (".md", ".markdown", ".mdown")
HTML: Final = (".html", ".htm", ".xhtml")
PDF: Final = ".pdf"


class DocumentPlace(Place):
    """A document, and with a line a page of it."""

    __slots__ = ()

    def __str__(self) -> str:
        path = shown(self.path)
        return f"{path}, page {self.line}" if self.line else path


class DocumentFolder:
    """A `corpus.PassageFile` over the documents that the settings find in a folder."""

    format = "documents"

    def __init__(self, folder: Path, settings: DocumentsSettings, questions: Path) -> None:
        self.path = folder
        self._settings = settings
        self._questions = questions.resolve()
        self._cutter = Cutter(settings.size, settings.overlap)

    def found(self, problems: Problems) -> list[Found]:
        """The documents. Raises InputError when there is none."""
        settings = self._settings
        include, exclude = Globs("dataset.include", settings.include), Globs("dataset.exclude", settings.exclude)
        found = find_documents(self.path, include, exclude, self._questions, problems.notes)
        if not found:
            raise InputError(
                f"{self.path}: no file matches dataset.include={settings.include}"
                f"{' and not dataset.exclude' if settings.exclude else ''}; hidden files and links are not read"
            )
        return found

    def passages(self, problems: Problems) -> Iterator[Passage]:
        """The passages of each document in turn, in the order of the documents' paths."""
        for one in self.found(problems):
            place = DocumentPlace(one.path, 0)
            try:
                document = self._read(one)
            except WithoutText as error:
                problems.listed(place, "PDF files without any text (images only), left out", error.reason)
                continue
            except Unreadable as error:
                self._unreadable(RowError(DocumentPlace(one.path, error.page), error.reason), problems)
                continue
            problems.notes["documents read"] += 1
            for page in document.blank_pages:
                place_of_page = DocumentPlace(one.path, page)
                problems.listed(place_of_page, "PDF pages without text (blank or images)", "this page has no text")
            if document.running:
                problems.notes["headers and footers of PDF pages left out (lines)"] += document.running
            for passage in self._cutter.passages(document, one.relative, Path(one.relative).stem):
                yield Passage(place, passage.passage_id, passage.title, passage.text)

    def _read(self, one: Found) -> Document:
        """Raises Unreadable for what gives no passages."""
        try:
            one.relative.encode()
        except UnicodeEncodeError as error:
            raise Unreadable("its name is not UTF-8; rename it") from error
        settings = self._settings
        suffix = one.path.suffix.lower()
        try:
            with one.path.open("rb") as file:
                data = b"" if suffix == PDF else file.read()
        except OSError as error:
            raise Unreadable(f"cannot be read ({error.strerror or error})") from error
        if suffix == PDF:
            return read_pdf(one.path)
        if suffix in MARKDOWN:
            document = read_markdown(data, settings.encoding, settings.by_heading)
        elif suffix in HTML:
            document = read_html(data, settings.encoding, settings.by_heading)
        else:
            document = read_text(data, settings.encoding)
        if not document.sections:
            raise Unreadable("it has no text; remove it, or leave it out with dataset.exclude")
        return document

    def _unreadable(self, error: RowError, problems: Problems) -> None:
        if self._settings.on_error != "skip":
            raise InputError(f"{error}; dataset.on_error=skip leaves out what cannot be read") from error
        problems.skipped += 1
        problems.last_error = str(error)
        problems.listed(error.place, "documents skipped (on_error=skip)", error.reason)
