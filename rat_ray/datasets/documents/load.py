"""From settings to a `Source`: questions first, then one pass over the documents."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Final

from rat_ray.datasets.corpus import Corpus
from rat_ray.datasets.documents.folder import Globs, find_documents
from rat_ray.datasets.documents.reader import DocumentFolder
from rat_ray.datasets.documents.settings import DocumentsSettings
from rat_ray.datasets.lookup import Lookup
from rat_ray.datasets.mapping import Mapper, source_of
from rat_ray.datasets.problems import Problems
from rat_ray.datasets.questions import check_evidence, read_questions
from rat_ray.datasets.reading import resolve_file, resolve_folder
from rat_ray.datasets.source import Source

# What decides, beside the files, which passages come out of them.
_LIBRARIES: Final = ("semantic_text_splitter", "markdown_it", "selectolax", "pypdfium2", "pypdfium2_raw")


def load(settings: DocumentsSettings) -> Source:
    """Reads and cuts all documents once, holding one at a time. Raises InputError for whatever is wrong."""
    settings.validate()
    folder = resolve_folder(settings.path, "dataset.path")
    path = resolve_file(folder, settings.questions, "dataset.questions")
    problems = Problems(settings.name, settings.on_error)
    questions = read_questions(path, settings.fields, settings.shape, problems)
    lookup = Lookup()
    for question in questions:
        for piece in question.pieces():
            lookup.need(piece)
    corpus = Corpus([DocumentFolder(folder, settings, path)], settings.on_error)
    count = corpus.check(problems, lookup)
    if settings.unmapped == "stop":
        check_evidence(questions, lookup.has)
    kept = [question.draft() for question in (questions[: settings.limit] if settings.limit else questions)]
    if len(kept) < len(questions):
        problems.left_out["over the limit"] += len(questions) - len(kept)
    mapper = Mapper(lookup, False, problems)
    evidence = [mapper.map(draft, settings.unmapped) for draft in kept]
    return source_of(settings.name, corpus, count, kept, evidence, problems)


def source_files(settings: DocumentsSettings) -> list[Path]:
    """The questions and the documents, and a file of each library that reads or cuts them.

    The last because another version of a library may cut otherwise: what was remembered about the files is then void.
    """
    folder = resolve_folder(settings.path, "dataset.path")
    questions = resolve_file(folder, settings.questions, "dataset.questions")
    include, exclude = Globs("dataset.include", settings.include), Globs("dataset.exclude", settings.exclude)
    found = find_documents(folder, include, exclude, questions.resolve(), Counter())
    return [questions, *(one.path for one in found), *_library_files()]


def _library_files() -> list[Path]:
    specs = (importlib.util.find_spec(name) for name in _LIBRARIES)
    return [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
