"""Datasets: settings in, a checked `Source` of passages and questions out.

A new source is one file and one entry in DATASETS.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from rat_ray import tables
from rat_ray.datasets import documents, fever, files, hotpotqa, logs, natural_questions, packaged
from rat_ray.datasets.documents import DocumentsSettings
from rat_ray.datasets.fever import FeverSettings
from rat_ray.datasets.files import FilesSettings
from rat_ray.datasets.hotpotqa import HotpotqaSettings
from rat_ray.datasets.logs import LogsSettings
from rat_ray.datasets.natural_questions import NaturalQuestionsSettings
from rat_ray.datasets.packaged import DemoSettings
from rat_ray.datasets.source import Source
from rat_ray.errors import InputError, did_you_mean
from rat_ray.keys import key_of
from rat_ray.remembered import recall, remembered
from rat_ray.versions import code_digest

__all__ = [
    "DATASETS",
    "DatasetKind",
    "DemoSettings",
    "DocumentsSettings",
    "FeverSettings",
    "FilesSettings",
    "HotpotqaSettings",
    "LogsSettings",
    "NaturalQuestionsSettings",
    "Source",
    "load",
    "recall_source",
]

DatasetSettings = (
    FilesSettings
    | DemoSettings
    | DocumentsSettings
    | FeverSettings
    | HotpotqaSettings
    | LogsSettings
    | NaturalQuestionsSettings
)


class DatasetKind(NamedTuple):
    """What a `kind` of conf/dataset/*.yaml is.

    settings: its dataclass, whose `corpus_settings` say what decides the passages. load: reads and checks such a
    dataset. files: the files that load reads. answered: whether it brings the answers of a system that ran elsewhere.
    """

    settings: type[Any]
    load: Callable[[Any], Source]
    files: Callable[[Any], list[Path]]
    answered: bool = False


DATASETS: Final[Mapping[str, DatasetKind]] = {
    "demo": DatasetKind(DemoSettings, packaged.load, packaged.source_files),
    "documents": DatasetKind(DocumentsSettings, documents.load, documents.source_files),
    "files": DatasetKind(FilesSettings, files.load, files.source_files),
    "fever": DatasetKind(FeverSettings, fever.load, fever.source_files),
    "hotpotqa": DatasetKind(HotpotqaSettings, hotpotqa.load, hotpotqa.source_files),
    "logs": DatasetKind(LogsSettings, logs.load, logs.source_files, answered=True),
    "natural_questions": DatasetKind(NaturalQuestionsSettings, natural_questions.load, natural_questions.source_files),
}
_FACTS: Final = (
    *("digest", "passages_digest", "questions_digest", "answers_digest"),
    *("num_passages", "num_questions", "left_out", "notes"),
)
_PROBLEMS: Final = "problems"


def load(settings: DatasetSettings) -> Source:
    """The dataset that the settings describe, read and checked, or known from the last time that its files were.

    Raises InputError for whatever is wrong with it.
    """
    kind = _kind(settings)
    settings.validate()
    made: list[Source] = []

    def find() -> str:
        made.append(kind.load(settings))
        known = {name: getattr(made[0], name) for name in _FACTS}
        return json.dumps(known | {_PROBLEMS: made[0].problems().to_pylist()})

    facts = remembered(_about(settings), kind.files(settings), find)
    return made[0] if made else _known(settings, facts)


def recall_source(settings: DatasetSettings) -> Source | None:
    """The dataset as it is known from the last time, or None; reads none of its files.

    Raises InputError where a file is not there.
    """
    facts = recall(_about(settings), _kind(settings).files(settings))
    return None if facts is None else _known(settings, facts)


def _kind(settings: DatasetSettings) -> DatasetKind:
    kind = DATASETS.get(settings.kind)
    if kind is None:
        raise InputError(f"dataset.kind={settings.kind!r}: unknown{did_you_mean(settings.kind, DATASETS)}")
    return kind


def _about(settings: DatasetSettings) -> str:
    return json.dumps(["dataset by content", code_digest(), key_of(settings)], sort_keys=True)


def _known(settings: DatasetSettings, facts: str) -> Source:
    """A source whose rows are read, and everything checked again, when they are asked for."""
    known = json.loads(facts)
    problems = pa.Table.from_pylist(known.pop(_PROBLEMS, []), schema=tables.PROBLEMS)

    @cache
    def read() -> Source:
        source = _kind(settings).load(settings)
        if source.digest != known["digest"]:
            raise InputError(f"dataset {settings.name}: its files have changed; run the command again")
        return source

    def answers() -> pa.Table:
        found = read().answers
        assert found is not None, "a source with a digest of its answers has them"
        return found()

    return Source(
        name=settings.name,
        read_questions=lambda: read().questions(),
        answers=answers if known["answers_digest"] else None,
        stream=lambda: read().stream(),
        problems=lambda: problems,
        **known,
    )
