"""`dataset=demo`: the passages and questions that come with the package (rat_ray/datasets/demo/)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rat_ray.datasets import files
from rat_ray.datasets.checks import check_limit
from rat_ray.datasets.files import FilesSettings, load_limited
from rat_ray.datasets.questions import Question
from rat_ray.datasets.source import Source


@dataclass(frozen=True)
class DemoSettings:
    """limit: how many questions to keep, 0 for all; spread evenly over the shapes, the first of each in the file."""

    kind: str = "demo"
    name: str = "demo"
    limit: int = 0

    def validate(self) -> None:
        """Raises InputError for a negative limit."""
        check_limit(self.limit)

    @property
    def corpus_settings(self) -> dict[str, Any]:
        """What of the settings decides the passages."""
        return {"kind": self.kind}


def load(settings: DemoSettings) -> Source:
    """Reads and checks the packaged files."""
    settings.validate()
    return load_limited(_files(settings), balanced_questions)


def source_files(settings: DemoSettings) -> list[Path]:
    """The packaged files."""
    return files.source_files(_files(settings))


def _files(settings: DemoSettings) -> FilesSettings:
    return FilesSettings(
        name=settings.name,
        path=str(Path(__file__).parent / "demo"),
        corpora=["passages.jsonl"],
        questions="questions.jsonl",
        qrels_file="",
        limit=settings.limit,
    )


def balanced_questions(rows: list[Question], limit: int) -> list[Question]:
    """`limit` questions, in turn from each shape (in the order of first appearance), returned in the file's order."""
    by_shape: dict[str | None, list[int]] = {}
    for index, row in enumerate(rows):
        by_shape.setdefault(row.shape, []).append(index)
    longest = max(map(len, by_shape.values()), default=0)
    turns = [indices[turn] for turn in range(longest) for indices in by_shape.values() if turn < len(indices)]
    return [rows[index] for index in sorted(turns[:limit])]
