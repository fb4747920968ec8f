"""What the loaders of FEVER, HotpotQA and Natural Questions have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from rat_ray.datasets.checks import check_limit, check_name
from rat_ray.datasets.mapping import check_unmapped
from rat_ray.datasets.problems import check_on_error
from rat_ray.datasets.reading import Place, RowError
from rat_ray.datasets.wikipedia import CorpusSettings
from rat_ray.errors import did_you_mean

AnyCorpus = TypeVar("AnyCorpus", bound=CorpusSettings)


class Common(Protocol):
    """The settings that every benchmark has."""

    @property
    def name(self) -> str: ...
    @property
    def corpus(self) -> CorpusSettings: ...
    @property
    def unmapped(self) -> str: ...
    @property
    def on_error(self) -> str: ...
    @property
    def limit(self) -> int: ...


def check_common(settings: Common) -> None:
    """Raises InputError for a value of the common settings that cannot be meant."""
    check_name(settings.name)
    check_unmapped(settings.unmapped)
    check_on_error("dataset.on_error", settings.on_error)
    check_limit(settings.limit)
    settings.corpus.validate()


def with_on_error(corpus: AnyCorpus, on_error: str) -> AnyCorpus:
    """The corpus settings with the dataset's own on_error: "skip" in either place means all files of the dataset."""
    return replace(corpus, on_error=on_error) if on_error == "skip" else corpus


def fields_of(
    record: Mapping[str, object], names: Sequence[str], place: Place, what: str, hint: str
) -> tuple[object, ...]:
    """The values of these fields. what: which file a row with all of them is of; hint: the next step.

    Raises RowError where one is missing: before any value is looked at, so that another benchmark's file is told as
    such.
    """
    missing = [name for name in names if name not in record]
    if not missing:
        return tuple(record[name] for name in names)
    known = did_you_mean(missing[0], record)
    raise RowError(place, f"no field {missing[0]!r}{known}, so this is not a row of {what}; {hint}")


def question_text(value: object, place: Place, what: str) -> str:
    """A text that is not blank. Raises RowError for anything else."""
    if isinstance(value, str) and value.strip():
        return value
    raise RowError(place, f"the {what} must be text that is not empty, found {value!r:.80}")
