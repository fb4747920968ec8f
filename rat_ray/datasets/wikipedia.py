"""A corpus of passages in one of the formats that its owners publish: what a benchmark's `corpus` settings mean."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from rat_ray.datasets.checks import check_choice
from rat_ray.datasets.corpus import Corpus
from rat_ray.datasets.fieldnames import FieldNames
from rat_ray.datasets.formats import FORMATS, open_files
from rat_ray.datasets.pages import Cut
from rat_ray.datasets.problems import check_on_error
from rat_ray.datasets.reading import resolve_file, resolve_files
from rat_ray.errors import InputError

AUTO: Final = "auto"
PASSAGES: Final = ("page", "introduction", "sentences")


@dataclass(frozen=True)
class CorpusSettings:
    """The passages, e.g. a Wikipedia snapshot that several datasets share.

    format: auto (by the first row of each file) | jsonl | dpr (psgs_w100.tsv) | kilt (knowledge source) | fever
    (wiki-pages) | hotpotqa (abstracts dump).
    files: files, globs, or folders (all data files below), relative to the dataset's path or absolute. Any may be
    gzipped or bzip2ed.
    passages: of formats that hold pages (fever, kilt, hotpotqa): the whole "page", its "introduction" (the first
    paragraph; of fever, which holds introductions only, all of it), or windows of "sentences" (of kilt: paragraphs).
    window, stride: how many sentences a window holds and how many it moves on by.
    redirects: a file of "from<TAB>to" titles, for evidence by title; "": none.
    fields: of jsonl. on_error: "stop" at a broken row or "skip" (counted and listed).
    """

    format: str = AUTO
    files: list[str] = field(default_factory=list)
    passages: str = "page"
    window: int = 3
    stride: int = 3
    redirects: str = ""
    fields: FieldNames = field(default_factory=FieldNames)
    on_error: str = "stop"

    def validate(self) -> None:
        """Raises InputError for a value that cannot be meant."""
        check_choice("corpus.format", self.format, (AUTO, *FORMATS))
        check_choice("corpus.passages", self.passages, PASSAGES)
        if self.window < 1:
            raise InputError(f"corpus.window={self.window}: give how many sentences a passage holds, 1 or more")
        if not 1 <= self.stride <= self.window:
            raise InputError(f"corpus.stride={self.stride}: give 1 to window={self.window}; more would skip sentences")
        check_on_error("corpus.on_error", self.on_error)
        self.fields.validate()

    def about(self, path: str) -> dict[str, Any]:
        """What decides the passages, for a dataset's `corpus_settings`: equal for datasets with one snapshot.

        path: the dataset's folder, which relative file names are relative to.
        """
        files = [str((Path(path).expanduser() / Path(name).expanduser()).resolve()) for name in self.files]
        names = {name: getattr(self.fields, name) for name in ("passage_id", "title", "text")}
        return {**asdict(self), "files": files, "fields": names, "redirects": ""}

    def paths(self, folder: Path) -> list[Path]:
        """The corpus files, and the redirects if any. Raises InputError for one that is not there."""
        files = resolve_files(folder, self.files, "dataset.corpus.files")
        redirects = self.redirects_path(folder)
        return files if redirects is None else [*files, redirects]

    def redirects_path(self, folder: Path) -> Path | None:
        """The file of redirects, if one is named. Raises InputError when it is not there."""
        return resolve_file(folder, self.redirects, "dataset.corpus.redirects") if self.redirects else None

    def open(self, folder: Path) -> Corpus:
        """The corpus, its formats found out and nothing else read.

        Raises InputError for a file that is not there or whose first row is of no known format.
        """
        cut = Cut(self.passages, self.window, self.stride)
        files = resolve_files(folder, self.files, "dataset.corpus.files")
        return Corpus(open_files(files, self.format, cut, self.fields), self.on_error)
